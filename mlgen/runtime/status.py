"""The status of a job: the data of the ConfigMap `<job>.status`, its Events and its metrics.

The key `state` contains the supervisor's state as JSON. The other keys are for users: TFJob's
conditions (Created, Running, Restarting, Succeeded, Failed) and Stalled as `STATUS TIME REASON:
MESSAGE`, the start and the end, the restarts, the replicas of each role, the progress as JSON, and
the last lines of the replica that failed first.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlgen.runtime.answers import LATEST
from mlgen.runtime.cluster import Seen, counts, is_suspended, pods_of, unfinished
from mlgen.runtime.failures import Failure
from mlgen.runtime.times import seconds, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mlgen.runtime.answers import Object
    from mlgen.runtime.clock import Clock
    from mlgen.runtime.plan import Plan
    from mlgen.runtime.progress import Progress

CONDITIONS = ("Created", "Running", "Stalled", "Restarting", "Succeeded", "Failed")
WARNINGS = ("Stalled", "Restarting", "Failed")
MAX_MESSAGE = 1000

AVOIDED = 3
"""The number of nodes to avoid: the last ones on which a replica failed."""


@dataclass(frozen=True)
class State:
    """The supervisor's state, which cannot be derived from the job's objects."""

    run: str
    phase: str = "Running"
    uid: str = ""
    """The UID of the first deciding Job, set once all required workloads exist."""
    served: bool = False
    """True once the StatefulSets were started. An earlier run may have scaled them to 0."""
    first: float = 0.0
    """The time of the supervisor's first pass."""
    started: float = 0.0
    """When the first workload started; 0 while the user has suspended the job."""
    short: float = 0.0
    """Since when a workload has fewer pods than replicas."""
    restarts: int = 0
    disruptions: int = 0
    """Restarts after disruptions, which `restarts` does not count."""
    running: float = 0.0
    """Since when all replicas of the gang run; without a gang, all replicas of the job."""
    stalled: float = 0.0
    """Since when training is stalled."""
    mute: bool = False
    """True if the gang was restarted because no report had ever arrived."""
    spent: int = 0
    """The restarts that count towards the backoffLimit: since all replicas last ran for long."""
    disturbed: int = 0
    """The disruptions since all replicas last ran for long."""
    quick: int = 0
    """The number of consecutive quick failures with the same exit code."""
    quick_code: int = 0
    until: float = 0.0
    """When the gang starts again, or when a gang that stops in place must be stopped otherwise."""
    old: tuple[str, ...] = ()
    """The pods that remained of earlier attempts when the gang was started again, like `members`.
    Those on a lost node may remain for long."""
    in_place: bool = False
    """True while the gang restarts in its pods."""
    members: tuple[str, ...] = ()
    """The gang's running pods, as short UIDs (`member`). A pod that disappears was deleted, or its
    node was lost."""
    ahead: float = 0.0
    """The seconds by which the API server's clock is ahead of the times here (`Clock.ahead`)."""
    settled: float = 0.0
    """Until when the gang may continue after a failure."""
    cause: Failure | None = None
    """Why the gang stops."""
    avoid: str = ""
    """The nodes on which replicas failed, the last one first, separated by spaces."""
    failed: str = ""
    """The nodes on which replicas have failed since the gang has its pods, like `avoid`."""
    ended: float = 0.0
    code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def attempt(self) -> int:
        """The number of restarts of the gang."""
        return self.restarts + self.disruptions

    def text(self) -> str:
        """Return the state as JSON, without defaults."""
        values = asdict(self)
        known = {key: value for key, value in values.items() if value != FIRST[key]}
        known.update({key: " ".join(values[key]) for key in PODS if values[key]})
        return json.dumps(known)


FIRST = asdict(State(""))
"""The state of a job that has just begun."""

CAUSE = asdict(Failure("", 0, "", "", retryable=False))
"""A cause with a value of the right type in each field."""


PODS = ("members", "old")
"""The fields with short UIDs of pods."""

TYPES: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    tuple: (str, list),
    type(None): (dict, type(None)),
}
"""The types in JSON of a field of State, by the type of its default."""

COUNTS = re.compile(r"\b(active|succeeded|failed) ([0-9]{1,10})\b")
"""A number of replicas, as `_counts` writes it."""


