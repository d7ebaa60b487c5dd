"""A snapshot of a job → its state: one of the words of `Phase`, with a row for each role.

The conditions are those that the supervisor records; without a supervisor, those of the Job that
decides.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mlgen.kubernetes.objects import Object
from mlgen.live.reasons import (
    FINE,
    NOT_READY,
    STARTING,
    WAITING,
    Reason,
    event_of,
    reason,
    restarts,
    shortened,
)
from mlgen.live.replicas import age, own_indexes, pod_index
from mlgen.live.snapshot import Snapshot
from mlgen.objects.labels import workload_name
from mlgen.runtime import status
from mlgen.runtime.cluster import (
    ENDS,
    condition,
    counts,
    ending,
    is_deleted,
    is_suspended,
    seconds,
    unfinished,
)
from mlgen.runtime.failures import failures, first
from mlgen.runtime.plan import Workload
from mlgen.runtime.status import CONDITIONS
from mlgen.topology import Role, Wait

Phase = Literal["NotFound", "Suspended", "Pending", "Running", "Restarting", "Succeeded", "Failed"]

ENDED = ("Succeeded", "Failed")

STEPS = {
    "Stopping": "waits for its pods to end",
    "BackingOff": "starts again after a pause",
    "Starting": "starts again",
}
"""What a restart of the job does, by the phase of the supervisor (mlgen/runtime/decide.py)."""

BRIEF = (NOT_READY, STARTING)
"""What passes soon, unless there is a message."""

LATE_SECONDS = 60.0
"""After so long, the end of the deciding Job counts, also if the supervisor has not recorded it."""

MAX_PEERS = 3
"""The number of missing peers that are named."""

MAX_CODE = 125
"""Shells and timeout(1) give higher exit codes meanings of their own."""


@dataclass(frozen=True)
class Condition:
    """A condition of the job, as the supervisor records it."""

    name: str
    status: str
    time: float
    reason: str
    message: str


@dataclass(frozen=True)
class RoleState:
    """The replicas of a role.

    Attributes:
        name: of the role.
        kind: Job or StatefulSet; `Jobs` if each replica has its own.
        desired: the number of replicas in the cluster's objects, or of the rendered ones.
        ready: pods that are ready now.
        succeeded: replicas that have succeeded.
        failed: pods that have failed.
        restarts: of containers.
        does: how many pods do what: `3 Running, 1 Unschedulable`.
    """

    name: str
    kind: str
    desired: int
    ready: int
    succeeded: int
    failed: int
    restarts: int
    does: str


@dataclass(frozen=True)
class StuckPods:
    """Pods of one role that do not run, for the same reason.

    Attributes:
        replicas: their roles and indexes: `worker-3`, or `worker-3 and 2 more`.
        pod: the name of the first pod; "" if it is not created.
        reason: the word and the line.
    """

    replicas: str
    pod: str
    reason: Reason


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
    namespace = snapshot.namespace or snapshot.rendered.job.namespace or ""
    if not snapshot.exists:
        return JobState(snapshot.name, namespace, "NotFound")
    record = _record(snapshot)
    phase, since, message, code = _phase(snapshot, record)
    found = [each for each in snapshot.seen.workloads.values() if each]
    missing = () if phase in ENDED else snapshot.missing
    reasons = _reasons(snapshot)
    return JobState(
        snapshot.name,
        namespace,
        phase,
        since,
        min((seconds(each["metadata"]["creationTimestamp"]) for each in found), default=0.0),
        record.restarts + record.disruptions if record else 0,
        shortened(message),
        code,
        tuple(_conditions(snapshot)) if record else (),
        tuple(_roles(snapshot, reasons)),
        tuple(_stuck(snapshot, reasons)),
        tuple(f"{item.kind} {item.name}" for item in missing),
    )


def _record(snapshot: Snapshot) -> status.State | None:
    """Return what the supervisor has recorded of this run of the job, if it has.

    Without the supervisor's Job, an Argo workflow keeps the record, or the job was cleaned up.
    """
    data, deciding = snapshot.seen.status, snapshot.seen.workloads[snapshot.plan.deciding[0]]
    uid = deciding["metadata"]["uid"] if deciding else ""
    if snapshot.supervisor or uid:
        stored = status.is_stored(data, snapshot.plan.run, uid)
        return status.load(data, snapshot.plan.run, uid) if stored else None
    loaded = status.load({**data}, _run(data)) if data.get("state") else None
    return loaded if loaded and loaded.phase == "Ended" else None


def _run(data: dict[str, str]) -> str:
    """Return the run of a record."""
    return str(status.stored({**data}).get("run", ""))


def _phase(snapshot: Snapshot, record: status.State | None) -> tuple[Phase, float, str, int]:
    """Return the phase, since when, why, and the exit code of a failure."""
    if record and record.phase == "Ended":
        return _ended(record)
    end = _end_of_jobs(snapshot)
    if end and (not record or snapshot.now > end[1] + LATE_SECONDS):
        return end
    return _unended(snapshot, record)


def _unended(snapshot: Snapshot, record: status.State | None) -> tuple[Phase, float, str, int]:
    """Return the phase of a job that has not ended, as `_phase`."""
    deciding = [snapshot.seen.workloads[name] for name in snapshot.plan.deciding]
    present = [each for each in deciding if each]
    if record and record.phase in STEPS:
        message = f"{status.why(record)}; {STEPS[record.phase]}"
        return "Restarting", _since(snapshot, "Restarting"), message, 0
    if present and all(is_suspended(each) for each in present) and not _is_held(snapshot):
        return "Suspended", 0.0, "the job is suspended: runPolicy.suspend, or a queue", 0
    if any(each["status"].get(key) for each in present for key in ("ready", "succeeded")):
        return "Running", _since(snapshot, "Running"), "", 0
    if record and snapshot.seen.status.get("Restarting", "").startswith("True "):
        return "Restarting", _since(snapshot, "Restarting"), STEPS["Starting"], 0
    return "Pending", _since(snapshot, "Created"), "", 0


def _ended(record: status.State) -> tuple[Phase, float, str, int]:
    # A deadline is not the exit code of a replica.
    code = 0 if record.reason == "DeadlineExceeded" else record.code
    phase: Phase = "Failed" if record.code else "Succeeded"
    return phase, record.ended, f"{record.reason}: {record.message}", code


def _is_held(snapshot: Snapshot) -> bool:
    """Return whether a deciding role starts only when another has come so far."""
    items = [item for item in snapshot.plan.workloads if item.name in snapshot.plan.deciding]
    return any(snapshot.plan.waits(item) for item in items)


def _end_of_jobs(snapshot: Snapshot) -> tuple[Phase, float, str, int] | None:
    """Return how the Jobs say that the job has ended: the supervisor's, or the one that decides."""
    names = snapshot.plan.deciding
    together = snapshot.plan.decides != "one"
    found = snapshot.supervisor if together else snapshot.seen.workloads[names[0]]
    observed = {"status": {}, **found} if found else None
    end = ending(observed)
    if not observed or not end:
        return None
    at = seconds(end["lastTransitionTime"])
    if ENDS[end["type"]]:
        return "Succeeded", at, end.get("message", ""), 0
    items = [item for item in snapshot.plan.workloads if item.name in names]
    failure = first(failures(snapshot.plan, tuple(items), snapshot.seen, ""))
    message = f"{end.get('reason', 'JobFailed')}: {end.get('message', '')}"
    if not failure:
        return "Failed", at, message, 0
    message = f"{failure.text}; {message}"
    return "Failed", at, message, failure.code


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
    yield from sorted(found, key=lambda each: each.time)


