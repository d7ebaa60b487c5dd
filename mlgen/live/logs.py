"""Print the log of a replica, or follow it across restarts of its container or pod."""

import shlex
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from time import sleep
from typing import NamedTuple

from mlgen.checks.pods import workloads
from mlgen.kubernetes.objects import Object
from mlgen.live.job import LiveJob
from mlgen.live.kubectl import ClusterError, Kubectl
from mlgen.live.reasons import FINE, WAIT, shortened
from mlgen.live.state import JobState, LogState, Snapshot, reasons_of_pods, snapshots, state
from mlgen.live.watch import PAUSE, Tell, patient_snapshots
from mlgen.objects.labels import status_name, workload_name
from mlgen.output.manifests import file_argument
from mlgen.output.terminal import safe
from mlgen.problems import MlgenError, Problem, choice
from mlgen.runtime.cluster import containers, ending
from mlgen.show.groups import Replica, replicas_of

MAX_SILENT = 3
"""Consecutive pauses in an existing log before giving up: one minute."""

MAX_ERRORS = 5
"""Consecutive failures to read an existing log before giving up."""


class Request(NamedTuple):
    """The log to print.

    Attributes:
        job: the job.
        replica: a replica of the job.
        container: its name; "" for the training container.
        previous: True for the log before the last restart of the container, or of the previous pod.
        tail: the number of lines from the end; -1 for all.
        options: mlgen's options when the job was rendered, for the command in a message.
    """

    job: LiveJob
    replica: Replica
    container: str = ""
    previous: bool = False
    tail: int = -1
    options: tuple[str, ...] = ()

    @property
    def workload(self) -> str:
        """The name of the replica's Job or StatefulSet."""
        return workload_name(self.job.topology.job, self.replica.role)


class Moment(NamedTuple):
    """The state of a replica at one time.

    Attributes:
        snapshot: of its job.
        container: the name of the requested container.
        pods: the replica's pods, the newest first.
        status: of the container in the newest pod; {} if the kubelet has not reported it yet.
    """

    snapshot: Snapshot
    container: str
    pods: list[Object]
    status: Object

    @property
    def has_log(self) -> bool:
        """True if the container runs, has ended, or was restarted."""
        states = (self.status.get(name, {}) for name in ("state", "lastState"))
        return any("running" in each or "terminated" in each for each in states)

    @property
    def runs(self) -> bool:
        """True if the container runs."""
        return "running" in self.status.get("state", {})


def moment(snapshot: Snapshot, request: Request) -> Moment:
    """Return the current state of a replica.

    Raises:
        MlgenError: the replica has no such container.
    """
    pods = pods_of_replica(snapshot, request.replica)
    container = container_of(snapshot, request)
    return Moment(snapshot, container, pods, status_of(pods[0], container) if pods else {})


def pods_of_replica(snapshot: Snapshot, replica: Replica) -> list[Object]:
    """Return the pods of a replica, the newest first."""
    return [each.pod for each in reversed(snapshot.pods) if each.replica == str(replica)]


def container_of(snapshot: Snapshot, request: Request) -> str:
    """Return the name of the container.

    Raises:
        MlgenError: the replica has no such container.
    """
    name = request.workload
    if not request.container:
        return next(item.container for item in snapshot.plan.workloads if item.name == name)
    pod = workloads(request.job.objects)[name]["spec"]["template"]["spec"]
    names = [
        each["name"] for key in ("containers", "initContainers") for each in pod.get(key) or ()
    ]
    if request.container not in names:
        message = f'--container: {request.replica} has no container "{request.container}"'
        raise _unknown(message, choice(request.container, names))
    return request.container


def status_of(pod: Object, container: str) -> Object:
    """Return the status of a container; {} if the kubelet has not reported it yet."""
    return next((each for each in containers(pod) if each["name"] == container), {})


