"""`mlgen apply` and `mlgen rerun`: what is applied, left unchanged, refused, and repeated."""

import json
from pathlib import Path

import pytest
from support import FIXTURES, RESOURCES, each_file

import mlgen
from mlgen import pipeline
from mlgen.apply import source, stored_job

SOURCE, OWNER = "mlgen.dev/source", "mlgen.dev/owner"


def annotations(cluster, name):
    return {
        key: value
        for item in cluster.objects
        if item["metadata"]["name"] == name
        for key, value in item["metadata"].get("annotations", {}).items()
    }


def sent(cluster):
    """Return the names of the objects that were applied."""
    texts = [stdin for words, _, stdin in cluster.requests if words.startswith("apply")]
    return [item["metadata"]["name"] for text in texts for item in json.loads(text)["items"]]


@pytest.fixture
def applied(cluster, run):
    """The job ddp, which runs after `mlgen apply`."""
    assert run("apply", "ddp.yaml")[0] == 0
    cluster.requests.clear()
    return cluster


@pytest.fixture
def ended(applied):
    (job,) = [item for item in applied.objects if item["metadata"]["name"] == "ddp-rank"]
    end = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    job["status"] = {"conditions": [end], "succeeded": 3}
    return applied


def test_a_new_job_is_applied_by_its_own_field_manager(cluster, run):
    status, stdout, stderr = run("apply", "ddp.yaml")

    assert (status, stdout) == (0, "ddp created\n")
    assert "job/ddp-rank applied\n" in stderr
    assert "apply --server-side --field-manager=mlgen -f -" in cluster.calls
    assert {item["metadata"]["name"] for item in mlgen.render("ddp.yaml")} == set(sent(cluster))
    assert annotations(cluster, "ddp-rank")[OWNER] == "ada@example.com"
    assert json.loads(annotations(cluster, "ddp-rank")[SOURCE])["kubeVersion"] == "1.34"
    assert SOURCE not in annotations(cluster, "ddp-supervisor")


def test_missing_prerequisites_are_reported_before(run, tmp_path):
    file = tmp_path / "job.yaml"
    text = Path("oom.yaml").read_text()
    file.write_text(f"{text}  envFrom: [{{secretRef: {{name: hub}}}}]\n")

    stderr = run("apply", str(file))[2]

    first = stderr.splitlines()[0]
    assert first.startswith("Secret hub does not exist, and ")


def test_the_same_job_is_unchanged(applied, run):
    assert run("apply", "ddp.yaml") == (0, "ddp unchanged\n", "")
    assert sent(applied) == []


def test_a_job_that_has_ended_does_not_start_again(ended, run):
    expected = "ddp ended: Succeeded; to run it again: mlgen rerun ddp\n"

    assert run("apply", "ddp.yaml") == (0, expected, "")
    assert sent(ended) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("spec.image=example/train:2", "spec.template is immutable"),
        ("spec.runPolicy.suspend=true", "stops 3 pods"),
    ],
)
def test_a_change_that_stops_a_running_job_is_refused(applied, run, change, reason):
    status, stdout, stderr = run("apply", "ddp.yaml", "--set", change)

    assert (status, stdout) == (1, "")
    assert "this change would stop it: Job vision/ddp-rank: " in stderr
    assert reason in stderr
    assert stderr.endswith(
        "to delete it, wait for its pods, and apply it again, use --replace [kubectl]\n"
    )
    assert sent(applied) == []


def test_another_change_is_applied_and_shown(applied, run):
    words = ("--set", "metadata.annotations.team=vision")

    status, stdout, stderr = run("apply", "ddp.yaml", *words)

    assert (status, stdout) == (0, "ddp changed\n")
    assert "metadata.annotations[team]: (not set) -> vision" in stderr
    assert annotations(applied, "ddp-rank")["team"] == "vision"


