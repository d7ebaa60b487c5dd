"""A gang restarts in its pods, if Kubernetes can restart all containers of a pod."""

import json

import pytest

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim, request):
    """A namespace in which both jobs run, and worker 1 of the second was deleted."""
    namespace = shared_namespace
    version = json.loads(namespace.kubectl("version", "-o", "json"))["serverVersion"]
    if int(version["minor"].rstrip("+")) < 36:
        pytest.skip("restarting all containers of a pod requires Kubernetes 1.36")
    for job in ("stays", "moves"):
        (claim / job).mkdir()
        (claim / job).chmod(0o777)
    file, version = request.path.parent / "jobs/in-place.yaml", ("--kube-version", "1.36")
    values = ("metadata.name=moves", "spec.volumes.data.subPath=moves", "spec.env.FAILS=")
    namespace.apply(file, *version)
    namespace.apply(file, *version, *(f"--set={value}" for value in values))
    namespace.recorded("moves", lambda record: "Running" in record)
    namespace.kubectl("delete", "pod", pods(namespace, "moves")[1], "--wait=false")
    return namespace


def pods(namespace, job):
    """Return the names of the pods of a job, by index."""
    items = namespace.get("pods", "-l", f"mlgen.dev/job={job}")["items"]
    return [pod["metadata"]["name"] for pod in sorted(items, key=lambda pod: str(index(pod)))]


def index(pod):
    return pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]


def record(namespace, job):
    assert namespace.ended(f"{job}-supervisor")["type"] == "Complete"
    return namespace.record(job)


def test_all_containers_restart_in_their_pods(namespace, claim):
    found = record(namespace, "stays")

    assert (found["restarts"], found["disruptions"]) == ("1", "0")
    assert "stays-worker-1" in found["Restarting"] or found["Restarting"].startswith("False ")
    assert [2, 2, 2] == [len((claim / f"stays/{n}").read_text().splitlines()) for n in range(3)]
    items = namespace.get("pods", "-l", "mlgen.dev/job=stays")["items"]
    assert 3 == len(items)
    for pod in items:
        (main,) = pod["status"]["containerStatuses"]
        assert (main["restartCount"], main["state"]["terminated"]["exitCode"]) == (1, 0)
    events = namespace.get("events", "--field-selector", "reason=JobRestarting")["items"]
    (event,) = [each for each in events if each["involvedObject"]["name"] == "stays-worker"]
    # The kubelet may overwrite the exit code before the API server has seen it.
    ends = (" exited with code 3", " exited with code 137 (RestartingAllContainers)")
    assert event["message"].endswith(ends)


def test_a_deleted_pod_leads_to_new_pods(namespace, claim):
    found = record(namespace, "moves")

    assert (found["restarts"], found["disruptions"]) == ("0", "1")
    assert [2, 2, 2] == [len((claim / f"moves/{n}").read_text().splitlines()) for n in range(3)]
    for pod in namespace.get("pods", "-l", "mlgen.dev/job=moves")["items"]:
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
