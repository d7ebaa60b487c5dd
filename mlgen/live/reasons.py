"""A pod → its state, or why it does not run, as one word and one line.

The word is the reason from Kubernetes, if any: `Unschedulable`, `ImagePullBackOff`, `OOMKilled`.

For a job that waits for Kueue, the line has its position in the queue. Kueue's visibility API lists
the pending Workloads of a LocalQueue with their positions, from 0. It is a separate API server
(kubernetes-sigs/kueue v0.19.2, apis/visibility/v1beta2/types.go), which a cluster may lack, and
`kubectl api-resources` does not list it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import ClusterError, Kubectl, Outcome
from mlgen.runtime.cluster import (
    SIDECAR,
    condition,
    containers,
    is_deleted,
    last_end,
)
from mlgen.runtime.plan import Workload

RUNNING, SUCCEEDED, WAITING, FAILED = "Running", "Succeeded", "WaitingForPeers", "Failed"
NOT_READY, TERMINATING, STARTING = "NotReady", "Terminating", "ContainerCreating"

FINE = (RUNNING, SUCCEEDED, TERMINATING)
"""Words that need no explanation."""

WAIT = "wait-for-peers"
"""The init container that waits for peers. If a job restarts in place, its sidecar waits."""

MAX_MESSAGE = 160


class Reason(NamedTuple):
    """The state of a pod in one word, and details in one line, or ""."""

    word: str
    message: str = ""


def reason(item: Workload, pod: Object, events: Sequence[Object] = ()) -> Reason:
    """Return the state of a pod, with details.

    Args:
        item: its workload.
        pod: as returned by the API server.
        events: warnings, the latest last. Used if the containers are not created yet.
    """
    word, message = _reason(item, pod)
    return Reason(word, shortened(event_of(pod, events) if word == STARTING else message))


def _reason(item: Workload, pod: Object) -> Reason:
    """Return the state of a pod; its message is not shortened."""
    status = pod["status"]
    if status["phase"] == "Succeeded":
        return Reason(SUCCEEDED)
    if status["phase"] == "Failed":
        return _failed(item, pod)
    if is_deleted(pod):
        return Reason(TERMINATING)
    gate = condition(pod, "PodScheduled", "False")
    if gate:
        return Reason(gate["reason"] or "Pending", scheduling(gate["message"]))
    for container in status["initContainerStatuses"]:
        is_sidecar = container["name"] in pod["spec"]["sidecars"]
        end = container["state"].get("terminated", {})
        if not (container["started"] if is_sidecar else end.get("exitCode") == 0):
            return _initializing(container)
    return _running(item, pod)


def _failed(item: Workload, pod: Object) -> Reason:
    """Return why a pod has failed."""
    status = pod["status"]
    ends = {each["name"]: last_end(each) for each in containers(pod)}
    failed = {name: end for name, end in ends.items() if end.get("exitCode")}
    name = item.container if item.container in failed else next(iter(failed), "")
    if status["reason"] or not name:
        return Reason(status["reason"] or FAILED, status["message"])
    where = "" if name == item.container else f" (container {name})"
    message = failed[name]["message"].strip().rpartition("\n")[2]
    text = f"exit code {failed[name]['exitCode']}{where}"
    return Reason(failed[name]["reason"] or "Error", f"{text}: {message}" if message else text)


def _initializing(container: Object) -> Reason:
    name, state = container["name"], container["state"]
    if "waiting" in state:
        return _waiting(container)
    if "running" in state:
        return Reason(WAITING if name in (WAIT, SIDECAR) else f"Init:{name}")
    return Reason(f"Init:{name}", f"exit code {last_end(container).get('exitCode')}")


def _running(item: Workload, pod: Object) -> Reason:
    every = pod["status"]["containerStatuses"]
    waiting = [each for each in every if "waiting" in each["state"]]
    # The training container first: its state matters most to the user.
    for each in sorted(waiting, key=lambda each: each["name"] != item.container):
        return _waiting(each)
    if not every:
        return Reason("Pending")
    if devices := pod["status"]["unhealthy"]:
        return Reason("UnhealthyDevice", ", ".join(devices))
    if condition(pod, "Ready"):
        return Reason(RUNNING)
    restarted = [_last(each) for each in every if last_end(each).get("exitCode")]
    return Reason(NOT_READY, next(iter(restarted), ""))


def _waiting(container: Object) -> Reason:
    """Return why a container does not run yet, or no longer runs."""
    waiting = container["state"]["waiting"]
    word, message = waiting["reason"] or STARTING, waiting["message"]
    if word == "CrashLoopBackOff":
        message = _last(container)
    elif word in ("ImagePullBackOff", "ErrImagePull"):
        message = image_error(container["image"], message)
    return Reason(STARTING if word == "PodInitializing" else word, message)


def _last(container: Object) -> str:
    """Return how the previous run of a container ended; "" if there was none."""
    end = last_end(container)
    word = f"{end['reason']}, " if end.get("reason", "") not in ("", "Error", "Completed") else ""
    return f"last {word}exit code {end['exitCode']}" if end else ""


def event_of(item: Object, events: Sequence[Object]) -> str:
    """Return the message of the last warning about an object, or ""."""
    uid = item["metadata"]["uid"]
    own = [each for each in events if each["involvedObject"].get("uid") == uid]
    return str(own[-1].get("message", "")) if own else ""


def scheduling(message: str) -> str:
    """Return the scheduler's message without the part about preemption, which repeats it.

    `0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate,
    preemption: 0/3 nodes are available: …` (pkg/scheduler/framework/types.go, FitError).
    """
    return re.split(r"\.? (?:no new claims to deallocate, )?preemption: ", message)[0]


def image_error(image: str, message: str) -> str:
    """Return why an image cannot be pulled, naming the image once.

    The kubelet's message repeats the image.
    """
    text = message.rpartition(": ")[2].strip().strip('"') if image in message else message
    details = "" if text.startswith("Back-off") or not text else f": {text}"
    return f"cannot pull {image}{details}"


def shortened(text: str) -> str:
    """Return a message in one line of at most MAX_MESSAGE characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 1]}…"


