"""Decisions, case by case, for a gang of two workers and a server unless stated otherwise."""

from dataclasses import replace

import pytest
from runtime.objects import made

from mlgen.runtime.answers import PREFERRED, RECORD, REQUIRED
from mlgen.runtime.cluster import Seen
from mlgen.runtime.decide import Action, advance, decide
from mlgen.runtime.failures import Failure
from mlgen.runtime.plan import Order, Plan, Workload
from mlgen.runtime.status import State, events, load, metrics, stamp

NOW = 1_800_000_000.0
WORKER = Workload("Job", "mnist-worker", "worker", replicas=2, retryable=">=128")
EVALUATOR = Workload("Job", "mnist-evaluator", "evaluator")
SERVER = Workload("StatefulSet", "mnist-ps", "ps", retryable="any")
GANG = Plan(
    job="mnist",
    run="r",
    deciding=("mnist-worker",),
    workloads=(WORKER, SERVER),
    restart_scope="All",
    backoff_limit=1,
    start_failures=0,
)
REPLICA = GANG._replace(restart_scope="Replica")
TOGETHER = REPLICA._replace(
    deciding=("mnist-worker", "mnist-evaluator"), workloads=(WORKER, EVALUATOR)
)
RUNNING = State("r", uid="mnist-worker", first=NOW - 60, started=NOW - 60)
STOPPING = replace(RUNNING, phase="Stopping")
STOPPED = {"suspend": True, "conditions": ["Suspended"], "active": 0, "ready": 0}


SPEC = ("completions", "parallelism", "backoffLimit")


def job(name="mnist-worker", *, conditions=(), reason="Why", labels=(), uncounted=(), **fields):
    spec = {"completions": 2, "parallelism": 2, "suspend": fields.pop("suspend", False)}
    spec["template"] = {"spec": fields.pop("template", {})}
    spec.update({key: fields.pop(key) for key in SPEC if key in fields})
    annotations = fields.pop("annotations", {})
    if "deadline" in fields:
        spec["activeDeadlineSeconds"] = fields.pop("deadline")
    items = [{"type": c, "status": "True", "reason": reason, "message": "text"} for c in conditions]
    status = {"active": 2, "ready": 2, "conditions": items, **fields}
    if uncounted:
        status["uncountedTerminatedPods"] = {"failed": list(uncounted)}
    metadata = {
        "name": name,
        "uid": name,
        "resourceVersion": "7",
        "labels": dict.fromkeys(labels, "q"),
        "annotations": annotations,
    }
    return made("Job", {"metadata": metadata, "spec": spec, "status": status})


def server(replicas=1, ready=1, generation=1):
    metadata = {"name": "mnist-ps", "uid": "mnist-ps", "resourceVersion": "8", "generation": 1}
    status = {"replicas": ready, "readyReplicas": ready, "observedGeneration": generation}
    document = {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}
    return made("StatefulSet", document)


