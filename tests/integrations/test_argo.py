"""`mlgen argo`: what runs a job by Argo Workflows, and what its Workflow takes over."""

import re
import shlex
from functools import cache

import pytest
import yaml
from click.testing import CliRunner
from support import ROOT
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlgen.cli import main
from mlgen.documents.files import texts
from mlgen.integrations.argo import Form, argo
from mlgen.result import Options

COMMANDS = re.findall(
    r"^mlgen (argo job\.yaml[^|\n]*)", (ROOT / "docs/argo.md").read_text(), re.MULTILINE
)
HEAD = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
RIGHTS = {"ServiceAccount", "Role", "RoleBinding"}


class Message(SingleFileSnapshotExtension):
    """One text file for each case: what stands on standard error."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*words):
    done = CliRunner().invoke(main, ["argo", *map(str, words)], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@cache
def printed(path, form=None):
    """What is applied, and what the step applies, of one file."""
    text, _ = argo(texts((str(path),)), Options(workflow=True), form or Form())
    outer = list(yaml.safe_load_all(text))
    inner = [
        list(yaml.safe_load_all(item["data"]["manifests.yaml"]))
        for item in outer
        if item["metadata"]["name"].endswith("-manifests")
    ]
    return outer, [item for items in inner for item in items]


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
    "mpi-kubectl-exec": [],  # rights of the launcher, which the step may not give
    "tensorflow-tensorboard": ["--no-workflow"],
    "generic-actors": ["--cron", "0 2 * * 6"],  # suspended, with a time to live
    "pytorch-ranks": ["--template"],  # exit codes of its own
}


@pytest.mark.parametrize("name", CASES)
def test_manifests(name, manifest):
    code, text, _ = run(f"fixtures/{name}.yaml", *CASES[name])

    assert code == 0
    assert text == manifest


def test_the_step_applies_all_but_rights_and_tensorboard(any_file, render):
    outer, inner = printed(any_file)
    rendered = list(yaml.safe_load_all(render(any_file, supervisor=False)))
    names = [(item["kind"], item["metadata"]["name"]) for item in rendered]
    beside, workflow = outer[:-2], outer[-1]

    assert [(o["kind"], o["metadata"]["name"]) for o in inner] == [
        (kind, name)
        for kind, name in names
        if kind not in {*RIGHTS, "Deployment"} and not name.endswith("-tensorboard")
    ]
    assert len(beside) + len(inner) == len(names)
    assert workflow["kind"] == "Workflow"
    assert parameters(workflow)["manifests"] == outer[-2]["metadata"]["name"]


def test_cleaning_by_the_jobs_label_finds_only_what_the_step_applied(any_file):
    outer, inner = printed(any_file)

    assert all("mlgen.dev/job" not in item["metadata"]["labels"] for item in outer[:-1])
    assert all("mlgen.dev/job" in item["metadata"]["labels"] for item in inner)


def test_what_the_workflow_sees_to_is_not_left_to_jobs(any_file):
    _, inner = printed(any_file)
    for item in inner:
        assert "ttlSecondsAfterFinished" not in item["spec"] if item["kind"] == "Job" else True
        assert item["kind"] != "StatefulSet" or item["spec"]["replicas"] > 0
        assert not item["metadata"]["name"].endswith("-supervisor")


@pytest.mark.parametrize("restart", ["", "Never", "ExitCode"])
def test_a_failed_replica_ends_its_job_whatever_made_it_fail(restart, tmp_path):
    """A preempted pod too, whose peers would wait for it in vain."""
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
def test_a_role_with_a_limit_of_its_own_starts_again_by_itself(limit, field, tmp_path):
    roles = f"  roles: {{chief: {{}}, worker: {{restartPolicy: ExitCode, {limit}: 2}}}}\n"
    _, inner = printed(job_file(tmp_path, roles))
    (worker,) = [o["spec"] for o in inner if o["metadata"]["name"] == "job-worker"]

    assert worker[field] == 2
    assert len(worker["podFailurePolicy"]["rules"]) == 2


def test_replicas_without_which_training_goes_on_start_again_by_themselves():
    _, inner = printed(ROOT / "fixtures/tensorflow-dynamic.yaml")
    (worker,) = [o["spec"] for o in inner if o["metadata"]["name"].endswith("-worker")]

    assert worker["maxFailedIndexes"] == worker["completions"]


def test_the_jobs_own_policies_are_parameters(tmp_path):
    spec = """  restartPolicy: ExitCode
  retryableExitCodes: [143, 42]
  runPolicy: {cleanPodPolicy: All, backoffLimit: 2, ttlSecondsAfterFinished: 60, suspend: true}
  helpers: {kubectlImage: registry.example/kubectl:1}
