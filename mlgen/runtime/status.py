"""The status of a job: the data of the ConfigMap `<job>-status`.

The key `state` is what the supervisor knows, as JSON. The others are for people: TFJob's conditions
(Created, Running, Restarting, Succeeded, Failed) as `STATUS TIME REASON: MESSAGE`, the start and
the end, the number of restarts, and the replicas of each role.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from mlgen.runtime.cluster import Failure, Seen

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan

MAX_MESSAGE = 1000


@dataclass(frozen=True)
class State:
    """What the supervisor knows beside what the objects say."""

    run: str
    phase: str = "Running"
    uid: str = ""
    """Of the first deciding Job, once all workloads that the job needs have existed."""
    first: float = 0.0
    """When the supervisor first looked."""
    started: float = 0.0
    """When the first workload was not suspended."""
    short: float = 0.0
    """Since when a workload has fewer pods than replicas."""
    restarts: int = 0
    disruptions: int = 0
    """Restarts after disruptions, which `restarts` does not count."""
    until: float = 0.0
    settled: float = 0.0
    """When a permanent exit code stops the gang."""
    mark: str = ""
    """The creationTimestamp of the last pod before the last restart."""
    failed: int = 0
    """The failed pods that the gang's Jobs had counted at the last restart."""
    held: tuple[str, ...] = ()
    """Workloads of the gang that still have to be started."""
    members: tuple[str, ...] = ()
    """The UIDs of the gang's running pods. One that disappears was deleted, or lost its node."""
    cause: Failure | None = None
    """The container of the gang that failed first."""
    disrupted: bool = False
    """A pod of the gang was deleted, drained, preempted or lost."""
    ended: float = 0.0
    code: int = 0
    reason: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the state as JSON, without defaults."""
        default = State(self.run)
        values = asdict(self).items()
        return json.dumps({k: v for k, v in values if k == "run" or v != getattr(default, k)})


def load(data: dict[str, str], run: str) -> State:
    """Return the stored state of this run, or the first state."""
    values: dict[str, Any] = json.loads(data.get("state") or "{}")
    if values.get("run") != run:
        return State(run)
    known = {field.name for field in fields(State)}
    values = {key: value for key, value in values.items() if key in known}
    for name in ("held", "members"):
        values[name] = tuple(values.get(name, ()))
    if values.get("cause"):
        values["cause"] = Failure(**values["cause"])
    return State(**values)


def stamp(now: float) -> str:
    """Return a time as the API server writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def changes(plan: Plan, seen: Seen, state: State, now: float) -> dict[str, str | None]:
    """Return the keys of the status that change, as a merge patch: None removes one."""
    stored = load(seen.status, plan.run)
    known = seen.status.get("state") and stored.run == json.loads(seen.status["state"]).get("run")
    before: dict[str, str] = seen.status if known else {}
    after = {**before, "state": state.text(), "restarts": str(state.restarts)}
    _set(after, "Created", f"JobCreated: {plan.job} is created", now)
    if state.started:
        after.setdefault("startTime", stamp(state.started))
    ready = 0
    for role in sorted({item.role for item in plan.workloads}):
        text, role_ready = _replicas(plan, seen, role)
        after[f"replicas.{role}"] = text
        ready += role_ready
    if state.phase == "Ended":
        kind = "Failed" if state.code else "Succeeded"
        _set(after, kind, f"{state.reason}: {state.message}", now)
        after.setdefault("completionTime", stamp(state.ended))
    elif state.phase != "Running":
        cause = state.cause
        text = f"{cause.pod} exited with {cause.code}" if cause else "a pod is lost"
        _set(after, "Restarting", f"JobRestarting: {text}", now)
    elif ready and not state.held:
        _set(after, "Running", f"JobRunning: {plan.job} is running", now)
    changed: dict[str, str | None] = {k: v for k, v in after.items() if seen.status.get(k) != v}
    return {**changed, **{key: None for key in seen.status if key not in after}}


def _set(data: dict[str, str], name: str, text: str, now: float) -> None:
    """Set a condition, and end those that it excludes; an unchanged one keeps its time."""
    text = " ".join(text.split())[:MAX_MESSAGE]
    if data.get(name, "").startswith("True ") and data[name].split(" ", 2)[2] == text:
        return
    data[name] = f"True {stamp(now)} {text}"
    for other in ("Running", "Restarting"):
        if name not in ("Created", other) and data.get(other, "").startswith("True "):
            data[other] = f"False {stamp(now)} {text}"


def _replicas(plan: Plan, seen: Seen, role: str) -> tuple[str, int]:
    """Return the replicas of a role as text, and how many of them have been ready."""
    active = succeeded = failed = ready = 0
    for item in plan.workloads:
        observed = seen.workloads[item.name]
        if item.role == role and observed:
            status = observed["status"]
            active += status.get("active", status.get("replicas", 0))
            succeeded += status.get("succeeded", 0)
            failed += status.get("failed", 0)
            ready += status.get("ready", 0) if item.name in plan.deciding else 0
    done = succeeded if role in {w.role for w in plan.workloads if w.name in plan.deciding} else 0
    return f"active {active}, succeeded {succeeded}, failed {failed}", ready + done