def pod(  # noqa: PLR0913
    name="w-0", owner="mnist-worker", phase="Running", *, code=None, at=0, age=60, **more
):
    """Return a pod whose training container ended with `code`, `at` seconds from now."""
    state = {"running": {}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "finishedAt": stamp(NOW + at)}}
        if "ran" in more:
            state["terminated"]["startedAt"] = stamp(NOW + at - more["ran"])
        state["terminated"]["reason"] = more.get("reason", "Error")
    state = {"waiting": {"reason": more["waiting"]}} if "waiting" in more else state
    container = {
        "name": "fetch" if more.get("init") else "main",
        "image": "i:1",
        "restartCount": more.get("restarts", 0),
        "state": state,
    }
    if "last" in more:
        container["lastState"] = {"terminated": {"exitCode": more["last"]}}
    metadata = {
        "name": name,
        "uid": name,
        "creationTimestamp": stamp(NOW - age),
        "ownerReferences": [{"uid": owner}],
        "finalizers": more.get("finalizers", []),
    }
    if "deleted" in more:
        metadata["deletionTimestamp"] = stamp(NOW + more["deleted"] + 30)
        metadata["deletionGracePeriodSeconds"] = 30
    key = "initContainerStatuses" if more.get("init") else "containerStatuses"
    statuses = {} if more.get("empty") else {key: [container]}
    conditions = [
        {
            "type": name,
            "status": value,
            "lastTransitionTime": stamp(NOW - 60),
            "message": "0/3 nodes are available",
        }
        for name, value in more.get("conditions", {}).items()
    ]
    status = {"phase": phase, "conditions": conditions, **statuses}
    if "devices" in more:
        devices = [{"resourceID": name, "health": how} for name, how in more["devices"].items()]
        container["allocatedResourcesStatus"] = [{"name": "x/gpu", "resources": devices}]
    if "rejected" in more:
        status["reason"] = more["rejected"]
    if "evicted" in more:
        status.update(reason="Evicted", message=more["evicted"])
    if "index" in more:
        metadata["labels"] = {"batch.kubernetes.io/job-completion-index": str(more["index"])}
    spec = {"nodeName": more.get("node", "n")}
    if "sidecar" in more:
        end = {"exitCode": more["sidecar"], "finishedAt": stamp(NOW + at), "reason": "Error"}
        sidecar = {**container, "name": "proxy", "state": {"terminated": end}}
        status["initContainerStatuses"] = [sidecar]
        spec["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    document = {"metadata": metadata, "spec": spec, "status": status}
    return made("Pod", document, NOW - age)


def seen(*pods, state=RUNNING, worker=(), **workloads):
    """Return the observed state: a running worker and server by default.

    The supervisor has suspended a suspended worker, unless the job runs.
    """
    fields = dict(worker)
    if fields.get("suspend") and state.phase != "Running":
        fields = {"annotations": {RECORD: replace(state, phase="Stopping").text()}, **fields}
    found = {"mnist-worker": job(**fields), "mnist-ps": server()}
    found.update({f"mnist-{name}": value for name, value in workloads.items()})
    return Seen(found, list(pods), {"state": state.text()})


def taken(owner):
    """Return the observed state if the worker's name belongs to another job."""
    return replace(seen(worker={}, ps=None), taken={"mnist-worker": owner})


def held(**metadata):
    """Return the observed state if another program has put its finalizer on the worker."""
    what = seen()
    what.workloads["mnist-worker"]["metadata"].update(finalizers=["acme.example/keep"], **metadata)
    return what


def after(plan, what, now=NOW):
    return advance(plan, what, load(what.status, plan.run), now)


def done(*names, **fields):
    return {"conditions": names, **fields}


ENDS = {
    "complete": (GANG, seen(worker=done("Complete")), (0, "JobSucceeded")),
    "about to be complete": (GANG, seen(worker=done("SuccessCriteriaMet")), (0, "JobSucceeded")),
    "failed": (REPLICA, seen(worker=done("Failed")), (143, "Why")),
    "failed with a code": (
        REPLICA,
        seen(pod(code=9, phase="Failed"), worker=done("FailureTarget")),
        (9, "Why"),
    ),
    "failed, and deletes the other pods": (
        REPLICA,
        seen(
            pod(code=9, phase="Failed"),
            pod("w-1", code=143, at=2, deleted=1),
            worker=done("FailureTarget"),
        ),
        (9, "Why"),
    ),
    "failed because a pod was drained": (
        REPLICA,
        seen(pod(phase="Failed", conditions={"DisruptionTarget": "True"}), worker=done("Failed")),
        (143, "Why"),
    ),
    "the Job's own deadline": (
        REPLICA,
        seen(worker=done("Failed", reason="DeadlineExceeded")),
        (124, "DeadlineExceeded"),
    ),
    "another role failed": (
        REPLICA._replace(workloads=(WORKER, EVALUATOR)),
        seen(evaluator=job("mnist-evaluator", conditions=["Failed"])),
        (143, "Why"),
    ),
    "another role failed, and that is tolerated": (
        REPLICA._replace(workloads=(WORKER, EVALUATOR._replace(tolerates_failure=True))),
        seen(evaluator=job("mnist-evaluator", conditions=["Failed"])),
        None,
    ),
    "all: one of two": (
        TOGETHER._replace(decides="all"),
        seen(worker=done("Complete"), evaluator=job("mnist-evaluator")),
        None,
    ),
    "any: one of two": (
        TOGETHER._replace(decides="any"),
        seen(worker=done("Complete"), evaluator=job("mnist-evaluator")),
        (0, "JobSucceeded"),
    ),
    "any: one of two failed": (
        TOGETHER._replace(decides="any"),
        seen(worker=done("Failed"), evaluator=job("mnist-evaluator")),
        None,
    ),
    "any: both failed": (
        TOGETHER._replace(decides="any"),
        seen(worker=done("Failed"), evaluator=job("mnist-evaluator", conditions=["Failed"])),
        (143, "Why"),
    ),
    "deadline": (GANG._replace(deadline_seconds=60), seen(), (124, "DeadlineExceeded")),
    "before the deadline": (GANG._replace(deadline_seconds=61), seen(), None),
    "deleted by hand": (GANG, seen(worker={}, ps=None), (1, "JobDeleted")),
    "deleted, but a finalizer keeps it": (GANG, held(deletionTimestamp=NOW), (1, "JobDeleted")),
    "only a finalizer": (GANG, held(), None),
    "a name of another job's": (GANG, taken("the job mnist-a"), (1, "NameCollision")),
    "replaced by hand": (GANG, seen(state=replace(RUNNING, uid="other")), (1, "JobDeleted")),
    "not created yet": (GANG, seen(ps=None, state=State("r", first=NOW - 600)), None),
    "never created": (GANG, seen(ps=None, state=State("r", first=NOW - 601)), (1, "JobNotCreated")),
    "crash-loops": (
        REPLICA._replace(crashes=5),
        seen(pod("ps-0", "mnist-ps", waiting="CrashLoopBackOff", restarts=5, last=3)),
        (3, "CrashLoopBackOff"),
    ),
    "a Job that crash-loops has a limit of its own": (
        REPLICA._replace(crashes=5),
        seen(pod(waiting="CrashLoopBackOff", restarts=5)),
        None,
    ),
    "crashed too few times": (
        REPLICA._replace(crashes=5),
        seen(pod("ps-0", "mnist-ps", waiting="CrashLoopBackOff", restarts=4)),
        None,
    ),
    "no image": (
        REPLICA._replace(image_seconds=50),
        seen(pod(phase="Pending", waiting="ImagePullBackOff")),
        (1, "ImagePullBackOff"),
    ),
    "an image of an init container, a moment ago": (
        REPLICA._replace(image_seconds=70),
        seen(pod(phase="Pending", waiting="ErrImagePull", init=True)),
        None,
    ),
    "unschedulable": (
        REPLICA._replace(pending_seconds=50),
        seen(pod(phase="Pending", empty=True, age=99, conditions={"PodScheduled": "False"})),
        (1, "Unschedulable"),
    ),
    "unschedulable without a bound": (
        REPLICA,
        seen(pod(phase="Pending", empty=True, conditions={"PodScheduled": "False"})),
        None,
    ),
    "pods are passed over that have ended or are deleted": (
        REPLICA._replace(crashes=1),
        seen(
            pod(phase="Failed", code=1),
            pod("w-1", deleted=0, waiting="CrashLoopBackOff", restarts=9),
        ),
        None,
    ),
    "pods cannot be created": (
        REPLICA._replace(pending_seconds=50),
        seen(worker={"active": 1}, state=replace(RUNNING, short=NOW - 51)),
        (1, "PodsNotCreated"),
    ),
    "a Job may be backing off": (
        REPLICA._replace(pending_seconds=50),
        seen(worker={"active": 1, "failed": 1}, state=replace(RUNNING, short=NOW - 600)),
        None,
    ),
    "a StatefulSet waits for a pod on a lost node": (
        REPLICA._replace(pending_seconds=50),
        seen(pod("ps-0", "mnist-ps", deleted=-91), state=replace(RUNNING, short=NOW - 51)),
        (1, "PodsNotCreated"),
    ),
    "a pod on a lost node does not hold up a Job": (
        REPLICA._replace(pending_seconds=50),
        seen(pod(deleted=-91), state=replace(RUNNING, short=NOW - 51)),
        None,
    ),
    "pods have been created": (
        REPLICA._replace(pending_seconds=50),
        seen(state=replace(RUNNING, short=NOW - 51)),
        None,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end(name):
    plan, what, expected = ENDS[name]

    state = after(plan, what)

    assert expected == ((state.code, state.reason) if state.phase == "Ended" else None)


BOUND = "; limit: runPolicy.giveUpAfter."
OBSTACLES = {
    "crashes": (
        pod("ps-0", "mnist-ps", waiting="CrashLoopBackOff", restarts=5, last=3),
        "ps-0 crashed 5 times, last exit code 3",
    ),
    "imagePullSeconds": (
        pod(phase="Pending", waiting="ErrImagePull", conditions={"Ready": "False"}),
        "w-0 cannot pull i:1 for 60 s",
    ),
    "imagePullSeconds of a container": (
        pod(phase="Pending", waiting="CreateContainerConfigError"),
        "w-0 has a CreateContainerConfigError for 60 s",
    ),
    "imagePullSeconds of a volume": (
        pod(
            phase="Pending",
            waiting="ContainerCreating",
            conditions={"PodScheduled": "True", "PodReadyToStartContainers": "False"},
        ),
        "w-0 could not mount volumes or set up its network for 60 s; see its events",
    ),
    "pendingSeconds": (
        pod(phase="Pending", empty=True, conditions={"PodScheduled": "False"}),
        "w-0 was not scheduled for 60 s: 0/3 nodes are available",
    ),
}


@pytest.mark.parametrize("field", OBSTACLES)
def test_a_bound_is_named_with_what_has_exceeded_it(field):
    blocked, text = OBSTACLES[field]
    plan = REPLICA._replace(crashes=5, image_seconds=50, pending_seconds=50)

    assert after(plan, seen(blocked)).message == text + BOUND + field.split()[0]


def test_pods_that_are_not_created_are_named():
    plan = REPLICA._replace(pending_seconds=50)
    what = seen(worker={"active": 1}, state=replace(RUNNING, short=NOW - 51))

    assert after(plan, what).message == (
        f"pods of mnist-worker could not be created for 51 s; see its events{BOUND}pendingSeconds"
    )


def test_an_image_has_its_time_after_the_init_container_before_it():
    blocked = pod(phase="Pending", waiting="ErrImagePull", age=9000)
    end = {"terminated": {"exitCode": 0, "finishedAt": stamp(NOW - 49)}}
    blocked["status"]["initContainerStatuses"] = [{"name": "data", "state": end}]
    blocked = made("Pod", blocked)
    plan = REPLICA._replace(image_seconds=50)

    assert after(plan, seen(blocked)).phase == "Running"
    assert after(plan, seen(blocked), NOW + 2).reason == "ErrImagePull"


DELETED = Failure("", 0, "Deleted", "w-0", retryable=True, node="n", kind="disruption")
EARLY = {
    "all replicas": ("CompletionsReached", "disruption", (143, "EndedEarly")),
    "by the policy": ("SuccessPolicy", "disruption", (0, "JobSucceeded")),
    "after a failure": ("CompletionsReached", "exit", (0, "JobSucceeded")),
}


@pytest.mark.parametrize("case", EARLY)
def test_a_replica_that_is_told_to_end_has_not_trained_to_the_end(case):
    reason, kind, expected = EARLY[case]
    start = replace(STOPPING, cause=replace(DELETED, kind=kind))

    state = after(GANG, seen(state=start, worker=done("SuccessCriteriaMet", reason=reason)))

    assert expected == (state.code, state.reason)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, (0, "JobSucceeded")), ({"deleted": -1}, (143, "EndedEarly"))],
    ids=["there", "deleted"],
)
def test_a_complete_job_has_a_succeeded_pod_of_each_replica_that_was_not_told_to_end(
    fields, expected
):
    start = replace(STOPPING, cause=DELETED)
    pods = [pod(phase="Succeeded"), pod("w-1", phase="Succeeded", **fields)]

    state = after(GANG, seen(*pods, state=start, worker=done("SuccessCriteriaMet")))

    assert expected == (state.code, state.reason)