def print_log(kubectl: Kubectl, request: Request, write: Tell, tell: Tell) -> None:
    """Print the current log of a replica, or what the supervisor kept of a pod that is gone.

    Args:
        kubectl: reads the cluster.
        request: the log to print.
        write: prints a line of the log.
        tell: prints where the lines are from.

    Raises:
        MlgenError: there is no log. The message contains the reason.
    """
    now = moment(snapshots(kubectl, [request.job])[0], request)
    if kept := _kept(request, now):
        name = status_name(request.job.name)
        tell(f"{kept.pod} is gone; its last lines, which ConfigMap {name} keeps:")
        for line in deque(kept.lines, None if request.tail < 0 else request.tail):
            write(safe(line))
        return
    if not now.pods:
        raise no_pod(now.snapshot, request)
    pod, options = _previous(request, now) if request.previous else (now.pods[0], [])
    name = pod["metadata"]["name"]
    if not (now.has_log or request.previous):
        message = f"{name} has no log yet: {why(now, request)}"
        raise MlgenError([Problem((), message, "kubectl", "to wait for it, use --follow")])
    words = ["logs", name, "-c", now.container, f"--tail={request.tail}", *options]
    with closing(kubectl.lines(*words, namespace=request.job.namespace)) as lines:
        silent = 0
        for text in lines:
            silent = silent + 1 if text is None else 0
            if text is not None:
                write(text)
            elif silent == MAX_SILENT:
                raise ClusterError("the API server does not respond", "unreachable")


def _kept(request: Request, now: Moment) -> LogState | None:
    """Return the kept lines of the previous run, if it has no log in the cluster; or None."""
    kept = state(now.snapshot).log if request.previous else None
    if not kept or kept.replica != str(request.replica) or now.status.get("restartCount"):
        return None
    is_there = now.pods[1:] or kept.pod in [each["metadata"]["name"] for each in now.pods]
    main = container_of(now.snapshot, request._replace(container=""))
    is_other = " " in kept.pod or now.container != main  # an init container
    return None if is_there or is_other else kept


def _previous(request: Request, now: Moment) -> tuple[Object, list[str]]:
    """Return the pod and kubectl's options for the previous run of a container.

    Raises:
        MlgenError: there was no previous run.
    """
    pod, *older = now.pods
    if now.status.get("restartCount"):
        return pod, ["--previous"]
    if older:
        return older[0], []
    text = f"{pod['metadata']['name']} is the oldest pod of {request.replica} that still exists"
    message = f"{text}, and its container {now.container} was not restarted"
    raise _unknown(message, "omit --previous")


def why(now: Moment, request: Request) -> str:
    """Return the state of a replica's newest pod: `ImagePullBackOff: cannot pull …`."""
    found = reasons_of_pods(now.snapshot)
    why = next(why for each, why in found if each.replica == str(request.replica))
    return f"{why.word}: {why.message}".removesuffix(": ")


def not_found(file: str, state: JobState, options: Sequence[str]) -> Problem:
    """Return the problem of a job that does not exist in the cluster.

    Args:
        file: the name of the job file; "" for a job by name.
        state: the state of the job.
        options: mlgen's options when the job was rendered.
    """
    namespace = state.namespace
    where = f"namespace {namespace}" if namespace else "the namespace of kubectl's context"
    command = shlex.join(["mlgen", "render", file_argument(file), *options])
    hint = f"to create it: {command} | kubectl apply -f -" if file else "mlgen list shows the jobs"
    return Problem((), f"{state.name} is not in {where}", "kubectl", hint)


def no_pod(snapshot: Snapshot, request: Request) -> MlgenError:
    """Return the exception for a replica without a pod."""
    present = state(snapshot)
    if present.phase == "NotFound":
        return MlgenError([not_found(request.job.file, present, request.options)])
    does = next((each.pods for each in present.roles if each.role == request.replica.role.name), "")
    details = "; ".join(filter(None, (present.phase, present.message)))
    message = f"{request.replica} has no pod; role: {does}; job: {details}"
    return MlgenError([Problem((), shortened(message), "kubectl", "see mlgen status")])


