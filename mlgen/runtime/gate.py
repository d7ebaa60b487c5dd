"""Restarts in place: the sidecar of each pod waits at this gate between two attempts.

A sidecar requests `/attempt?attempt=N` while its pod runs attempt N, and exits when the answer is
`restart`. Kubernetes then restarts all containers of the pod (KEP-5532). A container that fails has
the same effect. The sidecar now requests `/attempt?after=N`, and the other containers start when
the answer is `start M`. The answer `is M` tells a sidecar that has no number the current one.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from mlgen.runtime.cluster import Object, is_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlgen.runtime.server import Answer
    from mlgen.runtime.status import State


class Gate:
    """The pods that wait for the next attempt, and the answers to their sidecars.

    Args:
        ring: called when a pod starts to wait.
        wake: called when the answers to held requests may have changed.
    """

    def __init__(self) -> None:
        self.ring: Callable[[], None] = lambda: None
        self.wake: Callable[[], None] = lambda: None
        self.waiting: dict[str, int] = {}
        """The attempt that each waiting pod has run last, by the pod's UID."""
        self._phase, self._attempt, self._in_place = "", 0, False

    def update(self, state: State) -> None:
        """Take over the state that is stored."""
        known = (self._phase, self._attempt, self._in_place)
        self._phase, self._attempt, self._in_place = state.phase, state.attempt, state.in_place
        if known != (self._phase, self._attempt, self._in_place):
            self.wake()

    def of(self, pods: list[Object]) -> dict[str, int]:
        """Return the waiting pods, and forget those that no longer exist."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        for uid in {*self.waiting} - uids:
            self.waiting.pop(uid, None)
        return dict(self.waiting)

    def answer(self, pod: Object, query: str) -> Answer:
        """Return the answer to the sidecar of a pod; None if it must wait."""
        values = dict(parse_qsl(query[:100], keep_blank_values=True))
        number = values.get("after", values.get("attempt", ""))
        uid, stops = pod["metadata"]["uid"], self._in_place and self._phase == "Stopping"
        if not self._phase:
            return None  # the status is not read yet
        if not number.isdecimal():
            return HTTPStatus.OK, f"is {self._attempt}\n"
        if "after" not in values:
            self.waiting.pop(uid, None)
            return (HTTPStatus.OK, "restart\n") if stops else None
        if self._phase in ("Starting", "Running") and int(number) != self._attempt:
            self.waiting.pop(uid, None)
            return HTTPStatus.OK, f"start {self._attempt}\n"
        if stops and is_alone(pod):
            return HTTPStatus.OK, "restart\n"
        if self.waiting.get(uid) != int(number):
            self.waiting[uid] = int(number)
            self.ring()
        return None
