"""`mlgen status` of a job that waits for Kueue."""

import json

import pytest
from live.test_doctor import FORBIDDEN

from mlgen import render
from mlgen.live.kubectl import Outcome

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist, namespace: vision}
spec:
  framework: ROLES
  image: a
  scheduling: {gang: kueue, queue: research}
"""
SINGLE = JOB.replace("ROLES", "jax\n  roles: {worker: {replicas: 2}}")
GROUP = JOB.replace("ROLES", "tensorflow\n  roles: {chief: {}, worker: {}}")

CREATED = {"namespace": "vision", "creationTimestamp": "2026-11-26T12:00:00Z"}
PATH = "get --raw /apis/visibility.kueue.x-k8s.io/{}/namespaces/vision/localqueues/research/"
V1BETA2, V1BETA1 = (PATH.format(version) for version in ("v1beta2", "v1beta1"))
WHY = "couldn't assign flavors to pod set main: insufficient unused quota for cpu"
UNKNOWN = Outcome(1, "", "Error from server (NotFound): the server could not find the resource")


def item(kind, name, uid, **fields):
    labels = {"mlgen.dev/job": "mnist"}
    metadata = CREATED | {"name": name, "uid": uid, "labels": labels}
    return {"kind": kind, "metadata": metadata, "status": {}} | fields


def workload(owner="1", *conditions):
    found = [{"type": kind, "status": status, "message": WHY} for kind, status in conditions]
    metadata = {"name": "job-mnist-worker-1a2b3", "ownerReferences": [{"uid": owner}]}
    return {"kind": "Workload", "metadata": metadata, "status": {"conditions": found}}


def pending(*positions):
    items = [
        {
            "metadata": {"name": name},
            "positionInLocalQueue": own,
            "positionInClusterQueue": shared,
        }
        for name, own, shared in positions
    ]
    return Outcome(0, json.dumps({"kind": "PendingWorkloadsSummary", "items": items}), "")


LISTED = pending(("job-other", 0, 0), ("job-mnist-worker-1a2b3", 1, 4))
POSITION = "position 2 in the queue research, 5 in its ClusterQueue"
WAITS = workload("1", ("QuotaReserved", "False"))
UNSEEN = {name: value for name, value in WAITS.items() if name != "status"}
SUSPENDED = item("Job", "mnist-worker", "1", spec={"suspend": True, "completions": 2})


@pytest.fixture
def status(cluster, run, tmp_path):
    """Function that returns the first line of the status of a job with these objects."""

    def show(*objects, text=SINGLE, workloads=(WAITS,), **answers):
        cluster.now = 1795694400.0
        cluster.objects = list(objects)
        found = workloads if isinstance(workloads, Outcome) else list(workloads)
        raw = {V1BETA2: answers.get("newest", UNKNOWN), V1BETA1: answers.get("older", UNKNOWN)}
        cluster.answers = {"get workloads.kueue.x-k8s.io": found, **raw}
        file = tmp_path / "job.yaml"
        file.write_text(text)
        _, stdout, stderr = run("status", str(file), "-o", "json")
        assert stderr == ""
        (state,) = json.loads(stdout)
        return state

    return show


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"newest": LISTED}, f"{POSITION}: {WHY}"),
        ({"older": LISTED}, f"{POSITION}: {WHY}"),
        ({"newest": FORBIDDEN}, f"in the queue research: {WHY}"),
        ({}, f"in the queue research: {WHY}"),
        ({"newest": pending()}, f"in the queue research: {WHY}"),
        ({"newest": LISTED, "workloads": [workload()]}, POSITION),
        ({"newest": LISTED, "workloads": [UNSEEN]}, POSITION),
        (
            {"newest": LISTED, "workloads": [workload("other")]},
            "suspended by runPolicy.suspend or a queue",
        ),
        ({"workloads": FORBIDDEN}, "suspended by runPolicy.suspend or a queue"),
        ({"workloads": UNKNOWN}, "suspended by runPolicy.suspend or a queue"),
    ],
)
def test_where_and_why_a_job_waits(answers, message, status):
    state = status(SUSPENDED, **answers)

    assert state["phase"] == "Suspended"
    assert state["message"] == message


def test_a_group_of_pods_waits_with_its_gates(status):
    gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": ""}
    owner = {"kind": "Job", "name": "mnist-chief", "uid": "1", "controller": True}
    pod = item("Pod", "mnist-chief-0", "2", spec={}, status={"conditions": [gate]})
    pod["metadata"]["ownerReferences"] = [owner]
    jobs = [
        item("Job", f"mnist-{role}", uid, spec={}) for role, uid in (("chief", "1"), ("w", "3"))
    ]

    state = status(
        *jobs,
        pod,
        text=GROUP,
        workloads=[workload("2", ("Evicted", "True"))],
        newest=LISTED,
    )

    assert state["phase"] == "Pending"
    assert state["message"].startswith(POSITION)


def test_a_job_that_runs_is_not_looked_up(cluster, status):
    running = item("Job", "mnist-worker", "1", spec={"suspend": False}, status={"ready": 2})

    assert status(running)["phase"] == "Running"
    assert not any("kueue" in call for call in cluster.calls)


@pytest.mark.parametrize("words", [["status"], ["wait", "--timeout", "0s"], ["delete", "--yes"]])
def test_every_request_names_the_namespace_of_the_job(cluster, run, tmp_path, words):
    (tmp_path / "job.yaml").write_text(GROUP)
    for each in render(tmp_path / "job.yaml"):
        each["metadata"] |= {"uid": "1", "creationTimestamp": CREATED["creationTimestamp"]}
        spec = each.get("spec", {}) | {"suspend": True}
        cluster.objects.append(each | {"spec": spec, "status": {}})
    cluster.answers = {"get workloads.kueue.x-k8s.io": [WAITS], "get --raw": LISTED}

    run(words[0], str(tmp_path / "job.yaml"), *words[1:])

    assert cluster.requests
    for command, namespace, stdin in cluster.requests:
        names = [
            each["metadata"].get("namespace") for each in json.loads(stdin or "{}").get("items", ())
        ]
        is_named = namespace == "vision" or "/namespaces/vision/" in command
        assert is_named or (names and {"vision"} == set(names)), command
