"""`--as jobset`: one JobSet has the same pods as the job, and expresses its policies."""

import json
import re
from functools import cache

import pytest
from click.testing import CliRunner
from support import FIXTURES, ROOT, each_file, load_all, without_totals

from mlgen import MlgenError, Options, dialects, frameworks, objects, pipeline
from mlgen.checks.pods import workloads
from mlgen.checks.verify import verify
from mlgen.cli import main
from mlgen.documents.files import Text, texts
from mlgen.jobfile.parser import training_job
from mlgen.objects.labels import numbered
from mlgen.output.yaml import yaml_text
from mlgen.topology import INDEX_NAME
from mlgen.variants import jobset, name_hash

GOLDEN = ["tensorflow-clean-all", "pytorch-restart-all", "generic-order", "tensorflow-kueue"]
INDEX = rf"\d+|\[\d+-\d+\]|\$\({INDEX_NAME}\)"
REASONS = ("random names", "fixed name")

HEAD = """apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: %s
  image: i
"""


@pytest.fixture(autouse=True)
def in_project_folder(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@cache
def rendered(path):
    """The jobs in a file as JobSets; [] if JobSet cannot run them. They are cached."""
    try:
        return pipeline.render(texts((str(path),)), Options(jobset=True)).jobs
    except MlgenError as error:
        return [] if any(reason in str(error) for reason in REASONS) else pytest.fail(str(error))


def jobset_of(rendered):
    [item] = [item for item in rendered.objects if item["kind"] == "JobSet"]
    return item


def spec_of(tmp_path, text, framework="generic"):
    """The spec of the JobSet of a job file, and its warnings."""
    file = tmp_path / "job.yaml"
    file.write_text(HEAD % framework + text)
    result = pipeline.render(texts((str(file),)), Options(jobset=True))
    return jobset_of(result.jobs[0])["spec"], [str(each) for each in result.problems]


def built(topology):
    built = objects.build(topology)
    return name_hash.in_addresses(topology, built) if topology.job.part_of else built


def plain(job):
    """The pod templates of a rendered job without a JobSet, by the name of the replicated Job."""
    policies = jobset.JobSet().job(job.job)
    plain_job = policies._replace(jobset=False)
    topology = frameworks.get(plain_job.framework).topology(plain_job)
    by_name = workloads(built(topology))
    names = {numbered(role): role for role in topology.roles}
    prefix = f"{plain_job.name}-"
    return {name: by_name[prefix + name]["spec"]["template"] for name in names}


def converted(manifest):
    """The pod templates of a JobSet that mlgen renders as Jobs, by the name of the Job."""
    text = Text("jobset.yaml", yaml_text([manifest]))
    [document] = dialects.documents(text)
    native, _ = dialects.native(document)
    native, _ = frameworks.validate(native, Options().kube_version)
    job = training_job(native.data, None, supervisor=True, converted=True)
    topology = frameworks.get(job.framework).topology(job)
    return {name: item["spec"]["template"] for name, item in workloads(built(topology)).items()}


def comparable(template, job, roles):
    """A pod template with the addresses and index variables of a job without a JobSet.

    The order of variables and volumes does not matter. In Kubernetes, a limit is the default of its
    request. mlgen gives the index to the init containers of a custom resource.
    """
    text = json.dumps(template["spec"])
    names = "|".join(map(re.escape, sorted(roles, key=len, reverse=True)))
    text = re.sub(rf"\b({job}-(?:{names}))-0-({INDEX})(?![\w-])", r"\1-\2", text)
    text = re.sub(rf"\b({job}-(?:{names})-(?:{INDEX}))-0-0(?![\w-])", r"\1", text)
    text = text.replace("apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index")
    spec = json.loads(text)
    for name in ("hostname", "subdomain", "restartPolicy"):
        spec.pop(name, None)
    helpers = spec.get("initContainers", [])
    for container in helpers:
        container["env"] = [each for each in container.get("env", []) if each["name"] != INDEX_NAME]
    for container in (*spec["containers"], *helpers):
        for name in ("env", "volumeMounts"):
            container[name] = sorted(container.get(name, []), key=json.dumps)
        resources = container.get("resources", {})
        requests = {**resources.get("limits", {}), **resources.get("requests", {})}
        container["resources"] = {**resources, "requests": requests}
    if "volumes" in spec:
        spec["volumes"] = sorted(spec["volumes"], key=json.dumps)
    return spec


@each_file()
def test_a_jobset_has_the_same_pods_in_its_own_dialect(file):
    for job in rendered(file):
        manifest = jobset_of(job)
        name, roles = job.job.name, {role.name for role in job.topology.roles}
        expected = plain(job)
        found = converted(manifest)

        assert {f"{name}-{role}-0" for role in expected} <= set(found)
        for role, template in expected.items():
            of_jobset = found[f"{name}-{role}-0"]
            assert comparable(of_jobset, name, roles) == comparable(template, name, roles)


@pytest.mark.parametrize("name", GOLDEN)
def test_manifests(name, manifest):
    code, text, _ = run("render", f"fixtures/{name}.yaml", "--as", "jobset")

    assert code == 0
    assert text == manifest


@pytest.mark.parametrize("name", GOLDEN)
def test_warnings(name, message):
    code, text, stderr = run("show", f"fixtures/{name}.yaml", "--as", "jobset")

    assert code == 0
    assert "JobSet deletes the Jobs that still run." in text
    assert without_totals(stderr) == message


@each_file()
def test_no_other_object_replaces_the_jobset(file):
    for job in rendered(file):
        kinds = {item["kind"] for item in job.objects}
        names = {(item["kind"], item["metadata"]["name"]) for item in job.objects}

        assert not kinds & {"Job", "StatefulSet"}
        assert ("Service", job.job.name) not in names
        assert "jobsets.jobset.x-k8s.io" in {need.name for need in job.prerequisites}


TOGETHER = """
  roles: {a: {replicas: 2}, b: {%s}}
  runPolicy: {restartScope: %s, backoffLimit: 3}
  successPolicy: {role: a}
"""
UNCOUNTED = {
    "name": "disrupted",
    "action": "RestartJobSetAndIgnoreMaxRestarts",
    "onJobFailureReasons": ["PodFailurePolicy"],
}
PERMANENT = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
FINAL = {"name": "final", "action": "FailJobSet", "targetReplicatedJobs": ["b"]}


@pytest.mark.parametrize(
    ("fields", "scope", "rules"),
    [
        ("", "All", [UNCOUNTED]),
        (
            "retryableExitCodes: [3]",
            "All",
            [
                UNCOUNTED | {"onJobFailureMessagePatterns": [jobset.DISRUPTED]},
                PERMANENT | {"name": "permanent", "targetReplicatedJobs": ["b"]},
            ],
        ),
        ("restartPolicy: Never", "All", [UNCOUNTED, FINAL]),
        (
            "restartPolicy: ExitCode, restartScope: Replica",
            "All",
            [
                UNCOUNTED | {"onJobFailureMessagePatterns": [jobset.DISRUPTED]},
                PERMANENT | {"name": "permanent", "targetReplicatedJobs": ["b"]},
                FINAL,
            ],
        ),
        ("", "[a]", [UNCOUNTED | {"targetReplicatedJobs": ["a"]}, FINAL]),
    ],
)
def test_rules_of_a_gang(tmp_path, fields, scope, rules):
    spec, _ = spec_of(tmp_path, TOGETHER % (fields, scope))
    first = spec["replicatedJobs"][0]["template"]["spec"]

    assert spec["failurePolicy"] == {"maxRestarts": 3, "rules": rules}
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["a"]}
    assert first["backoffLimit"] == 0
    assert first["podFailurePolicy"]["rules"][0]["action"] == "FailJob"


