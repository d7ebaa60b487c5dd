"""Rendered jobs and kubectl → what is in the cluster, and the state of each job.

A snapshot has the objects of a job, by one `kubectl get` per namespace. The state is one of the
words of `Phase`, with a row for each role. Its conditions are those that the supervisor records;
without a supervisor, those of the Job that decides.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.live import reasons
from mlgen.live.kubectl import Kubectl
from mlgen.live.reasons import Reason, shortened
from mlgen.objects import supervisor
from mlgen.objects.labels import INSTANCE, status_name, workload_name
from mlgen.result import Rendered
from mlgen.runtime import cluster, status
from mlgen.runtime import plan as plans
from mlgen.runtime.cluster import ENDS, ending, is_suspended, seconds
from mlgen.runtime.failures import failures, first
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.status import CONDITIONS
from mlgen.topology import Wait

KINDS = "jobs.batch,statefulsets.apps,pods,configmaps"

Phase = Literal["NotFound", "Suspended", "Pending", "Running", "Restarting", "Succeeded", "Failed"]

ENDED = ("Succeeded", "Failed")

STEPS = {
    "Stopping": "waiting for pods to terminate",
    "BackingOff": "restarting after a delay",
    "Starting": "restarting",
}
"""What a restart of the job does, by the phase of the supervisor (mlgen/runtime/decide.py)."""

BRIEF = (reasons.NOT_READY, reasons.STARTING)
"""What passes soon, unless there is a message."""

LATE_SECONDS = 60.0
"""After so long, the end of the deciding Job counts, also if the supervisor has not recorded it."""

MAX_PEERS = 3
"""The number of missing peers that are named."""

MAX_CODE = 125
"""Shells and timeout(1) give higher exit codes meanings of their own."""


class Member(NamedTuple):
    """A pod of a job.

    Attributes:
        workload: that of its replica, or the supervisor's Job.
        number: the index of the replica in its role; None for the supervisor's pod.
        pod: as the API server returns it.
    """

    workload: Workload
    number: int | None
    pod: Object

    @property
    def replica(self) -> str:
        """The role and the index: `worker-3`; or `supervisor`."""
        role = self.workload.role
        return role if self.number is None else f"{role}-{self.number}"


@dataclass(frozen=True)
class Snapshot:
    """A job in the cluster, as far as it is there.

    Attributes:
        rendered: the job.
        plan: its workloads as the supervisor knows them, and the run of its supervisor.
        seen: workloads, pods, and the data of the ConfigMap `<job>-status`.
        supervisor: the supervisor's Job, if it exists.
        pods: those of the workloads and of the supervisor, the newest last.
        namespace: of the objects; "" if there are none.
        now: the time, in seconds since the epoch.
        events: warnings of the namespace, the latest last, if something cannot start; else ().
    """

    rendered: Rendered
    plan: Plan
    seen: cluster.Seen
    supervisor: Object | None
    pods: tuple[Member, ...]
    namespace: str
    now: float
    events: Sequence[Object] = ()

    @property
    def missing(self) -> list[Workload]:
        """The workloads that do not exist."""
        return [item for item in self.plan.workloads if not self.seen.workloads[item.name]]

    @property
    def exists(self) -> bool:
        """True if something of the job is there: a workload, or the record of its end."""
        return len(self.missing) < len(self.plan.workloads) or bool(self.seen.status.get("state"))


def snapshots(kubectl: Kubectl, jobs: Sequence[Rendered]) -> list[Snapshot]:
    """Return each job as it is in the cluster.

    Raises:
        KubectlError: kubectl is not installed, or fails.
    """
    found = {}
    for namespace in dict.fromkeys(job.job.namespace for job in jobs):
        names = sorted({job.job.name for job in jobs if job.job.namespace == namespace})
        words = ("get", KINDS, "-l", f"{INSTANCE} in ({', '.join(names)})")
        found[namespace] = kubectl.objects(*words, namespace=namespace)
    now = time.time()
    taken = [snapshot(job, found[job.job.namespace], now) for job in jobs]
    stuck = dict.fromkeys(each.rendered.job.namespace for each in taken if _is_stuck(each))
    events = {namespace: _warnings(kubectl, namespace) for namespace in stuck}
    return [replace(each, events=events.get(each.rendered.job.namespace, ())) for each in taken]


def snapshot(rendered: Rendered, objects: Iterable[Object], now: float) -> Snapshot:
    """Pick the objects of a job."""
    job, topology = rendered.job, rendered.topology
    labelled = [(each, each["metadata"].get("labels") or {}) for each in objects]
    own = [{"status": {}, **each} for each, labels in labelled if labels.get(INSTANCE) == job.name]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in own}
    # What the supervisor of a job knows of it, also if it has none.
    plan = supervisor.plan(topology, rendered.objects, rendered.kube_version)
    helper = Workload("Job", supervisor.own_name(job), "supervisor", container="supervisor")
    present = by_name.get(("Job", helper.name))
    known = plans.load(json.dumps(plan), present["metadata"]["uid"] if present else "")
    items = (helper, *known.workloads)
    seen = cluster.Seen(
        {item.name: by_name.get((item.kind, item.name)) for item in items},
        sorted((each for each in own if each["kind"] == "Pod"), key=_age),
        by_name.get(("ConfigMap", status_name(job.name)), {}).get("data") or {},
    )
    indexes = {workload_name(topology.job, role): role.index for role in topology.roles}
    pods = []
    for item, pod in cluster.pods_of(items, seen):
        labels = pod["metadata"].get("labels") or {}
        # That of a controller, which gives none to a Job that is not indexed; or the replica's own.
        of_pod = int(labels.get(JOB_INDEX) or labels.get(SET_INDEX) or 0)
        own_index = indexes.get(item.name)
        index = of_pod if own_index is None else own_index
        pods.append(Member(item, None if item is helper else index, pod))
    namespace = next((each["metadata"].get("namespace", "") for each in own), "")
    return Snapshot(rendered, known, seen, present, tuple(pods), namespace, now)


def _age(pod: Object) -> tuple[str, bool]:
    """Return the order of pods; of two of the same second, one that is deleted is the older."""
    return pod["metadata"]["creationTimestamp"], not cluster.is_deleted(pod)


def _is_stuck(taken: Snapshot) -> bool:
    """Return whether a workload has too few pods, or a pod's containers are not created."""
    starting = (reasons.reason(item, pod).word == reasons.STARTING for item, _, pod in taken.pods)
    return bool(cluster.short_of_pods(taken.plan, taken.seen, taken.now)) or any(starting)