@pytest.mark.parametrize(("behind", "phase"), [(0, "Running"), (200, "Stopping")])
def test_when_a_replica_was_told_to_end_is_not_known_by_a_clock_that_is_behind(behind, phase):
    drained = pod(code=0, at=-20, deleted=-10, conditions={"PodScheduled": "True"})
    drained["status"]["startTime"] = stamp(NOW - 59 - behind)

    assert after(GANG, seen(drained)).phase == phase


W0 = pod(phase="Failed", code=137, at=-2)
W1 = pod("w-1", phase="Failed", code=1, at=-1)
DRAINED = {"DisruptionTarget": "True"}
CUT_OFF = {"Ready": "False", "ContainersReady": "True"}
EVICTED = {
    "an emptyDir": 'Usage of EmptyDir volume "cache" exceeds the limit "10Gi". ',
    "the pod": "Pod ephemeral local storage usage exceeds the total limit of containers 9Gi. ",
    "a container": 'Container main exceeded its local ephemeral storage limit "8Gi". ',
}
"""The kubelet's messages about pods that exceed their own limits."""
SHORT = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 9Mi. "
    "Container main was using 7Gi, request is 0, has larger consumption of ephemeral-storage. "
)
PRESSED = "The node had condition: [DiskPressure]. "
STOP = {
    "a retryable code": ((W0, W1), ("Stopping", "w-0 exited with code 137")),
    "on a tie, the higher code": (
        (W0, pod("w-1", phase="Failed", code=1, at=-2)),
        ("Stopping", "w-0 exited with code 137"),
    ),
    "a permanent code stands for a moment": ((W1,), ("Running", None)),
    "its retryable peer is reported later": (
        (W1, pod(phase="Failed", code=137, at=2)),
        ("Stopping", "w-1 exited with code 1"),
    ),
    "a server that restarts in place": (
        (pod("ps-0", "mnist-ps", last=3, restarts=1),),
        ("Stopping", "ps-0 exited with code 3"),
    ),
    "an init container": (
        (pod(phase="Failed", code=1, init=True),),
        ("Stopping", "init container fetch of w-0 exited with code 1"),
    ),
    "out of memory": (
        (pod(phase="Failed", code=1, reason="OOMKilled"),),
        ("Stopping", "w-0 exited with code 1 (OOMKilled)"),
    ),
    "drained": (
        (pod(conditions=DRAINED),),
        ("Stopping", "w-0 on n was disrupted: DisruptionTarget"),
    ),
    "a code of a drained pod says nothing": (
        (W0, pod("w-1", phase="Failed", code=1, conditions=DRAINED)),
        ("Stopping", "w-1 on n was disrupted: DisruptionTarget"),
    ),
    "deleted": ((pod(deleted=-1, code=1, at=0),), ("Stopping", "w-0 on n was disrupted: Deleted")),
    "evicted without a code": (
        (pod(phase="Failed", empty=True, rejected="Evicted"),),
        ("Stopping", "w-0 on n was disrupted: Evicted"),
    ),
    "evicted because its node is short of storage": (
        (pod(phase="Failed", code=137, evicted=SHORT, conditions=DRAINED),),
        ("Stopping", "w-0 on n was disrupted: DisruptionTarget"),
    ),
    "evicted from a node under pressure": (
        (pod(phase="Failed", empty=True, evicted=PRESSED),),
        ("Stopping", "w-0 on n was disrupted: Evicted"),
    ),
    "rejected by the kubelet": (
        (W1, pod(phase="Failed", empty=True, rejected="OutOfcpu")),
        ("Stopping", "w-0 on n was rejected by the kubelet: OutOfcpu"),
    ),
    "gone": ((pod("w-1"),), ("Stopping", "a pod was disrupted: Deleted")),
    "on a node that does not answer": ((pod(conditions=CUT_OFF),), ("Running", None)),
    "of an earlier attempt": (
        (pod("old", phase="Failed", code=9), pod("member")),
        ("Running", None),
    ),
    "of another object": (
        (pod(owner="other", phase="Failed", code=9), pod("member")),
        ("Running", None),
    ),
    "succeeded": ((pod("member"), pod(phase="Succeeded", code=0)), ("Running", None)),
    "deleted after it has succeeded": (
        (pod(phase="Succeeded", code=0, at=-9, deleted=-5),),
        ("Running", None),
    ),
    "a sidecar that is told to end": (
        (pod(phase="Succeeded", code=0, sidecar=143),),
        ("Running", None),
    ),
    "a sidecar that crashes and recovers": ((pod(sidecar=1),), ("Running", None)),
    "another container that fails after training": (
        (pod(phase="Failed", code=0),),
        ("Stopping", "w-0 exited with code 1"),
    ),
    "of an index that its user has scaled away": ((pod(index=2, deleted=-1),), ("Running", None)),
}


@pytest.mark.parametrize("name", STOP)
def test_what_stops_a_gang(name):
    pods, expected = STOP[name]
    members = ("member",) if name in ("gone", "of an earlier attempt") else ()
    start = replace(RUNNING, old=("old",), members=members)

    state = after(GANG, seen(*pods, state=start))

    assert expected == (state.phase, state.cause and state.cause.text)


def test_a_gang_that_its_user_scales_down_goes_on():
    start = replace(RUNNING, members=("w-0", "w-1", "w-2"), old=("old",))
    pods = [pod(index=0), pod("w-1", index=1)]

    assert after(GANG, seen(*pods, state=start, ps=server(0, 0))).members == ("w-0", "w-1")
    assert after(GANG, seen(*pods[:1], state=start, ps=server(0, 0))).phase == "Stopping"


def test_a_permanent_code_stops_the_gang_after_a_moment():
    what = seen(pod(phase="Failed", code=1))
    state = after(GANG, what)
    later = seen(pod(phase="Failed", code=1), state=state)

    assert NOW + 5 == state.settled == after(GANG, later, NOW + 4).settled
    assert after(GANG, later, NOW + 5).phase == "Stopping"


def test_a_gang_that_its_user_suspends_is_left_alone():
    start = replace(RUNNING, members=("w-0",))

    state = after(GANG, seen(state=start, worker=STOPPED))

    assert ("Running", ()) == (state.phase, state.members)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"succeeded": 1}, "has already succeeded"),
        ({"labels": ["kueue.x-k8s.io/queue-name"]}, "Kueue"),
    ],
)
def test_a_restart_is_refused(fields, reason):
    stopping = after(GANG, seen(W0, worker=fields))
    quiet = seen(W0, worker={**STOPPED, **fields}, ps=server(0, 0), state=STOPPING)

    for state in (stopping, after(GANG, quiet)):
        assert ("Ended", "RestartRefused") == (state.phase, state.reason)
        assert reason in state.message