"""
    outer, _ = printed(job_file(tmp_path, spec))

    assert parameters(outer[-1]) == {
        "job": "job",
        "manifests": "job-manifests",
        "backoff-limit": "2",
        "clean-pod-policy": "All",
        "retryable": "42 143",
        "image": "registry.example/kubectl:1",
    }
    assert outer[-1]["spec"]["ttlStrategy"] == {"secondsAfterCompletion": 60}
    assert outer[-1]["spec"]["suspend"] is True


def test_what_no_job_file_says_is_said_on_the_command_line():
    _, text, _ = run("fixtures/jax.yaml", "--backoff-seconds", 30, "--retry-oom", "--template")
    (step,) = yaml.safe_load(text)
    given = {p["name"]: p["value"] for p in step["arguments"]["parameters"]}

    assert ("30", "true") == (given["backoff-seconds"], given["retry-oom"])


def test_a_suspended_schedule_starts_nothing_and_its_workflows_do_not_wait(tmp_path):
    path = job_file(tmp_path, "  runPolicy: {suspend: true}\n")
    outer, _ = printed(path, Form(schedule="@daily"))

    assert outer[-1]["kind"] == "CronWorkflow"
    assert outer[-1]["spec"]["suspend"] is True
    assert "suspend" not in outer[-1]["spec"]["workflowSpec"]


def test_several_jobs_and_what_stands_beside_them(tmp_path):
    claim = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}  # mine\n"
    (tmp_path / "data.yaml").write_text(claim)
    files = ["fixtures/pytorch-static.yaml", tmp_path / "data.yaml", "fixtures/jax.yaml"]

    _, text, _ = run(*files, "-n", "vision", "--set", "spec.runPolicy.backoffLimit=1")
    items = list(yaml.safe_load_all(text))
    workflows = [item for item in items if item["kind"] == "Workflow"]

    assert claim in text
    assert ["bert", "t5x"] == [item["metadata"]["name"] for item in workflows]
    for item in workflows:
        assert item["metadata"]["namespace"] == "vision"
        assert parameters(item)["backoff-limit"] == "1"


def test_steps_of_several_jobs_are_one_list():
    _, text, _ = run("fixtures/pytorch-static.yaml", "fixtures/jax.yaml", "--template")

    assert ["bert", "t5x"] == [step["name"] for step in yaml.safe_load(text)]
    assert not text.startswith("---")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_docs_works(command):
    words = shlex.split(command.replace("job.yaml", "fixtures/tensorflow-ps.yaml"))[1:]

    assert (0, "") == (run(*words)[0], run(*words)[2])


def test_a_file_is_written_as_for_render(tmp_path):
    _, text, _ = run("fixtures/jax.yaml")
    run("fixtures/jax.yaml", "-o", tmp_path / "jax.yaml")

    assert text == (tmp_path / "jax.yaml").read_text()


INVALID = {
    "over-1-MiB": """  roles: {chief: {}, worker: {replicas: 200}}
  network: {host: true}
""",
    "different-exit-codes": """  roles:
    chief: {restartPolicy: ExitCode, retryableExitCodes: [42]}
    worker: {restartPolicy: ExitCode}
""",
    "names-that-are-taken": """  volumes:
    manifests: {mountPath: /one, files: {text: x}}
    status: {mountPath: /two, files: {text: x}}
""",
}

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


@pytest.mark.parametrize("case", INVALID)
def test_invalid(case, tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    code, text, said = run(job_file(tmp_path, INVALID[case]).name)

    assert (1, "") == (code, text)
    assert said == snapshot(extension_class=Message)


@pytest.mark.parametrize("case", WARNED)
def test_what_contradicts_the_workflow_is_said_to_lose(case, tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    code, _, said = run(job_file(tmp_path, WARNED[case]).name)

    assert code == 0
    assert said == snapshot(extension_class=Message)


def test_what_a_step_cannot_have(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    spec = "  runPolicy: {suspend: true, ttlSecondsAfterFinished: 60}\n"
    _, _, said = run(job_file(tmp_path, spec).name, "--template")

    assert said == snapshot(extension_class=Message)


def test_the_name_of_a_cron_workflow(tmp_path, monkeypatch, snapshot):
    monkeypatch.chdir(tmp_path)
    file = job_file(tmp_path, "", name="n" * 54).name

    assert 0 == run(file)[0]
    code, _, said = run(file, "--cron", "@hourly")
    assert (1, said) == (code, snapshot(extension_class=Message))


@pytest.mark.parametrize("schedule", ["0 2 * * 6", "*/5 0-6 1,15 JAN *", "@daily", "@every 1h30m"])
def test_schedules(schedule):
    assert 0 == run("fixtures/jax.yaml", "--cron", schedule)[0]


@pytest.mark.parametrize("schedule", ["", "daily", "0 2 * *", "0 0 2 * * 6", "@"])
def test_what_is_no_schedule(schedule):
    code, _, said = run("fixtures/jax.yaml", "--cron", schedule)

    assert code == 2
    assert "is not a schedule such as '0 2 * * 6' or @daily" in said


def test_one_form_at_a_time():
    code, _, said = run("fixtures/jax.yaml", "--cron", "@daily", "--template")

    assert code == 2
    assert "there can be one" in said


def test_the_large_set_is_warned_of(tmp_path, monkeypatch):
    """As for any object that is too large for what a plain kubectl apply remembers of it."""
    monkeypatch.chdir(tmp_path)
    spec = f"  volumes: {{one: {{mountPath: /one, files: {{text: {'x' * 300_000}}}}}}}\n"
    code, _, said = run(job_file(tmp_path, spec))

    assert code == 0
    assert "ConfigMap job-manifests has" in said
    assert "kubectl apply --server-side" in said