def _warnings(kubectl: Kubectl, namespace: str | None) -> list[Object]:
    """Return the warnings of a namespace, the latest last; [] if the rights do not allow it."""
    words = ("get", "events", "--field-selector", "type=Warning")
    found = kubectl.readable(*words, namespace=namespace) or ()
    return sorted(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))


# The state


class Condition(NamedTuple):
    """A condition of the job, as the supervisor records it; `since` in seconds since the epoch."""

    condition: str
    status: str
    since: float
    reason: str
    message: str


class RoleState(NamedTuple):
    """The replicas of a role.

    Attributes:
        role: its name.
        kind: Job or StatefulSet; `Jobs` if each replica has its own.
        ready: the pods that are ready now, of the replicas in the cluster's objects, or of the
            rendered ones: `2/3`.
        succeeded: replicas that have succeeded.
        failed: pods that have failed.
        restarts: of containers.
        pods: how many pods do what: `3 Running, 1 Unschedulable`.
    """

    role: str
    kind: str
    ready: str
    succeeded: int
    failed: int
    restarts: int
    pods: str


class StuckPods(NamedTuple):
    """Pods of one role that do not run, for the same reason.

    Attributes:
        replica: their roles and indexes: `worker-3`, or `worker-3 and 2 more`.
        pod: the name of the first pod; "" if it is not created.
        reason: a word.
        message: what to know about it, or "".
    """

    replica: str
    pod: str
    reason: str
    message: str


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        since: when it came into this phase, in seconds since the epoch; 0 if that is not known.
        created: when its first workload was created; 0 if there is none.
        restarts: of the whole job, by the supervisor.
        message: why it is in this phase, or "".
        code: the exit code of the replica that failed first, once the job has failed; else 0.
        missing: kinds and names of the workloads that do not exist.
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

    @property
    def ended(self) -> bool:
        """True once training has ended."""
        return self.phase in ENDED

    @property
    def exit_status(self) -> int:
        """The exit status of `mlgen wait`: 0, the code of the replica that failed first, or 1."""
        if self.phase == "Succeeded":
            return 0
        return self.code if 0 < self.code <= MAX_CODE else 1


def state(snapshot: Snapshot) -> JobState:
    """Return the state of a job."""
    name, namespace = snapshot.rendered.job.name, snapshot.rendered.job.namespace
    if not snapshot.exists:
        return JobState(name, snapshot.namespace or namespace or "", "NotFound")
    record = _record(snapshot)
    phase, since, message, code = _phase(snapshot, record)
    workloads = [snapshot.seen.workloads[item.name] for item in snapshot.plan.workloads]
    created = [seconds(each["metadata"]["creationTimestamp"]) for each in workloads if each]
    missing = () if phase in ENDED else snapshot.missing
    pods = doings(snapshot)
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
    )


