"""Why a pod does not run, in a word and a line."""

import pytest

from mlgen.live.reasons import Reason, reason
from mlgen.runtime.answers import shaped
from mlgen.runtime.plan import Workload

ITEM = Workload("Job", "mnist-worker", "worker")

NOT_READY = [{"type": "Ready", "status": "False"}]


def container(name="main", *, last=None, **state):
    return {
        "name": name,
        "image": "example/mnist:1",
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "restartCount": int(bool(last)),
    }


def pod(*statuses, phase="Running", init=(), sidecars=(), **status):
    document = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"initContainers": [{"name": n, "restartPolicy": "Always"} for n in sidecars]},
        "status": {
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(init),
            **status,
        },
    }
    return shaped("Pod", document)


RUNS = container(running={})
WAITS = container(waiting={"reason": "PodInitializing"})

SICK = [
    {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]},
]

PODS = {
    "it was evicted": (
        pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
        Reason("Evicted", "The node was low on resource: memory."),
    ),
    "it failed without a container": (pod(phase="Failed"), Reason("Failed")),
    "another container failed": (
        pod(
            container(terminated={"exitCode": 0}),
            container("proxy", terminated={"exitCode": 2, "reason": "Error"}),
            phase="Failed",
        ),
        Reason("Error", "exit code 2 (container proxy)"),
    ),
    "the program left a message": (
        pod(
            container(terminated={"exitCode": 1, "reason": "Error", "message": "a\nno data\n"}),
            phase="Failed",
        ),
        Reason("Error", "exit code 1: no data"),
    ),
    "it is gated": (
        pod(
            phase="Pending",
            conditions=[
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
            ],
        ),
        Reason("SchedulingGated"),
    ),
    "an init container clones the code": (
        pod(WAITS, phase="Pending", init=[container("code", running={})]),
        Reason("Init:code"),
    ),
    "an init container has failed": (
        pod(WAITS, phase="Pending", init=[container("code", terminated={"exitCode": 75})]),
        Reason("Init:code", "exit code 75"),
    ),
    "a sidecar runs beside it": (
        pod(
            RUNS,
            init=[{**container("log", running={}), "started": True}],
            sidecars=["log"],
            conditions=[{"type": "Ready", "status": "True"}],
        ),
        Reason("Running"),
    ),
    "a sidecar has not started": (
        pod(WAITS, phase="Pending", init=[container("log", running={})], sidecars=["log"]),
        Reason("Init:log"),
    ),
    "it crash-loops": (
        pod(
            container(
                waiting={"reason": "CrashLoopBackOff"},
                last={"exitCode": 137, "reason": "OOMKilled"},
            )
        ),
        Reason("CrashLoopBackOff", "last OOMKilled, exit code 137"),
    ),
    "it completes again and again": (
        pod(
            container(
                waiting={"reason": "CrashLoopBackOff"},
                last={"exitCode": 0, "reason": "Completed"},
            )
        ),
        Reason("CrashLoopBackOff", "last exit code 0"),
    ),
    "it has restarted, and is not ready yet": (
        pod(container(running={}, last={"exitCode": 1, "reason": "Error"}), conditions=NOT_READY),
        Reason("NotReady", "last exit code 1"),
    ),
    "a device is unhealthy": (
        pod(RUNS | {"allocatedResourcesStatus": SICK}, conditions=NOT_READY),
        Reason("UnhealthyDevice", "nvidia.com/gpu GPU-1"),
    ),
    "its readiness probe fails": (pod(RUNS, conditions=NOT_READY), Reason("NotReady")),
    "the kubelet has not seen it": (pod(phase="Pending"), Reason("Pending")),
    "another container does not start": (
        pod(RUNS, container("proxy", waiting={"reason": "InvalidImageName", "message": "no"})),
        Reason("InvalidImageName", "no"),
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod(name):
    observed, expected = PODS[name]

    assert expected == reason(ITEM, observed)


def test_the_last_event_says_why_containers_are_not_created():
    events = [
        {"involvedObject": {"uid": uid}, "message": text}
        for uid, text in (("p", "old"), ("p", 'secret "a"\nnot found'), ("q", "other"))
    ]
    observed = pod(container(waiting={"reason": "ContainerCreating"}), phase="Pending")

    assert Reason("ContainerCreating", 'secret "a" not found') == reason(ITEM, observed, events)
