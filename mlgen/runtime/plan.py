"""The plan: JSON that mlgen renders → the supervisor's instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

FILE = "/mlgen/plan.json"
"""The default of MLGEN_PLAN: the file in the pod."""

SIGNALS, ANY, ALONE = ">=128", "any", "alone"

OUTSIDE = (137, 143)
"""The exit codes of SIGKILL and SIGTERM, which are sent from outside."""


@dataclass(frozen=True)
class Workload:
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


@dataclass(frozen=True)
class Order:
    """The start of `role` when the role `of` is `Complete` or `Ready`."""

    role: str
    until: str
    of: str


@dataclass(frozen=True)
class Plan:
    """The supervisor's instructions. The JSON contains the same names in camel case."""

    job: str
    run: str
    """Identifies this run of the job: the UID of the supervisor's own Job. A status of another run
    is discarded."""
    deciding: tuple[str, ...]
    workloads: tuple[Workload, ...]
    decides: str = "one"
    """The deciding Jobs that must succeed: `all`, `any`, or the only `one`."""
    objects: tuple[tuple[str, str], ...] = ()
    """Kinds and names of the other objects that are deleted with the workloads."""
    clean_pod_policy: str = "None"
    restart_scope: str | tuple[str, ...] = "Replica"
    backoff_limit: int = 0
    deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    order: tuple[Order, ...] = ()
    first_delay: float = 10.0
    """The seconds before the first restart. Doubled for each further restart, up to 300."""
    start_failures: int = 3
    """The limit of consecutive quick failures with the same exit code. 0 disables any limit."""
    start_seconds: int = 60
    """A failure is quick if the training container ran for less than this."""
    backoff_reset_seconds: int = 3600
    """After this time with all replicas running, earlier failures no longer count."""
    disruptions: int = 1000
    """The limit of restarts after disruptions without `backoff_reset_seconds` of running between
    them. The default takes more than three days of delays alone. To reach it in a week on spot
    nodes, the gang must be disrupted every ten minutes, and never run for an hour."""
    crashes: int = 5
    """The limit of restarts of a container that crash-loops. 0 disables this and other limits."""
    image_seconds: int = 21600
    """The limit of the time that a container cannot be started, or a volume mounted."""
    pending_seconds: int = 0
    """The limit of the time that a pod cannot be created or scheduled."""
    port: int = 0
    """The port of the supervisor's HTTP server; 0 for none."""
    release: str = ""
    """The Job of the pod that ends the group of the job's pods in Kueue; "" without a group."""
    avoid_nodes: str = ""
    """How the gang's Jobs avoid nodes that failed: `Preferred`, `Required`, or "" for not at all.
    """

    in_place: bool = False
    """True if the gang restarts in its pods, see `gate`."""
    force_delete_seconds: int = 0
    """The seconds after its grace period until a terminating pod of a StatefulSet is deleted, even
    if its node does not answer; 0 for never."""

    progress: bool = False
    """True if the supervisor receives reports of progress."""
    first_report_seconds: int = 0
    """The limit of the time from the start of all replicas to the first report; 0 for none."""
    stalled_seconds: int = 0
    """The limit of the time without a report; 0 for none."""
    restart_stalled: bool = False
    """True if the gang restarts when no report arrives within a limit."""

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


def load(text: str, run: str) -> Plan:
    """Return the plan in a JSON text. Raises TypeError for unknown names."""
    values = _values(json.loads(text))
    for name, kind in (("workloads", Workload), ("order", Order)):
        values[name] = tuple(kind(**_values(item)) for item in values.get(name, ()))
    return Plan(run=run, **values)


def _values(document: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with its names in snake case, and tuples in place of lists."""
    return {
        re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): _frozen(value)
        for key, value in document.items()
    }


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