def _record(snapshot: Snapshot) -> status.State | None:
    """Return what the supervisor has recorded of this run of the job, if it has.

    Without the supervisor's Job, an Argo workflow keeps the record, or the job was cleaned up.
    """
    data, deciding = snapshot.seen.status, snapshot.seen.workloads[snapshot.plan.deciding[0]]
    uid = deciding["metadata"]["uid"] if deciding else ""
    is_there = bool(snapshot.supervisor or uid)
    run = snapshot.plan.run if is_there else str(status.stored(data).get("run", ""))
    if not status.is_stored(data, run, uid):
        return None
    record = status.load(data, run, uid)
    return record if is_there or record.phase == "Ended" else None


def _phase(snapshot: Snapshot, record: status.State | None) -> tuple[Phase, float, str, int]:
    """Return the phase, since when, why, and the exit code of a failure."""
    phase: Phase
    if record and record.phase == "Ended":
        # A deadline is not the exit code of a replica.
        code = 0 if record.reason == "DeadlineExceeded" else record.code
        phase = "Failed" if record.code else "Succeeded"
        return phase, record.ended, f"{record.reason}: {record.message}", code
    end = _end_of_jobs(snapshot)
    if end and (not record or snapshot.now > end[1] + LATE_SECONDS):
        return end
    deciding = [snapshot.seen.workloads[name] for name in snapshot.plan.deciding]
    present = [each for each in deciding if each]
    if record and record.phase in STEPS:
        phase, message = "Restarting", f"{status.why(record)}; {STEPS[record.phase]}"
    elif present and all(is_suspended(each) for each in present) and not _is_held(snapshot):
        return "Suspended", 0.0, "suspended by runPolicy.suspend or a queue", 0
    elif any(each["status"].get(key) for each in present for key in ("ready", "succeeded")):
        phase, message = "Running", ""
    elif record and snapshot.seen.status.get("Restarting", "").startswith("True "):
        phase, message = "Restarting", STEPS["Starting"]
    else:
        phase, message = "Pending", ""
    return phase, _since(snapshot, "Created" if phase == "Pending" else phase), message, 0


def _is_held(snapshot: Snapshot) -> bool:
    """Return whether a deciding role starts only when another has come so far."""
    items = [item for item in snapshot.plan.workloads if item.name in snapshot.plan.deciding]
    return any(snapshot.plan.waits(item) for item in items)


def _end_of_jobs(snapshot: Snapshot) -> tuple[Phase, float, str, int] | None:
    """Return how the Jobs say that the job has ended: the supervisor's, or the one that decides."""
    plan, names = snapshot.plan, snapshot.plan.deciding
    observed = snapshot.supervisor if plan.decides != "one" else snapshot.seen.workloads[names[0]]
    end = ending(observed)
    if not end:
        return None
    at = seconds(end["lastTransitionTime"])
    if ENDS[end["type"]]:
        return "Succeeded", at, end.get("message", ""), 0
    items = tuple(item for item in plan.workloads if item.name in names)
    failure = first(failures(plan, items, snapshot.seen, ""))
    message = f"{end.get('reason', 'JobFailed')}: {end.get('message', '')}"
    if not failure:
        return "Failed", at, message, 0
    return "Failed", at, f"{failure.text}; {message}", failure.code


def _conditions(snapshot: Snapshot) -> Iterator[Condition]:
    """Yield the recorded conditions, in the order in which they began."""
    found = []
    for name in CONDITIONS:
        text = snapshot.seen.status.get(name, "")
        value, _, rest = text.partition(" ")
        at, _, message = rest.partition(" ")
        if message:
            why, _, line = message.partition(": ")
            found.append(Condition(name, value, seconds(at), why, shortened(line)))
    yield from sorted(found, key=lambda each: each.since)


def _since(snapshot: Snapshot, name: str) -> float:
    """Return when a condition began; without one, when the deciding Job started."""
    for each in _conditions(snapshot):
        if (each.condition, each.status) == (name, "True"):
            return each.since
    deciding = snapshot.seen.workloads[snapshot.plan.deciding[0]]
    at = deciding["status"].get("startTime") if deciding else None
    return seconds(at) if at else 0.0


# Roles and their pods