QUIET = {"worker": STOPPED, "ps": server(0, 0)}
SPENT = replace(RUNNING, restarts=3, spent=1, disruptions=2, disturbed=2)
JUDGED = {
    "restarted": ((W0,), RUNNING, ("BackingOff", 1, 0, NOW + 10)),
    "no restarts left": ((W0,), SPENT, ("Ended", 3, 2, 0)),
    "permanent": ((W1,), RUNNING, ("Ended", 0, 0, 0)),
    "disrupted": (
        (pod(phase="Failed", conditions=DRAINED, code=1),),
        SPENT,
        ("BackingOff", 3, 3, NOW + 40),
    ),
    "no cause is left": ((), RUNNING, ("BackingOff", 0, 1, NOW + 10)),
    "not all pods are gone": ((W0, pod("w-1", deleted=-89)), RUNNING, ("Stopping", 0, 0, 0)),
    "a pod on a lost node": ((W1, pod(deleted=-91)), RUNNING, ("BackingOff", 0, 1, NOW + 10)),
    "a pod of a StatefulSet on a lost node": (
        (W1, pod("ps-0", "mnist-ps", deleted=-9000)),
        RUNNING,
        ("Stopping", 0, 0, 0),
    ),
    "a pod whose node came back": (
        (W1, pod(phase="Failed", code=143, at=0, deleted=-10, conditions=CUT_OFF)),
        RUNNING,
        ("BackingOff", 0, 1, NOW + 10),
    ),
    "told to end": (
        (W1, pod(phase="Failed", code=143, at=0, deleted=-10)),
        RUNNING,
        ("Ended", 0, 0, 0),
    ),
    "a core dump that took longer": (
        (W1, pod(phase="Failed", code=139, at=0, deleted=-10)),
        RUNNING,
        ("BackingOff", 1, 0, NOW + 10),
    ),
    "not counted yet": (
        (W0, pod("w-1", phase="Succeeded", finalizers=["batch.kubernetes.io/job-tracking"])),
        RUNNING,
        ("Stopping", 0, 0, 0),
    ),
}


@pytest.mark.parametrize("name", JUDGED)
def test_a_gang_that_has_stopped_is_judged(name):
    pods, state, expected = JUDGED[name]
    start = replace(state, phase="Stopping")

    state = after(GANG, seen(*pods, state=start, **QUIET))

    assert expected == (state.phase, state.restarts, state.disruptions, state.until)


def test_the_reason_of_a_refused_restart_after_a_disruption():
    state = after(GANG, seen(pod(conditions={"DisruptionTarget": "True"}), worker={"succeeded": 1}))

    assert ("RestartRefused", 143) == (state.reason, state.code)


def test_back_off_doubles_up_to_five_minutes():
    plan = GANG._replace(backoff_limit=100)
    delays = []
    for spent in (0, 1, 2, 3, 4, 5, 6, 50):
        start = replace(STOPPING, spent=spent)
        delays.append(after(plan, seen(W0, state=start, **QUIET)).until - NOW)

    assert [10, 20, 40, 80, 160, 300, 300, 300] == delays


@pytest.mark.parametrize(("hours", "expected"), [(0.9, (1, 2, 2)), (1.0, (0, 0, 0))])
def test_failures_before_a_long_healthy_run_do_not_count(hours, expected):
    start = replace(SPENT, quick=2, running=NOW - hours * 3600)

    state = after(GANG, seen(W0, state=start))

    assert ("Stopping", *expected) == (state.phase, state.spent, state.disturbed, state.quick)
    assert state.restarts == 3


def test_failures_count_for_ever_without_a_reset():
    start = replace(SPENT, running=NOW - 1e6)

    assert after(GANG._replace(backoff_reset_seconds=0), seen(W0, state=start)).spent == 1


@pytest.mark.parametrize("conditions", [{}, DRAINED])
@pytest.mark.parametrize("code", [0, 1, 137, 143])
@pytest.mark.parametrize("limit", EVICTED)
def test_a_pod_that_exceeds_its_own_limit_has_failed(limit, code, conditions):
    evicted = pod(
        phase="Failed", code=code, at=-1, ran=70, evicted=EVICTED[limit], conditions=conditions
    )
    peer = pod("w-1", phase="Failed", code=1, at=-2)  # which would not be retried
    stopped = seen(peer, evicted, state=STOPPING, **QUIET)
    spent = seen(peer, evicted, state=replace(SPENT, phase="Stopping"), **QUIET)

    assert after(GANG, seen(peer, evicted)).phase == "Stopping"
    state, last = after(GANG, stopped), after(GANG, spent)

    assert ("BackingOff", 1, 0) == (state.phase, state.restarts, state.disruptions)
    assert ("Ended", "BackoffLimitExceeded", 137) == (last.phase, last.reason, last.code)
    why = f"w-0 on n was evicted: {EVICTED[limit].strip(' .')}"
    assert f"{why} after 1 restarts (runPolicy.backoffLimit)" == last.message


def test_a_pod_that_exceeds_its_own_limit_soon_after_each_start_ends_the_job_early():
    evicted = pod(phase="Failed", code=143, ran=30, evicted=EVICTED["a container"])
    state = replace(STOPPING, quick=2, quick_code=137)
    plan = GANG._replace(start_failures=3, backoff_limit=100)

    assert after(plan, seen(evicted, state=state, **QUIET)).reason == "StartFailed"

    unknown = pod(phase="Failed", waiting="ContainerCreating", evicted=EVICTED["a container"])
    lost = pod(phase="Failed", code=137, evicted=EVICTED["a container"])
    terminated = lost["status"]["containerStatuses"][0]["state"]["terminated"]
    terminated.update(reason="ContainerStatusUnknown", startedAt="", finishedAt="")
    for evicted in (unknown, lost):
        known = after(plan, seen(evicted, state=state, **QUIET))
        assert ("BackingOff", 1, 0) == (known.phase, known.restarts, known.quick)


def test_a_replica_that_restarts_alone_and_exceeds_its_own_limit_does_not_restart_the_gang():
    server = SERVER._replace(retryable="alone")
    plan = GANG._replace(workloads=(WORKER, server))
    for text, phase in ((EVICTED["an emptyDir"], "Running"), (SHORT, "Stopping")):
        conditions = {} if phase == "Running" else DRAINED
        evicted = pod("ps-0", "mnist-ps", "Failed", code=137, evicted=text, conditions=conditions)
        assert after(plan, seen(pod(), pod("w-1"), evicted)).phase == phase


def test_a_replica_that_awaits_one_that_has_succeeded_ends_the_job():
    item = WORKER._replace(awaits=(("mnist-worker", 0, 1),))
    plan = REPLICA._replace(workloads=(item, SERVER))
    late = pod("w-1", phase="Pending", init=True)
    status = late["status"]["initContainerStatuses"][0]
    status.update(name="wait-for-peers", state={"running": {"startedAt": stamp(NOW - 100)}})
    ends = {at: pod(phase="Succeeded", code=0, at=at) for at in (-60, -59)}
    succeeded = {"succeeded": 1, "completedIndexes": "0"}

    over = after(plan, seen(ends[-60], late, worker=succeeded))

    assert ("Ended", 1, "PeerSucceeded") == (over.phase, over.code, over.reason)
    assert over.message == (
        "w-1 waits for replica 0 of mnist-worker, which has already succeeded and does not run"
        " again; let this replica end last"
    )
    early = seen(ends[-59], late, worker=succeeded)
    assert after(plan, early).phase == "Running"
    assert decide(plan, settled(early, plan), NOW).wake == NOW + 1
    for indexes in ("", "1", "1-3"):
        others = {"succeeded": 1, "completedIndexes": indexes}
        assert after(plan, seen(ends[-60], late, worker=others)).phase == "Running"
    assert after(REPLICA, seen(ends[-60], late, worker=succeeded)).phase == "Running"


def test_disruptions_have_a_bound_by_default():
    lost = pod(phase="Failed", conditions=DRAINED)
    states = [replace(STOPPING, disturbed=count) for count in (999, 1000)]
    before, state = (after(GANG, seen(lost, state=each, **QUIET)) for each in states)

    assert ("BackingOff", "TooManyDisruptions") == (before.phase, state.reason)
    assert state.message == (
        "w-0 on n was disrupted: DisruptionTarget after 1000 disruptions with less than 3600 s of"
        " running between them (runPolicy.giveUpAfter.disruptions)"
    )
    never = GANG._replace(disruptions=0)
    assert after(never, seen(lost, state=states[1], **QUIET)).phase == "BackingOff"


def test_disruptions_have_a_bound_if_the_user_sets_one():
    lost = pod(phase="Failed", conditions=DRAINED)
    what = seen(lost, state=replace(SPENT, phase="Stopping"), **QUIET)

    state = after(GANG._replace(disruptions=2), what)

    assert after(GANG._replace(disruptions=3), what).phase == "BackingOff"
    assert "TooManyDisruptions" == state.reason
    assert state.message.startswith("w-0 on n was disrupted: DisruptionTarget after 2 disruptions")


