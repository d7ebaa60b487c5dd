"""Restarts in place: the sidecar of each pod waits at this gate between two attempts.

A sidecar requests `/attempt?attempt=N` while its pod runs attempt N, and exits when the answer is
`restart`. Kubernetes then restarts all containers of the pod (KEP-5532). A container that fails has
the same effect. The sidecar now requests `/attempt?after=N`, and the other containers start when
the answer is `start M`. The answer `is M` tells a sidecar that has no number the current one.

An answer depends on a status that was read after the request arrived. Another supervisor of the job
may have started the next attempt before, which a supervisor notices only when it reads the status.
"""

from __future__ import annotations

import math
import time
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from mlgen.runtime.cluster import is_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlgen.runtime.answers import Object
    from mlgen.runtime.status import State

ASK_SECONDS = 2.0
"""Requests make the supervisor look at most this often, whatever they contain."""


class Gate:
    """The pods that wait for the next attempt, and the answers to their sidecars.

    Args:
        clock: returns the time in seconds.
        ring: called to let the supervisor read the status, and look at the pods that wait.
        wake: called when the answers to held requests may have changed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.ring: Callable[[], None] = lambda: None
        self.wake: Callable[[], None] = lambda: None
        self.waiting: dict[str, int] = {}
        """The attempt that each waiting pod has run last, by the pod's UID."""
        self._phase, self._attempt, self._in_place = "", 0, False
        self._reads = 0
        self._asked: dict[str, tuple[str, int]] = {}
        """The request of each pod, and how often the status had been read before, by UID."""
        self._has_new = False
        """True if a request has arrived since the status was read."""
        self._served = -ASK_SECONDS
        """When the status was last read for a request."""
        self._told: dict[str, int] = {}
        """The attempt in which a sidecar that restarted alone was told to `restart`, by UID."""

    def update(self, state: State) -> None:
        """Take over the state that was read."""
        known = (self._phase, self._attempt, self._in_place)
        self._phase, self._attempt, self._in_place = state.phase, state.attempt, state.in_place
        self._reads += 1
        if self._has_new:
            self._served = self._clock()
        if self._has_new or known != (self._phase, self._attempt, self._in_place):
            self._has_new = False
            self.wake()

    def pause(self) -> float:
        """Return the seconds until the supervisor must look, because a request did not ring."""
        passed = self._clock() - self._served
        return ASK_SECONDS - passed if 0 <= passed < ASK_SECONDS else math.inf

    def _ask(self) -> None:
        self._has_new = True
        if self.pause() == math.inf:
            self.ring()

    def of(self, pods: list[Object]) -> dict[str, int]:
        """Return the waiting pods, and forget those that no longer exist."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        for known in (self.waiting, self._asked, self._told):
            for uid in {*known} - uids:
                known.pop(uid, None)
        return dict(self.waiting)

    def answer(self, pod: Object, query: str) -> tuple[int, str] | None:
        """Return the answer to the sidecar of a pod; None if it must wait."""
        query = query[:100]
        values = dict(parse_qsl(query, keep_blank_values=True))
        text = values.get("after", values.get("attempt", ""))
        number = int(text) if text.isdecimal() else None
        after = number if "after" in values else None
        uid = pod["metadata"]["uid"]
        if after is None:
            self.waiting.pop(uid, None)
        elif self.waiting.get(uid) != after:
            self.waiting[uid] = after
            self._ask()
        if not self._is_read(uid, query):
            return None
        if number is None:
            return HTTPStatus.OK, f"is {self._attempt}\n"
        if self._in_place and self._phase == "Stopping":
            return (HTTPStatus.OK, "restart\n") if self._is_to_restart(pod, after) else None
        # A lost status can have a lower number. Then the pod has failed in the current attempt.
        late = self._phase == "Running" and number < self._attempt
        if after is None or not (late or (self._phase == "Starting" and number != self._attempt)):
            return None
        self.waiting.pop(uid, None)
        return HTTPStatus.OK, f"start {self._attempt}\n"

    def _is_read(self, uid: str, query: str) -> bool:
        """Return whether the status was read since a pod sent a request."""
        asked, reads = self._asked.get(uid, ("", 0))
        if asked != query:
            self._asked[uid] = (query, self._reads)
            self._ask()
        return asked == query and reads < self._reads

    def _is_to_restart(self, pod: Object, after: int | None) -> bool:
        """Return whether a pod must restart to stop the gang.

        A sidecar that has restarted alone is told once, because the observed pod may be older than
        its next request.
        """
        uid = pod["metadata"]["uid"]
        if after is None:
            return True
        if not is_alone(pod) or self._told.get(uid) == self._attempt:
            return False
        self._told[uid] = self._attempt
        return True
