"""Ports on the nodes for replicas with host networking, the same in every render.

Two pods on one node cannot listen on the same port. So, as in KubeDL, each replica has its own
port (pkg/job_controller/hostnetwork.go). KubeDL picks it at random; mlgen derives it from the
names.
"""

from mlgen.jobfile.model import HostPorts, TrainingJob


class Allocation:
    """Assigns ports on the nodes to the replicas of one job; no port is assigned twice."""

    def __init__(self, job: TrainingJob) -> None:
        self.range = job.network.host_ports or HostPorts()
        self._prefix = f"{job.namespace or ''}/{job.name}"
        self._ports: dict[tuple[str, int, str], int] = {}
        self._taken: set[int] = set()

    def port(self, role: str, index: int, name: str) -> int:
        """Return the port on the node for one port of a replica; each call returns the same.

        Raises:
            IndexError: the range has no port left.
        """
        key = (role, index, name)
        if key not in self._ports:
            self._ports[key] = self._free_port(f"{self._prefix}/{role}/{index}/{name}")
            self._taken.add(self._ports[key])
        return self._ports[key]

    def _free_port(self, text: str) -> int:
        """Return the first free port at or after the one that the hash of a text gives."""
        from hashlib import sha256  # imported late: it loads OpenSSL, and few jobs need it

        base, size = self.range.base, self.range.size
        if len(self._taken) == size:
            raise IndexError(size)
        start = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
        ports = (base + (start + step) % size for step in range(size))
        return next(port for port in ports if port not in self._taken)
