"""Programs report their progress, which mlgen shows. Jobs that hang are reported, or restarted.

All jobs run at once in one namespace, and do not affect each other.
"""

import json

import pytest
import yaml
from cluster.conftest import skip_without

pytestmark = pytest.mark.cluster

PLACES = ("start", "loader", "collective", "checkpoint")

POST = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://file-supervisor:8080/progress", b"{}", timeout=5)
except urllib.error.HTTPError as error:
    print(error.code)
"""

FLOOD = """
import pathlib, socket, time

data, kept, opened, end = pathlib.Path("/data"), [], 0, time.monotonic() + 75
while time.monotonic() < end:
    try:
        kept.append(socket.create_connection(("flood-supervisor", 8080), 5))
        opened += 1
        if opened % 2:
            kept[-1].sendall(b"\\xff" * 100)
    except OSError:
        pass
    if len(kept) > 400:
        (data / "flooded").touch()
        kept.pop(0).close()
    time.sleep(0.01)
(data / "end").touch()
print(opened)
"""
"""A stranger that holds 400 connections for longer than stalledSeconds."""


@pytest.fixture(scope="module")
def files(request, tmp_path_factory):
    """The job files, by the name of the job."""
    folder = tmp_path_factory.mktemp("jobs")
    for job in yaml.safe_load_all((request.path.parent / "jobs/progress.yaml").read_text()):
        (folder / f"{job['metadata']['name']}.yaml").write_text(yaml.safe_dump(job))
    return folder


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim, files):
    """A namespace in which all jobs have been started."""
    skip_without("mlgen.test/torch:2", "torch2", shared_namespace.environment)
    for name in ("trainer", "file"):
        (claim / name).mkdir()
        shared_namespace.apply(files / f"{name}.yaml")
    for place in PLACES:
        words = ("--set", f"metadata.name=hang-{place}", "--set", f"spec.env.HANG={place}")
        shared_namespace.apply(files / "hang.yaml", *words)
    return shared_namespace


@pytest.fixture
def status(namespace, files):
    """Function that returns the state of a job from `mlgen status`."""

    def status(job, *words):
        file = str(files / f"{job}.yaml")
        printed = namespace.mlgen("status", file, "-n", namespace.name, *(words or ("-o", "json")))
        return printed if words else json.loads(printed)[0]

    return status


def test_the_trainer_of_hugging_face_reports_without_a_change(namespace, claim, status):
    def reported():
        state = status("trainer")
        return state["progress"] and (state["progress"]["progress"] or None) and state

    state = namespace.until("the trainer reports a step", reported)
    assert state["phase"] == "Running"
    assert 0 < state["progress"]["progress"] < 50
    assert state["progress"]["replica"] == "worker-0"
    assert float(state["progress"]["metrics"]["loss"]) > 0
    assert state["progress"]["left"] >= 0
    assert "loss=" in status("trainer", "--color", "never")

    (claim / "trainer/go").touch()
    namespace.completed("trainer-worker")
    namespace.ended("trainer-supervisor")
    assert status("trainer")["progress"]["progress"] == 100


@pytest.mark.parametrize("place", PLACES)
def test_training_that_hangs_restarts_and_continues(namespace, claim, place):
    folder, job = claim / f"hang-{place}", f"hang-{place}"

    printed = namespace.completed(f"{job}-worker", seconds=400)

    assert [["steps 12 sum 36.0"]] * 2 == printed  # no step is lost
    record = namespace.record(job)
    assert ("1", "0") == (record["restarts"], record["disruptions"])
    limit = "startSeconds" if place == "start" else "stalledSeconds"
    words = ("--field-selector", f"reason=JobRestarting,involvedObject.name={job}-worker")
    (event,) = namespace.get("events", *words)["items"]
    assert event["message"].startswith("training is stalled: no report")
    assert f"(runPolicy.progress.{limit})" in event["message"]
    hung = float((folder / "hung").read_text())
    starts = [line.split() for line in (folder / "starts").read_text().splitlines()]
    again = max(float(at) for _, _, at in starts)
    print(f"{place}: from the hang to training again in {again - hung:.0f} s")
    assert again - hung < 60 + 30 * (place == "start") + 90
    first = 0 if place == "start" else 5
    assert {str(first)} == {step for _, step, at in starts if float(at) > hung}


def test_a_file_is_reported_until_the_program_stops_writing(namespace, claim, status):
    assert (
        "403"
        == namespace.kubectl("exec", "job/file-supervisor", "--", "python3", "-c", POST).strip()
    )

    state = namespace.until(
        "the job is stalled",
        lambda: (s := status("file"))["phase"] == "Stalled" and s,
    )
    assert 0 < state["progress"]["progress"] < 50
    assert "no report for 60 s" in state["message"]
    events = namespace.get(
        "events", "--field-selector", "reason=JobStalled,involvedObject.name=file-worker"
    )["items"]
    assert [("Warning", "file-worker")] == [
        (event["type"], event["involvedObject"]["name"]) for event in events
    ]

    (claim / "file/go").touch()
    namespace.until("training continues", lambda: status("file")["phase"] == "Running")
    assert namespace.conditions("file")["Stalled"][0] == "False"
    assert {"unknown sender": 1} == json.loads(namespace.record("file")["progress"])["rejected"]
    (claim / "file/end").touch()
    namespace.completed("file-worker")


def test_a_flood_by_a_stranger_does_not_stop_the_reports(shared_namespace, claim, files):
    namespace, folder = shared_namespace, claim / "flood"
    folder.mkdir()
    namespace.apply(files / "flood.yaml")
    started = lambda: len([*folder.glob("started-*")]) == 16  # noqa: E731
    namespace.until("all replicas run", started, seconds=120)
    container = {"name": "stranger", "image": namespace.python_image}
    container["command"] = ["python3", "-c", FLOOD]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data", "subPath": "flood"}]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(pod))

    printed = namespace.completed("flood-worker", seconds=180)

    assert int(namespace.kubectl("logs", "stranger")) > 400
    counts = [lines[-1].split() for lines in printed]
    assert len(counts) == 16
    assert all(int(accepted) >= 5 for _, accepted, *_ in counts), printed
    record = namespace.record("flood")
    assert record.get("restarts", "0") == "0"
    assert not record.get("Stalled", "").startswith("True")
    assert not namespace.get(
        "events", "--field-selector", "reason=JobStalled,involvedObject.name=flood-worker"
    )["items"]
