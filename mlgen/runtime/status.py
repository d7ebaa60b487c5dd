"""The record of a job: the data of the ConfigMap `<job>-status`, its Events and its metrics.

The key `state` is what the supervisor knows, as JSON. The others are for people: TFJob's conditions
(Created, Running, Restarting, Succeeded, Failed) as `STATUS TIME REASON: MESSAGE`, the start and
the end, the restarts, and the replicas of each role.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlgen.runtime.cluster import Object, Seen, seconds
from mlgen.runtime.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mlgen.runtime.plan import Plan

CONDITIONS = ("Created", "Running", "Restarting", "Succeeded", "Failed")
MAX_MESSAGE = 1000

AVOIDED = 3
"""How many nodes a restarted gang avoids: the last ones on which a replica has failed."""


@dataclass(frozen=True)
class State:
    """The supervisor's own state, which the job's objects do not contain."""

    run: str
    phase: str = "Running"
    uid: str = ""
    """Of the first deciding Job, once all workloads that the job needs have existed."""
    served: bool = False
    """The StatefulSets have been started, which an earlier run may have scaled to 0."""
    first: float = 0.0
    """When the supervisor first looked."""
    started: float = 0.0
    """When the first workload was not suspended; 0 while the user has suspended the job."""
    short: float = 0.0
    """Since when a workload has fewer pods than replicas."""
    restarts: int = 0
    disruptions: int = 0
    """Restarts after disruptions, which `restarts` does not count."""
    running: float = 0.0
    """Since when all replicas of the gang run."""
    spent: int = 0
    """The restarts since all replicas last ran for long, which count towards the backoffLimit."""
    disturbed: int = 0
    """The disruptions since then."""
    quick: int = 0
    """The last quick failures in a row that have the same exit code."""
    quick_code: int = 0
    until: float = 0.0
    """When the gang starts again."""
    mark: str = ""
    """The creationTimestamp of the last pod before the last restart."""
    members: tuple[str, ...] = ()
    """The gang's running pods, each as `member` names it. One that disappears was deleted, or lost
    its node."""
    settled: float = 0.0
    """Until when the gang may go on after a failure."""
    cause: Failure | None = None
    """Why the gang stops."""
    avoid: str = ""
    """The nodes on which replicas have failed, the last one first, with spaces between them."""
    ended: float = 0.0
    code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def attempt(self) -> int:
        """How often the gang has started again."""
        return self.restarts + self.disruptions

    def text(self) -> str:
        """Return the state as JSON, without defaults."""
        values = asdict(self)
        known = {key: value for key, value in values.items() if value != FIRST[key]}
        if self.members:
            known["members"] = " ".join(self.members)
        return json.dumps(known)


FIRST = asdict(State(""))
"""The state of a job that has just begun."""

CAUSE = asdict(Failure("", 0, "", "", retryable=False))
"""An example of a cause."""


def member(uid: str) -> str:
    """Return the start of a pod's UID, which is random.

    A ConfigMap has room for 1 MiB, and a job may have 100,000 pods. A pod that disappears goes
    unnoticed if another one of the job has the same 32 bits.
    """
    return uid[:8]


TYPES: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    tuple: (str, list),
    type(None): (dict, type(None)),
}
"""What JSON has for a field of a State whose default is of a type."""

LATEST = 1e11
"""A time that a clock can show, in s since the epoch."""


def stored(data: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the stored state as JSON; {} if it is invalid, because users can edit ConfigMaps.

    A state of nothing is that of a job which has just begun.
    """
    try:
        values = json.loads(data.get("state") or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict) or not _fits(values, FIRST):
        return {}
    cause, members = values.get("cause"), values.get("members", [])
    needed = {"time", "code", "reason", "pod", "retryable"}  # earlier versions wrote no others
    if cause and (not needed <= {*cause} <= {*CAUSE} or not _fits(cause, CAUSE)):
        return {}
    return values if all(isinstance(each, str) for each in members) else {}