QUICK = {
    "the third": ({"code": 137, "ran": 59}, (2, 137), "StartFailed"),
    "the second": ({"code": 137, "ran": 59}, (1, 137), ""),
    "after a minute": ({"code": 137, "ran": 60}, (2, 137), ""),
    "another code": ({"code": 139, "ran": 59}, (2, 137), ""),
    "an init container": ({"code": 137, "ran": 59, "init": True}, (2, 137), ""),
}


@pytest.mark.parametrize("case", QUICK)
def test_a_program_that_cannot_start_is_stopped(case):
    end, (quick, last), reason = QUICK[case]
    plan = GANG._replace(backoff_limit=9, start_failures=3)
    start = replace(STOPPING, quick=quick, quick_code=last)

    state = after(plan, seen(pod(phase="Failed", **end), state=start, **QUIET))

    assert reason == state.reason


def test_all_replicas_run_from_when_the_last_one_does():
    start = replace(RUNNING, old=("old",))
    pods = (pod(), pod("w-1"), pod("ps-0", "mnist-ps"))

    assert after(GANG, seen(*pods[:2], state=start)).running == 0
    assert after(GANG, seen(*pods, state=start)).running == NOW


@pytest.mark.parametrize("case", ["worker", "server", "uncounted"])
def test_a_gang_is_not_judged_before_its_controllers_have_stopped_it(case):
    worker = job(**STOPPED, uncounted=["a"]) if case == "uncounted" else job(**STOPPED)
    objects = {"worker": job(suspend=True) if case == "worker" else worker, "ps": server(0, 0)}
    if case == "server":
        objects["ps"] = server(0, 0, generation=0)
    what = seen(W0, state=STOPPING)
    what.workloads.update({f"mnist-{name}": item for name, item in objects.items()})

    assert after(GANG, what).phase == "Stopping"


def test_after_the_delay_the_gang_starts():
    start = replace(RUNNING, phase="BackingOff", until=NOW, restarts=1)
    stopped = after(GANG, seen(W0, state=start, **QUIET))
    acts = decide(GANG, settled(seen(W0, state=stopped, **QUIET)), NOW).actions

    assert after(GANG, seen(W0, state=start, **QUIET), NOW - 1).phase == "BackingOff"
    assert "Starting" == stopped.phase
    assert ("w-0",) == stopped.old
    assert [("Job", {"suspend": False}), ("StatefulSet", {"replicas": 1})] == specs(acts)
    assert after(GANG, seen(state=stopped)).phase == "Running"


def test_a_pod_that_remains_of_an_earlier_attempt_is_no_member():
    start = replace(RUNNING, phase="BackingOff", until=NOW, restarts=1)
    lost = pod("w-0", deleted=-200)
    state = replace(after(GANG, seen(lost, state=start, **QUIET)), phase="Running")

    assert ("w-1",) == after(GANG, seen(lost, pod("w-1"), state=state)).members


AVOIDING = GANG._replace(avoid_nodes="Preferred", backoff_limit=9)
AVOIDED = {
    "the first": ("", "b", "b"),
    "the last one first": ("a", "b", "b a"),
    "three": ("a c d", "b", "b a c"),
    "each once": ("a b", "b", "b a"),
    "a pod that had none": ("a", "", "a"),
}


@pytest.mark.parametrize("case", AVOIDED)
def test_the_nodes_of_the_last_failures_are_avoided(case):
    before, node, expected = AVOIDED[case]
    failed = pod(phase="Failed", code=137, at=-2, node=node)
    follower = pod("w-1", phase="Failed", code=1, at=-1, node="z")
    what = seen(failed, follower, state=replace(STOPPING, avoid=before), **QUIET)

    assert expected == after(AVOIDING, what).avoid
    assert expected == settled(what, AVOIDING).status["avoidedNodes"]
    assert "avoidedNodes" not in settled(what).status


def test_an_init_container_that_fails_tells_against_its_node_whatever_its_code():
    failed = pod(phase="Failed", code=1, init=True, node="b")
    peer = pod("w-1", phase="Failed", code=1, init=True, node="c", at=9)
    state = after(AVOIDING, seen(peer, failed, state=STOPPING, **QUIET))

    assert ("BackingOff", "b", 1, 0) == (state.phase, state.avoid, state.restarts, state.quick)


def test_a_disruption_does_not_tell_against_a_node():
    drained = pod(phase="Failed", conditions={"DisruptionTarget": "True"}, code=137)
    state = after(AVOIDING, seen(drained, state=replace(STOPPING, avoid="a"), **QUIET))

    assert ("BackingOff", "a") == (state.phase, state.avoid)


SICK = {"g0": "Healthy", "g1": "Unhealthy", "g2": "Unknown"}
DEVICES = {
    "while it trains": (GANG, pod(devices=SICK), "Stopping"),
    "while it prepares": (GANG, pod(devices=SICK, init=True), "Stopping"),
    "in a replica that restarts alone": (REPLICA, pod(devices=SICK), "Running"),
    "only unknown": (GANG, pod(devices={"g2": "Unknown"}), "Running"),
    "healthy": (GANG, pod(devices={"g0": "Healthy"}), "Running"),
    "after the end": (GANG, pod(devices=SICK, code=0, phase="Succeeded"), "Running"),
    "of a pod of an earlier attempt": (GANG, pod("old", devices=SICK), "Running"),
}


@pytest.mark.parametrize("case", DEVICES)
def test_an_unhealthy_device_restarts_the_gang(case):
    plan, found, phase = DEVICES[case]
    what = seen(found, pod("w-1"), state=replace(RUNNING, old=("old",)))

    assert phase == after(plan, what).phase


def test_an_unhealthy_device_is_a_disruption_whose_node_is_avoided():
    crashed = pod("w-1", phase="Failed", code=139, at=-9)
    what = seen(pod(devices=SICK), crashed, state=STOPPING, **QUIET)

    state = after(AVOIDING, replace(what, pods=[]), NOW)
    assert (state.disruptions, state.avoid) == (1, "")
    start = replace(RUNNING, avoid="a")
    state = after(AVOIDING, seen(*what.pods, state=start))
    assert "w-0 on n has an unhealthy device: x/gpu g1" == state.cause.text
    state = after(AVOIDING, seen(state=state, **QUIET))
    assert ("BackingOff", 0, 1, "n a") == (
        *(state.phase, state.restarts, state.disruptions),
        state.avoid,
    )


def test_a_pod_keeps_only_its_unhealthy_devices():
    healthy, sick = (pod(devices=each) for each in ({"g0": "Healthy"}, SICK))

    assert ["x/gpu g1"] == sick["status"].pop("unhealthy")
    assert [] == healthy["status"].pop("unhealthy")
    assert healthy == sick


def term(*nodes):
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    return {"weight": 100, "preference": {"matchFields": fields}}


