"""Jobs and kubectl → snapshots of the cluster, and the state of each job.

A snapshot contains the objects of a job, read by one `kubectl get` for each label and namespace.
The state is a `Phase`, with a row for each role. The supervisor records the conditions. Without a
supervisor, the state follows the conditions of the deciding Job.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.live import reasons
from mlgen.live.job import LiveJob, read
from mlgen.live.kubectl import ClusterError, Kubectl
from mlgen.live.reasons import Reason, shortened
from mlgen.objects import supervisor
from mlgen.objects.labels import (
    JOB,
    SUPERVISES,
    SUPERVISOR,
    WAITS,
    status_name,
    workload_name,
)
from mlgen.runtime import answers, cluster, last_log, progress, status
from mlgen.runtime.cluster import ENDS, ending, is_suspended
from mlgen.runtime.failures import failures, first
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.status import CONDITIONS
from mlgen.runtime.times import seconds
from mlgen.topology import Wait

Phase = Literal[
    "NotFound", "Suspended", "Pending", "Running", "Stalled", "Restarting", "Succeeded", "Failed"
]

ENDED = ("Succeeded", "Failed")

STEPS = {
    "Stopping": "waiting for pods to terminate",
    "BackingOff": "restarting after a delay",
    "Starting": "restarting",
}
"""The step of a restart, by the supervisor's phase (mlgen/runtime/decide.py)."""

BRIEF = (reasons.NOT_READY, reasons.STARTING)
"""Reasons of pods that usually pass soon. They are listed only with a message."""

LATE_SECONDS = 60.0
"""Seconds after which the end of the deciding Job counts without a record of the supervisor."""

GATED = "SchedulingGated"
"""The reason of the condition of a pod with scheduling gates, which Kueue removes."""

MAX_PEERS = 3
"""Limit of missing peers in a message."""

LOG_TITLE = re.compile(r"(\S+), (.+), exit code (\d{1,9}), after (\d{1,9}) restarts, (\S+)")
"""The first line of the last lines of a log (`title` in mlgen/runtime/last_log.py)."""

MAX_CODE = 125
"""The highest exit code that `mlgen wait` passes on. Shells and timeout(1) use higher ones."""


class Member(NamedTuple):
    """A pod of a job.

    Attributes:
        workload: the workload of its replica, or the supervisor's Job.
        number: the index of the replica in its role; None for the supervisor's pod.
        pod: as returned by the API server.
    """

    workload: Workload
    number: int | None
    pod: Object

    @property
    def replica(self) -> str:
        """The role and the index, such as `worker-3`, or `supervisor`."""
        role = self.workload.role
        return role if self.number is None else f"{role}-{self.number}"


@dataclass(frozen=True)
class Snapshot:
    """The objects of a job that exist in the cluster.

    Attributes:
        job: the job.
        plan: the supervisor's plan, with the UID of the supervisor's Job as its run.
        seen: workloads, pods, and the data of the ConfigMap `<job>.status`.
        supervisor: the supervisor's Job, if it exists.
        pods: pods of the workloads and of the supervisor, the newest last.
        namespace: of the objects; "" if there are none.
        now: the time, in seconds since the epoch.
        events: warnings of the namespace, the latest last, if a pod cannot start; else ().
        queue: where and why the job waits in Kueue's queue, or "".
    """

    job: LiveJob
    plan: Plan
    seen: cluster.Seen
    supervisor: Object | None
    pods: tuple[Member, ...]
    namespace: str
    now: float
    events: Sequence[Object] = ()
    queue: str = ""

    @property
    def missing(self) -> list[Workload]:
        """The workloads that do not exist."""
        return [item for item in self.plan.workloads if not self.seen.workloads[item.name]]

    @property
    def exists(self) -> bool:
        """True if a workload of the job exists, or the record of its end."""
        return len(self.missing) < len(self.plan.workloads) or bool(self.seen.status.get("state"))


