"""A gang restarts as a whole when a replica fails, is deleted or is drained.

All jobs run at once in one namespace, and do not affect each other. Jobs that do not fail by
themselves are disturbed at the start, so that all restart at the same time.
"""

import json
import re

import pytest

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def manifests(shared_namespace, request):
    return shared_namespace.render(
        request.path.parent / "jobs/restarts.yaml", *shared_namespace.images
    )


@pytest.fixture(scope="module")
def before(shared_namespace, claim, manifests):
    """Start and disturb the jobs; return the UIDs of their first pods, by job."""
    namespace, uids = shared_namespace, {}
    namespace.kubectl("apply", "-f", "-", stdin=manifests)
    for job in ("ddp", "peers", "permanent", "refused", "some", "servers"):
        namespace.recorded(job, bool)
        go(claim, job)
    for job in ("deleted", "drained", "stopping"):
        namespace.recorded(job, lambda record: "Running" in record)
        uids[job] = started(namespace, job)
    namespace.kubectl("delete", "pod", worker(namespace, "deleted", 1), "--wait=false")
    evict(namespace, worker(namespace, "drained", 1))
    go(claim, "stopping")
    namespace.until("stopping stops", lambda: is_restarting(namespace, "stopping", pods=1))
    uids["stopping"] = {kill_supervisor(namespace, "stopping")}
    go(claim, "stopping", "end")
    namespace.recorded("backing-off", lambda record: record.get("restarts") == "1")
    started(namespace, "backing-off")
    go(claim, "backing-off")
    namespace.until("backing-off waits", lambda: is_restarting(namespace, "backing-off", pods=0))
    uids["backing-off"] = {kill_supervisor(namespace, "backing-off")}
    go(claim, "backing-off", "end")
    namespace.until("a replica of refused has succeeded", lambda: has_succeeded(namespace))
    go(claim, "refused", "end")
    return uids


def has_succeeded(namespace):
    """Return True if the controller has counted the replica of `refused` that succeeds."""
    return namespace.get("job", "refused-worker")["status"].get("succeeded") == 1


def go(claim, job, file="go"):
    (claim / job).mkdir(exist_ok=True)
    (claim / job / file).touch()


@pytest.fixture
def namespace(shared_namespace, before):  # noqa: ARG001 - all jobs have been disturbed
    return shared_namespace


def started(namespace, job, but=()):
    """Wait until both workers run in new pods; return the UIDs of the new pods."""

    def uids():
        pods = namespace.active(job).get("worker", [])
        found = {
            pod["metadata"]["uid"]
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }
        return found if len(found) == 2 and not found & set(but) else None

    return namespace.until(f"the workers of {job} run", uids)


def worker(namespace, job, index):
    selector = f"mlgen.dev/job={job},batch.kubernetes.io/job-completion-index={index}"
    (pod,) = namespace.get("pods", "-l", selector)["items"]
    return pod["metadata"]["name"]


