"""What the frameworks have in common: the user's words on restart, waiting, success and ranks.

A framework says what it would do; the functions here let the job file have the last word, and
collect what does not make sense.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypedDict

from mlgen.frameworks import _rules
from mlgen.frameworks._host_ports import Allocation
from mlgen.jobfile.model import RoleSpec, TrainingJob, WaitFor
from mlgen.kubernetes.limits import overlong
from mlgen.problems import Collector, Problem, did_you_mean
from mlgen.topology import (
    INDEX,
    PEERS,
    Env,
    Helper,
    Hosts,
    Mount,
    Right,
    Role,
    Success,
    Topology,
    Until,
    Wait,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

FIRST = Success(indexes="0")
ANY = Success(count=1)


class RoleFields(TypedDict, total=False):
    """Fields of a `Role` that a framework may set."""

    replicas: int
    index: int | None
    decides: bool
    tolerates_failure: bool
    env: Env
    command: tuple[str, ...]
    args: tuple[str, ...]
    waits: tuple[Wait, ...]
    helpers: tuple[Helper, ...]
    mounts: tuple[Mount, ...]
    rights: tuple[Right, ...]
    bare_name: bool
    labels: Mapping[str, str]
    workload: str | None


Viewer = tuple[str, int] | None
"""The replica through whose eyes an address is seen, by role and index; None: any of its role."""


def config(value: Mapping[str, Any]) -> str:
    """Return a variable such as TF_CONFIG: JSON without spaces, in which an index is a number."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace(f'"index":"{INDEX}"', f'"index":{INDEX}')


@dataclass
class Planner:
    """A topology in the making; collects problems, so that all of them are told at once.

    Attributes:
        job: the job.
        ports: where the replicas of a role listen, if the job file does not say, by role.
        more_ports: their further ports by name, by role.
    """

    job: TrainingJob
    ports: Mapping[str, int] = field(default_factory=dict)
    more_ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    roles: list[Role] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    collector: Collector = field(default_factory=Collector)
    host_ports: Allocation = field(init=False)

    def __post_init__(self) -> None:
        self.host_ports = Allocation(self.job)

    def problem(
        self, path: tuple[str, ...], message: str, hint: str = "", *, warning: bool = False
    ) -> None:
        """Note that a combination makes no sense, or, as a warning, may surprise."""
        self.collector.add(Problem(("spec", *path), message, "combination", hint, warning))

    def require(self, *names: str) -> None:
        """Note each of these roles that the job lacks."""
        for name in names:
            if name not in self.job.roles:
                message = f"{self.job.framework} needs the role {name}"
                self.collector.add(
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
        """Return the host names of a role's replicas: `<job>-<role>-<i>.<job>`.

        A pod has that name by its `hostname` and `subdomain` and the job's headless Service; the
        search list of the pod's resolver adds the namespace and the cluster's domain:
        https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/

        Args:
            spec: the role.
            count: how many replicas; all by default.
            first: the index of the first of them.
        """
        job, domain = self.job, self.job.network.cluster_domain
        after = f".{job.namespace}.svc.{domain}" if domain else ""
        within = "" if self._alone(spec) else f".{job.name}"
        count = spec.replicas if count is None else count
        return Hosts(f"{job.name}-{spec.name}-", count, f"{within}{after}", first)

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
            hint = "raise size" if self.job.network.host_ports else "give a larger size"
            problem = Problem(("spec", "network", "hostPorts"), message, "combination", hint)
            if problem not in self.collector.problems:
                self.collector.add(problem)
            return 0

    def add(
        self,
        spec: RoleSpec,
        *,
        serves: bool = False,
        restart: str | None = None,
        success: Success | None = None,
        each: Callable[[Viewer], RoleFields] = lambda _viewer: {},
        **fields: "Unpack[RoleFields]",
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
            **fields: of the `Role`; `waits` is what it waits for where the user does not say.
        """
        replicas = fields.get("replicas", spec.replicas)
        succeeds = self._success(spec, replicas, success) if fields.get("decides") else None
        policy = self._restart_policy(spec, restart, serves=serves)
        role = Role(
            name=spec.name,
            replicas=spec.replicas,
            spec=spec,
            serves=policy == "Always",
            restart=policy,
            success=succeeds,
            port=self.listens(spec),
            more_ports=self.more_ports.get(spec.name, {}),
        )
        role = replace(role, **fields)
        if not self._alone(spec):
            self.roles.append(replace(role, **each(None)))
            return
        first = role.index or 0
        for index in range(first, first + replicas):
            if not self.too_long:
                self.roles.append(self._replica(replace(role, **each((spec.name, index))), index))

    def _restart_policy(self, spec: RoleSpec, restart: str | None, *, serves: bool) -> str:
        """Return what happens to a failed replica; a role that ends by itself is not restarted."""
        policy = spec.restart_policy or restart or ("Always" if serves else "Never")
        if policy != "Always" or serves:
            return policy
        self.problem(
            ("roles", spec.name, "restartPolicy"),
            f"{spec.name} ends by itself, and a Job does not start again what has succeeded",
            "it is rendered as OnFailure",
            warning=True,
        )
        return "OnFailure"

    @property
    def too_long(self) -> bool:
        """The last role has a variable that no process can be given, so the job is refused.

        Where each replica has one that names all others, all of them would fill the memory first.
        """
        return bool(self.roles and self._overlong(self.roles[-1]))

    def _overlong(self, role: Role) -> list[Problem]:
        path = ("spec", "roles", role.spec.name)
        texts = ((name, text) for name, text in role.env.items() if isinstance(text, str))
        return [p for name, text in texts for p in overlong(path, name, text)]

    def _replica(self, role: Role, index: int) -> Role:
        """Return one replica on the network of its node; of those that decide, the first does."""
        spec = role.spec
        ports = {name: self._host_port(spec, index, name) for name in self._constant(spec)}
        decides = role.decides and index == 0
        return replace(role, replicas=1, index=index, decides=decides, host_ports=ports)

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
            hint = did_you_mean(role, able) or f"possible are: {', '.join(able) or 'none'}"
            self.problem(("successPolicy", "role"), f'"{role}" cannot decide', hint)
            return default
        return role

    def topology(self) -> Topology:
        """Return the finished topology.

        Raises:
            MlgenError: with every problem that was noted.
        """
        self.roles = [self._with_waits(role) for role in self.roles]
        self._check_waits()
        topology = Topology(self.job, tuple(self.roles), self._is_supervised(), self.files)
        self.collector.extend(_rules.problems(topology))
        for role in self.roles:
            self.collector.extend(self._overlong(role))
        self.collector.raise_errors()
        return replace(topology, warnings=self.collector.problems)

    def _is_supervised(self) -> bool:
        """Return whether a supervisor has anything to free when training has ended."""
        cleans = self.job.run_policy.clean_pod_policy != "None"
        return self.job.supervisor and cleans and not all(role.decides for role in self.roles)

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
            hint = did_you_mean(wanted.role, known) or f"roles are: {', '.join(known)}"
            self.problem(path, f'there is no role "{wanted.role}" to wait for', hint)
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
            hint = "break the circle with until: name, or with waitFor: []"
            path = ("spec", "roles", circle[0], "waitFor")
            self.collector.add(Problem(path, message, "wait-cycle", hint))
