"""Whom a role waits for: the peers that are not there yet, by their pods.

The init container that waits says the same in its log, from the pod's own view of DNS.
"""

from mlgen.live.replicas import own_indexes, pod_index
from mlgen.live.snapshot import Snapshot
from mlgen.runtime.cluster import condition, is_deleted
from mlgen.topology import Role, Wait

MAX_PEERS = 3
"""The number of missing peers that are named."""


class Peers:
    """The replicas that have an address, and those that are ready, by role."""

    def __init__(self, snapshot: Snapshot) -> None:
        own = own_indexes(snapshot.rendered)
        self._named: set[tuple[str, int]] = set()
        self._ready: set[tuple[str, int]] = set()
        for item, pod in snapshot.pods:
            key = (item.role, own.get(item.name, pod_index(pod)))
            if pod["status"].get("podIP") and not is_deleted(pod):
                self._named.add(key)
                if condition(pod, "Ready"):
                    self._ready.add(key)

    def missing(self, wait: Wait) -> list[tuple[str, int]]:
        """Return the replicas that a wait waits for and that have no address, or are not ready."""
        there = self._ready if wait.started else self._named
        return [replica for replica in awaited(wait) if replica not in there]


def awaited(wait: Wait) -> list[tuple[str, int]]:
    """Return the replicas that a wait waits for: their roles and indexes."""
    first = wait.hosts.first
    return [(wait.role, index) for index in range(first, first + wait.hosts.count)]


def waits_for(role: Role, peers: Peers) -> str:
    """Return whom the replicas of a role wait for, in a line."""
    if not role.waits:  # of pods that an earlier version of mlgen has rendered
        return "waits for its peers, as its container wait-for-peers logs"
    total = len({replica for wait in role.waits for replica in awaited(wait)})
    missing = list(dict.fromkeys(each for wait in role.waits for each in peers.missing(wait)))
    if not missing:
        # They exist; the name spreads through DNS, or nothing listens on the port yet.
        names = dict.fromkeys(_port(wait) for wait in role.waits)
        return f"waits for {', '.join(names)}, whose pods exist"
    shown = ", ".join(f"{name}-{index}" for name, index in missing[:MAX_PEERS])
    more = f" and {len(missing) - MAX_PEERS} more" if len(missing) > MAX_PEERS else ""
    return f"waits for {len(missing)} of {total} peers: {shown}{more}"


def _port(wait: Wait) -> str:
    return wait.role if wait.port is None else f"port {wait.port} of {wait.role}"
