"""The log of a replica: of the pod in which it runs, or of each one after the other."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.live.reasons import reason, shortened
from mlgen.live.replicas import Replica, age, pod_index
from mlgen.live.snapshot import Snapshot, snapshots
from mlgen.live.state import state
from mlgen.live.watch import Tell
from mlgen.output.next_steps import file_argument
from mlgen.problems import MlgenError, Problem, choice
from mlgen.result import Rendered
from mlgen.runtime.plan import Workload


@dataclass(frozen=True)
class Request:
    """Whose log to print, and how much of it.

    Attributes:
        rendered: the job.
        replica: of the job.
        container: its name; "" for the training container.
        previous: that of the container, or pod, before the present one.
        tail: the number of lines from the end; -1 for all.
        options: those with which the job was rendered, for a command in a message.
    """

    rendered: Rendered
    replica: Replica
    container: str = ""
    previous: bool = False
    tail: int = -1
    options: tuple[str, ...] = ()


def workload_of(snapshot: Snapshot, replica: Replica) -> Workload:
    """Return the workload of a replica."""
    items = snapshot.plan.workloads
    return next(item for item in items if item.name == replica.workload)


def pods_of_replica(snapshot: Snapshot, replica: Replica) -> list[Object]:
    """Return the pods of a replica, the newest first."""
    own = [
        pod
        for item, pod in snapshot.pods
        if item.name == replica.workload and (replica.own or pod_index(pod) == replica.index)
    ]
    return sorted(own, key=age, reverse=True)


def container_of(snapshot: Snapshot, request: Request) -> str:
    """Return the name of the container.

    Raises:
        MlgenError: the replica has no such container.
    """
    if not request.container:
        return workload_of(snapshot, request.replica).container
    objects = request.rendered.objects
    names = [
        each["name"]
        for item in objects
        if item["metadata"]["name"] == request.replica.workload and "template" in item["spec"]
        for field in ("containers", "initContainers")
        for each in item["spec"]["template"]["spec"].get(field) or ()
    ]
    if request.container not in names:
        message = f'--container: {request.replica} has no container "{request.container}"'
        raise MlgenError([Problem((), message, "unknown-value", choice(request.container, names))])
    return request.container


def status_of(pod: Object, container: str) -> Object:
    """Return the status of a container; {} if the kubelet has not reported it yet."""
    fields = ("containerStatuses", "initContainerStatuses")
    every = [each for field in fields for each in pod["status"].get(field, ())]
    return next((each for each in every if each["name"] == container), {})


def has_started(status: Object) -> bool:
    """Return whether a container has a log: it runs, or has ended, also before a restart."""
    present, last = status.get("state", {}), status.get("lastState", {})
    return any("running" in each or "terminated" in each for each in (present, last))


def print_log(kubectl: Kubectl, request: Request, write: Tell) -> None:
    """Print the log of a replica as it is now.

    Raises:
        MlgenError: there is none, with the reason.
    """
    (snapshot,) = snapshots(kubectl, [request.rendered])
    container = container_of(snapshot, request)
    pods = pods_of_replica(snapshot, request.replica)
    if not pods:
        raise no_pod(snapshot, request)
    pod, options = _previous(request, pods, container) if request.previous else (pods[0], [])
    if not has_started(status_of(pod, container)):
        message = f"{pod['metadata']['name']} has no log yet: {why(snapshot, request, pod)}"
        raise MlgenError([Problem((), message, "kubectl", "to wait for it, use --follow")])
    words = ["logs", pod["metadata"]["name"], "-c", container, f"--tail={request.tail}", *options]
    with kubectl.lines(*words, namespace=request.rendered.job.namespace) as lines:
        for text in lines:
            if text is not None:
                write(text)


def _previous(request: Request, pods: list[Object], container: str) -> tuple[Object, list[str]]:
    """Return the pod, and the option of kubectl, for the run of a container before the present one.

    Raises:
        MlgenError: there was none.
    """
    pod = pods[0]
    if status_of(pod, container).get("restartCount"):
        return pod, ["--previous"]
    if len(pods) > 1:
        return pods[1], []
    text = f"{pod['metadata']['name']} is the first pod of {request.replica} that is still there"
    message = f"{text}, and its container {container} was not restarted"
    raise MlgenError([Problem((), message, "unknown-value", "omit --previous")])


def why(snapshot: Snapshot, request: Request, pod: Object) -> str:
    """Return why a container of a pod does not run yet."""
    for each in state(snapshot).troubles:
        if each.pod == pod["metadata"]["name"]:
            return f"{each.reason.word}: {each.reason.message}".removesuffix(": ")
    why = reason(workload_of(snapshot, request.replica), pod, snapshot.events)
    return f"{why.word}: {why.message}".removesuffix(": ")


def not_found(rendered: Rendered, namespace: str, options: Sequence[str]) -> Problem:
    """Return the problem of a job that is not in the cluster.

    Args:
        rendered: the job.
        namespace: where it is not; "" for that of kubectl's context.
        options: those with which the job was rendered.
    """
    where = f"namespace {namespace}" if namespace else "the namespace of kubectl's context"
    command = shlex.join(["mlgen", "render", file_argument(rendered.file), *options])
    hint = f"to create it: {command} | kubectl apply -f -"
    return Problem((), f"{rendered.job.name} is not in {where}", "kubectl", hint)


def no_pod(snapshot: Snapshot, request: Request) -> MlgenError:
    """Return the error of a replica without a pod."""
    present = state(snapshot)
    if present.phase == "NotFound":
        return MlgenError([not_found(request.rendered, present.namespace, request.options)])
    does = next((each.does for each in present.roles if each.name == request.replica.role), "")
    details = "; ".join(filter(None, (f"{present.phase}", present.message)))
    message = f"{request.replica} has no pod: its role has {does}, the job is {details}"
    return MlgenError([Problem((), shortened(message), "kubectl", "see mlgen status")])
