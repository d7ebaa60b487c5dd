"""The supervisor stops pods that keep running after training ends, and records the outcome.

All jobs run at once in one namespace, and do not affect each other.
"""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

JOB = Path(__file__).parent / "jobs/supervised.yaml"

JOBS = {
    "ends": ('spec.roles.chief.command=[sh, -c, "sleep 15; echo trained"]',),
    # Its name starts with that of the previous job, and it keeps running.
    "ends-not": (),
    "fails": ('spec.roles.worker.command=[sh, -c, "sleep 45; exit 42"]',),
    "tolerates": (
        "spec.options.enableDynamicWorker=true",
        'spec.roles.chief.command=[sh, -c, "sleep 30"]',
        "spec.roles.worker.command=[sh, -c, exit 42]",
    ),
    "all": (
        'spec.roles.chief.command=[sh, -c, "sleep 5; echo model > /data/model"]',
        "spec.volumes.data={mountPath: /data, pvc: data}",
        "spec.runPolicy.cleanPodPolicy=All",
    ),
}
"""Settings in addition to the job file, by job name."""

SUCCEEDED, FAILED = {"Succeeded": "True"}, {"Failed": "True"}


@pytest.fixture(scope="module")
def claim(shared_namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount a folder
    """A bound claim with a job's label, as a user may create it."""
    name, folder = f"{shared_namespace.name}-data", tmp_path_factory.mktemp("data")
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Mi"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    volume["spec"] = spec | {"capacity": size, "hostPath": {"path": str(folder)}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": "data", "labels": {"mlgen.dev/job": "all"}}
    claim["spec"] = spec | {"resources": {"requests": size}, "volumeName": name}
    for item in (volume, claim):
        shared_namespace.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    yield folder
    shared_namespace.kubectl("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim):  # noqa: ARG001 - one job mounts it
    for name, settings in JOBS.items():
        words = [f"--set={setting}" for setting in (f"metadata.name={name}", *settings)]
        shared_namespace.apply(JOB, *words)
    return shared_namespace


def states(namespace, job):
    """Return the status, time, and reason with message of each condition."""
    data = namespace.get("configmap", f"{job}-status")["data"]
    return {key: text.split(" ", 2) for key, text in data.items() if key[0].isupper()}


def statuses(namespace, job):
    return {name: state[0] for name, state in states(namespace, job).items()}


def running(namespace, job):
    """Return the roles of a job's pods that have not ended, without its supervisor."""
    items = namespace.get("pods", "-l", f"mlgen.dev/job={job}")["items"]
    active = [item for item in items if item["status"]["phase"] in ("Pending", "Running")]
    return sorted(item["metadata"]["labels"]["mlgen.dev/role"] for item in active)


def supervised(namespace, job):
    """Wait until the supervisor has ended and the pods it stops are gone; return its log."""
    condition = namespace.ended(f"{job}-supervisor")
    log = namespace.kubectl("logs", f"job/{job}-supervisor", check=False)
    assert condition["type"] == "Complete", log
    namespace.until("what it ended has gone", lambda: not running(namespace, job))
    return log


def test_parameter_servers_are_scaled_to_0_when_the_chief_succeeds(namespace):
    supervised(namespace, "ends")

    conditions, data = states(namespace, "ends"), namespace.get("configmap", "ends-status")["data"]
    times = [
        data["startTime"],
        conditions["Created"][1],
        conditions["Running"][1],
        data["completionTime"],
    ]
    assert statuses(namespace, "ends") == {"Created": "True", "Running": "False", **SUCCEEDED}
    assert times == sorted(times)
    assert conditions["Succeeded"][1] == data["completionTime"]
    assert data["replicas.chief"] == "active 0, succeeded 1, failed 0"
    assert data["replicas.ps"] == "active 0"


def test_finished_pods_keep_their_log_and_stopped_workloads_can_be_resumed(namespace):
    supervised(namespace, "ends")

    (chief,) = namespace.pods("ends-chief")
    assert namespace.log(chief) == "trained\n"
    assert namespace.get("job", "ends-worker")["spec"]["suspend"] is True
    assert namespace.get("statefulset", "ends-ps")["spec"]["replicas"] == 0


def test_another_job_keeps_running(namespace):
    supervised(namespace, "ends")

    assert running(namespace, "ends-not") == ["chief", "ps", "worker", "worker"]
    assert statuses(namespace, "ends-not") == {"Created": "True", "Running": "True"}


def test_training_fails_when_a_worker_fails(namespace):
    log = supervised(namespace, "fails")

    chief = namespace.ended("fails-chief")
    assert (chief["type"], chief["reason"]) == ("Failed", "DeadlineExceeded")
    assert "ending training, because another Job failed: job/fails-worker" in log
    conditions = states(namespace, "fails")
    assert statuses(namespace, "fails") == {"Created": "True", "Running": "False", **FAILED}
    assert conditions["Created"][1] <= conditions["Running"][1] <= conditions["Failed"][1]
    assert "PodFailurePolicy: job/fails-worker" in conditions["Failed"][2]
    assert "exit code 42" in conditions["Failed"][2]
    counts = namespace.get("configmap", "fails-status")["data"]["replicas.worker"]
    assert counts.startswith("active 0, succeeded 0, failed ")
    assert not counts.endswith(" 0")


def test_training_succeeds_despite_a_tolerated_worker_failure(namespace):
    supervised(namespace, "tolerates")

    assert namespace.ended("tolerates-worker")["reason"] == "FailedIndexes"
    assert statuses(namespace, "tolerates") == {"Created": "True", "Running": "False", **SUCCEEDED}


def test_clean_pod_policy_all_deletes_everything_but_the_claim_and_the_status(namespace, claim):
    supervised(namespace, "all")

    kinds, label = "jobs,statefulsets,services,configmaps", "mlgen.dev/job=all"
    others = ("get", kinds, "-l", f"{label},mlgen.dev/role!=supervisor", "-o", "name")
    namespace.until("all is deleted", lambda: not namespace.kubectl(*others))
    assert statuses(namespace, "all")["Succeeded"] == "True"
    live_claim = namespace.get("persistentvolumeclaim", "data")
    assert live_claim["status"]["phase"] == "Bound"
    assert "deletionTimestamp" not in live_claim["metadata"]
    assert (claim / "model").read_text() == "model\n"


def test_a_supervisor_has_no_other_rights(namespace):
    account = f"--as=system:serviceaccount:{namespace.name}:ends-supervisor"

    def can(*words):
        return namespace.kubectl("auth", "can-i", *words, account, check=False).strip()

    assert can("patch", "jobs/ends-worker") == "yes"
    assert can("patch", "configmaps/ends-status") == "yes"
    for words in (
        ("patch", "jobs/ends-not-worker"),
        ("patch", "configmaps/ends-config"),
        ("delete", "jobs/ends-worker"),
        ("list", "jobs"),
        ("create", "configmaps"),
        ("get", "secrets"),
        ("get", "pods"),
    ):
        assert can(*words) == "no", words