def snapshots(kubectl: Kubectl, jobs: Sequence[LiveJob], *, again: bool = True) -> list[Snapshot]:
    """Return a snapshot of each job.

    Args:
        kubectl: reads the cluster.
        jobs: the jobs.
        again: False if the objects of jobs by name have just been read.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    unread = [job for job in jobs if again or job.file]
    found = {}
    for namespace in dict.fromkeys(job.namespace for job in unread):
        names = sorted({job.name for job in unread if job.namespace == namespace})
        found[namespace] = read(kubectl, names, namespace)
    now = time.time()
    objects = [found[job.namespace] if again or job.file else job.objects for job in jobs]
    taken = [snapshot(job, own, now) for job, own in zip(jobs, objects, strict=True)]
    taken = [replace(each, queue=_queue(kubectl, each)) for each in taken]
    stuck = dict.fromkeys(each.job.namespace for each in taken if _is_stuck(each))
    events = {namespace: _warnings(kubectl, namespace) for namespace in stuck}
    return [replace(each, events=events.get(each.job.namespace, ())) for each in taken]


def snapshot(job: LiveJob, objects: Iterable[Object], now: float) -> Snapshot:
    """Return the snapshot of a job, selected from the objects of its namespace.

    Raises:
        ClusterError: an object has another shape.
    """
    labelled = [(each, (each.get("metadata") or {}).get("labels") or {}) for each in objects]
    found = [
        each for each, labels in labelled if job.name in (labels.get(JOB), labels.get(SUPERVISES))
    ]
    try:
        own = [answers.shaped(each["kind"], each) for each in found]
    except answers.ApiError as error:
        raise ClusterError(str(error), "other") from None
    for pod in own:
        if pod["kind"] == "Pod":  # seen only once, so its timestamps must do
            cluster.remember(pod, None, now)
            pod.update(since=seconds(pod["changed"]), deleted=cluster.deleted_at(pod))
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in own}
    topology = job.topology
    helper = Workload(
        "Job", supervisor.own_name(topology.job), "supervisor", container="supervisor"
    )
    present = by_name.get(("Job", helper.name))
    known = job.plan._replace(run=present["metadata"]["uid"] if present else "")
    items = (helper, *known.workloads)
    seen = cluster.Seen(
        {item.name: by_name.get((item.kind, item.name)) for item in items},
        sorted((each for each in own if each["kind"] == "Pod"), key=_age),
        by_name.get(("ConfigMap", status_name(job.name)), {}).get("data") or {},
    )
    indexes = {workload_name(topology.job, role): role.index for role in topology.roles}
    pods = []
    for item, pod in cluster.pods_of(items, seen):
        own_index = indexes.get(item.name)
        # The index that the controller set; 0 for pods of a Job that is not indexed.
        index = (cluster.index_of(pod) or 0) if own_index is None else own_index
        pods.append(Member(item, None if item is helper else index, pod))
    namespace = next((each["metadata"].get("namespace", "") for each in found), "")
    return Snapshot(job, known, seen, present, tuple(pods), namespace, now)


def _age(pod: Object) -> tuple[str, bool]:
    """Return the sort key of pods. In the same second, a deleted pod counts as older."""
    return pod["metadata"]["creationTimestamp"], not cluster.is_deleted(pod)


def _is_stuck(taken: Snapshot) -> bool:
    """Return whether a workload lacks pods, or the containers of a pod are not created."""
    starting = (reasons.reason(item, pod).word == reasons.STARTING for item, _, pod in taken.pods)
    return bool(cluster.short_of_pods(taken.plan, taken.seen, taken.now)) or any(starting)


def _queue(kubectl: Kubectl, taken: Snapshot) -> str:
    """Return where and why a job waits in Kueue's queue; "" if it does not wait."""
    scheduling = taken.job.topology.job.scheduling
    jobs = [each for each in taken.seen.workloads.values() if each and each["kind"] == "Job"]
    gates = (cluster.condition(each.pod, "PodScheduled", "False") for each in taken.pods)
    waits = any(map(is_suspended, jobs)) or any(
        gate and gate.get("reason") == GATED for gate in gates
    )
    if scheduling.gang != "kueue" or not scheduling.queue or not waits:
        return ""
    owners = {each["metadata"]["uid"] for each in (*jobs, *(pod for _, _, pod in taken.pods))}
    return reasons.queue_reason(kubectl, taken.namespace, scheduling.queue, owners)


def _warnings(kubectl: Kubectl, namespace: str | None) -> list[Object]:
    """Return the warnings of a namespace, the latest last; [] if the user may not read them."""
    words = ("get", "events", "--field-selector", "type=Warning")
    found = kubectl.readable(*words, namespace=namespace) or ()
    return sorted(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))


# The state


