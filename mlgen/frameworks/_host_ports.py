"""A port of the node for each replica, the same in every render.

On a node's network two pods cannot have the same port, so, as KubeDL does, each replica has its
own (pkg/job_controller/hostnetwork.go). KubeDL draws lots; here the port follows from the names.
"""

from mlgen.jobfile.model import HostPorts, TrainingJob

NODE_PORTS = range(30000, 32768)
"""Of Services: https://kubernetes.io/docs/concepts/services-networking/service/#nodeport."""

EPHEMERAL_PORTS = range(32768, 61000)
"""From which Linux takes the port of a connection: net.ipv4.ip_local_port_range, see ip(7)."""


class Allocation:
    """Hands out the ports of one job; the same question has the same answer."""

    def __init__(self, job: TrainingJob) -> None:
        self.range = job.network.host_ports or HostPorts()
        self._before = f"{job.namespace or ''}/{job.name}"
        self._given: dict[tuple[str, int, str], int] = {}
        self._taken: set[int] = set()

    def port(self, role: str, index: int, name: str) -> int:
        """Return the port on the node of one port of a replica.

        Raises:
            IndexError: the range has no port left.
        """
        key = (role, index, name)
        if key not in self._given:
            self._given[key] = self._free(f"{self._before}/{role}/{index}/{name}")
            self._taken.add(self._given[key])
        return self._given[key]

    def _free(self, text: str) -> int:
        from hashlib import sha256  # it brings OpenSSL, which few jobs need

        base, size = self.range.base, self.range.size
        if len(self._taken) == size:
            raise IndexError(size)
        start = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
        ports = (base + (start + step) % size for step in range(size))
        return next(port for port in ports if port not in self._taken)
