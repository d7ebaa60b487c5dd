"""The plan: JSON that mlgen renders → what the supervisor has to decide."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

SIGNALS = ">=128"
ANY = "any"


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
    """The exit codes after which the gang restarts: none, `any`, `>=128`, or these."""
    tolerates_failure: bool = False

    def is_retryable(self, code: int) -> bool:
        """Return whether a replica that exits with the code may start again."""
        if self.retryable == SIGNALS:
            return code >= 128  # noqa: PLR2004 - 128 + the number of a signal
        return self.retryable == ANY or (
            isinstance(self.retryable, tuple) and code in self.retryable
        )


@dataclass(frozen=True)
class Order:
    """A role starts when another is `Complete` or `Ready`."""

    role: str
    until: str
    of: str


@dataclass(frozen=True)
class Plan:
    """What to decide; the JSON has the same names in camel case."""

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
    retry_oom: bool = False
    pods: bool = True
    """Whether the supervisor may list pods, which gangs, bounds and exit codes need."""
    crashes: int | None = None
    """The bound on restarts of a container that crash-loops."""
    image_seconds: int | None = None
    """The bound on the time that an image cannot be pulled."""
    pending_seconds: int | None = None
    """The bound on the time that a pod cannot be created or scheduled."""

    @property
    def gang(self) -> tuple[Workload, ...]:
        """The workloads that restart together.

        A role that others wait for until it is complete is not one of them, because it never runs
        again.
        """
        done = {order.of for order in self.order if order.until == "Complete"}
        return tuple(
            item
            for item in self.workloads
            if item.role not in done
            and self.restart_scope != "Replica"
            and (self.restart_scope == "All" or item.role in self.restart_scope)
        )


def load(text: str, run: str) -> Plan:
    """Return the plan of a JSON text; unknown names raise a TypeError."""
    document: dict[str, Any] = json.loads(text)
    snake = {field.name.replace("_", ""): field.name for field in fields(Plan)}
    values = {snake.get(key.lower(), key): _frozen(value) for key, value in document.items()}
    values["workloads"] = tuple(
        Workload(
            **{
                "tolerates_failure" if key == "toleratesFailure" else key: _frozen(value)
                for key, value in item.items()
            }
        )
        for item in document["workloads"]
    )
    values["order"] = tuple(Order(**item) for item in document.get("order", ()))
    return Plan(run=run, **values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