class JobPhase(NamedTuple):
    """The phase of a job.

    Attributes:
        since: its start, in seconds since the epoch; 0 if unknown.
        message: its reason, or "".
        code: the exit code of the first failed replica, once the job has failed; else 0.
    """

    phase: Phase
    since: float = 0.0
    message: str = ""
    code: int = 0


class Condition(NamedTuple):
    """A condition recorded by the supervisor. `since` is in seconds since the epoch."""

    condition: str
    status: str
    since: float
    reason: str
    message: str


class RoleState(NamedTuple):
    """The replicas of a role.

    Attributes:
        role: its name.
        kind: Job or StatefulSet, or `Jobs` if each replica has its own.
        ready: pods that are ready, and replicas in the cluster's objects, or else in the rendered
            job: `2/3`.
        succeeded: number of replicas that have succeeded.
        failed: number of pods that have failed.
        restarts: number of container restarts.
        pods: number of pods by state: `3 Running, 1 Unschedulable`.
    """

    role: str
    kind: str
    ready: str
    succeeded: int
    failed: int
    restarts: int
    pods: str


class ProgressState(NamedTuple):
    """The progress that the replicas report.

    Attributes:
        progress: percentage of training that is done; None if it is not reported.
        left: estimated time left in seconds; None if it is not reported.
        reported: time of the last report, in seconds since the epoch.
        replica: the replica that reported these values.
        reporting: number of replicas that report.
        slowest: the replica with the oldest report, if several report; else "".
        since: time of its report.
        metrics: names and values.
    """

    progress: int | None
    left: int | None
    reported: float
    replica: str
    reporting: int
    slowest: str
    since: float
    metrics: tuple[tuple[str, str], ...]


class StuckPods(NamedTuple):
    """Pods of one role that do not run, for the same reason.

    Attributes:
        replica: their roles and indexes: `worker-3`, or `worker-3 and 2 more`.
        pod: the name of the first pod; "" if it is not created.
        reason: one word.
        message: details, or "".
    """

    replica: str
    pod: str
    reason: str
    message: str


