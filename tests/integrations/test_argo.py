"""`mlgen argo`: the Workflow that runs a job, and the policies that it applies in place of Jobs."""

import re
import shlex
from functools import cache

import pytest
from click.testing import CliRunner
from support import ROOT, each_file, load, load_all, without_totals
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlgen.cli import main
from mlgen.documents.files import texts
from mlgen.integrations.argo import Form, argo
from mlgen.result import Options
from mlgen.runtime import plan as runtime_plan
from mlgen.runtime import step
from mlgen.variants import workflow as workflow_variant

COMMANDS = re.findall(
    r"^mlgen (argo job\.yaml[^|\n]*)",
    (ROOT / "docs/integrations/argo.md").read_text(),
    re.MULTILINE,
)
HEAD = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
PERMISSIONS = {"ServiceAccount", "Role", "RoleBinding"}


class Message(SingleFileSnapshotExtension):
    """One text file for each case: the output on stderr."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*words):
    done = CliRunner().invoke(main, ["argo", *map(str, words)], catch_exceptions=False)
    return done.exit_code, done.stdout, without_totals(done.stderr)


@cache
def printed(path, form=None):
    """The objects that the user applies, and the objects that the step applies, for one file."""
    parts, _ = argo(texts((str(path),)), Options(workflow=True), form or Form())
    text = "".join(parts)
    outer = load_all(text)
    inner = [
        load_all(item["data"]["manifests.yaml"])
        for item in outer
        if item["metadata"]["name"].endswith(".manifests")
    ]
    return outer, [item for items in inner for item in items]


@pytest.mark.parametrize("image", ["{{=toJson(workflow)}}", "{{workflow.uid}}", "python:3\\n"])
def test_no_image_is_an_expression_of_argo(image, tmp_path):
    """Argo would evaluate it with the permissions of the Workflow."""
    path = job_file(tmp_path, f'  helpers: {{pythonImage: "{image}"}}\n')

    status, stdout, stderr = run(path)

    assert (1, "") == (status, stdout)
    assert "spec.helpers.pythonImage: invalid value" in stderr


def parameters(item):
    (((step,),),) = (t["steps"] for t in item["spec"]["templates"])
    return {p["name"]: p["value"] for p in step["arguments"]["parameters"]}


def job_file(folder, spec, name="job"):
    path = folder / "job.yaml"
    roles = "" if "roles:" in spec else "  roles: {chief: {}, worker: {}}\n"
    words = f"metadata: {{name: {name}}}\nspec:\n  framework: tensorflow\n  image: i\n"
    path.write_text(f"{HEAD}{words}{roles}{spec}")
    return path


CASES = {
    "tensorflow-ps": [],
    "mpi-kubectl-exec": [],  # permissions of the launcher, which the step cannot grant
    "tensorflow-tensorboard": ["--no-workflow"],
    "generic-actors": ["--cron", "0 2 * * 6"],  # suspended, with a time to live
    "pytorch-ranks": ["--step"],  # its own exit codes
}


def test_one_workflow_runs_all_combinations_of_a_matrix(manifest):
    code, text, _ = run("fixtures/matrix/pytorch.yaml", "--parallelism", "2", "--fail-fast")

    assert code == 0
    assert text == manifest


def test_a_schedule_runs_all_combinations_of_a_matrix():
    words = ["fixtures/matrix/pytorch.yaml", "--parallelism", "2", "--cron", "@daily"]
    *others, item = load_all(run(*words)[1])

    assert {other["kind"] for other in others} == {"ConfigMap", "PersistentVolumeClaim"}
    assert (item["kind"], item["metadata"]["name"]) == ("CronWorkflow", "bert")
    (template,) = item["spec"]["workflowSpec"]["templates"]
    assert template["parallelism"] == 2
    assert "failFast" not in template
    assert len(template["steps"][0][0]["withItems"]) == 4


def test_combinations_with_other_parameters_are_items_with_these():
    matrix = "spec.runPolicy.backoffLimit=[1, 2]"
    words = ["fixtures/pytorch-torchrun.yaml", "--matrix", matrix, "--step"]

    (step,) = load(run(*words)[1])

    values = {each["name"]: each["value"] for each in step["arguments"]["parameters"]}
    assert values["backoff-limit"] == "{{item.backoff-limit}}"
    assert values["image"].startswith("python:")
    job = step["name"]
    assert step["withItems"][0] == {
        "job": f"{job}-backofflimit-1",
        "manifests": f"{job}-backofflimit-1.manifests",
        "backoff-limit": "1",
    }


def test_a_hash_in_the_names_of_combinations_is_in_that_of_the_workflow():
    suffix = ["--set", "metadata.nameSuffix=hash"]
    item = load_all(run("fixtures/matrix/pytorch.yaml", *suffix)[1])[-1]

    assert re.fullmatch("bert-[a-z0-9]{8}", item["metadata"]["name"])


@pytest.mark.parametrize(
    ("field", "values"), [("suspend", "[true, false]"), ("ttlSecondsAfterFinished", "[60, 120]")]
)
def test_policies_of_the_workflow_cannot_differ(field, values):
    matrix = f"spec.runPolicy.{field}={values}"
    code, _, err = run("fixtures/pytorch-torchrun.yaml", "--matrix", matrix)

    assert code == 1
    assert f"spec.runPolicy.{field}: this field differs between combinations" in err


def test_options_of_a_matrix_without_one_are_a_warning():
    code, _, err = run("fixtures/pytorch-torchrun.yaml", "--parallelism", "2")

    assert code == 0
    assert "--parallelism and --fail-fast have no effect" in err
    assert run("fixtures/matrix/pytorch.yaml", "--step", "--fail-fast")[0] == 2


@pytest.mark.parametrize("name", CASES)
def test_manifests(name, manifest):
    code, text, _ = run(f"fixtures/{name}.yaml", *CASES[name])

    assert code == 0
    assert text == manifest


@each_file()
def test_the_step_applies_everything_except_permissions_and_tensorboard(file, objects):
    outer, inner = printed(file)
    names = [
        (item["kind"], item["metadata"]["name"])
        for item in objects
        if not item["metadata"]["name"].endswith(
            ("-supervisor", ".supervisor", ".status", "-kueue")
        )
    ]
    beside, workflow = outer[:-2], outer[-1]

    assert [(o["kind"], o["metadata"]["name"]) for o in inner] == [
        (kind, name)
        for kind, name in names
        if kind not in {*PERMISSIONS, "Deployment", "PersistentVolumeClaim"}
        and not name.endswith("-tensorboard")
    ]
    assert len(beside) + len(inner) == len(names)
    assert workflow["kind"] == "Workflow"
    assert parameters(workflow)["manifests"] == outer[-2]["metadata"]["name"]


@each_file()
def test_only_objects_that_the_step_applies_have_the_label_of_the_job(file):
    outer, inner = printed(file)

    assert all("mlgen.dev/job" not in item["metadata"]["labels"] for item in outer[:-1])
    assert all("mlgen.dev/job" in item["metadata"]["labels"] for item in inner)


@each_file()
def test_the_workflow_replaces_ttl_cleanup_and_supervisor(file):
    _, inner = printed(file)
    specs = [item["spec"] for item in inner if item["kind"] in ("Job", "StatefulSet")]

    assert specs
    assert not [spec for spec in specs if "ttlSecondsAfterFinished" in spec]
    assert 0 not in [spec["replicas"] for spec in specs if "replicas" in spec]
    assert not [item for item in inner if item["metadata"]["name"].endswith("supervisor")]


@each_file()
def test_the_program_can_read_the_manifests_and_the_plan(file):
    """Its regular expressions find the same as PyYAML, and the place of each object's owner."""
    outer, inner = printed(file)
    (content,) = (o for o in outer if o["metadata"]["name"].endswith(".manifests"))
    documents = step.documents(content["data"]["manifests.yaml"])

    assert [step.head(text) for text in documents] == [
        (o["apiVersion"], o["kind"], o["metadata"]["name"]) for o in inner
    ]
    owned = load_all("---\n".join(step.owned(text, [{"uid": 1}]) for text in documents))
    assert [
        {**o, "metadata": {**o["metadata"], "ownerReferences": [{"uid": 1}]}} for o in inner
    ] == owned
    names = {o["metadata"]["name"] for o in inner if o["kind"] in ("Job", "StatefulSet")}
    assert names == {item.name for item in plan(outer).workloads}
    assert ("binaryData" in content) == ("supervisor-image" not in file.stem)


