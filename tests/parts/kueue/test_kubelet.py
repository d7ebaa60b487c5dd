"""Jobs in Kueue whose pods run in a kubelet, which reports how they end."""

from itertools import count

import pytest
import yaml
from parts.kueue.cluster import LABELS, kueue
from parts.kueue.tenant import Tenant
from parts.skips import available

pytestmark = pytest.mark.long

IMAGE = "mlgen.test/python:3"

TRAIN = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.1)
sys.exit(int(sys.argv[2]))
"""
"""A program that trains for a number of seconds, and exits with a code."""

EVER = ["900", "0"]

SHAPES: dict[str, tuple[str, dict[str, dict]]] = {
    "one Job": ("jax", {"worker": {"replicas": 3}}),
    "several Jobs": ("tensorflow", {"chief": {}, "worker": {"replicas": 2}}),
    "a role that serves": ("tensorflow", {"chief": {}, "ps": {"replicas": 2, "args": EVER}}),
}
"""Jobs with three pods: their framework and roles."""

GANG = {"restartScope": "All", "backoffLimit": 3}

shapes = pytest.mark.parametrize("shape", SHAPES)
names = (f"kueue-kubelet-{index}" for index in count())


def document(shape, name="job", *, ends=EVER, priority="low", **policy):
    """Return a job file of the namespace `team`, which a Tenant replaces by its own.

    Args:
        shape: a key of SHAPES.
        name: the name of the job.
        ends: seconds and exit code of the roles that have no args of their own.
        priority: the name of its WorkloadPriorityClass.
        policy: its runPolicy.
    """
    framework, roles = SHAPES[shape]
    labels = {"kueue.x-k8s.io/priority-class": priority}
    spec = {
        "framework": framework,
        "image": IMAGE,
        "command": ["python3", "/code/train.py"],
        "volumes": {"code": {"files": {"train.py": TRAIN}, "mountPath": "/code"}},
        "resources": {"cpu": "50m"},
        "scheduling": {"gang": "kueue", "queue": "research"},
        "helpers": {"pythonImage": IMAGE},
        "roles": {role: {"args": ends, **fields} for role, fields in roles.items()},
        "runPolicy": {"cleanPodPolicy": "Running", **policy},
    }
    head = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
    metadata = {"name": name, "namespace": "team", "labels": labels}
    return yaml.safe_dump(head | {"metadata": metadata, "spec": spec})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    context = kueue(tmp_path_factory.mktemp("kueue"))
    created = available(context.__enter__)
    yield created
    context.__exit__(None, None, None)


@pytest.fixture
def team(cluster):
    """A namespace with quota for one of the jobs."""
    name = next(names)
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found")
    preemption = {"withinClusterQueue": "LowerPriority"}
    labels = [f"{key}={value}" for key, value in LABELS.items()]
    created = Tenant(cluster, name, {"cpu": "200m"}, labels=labels, preemption=preemption)
    for level, value in (("low", 1), ("high", 1000)):
        created.add("WorkloadPriorityClass", level, value=value)
    yield created
    created.clear()
    cluster.kubectl("delete", "namespace", name)


def pods(team, job="job"):
    """Return the UIDs of the running replicas of a job."""
    return {pod["metadata"]["uid"] for pod in team.pods(job) if pod["status"]["phase"] == "Running"}


def kill(team, job="job"):
    """Send SIGTERM to the program of one replica, after kubectl. It exits with 143."""
    pod = next(pod for pod in team.pods(job) if pod["status"]["phase"] == "Running")
    command = "(sleep 1; kill 1) >/dev/null 2>&1 &"
    team.kubectl("exec", pod["metadata"]["name"], "-c", "main", "--", "sh", "-c", command)


def until_restarted(team, before, job="job"):
    """Wait until all three replicas run in new pods."""
    team.until(lambda: len(pods(team, job) - before) == len(before))


def until_over(team, job="job"):
    """Wait until Kueue has released all pods of a job and its quota."""
    team.until(lambda: ("Finished", "True") in team.conditions(job))
    team.until(lambda: not any(pod["metadata"].get("finalizers") for pod in team.listed("pods")))
    team.until(lambda: not held(team))


def held(team):
    """Return the workloads that have a quota."""
    items = team.listed("workloads")
    return [
        item["metadata"]["name"]
        for item in items
        for each in item["status"].get("conditions", ())
        if (each["type"], each["status"]) == ("QuotaReserved", "True")
        and not any(other["type"] == "Finished" for other in item["status"]["conditions"])
    ]


def outcome(team, job="job"):
    """Return the names of the finished Jobs of a job by their condition."""
    jobs = team.listed("jobs", "-l", f"mlgen.dev/job={job}")
    return {
        each["type"]
        for item in jobs
        for each in item["status"].get("conditions", ())
        if "mlgen.dev/decides" in item["metadata"]["labels"]
        and each["type"] in ("Complete", "Failed")
    }


@shapes
def test_all_replicas_restart_and_keep_their_quota(team, shape):
    team.apply(document(shape, **GANG))
    team.until_running("job", 3)
    before = pods(team)

    kill(team)
    until_restarted(team, before)

    [workload] = team.listed("workloads")
    admitted = [e for e in workload["status"]["conditions"] if e["type"] == "Admitted"]
    assert admitted[0]["status"] == "True"
    assert ("Evicted", "True") not in team.conditions("job")


@shapes
@pytest.mark.parametrize("policy", [{}, GANG], ids=["alone", "gang"])
def test_a_preempted_job_runs_again(team, shape, policy):
    team.apply(document(shape, "patient", **policy))
    team.until_running("patient", 3)
    before = pods(team, "patient")

    team.apply(document(shape, "urgent", ends=["15", "0"], priority="high", **policy))
    team.until_running("urgent", 3)
    assert not pods(team, "patient")

    team.until(lambda: outcome(team, "urgent") == {"Complete"})
    until_restarted(team, before, "patient")
    assert not outcome(team, "patient")


@shapes
def test_a_job_that_is_preempted_during_a_restart_runs_again(team, shape):
    team.apply(document(shape, "patient", **GANG))
    team.until_running("patient", 3)
    before = pods(team, "patient")

    kill(team, "patient")
    team.until(lambda: len(pods(team, "patient")) < 3)
    team.apply(document(shape, "urgent", ends=["15", "0"], priority="high"))
    team.until_running("urgent", 3)

    team.until(lambda: outcome(team, "urgent") == {"Complete"})
    until_restarted(team, before, "patient")


@shapes
@pytest.mark.parametrize("code", ["0", "1"])
@pytest.mark.parametrize("clean", ["Running", "All"])
def test_the_quota_of_a_job_that_ends_returns(team, shape, code, clean):
    policy = GANG | {"backoffLimit": 0, "cleanPodPolicy": clean}
    team.apply(document(shape, ends=["5", code], **policy))

    team.until(lambda: team.listed("workloads"))
    if clean == "All":
        team.until(lambda: not team.listed("pods", "-l", "mlgen.dev/job=job"))
        team.until(lambda: not held(team))
    else:
        until_over(team)
        assert outcome(team) == {"Failed" if code == "1" else "Complete"}


@shapes
def test_a_running_job_is_deleted(team, shape):
    job = document(shape, **GANG)
    team.apply(job)
    team.until_running("job", 3)

    team.mlgen("delete", "--yes", job=job)

    team.until(lambda: not team.listed("pods") and not held(team))