class Follower:
    """Follows the log of one replica."""

    def __init__(self, kubectl: Kubectl, request: Request, write: Tell, tell: Tell) -> None:
        """Prepare to follow a replica.

        Args:
            kubectl: reads the cluster.
            request: the log to follow.
            write: prints a line of the log.
            tell: prints a status line, such as the reason for waiting.
        """
        self.kubectl, self.request, self.write, self.tell = kubectl, request, write, tell
        # The container run that was printed last: the pod's UID and the restart count.
        self._run = ("", -1)
        # The timestamp of the last line, and the number of lines with it.
        self._stamp, self._count = "", 0
        # The last status line.
        self._told = ""
        # Consecutive failures to read the log.
        self._errors = 0
        # UIDs of the pods whose log of wait-for-peers was printed.
        self._waited: set[str] = set()

    def run(self) -> None:
        """Print the log until the replica, its Job or the training has ended.

        Raises:
            MlgenError: the job does not exist in the cluster, or cannot be read.
        """
        now = self._look()
        if not now.snapshot.exists:
            raise no_pod(now.snapshot, self.request)
        while True:
            if now.pods and self._print(now):
                now = self._look()
                if now.has_log and self._run_of(now) != self._run:
                    continue
            if self._is_over(now):
                return
            self._say(now)
            sleep(PAUSE)
            now = self._look()

    def _look(self) -> Moment:
        found = patient_snapshots(self.kubectl, [self.request.job], self.tell)
        return moment(found[0], self.request)

    def _run_of(self, now: Moment) -> tuple[str, int]:
        return now.pods[0]["metadata"]["uid"], int(now.status["restartCount"])

    def _print(self, now: Moment) -> bool:
        """Print the rest of a container's log, or before it has one, the log of wait-for-peers.

        Returns:
            True if a log was read.
        """
        pod = now.pods[0]
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if now.has_log:
            run = self._run_of(now)
            begins = run != self._run
            if begins:
                what = f"restart {run[1]} in" if self._run[0] == uid else "new pod"
                if self._run[0]:
                    self.tell(f"{self.request.replica}: {what} {name}")
                self._run, self._stamp, self._count, self._told, self._errors = run, "", 0, "", 0
            # The kubelet reports the end of a container shortly after its log ends.
            if begins or "terminated" not in now.status["state"]:
                self._stream(pod, now.container)
                return True
        elif "running" in status_of(pod, WAIT).get("state", {}) and uid not in self._waited:
            self._say(now)
            self._waited.add(uid)
            self._read(pod, [WAIT], lambda text: self.tell(f"{name}: {text}"))
            return True
        return False

    def _stream(self, pod: Object, container: str) -> None:
        """Print the lines of a container that are not printed yet."""
        before, skip = self._stamp, self._count
        # --since-time has a resolution of one second, so lines of that second are repeated.
        start = f"--since-time={before[:19]}Z" if before else f"--tail={self.request.tail}"

        def write(text: str) -> None:
            nonlocal skip
            stamp, _, rest = text.partition(" ")
            if stamp < before or (stamp == before and skip):
                skip -= stamp == before
                return
            self._count = self._count + 1 if stamp == self._stamp else 1
            self._stamp = stamp
            self.write(rest)

        self._read(pod, [container, start, "--timestamps"], write)

    def _read(self, pod: Object, options: list[str], write: Tell) -> None:
        """Read a log until it ends, or until the replica has a newer pod."""
        words = ["logs", "-f", pod["metadata"]["name"], "-c", *options]
        namespace = self.request.job.namespace
        try:
            with closing(self.kubectl.lines(*words, namespace=namespace)) as lines:
                for text in lines:
                    if text is not None:
                        write(text)
                    elif self._is_replaced(pod):
                        return
            self._errors = 0
        except ClusterError as error:
            # The pod may have been deleted meanwhile.
            self._errors += 1
            if error.cause in ("missing", "forbidden") or self._errors > MAX_ERRORS:
                raise

    def _is_replaced(self, pod: Object) -> bool:
        return [pod["metadata"]["uid"]] != [e["metadata"]["uid"] for e in self._look().pods[:1]]

    def _is_over(self, now: Moment) -> bool:
        """Return whether no further lines can follow."""
        if not now.snapshot.exists:
            return True
        if now.runs:
            return False
        observed = now.snapshot.seen.workloads[self.request.workload]
        succeeded = bool(now.pods) and now.pods[0]["status"]["phase"] == "Succeeded"
        return succeeded or bool(ending(observed)) or state(now.snapshot).ended

    def _say(self, now: Moment) -> None:
        """Print the reason for waiting, if it has changed."""
        if now.runs:
            return
        text = f"{self.request.replica} has no pod yet: the job is {state(now.snapshot).phase}"
        if now.pods:
            reason = why(now, self.request)
            text = f"{now.pods[0]['metadata']['name']}: {reason}"
            if reason in FINE:
                return
        if text != self._told:
            self._told = text
            self.tell(text)