def test_a_deadline_ends_a_gang(tmp_path):
    text = "  roles: {a: {}}\n  runPolicy: {restartScope: All, activeDeadlineSeconds: 60}\n"
    spec, problems = spec_of(tmp_path, text)

    assert spec["failurePolicy"]["rules"][-1]["onJobFailureReasons"] == ["DeadlineExceeded"]
    assert "starts again when JobSet restarts it" in problems[0]


ORDERED = """
  roles:
    c: {waitFor: [{role: b, until: Ready}]}
    b: {waitFor: [{role: a, until: Complete}], restartPolicy: Always}
    a: {}
  successPolicy: {role: c}
"""


def test_order(tmp_path):
    spec, _ = spec_of(tmp_path, ORDERED.replace("restartPolicy: Always", "replicas: 2"))
    before = {each["name"]: each.get("dependsOn") for each in spec["replicatedJobs"]}

    assert before == {
        "a": None,
        "b": [{"name": "a", "status": "Complete"}],
        "c": [{"name": "b", "status": "Ready"}],
    }
    assert [*before] == ["a", "b", "c"]


def test_a_role_that_serves_restarts_until_the_end(tmp_path):
    text = "  roles: {chief: {}, ps: {replicas: 2}}\n"
    spec, _ = spec_of(tmp_path, text, "tensorflow")
    ps = spec["replicatedJobs"][1]["template"]["spec"]

    assert ps["backoffLimit"] == 2**31 - 1
    assert ps["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_fields_of_the_jobset(tmp_path):
    policy = "suspend: true, ttlSecondsAfterFinished: 9, managedBy: kueue.x-k8s.io/multikueue"
    spec, problems = spec_of(tmp_path, f"  roles: {{a: {{}}}}\n  runPolicy: {{{policy}}}\n")

    assert (spec["suspend"], spec["ttlSecondsAfterFinished"]) == (True, 9)
    assert spec["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert not problems


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("avoidNodes: Required", "JobSet does not avoid the nodes"),
        ("avoidNodes: Never", ""),
        ("backoffResetSeconds: 60", "JobSet counts all restarts"),
        ("backoffResetSeconds: 0", ""),
        ("giveUpAfter: {startFailures: 2}", "only after maxRestarts"),
        ("progress: {stalledSeconds: 60}", "JobSet receives no reports of progress"),
        ("metricsPort: 9090", "JobSet's controller serves"),
        ("cleanPodPolicy: None", "JobSet stops all Jobs"),
        ("cleanPodPolicy: All", "JobSet keeps finished Jobs"),
        ("cleanPodPolicy: Running", ""),
    ],
)
def test_fields_that_a_jobset_does_not_have(tmp_path, fields, text):
    roles = "  roles: {a: {}, b: {}}\n  successPolicy: {role: a}\n"
    policy = f"  runPolicy: {{restartScope: All, {fields}}}\n"
    _, problems = spec_of(tmp_path, roles + policy)
    expected = [text, "at once"] if text else ["at once"]

    assert len(problems) == len(expected)
    assert all(part in each for part, each in zip(expected, problems, strict=True))
    assert all("[differs]" in each for each in problems)


