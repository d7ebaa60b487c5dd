"""Follow the log of a replica across restarts: in the same pod, or in a new one."""

from dataclasses import dataclass, field
from time import sleep

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl, KubectlError
from mlgen.live.logs import (
    Request,
    container_of,
    has_started,
    no_pod,
    pods_of_replica,
    status_of,
    why,
)
from mlgen.live.reasons import FINE, WAIT
from mlgen.live.snapshot import Snapshot, snapshots
from mlgen.live.state import state
from mlgen.live.watch import PAUSE, Tell, persistent
from mlgen.runtime.cluster import ending

MAX_ERRORS = 5
"""How often in a row kubectl may fail to read a log that is there."""


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
