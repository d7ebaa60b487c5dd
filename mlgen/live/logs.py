"""The log of a replica: as it is, or followed across restarts: in the same pod, or in a new one."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import sleep

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl, KubectlError
from mlgen.live.reasons import FINE, WAIT, reason, shortened
from mlgen.live.replicas import Replica
from mlgen.live.snapshot import Snapshot, snapshots
from mlgen.live.state import state
from mlgen.live.watch import PAUSE, Tell, persistent
from mlgen.output.next_steps import file_argument
from mlgen.problems import MlgenError, Problem, choice
from mlgen.result import Rendered
from mlgen.runtime.cluster import containers, ending

MAX_ERRORS = 5
"""How often in a row kubectl may fail to read a log that is there."""


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


def pods_of_replica(snapshot: Snapshot, replica: Replica) -> list[Object]:
    """Return the pods of a replica, the newest first."""
    return [each.pod for each in reversed(snapshot.pods) if each.replica == str(replica)]


def container_of(snapshot: Snapshot, request: Request) -> str:
    """Return the name of the container.

    Raises:
        MlgenError: the replica has no such container.
    """
    name = request.replica.workload
    if not request.container:
        return next(item.container for item in snapshot.plan.workloads if item.name == name)
    objects = request.rendered.objects
    names = [
        each["name"]
        for item in objects
        if item["metadata"]["name"] == name and "template" in item["spec"]
        for field in ("containers", "initContainers")
        for each in item["spec"]["template"]["spec"].get(field) or ()
    ]
    if request.container not in names:
        message = f'--container: {request.replica} has no container "{request.container}"'
        raise MlgenError([Problem((), message, "unknown-value", choice(request.container, names))])
    return request.container


def status_of(pod: Object, container: str) -> Object:
    """Return the status of a container; {} if the kubelet has not reported it yet."""
    return next((each for each in containers(pod) if each["name"] == container), {})


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
    for each in state(snapshot).stuck:
        if each.pod == pod["metadata"]["name"]:
            return f"{each.reason}: {each.message}".removesuffix(": ")
    item = next(each.workload for each in snapshot.pods if each.replica == str(request.replica))
    why = reason(item, pod, snapshot.events)
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
    does = next((each.pods for each in present.roles if each.role == request.replica.role), "")
    details = "; ".join(filter(None, (f"{present.phase}", present.message)))
    message = f"{request.replica} has no pod: its role has {does}, the job is {details}"
    return MlgenError([Problem((), shortened(message), "kubectl", "see mlgen status")])


@dataclass(slots=True)
class _Progress:
    """What has been printed so far.

    Attributes:
        uid: of the pod.
        restart: the restart count of the container.
        time: the time stamp of the last line; "" before the first.
        count: the number of lines with this time stamp.
        told: the last line about what is waited for.
        errors: how often in a row the log could not be read.
        waited: UIDs of the pods whose wait for peers was shown.
    """

    uid: str = ""
    restart: int = -1
    time: str = ""
    count: int = 0
    told: str = ""
    errors: int = 0
    waited: set[str] = field(default_factory=set)

    def is_of(self, pod: Object, restart: int) -> bool:
        """Return whether lines of this run of the container were printed."""
        return (pod["metadata"]["uid"], restart) == (self.uid, self.restart)

    def add(self, stamp: str) -> None:
        """Count a line."""
        self.count = self.count + 1 if stamp == self.time else 1
        self.time = stamp


@dataclass(slots=True)
class Follower:
    """Follows one replica.

    Attributes:
        kubectl: reads the cluster.
        request: whose log.
        write: prints a line of the log.
        tell: prints what is waited for.
    """

    kubectl: Kubectl
    request: Request
    write: Tell
    tell: Tell
    _progress: _Progress = field(default_factory=_Progress)

    def run(self) -> None:
        """Print the log until it has ended: with the replica, its Job, or the training.

        Raises:
            MlgenError: the job is not in the cluster, or cannot be read.
        """
        snapshot = self._look()
        if not snapshot.exists:
            raise no_pod(snapshot, self.request)
        container = container_of(snapshot, self.request)
        while True:
            pods = pods_of_replica(snapshot, self.request.replica)
            if pods and self._print(snapshot, pods[0], container):
                snapshot = self._look()
                if self._is_behind(snapshot, container):
                    continue
            if self._is_over(snapshot, container):
                return
            self._say(snapshot, container)
            sleep(PAUSE)
            snapshot = self._look()

    def _look(self) -> Snapshot:
        def look() -> Snapshot:
            return snapshots(self.kubectl, [self.request.rendered])[0]

        return persistent(look, self.tell)

    def _is_behind(self, snapshot: Snapshot, container: str) -> bool:
        """Return whether there is a log of which nothing was printed."""
        pods = pods_of_replica(snapshot, self.request.replica)
        status = status_of(pods[0], container) if pods else {}
        return has_started(status) and not self._progress.is_of(pods[0], status["restartCount"])

    def _print(self, snapshot: Snapshot, pod: Object, container: str) -> bool:
        """Print the rest of a container's log, or before it has one, that of the wait for peers.

        Return whether something may have been printed.
        """
        status, uid = status_of(pod, container), pod["metadata"]["uid"]
        if has_started(status):
            restart = int(status["restartCount"])
            begins = not self._progress.is_of(pod, restart)
            if begins:
                self._begin(pod, restart)
            # The kubelet reports the end of a container a moment after its log ends.
            if begins or "terminated" not in status["state"]:
                self._stream(pod, container)
                return True
            return False
        if "running" in status_of(pod, WAIT).get("state", {}) and uid not in self._progress.waited:
            self._say(snapshot, container)
            self._progress.waited.add(uid)
            self._stream_wait(pod)
            return True
        return False

    def _begin(self, pod: Object, restart: int) -> None:
        """Start with another run of the container."""
        if self._progress.uid:
            same = self._progress.uid == pod["metadata"]["uid"]
            what = f"restart {restart} in" if same else "new pod"
            self.tell(f"{self.request.replica}: {what} {pod['metadata']['name']}")
        self._progress = _Progress(pod["metadata"]["uid"], restart, waited=self._progress.waited)

    def _stream(self, pod: Object, container: str) -> None:
        """Print the lines of a container that were not printed yet."""
        before, skip = self._progress.time, self._progress.count
        # The API server reads the time in seconds, so the lines of that second come again.
        start = f"--since-time={before[:19]}Z" if before else f"--tail={self.request.tail}"

        def write(text: str) -> None:
            nonlocal skip
            stamp, _, rest = text.partition(" ")
            if stamp < before or (stamp == before and skip):
                skip -= stamp == before
                return
            self._progress.add(stamp)
            self.write(rest)

        self._read(pod, [container, start, "--timestamps"], write)

    def _stream_wait(self, pod: Object) -> None:
        """Print what the init container says that waits for peers."""
        name = pod["metadata"]["name"]
        self._read(pod, [WAIT], lambda text: self.tell(f"{name}: {text}"))

    def _read(self, pod: Object, options: list[str], write: Tell) -> None:
        """Read a log until it ends, or its pod is not that of the replica any more."""
        words = ["logs", "-f", pod["metadata"]["name"], "-c", *options]
        try:
            with self.kubectl.lines(*words, namespace=self.request.rendered.job.namespace) as lines:
                for text in lines:
                    if text is not None:
                        write(text)
                    elif self._is_replaced(pod):
                        return
            self._progress.errors = 0
        except KubectlError as error:
            # The pod may just have been deleted.
            self._progress.errors += 1
            if error.cause in ("missing", "forbidden") or self._progress.errors > MAX_ERRORS:
                raise

    def _is_replaced(self, pod: Object) -> bool:
        pods = pods_of_replica(self._look(), self.request.replica)
        return not pods or pods[0]["metadata"]["uid"] != pod["metadata"]["uid"]

    def _is_over(self, snapshot: Snapshot, container: str) -> bool:
        """Return whether no more lines will come."""
        if not snapshot.exists:
            return True
        pods = pods_of_replica(snapshot, self.request.replica)
        status = status_of(pods[0], container) if pods else {}
        if "running" in status.get("state", {}):
            return False
        observed = snapshot.seen.workloads[self.request.replica.workload]
        succeeded = bool(pods) and pods[0]["status"].get("phase") == "Succeeded"
        return succeeded or bool(ending(observed)) or state(snapshot).ended

    def _say(self, snapshot: Snapshot, container: str) -> None:
        """Tell what is waited for, if that has changed."""
        replica = self.request.replica
        pods = pods_of_replica(snapshot, replica)
        if pods and "running" in status_of(pods[0], container).get("state", {}):
            return
        text = f"{replica} has no pod yet: the job is {state(snapshot).phase}"
        if pods:
            reason = why(snapshot, self.request, pods[0])
            text = f"{pods[0]['metadata']['name']}: {reason}"
            if reason in FINE:
                return
        if text != self._progress.told:
            self._progress.told = text
            self.tell(text)