# Options of the command → the job and the replica that they select


def replicas(job: LiveJob) -> list[Replica]:
    """Return all replicas of a job, by role and index."""
    topology, found = job.topology, replicas_of(job.topology)
    return [each for name in topology.by_name for each in found[name].values()]


def find_job(jobs: Sequence[LiveJob], name: str | None) -> LiveJob:
    """Return the job with a name, or for None, the only job.

    Raises:
        MlgenError: there is no such job, or there are several jobs and no name.
    """
    names = [job.name for job in jobs]
    if name is None and len(jobs) > 1:
        raise _unknown(f"expected one job, got {len(jobs)}", f"use --job with {', '.join(names)}")
    found = [job for job in jobs if name in (None, job.name, job.topology.job.part_of)]
    if not found:
        raise _unknown(f'--job: no job "{name}" found', choice(str(name), names))
    return found[0]


def find_replica(job: LiveJob, rank: int | None, role: str | None, index: int | None) -> Replica:
    """Return the replica with a rank, or with a role and index (default: 0).

    Default: rank 0, or else the first deciding replica, because its log shows the progress.

    Raises:
        MlgenError: there is no such replica.
    """
    if rank is not None:
        return by_rank(job, rank)
    if role:
        return by_index(job, role, index or 0)
    every = replicas(job)
    return next((r for r in every if r.rank == 0), None) or next(r for r in every if r.role.decides)


def by_rank(job: LiveJob, rank: int) -> Replica:
    """Return the replica with a rank.

    Raises:
        MlgenError: the job has no such rank, or its ranks are not known before it starts.
    """
    every = replicas(job)
    ranks = {each.rank: each for each in every if each.rank is not None}
    if not ranks:
        roles = ", ".join(job.topology.by_name)
        framework = job.topology.job.framework
        reason = f"the replicas of this {framework} job have no ranks before they start"
        raise _unknown(f"--rank {rank}: {reason}", f"use --role and --index; roles: {roles}")
    if rank not in ranks:
        raise _unknown(f"--rank {rank}: {job.name} has no such rank", _range(ranks))
    return ranks[rank]


def by_index(job: LiveJob, role: str, index: int) -> Replica:
    """Return a replica of a role by its name in the job file or in the rendered job.

    Raises:
        MlgenError: the job has no such role or replica.
    """
    own = replicas_of(job.topology).get(role)
    if not own and role in job.topology.job.roles:
        hint = "the program creates them; see kubectl get pods"
        raise _unknown(f"--role: {role} of {job.name} has no rendered replicas", hint)
    if not own:
        known = list(dict.fromkeys([*job.topology.job.roles, *job.topology.by_name]))
        raise _unknown(f'--role: {job.name} has no role "{role}"', choice(role, known))
    if index not in own:
        raise _unknown(f"--index {index}: {role} has no such replica", _range(own))
    return own[index]


def _range(values: Iterable[int]) -> str:
    """Return the hint with the valid numbers: `use 0 to 3`."""
    numbers = sorted(values)
    return f"use {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")


def _unknown(message: str, hint: str) -> MlgenError:
    return MlgenError([Problem((), message, "unknown-value", hint)])