@pytest.mark.parametrize("restart", ["", "Never", "ExitCode"])
def test_any_failure_of_a_replica_fails_its_job(restart, tmp_path):
    """Also a preempted pod, because its peers would wait for it."""
    policy = f"  restartPolicy: {restart}\n" if restart else ""
    _, inner = printed(job_file(tmp_path, policy))
    jobs = [item["spec"] for item in inner if item["kind"] == "Job"]

    assert len(jobs) == 2
    for spec in jobs:
        assert spec["backoffLimit"] == 0
        assert "podFailurePolicy" not in spec
        assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("limit", "field"), [("backoffLimit", "backoffLimit"), ("backoffLimitPerIndex",) * 2]
)
def test_a_role_with_its_own_backoff_limit_retries_by_itself(limit, field, tmp_path):
    roles = f"  roles: {{chief: {{}}, worker: {{restartPolicy: ExitCode, {limit}: 2}}}}\n"
    _, inner = printed(job_file(tmp_path, roles))
    (worker,) = [o["spec"] for o in inner if o["metadata"]["name"] == "job-worker"]

    assert worker[field] == 2
    assert len(worker["podFailurePolicy"]["rules"]) == 2


def test_workers_of_dynamic_training_retry_by_themselves():
    _, inner = printed(ROOT / "fixtures/tensorflow-dynamic.yaml")
    (worker,) = [o["spec"] for o in inner if o["metadata"]["name"].endswith("-worker")]

    assert worker["maxFailedIndexes"] == worker["completions"]


