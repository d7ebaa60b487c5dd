"""The plan: JSON that mlgen renders → the supervisor's instructions."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

FILE = "/mlgen/plan.json"
"""The default of MLGEN_PLAN: the file in the pod."""

SIGNALS, ANY, ALONE = ">=128", "any", "alone"

OUTSIDE = (137, 143)
"""The exit codes of SIGKILL and SIGTERM, which are sent from outside."""


class Workload(NamedTuple):
    """A Job or StatefulSet of the job."""

    kind: str
    name: str
    role: str
    replicas: int = 1
    container: str = "main"
    """The training container."""
    retryable: str | tuple[int, ...] | None = None
    """Exit codes after which the gang restarts, in addition to OUTSIDE: None, `any`, `>=128`, or a
    list. `alone`: the controller restarts a failed replica, and only a disruption restarts the
    gang."""
    tolerates_failure: bool = False
    awaits: tuple[tuple[str, int, int], ...] = ()
    """The replicas that each replica awaits before it starts: a Job, its first index, the number of
    indexes."""

    def is_retryable(self, code: int) -> bool:
        """Return whether the gang may restart after a replica exited with a code."""
        codes = self.retryable if isinstance(self.retryable, tuple) else ()
        signal = self.retryable == SIGNALS and code >= 128  # noqa: PLR2004 - 128 + its number
        return signal or self.retryable == ANY or code in (*OUTSIDE, *codes)


class Order(NamedTuple):
    """The start of `role` when the role `of` is `Complete` or `Ready`."""

    role: str
    until: str
    of: str


class Plan(NamedTuple):
    """The supervisor's instructions.

    The JSON contains the same names in camel case and in this order, without `run` and without
    values that are the default. `plan_text` in `mlgen/objects/supervisor.py` writes it.
    """

    job: str
    deciding: tuple[str, ...]
    run: str = ""
    """Identifies this run of the job: the UID of the supervisor's own Job. A status of another run
    is discarded."""
    decides: str = "one"
    """The deciding Jobs that must succeed: `all`, `any`, or the only `one`."""
    workloads: tuple[Workload, ...] = ()
    order: tuple[Order, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    """Kinds and names of the other objects that are deleted with the workloads."""
    clean_pod_policy: str = "None"
    restart_scope: str | tuple[str, ...] = "Replica"
    backoff_limit: int = 0
    avoid_nodes: str = ""
    """How the gang's Jobs avoid nodes that failed: `Preferred`, `Required`, or "" for not at all.
    """

    force_delete_seconds: int = 0
    """The seconds after its grace period until a terminating pod of a StatefulSet is deleted, even
    if its node does not answer; 0 for never."""
    deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    crashes: int = 5
    """The limit of restarts of a container that crash-loops. 0 disables this and other limits."""
    image_seconds: int = 21600
    """The limit of the time that a container cannot be started, or a volume mounted."""
    pending_seconds: int = 0
    """The limit of the time that a pod cannot be created or scheduled."""
    start_failures: int = 3
    """The limit of consecutive quick failures with the same exit code. 0 disables any limit."""
    start_seconds: int = 60
    """A failure is quick if the training container ran for less than this."""
    disruptions: int = 1000
    """The limit of restarts after disruptions without `backoff_reset_seconds` of running between
    them. The default takes more than three days of delays alone. To reach it in a week on spot
    nodes, the gang must be disrupted every ten minutes, and never run for an hour."""
    backoff_reset_seconds: int = 3600
    """After this time with all replicas running, earlier failures no longer count."""
    port: int = 0
    """The port of the supervisor's HTTP server; 0 for none."""
    release: str = ""
    """The Job of the pod that ends the group of the job's pods in Kueue; "" without a group."""
    in_place: bool = False
    """True if the gang restarts in its pods, see `gate`."""
    progress: bool = False
    """True if the supervisor receives reports of progress."""
    first_report_seconds: int = 0
    """The limit of the time from the start of all replicas to the first report; 0 for none."""
    stalled_seconds: int = 0
    """The limit of the time without a report; 0 for none."""
    restart_stalled: bool = False
    """True if the gang restarts when no report arrives within a limit."""
    keep_last_log: bool = True
    """True if the status keeps the last lines of the container that failed first."""
    first_delay: float = 10.0
    """The seconds before the first restart. Doubled for each further restart, up to 300."""

    set: str = ""
    """The value of the label SET of the pods of this job's Jobs. Jobs with other values are
    ignored, unless this is ""."""

    @property
    def jobs(self) -> tuple[Workload, ...]:
        """The workloads that are Jobs."""
        return tuple(item for item in self.workloads if item.kind == "Job")

    @property
    def gang(self) -> tuple[Workload, ...]:
        """The workloads that restart together. Complete workloads do not run again."""
        scope = self.restart_scope
        roles = [item.role for item in self.workloads] if scope == "All" else scope
        return tuple(item for item in self.workloads if scope != "Replica" and item.role in roles)

    def waits(self, item: Workload) -> bool:
        """Return whether a workload starts only when another role is `Complete` or `Ready`."""
        return any(order.role == item.role for order in self.order)


def load(text: str, run: str = "", *, strict: bool = True) -> Plan:
    """Return the plan in a JSON text.

    Args:
        text: the JSON.
        run: the UID of the supervisor's Job.
        strict: raise TypeError for unknown names. Otherwise, skip them: another mlgen wrote them.

    Raises:
        AttributeError, RecursionError, TypeError, ValueError: the text is not a plan.
    """
    values = _values(Plan, json.loads(text), strict=strict)
    for name, kind in (("workloads", Workload), ("order", Order)):
        items = values.get(name, ())
        values[name] = tuple(kind(**_values(kind, item, strict=strict)) for item in items)
    return Plan(run=run, **values)


def _values(kind: Any, document: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """Return a mapping with its names in snake case, and tuples in place of lists."""
    values = {
        re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): _frozen(value)
        for key, value in document.items()
    }
    return values if strict else {name: values[name] for name in kind._fields if name in values}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