OWN = {"weight": 1, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
TEMPLATES = {
    "no affinity": ({}, True),
    "another affinity": ({"affinity": {"nodeAffinity": None, "podAffinity": {}}}, True),
    "that of an earlier restart": ({"affinity": {"nodeAffinity": {PREFERRED: [term("a")]}}}, True),
    "the user's": ({"affinity": {"nodeAffinity": {PREFERRED: [OWN]}}}, False),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_jobs_are_resumed_away_from_nodes_unless_their_user_prefers_others(case):
    template, moves = TEMPLATES[case]
    start = replace(RUNNING, phase="Starting", avoid="b a", old=("w-0",))
    worker = {**STOPPED, "template": template}
    what = settled(seen(W0, state=start, worker=worker, ps=server(0, 0)), AVOIDING)

    resumed, scaled = decide(AVOIDING, what, NOW).actions

    affinity = {"nodeAffinity": {PREFERRED: [term("b", "a")]}}
    assert resumed.patch["spec"] == {"suspend": False}
    assert load({"state": resumed.patch["metadata"]["annotations"][RECORD]}, "r") == start
    assert resumed.more == ({"template": {"spec": {"affinity": affinity}}} if moves else None)
    assert resumed.text == ("resuming away from b a:" if moves else "resuming")
    assert scaled.more is None


GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
ONE = [{"key": "metadata.name", "operator": "In", "values": ["c"]}]
REQUIREMENTS = {
    "no affinity": ([], [{}]),
    "the user's terms": ([GPU, {"matchFields": ONE}], [GPU, {"matchFields": ONE}]),
    "that of an earlier restart": ([{**GPU, **term("a")["preference"]}], [GPU]),
    "a term that matches no node": ([{}, GPU], [GPU]),
}


@pytest.mark.parametrize("case", REQUIREMENTS)
def test_nodes_are_excluded_from_every_term(case):
    terms, expected = REQUIREMENTS[case]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}} if terms else None
    start = replace(RUNNING, phase="Starting", avoid="b a", old=("w-0",))
    worker = {**STOPPED, "template": {"affinity": affinity}}
    plan = AVOIDING._replace(avoid_nodes="Required")
    what = settled(seen(W0, state=start, worker=worker, ps=server(0, 0)), plan)

    more = decide(plan, what, NOW).actions[0].more

    away = term("b", "a")["preference"]["matchFields"]
    found = more["template"]["spec"]["affinity"]["nodeAffinity"]
    new = [{**each, "matchFields": [*each.get("matchFields", ()), *away]} for each in expected]
    assert {REQUIRED: {"nodeSelectorTerms": new}} == found


FORCE = GANG._replace(force_delete_seconds=90)
LATE = {
    "too late": (FORCE, pod("ps-0", "mnist-ps", deleted=-121), ["ps-0"]),
    "not yet": (FORCE, pod("ps-0", "mnist-ps", deleted=-120), []),
    "not terminating": (FORCE, pod("ps-0", "mnist-ps"), []),
    "of a Job": (FORCE, pod(deleted=-200), []),
    "of an earlier object": (FORCE, pod("ps-0", "mnist-ps-old", deleted=-121), []),
    "without permission": (GANG, pod("ps-0", "mnist-ps", deleted=-121), []),
    "without a gang": (FORCE._replace(restart_scope="Replica"), "too late", ["ps-0"]),
}


@pytest.mark.parametrize("case", LATE)
def test_a_pod_of_a_lost_node_is_deleted_after_its_time(case):
    plan, found, expected = LATE[case]
    found = LATE[found][1] if isinstance(found, str) else found
    what = settled(seen(found, pod("w-1"), state=RUNNING), plan)

    actions = [each for each in decide(plan, what, NOW).actions if each.kind == "Pod"]

    assert expected == [action.name for action in actions]
    assert all((each.uid, each.patch) == (each.name, None) for each in actions)


def test_the_next_look_is_when_a_pod_is_deleted():
    found = pod("ps-0", "mnist-ps", deleted=-110)
    plan = FORCE._replace(restart_scope="Replica")

    assert NOW + 10 == decide(plan, settled(seen(found), plan), NOW).wake


def test_a_pod_that_a_finalizer_keeps_does_not_end_the_job():
    what = replace(seen(pod("ps-0", "mnist-ps", deleted=-121)), refused={"ps-0": "kept"})

    assert after(FORCE._replace(restart_scope="Replica"), what).phase == "Running"


def test_a_job_is_suspended_where_it_is():
    state = replace(STOPPING, avoid="a")

    assert decide(AVOIDING, settled(seen(W0, state=state), AVOIDING), NOW).actions[0].more is None


def settled(what, plan=GANG, now=NOW):
    """Return the observed state after all changes have been stored."""
    for _ in range(9):
        decision = decide(plan, what, now)
        if not decision.status:
            return what
        data = {**what.status, **decision.status}
        what = replace(
            what, status={key: value for key, value in data.items() if value is not None}
        )
    raise AssertionError(decision)


def specs(actions):
    return [(action.kind, action.patch and action.patch["spec"]) for action in actions]


def test_a_gang_that_stops_is_suspended():
    decision = decide(GANG, settled(seen(W0, state=STOPPING)), NOW)

    assert [("Job", {"suspend": True}), ("StatefulSet", {"replicas": 0})] == specs(decision.actions)
    metadata = decision.actions[0].patch["metadata"]
    assert "7" == metadata["resourceVersion"]
    assert "Stopping" == load({"state": metadata["annotations"][RECORD]}, "r").phase


def test_only_the_named_roles_are_a_gang():
    plan = GANG._replace(restart_scope=("worker",))

    assert [("Job", {"suspend": True})] == specs(
        decide(plan, settled(seen(W0, state=STOPPING), plan), NOW).actions
    )


HELD = {"suspend": True, "conditions": ["Suspended"]}
ORDERS = {
    ("Complete", "not yet"): False,
    ("Complete", "complete"): True,
    ("Complete", "missing"): False,
    ("Ready", "not yet"): False,
    ("Ready", "ready"): True,
    ("Ready", "complete"): True,
    ("Ready", "suspended"): False,
}


@pytest.mark.parametrize(("until", "case"), ORDERS)
def test_order(until, case):
    plan = REPLICA._replace(
        workloads=(WORKER, EVALUATOR), order=(Order("worker", until, "evaluator"),)
    )
    first = {
        "not yet": job("mnist-evaluator", ready=1),
        "ready": job("mnist-evaluator"),
        "complete": job("mnist-evaluator", conditions=["Complete"], succeeded=2),
        "missing": None,
        "suspended": job("mnist-evaluator", suspend=True),
    }[case]
    what = settled(seen(worker=HELD, evaluator=first), plan)
    expected = [("Job", {"suspend": False})] if ORDERS[until, case] else []

    assert expected == specs(decide(plan, what, NOW).actions)


ORDERED = GANG._replace(
    workloads=(WORKER, EVALUATOR), order=(Order("worker", "Complete", "evaluator"),)
)


def test_a_role_that_is_complete_does_not_hold_up_a_restart():
    finished = job("mnist-evaluator", conditions=["Complete"], succeeded=2, active=0)
    partly = job("mnist-evaluator", succeeded=1)

    assert after(ORDERED, seen(W0, evaluator=finished)).phase == "Stopping"
    assert after(ORDERED, seen(W0, evaluator=partly)).phase == "Stopping"


def test_the_restarts_of_a_role_that_is_complete_are_known_after_the_status_is_lost():
    restarted = replace(RUNNING, phase="Starting", restarts=1, spent=1)
    annotations = {RECORD: restarted.text()}
    finished = job("mnist-evaluator", conditions=["Complete"], annotations=annotations)
    worker = {**HELD, "annotations": {RECORD: "waits"}}

    what = replace(seen(worker=worker, evaluator=finished), status={})

    state = load(decide(ORDERED, what, NOW).status, "r")
    assert ("Running", 1, 1) == (state.phase, state.restarts, state.spent)


WAITING = {
    "not started yet": ("waits", True),
    "by an older mlgen": ("", True),
    "applied again": ("waits", True),
    "suspended by its user": (RUNNING.text(), False),
    "suspended for a restart": (STOPPING.text(), True),
}


@pytest.mark.parametrize("case", WAITING)
def test_a_role_that_waits_is_resumed_unless_its_user_has_suspended_it(case):
    text, resumed = WAITING[case]
    ready = job("mnist-evaluator", conditions=["Complete"], succeeded=2, active=0)
    worker = {**HELD, "annotations": {RECORD: text}}
    what = settled(seen(worker=worker, evaluator=ready), ORDERED)

    assert resumed == bool(decide(ORDERED, what, NOW).actions)


def test_a_role_that_waits_does_not_hold_up_the_start():
    start = replace(RUNNING, phase="Starting")
    what = seen(evaluator=job("mnist-evaluator"), worker=STOPPED, state=start)

    assert after(ORDERED, what).phase == "Running"