def plan(outer):
    """Return the plan of the step, as its program reads it."""
    (config,) = (item for item in outer if item["metadata"]["name"].endswith(".manifests"))
    return runtime_plan.load(config["data"]["plan.json"], "uid")


def test_policies_of_the_job_become_parameters_and_a_plan(tmp_path):
    spec = """  restartPolicy: ExitCode
  retryableExitCodes: [143, 42]
  runPolicy:
    cleanPodPolicy: All
    backoffLimit: 2
    ttlSecondsAfterFinished: 60
    suspend: true
    restartScope: All
    giveUpAfter: {crashes: 3}
  helpers: {pythonImage: registry.example/python:1}
"""
    outer, _ = printed(job_file(tmp_path, spec))

    assert parameters(outer[-1]) == {
        "job": "job",
        "manifests": "job.manifests",
        "backoff-limit": "2",
        "image": "registry.example/python:1",
    }
    found = plan(outer)
    assert {(42, 143)} == {item.retryable for item in found.workloads}
    assert ("All", 3) == (found.clean_pod_policy, found.crashes)
    assert ((), None, ("job-chief",)) == (found.gang, found.ttl_seconds, found.deciding)
    assert outer[-1]["spec"]["ttlStrategy"] == {"secondsAfterCompletion": 60}
    assert outer[-1]["spec"]["suspend"] is True


def test_any_exit_code_restarts_the_job_unless_the_job_file_says_otherwise(tmp_path):
    roles = """  roles:
    chief: {}
    worker: {restartPolicy: ExitCode}
    ps: {restartPolicy: Always}
    evaluator: {restartPolicy: Never}
  retryableExitCodes: [3]
"""
    (tmp_path / "codes").mkdir()
    default, _ = printed(job_file(tmp_path, roles.rpartition("  retry")[0]))
    codes, _ = printed(job_file(tmp_path / "codes", roles))

    assert {"chief": "any", "worker": ">=128", "ps": "any", "evaluator": None} == {
        item.role: item.retryable for item in plan(default).workloads
    }
    assert {"chief": (3,), "worker": (3,), "ps": "any", "evaluator": None} == {
        item.role: item.retryable for item in plan(codes).workloads
    }


def test_the_first_back_off_becomes_a_parameter():
    _, text, _ = run("fixtures/jax.yaml", "--backoff-seconds", 30, "--step")
    (step,) = load(text)
    given = {p["name"]: p["value"] for p in step["arguments"]["parameters"]}

    assert "30" == given["backoff-seconds"]


def test_suspend_applies_to_the_schedule_and_not_to_its_workflows(tmp_path):
    path = job_file(tmp_path, "  runPolicy: {suspend: true}\n")
    outer, _ = printed(path, Form(schedule="@daily"))

    assert outer[-1]["kind"] == "CronWorkflow"
    assert outer[-1]["spec"]["suspend"] is True
    assert "suspend" not in outer[-1]["spec"]["workflowSpec"]


def test_several_jobs_and_another_object(tmp_path):
    claim = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}  # mine\n"
    (tmp_path / "data.yaml").write_text(claim)
    files = ["fixtures/pytorch-static.yaml", tmp_path / "data.yaml", "fixtures/jax.yaml"]

    _, text, _ = run(*files, "-n", "vision", "--set", "spec.runPolicy.backoffLimit=1")
    items = load_all(text)
    workflows = [item for item in items if item["kind"] == "Workflow"]

    assert claim in text
    assert ["bert", "t5x"] == [item["metadata"]["name"] for item in workflows]
    for item in workflows:
        assert item["metadata"]["namespace"] == "vision"
        assert parameters(item)["backoff-limit"] == "1"