def _fits(values: Mapping[str, Any], examples: Mapping[str, Any]) -> bool:
    """Return whether values have the types of examples, and times are times."""
    pairs = [(values[name], example) for name, example in examples.items() if name in values]
    return all(isinstance(value, TYPES[type(example)]) for value, example in pairs) and all(
        0 <= value < LATEST for value, example in pairs if isinstance(example, float)
    )


def goes_on(data: Mapping[str, str | None], changes: Mapping[str, str | None]) -> bool:
    """Return whether changes of a stored state enter another phase, or drop a running pod."""
    before, after = (stored(each) for each in (data, {**data, **changes}))
    default = State("").phase
    is_same = before.get("phase", default) == after.get("phase", default)
    return not is_same or not {*_members(before)} <= {*_members(after)}


def _members(values: Mapping[str, Any]) -> tuple[str, ...]:
    members = values.get("members", "")
    # An earlier version wrote a list of UIDs.
    return tuple(members.split() if isinstance(members, str) else map(member, members))


def is_stored(data: dict[str, str], run: str, uid: str = "") -> bool:
    """Return whether a state of this run is stored.

    One of the deciding Job `uid` is: only the supervisor's Job was replaced.
    """
    values = stored(data)
    return bool(values.get("run") == run or (uid and values.get("uid") == uid))


def load(data: dict[str, str], run: str, uid: str = "") -> State:
    """Return the stored state of this run, or the first state."""
    if not is_stored(data, run, uid):
        return State(run)
    values = stored(data)
    return replace(_loaded(values), run=run)


def restored(records: Iterable[str], run: str) -> State:
    """Return the state that was lost, of the records that the supervisor has left on the Jobs.

    They are those of the last stop or start of the gang; without any, the job has just begun.
    """
    states = [_loaded(values) for text in records if (values := stored({"state": text}))]
    latest = max(states, key=lambda each: each.attempt, default=State(run))
    return replace(latest, run=run)


def _loaded(values: dict[str, Any]) -> State:
    values["members"] = _members(values)
    values["cause"] = Failure(**values["cause"]) if values.get("cause") else None
    # Another version of this program may have written it.
    return State(**{"run": "", **{name: values[name] for name in values if name in FIRST}})