class LogState(NamedTuple):
    """The last lines of the container that failed first, which the supervisor kept.

    Attributes:
        replica: its role and index.
        pod: its name, which may be gone, and in front of it an init container that failed.
        code: the exit code of the container.
        restarts: number of restarts of the whole job before.
        since: the end of the container, in seconds since the epoch.
        lines: at most 40.
    """

    replica: str
    pod: str
    code: int
    restarts: int
    since: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        name: of the job.
        namespace: of the job.
        phase: `NotFound`, `Suspended`, `Pending`, `Running`, `Stalled`, `Restarting`, `Succeeded`
            or `Failed`.
        since: start of this phase, in seconds since the epoch; 0 if unknown.
        created: creation time of the first workload; 0 if there is none.
        restarts: number of restarts of the whole job by the supervisor.
        message: the reason for this phase, or "".
        code: the exit code of the first failed replica, once the job has failed; else 0.
        conditions: what the supervisor has recorded.
        roles: the number of replicas of each role that are ready.
        stuck: pods that do not run, with the reason.
        missing: kinds and names of the workloads that do not exist.
        progress: None if no replica has reported.
        log: None if no last lines are kept.
    """

    name: str
    namespace: str
    phase: Phase
    since: float = 0.0
    created: float = 0.0
    restarts: int = 0
    message: str = ""
    code: int = 0
    conditions: tuple[Condition, ...] = ()
    roles: tuple[RoleState, ...] = ()
    stuck: tuple[StuckPods, ...] = ()
    missing: tuple[str, ...] = ()
    progress: ProgressState | None = None
    log: LogState | None = None

    @property
    def ended(self) -> bool:
        """True once training has ended."""
        return self.phase in ENDED

    @property
    def is_over(self) -> bool:
        """True if the state does not change anymore: the job has ended, or does not exist."""
        return self.ended or self.phase == "NotFound"

    @property
    def exit_status(self) -> int:
        """The exit status of `mlgen wait`: 0, the code of the first failed replica, or 1."""
        if self.phase == "Succeeded":
            return 0
        return self.code if 0 < self.code <= MAX_CODE else 1


def state(snapshot: Snapshot) -> JobState:
    """Return the state of a job."""
    name, namespace = snapshot.job.name, snapshot.job.namespace
    if not snapshot.exists:
        return JobState(name, snapshot.namespace or namespace or "", "NotFound")
    record = _record(snapshot)
    phase, since, message, code = _phase(snapshot, record)
    workloads = [snapshot.seen.workloads[item.name] for item in snapshot.plan.workloads]
    created = [seconds(each["metadata"]["creationTimestamp"]) for each in workloads if each]
    if any(map(cluster.is_deleted, filter(None, snapshot.seen.workloads.values()))):
        message = "; ".join(filter(None, ("Terminating", message)))
    missing = () if phase in ENDED else snapshot.missing
    pods = reasons_of_pods(snapshot)
    return JobState(
        name,
        snapshot.namespace or namespace or "",
        phase,
        since,
        min(created, default=0.0),
        record.restarts + record.disruptions if record else 0,
        shortened(message),
        code,
        tuple(_conditions(snapshot)) if record else (),
        tuple(_roles(snapshot, pods)),
        tuple(_stuck(snapshot, pods)),
        tuple(f"{item.kind} {item.name}" for item in missing),
        _progress(snapshot) if record else None,
        _log(snapshot) if record else None,
    )


def _record(snapshot: Snapshot) -> status.State | None:
    """Return the state that the supervisor recorded for this run of the job; None if there is none.

    A record without the supervisor's Job is from an Argo workflow, or the Job was cleaned up.
    """
    data, deciding = snapshot.seen.status, snapshot.seen.workloads[snapshot.plan.deciding[0]]
    uid = deciding["metadata"]["uid"] if deciding else ""
    if snapshot.supervisor or uid:
        return status.recorded(data, snapshot.plan.run, uid)
    record = status.recorded(data, None)
    return record if record and record.phase == "Ended" else None


def _phase(snapshot: Snapshot, record: status.State | None) -> JobPhase:
    phase: Phase
    if record and record.phase == "Ended":
        # After a deadline, the code is not the exit code of a replica.
        code = 0 if record.reason == "DeadlineExceeded" else record.code
        phase = "Failed" if record.code else "Succeeded"
        return JobPhase(phase, record.ended, f"{record.reason}: {record.message}", code)
    end = _end_of_jobs(snapshot)
    if end and (not record or snapshot.now > end.since + LATE_SECONDS):
        return end
    deciding = [snapshot.seen.workloads[name] for name in snapshot.plan.deciding]
    present = [each for each in deciding if each]
    if record and record.phase in STEPS:
        phase, message = "Restarting", f"{status.why(record)}; {STEPS[record.phase]}"
    elif present and all(is_suspended(each) for each in present) and not _is_held(snapshot):
        message = snapshot.queue or "suspended by runPolicy.suspend or a queue"
        return JobPhase("Suspended", message=message)
    elif any(each["status"][key] for each in present for key in ("ready", "succeeded")):
        phase, message = "Running", ""
        if record and status.is_stalled(snapshot.seen.status):
            phase = "Stalled"
            message = snapshot.seen.status["Stalled"].partition(": ")[2]
    elif record and snapshot.seen.status.get("Restarting", "").startswith("True "):
        phase, message = "Restarting", STEPS["Starting"]
    else:
        phase, message = "Pending", snapshot.queue
    since = _since(snapshot, "Created" if phase == "Pending" else phase)
    return JobPhase(phase, since, message)


def _progress(snapshot: Snapshot) -> ProgressState | None:
    """Return the progress that the supervisor recorded; None without a report."""
    found = progress.load(snapshot.seen.status.get(progress.KEY))
    if not found or not found.last:
        return None
    percent, left = (
        None if each is None else int(each) for each in (found.percent, found.remaining)
    )
    times = (found.last, found.replica, found.reporting, found.slowest, found.slowest_at)
    return ProgressState(percent, left, *times, found.metrics)


def _log(snapshot: Snapshot) -> LogState | None:
    """Return the last lines that the supervisor kept; None if there are none."""
    title, _, text = snapshot.seen.status.get(last_log.KEY, "").partition("\n")
    found = LOG_TITLE.fullmatch(title)
    if not found:
        return None
    replica, pod, code, restarts, at = found.groups()
    lines = tuple(text.split("\n")[-last_log.LINES :]) if text else ()
    return LogState(replica, pod, int(code), int(restarts), seconds(at), lines)


def _is_held(snapshot: Snapshot) -> bool:
    """Return whether a deciding Job is held until another role has started or ended."""
    deciding = (snapshot.seen.workloads[name] for name in snapshot.plan.deciding)
    return any(each and each["metadata"]["annotations"][SUPERVISOR] == WAITS for each in deciding)


def _end_of_jobs(snapshot: Snapshot) -> JobPhase | None:
    """Return the end of the job according to the supervisor's Job or the deciding Job."""
    plan, names = snapshot.plan, snapshot.plan.deciding
    observed = snapshot.supervisor if plan.decides != "one" else snapshot.seen.workloads[names[0]]
    end = ending(observed)
    if not end:
        return None
    at = seconds(end["lastTransitionTime"])
    if ENDS[end["type"]]:
        return JobPhase("Succeeded", at, end.get("message", ""))
    items = tuple(item for item in plan.workloads if item.name in names)
    failure = first(failures(plan, items, snapshot.seen, ""))
    message = f"{end.get('reason', 'JobFailed')}: {end.get('message', '')}"
    if not failure:
        return JobPhase("Failed", at, message)
    return JobPhase("Failed", at, f"{failure.text}; {message}", failure.code)


