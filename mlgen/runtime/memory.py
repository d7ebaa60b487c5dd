"""In-memory data of a supervisor: the pods that a watch reports, and the attempted changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mlgen.runtime.answers import Event, Object, is_older
from mlgen.runtime.cluster import JOB, is_on_host, remember, senders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlgen.runtime import api
    from mlgen.runtime.decide import Action

MAX_CHANGES = 6
"""The number of attempts of a change, with pauses of 2, 4, 8 … seconds."""


class Pods:
    """The pods of a job: from the last list, updated by a watch."""

    def __init__(self, client: api.Api, job: str) -> None:
        self._client = client
        self._selector = f"{JOB}={job}"
        self._lock = threading.Lock()
        self._pods: dict[str, Object] = {}
        self._version = ""
        """The resource version of the last list. Older events, which can be late, do not count."""
        self._changes: list[Event] = []
        """Events received since the last list or read, to apply after a running list."""
        self._is_told = self._is_listed = False
        self._known: dict[str, dict[str, Object]] = {}
        """Pods by their UID and by their addresses, and then by their name."""
        self.owners: frozenset[str] = frozenset()
        """The UIDs of the job's workloads. The label of a pod alone does not show its owner."""

    def sender(self, token: str, address: str) -> Object | None:
        """Return the pod that sent a request; None for a stranger.

        The token is the UID of the pod. It is random, and can be read only in the pod, or with the
        permission to read pods. Without a token, the address identifies a pod, unless the pod uses
        the address of its node. After the end of a pod, another may have its address.
        """
        with self._lock:
            named = [pod for pod in self._live(token) if pod["metadata"]["uid"] == token]
            found = named or [pod for pod in self._live(address) if not is_on_host(pod)]
            return max(
                found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None
            )

    def at(self, address: str) -> int:
        """Return the number of pods with an address."""
        with self._lock:
            return len(self._live(address))

    def _live(self, key: str) -> list[Object]:
        """Return the job's pods with a UID or an address that have not ended."""
        return [
            pod
            for pod in self._known.get(key, {}).values()
            if pod["status"]["phase"] not in ("Succeeded", "Failed")
            if any(owner["uid"] in self.owners for owner in pod["metadata"]["ownerReferences"])
        ]

    def hear(self, event: Event) -> None:
        """Apply an event from `Api.watch`."""
        with self._lock:
            self._is_told = True
            self._changes.append(event)
            # Before the first list, the clock may be wrong. That list is newer than this event.
            if self._is_listed:
                self._apply(event)

    def told(self) -> list[Object] | None:
        """Return the pods from the watch, which may be stale; None before its first event."""
        with self._lock:
            self._changes.clear()
            return list(self._pods.values()) if self._is_told else None

    def listed(self) -> list[Object]:
        """List the pods and return them."""
        with self._lock:
            self._changes.clear()
        listed = self._client.list("Pod", labelSelector=self._selector)
        with self._lock:
            self._is_listed = True
            self._apply(listed)
            for each in self._changes:
                self._apply(each)
        return listed.objects

    def _apply(self, event: Event) -> None:
        change, pods, version = event
        if change == "LISTED":
            self._version = version
        elif is_older(version, self._version):
            return
        named, now = {pod["metadata"]["name"]: pod for pod in pods}, self._client.clock.now()
        for name, pod in named.items():
            before = self._pods.get(name)
            is_same = before and before["metadata"]["uid"] == pod["metadata"]["uid"]
            remember(pod, before if is_same else None, now)
        if change == "LISTED":
            self._pods, self._known = {}, {}
        for name in named.keys() & self._pods:
            self._forget(self._pods.pop(name))
        for name, pod in named.items() if change != "DELETED" else ():
            self._pods[name] = pod
            for key in senders(pod):
                self._known.setdefault(key, {})[name] = pod

    def _forget(self, pod: Object) -> None:
        """Forget that a pod may send requests."""
        for key in senders(pod):
            self._known[key].pop(pod["metadata"]["name"])
            if not self._known[key]:
                del self._known[key]


class Changes:
    """Counts how often each change was tried in one state of the job, to limit retries."""

    def __init__(self) -> None:
        self._state: str | None = None
        self._tries: dict[str, tuple[int, float, str]] = {}

    def _of(self, data: Mapping[str, str]) -> dict[str, tuple[int, float, str]]:
        """Return the number of attempts of each change, the time of the next, and the error."""
        if self._state != data.get("state"):
            self._state, self._tries = data.get("state"), {}
        return self._tries

    def wait(self, data: Mapping[str, str], action: Action, now: float) -> float:
        """Return the seconds until the next attempt of a change."""
        _, due, _ = self._of(data).get(f"{action.text} {action.name}", (0, 0.0, ""))
        return min(max(due - now, 0.0), 2.0**MAX_CHANGES)

    def add(self, action: Action, now: float, problem: str) -> None:
        """Count an attempt of a change, with the API server's error or ""."""
        key = f"{action.text} {action.name}"
        tries = self._tries.get(key, (0, 0.0, ""))[0] + 1
        self._tries[key] = (tries, now + 2.0**tries, problem)

    def refused(self, data: Mapping[str, str]) -> dict[str, str]:
        """Return why workloads cannot be changed, by name."""
        again = "another client keeps reverting the change"
        again += " (with kubectl apply, use --server-side)"
        tries = self._of(data).items()
        return {
            key.rpartition(" ")[2]: problem or again
            for key, (count, _, problem) in tries
            if count >= MAX_CHANGES
        }