def evict(namespace, pod):
    """Evict a pod, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/eviction"
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def is_restarting(namespace, job, pods):
    """Return True if a job has stopped all but this number of its pods."""
    suspended = namespace.get("job", f"{job}-worker")["spec"]["suspend"]
    return suspended and len(namespace.active(job).get("worker", [])) == pods


def kill_supervisor(namespace, job):
    """Kill the supervisor of a job as if its node were lost; return the UID of its pod."""
    (pod,) = namespace.pods(f"{job}-supervisor")
    name = pod["metadata"]["name"]
    namespace.kubectl("delete", "pod", name, "--grace-period=0", "--force")
    return pod["metadata"]["uid"]


def supervised(namespace, job):
    """Wait until the supervisor of a job has ended; return the record."""
    condition = namespace.ended(f"{job}-supervisor")
    assert condition["type"] == "Complete", condition
    return namespace.record(job)


def test_training_goes_on_from_its_checkpoint_when_a_rank_is_killed_twice(namespace, claim):
    logs = namespace.completed("ddp-rank")

    lines = [line for log in logs for line in log if line.startswith("steps")]
    assert len(lines) == 3
    assert {line.split(" loss")[0] for line in lines} == {"steps 9 sum 54.0"}
    starts = [line.split()[:2] for line in (claim / "ddp/starts").read_text().splitlines()]
    assert sorted(starts) == sorted([rank, step] for rank in "012" for step in "036")
    record = supervised(namespace, "ddp")
    assert record["restarts"] == "2"
    assert record["Restarting"].startswith("False ")
    assert record["Succeeded"].startswith("True ")


def test_the_exit_code_of_the_first_replica_that_fails_counts(namespace):
    killed, permanent = (supervised(namespace, job) for job in ("peers", "permanent"))

    assert (killed["restarts"], killed["Succeeded"].split()[0]) == ("1", "True")
    assert (permanent["restarts"], permanent["Failed"].split()[0]) == ("0", "True")
    assert "exited with code 42" in permanent["Failed"]
    assert namespace.ended("permanent-worker")["type"] == "Failed"


def test_the_status_has_the_last_lines_of_the_replica_that_failed_first(namespace):
    peers, preflight, limit, off = (
        supervised(namespace, job) for job in ("peers", "preflight", "limit", "permanent")
    )

    title = r"worker-1, peers-worker-1-\w+, exit code 137, after 0 restarts, 20\S+Z"
    assert re.fullmatch(f"{title}\nworker 1 ends", peers["lastLog"])
    title = r"worker-2, init container preflight of preflight-worker-2-\w+, exit code 7, .*"
    assert re.fullmatch(f"{title}\n", preflight["lastLog"])
    title = r"worker-1, limit-worker-1-\w+, exit code 137, after 1 restarts, 20\S+Z"
    assert re.fullmatch(f"{title}\nkilled", limit["lastLog"])
    assert "lastLog" not in off
    assert "cannot keep" not in namespace.kubectl("logs", "job/peers-supervisor")


def test_training_starts_after_every_preflight_has_communicated(namespace, claim):
    logs = namespace.completed("preflight-worker")

    lines = sorted(line for log in logs for line in log)
    assert lines == [f"worker {rank} trains" for rank in range(3)]
    assert [(claim / f"preflight/{rank}").read_text() for rank in range(3)] == ["6.0\n"] * 3
    record = supervised(namespace, "preflight")
    assert (record["restarts"], record["Succeeded"].split()[0]) == ("1", "True")


def test_a_gang_fails_after_the_last_restart(namespace):
    record = supervised(namespace, "limit")

    assert record["restarts"] == "1"
    assert "BackoffLimitExceeded: limit-worker-1-" in record["Failed"]
    assert "exited with code 137" in record["Failed"]
    assert namespace.ended("limit-worker")["type"] == "Failed"
    assert "killed\n" in [namespace.log(pod) for pod in namespace.pods("limit-worker")]


def test_a_gang_does_not_start_again_without_a_replica_that_has_succeeded(namespace):
    record = supervised(namespace, "refused")

    assert record["restarts"] == "0"
    assert "RestartRefused: refused-worker-1-" in record["Failed"]


@pytest.mark.parametrize("job", ["deleted", "drained"])
def test_a_gang_starts_again_when_a_pod_is(namespace, before, job):
    started(namespace, job, but=before[job])

    namespace.recorded(job, lambda record: record["Running"].startswith("True "))
    record = namespace.record(job)
    assert (record["restarts"], record["disruptions"]) == ("0", "1")
    assert record["Restarting"].startswith("False ")


@pytest.mark.parametrize(("job", "restarts"), [("stopping", "1"), ("backing-off", "2")])
def test_another_supervisor_takes_over_while_a_gang_is(namespace, before, job, restarts):
    record = supervised(namespace, job)

    (pod,) = namespace.pods(f"{job}-supervisor")
    assert pod["metadata"]["uid"] not in before[job]
    assert (record["restarts"], record["disruptions"]) == (restarts, "0")
    assert record["Succeeded"].startswith("True ")


def test_roles_outside_the_gang_go_on(namespace, claim):
    some, servers = (supervised(namespace, job) for job in ("some", "servers"))

    def starts(job, role):
        return len((claim / job / role).read_text().splitlines())

    assert (some["restarts"], servers["restarts"]) == ("1", "1")
    assert [starts("some", role) for role in ("chief", "ps")] == [2, 1]
    assert len(namespace.active("some")["ps"]) == 1
    assert starts("servers", "ps") == 2


def test_the_manifests_are_verified(namespace, manifests):
    assert namespace.mlgen("verify", "-", stdin=manifests).count(": verified, ") == 12