def _conditions(snapshot: Snapshot) -> Iterator[Condition]:
    """Yield the recorded conditions, sorted by start."""
    found = filter(None, (_condition(snapshot, name) for name in CONDITIONS))
    yield from sorted(found, key=lambda each: each.since)


def _condition(snapshot: Snapshot, name: str) -> Condition | None:
    """Return a recorded condition; None if there is none."""
    value, _, rest = snapshot.seen.status.get(name, "").partition(" ")
    at, _, message = rest.partition(" ")
    why, _, line = message.partition(": ")
    return Condition(name, value, seconds(at), why, shortened(line)) if message else None


def _since(snapshot: Snapshot, name: str) -> float:
    """Return the start of a condition, or if it is not recorded, of the deciding Job."""
    condition = _condition(snapshot, name)
    if condition and condition.status == "True":
        return condition.since
    deciding = snapshot.seen.workloads[snapshot.plan.deciding[0]]
    at = deciding["status"]["startTime"] if deciding else None
    return seconds(at) if at else 0.0


# Roles and their pods


def reasons_of_pods(snapshot: Snapshot) -> list[tuple[Member, Reason]]:
    """Return the state of the newest pod of each replica, with the peers that it waits for."""
    topology = snapshot.job.topology
    waits = {workload_name(topology.job, role): role.waits for role in topology.roles}
    order = {item.name: i for i, item in enumerate(snapshot.plan.workloads)}
    there, ended = addressed(snapshot), succeeded(snapshot)

    @cache
    def waiting(waits: tuple[Wait, ...]) -> Reason:
        return Reason(reasons.WAITING, waits_for(waits, there, ended))

    newest = {each.replica: each for each in snapshot.pods}.values()
    found = []
    for each in sorted(
        newest, key=lambda e: (order.get(e.workload.name, len(order)), e.number or 0)
    ):
        why = reasons.reason(each.workload, each.pod, snapshot.events)
        found.append(
            (each, waiting(waits[each.workload.name]) if why.word == reasons.WAITING else why)
        )
    return found


def _roles(snapshot: Snapshot, pods: list[tuple[Member, Reason]]) -> Iterator[RoleState]:
    topology = snapshot.job.topology
    words: defaultdict[str, Counter[str]] = defaultdict(Counter)
    restarts: Counter[str] = Counter()
    for each, why in pods:
        words[each.workload.role][why.word] += 1
        restarts[each.workload.role] += reasons.restarts(each.pod)
    for name, roles in topology.by_name.items():
        names = [workload_name(topology.job, role) for role in roles]
        observed = [each for each in map(snapshot.seen.workloads.get, names) if each]
        kind = roles[0].kind
        desired, ready = FIELDS[kind]
        wanted = sum(each["spec"][desired] for each in observed) or topology.counts[name]
        yield RoleState(
            name,
            kind if len(roles) == 1 and roles[0].index is None else f"{kind}s",
            f"{_sum(observed, ready)}/{wanted}",
            _sum(observed, "succeeded"),
            _sum(observed, "failed"),
            restarts[name],
            _pod_counts(words[name], observed),
        )


