"""`mlgen show`: pages for people, one replica, and the job file with its defaults."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from support import FILES, FIXTURES, RESOURCES, ROOT, each_file
from support import manifests_text as text

from mlgen import Options, pipeline, show, validate
from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.kubernetes.versions import parse
from mlgen.output.terminal import columns, duration, named
from mlgen.show.defaults import whole
from mlgen.show.groups import spans


def jobs(name, **options):
    (file,) = (path for path in FILES if path.stem == name)
    return validate(str(file), Options(**options)).jobs


def rendered(name, **options):
    (job,) = jobs(name, **options)
    return replace(job, file=f"{name}.yaml")


def section(job, title):
    """Return the lines of the page of a job from a title to the next empty line."""
    _, found, rest = show.text([job]).partition(f"\n{title}")
    return f"{title}{rest}".rstrip().split("\n\n")[0].split("\n") if found else []


def run(*arguments):
    return CliRunner().invoke(main, ["show", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow-ps",
        "tensorflow-tensorboard",
        "mpi-kubectl-exec",
        "pytorch-restart-all",
        "pytorch-elastic",
        "pytorch-host-network",
        "generic-order",
        "generic-endings",
        "generic-limits",
        "ray-ttl",
        "jobset-jobset-v1alpha2-rules",
        "mpi_operator-mpijob-v2beta1",
    ],
)
def test_the_page_of_a_job(name, message):
    assert show.text([rendered(name)]) == message


@pytest.mark.parametrize("options", [{"supervisor": False}], ids=["without-supervisor"])
def test_the_page_of_a_job_without_supervisor(options, message):
    assert show.text([rendered("tensorflow-ps", **options)]) == message


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("tensorflow-ps", "worker-3"),
        ("pytorch-host-network", "rank-1"),
        ("pytorch-volumes", "worker-1"),
        ("mpi-ssh", "launcher"),
        ("generic-secrets", "main"),
    ],
)
def test_the_page_of_a_replica(name, replica, message):
    assert show.text([rendered(name)], replica) == message


def test_several_jobs_are_several_pages():
    pages = show.text(jobs("tensorflow-ps") * 2)

    assert pages.count("ROLE ") == 2
    assert "\n\nJob: " in pages


@pytest.mark.parametrize(
    ("name", "replica", "pod"),
    [
        ("tensorflow-ps", "worker/3", "mnist-worker-3-<random>, of Job mnist-worker"),
        ("tensorflow-ps", "mnist-worker-3", "mnist-worker-3-<random>, of Job mnist-worker"),
        ("tensorflow-ps", "chief", "mnist-chief-0-<random>, of Job mnist-chief"),
        ("tensorflow-ps", "ps-1", "mnist-ps-1, of StatefulSet mnist-ps"),
        ("pytorch-static", "master", "bert-rank-0-<random>, of Job bert-rank"),
        ("pytorch-static", "worker-2", "bert-rank-3-<random>, of Job bert-rank"),
        ("pytorch-static", "rank-3", "bert-rank-3-<random>, of Job bert-rank"),
        ("pytorch-host-network", "rank-2", "gan-rank-2-<random>, of Job gan-rank-2"),
    ],
)
def test_a_replica_has_several_names(name, replica, pod):
    first, *_ = show.text([rendered(name)], replica).splitlines()

    assert first.split(maxsplit=1) == ["Pod:", pod]


@pytest.mark.parametrize(("version", "avoids"), [("1.35", False), ("1.36", True)])
def test_a_restarted_gang_avoids_nodes_from_kubernetes_1_36_on(version, avoids):
    page = show.text([rendered("pytorch-restart-all", kube_version=parse(version))])

    assert avoids == (", and avoids the last three nodes with a failed replica" in page)


POLICY = ("spec", "runPolicy")
ALL = ((*POLICY, "restartScope"), "All")
MORE = "more than 6 failures with less than 1h of running between them"
IN_A_ROW = "3 failures in a row with the same exit code, each within 1m of running"


AGAIN = " with less than 1h of running between them"


@pytest.mark.parametrize(
    ("settings", "failures"),
    [
        ([ALL], [MORE, IN_A_ROW]),
        ([ALL, ((*POLICY, "giveUpAfter", "startFailures"), 0)], [MORE]),
        ([ALL, ((*POLICY, "backoffLimit"), 1)], [MORE.replace("6 failures", "1 failure")]),
        ([ALL, ((*POLICY, "backoffLimit"), 0)], []),
    ],
)
def test_the_failures_after_which_the_supervisor_ends_the_job(settings, failures):
    job = rendered("pytorch-torchrun", settings=tuple(settings))

    lines = [each.strip() for each in show.text([job]).splitlines() if "  ends the job" in each]
    assert lines == [
        *(f"ends the job after {each}" for each in failures),
        f"ends the job after more than 1,000 disruptions{AGAIN}",
        "ends the job if a container cannot be created for 6h",
    ]


def test_failures_count_forever_without_a_reset():
    job = rendered("pytorch-torchrun", settings=(ALL, ((*POLICY, "backoffResetSeconds"), 0)))

    assert "  ends the job after more than 6 failures\n" in show.text([job])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("ExitCode", "new pod, up to 6 times"),
        ("OnFailure", "new pod, up to 6 times"),
        ("Never", "job fails"),
    ],
)
def test_the_kubelet_may_reject_a_replica_that_restarts_alone(policy, expected):
    page = show.text(
        [rendered("pytorch-torchrun", settings=((("spec", "restartPolicy"), policy),))]
    )

    (line,) = [each for each in page.splitlines() if "rejected by the kubelet  " in each]
    assert line.endswith(f"  {expected}")


@pytest.mark.parametrize(("workers", "read"), [(9, "pods"), (10, "pods and Jobs")])
def test_a_supervisor_of_many_jobs_reads_all_jobs(workers, read):
    settings = ((("spec", "roles", "worker", "replicas"), workers),)
    page = show.text([rendered("pytorch-host-network", settings=settings)])

    assert f"by name, and to read the {read} of the namespace" in page


def test_where_a_pod_is_placed():
    spec = {
        "nodeSelector": {"gpu": "l4"},
        "tolerations": [{"key": "spot", "operator": "Exists"}, {"operator": "Exists"}],
        "priorityClassName": "high",
        "containers": [{"name": "logger", "image": "example/logger:1"}],
    }
    settings = (
        (("spec", "roles", "worker", "template"), {"spec": spec}),
        (("spec", "roles", "worker", "workingDir"), "/srv/my code"),
        (("spec", "scheduling", "spread"), {"key": "zone"}),
        (("spec", "runPolicy", "suspend"), True),
    )
    job = rendered("tensorflow-volcano", settings=settings)
    rows = [line.split(":", 1) for line in show.text([job], "worker-0").splitlines() if ":" in line]
    facts = {name.strip(): value.strip() for name, value in rows}

    assert facts["Scheduler"] == "volcano"
    assert facts["Priority"] == "high"
    assert facts["Node selector"] == "gpu=l4"
    assert facts["Tolerates"] == "spot, everything"
    assert facts["Placement"] == "affinity and topologySpreadConstraints: see mlgen render"
    assert facts["Working directory"] == "/srv/my code"
    assert "Container logger" in facts
    assert "Suspended:         yes, until you resume it" in show.text([job])


@pytest.mark.parametrize("replica", ["worker-4", "worker", "cheif", "worker-03x", "x"])
def test_a_wrong_replica_is_an_error_that_names_the_valid_ones(replica):
    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "--replica", replica)

    assert (result.exit_code, result.stdout) == (2, "")
    expected = f'mnist has no replica "{replica}"; write one of chief, ps-0…1, worker-0…3'
    assert expected in result.stderr


def test_a_replica_is_one_of_a_single_job():
    file = ROOT / "fixtures/tensorflow-ps.yaml"
    several = run(file, ROOT / "fixtures/tensorflow-single.yaml", "--replica", "ps-0")
    both = run(file, "--replica", "ps-0", "--defaults")

    assert "--replica needs a single job, but FILES contain 2" in several.stderr
    assert "--replica, --defaults and --program are mutually exclusive" in both.stderr
    assert run(file, "--replica", "ps-0").stdout.startswith("Pod: ")


def test_the_job_file_with_its_defaults(message):
    settings = ((("spec", "roles", "worker", "image"), "example/ddp:2"),)

    assert show.text([rendered("pytorch-restart-all", settings=settings)], defaults=True) == message


def test_a_value_from_the_command_line_is_marked_wherever_it_is():
    settings = ((("spec", "args", 1), "1e-4"), (("spec", "env"), {"A": "x"}))

    page = show.text([rendered("tensorflow-ps", settings=settings)], defaults=True)

    assert '  args: [--lr, "1e-4"]  # 1: from --set\n' in page
    assert "  env: {A: x}  # from --set\n" in page


def test_a_default_of_an_option_that_another_one_replaces_does_not_apply():
    page = show.text([rendered("xdl-number")], defaults=True)

    assert "minFinishWorkNum" in page
    assert "minFinishWorkRate" not in page


DIALECTS = {path.stem.partition("-")[0]: path for path in RESOURCES}
"""One custom resource of each dialect."""


@each_file(files=[*FIXTURES, *DIALECTS.values()])
def test_the_job_file_with_its_defaults_renders_to_the_same_bytes(file):
    parts = validate(str(file)).jobs
    if len(parts) > 1:
        return  # variants of one job
    (job,) = parts

    (again,) = pipeline.render([Text("defaults.yaml", whole(job))], Options()).jobs

    same = replace(again, prerequisites=job.prerequisites)
    assert text([same], "yaml") == text([job], "yaml")


@pytest.mark.parametrize(
    ("name", "level", "stricter"),
    [
        ("tensorflow-single", "baseline", "restricted"),
        ("pytorch-restricted", "restricted", None),
        ("pytorch-host-network", "privileged", "baseline"),
    ],
)
def test_pod_security_is_the_level_met_and_what_the_next_one_requires(name, level, stricter):
    first, *rest = section(rendered(name), "PodSecurity: ")

    assert f"PodSecurity: {level}{f'. {stricter} also requires:' if stricter else ''}" == first
    assert bool(rest) == bool(stricter)
    assert all(line.startswith("  spec.") for line in rest)


def test_limits_are_listed_if_they_are_not_what_is_requested():
    title = "Total limits: "

    assert section(rendered("pytorch-ranks"), title) == [f"{title}nvidia.com/gpu 3"]
    assert section(rendered("pytorch-static"), title) == []


def test_of_many_users_some_are_named():
    job = rendered("generic-actors")
    users = tuple(f"slice-{number}" for number in range(50))
    several = replace(job, prerequisites=(job.prerequisites[1]._replace(used_by=users),))

    _, _, line = section(several, "Prerequisites in the cluster:")
    assert "slice-0, slice-1, slice-2, slice-3, slice-4, and 45 more" in line
    assert section(rendered("tensorflow-single"), "Prerequisites in the cluster:") == []


def test_columns_are_as_wide_as_their_longest_text():
    assert columns([("A", "B"), ("long", "")], "  ") == ["  A      B", "  long"]


def test_texts():
    assert [duration(0), duration(90), duration(90061)] == ["0s", "1m30s", "1d1h1m1s"]
    assert [named([]), named(["a"]), named(["a", "b", "c"])] == ["", "a", "a, b and c"]
    assert spans([5, 3, 4, 1], "-") == "1, 3-5"