@pytest.mark.parametrize(
    ("framework", "text", "message"),
    [
        ("mpi", "  roles: {launcher: {}, worker: {}}\n", "write transport: ssh"),
        ("elasticdl", "  roles: {master: {command: [python, -m, a]}}\n", "must have a fixed name"),
        (
            "generic",
            "  roles: {"
            + ", ".join(f"{c}: {{}}" for c in "abcdef")
            + ", z: {waitFor: ["
            + ", ".join(f"{{role: {c}, until: Complete}}" for c in "abcdef")
            + "]}}\n  successPolicy: {role: z}\n",
            "after at most 5 others, but z waits for 6",
        ),
        ("generic", f"  roles: {{{'r' * 50}: {{}}}}\n", "has 64 characters, the limit is 63"),
    ],
)
def test_jobs_that_jobset_cannot_run(tmp_path, framework, text, message):
    with pytest.raises(MlgenError, match=re.escape(message)):
        spec_of(tmp_path, text, framework)


def test_the_longest_name_of_a_pod(tmp_path):
    assert spec_of(tmp_path, f"  roles: {{{'r' * 49}: {{}}}}\n")


def test_the_queue_is_on_the_jobset():
    file = ROOT / "fixtures/tensorflow-kueue.yaml"
    manifest = jobset_of(rendered(file)[0])

    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "ads"
    assert "suspend" not in manifest["spec"]  # Kueue sets it
    assert "pod-group-name" not in json.dumps(manifest)
    for each in manifest["spec"]["replicatedJobs"]:
        labels = each["template"]["metadata"]["labels"]
        assert not any(name.startswith("kueue") for name in labels)


