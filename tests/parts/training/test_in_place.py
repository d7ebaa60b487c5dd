"""A gang restarts in its pods, if Kubernetes can restart all containers of a pod."""

import pytest
from cluster.conftest import bound
from namespaces import temporary_namespace
from support import ROOT

JOB = ROOT / "tests/cluster/jobs/in-place.yaml"


@pytest.fixture(scope="module")
def claim(tmp_path_factory):
    """The folder of the PVC of the jobs."""
    folder = tmp_path_factory.mktemp("data")
    for job in ("stays", "moves"):
        (folder / job).mkdir()
        (folder / job).chmod(0o777)
    return folder


@pytest.fixture(scope="module")
def namespace(cluster, claim):
    """A namespace in which both jobs run, and worker 1 of the second was deleted."""
    version = ("--kube-version", "1.36")
    values = ("metadata.name=moves", "spec.volumes.data.subPath=moves", "spec.env.FAILS=")
    with temporary_namespace(cluster.environment) as created, bound(created, "data", claim):
        created.apply(JOB, *version)
        created.apply(JOB, *version, *(f"--set={value}" for value in values))
        created.recorded("moves", lambda record: "Running" in record)
        created.kubectl("delete", "pod", pods(created, "moves")[1], "--wait=false")
        yield created


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