def test_a_role_that_is_restarted_alone_stops_the_gang_only_if_it_is_disrupted():
    plan = GANG._replace(workloads=(WORKER._replace(retryable="alone"), SERVER))
    drained = pod("w-1", conditions={"DisruptionTarget": "True"})

    rejected = pod("w-1", phase="Failed", empty=True, rejected="OutOfcpu")

    assert after(plan, seen(W0, rejected)).phase == "Running"
    assert after(plan, seen(W0, drained)).phase == "Stopping"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_the_pod_that_failed_first_is_kept_with_its_log(phase):
    """If suspended earlier, the Job would delete the pod, which still runs for the kubelet."""
    exited = pod(phase=phase, code=137)
    state = after(GANG, seen(exited))
    later = seen(pod(phase="Failed", code=137), state=state)

    assert ("Running", NOW + 5) == (state.phase, state.settled)
    assert after(GANG, later, NOW + 1).phase == "Stopping"
    assert after(GANG, seen(exited, state=state), NOW + 5).phase == "Stopping"


@pytest.mark.parametrize(("served", "expected"), [(False, [1]), (True, [])])
def test_servers_that_an_earlier_run_has_stopped_are_started_once(served, expected):
    what = settled(seen(ps=server(0, 0), state=replace(RUNNING, served=served)), REPLICA)

    assert [("StatefulSet", {"replicas": n}) for n in expected] == specs(
        decide(REPLICA, what, NOW).actions
    )
    assert after(REPLICA, seen(state=replace(RUNNING, served=served))).served


def test_servers_are_not_started_before_a_job_that_its_user_has_suspended():
    what = settled(seen(worker=HELD, ps=server(0, 0), state=State("r", first=NOW)), REPLICA)

    assert () == decide(REPLICA, what, NOW).actions


def test_the_deadline_starts_again_when_its_user_resumes_the_job():
    plan = REPLICA._replace(deadline_seconds=60)
    suspended = after(plan, seen(worker=HELD))

    assert ("Running", 0.0) == (suspended.phase, suspended.started)
    assert after(plan, seen(state=suspended)).started == NOW


def test_another_supervisor_of_the_same_training_goes_on():
    plan = GANG._replace(run="new")
    what = settled(seen(W0, state=replace(STOPPING, restarts=1)), plan)
    state = load(what.status, "new")

    assert ("Stopping", 1) == (state.phase, state.restarts)
    assert "1" == what.status["restarts"]


def test_a_role_without_replicas_is_left_alone():
    plan = REPLICA._replace(workloads=(WORKER, SERVER._replace(replicas=0)))
    what = settled(seen(ps=server(0, 0)), plan)

    assert () == decide(plan, what, NOW).actions


def test_the_record_at_the_end_is_without_the_pods_that_were_stopped():
    plan = GANG._replace(clean_pod_policy="Running")
    ended = settled(seen(worker=done("Complete", active=0, succeeded=2)), plan)
    gone = replace(ended, workloads=dict.fromkeys(ended.workloads))

    assert "active 0, succeeded 0, failed 0" == ended.status["replicas.ps"]
    assert "active 0, succeeded 2, failed 0" == settled(gone, plan).status["replicas.worker"]


ENDED = replace(RUNNING, phase="Ended", ended=NOW, code=1, reason="Why", message="text")
SUCCEEDED = replace(ENDED, code=0)
DELETE = [("Service", None), ("Job", None), ("StatefulSet", None)]
CLEAN = {
    "None": ("None", SUCCEEDED, seen(worker=done("Complete")), []),
    "Running": (
        "Running",
        SUCCEEDED,
        seen(worker=done("Complete")),
        [("StatefulSet", {"replicas": 0})],
    ),
    "All": ("All", SUCCEEDED, seen(worker=done("Complete")), DELETE),
    "All, held by a finalizer": (
        "All",
        ENDED,
        held(),
        [("Job", {"activeDeadlineSeconds": 1}), ("StatefulSet", {"replicas": 0})],
    ),
    "a failed job is ended": ("None", ENDED, seen(), [("Job", {"activeDeadlineSeconds": 1})]),
    "one that is suspended is ended without pods": (
        "None",
        ENDED,
        seen(worker=STOPPED),
        [("Job", {"activeDeadlineSeconds": 1, "suspend": False, "parallelism": 0})],
    ),
    "it is ended once": ("None", ENDED, seen(worker={"deadline": 1}), []),
}


@pytest.mark.parametrize("name", CLEAN)
def test_cleaning(name):
    policy, state, what, expected = CLEAN[name]
    plan = GANG._replace(clean_pod_policy=policy, objects=(("Service", "mnist"),))
    what = settled(replace(what, status={"state": state.text()}), plan)

    decision = decide(plan, what, NOW)

    assert expected == specs(decision.actions)
    assert (name in ("None", "All")) == (decision.finish == 0)


def test_a_pod_that_has_ended_and_is_held_by_a_finalizer_is_not_on_a_lost_node():
    """It stays longer than a pod on a node that answers."""
    failed = pod("w-0", code=9, phase="Failed")
    peer = pod("w-1", code=0, phase="Succeeded", deleted=-120, at=-100)
    lost = pod("w-1", deleted=-120)
    quiet = {"worker": STOPPED, "ps": server(0, 0)}

    causes = [
        after(GANG, seen(failed, each, state=STOPPING, **quiet)).cause for each in (peer, lost)
    ]

    assert ["Error", "NodeLost"] == [cause.reason for cause in causes]


GROUP = REPLICA._replace(release="mnist-kueue", workloads=(WORKER, SERVER._replace(kind="Job")))
OVER = replace(SUCCEEDED, ended=NOW - 5)


def in_group(*pods, release=None, state=OVER):
    """Return the decision for a job that has ended, whose pods are a group in Kueue."""
    release = job("mnist-kueue", suspend=True) if release is None else release
    stopped = job("mnist-ps", **STOPPED)
    what = seen(*pods, state=state, worker={"conditions": ["Complete"]}, ps=stopped, kueue=release)
    plan = GROUP._replace(clean_pod_policy="Running")
    return decide(plan, settled(what, plan), NOW)


def held(phase, owner="mnist-ps", **fields):
    return pod(owner, owner, phase, finalizers=["kueue.x-k8s.io/managed"], **fields)


TRAINED = held("Succeeded", "mnist-worker", code=0)


def test_the_pod_that_ends_a_group_replaces_one_that_has_not_succeeded():
    [action] = in_group(TRAINED, held("Failed", deleted=0)).actions

    template = {"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": "ps"}}}
    assert (action.kind, action.name) == ("Job", "mnist-kueue")
    assert action.patch["spec"] == {"suspend": False, "template": template}
    assert action.patch["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize(
    ("pods", "release"),
    [
        ([TRAINED, held("Running", deleted=0)], None),  # Kueue would delete the pod
        ([TRAINED, held("Pending", deleted=0)], None),
        ([TRAINED], None),  # Kueue ends the group by itself
        ([TRAINED, held("Failed", deleted=0)], job("mnist-kueue")),
    ],
)
def test_the_supervisor_waits_until_kueue_has_released_the_pods(pods, release):
    decision = in_group(*pods, release=release)

    assert (decision.actions, decision.finish, decision.wake) == ((), None, NOW + 2)
    late = replace(OVER, ended=NOW - 301)
    assert in_group(*pods, release=release, state=late).finish == 0


@pytest.mark.parametrize(
    ("pods", "release"),
    [
        ([pod(phase="Succeeded", code=0)], None),
        ([TRAINED, held("Failed", deleted=0)], job("mnist-kueue", conditions=["Complete"])),
        ([TRAINED, held("Failed", deleted=0)], {}),
    ],
)
def test_a_group_that_has_ended_is_left_alone(pods, release):
    assert in_group(*pods, release=release).finish == 0