def stamp(now: float) -> str:
    """Return a time as the API server writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def changes(plan: Plan, seen: Seen, state: State, now: float) -> dict[str, str | None]:
    """Return the keys of the status that change, as a merge patch: None removes one."""
    after = {
        **(seen.status if is_stored(seen.status, plan.run, state.uid) else {}),
        **_replicas(plan, seen, state),
        "state": state.text(),
        "restarts": str(state.restarts),
        "disruptions": str(state.disruptions),
    }
    if state.started:
        after["startTime"] = stamp(state.started)
    if state.avoid:
        after["avoidedNodes"] = state.avoid
    if state.ended:
        after["completionTime"] = stamp(state.ended)
    _set(after, "Created", f"JobCreated: {plan.job} is created", now)
    if state.phase == "Ended":
        if "Running" not in after and _is_running(plan, seen):
            _set(after, "Running", f"JobRunning: {plan.job} was running", now)  # too short to see
        kind = "Failed" if state.code else "Succeeded"
        _set(after, kind, f"{state.reason}: {state.message}", now)
    elif state.phase in ("Stopping", "BackingOff"):
        _set(after, "Restarting", f"JobRestarting: {why(state)}", now)
    elif state.phase == "Running" and _is_running(plan, seen):
        _set(after, "Running", f"JobRunning: {plan.job} is running", now)
    changed: dict[str, str | None] = {k: v for k, v in after.items() if seen.status.get(k) != v}
    return {**changed, **{key: None for key in seen.status if key not in after}}


def avoided(state: State, node: str) -> str:
    """Return the nodes to avoid now that a replica has failed on another one, or on none."""
    nodes = dict.fromkeys([*node.split(), *state.avoid.split()])
    return " ".join([*nodes][:AVOIDED])


def why(state: State) -> str:
    """Return why the gang is restarted, or cannot be."""
    return state.cause.text if state.cause else "a pod was deleted or disrupted"


def _set(data: dict[str, str], name: str, text: str, now: float) -> None:
    """Set a condition, and end those that it excludes; an unchanged one keeps its time."""
    text = " ".join(text.split())[:MAX_MESSAGE]
    if data.get(name, "").startswith("True ") and data[name].split(" ", 2)[2:] == [text]:
        return
    data[name] = f"True {stamp(now)} {text}"
    for other in ("Running", "Restarting"):
        if name not in ("Created", other) and data.get(other, "").startswith("True "):
            data[other] = f"False {stamp(now)} {text}"


def _is_running(plan: Plan, seen: Seen) -> bool:
    """Return whether a replica of a deciding Job is ready, or has been."""
    found = [seen.workloads[name] or {"status": {}} for name in plan.deciding]
    return any(bool(each["status"].get(key)) for each in found for key in ("ready", "succeeded"))


def _replicas(plan: Plan, seen: Seen, state: State) -> dict[str, str]:
    """Return the replicas of each role of which something exists."""
    found: dict[str, list[Object]] = {}
    for item in plan.workloads:
        if observed := seen.workloads[item.name]:
            found.setdefault(f"replicas.{item.role}", []).append(observed["status"])
    freed = state.phase == "Ended" and plan.clean_pod_policy != "None"
    return {role: _counts(statuses, freed=freed) for role, statuses in found.items()}


def _counts(statuses: list[Object], *, freed: bool) -> str:
    def total(key: str) -> int:
        return sum(int(each.get(key, 0)) for each in statuses)

    active = 0 if freed else total("active") + total("replicas")  # of Jobs, and of StatefulSets
    return f"active {active}, succeeded {total('succeeded')}, failed {total('failed')}"


def events(plan: Plan, seen: Seen, namespace: str) -> Iterator[Object]:
    """Yield an Event for each stored condition; its name is the same from any supervisor."""
    job, uid = f"{plan.job}-supervisor", plan.run
    if len(plan.deciding) == 1 and seen.workloads[plan.deciding[0]]:
        job, uid = plan.deciding[0], load(seen.status, plan.run).uid
    involved = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}
    for name in CONDITIONS:
        text, _, message = seen.status.get(name, "False").partition(": ")
        status, at, reason = (*text.split(" "), "", "")[:3]
        if status == "True":
            yield {
                "metadata": {"name": f"{plan.job}-{plan.run}-{name}-{seconds(at):.0f}".lower()},
                "involvedObject": {**involved, "namespace": namespace},
                "type": "Warning" if name in ("Restarting", "Failed") else "Normal",
                "reason": reason,
                "message": message,
                "firstTimestamp": at,
                "lastTimestamp": at,
                "count": 1,
                "source": {"component": "mlgen-supervisor"},
                "reportingComponent": "mlgen-supervisor",
            }


def metrics(plan: Plan, data: dict[str, str]) -> str:
    """Return the same facts as Prometheus text.

    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
    """
    job, found = f'job="{plan.job}"', []
    for name in CONDITIONS:
        holds = int(data.get(name, "").startswith("True "))
        found.append(("condition", f',condition="{name}"', holds))
    found += [(f"{key}_total", "", int(data.get(key, 0))) for key in ("restarts", "disruptions")]
    for role in sorted({item.role for item in plan.workloads}):
        for state, count in re.findall(r"(\w+) (\d+)", data.get(f"replicas.{role}", "")):
            found.append(("replicas", f',role="{role}",state="{state}"', count))
    for key, name in (("startTime", "start"), ("completionTime", "completion")):
        if key in data:
            found.append((f"{name}_time_seconds", "", int(seconds(data[key]))))
    return "".join(f"mlgen_job_{name}{{{job}{labels}}} {value}\n" for name, labels, value in found)