def test_a_queue_in_the_user_s_labels_is_on_the_jobset_alone(tmp_path):
    file = tmp_path / "job.yaml"
    queue = "kueue.x-k8s.io/queue-name"
    file.write_text((HEAD % "jax").replace("name: job", f"name: job, labels: {{{queue}: ads}}"))
    with file.open("a") as stream:
        stream.write("  roles: {worker: {replicas: 2}}\n")
    manifest = jobset_of(rendered(file)[0])

    assert manifest["metadata"]["labels"][queue] == "ads"
    (replicated,) = manifest["spec"]["replicatedJobs"]
    assert queue not in replicated["template"]["metadata"]["labels"]


def test_addresses_of_the_user(tmp_path):
    text = "  env: {PEER: job-a-1.job}\n  roles: {a: {replicas: 2}}\n"
    spec, _ = spec_of(tmp_path, text)

    assert "job-a-0-1.job" in json.dumps(spec)
    assert "job-a-1.job" not in json.dumps(spec)


@pytest.mark.parametrize("options", [("--for", "argocd"), ("--for", "flux")])
def test_combined_with_a_gitops_tool(options):
    code, _, stderr = run("render", "fixtures/jax.yaml", "--as", "jobset", *options)

    assert code == 2
    assert "--as jobset and --for are mutually exclusive" in stderr
    with pytest.raises(ValueError, match="cannot be combined"):
        Options(jobset=True, target=options[1])


def test_a_jobset_that_is_rendered_passes_through(tmp_path):
    _, text, _ = run("render", "fixtures/tensorflow-ps.yaml", "--as", "jobset")
    file = tmp_path / "manifests.yaml"
    file.write_text(text)

    code, again, _ = run("render", file, "--as", "jobset")
    changes, _, _ = run("diff", file, "fixtures/tensorflow-ps.yaml", "--as", "jobset")
    _, jobs, _ = run("render", file)

    assert (code, changes) == (0, 0)
    assert load_all(again) == load_all(text)
    assert "kind: Job\n" in jobs


def test_pages_show_the_addresses():
    options = ("fixtures/pytorch-ranks.yaml", "--as", "jobset")

    assert "gpt-worker-1-0-0.gpt" in run("show", *options, "--replica", "worker-1")[1]
    assert "such as gpt-master-0-0.gpt" in run("graph", *options)[1]


@each_file(files=FIXTURES)
def test_every_jobset_is_verified(file):
    for job in rendered(file):
        text = Text("manifests.yaml", yaml_text(job.objects))
        assert verify([text], job.kube_version).jobs


def test_verify_reports_a_changed_jobset():
    job = rendered(ROOT / "fixtures/tensorflow-ps.yaml")[0]
    text = yaml_text(job.objects).replace("mnist-ps-0-1.mnist", "mnist-ps-0-7.mnist")

    with pytest.raises(MlgenError, match=r'refers to the peer "mnist-ps-0-7"'):
        verify([Text("manifests.yaml", text)], job.kube_version)


@pytest.mark.parametrize(("replicas", "code"), [(200, "large-object"), (1000, "too-large")])
def test_a_jobset_that_is_too_large(tmp_path, replicas, code):
    roles = f"master: {{}}, worker: {{replicas: {replicas}, resources: {{cpu: 1}}}}"
    text = f"  command: [python, train.py]\n  roles: {{{roles}}}\n"
    try:
        _, problems = spec_of(tmp_path, text, "pytorch")
    except MlgenError as error:
        problems = [str(error)]

    assert f"[{code}]" in problems[0]
    assert "JobSet job has" in problems[0]