def test_the_jobs_of_a_group_are_deleted_after_its_end():
    plan = GROUP._replace(clean_pod_policy="All")
    what = seen(held("Failed"), state=OVER, ps=job("mnist-ps", **STOPPED))
    what.workloads["mnist-worker"] = job(conditions=["Complete"])

    def actions(release):
        what.workloads["mnist-kueue"] = release
        actions = decide(plan, settled(what, plan), NOW).actions
        return [(action.name, action.patch is None) for action in actions]

    assert actions(job("mnist-kueue", suspend=True)) == [("mnist-kueue", False)]
    ended = [("mnist-worker", True), ("mnist-ps", True)]
    assert actions(job("mnist-kueue", conditions=["Complete"])) == ended


def test_the_time_to_live_is_that_of_the_supervisors_job():
    plan = GANG._replace(ttl_seconds=100, objects=(("Service", "mnist"),))
    what = settled(seen(worker=done("Complete"), state=SUCCEEDED), plan)
    decision = decide(plan, what, NOW)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "mnist-supervisor", "uid": "r"}

    assert decision.finish == 0
    assert [
        ("mnist", {"ownerReferences": [owner]}),
        ("mnist-worker", {"resourceVersion": "7", "ownerReferences": [owner]}),
        ("mnist-ps", {"resourceVersion": "8", "ownerReferences": [owner]}),
    ] == [(action.name, action.patch["metadata"]) for action in decision.actions]

    for item in what.workloads.values():
        item["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "r"}]

    assert ["mnist"] == [action.name for action in decide(plan, what, NOW).actions]


def test_the_objects_of_the_next_run_are_left_alone():
    plan = GANG._replace(clean_pod_policy="All")
    what = settled(seen(state=replace(ENDED, uid="earlier")), plan)

    assert ((), 1) == (decide(plan, what, NOW).actions, decide(plan, what, NOW).finish)


def test_a_status_of_another_run_is_discarded():
    what = replace(
        seen(), status={"state": State("before", restarts=3).text(), "Failed": "True x y"}
    )

    status = decide(GANG, what, NOW).status

    assert None is status["Failed"]
    assert "0" == status["restarts"]


def test_conditions_exclude_each_other_and_keep_their_time():
    running = settled(seen(pod()))
    restarting = settled(replace(seen(W0), status=running.status), now=NOW + 9)
    ended = settled(seen(worker=done("Complete")), now=NOW + 9)

    assert running.status["Running"] == f"True {stamp(NOW)} JobRunning: mnist is running"
    assert restarting.status["Created"] == running.status["Created"]
    assert restarting.status["Running"].startswith("False ")
    assert restarting.status["Restarting"].endswith("JobRestarting: w-0 exited with code 137")
    assert ended.status["Succeeded"].endswith("JobSucceeded: mnist-worker succeeded")
    assert stamp(NOW + 9) == ended.status["completionTime"]
    assert "active 2, succeeded 0, failed 0" == running.status["replicas.worker"]


CONDITION_CASES = {
    "all replicas are ready": ({}, {}, "Running"),
    "one of two is ready": ({"ready": 1}, {}, None),
    "the server is not ready": ({}, {"ready": 0}, None),
    "one has succeeded": ({"ready": 1, "active": 1, "succeeded": 1}, {}, "Running"),
    "its Job replaces a failed one": ({"ready": 1, "failed": 1}, {}, "Restarting"),
    "all run again": ({"failed": 1}, {}, "Running"),
}


@pytest.mark.parametrize("case", CONDITION_CASES)
def test_running_holds_for_all_replicas_and_restarting_for_one(case):
    worker, ps, expected = CONDITION_CASES[case]
    state = replace(RUNNING, uid="mnist-worker")
    what = seen(state=state, worker=worker, ps=server(**ps))

    status = settled(what, REPLICA).status

    conditions = [name for name in ("Running", "Restarting") if name in status]
    assert conditions == ([expected] if expected else [])


def test_a_container_that_its_kubelet_restarts_is_restarting():
    crashed = pod(owner="mnist-ps")
    crashed["status"]["containerStatuses"][0]["restartCount"] = 1

    status = settled(seen(crashed, ps=server(ready=0)), REPLICA).status

    assert status["Restarting"].endswith("JobRestarting: a replica of ps failed and restarts")


def test_a_job_is_created_when_all_its_workloads_are():
    created = [settled(seen(ps=ps), REPLICA).status for ps in (None, server())]

    assert ["Created" in status for status in created] == [False, True]


def test_the_status_as_metrics():
    ended = settled(seen(worker=done("Complete", succeeded=2), state=replace(RUNNING, restarts=3)))

    assert f"""\
mlgen_job_condition{{job="mnist",condition="Created"}} 1
mlgen_job_condition{{job="mnist",condition="Running"}} 0
mlgen_job_condition{{job="mnist",condition="Stalled"}} 0
mlgen_job_condition{{job="mnist",condition="Restarting"}} 0
mlgen_job_condition{{job="mnist",condition="Succeeded"}} 1
mlgen_job_condition{{job="mnist",condition="Failed"}} 0
mlgen_job_restarts_total{{job="mnist"}} 3
mlgen_job_disruptions_total{{job="mnist"}} 0
mlgen_job_replicas{{job="mnist",role="ps",state="active"}} 1
mlgen_job_replicas{{job="mnist",role="ps",state="succeeded"}} 0
mlgen_job_replicas{{job="mnist",role="ps",state="failed"}} 0
mlgen_job_replicas{{job="mnist",role="worker",state="active"}} 2
mlgen_job_replicas{{job="mnist",role="worker",state="succeeded"}} 2
mlgen_job_replicas{{job="mnist",role="worker",state="failed"}} 0
mlgen_job_start_time_seconds{{job="mnist"}} {NOW - 60:.0f}
mlgen_job_completion_time_seconds{{job="mnist"}} {NOW:.0f}
""" == metrics(GANG, ended.status)


def test_an_event_of_each_condition_that_holds():
    restarting = settled(seen(W0))
    both = GANG._replace(deciding=("mnist-worker", "mnist-ps"))
    found = list(events(GANG, restarting, "team"))

    assert [("Normal", "JobCreated"), ("Warning", "JobRestarting")] == [
        (event["type"], event["reason"]) for event in found
    ]
    assert found[1]["message"] == "w-0 exited with code 137"
    assert f"mnist-r-restarting-{NOW:.0f}" == found[1]["metadata"]["name"]
    assert ("mnist-worker", "mnist-worker") == (
        found[0]["involvedObject"]["name"], found[0]["involvedObject"]["uid"],
    )  # fmt: skip
    assert ["mnist-supervisor"] * 2 == [
        event["involvedObject"]["name"] for event in events(both, restarting, "team")
    ]


def test_what_another_version_has_stored_is_passed_over():
    assert State("r", restarts=2) == load({"state": '{"run": "r", "restarts": 2, "new": 1}'}, "r")


def test_the_failure_of_an_earlier_version_had_no_node():
    cause = (
        '{"time": "2026-11-22T11:32:09Z", "code": 9, "reason": "", "pod": "", "retryable": true}'
    )

    state = load({"state": f'{{"run": "r", "cause": {cause}}}'}, "r")

    assert (9, "") == (state.cause.code, state.cause.node)


def test_the_next_look_is_at_the_deadline():
    plan = GANG._replace(deadline_seconds=100)

    assert NOW + 40 == decide(plan, settled(seen(pod()), plan), NOW).wake


def test_what_is_pending_is_looked_at_again_though_nothing_happens():
    plan = GANG._replace(pending_seconds=30)

    assert NOW + 30 == decide(plan, settled(seen(pod()), plan), NOW).wake


def test_a_gang_that_waits_for_a_pod_on_a_lost_node_is_looked_at_when_it_is_given_up():
    lost, gone = (
        pod(f"w-{index}", deleted=since, phase="Running") for index, since in ((0, -9), (1, -99))
    )
    stopping = settled(seen(lost, gone))

    assert "Stopping" == load(stopping.status, "r").phase
    assert NOW - 9 + 30 + 60 == decide(GANG, stopping, NOW).wake


def test_a_deletion_has_no_patch():
    assert Action("Service", "mnist") == Action("Service", "mnist", None)
