"""What the frameworks have in common: the user's words on restart, waiting, success and ranks.

A framework says what it would do; the functions here let the job file have the last word, and
collect what does not make sense.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen import policies
from mlgen.hostports import Allocation
from mlgen.job import Job, RoleSpec, WaitFor
from mlgen.problems import MlgenError, Problem, did_you_mean
from mlgen.topology import (
    INDEX,
    PEERS,
    Hosts,
    Role,
    Success,
    Topology,
    Until,
    Wait,
    hosts,
)

FIRST = Success(indexes="0")
ANY = Success(count=1)


Viewer = tuple[str, int] | None
"""The replica through whose eyes an address is seen, by role and index; None: any of its role."""


def config(value: Mapping[str, Any]) -> str:
    """Return a variable such as TF_CONFIG: JSON without spaces, in which an index is a number."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace(f'"index":"{INDEX}"', f'"index":{INDEX}')


@dataclass
class Plan:
    """A topology in the making; collects problems, so that all of them are told at once.

    Attributes:
        job: the job.
        ports: where the replicas of a role listen, if the job file does not say, by role.
        more_ports: their further ports by name, by role.
    """

    job: Job
    ports: Mapping[str, int] = field(default_factory=dict)
    more_ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    roles: list[Role] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    host_ports: Allocation = field(init=False)

    def __post_init__(self) -> None:
        self.host_ports = Allocation(self.job)

    def problem(
        self, path: tuple[str, ...], message: str, cure: str = "", *, warning: bool = False
    ) -> None:
        """Note that a combination makes no sense, or, as a warning, may surprise."""
        self.problems.append(Problem(("spec", *path), message, "combination", cure, warning))

    def require(self, *names: str) -> None:
        """Note each of these roles that the job lacks."""
        for name in names:
            if name not in self.job.roles:
                message = f"{self.job.framework} needs the role {name}"
                self.problems.append(
                    Problem(("spec", "roles"), message, "missing-role", f"add {name}: {{}}")
                )

    def single(self, *names: str) -> None:
        """Note each of these roles that has more than one replica."""
        for name in names:
            if name in self.job.roles and self.job.roles[name].replicas > 1:
                self.problem(
                    ("roles", name, "replicas"),
                    f"there can be one {name} only",
                    "leave replicas out",
                )

    def between(self, name: str, least: int, most: int) -> None:
        """Note it where an elastic role does not start with a number of replicas that it allows."""
        replicas = self.job.roles[name].replicas
        if not least <= replicas <= most:
            self.problem(
                ("roles", name, "replicas"),
                f"{replicas} is not between minReplicas {least} and maxReplicas {most}",
                "change one of the three",
            )

    def listens(self, spec: RoleSpec) -> int | None:
        """Return the port on which peers reach the replicas of a role."""
        return spec.port or self.ports.get(spec.name)

    def hosts(self, spec: RoleSpec, count: int | None = None, first: int = 0) -> Hosts:
        """Return the names of a role's replicas, or of as many as are asked for."""
        count = spec.replicas if count is None else count
        return hosts(self.job, spec.name, count, first, alone=self._alone(spec))

    def first(self, spec: RoleSpec) -> str:
        """Return the name of a role's first replica."""
        return next(iter(self.hosts(spec, 1)))

    def port(self, spec: RoleSpec, index: int = 0, viewer: Viewer = None, name: str = PEERS) -> int:
        """Return the port of one replica: the constant one, but to itself that on its node.

        Args:
            spec: the role of the replica.
            index: the replica.
            viewer: who asks.
            name: which of its ports.
        """
        if viewer == (spec.name, index) and self._alone(spec):
            return self._host_port(spec, index, name)
        return self._constant(spec)[name]

    def _constant(self, spec: RoleSpec) -> dict[str, int]:
        """The ports of a role by name, as all but a replica itself see them."""
        port = self.listens(spec)
        return ({} if port is None else {PEERS: port}) | dict(self.more_ports.get(spec.name, {}))

    def addresses(self, spec: RoleSpec, viewer: Viewer = None) -> list[str]:
        """Return `host:port` of each replica of a role, as the viewer sees them."""
        found = self.hosts(spec)
        return [f"{host}:{self.port(spec, i, viewer)}" for i, host in enumerate(found)]

    def own_port(self, spec: RoleSpec, viewer: Viewer) -> int:
        """Return the port on which any replica of a role listens, as it sees itself."""
        return self.port(spec, viewer[1] if viewer else 0, viewer)

    def own_address(self, spec: RoleSpec, viewer: Viewer) -> str:
        """Return `host:port` of any replica of a role, as it sees itself."""
        name = self.hosts(spec, 1)
        return f"{name.before}{INDEX}{name.after}:{self.own_port(spec, viewer)}"

    def wait(self, spec: RoleSpec, *, until: Until = "port", count: int | None = None) -> Wait:
        """Wait for all of a role's replicas, or for the first so many."""
        port = self.listens(spec) if until == "port" else None
        return Wait(spec.name, self.hosts(spec, count), port)

    def _alone(self, spec: RoleSpec) -> bool:
        """On the network of their nodes, replicas with a port differ, so each is one of its own."""
        return self.job.network.on_host and self.listens(spec) is not None

    def _host_port(self, spec: RoleSpec, index: int, name: str) -> int:
        try:
            return self.host_ports.port(spec.name, index, name)
        except IndexError:
            size = self.host_ports.range.size
            message = f"{size} ports are fewer than the replicas need"
            cure = "raise size" if self.job.network.host_ports else "give a larger size"
            problem = Problem(("spec", "network", "hostPorts"), message, "combination", cure)
            if problem not in self.problems:
                self.problems.append(problem)
            return 0

    def add(
        self,
        spec: RoleSpec,
        *,
        serves: bool = False,
        restart: str | None = None,
        success: Success | None = None,
        each: Callable[[Viewer], dict[str, Any]] = lambda _viewer: {},
        **fields: Any,
    ) -> None:
        """Add a role; what the job file says wins over what the framework says.

        That holds for restartPolicy, successPolicy, waitFor and port. On the network of the
        nodes, each replica becomes a role of one, as Kubernetes knows no port by index.

        Args:
            spec: the role as the user gave it.
            serves: it works for others and does not end by itself; it is then restarted for ever
                unless the user says otherwise.
            restart: what happens to a failed replica where the user does not say.
            success: when it has succeeded, if it decides, where the user does not say.
            each: further fields, by who sees what is in them.
            **fields: of `Role`; name and replicas are the spec's unless given, and `waits` is what
                it waits for where the user does not say.
        """
        given: dict[str, Any] = {"name": spec.name, "replicas": spec.replicas} | fields
        given |= {"port": self.listens(spec), "waits": tuple(fields.get("waits", ()))}
        given["more_ports"] = self.more_ports.get(spec.name, {})
        if fields.get("decides"):
            given["success"] = self._success(spec, given["replicas"], success)
        policy = spec.restart_policy or restart or ("Always" if serves else "Never")
        if policy == "Always" and not serves:
            self.problem(
                ("roles", spec.name, "restartPolicy"),
                f"{spec.name} ends by itself, and a Job does not start again what has succeeded",
                "it is rendered as OnFailure",
                warning=True,
            )
            policy = "OnFailure"
        given |= {"spec": spec, "serves": policy == "Always", "restart": policy}
        if not self._alone(spec):
            self.roles.append(Role(**given | each(None)))
            return
        first = given.get("index") or 0
        for index in range(first, first + given["replicas"]):
            if not self.too_long:
                self.roles.append(self._replica(spec, index, given | each((spec.name, index))))

    @property
    def too_long(self) -> bool:
        """The last role has a variable that no process can be given, so the job is refused.

        Where each replica has one that names all others, all of them would fill the memory first.
        """
        return bool(self.roles and self._overlong(self.roles[-1]))

    def _overlong(self, role: Role) -> list[Problem]:
        path = ("spec", "roles", role.spec.name)
        texts = ((name, text) for name, text in role.env.items() if isinstance(text, str))
        return [p for name, text in texts for p in policies.overlong(path, name, text)]

    def _replica(self, spec: RoleSpec, index: int, given: dict[str, Any]) -> Role:
        """One replica on the network of its node; of those that decide, the first does."""
        own = {
            "replicas": 1,
            "index": index,
            "decides": given.get("decides", False) and index == 0,
            "host_ports": {n: self._host_port(spec, index, n) for n in self._constant(spec)},
        }
        return Role(**given | own)

    def _success(self, spec: RoleSpec, replicas: int, default: Success | None) -> Success | None:
        """When so many replicas that decide have succeeded: as the user says, or by default."""
        wanted = self.job.success_policy.replicas
        if wanted is None:
            return default
        if self._alone(spec) and replicas > 1 and wanted != "First":
            self.problem(
                ("successPolicy", "replicas"),
                "on the network of the nodes each replica is a Job of its own, and one Job decides",
                "write First, or leave it out",
            )
        if wanted == "All":
            return None
        if wanted == "First":
            return FIRST
        if int(wanted) > replicas:
            self.problem(
                ("successPolicy", "replicas"),
                f"{wanted} replicas cannot succeed where {replicas} decide",
                f"write at most {replicas}",
            )
        return Success(count=int(wanted))

    def decider(self, default: str | None, able: Iterable[str]) -> str | None:
        """Return the role whose end is the end of training: the user's choice, or the default."""
        role = self.job.success_policy.role
        if role is None:
            return default
        able = list(able)
        if role not in able:
            cure = did_you_mean(role, able) or f"possible are: {', '.join(able) or 'none'}"
            self.problem(("successPolicy", "role"), f'"{role}" cannot decide', cure)
            return default
        return role

    def topology(self) -> Topology:
        """Return the finished topology.

        Raises:
            MlgenError: with every problem that was noted.
        """
        self.roles = [self._with_waits(role) for role in self.roles]
        self._check_waits()
        self.problems += policies.problems(self.job, self.roles)
        self.problems += [problem for role in self.roles for problem in self._overlong(role)]
        if any(not problem.warning for problem in self.problems):
            raise MlgenError(self.problems)
        return Topology(self.job, tuple(self.roles), self.files, tuple(self.problems))

    def _with_waits(self, role: Role) -> Role:
        """A role that waits for what the user says, now that the ports of all roles are known."""
        if role.spec.wait_for is None:
            return role
        waits: list[Wait] = []
        for wanted in role.spec.wait_for:
            waits.extend(self._resolved(role, wanted))
        return replace(role, waits=tuple(waits))

    def _resolved(self, role: Role, wanted: WaitFor) -> Iterable[Wait]:
        path = ("roles", role.spec.name, "waitFor")
        peers = [other for other in self.roles if wanted.role in (other.name, other.spec.name)]
        if not peers:
            known = sorted({other.name for other in self.roles})
            cure = did_you_mean(wanted.role, known) or f"roles are: {', '.join(known)}"
            self.problem(path, f'there is no role "{wanted.role}" to wait for', cure)
        for name in dict.fromkeys(peer.name for peer in peers):
            same = [peer for peer in peers if peer.name == name]
            port = same[0].port if wanted.until == "port" else None
            if wanted.until == "port" and port is None:
                message = f"{name} has no port to wait for"
                self.problem(path, message, f"give {name} a port, or write until: name")
            count, first = sum(peer.replicas for peer in same), same[0].index or 0
            yield Wait(name, self.hosts(replace(same[0].spec, name=name), count, first), port)

    def _check_waits(self) -> None:
        """A role that waits for a port waits until that role has started: so no circles.

        Waiting for a name is no part of this: it only needs a pod that has been placed. Nor is
        a role that waits for its own first replica, which itself does not wait.
        """
        graph: dict[str, set[str]] = {}
        for role in self.roles:
            ports = {w.role for w in role.waits if w.port is not None}
            if role.name in ports and all(w.hosts.count == 1 for w in role.waits):
                ports.discard(role.name)
            graph.setdefault(role.name, set()).update(ports)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = list(reversed(error.args[1]))
            message = f"these roles wait for each other's ports: {' → '.join(circle)}"
            cure = "break the circle with until: name, or with waitFor: []"
            path = ("spec", "roles", circle[0], "waitFor")
            self.problems.append(Problem(path, message, "wait-cycle", cure))