def stored(data: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the stored state as JSON; {} if it is invalid, because users can edit ConfigMaps.

    {} is also the state of a new job.
    """
    try:
        values = json.loads(data.get("state") or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict) or not _fits(values, FIRST):
        return {}
    cause = values.get("cause")
    needed = {"time", "code", "reason", "pod", "retryable"}  # earlier versions wrote no others
    if cause and (not needed <= {*cause} <= {*CAUSE} or not _fits(cause, CAUSE)):
        return {}
    pods = [each for key in PODS for each in values.get(key, ())]
    return values if all(isinstance(each, str) for each in pods) else {}


NAME, VALUE = (
    re.compile(r"[\w./:-]+", re.ASCII),
    re.compile(r"-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,2})?"),
)
"""Names and values of reported metrics that are safe in Prometheus metrics."""


def _fits(values: Mapping[str, Any], examples: Mapping[str, Any]) -> bool:
    """Return whether values have the types of examples, and numbers are in range."""
    known = [(name, values[name], examples[name]) for name in examples if name in values]
    return all(isinstance(value, TYPES[type(example)]) for _, value, example in known) and all(
        (-LATEST if name == "ahead" else 0) <= value < LATEST
        for name, value, example in known
        if isinstance(example, (int, float))
    )


def goes_on(data: Mapping[str, str | None], changes: Mapping[str, str | None]) -> bool:
    """Return whether changes of a stored state change the phase, or remove a running pod."""
    before, after = (stored(each) for each in (data, {**data, **changes}))
    default = State("").phase
    is_same = before.get("phase", default) == after.get("phase", default)
    return not is_same or not {*_pods(before, "members")} <= {*_pods(after, "members")}


def _pods(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = values.get(key, "")
    # An earlier version wrote a list of UIDs.
    return tuple(found.split() if isinstance(found, str) else (each[:8] for each in found))


def is_stored(data: dict[str, str], run: str, uid: str = "") -> bool:
    """Return whether a state of this run is stored.

    A state with the deciding Job's `uid` counts: only the supervisor's Job was replaced.
    """
    return _is_of(stored(data), run, uid)


def _is_of(values: Mapping[str, Any], run: str, uid: str) -> bool:
    return bool(values.get("run") == run or (uid and values.get("uid") == uid))


def resume(clock: Clock, data: dict[str, str], run: str) -> None:
    """Let a clock continue the times in a stored state, unless it is the end of an earlier run."""
    values = stored(data)
    values = {} if values.get("phase") == "Ended" and not is_stored(data, run) else values
    clock.resume(values.get("ahead", 0.0), max(values.get(name, 0.0) for name in PAST))


PAST = ("first", "started", "short", "running", "stalled", "ended")
"""The fields with times that are past."""


def load(data: dict[str, str], run: str, uid: str = "") -> State:
    """Return the stored state of this run, or the initial state."""
    return recorded(data, run, uid) or State(run)


def recorded(data: Mapping[str, str | None], run: str | None, uid: str = "") -> State | None:
    """Return the stored state of this run, or if `run` is None, of any; None if there is none."""
    values = stored(data)
    if not values or (run is not None and not _is_of(values, run, uid)):
        return None
    return _loaded(values if run is None else {**values, "run": run})


def restored(records: Iterable[str], run: str) -> State:
    """Return the latest state from the supervisor's annotations of the Jobs, if the status is lost.

    They contain the state at the last stop or start of the gang. Without any, the job is new.
    """
    states = [_loaded(values) for text in records if (values := stored({"state": text}))]
    latest = max(states, key=lambda each: each.attempt, default=State(run))
    return replace(latest, run=run)


def _loaded(values: dict[str, Any]) -> State:
    values.update({key: _pods(values, key) for key in PODS})
    values["cause"] = Failure(**values["cause"]) if values.get("cause") else None
    # Another version of this program may have written other fields.
    return State(**{"run": "", **{name: values[name] for name in values if name in FIRST}})


def changes(plan: Plan, seen: Seen, state: State, now: float) -> dict[str, str | None]:
    """Return the changed keys of the status, as a merge patch: None removes a key."""
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
    if all(seen.workloads[item.name] for item in plan.workloads):
        _set(after, "Created", f"JobCreated: {plan.job} is created", now)
    if state.phase == "Ended":
        if "Running" not in after and _has_run(plan, seen):
            _set(after, "Running", f"JobRunning: {plan.job} was running", now)  # not observed
        kind = "Failed" if state.code else "Succeeded"
        _set(after, kind, f"{state.reason}: {state.message}", now)
    elif state.phase in ("Stopping", "BackingOff"):
        _set(after, "Restarting", f"JobRestarting: {why(state)}", now)
    elif state.phase == "Running" and is_running(plan, seen):
        _set(after, "Running", f"JobRunning: {plan.job} is running", now)
    elif state.phase == "Running" and (role := _restarting(plan, seen)):
        _set(after, "Restarting", f"JobRestarting: a replica of {role} failed and restarts", now)
    _set_progress(plan, seen, state, after, now)
    changed: dict[str, str | None] = {k: v for k, v in after.items() if seen.status.get(k) != v}
    return {**changed, **{key: None for key in seen.status if key not in after}}


def latest(names: str, node: str) -> str:
    """Return names of nodes with one more ("" if unknown), of which the first are kept."""
    nodes = dict.fromkeys([*node.split(), *names.split()])
    return " ".join([*nodes][:AVOIDED])


def why(state: State) -> str:
    """Return why the gang is restarted, or cannot be."""
    return state.cause.text if state.cause else "a pod was deleted or disrupted"


def _set(data: dict[str, str], name: str, text: str, now: float) -> None:
    """Set a condition and end those that it excludes. An unchanged condition keeps its time."""
    text = " ".join(text.split())[:MAX_MESSAGE]
    if data.get(name, "").startswith("True ") and data[name].split(" ", 2)[2:] == [text]:
        return
    data[name] = f"True {stamp(now)} {text}"
    for other in ("Running", "Restarting"):
        if name not in ("Created", other) and data.get(other, "").startswith("True "):
            data[other] = f"False {stamp(now)} {text}"


def _set_progress(plan: Plan, seen: Seen, state: State, data: dict[str, str], now: float) -> None:
    """Set the progress, and the condition Stalled, which does not exclude Running."""
    if not plan.progress:
        return
    from mlgen.runtime import progress

    if text := progress.updated(seen.progress, data, state.attempt, now)[0]:
        data[progress.KEY] = text
    stalls, stalled = state.stalled > 0 and state.phase == "Running", is_stalled(data)
    if stalls and not stalled:  # while it holds, its message does not change
        found = progress.current(seen.progress, data, state.attempt)
        text = progress.silence(plan, found, again=state.mute and not found.last)
        data["Stalled"] = f"True {stamp(now)} JobStalled: {text}"[:MAX_MESSAGE]
    elif stalled and not stalls:
        text = "a report has arrived, or the replicas do not run"
        data["Stalled"] = f"False {stamp(now)} JobNotStalled: {text}"


def is_stalled(data: Mapping[str, str]) -> bool:
    """Return whether the condition Stalled holds."""
    return data.get("Stalled", "").startswith("True ")


def is_running(plan: Plan, seen: Seen) -> bool:
    """Return whether all replicas of all workloads are ready or have succeeded."""
    found = [seen.workloads[item.name] for item in plan.workloads if item.replicas]
    totals = [(1, 0, 0) if not each or is_suspended(each) else counts(each) for each in found]
    return all(ready >= wanted > 0 for wanted, _, ready in totals)


def _restarting(plan: Plan, seen: Seen) -> str:
    """Return the role with a failed replica that its controller restarts alone; "" if none."""
    for item, observed in unfinished(plan.workloads, seen):
        wanted, _, ready = counts(observed)
        if ready < wanted and item not in plan.gang and not is_suspended(observed):
            pods = [pod["status"] for _, pod in pods_of((item,), seen)]
            again = [c for pod in pods for c in pod["containerStatuses"]]
            if observed["status"]["failed"] or any(c["restartCount"] for c in again):
                return item.role
    return ""


def _has_run(plan: Plan, seen: Seen) -> bool:
    """Return whether a replica of a deciding Job is ready, or has been."""
    found = [each for name in plan.deciding if (each := seen.workloads[name])]
    return any(each["status"]["ready"] or each["status"]["succeeded"] for each in found)


def _replicas(plan: Plan, seen: Seen, state: State) -> dict[str, str]:
    """Return the replica counts of each role with existing workloads."""
    found: dict[str, list[Object]] = {}
    for item in plan.workloads:
        if observed := seen.workloads[item.name]:
            found.setdefault(f"replicas.{item.role}", []).append(observed["status"])
    freed = state.phase == "Ended" and plan.clean_pod_policy != "None"
    return {role: _counts(statuses, freed=freed) for role, statuses in found.items()}


def _counts(statuses: list[Object], *, freed: bool) -> str:
    def total(key: str) -> int:
        return sum(each[key] for each in statuses)

    active = 0 if freed else total("active") + total("replicas")  # of Jobs, and of StatefulSets
    return f"active {active}, succeeded {total('succeeded')}, failed {total('failed')}"


def events(plan: Plan, seen: Seen, namespace: str) -> Iterator[Object]:
    """Yield an Event for each stored condition, with the same name from any supervisor.

    Also one for each quarter of the training, once in a run.
    """
    job, uid = f"{plan.job}-supervisor", plan.run
    if len(plan.deciding) == 1 and seen.workloads[plan.deciding[0]]:
        job, uid = plan.deciding[0], load(seen.status, plan.run).uid
    involved = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}
    found = []
    for name in CONDITIONS:
        text, _, message = seen.status.get(name, "False").partition(": ")
        status, at, reason = (*text.split(" "), "", "")[:3]
        if status == "True":
            found.append((f"{name}-{seconds(at):.0f}".lower(), name, at, reason, message))
    if plan.progress:
        from mlgen.runtime import progress

        stored = progress.load(seen.status.get(progress.KEY))
        if stored and (quarter := int(stored.percent or 0) // 25 * 25):
            text = f"{quarter} % of training is done"
            found.append((f"progress-{quarter}", "", stamp(stored.last), "JobProgress", text))
    for suffix, name, at, reason, message in found:
        yield {
            "metadata": {"name": f"{plan.job}-{plan.run}-{suffix}"},
            "involvedObject": {**involved, "namespace": namespace},
            "type": "Warning" if name in WARNINGS else "Normal",
            "reason": reason,
            "message": message,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "source": {"component": "mlgen-supervisor"},
            "reportingComponent": "mlgen-supervisor",
        }


def metrics(plan: Plan, data: dict[str, str], reports: Mapping[str, int] | None = None) -> str:
    """Return the status as Prometheus metrics. Values that users have changed may be missing.

    https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format

    Args:
        plan: the plan of the job.
        data: the status.
        reports: the number of reports by result.
    """
    job = f'job="{plan.job}"'
    found: list[tuple[str, str, float]] = []
    for name in CONDITIONS:
        holds = int(data.get(name, "").startswith("True "))
        found.append(("condition", f',condition="{name}"', holds))
    for key in ("restarts", "disruptions"):
        text = data.get(key, "0")
        found.append((f"{key}_total", "", int(text) if re.fullmatch("[0-9]{1,10}", text) else 0))
    for role in sorted({item.role for item in plan.workloads}):
        for state, count in dict(COUNTS.findall(data.get(f"replicas.{role}", "")[:100])).items():
            found.append(("replicas", f',role="{role}",state="{state}"', int(count)))
    for key, name in (("startTime", "start"), ("completionTime", "completion")):
        if key in data:
            found.append((f"{name}_time_seconds", "", int(seconds(data[key]))))
    for result, count in (reports or {}).items():
        found.append(("reports_total", f',result="{result}"', count))
    if plan.progress:
        from mlgen.runtime import progress

        if stored := progress.load(data.get(progress.KEY)):
            found += _progress_metrics(stored)
    return "".join(f"mlgen_job_{name}{{{job}{labels}}} {value}\n" for name, labels, value in found)


def _progress_metrics(stored: Progress) -> Iterator[tuple[str, str, float]]:
    """Yield the metrics of the progress: name, labels and value."""
    if stored.percent is not None:
        yield "progress_ratio", "", round(stored.percent / 100, 4)
    if stored.remaining is not None:
        yield "remaining_seconds", "", stored.remaining
    if stored.last:
        yield "last_report_time_seconds", "", int(stored.last)
    for name, text in dict(stored.metrics).items():
        if NAME.fullmatch(name) and VALUE.fullmatch(text):
            yield "reported", f',name="{name}"', float(text)