def restarts(pod: Mapping[str, Any]) -> int:
    """Return the number of container restarts of a pod."""
    return sum(each["restartCount"] for each in containers(dict(pod)))


WORKLOADS = "workloads.kueue.x-k8s.io"

VERSIONS = ("v1beta2", "v1beta1")

PENDING = (("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True"))
"""The conditions of a Workload that contain the reason for waiting, the first that is present."""


def pending(kubectl: Kubectl, namespace: str, queue: str) -> Outcome:
    """Return kubectl's output of the pending Workloads of a LocalQueue, as JSON.

    Raises:
        ClusterError: kubectl is not installed, or the API server does not respond.
    """
    for version in VERSIONS:
        group = f"/apis/visibility.kueue.x-k8s.io/{version}"
        path = f"{group}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
        outcome = kubectl.outcome("get", "--raw", path)
        if not outcome.status or outcome.cause != "other":
            break
    return outcome


def queue_reason(kubectl: Kubectl, namespace: str, queue: str, own: set[str]) -> str:
    """Return in one line where a job waits in its queue, and why; "" if Kueue reports neither.

    Args:
        kubectl: kubectl.
        namespace: the namespace of the job.
        queue: the name of its LocalQueue.
        own: the UIDs of the job's workloads and pods, which own its Workload.
    """
    try:
        workloads = kubectl.readable("get", WORKLOADS, namespace=namespace) or ()
        found = [each for each in workloads if not own.isdisjoint(owners(each))]
        if not found:
            return ""
        listed = pending(kubectl, namespace, queue)
    except ClusterError:
        return ""
    position, why = _position(listed, found[-1]["metadata"]["name"], queue), _why(found[-1])
    return ": ".join(filter(None, (position, why)))


def owners(workload: Object) -> set[str]:
    """Return the UIDs of the owners of a Workload."""
    return {str(each.get("uid")) for each in workload["metadata"].get("ownerReferences") or ()}


def _position(found: Outcome, workload: str, queue: str) -> str:
    """Return the position of a Workload, counted from 1; without it, only the queue."""
    items = json.loads(found.stdout)["items"] if not found.status else ()
    for item in items or ():
        if item["metadata"]["name"] == workload:
            own, shared = item["positionInLocalQueue"] + 1, item["positionInClusterQueue"] + 1
            return f"position {own} in the queue {queue}, {shared} in its ClusterQueue"
    return f"in the queue {queue}"


def _why(workload: Object) -> str:
    """Return the message of the condition that explains why a Workload waits, or ""."""
    conditions = workload.get("status", {}).get("conditions") or ()
    messages = {(each["type"], each["status"]): each.get("message", "") for each in conditions}
    return str(next((messages[each] for each in PENDING if messages.get(each)), ""))