def test_template_prints_the_steps_of_all_jobs_as_one_list():
    _, text, _ = run("fixtures/pytorch-static.yaml", "fixtures/jax.yaml", "--step")

    assert ["bert", "t5x"] == [step["name"] for step in load(text)]
    assert not text.startswith("---")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_docs_works(command):
    words = shlex.split(command.replace("job.yaml", "fixtures/tensorflow-ps.yaml"))[1:]

    assert (0, "") == (run(*words)[0], run(*words)[2])


def test_output_writes_a_file(tmp_path):
    _, text, _ = run("fixtures/jax.yaml")
    run("fixtures/jax.yaml", "-o", tmp_path / "jax.yaml")

    assert text == (tmp_path / "jax.yaml").read_text()


WARNED = {
    "never-and-on-failure": """  roles:
    chief: {restartPolicy: Never}
    worker: {restartPolicy: OnFailure}
    evaluator: {restartPolicy: ExitCode, backoffLimit: 2}
""",
    "never-and-exit-codes": """  restartPolicy: Never
  retryableExitCodes: [42, 143]
  roles:
    chief: {}
    worker: {restartPolicy: ExitCode}
""",
    "never-and-no-limit": """  restartPolicy: Never
  roles: {chief: {}, worker: {}}
  runPolicy: {backoffLimit: 0}
""",
}


def test_a_config_map_over_1_mib_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = "  roles: {chief: {}, worker: {replicas: 200}}\n  network: {host: true}\n"
    code, text, err = run(job_file(tmp_path, spec).name)

    assert (1, "") == (code, text)
    assert re.search(
        r"spec.roles: ConfigMap job.manifests has \d+ KiB, the limit is 1024 KiB;", err
    )
    assert "use fewer replicas [too-large]" in err