def test_a_changed_job_that_has_ended_needs_replace(ended, run):
    change = ("--set", "spec.image=example/train:2")

    assert "ddp has ended (Succeeded)" in run("apply", "ddp.yaml", *change)[2]
    assert run("apply", "ddp.yaml", *change, "--replace")[:2] == (0, "ddp replaced\n")
    deleted = {item["metadata"]["name"] for item in ended.deleted}
    assert {"ddp-rank", "ddp-supervisor", "ddp.status"} <= deleted
    (job,) = [item for item in ended.objects if item["metadata"]["name"] == "ddp-rank"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "example/train:2"


def test_a_dry_run_changes_nothing(cluster, run):
    assert run("apply", "ddp.yaml", "--dry-run")[1] == "ddp created (dry run)\n"
    assert cluster.objects == []


def test_a_job_that_is_being_deleted_is_not_applied(applied, run):
    (job,) = [item for item in applied.objects if item["metadata"]["name"] == "ddp-rank"]
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert "ddp is being deleted" in run("apply", "ddp.yaml")[2]


def test_a_job_without_one_of_its_jobs_gets_it_back(applied, run):
    applied.objects = [e for e in applied.objects if e["metadata"]["name"] != "ddp-rank"]

    assert run("apply", "ddp.yaml")[1] == "ddp changed\n"
    assert "ddp-rank" in sent(applied)


def test_the_policies_of_render_apply(cluster, run, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(f"{Path('oom.yaml').read_text()}  volumes: {{data: {{emptyDir: {{}}}}}}\n")

    assert run("apply", str(file), "--strict")[0] == 1
    assert sent(cluster) == []


def test_after_ctrl_c_the_user_knows_what_is_applied(cluster, run):
    cluster.interrupted = 3

    status, _, stderr = run("apply", "ddp.yaml")

    assert status == 130
    assert "\n3 of 10 objects are applied; to continue, apply again\n" in stderr


def test_rerun_applies_the_stored_job_file_with_changes(ended, run):
    owner = annotations(ended, "ddp-rank")[OWNER]

    status, stdout, _ = run("rerun", "vision/ddp", "--set", "spec.image=example/train:2")

    assert (status, stdout) == (0, "ddp replaced\n")
    (job,) = [item for item in ended.objects if item["metadata"]["name"] == "ddp-rank"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "example/train:2"
    assert annotations(ended, "ddp-rank")[OWNER] == owner
    assert "example/train:2" in annotations(ended, "ddp-rank")[SOURCE]


def test_rerun_of_a_job_that_kubectl_applied_uses_what_it_stored(applied, run):
    key = "kubectl.kubernetes.io/last-applied-configuration"
    manifests = {(e["kind"], e["metadata"]["name"]): e for e in mlgen.render("ddp.yaml")}
    for item in applied.objects:
        last = json.dumps(manifests[item["kind"], item["metadata"]["name"]])
        item["metadata"]["annotations"] = {key: last}

    assert "only mlgen apply stores it" in run("rerun", "ddp", "--set", "args.lr=1")[2]
    assert run("rerun", "ddp")[:2] == (0, "ddp replaced\n")
    assert sorted(sent(applied)) == sorted(name for _, name in manifests)


def test_delete_and_diff_take_a_name(applied, run):
    assert run("diff", "vision/ddp", "ddp.yaml") == (0, "", "")
    assert run("diff", "ddp", "ddp.yaml", "--set", "spec.image=example/train:2")[0] == 3
    assert run("delete", "ddp", "--yes")[0] == 0
    assert applied.objects == []
    assert run("delete", "ddp", "--yes")[0] == 1


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"jobFile": 3}'])
def test_an_invalid_stored_job_file_is_reported(applied, run, text):
    (job,) = [item for item in applied.objects if item["metadata"]["name"] == "ddp-rank"]
    job["metadata"]["annotations"][SOURCE] = text

    assert "the annotation mlgen.dev/source of ddp is invalid" in run("rerun", "ddp")[2]


@each_file(files=[*FIXTURES, *RESOURCES])
def test_the_stored_job_file_renders_the_same_objects(file):
    for job in mlgen.validate(file).jobs:
        (again,) = pipeline.render(*stored_job(job.name, source(job), ())).jobs

        assert json.dumps(again.objects) == json.dumps(job.objects)
