"""The plan: JSON that mlgen renders → the supervisor's instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

SIGNALS, ANY, ALONE = ">=128", "any", "alone"

OUTSIDE = (137, 143)
"""SIGKILL and SIGTERM: no program ends itself so."""


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
    """The exit codes after which the gang restarts, beside OUTSIDE: none, `any`, `>=128`, or these.
    `alone`: a failed replica is restarted by its controller, and only a disruption restarts the
    gang."""
    tolerates_failure: bool = False

    def is_retryable(self, code: int) -> bool:
        """Return whether the gang may start again after a replica exited with a code."""
        codes = self.retryable if isinstance(self.retryable, tuple) else ()
        signal = self.retryable == SIGNALS and code >= 128  # noqa: PLR2004 - 128 + its number
        return signal or self.retryable == ANY or code in (*OUTSIDE, *codes)


@dataclass(frozen=True)
class Order:
    """A role starts when another is `Complete` or `Ready`."""

    role: str
    until: str
    of: str


@dataclass(frozen=True)
class Plan:
    """The supervisor's instructions; the JSON has the same names in camel case."""

    job: str
    run: str
    """Identifies this run of the job: the UID of the supervisor's own Job. A status of another run
    is discarded."""
    deciding: tuple[str, ...]
    workloads: tuple[Workload, ...]
    decides: str = "one"
    """How several deciding Jobs decide together: `all` or `any` of them; `one` is the only one."""
    objects: tuple[tuple[str, str], ...] = ()
    """Kinds and names of the other objects that are deleted with the workloads."""
    clean_pod_policy: str = "None"
    restart_scope: str | tuple[str, ...] = "Replica"
    backoff_limit: int = 0
    deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    order: tuple[Order, ...] = ()
    first_delay: float = 10.0
    """The seconds before the first restart; doubled for each further one, up to five minutes."""
    start_failures: int = 3
    """The bound on quick failures with the same exit code in a row. Of all bounds, 0 is none."""
    start_seconds: int = 60
    """A failure is quick if the training container has run for less than this."""
    backoff_reset_seconds: int = 3600
    """After so long with all replicas running, earlier failures no longer count."""
    disruptions: int = 0
    """The bound on restarts after disruptions."""
    crashes: int = 0
    """The bound on restarts of a container that crash-loops."""
    image_seconds: int = 0
    """The bound on the time that a container cannot be started, or a volume mounted."""
    pending_seconds: int = 0
    """The bound on the time that a pod cannot be created or scheduled."""
    metrics_port: int = 0
    """Where Prometheus text is served; 0 is nowhere."""
    avoid_nodes: bool = False
    """The Jobs of the gang prefer other nodes than those on which a replica has failed."""

    set: str = ""
    """If given, a Job whose pods have another value of the annotation SET is not of this set."""

    @property
    def jobs(self) -> tuple[Workload, ...]:
        """The workloads that are Jobs."""
        return tuple(item for item in self.workloads if item.kind == "Job")

    @property
    def gang(self) -> tuple[Workload, ...]:
        """The workloads that restart together; those that are complete do not run again."""
        scope = self.restart_scope
        roles = [item.role for item in self.workloads] if scope == "All" else scope
        return tuple(item for item in self.workloads if scope != "Replica" and item.role in roles)

    def waits(self, item: Workload) -> bool:
        """Return whether a workload is started when another role has come so far."""
        return any(order.role == item.role for order in self.order)


def load(text: str, run: str) -> Plan:
    """Return the plan of a JSON text; unknown names raise a TypeError."""
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
