"""The replicas whose logs `mlgen logs` prints, and the reasons why they have none."""

import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mlgen.checks.pods import workloads
from mlgen.kubernetes.objects import Object
from mlgen.live.job import LiveJob, place
from mlgen.live.reasons import shortened
from mlgen.live.state import JobState, LogState, Snapshot, reasons_of_pods, state
from mlgen.objects.labels import workload_name
from mlgen.output.manifests import file_argument
from mlgen.problems import MlgenError, Problem, choice
from mlgen.runtime.cluster import containers, ending
from mlgen.show.groups import Replica, replicas_of


class Request(NamedTuple):
    """The logs to print.

    Attributes:
        job: the job.
        replicas: replicas of the job.
        container: its name; "" for the training container.
        previous: True for the log before the last restart of the container, or of the previous pod.
        tail: the number of lines from the end of each log; None for all.
        since: the maximum age of lines in seconds; 0 for no limit.
        timestamps: True if each line begins with its time.
        options: mlgen's options when the job was rendered, for the command in a message.
    """

    job: LiveJob
    replicas: Sequence[Replica]
    container: str = ""
    previous: bool = False
    tail: int | None = None
    since: float = 0.0
    timestamps: bool = False
    options: tuple[str, ...] = ()


class Moment(NamedTuple):
    """The state of a replica at one time.

    Attributes:
        snapshot: of its job.
        replica: the replica.
        container: the name of the requested container.
        pods: the replica's pods, the newest first.
    """

    snapshot: Snapshot
    replica: Replica
    container: str
    pods: list[Object]

    @property
    def status(self) -> Object:
        """The container in the newest pod; {} if the kubelet has not reported it yet."""
        return status_of(self.pods[0], self.container) if self.pods else {}

    @property
    def runs(self) -> bool:
        """True if the container runs."""
        return "running" in self.status.get("state", {})


def moments(snapshot: Snapshot, request: Request) -> list[Moment]:
    """Return the current states of the replicas that have the container.

    Raises:
        MlgenError: no replica has the container.
    """
    pods: dict[str, list[Object]] = {}
    for each in reversed(snapshot.pods):
        pods.setdefault(each.replica, []).append(each.pod)
    found, errors = [], []
    for replica in request.replicas:
        try:
            container = container_of(request, replica)
        except MlgenError as error:
            errors.append(error)
        else:
            found.append(Moment(snapshot, replica, container, pods.get(str(replica), [])))
    if not found:
        raise errors[0]
    return found


def workload_of(request: Request, replica: Replica) -> str:
    """Return the name of a replica's Job or StatefulSet."""
    return workload_name(request.job.topology.job, replica.role)


def container_of(request: Request, replica: Replica) -> str:
    """Return the name of the container.

    Raises:
        MlgenError: the replica has no such container.
    """
    name = workload_of(request, replica)
    if not request.container:
        return next(item.container for item in request.job.plan.workloads if item.name == name)
    pod = workloads(request.job.objects)[name]["spec"]["template"]["spec"]
    names = [
        each["name"] for key in ("containers", "initContainers") for each in pod.get(key) or ()
    ]
    if request.container not in names:
        message = f'--container: {replica} has no container "{request.container}"'
        raise _unknown(message, choice(request.container, names))
    return request.container


def status_of(pod: Object, container: str) -> Object:
    """Return the status of a container; {} if the kubelet has not reported it yet."""
    return next((each for each in containers(pod) if each["name"] == container), {})


def has_log(status: Object) -> bool:
    """Return whether a container runs, has ended, or was restarted."""
    states = (status.get(name, {}) for name in ("state", "lastState"))
    return any("running" in each or "terminated" in each for each in states)


def pod_to_read(now: Moment, request: Request) -> tuple[Object, bool]:
    """Return the pod that has the requested log, and whether it is that of its previous container.

    Raises:
        MlgenError: there is no such log. The message contains the reason.
    """
    if not now.pods:
        raise no_pod(now.snapshot, request, now.replica)
    if request.previous:
        return _previous(now)
    if not has_log(now.status):
        message = f"{now.pods[0]['metadata']['name']} has no log yet: {why(now)}"
        raise MlgenError([Problem((), message, "kubectl", "to wait for it, use --follow")])
    return now.pods[0], False