def _since(snapshot: Snapshot, name: str) -> float:
    """Return when a condition began; without one, when the deciding Job started."""
    for each in _conditions(snapshot):
        if each.name == name and each.status == "True":
            return each.time
    deciding = snapshot.seen.workloads[snapshot.plan.deciding[0]]
    at = deciding["status"].get("startTime") if deciding else None
    return seconds(at) if at else 0.0


# Roles and their pods


def _reasons(snapshot: Snapshot) -> list[tuple[Workload, Object, Reason]]:
    """Return what the newest pod of each replica does, and whom it waits for, if it does."""
    peers = Peers(snapshot)
    topology = snapshot.rendered.topology
    roles = {workload_name(topology.job, role): role for role in topology.roles}
    found = []
    awaited: dict[tuple[Wait, ...], str] = {}
    newest: dict[tuple[str, int], tuple[Workload, Object]] = {}
    for item, pod in sorted(snapshot.pods, key=lambda pair: age(pair[1])):
        newest[item.name, pod_index(pod)] = (item, pod)
    order = {item.name: i for i, item in enumerate(snapshot.plan.workloads)}
    ranked = sorted(newest, key=lambda key: (order[key[0]], key[1]))
    for item, pod in map(newest.__getitem__, ranked):
        why = reason(item, pod, snapshot.events)
        if why.word == WAITING:
            role = roles[item.name]
            if role.waits not in awaited:
                awaited[role.waits] = waits_for(role, peers)
            why = Reason(WAITING, awaited[role.waits])
        found.append((item, pod, why))
    return found