FIELDS = {"Job": ("completions", "ready"), "StatefulSet": ("replicas", "readyReplicas")}
"""The fields of spec and status that count pods, by kind."""


def _sum(observed: list[Object], name: str) -> int:
    """Return the sum of a field of the status."""
    return sum(each["status"][name] for each in observed)


def _pod_counts(words: Counter[str], observed: list[Object]) -> str:
    """Return the number of pods by state, or without pods, the state of the workloads."""
    if words:
        return ", ".join(f"{count} {word}" for word, count in words.most_common())
    ends = [ending(each) for each in observed]
    if observed and all(ends):
        return "Complete" if all(end and ENDS[end["type"]] for end in ends) else "Failed"
    if observed and all(is_suspended(each) for each in observed):
        return "Suspended" if observed[0]["kind"] == "Job" else "Scaled to 0"
    return "No pods" if observed else "NotFound"


def _stuck(snapshot: Snapshot, pods: list[tuple[Member, Reason]]) -> Iterator[StuckPods]:
    """Yield the pods that do not run, grouped by reason, then the workloads that lack pods."""
    groups: dict[tuple[str, Reason], list[Member]] = {}
    for each, why in pods:
        if why.word not in reasons.FINE and (why.message or why.word not in BRIEF):
            groups.setdefault((each.workload.role, why), []).append(each)
    for (_, why), members in groups.items():
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        pod = members[0].pod["metadata"]["name"]
        yield StuckPods(f"{members[0].replica}{more}", pod, why.word, why.message)
    for name in dict.fromkeys(cluster.short_of_pods(snapshot.plan, snapshot.seen, snapshot.now)):
        observed = snapshot.seen.workloads[name]
        message = reasons.event_of(observed, snapshot.events) if observed else ""
        if message:
            yield StuckPods(name, "", "FailedCreate", shortened(message))


# The peers that a role waits for, by the state of their pods. The init container wait-for-peers
# logs the same from the pod's own view of DNS.

Replicas = set[tuple[str, int | None]]
"""Roles and indexes."""


def addressed(snapshot: Snapshot) -> dict[bool, Replicas]:
    """Return the replicas that have an address (key False) and those that are ready (key True)."""
    there: dict[bool, Replicas] = {False: set(), True: set()}
    for item, index, pod in snapshot.pods:
        has_ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        if pod["status"]["podIP"] and not has_ended and not cluster.is_deleted(pod):
            for each in {False, bool(cluster.condition(pod, "Ready"))}:
                there[each].add((item.role, index))
    return there


def succeeded(snapshot: Snapshot) -> Replicas:
    """Return the replicas that have succeeded, and never run again."""
    return {
        (item.role, index)
        for item, index, pod in snapshot.pods
        if pod["status"]["phase"] == "Succeeded"
    }


def waits_for(
    waits: Sequence[Wait], there: Mapping[bool, Replicas], ended: Collection[object] = ()
) -> str:
    """Return the peers that a replica waits for, in one line.

    Args:
        waits: the conditions for its start.
        there: the result of `addressed`. Some conditions require that a peer is ready.
        ended: the result of `succeeded`. Such a peer has no address anymore.
    """
    if not waits:  # a pod from an earlier version of mlgen
        return "waits for its peers; see the log of the container wait-for-peers"
    peers = [
        ((wait.role, wait.hosts.first + number), wait.started)
        for wait in waits
        for number in range(wait.hosts.count)
    ]
    away = [replica for replica, ready in peers if replica not in there[ready]]
    if gone := next((replica for replica in away if replica in ended), None):
        role, index = gone
        line = f"waits forever for {role}-{index}, which has already succeeded"
        return f"{line}; delete the job, and set wait.timeoutSeconds"
    missing = list(dict.fromkeys(f"{role}-{index}" for role, index in away))
    if not missing:
        # The pods exist, but DNS does not resolve their names yet, or the port is closed.
        names = dict.fromkeys(map(_port, waits))
        return f"waits for {', '.join(names)} (the pods exist)"
    more = f" and {len(missing) - MAX_PEERS} more" if len(missing) > MAX_PEERS else ""
    shown = ", ".join(missing[:MAX_PEERS])
    return f"waits for {len(missing)} of {len(dict(peers))} peers: {shown}{more}"


def _port(wait: Wait) -> str:
    return wait.role if wait.port is None else f"port {wait.port} of {wait.role}"
