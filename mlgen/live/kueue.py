"""A job that waits for Kueue → its position in the queue, and why it waits.

Kueue's visibility API lists the pending Workloads of a LocalQueue with their positions, from 0. It
is a separate API server (kubernetes-sigs/kueue v0.19.2, apis/visibility/v1beta2/types.go), which a
cluster may lack, and `kubectl api-resources` does not list it.
"""

import json

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl, KubectlError, Outcome

WORKLOADS = "workloads.kueue.x-k8s.io"

VERSIONS = ("v1beta2", "v1beta1")

PENDING = (("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True"))
"""The conditions of a Workload that contain the reason for waiting, the first that is present."""


def pending(kubectl: Kubectl, namespace: str, queue: str) -> Outcome:
    """Return kubectl's output of the pending Workloads of a LocalQueue, as JSON.

    Raises:
        KubectlError: kubectl is not installed, or the API server does not respond.
    """
    for version in VERSIONS:
        group = f"/apis/visibility.kueue.x-k8s.io/{version}"
        path = f"{group}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
        outcome = kubectl.outcome("get", "--raw", path)
        if not outcome.status or outcome.cause != "other":
            break
    return outcome


def reason(kubectl: Kubectl, namespace: str, queue: str, owners: set[str]) -> str:
    """Return in one line where a job waits in its queue, and why; "" if Kueue reports neither.

    Args:
        kubectl: kubectl.
        namespace: the namespace of the job.
        queue: the name of its LocalQueue.
        owners: the UIDs of the job's workloads and pods, which own its Workload.
    """
    try:
        workloads = kubectl.readable("get", WORKLOADS, namespace=namespace) or ()
        own = [each for each in workloads if not owners.isdisjoint(_owners(each))]
        if not own:
            return ""
        found = pending(kubectl, namespace, queue)
    except KubectlError:
        return ""
    position, why = _position(found, own[-1]["metadata"]["name"], queue), _why(own[-1])
    return ": ".join(filter(None, (position, why)))


def _owners(workload: Object) -> set[str]:
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