def kept(request: Request, found: Sequence[Moment]) -> tuple[Moment, LogState] | None:
    """Return the replica whose kept lines are its previous run, and these lines.

    None if no lines are kept, or if that run has a log in the cluster.
    """
    log = state(found[0].snapshot).log if request.previous else None
    now = next((each for each in found if log and log.replica == str(each.replica)), None)
    if not log or not now or now.status.get("restartCount"):
        return None
    is_there = now.pods[1:] or log.pod in [each["metadata"]["name"] for each in now.pods]
    main = container_of(request._replace(container=""), now.replica)
    is_other = " " in log.pod or now.container != main  # an init container
    return None if is_there or is_other else (now, log)


def _previous(now: Moment) -> tuple[Object, bool]:
    """Return what `pod_to_read` does for the previous run of a container.

    Raises:
        MlgenError: there was no previous run.
    """
    pod, *older = now.pods
    if now.status.get("restartCount"):
        return pod, True
    if older:
        return older[0], False
    text = f"{pod['metadata']['name']} is the oldest pod of {now.replica} that still exists"
    message = f"{text}, and its container {now.container} was not restarted"
    raise _unknown(message, "omit --previous")


def why(now: Moment) -> str:
    """Return the state of a replica's newest pod: `ImagePullBackOff: cannot pull …`."""
    found = reasons_of_pods(now.snapshot)
    why = next(why for each, why in found if each.replica == str(now.replica))
    return f"{why.word}: {why.message}".removesuffix(": ")


def is_over(now: Moment, request: Request) -> bool:
    """Return whether no further lines of a replica can follow."""
    if now.runs:
        return False
    observed = now.snapshot.seen.workloads[workload_of(request, now.replica)]
    succeeded = bool(now.pods) and now.pods[0]["status"]["phase"] == "Succeeded"
    return succeeded or bool(ending(observed))


def not_found(file: str, state: JobState, options: Sequence[str]) -> Problem:
    """Return the problem of a job that does not exist in the cluster.

    Args:
        file: the name of the job file; "" for a job by name.
        state: the state of the job.
        options: mlgen's options when the job was rendered.
    """
    command = shlex.join(["mlgen", "render", file_argument(file), *options])
    hint = f"to create it: {command} | kubectl apply -f -" if file else "mlgen list shows the jobs"
    return Problem((), f"{state.name} is not in {place(state.namespace)}", "kubectl", hint)


def no_pod(snapshot: Snapshot, request: Request, replica: Replica) -> MlgenError:
    """Return the exception for a replica without a pod."""
    present = state(snapshot)
    if present.phase == "NotFound":
        return MlgenError([not_found(request.job.file, present, request.options)])
    does = next((each.pods for each in present.roles if each.role == replica.role.name), "")
    details = "; ".join(filter(None, (present.phase, present.message)))
    message = f"{replica} has no pod; role: {does}; job: {details}"
    return MlgenError([Problem((), shortened(message), "kubectl", "see mlgen status")])


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


def find_replicas(job: LiveJob, role: str | None) -> list[Replica]:
    """Return all replicas of a job, or of a role.

    Raises:
        MlgenError: there is no such role.
    """
    return list(by_role(job, role).values()) if role else replicas(job)


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
    """Return a replica of a role.

    Raises:
        MlgenError: the job has no such role or replica.
    """
    own = by_role(job, role)
    if index not in own:
        raise _unknown(f"--index {index}: {role} has no such replica", _range(own))
    return own[index]


def by_role(job: LiveJob, role: str) -> dict[int, Replica]:
    """Return the replicas of a role by index. The role is in the job file or the rendered job.

    Raises:
        MlgenError: the job has no such role.
    """
    own = replicas_of(job.topology).get(role)
    if not own and role in job.topology.job.roles:
        hint = "the program creates them; see kubectl get pods"
        raise _unknown(f"--role: {role} of {job.name} has no rendered replicas", hint)
    if not own:
        known = list(dict.fromkeys([*job.topology.job.roles, *job.topology.by_name]))
        raise _unknown(f'--role: {job.name} has no role "{role}"', choice(role, known))
    return own


def _range(values: Iterable[int]) -> str:
    """Return the hint with the valid numbers: `use 0 to 3`."""
    numbers = sorted(values)
    return f"use {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")


def _unknown(message: str, hint: str) -> MlgenError:
    return MlgenError([Problem((), message, "unknown-value", hint)])