@pytest.mark.parametrize(("count", "status"), [(7_000, 0), (9_000, 1)])
def test_a_workflow_over_the_limit_of_argo_is_refused(count, status, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = f"&a {{key: example.com/a-long-name, value: {'v' * 60}, effect: NoSchedule}}"
    tolerations = ", ".join([first, *["*a"] * count])
    spec = f"  roles: {{chief: {{}}}}\n  helpers: {{tolerations: [{tolerations}]}}\n"

    code, _, err = run(job_file(tmp_path, spec).name)

    assert status == code
    assert bool(status) == ("KiB, the limit is 1024 KiB; set less in spec.helpers" in err)


@pytest.mark.parametrize("case", WARNED)
def test_policies_that_the_workflow_overrides_are_warned_about(
    case, tmp_path, monkeypatch, snapshot
):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(job_file(tmp_path, WARNED[case]).name)

    assert code == 0
    assert err == snapshot(extension_class=Message)


IGNORED = """  runPolicy:
    restartScope: All
    avoidNodes: Required
    forceDeleteAfterSeconds: 60
    restartMode: InPlace
    metricsPort: 9090
    networkPolicy: {}
    progress: {startSeconds: 60, stalledSeconds: 60, onStall: Restart}
"""


def test_ignored_policies_are_neither_in_the_plan_nor_in_the_program(tmp_path):
    objects = {}
    for policies in ("", IGNORED):
        path = job_file(tmp_path, policies)
        *_, config, workflow = load_all(run(path)[1])
        objects[policies] = config["data"]["plan.json"], config["binaryData"], workflow

    assert {*workflow_variant.IGNORED} <= {*re.findall(r"\w+(?=:)", IGNORED)}
    assert objects[""] == objects[IGNORED]


def test_a_step_warns_about_policies_of_the_workflow(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    spec = "  runPolicy: {suspend: true, ttlSecondsAfterFinished: 60}\n"
    _, _, err = run(job_file(tmp_path, spec).name, "--step")

    assert err == snapshot(extension_class=Message)


def test_a_name_too_long_for_a_cron_workflow(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    file = job_file(tmp_path, "", name="n" * 54).name

    assert 0 == run(file)[0]
    code, _, err = run(file, "--cron", "@hourly")
    assert (1, err) == (code, snapshot(extension_class=Message))


@pytest.mark.parametrize("schedule", ["0 2 * * 6", "*/5 0-6 1,15 JAN *", "@daily", "@every 1h30m"])
def test_a_valid_schedule_is_accepted(schedule):
    assert 0 == run("fixtures/jax.yaml", "--cron", schedule)[0]


@pytest.mark.parametrize("schedule", ["", "daily", "0 2 * *", "0 0 2 * * 6", "@"])
def test_an_invalid_schedule_is_rejected(schedule):
    code, _, err = run("fixtures/jax.yaml", "--cron", schedule)

    assert code == 2
    assert f"invalid schedule {schedule!r}; use a value such as '0 2 * * 6' or @daily" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--cron", "@daily", "--step"],
        ["--cron", "@daily", "--no-workflow"],
        ["--step", "--no-workflow"],
        ["--step", "--template"],
    ],
)
def test_the_options_that_choose_the_output_are_mutually_exclusive(options):
    code, _, err = run("fixtures/jax.yaml", *options)

    assert code == 2
    assert "--template, --cron, --step and --no-workflow are mutually exclusive" in err


def test_template_prints_the_objects_that_kustomize_builds_from_the_folder():
    names = load((ROOT / "argo/kustomization.yaml").read_text())["resources"]
    expected = [item for name in names for item in load_all((ROOT / "argo" / name).read_text())]

    code, text, err = run("--template")

    assert (code, load_all(text), err) == (0, expected, "")


def test_template_sets_the_namespace_of_the_option_or_of_the_site(tmp_path, monkeypatch):
    plain = load_all(run("--template")[1])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlgen.toml").write_text('namespace = "site"\n')

    for words, namespace in ([], "site"), (["-n", "null"], "null"), (["--no-config"], None):
        own = {} if namespace is None else {"namespace": namespace}
        expected = [item | {"metadata": item["metadata"] | own} for item in plain]
        assert load_all(run("--template", *words)[1]) == expected


def test_template_without_files_has_no_options_of_jobs():
    assert run("--template", "--backoff-seconds", 0)[0] == 2
    code, _, err = run()
    assert (2, True) == (code, "Missing argument 'FILE...'" in err)


def test_template_with_files_is_the_old_name_of_step():
    code, text, err = run("fixtures/jax.yaml", "--template")

    assert (code, text) == run("fixtures/jax.yaml", "--step")[:2]
    assert "--step: warning: its old name --template is deprecated; write --step" in err


def test_a_config_map_too_large_for_kubectl_apply_is_warned_about(tmp_path, monkeypatch):
    """The last-applied annotation would be too large, as for any other object."""
    monkeypatch.chdir(tmp_path)
    spec = f"  volumes: {{one: {{mountPath: /one, files: {{text: {'x' * 300_000}}}}}}}\n"
    code, _, err = run(job_file(tmp_path, spec))

    assert code == 0
    assert "ConfigMap job.manifests has" in err
    assert "kubectl apply --server-side" in err


@pytest.mark.parametrize("policy", ["suspend: true", "ttlSecondsAfterFinished: 0"])
@pytest.mark.parametrize(
    ("form", "warned"),
    [
        (Form(), False),
        (Form(schedule="@daily"), False),
        (Form(step=True), True),
        (Form(workflow=False), True),
    ],
)
def test_policies_of_the_workflow_are_ignored_without_one(policy, form, warned, tmp_path):
    path = job_file(tmp_path, f"  runPolicy: {{{policy}}}\n")
    _, problems = argo(texts((str(path),)), Options(workflow=True), form)

    assert [p.path for p in problems] == [("spec", "runPolicy", policy.split(":")[0])] * warned
    assert all(problem.warning for problem in problems)


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        (Form(), ["ConfigMap", "Workflow"]),
        (Form(schedule="@daily"), ["ConfigMap", "CronWorkflow"]),
        (Form(workflow=False), ["ConfigMap"]),
    ],
)
def test_the_workflow_comes_last(form, kinds):
    outer, _ = printed(ROOT / "fixtures/jax.yaml", form)

    assert [item["kind"] for item in outer] == kinds


@pytest.mark.parametrize(("length", "hint"), [(52, ""), (53, "1 character"), (54, "2 characters")])
def test_the_name_of_a_cron_workflow_has_at_most_52_characters(length, hint, tmp_path):
    path = job_file(tmp_path, "", name="n" * length)
    code, _, err = run(path, "--cron", "@daily")

    assert code == (1 if hint else 0)
    assert (f"; shorten the name by {hint} [name-too-long]" in err) == bool(hint)