def _roles(
    snapshot: Snapshot, reasons: list[tuple[Workload, Object, Reason]]
) -> Iterator[RoleState]:
    topology = snapshot.rendered.topology
    by_name: dict[str, list[Role]] = {}
    for role in topology.roles:
        by_name.setdefault(role.name, []).append(role)
    words: dict[str, Counter[str]] = {}
    restarted: Counter[str] = Counter()
    for item, pod, why in reasons:
        words.setdefault(item.role, Counter())[why.word] += 1
        restarted[item.role] += restarts(pod)
    for name, roles in by_name.items():
        names = [workload_name(topology.job, role) for role in roles]
        observed = [each for each in map(snapshot.seen.workloads.get, names) if each]
        kind = "StatefulSet" if roles[0].serves else "Job"
        yield RoleState(
            name,
            kind if len(roles) == 1 and roles[0].index is None else f"{kind}s",
            sum(_desired(each) for each in observed) or sum(role.replicas for role in roles),
            sum(each["status"].get(_ready(each), 0) for each in observed),
            sum(each["status"].get("succeeded", 0) for each in observed),
            sum(each["status"].get("failed", 0) for each in observed),
            restarted[name],
            _does(words.get(name, Counter()), observed),
        )


def _desired(observed: Object) -> int:
    spec = observed["spec"]
    value = spec.get("replicas") if observed["kind"] == "StatefulSet" else spec.get("completions")
    return int(1 if value is None else value)


def _ready(observed: Object) -> str:
    return "readyReplicas" if observed["kind"] == "StatefulSet" else "ready"


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


def _stuck(
    snapshot: Snapshot, reasons: list[tuple[Workload, Object, Reason]]
) -> Iterator[StuckPods]:
    """Yield the pods that do not run, those with the same reason together; then workloads."""
    own = own_indexes(snapshot.rendered)
    groups: dict[tuple[str, Reason], list[tuple[str, str]]] = {}
    for item, pod, why in reasons:
        if why.word not in FINE and (why.message or why.word not in BRIEF):
            name = f"{item.role}-{own.get(item.name, pod_index(pod))}"
            groups.setdefault((item.role, why), []).append((name, pod["metadata"]["name"]))
    for (_, why), pods in groups.items():
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        yield StuckPods(f"{pods[0][0]}{more}", pods[0][1], why)
    for item, observed in unfinished(snapshot.plan.workloads, snapshot.seen):
        wanted, found, _ = counts(observed)
        message = event_of(observed, snapshot.events) if found < wanted else ""
        if message:
            yield StuckPods(item.name, "", Reason("FailedCreate", shortened(message)))
    for pod in snapshot.supervisor_pods:
        why = reason(Workload("Job", "", "", container="supervisor"), pod, snapshot.events)
        if why.word not in FINE and (why.message or why.word not in BRIEF):
            yield StuckPods("supervisor", pod["metadata"]["name"], why)


# Whom a role waits for: the peers that are not there yet, by their pods. The init container that
# waits says the same in its log, from the pod's own view of DNS.


class Peers:
    """The replicas that have an address, and those that are ready, by role."""

    def __init__(self, snapshot: Snapshot) -> None:
        own = own_indexes(snapshot.rendered)
        self._named: set[tuple[str, int]] = set()
        self._ready: set[tuple[str, int]] = set()
        for item, pod in snapshot.pods:
            key = (item.role, own.get(item.name, pod_index(pod)))
            if pod["status"].get("podIP") and not is_deleted(pod):
                self._named.add(key)
                if condition(pod, "Ready"):
                    self._ready.add(key)

    def missing(self, wait: Wait) -> list[tuple[str, int]]:
        """Return the replicas that a wait waits for and that have no address, or are not ready."""
        there = self._ready if wait.started else self._named
        return [replica for replica in awaited(wait) if replica not in there]


def awaited(wait: Wait) -> list[tuple[str, int]]:
    """Return the replicas that a wait waits for: their roles and indexes."""
    first = wait.hosts.first
    return [(wait.role, index) for index in range(first, first + wait.hosts.count)]


def waits_for(role: Role, peers: Peers) -> str:
    """Return whom the replicas of a role wait for, in a line."""
    if not role.waits:  # of pods that an earlier version of mlgen has rendered
        return "waits for its peers, as its container wait-for-peers logs"
    total = len({replica for wait in role.waits for replica in awaited(wait)})
    missing = list(dict.fromkeys(each for wait in role.waits for each in peers.missing(wait)))
    if not missing:
        # They exist; the name spreads through DNS, or nothing listens on the port yet.
        names = dict.fromkeys(_port(wait) for wait in role.waits)
        return f"waits for {', '.join(names)}, whose pods exist"
    shown = ", ".join(f"{name}-{index}" for name, index in missing[:MAX_PEERS])
    more = f" and {len(missing) - MAX_PEERS} more" if len(missing) > MAX_PEERS else ""
    return f"waits for {len(missing)} of {total} peers: {shown}{more}"


def _port(wait: Wait) -> str:
    return wait.role if wait.port is None else f"port {wait.port} of {wait.role}"