def doings(snapshot: Snapshot) -> list[tuple[Member, Reason]]:
    """Return what the newest pod of each replica does, and whom it waits for, if it does."""
    topology = snapshot.rendered.topology
    waits = {workload_name(topology.job, role): role.waits for role in topology.roles}
    order = {item.name: i for i, item in enumerate(snapshot.plan.workloads)}
    there = addressed(snapshot)

    @cache
    def waiting(waits: tuple[Wait, ...]) -> Reason:
        return Reason(reasons.WAITING, waits_for(waits, there))

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
    topology = snapshot.rendered.topology
    words: defaultdict[str, Counter[str]] = defaultdict(Counter)
    restarts: Counter[str] = Counter()
    for each, why in pods:
        words[each.workload.role][why.word] += 1
        restarts[each.workload.role] += reasons.restarts(each.pod)
    for name in dict.fromkeys(role.name for role in topology.roles):
        roles = [role for role in topology.roles if role.name == name]
        names = [workload_name(topology.job, role) for role in roles]
        observed = [each for each in map(snapshot.seen.workloads.get, names) if each]
        kind, desired, ready = FIELDS[roles[0].serves]
        rendered = sum(role.replicas for role in roles)
        wanted = sum(each["spec"].get(desired, 1) for each in observed) or rendered
        yield RoleState(
            name,
            kind if len(roles) == 1 and roles[0].index is None else f"{kind}s",
            f"{_sum(observed, ready)}/{wanted}",
            _sum(observed, "succeeded"),
            _sum(observed, "failed"),
            restarts[name],
            _does(words[name], observed),
        )


FIELDS = {
    False: ("Job", "completions", "ready"),
    True: ("StatefulSet", "replicas", "readyReplicas"),
}
"""The kind of a role that serves or not, and the fields of its spec and status that count pods."""


def _sum(observed: list[Object], name: str) -> int:
    """Return the sum of a field of the status."""
    return sum(each["status"].get(name, 0) for each in observed)


def _does(words: Counter[str], observed: list[Object]) -> str:
    """Return how many pods do what; without pods, what keeps the workloads from having some."""
    if words:
        return ", ".join(f"{count} {word}" for word, count in words.most_common())
    ends = [ending(each) for each in observed]
    if observed and all(ends):
        return "Complete" if all(end and ENDS[end["type"]] for end in ends) else "Failed"
    if observed and all(is_suspended(each) for each in observed):
        return "Suspended" if observed[0]["kind"] == "Job" else "Scaled to 0"
    return "No pods" if observed else "NotFound"


def _stuck(snapshot: Snapshot, pods: list[tuple[Member, Reason]]) -> Iterator[StuckPods]:
    """Yield the pods that do not run, those with the same reason together; then workloads."""
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


# Whom a role waits for: the peers that are not there yet, by their pods. The init container that
# waits says the same in its log, from the pod's own view of DNS.

Replicas = set[tuple[str, int | None]]
"""Roles and indexes."""


def addressed(snapshot: Snapshot) -> dict[bool, Replicas]:
    """Return the replicas that have an address, under False, and those that are ready too."""
    there: dict[bool, Replicas] = {False: set(), True: set()}
    for item, index, pod in snapshot.pods:
        if pod["status"].get("podIP") and not cluster.is_deleted(pod):
            for each in {False, bool(cluster.condition(pod, "Ready"))}:
                there[each].add((item.role, index))
    return there


def waits_for(waits: Sequence[Wait], there: Mapping[bool, Replicas]) -> str:
    """Return whom a replica waits for, in a line.

    Args:
        waits: the conditions for its start.
        there: what `addressed` returns; a condition may be that a replica is ready.
    """
    if not waits:  # a pod that an earlier version of mlgen has rendered
        return "waits for its peers; see the log of the container wait-for-peers"
    peers = [
        ((wait.role, wait.hosts.first + number), wait.started)
        for wait in waits
        for number in range(wait.hosts.count)
    ]
    away = [replica for replica, ready in peers if replica not in there[ready]]
    missing = list(dict.fromkeys(f"{role}-{index}" for role, index in away))
    if not missing:
        # They exist; the name spreads through DNS, or nothing listens on the port yet.
        names = dict.fromkeys(map(_port, waits))
        return f"waits for {', '.join(names)} (the pods exist)"
    more = f" and {len(missing) - MAX_PEERS} more" if len(missing) > MAX_PEERS else ""
    shown = ", ".join(missing[:MAX_PEERS])
    return f"waits for {len(missing)} of {len(dict(peers))} peers: {shown}{more}"


def _port(wait: Wait) -> str:
    return wait.role if wait.port is None else f"port {wait.port} of {wait.role}"
