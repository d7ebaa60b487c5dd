"""`Planner`, which builds a `Topology` from a `TrainingJob` for a framework.

A framework passes its defaults: restart policy, waits, success and ports. `Planner` applies the
job file's overrides for all frameworks, and collects contradictions as problems.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

from mlgen.contradictions import contradictions
from mlgen.contradictions.lifecycle import unknown_role
from mlgen.frameworks import _lifecycle
from mlgen.frameworks._capacity import HostPortAllocation, Size
from mlgen.frameworks._lifecycle import with_requests
from mlgen.jobfile.model import RoleSpec, TrainingJob, WaitFor, has_devices
from mlgen.kubernetes.names import TEXTS, host_pattern, indexes, names_service
from mlgen.kubernetes.values import strings
from mlgen.launch import launch_problems
from mlgen.launch.line import rendezvous_port
from mlgen.launch.role import variables_of
from mlgen.problems import Code, Collector, ValuePath, bounded, did_you_mean, error, warning
from mlgen.resources import table
from mlgen.topology import (
    INDEX,
    PEERS,
    Hosts,
    Order,
    PodField,
    Role,
    Success,
    Topology,
    Until,
    Wait,
)

Replica = tuple[int, int]
"""The position of a `Role` in the topology, and the index of one of its replicas."""


SSH_ALIAS = "(?m)^Host .*"
"""A line of an ssh configuration that defines an alias of a host."""


def _with_aliases(job: TrainingJob, roles: Sequence[Role]) -> list[Role]:
    """Return the roles, with an alias for each bare replica name in the job file.

    Operators create a Service for each replica: `<job>-<role>-<i>`. So programs dial that bare
    name, with or without the namespace and the cluster's domain. mlgen renders Services only for
    bare names that are used. The address `<job>-<role>-<i>.<job>` needs none.
    """
    plain_names = {job.name, job.written_name}
    texts = dict.fromkeys(text for spec in job.roles.values() for text in _texts(spec))
    texts_with_name = [text for text in texts if any(f"{name}-" in text for name in plain_names)]
    if not texts_with_name:  # then the pattern need not be compiled
        return list(roles)
    replicas = _replicas(job, roles)
    role_names = {f"{name}-{role}": role for name in plain_names for role in replicas}
    pattern = host_pattern(role_names)
    aliases: dict[int, dict[str, int]] = {}
    for text in texts_with_name:
        for match in pattern.finditer(text):
            role = role_names[match["name"]]
            subdomains = (*plain_names, job.subdomain, job.network.subdomain or job.name)
            if not all(names_service(match, each, job.namespace) for each in subdomains):
                continue
            for index in indexes(match["index"], len(replicas[role])):
                if index < len(replicas[role]):
                    position, replica = replicas[role][index]
                    aliases.setdefault(position, {})[f"{job.name}-{role}-{index}"] = replica
    return [
        replace(role, aliases={**role.aliases, **aliases[position]})
        if position in aliases
        else role
        for position, role in enumerate(roles)
    ]


def _replicas(job: TrainingJob, roles: Sequence[Role]) -> dict[str, list[Replica]]:
    """Return the replicas of each role, by role name in the topology and in the job file."""
    replicas: dict[str, list[Replica]] = {}
    for position, role in enumerate(roles):
        count = role.max_replicas or role.replicas
        first = role.index or 0
        places = ((position, index) for index in range(first, first + count))
        replicas.setdefault(role.name, []).extend(places)
    for role in {role.name: role for role in roles if role.merged}.values():
        first = 0
        for part in role.merged:
            last = first + job.roles[part].replicas
            replicas[part] = replicas[role.name][first:last]
            first = last
    return replicas


def _texts(spec: RoleSpec) -> Iterator[str]:
    """Yield the user's texts that the pods of a role read: commands, variables and files."""
    yield from (*spec.command, *spec.args)
    yield from strings(spec.env)
    yield from (re.sub(SSH_ALIAS, "", text) for text in spec.file_texts)
    for template in spec.templates:
        yield from strings(template, TEXTS)


RoleFields = Mapping[str, Any]
"""Fields of a `Role` that a framework sets in `Planner.add`."""


Viewer = tuple[str, int] | None
"""The replica that uses an address, as role and index; None for all replicas of the role.

Replicas see different addresses only with host networking: a replica listens on a port of its
node, while its peers reach it on the port of its Service.
"""


def config(value: Mapping[str, Any]) -> str:
    """Return the value of a variable such as TF_CONFIG: compact JSON with the index as a number."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace(f'"index":"{INDEX}"', f'"index":{INDEX}')


STATES = ("Complete", "Ready")
"""The values of `until` that become an `Order`. The others become waits inside the pods."""


def _with_ready_names(roles: Sequence[Role]) -> list[Role]:
    """Return the roles, with the Service names that other roles use to wait for their start."""
    ready, changed = {}, []
    for role in roles:
        for wait in role.waits:
            if wait.started:
                ready[wait.role] = {str(wait.hosts): 0}
    for role in roles:
        is_first = role.name in ready and role.index in (None, 0)
        changed.append(replace(role, ready=ready[role.name]) if is_first else role)
    return changed


def _without_visible_gpus(roles: Sequence[Role]) -> list[Role]:
    """Return the roles, of which those without GPUs get a variable that hides the GPUs of others.

    On nodes whose default container runtime is nvidia, an image with NVIDIA_VISIBLE_DEVICES=all,
    such as the images of CUDA, otherwise sees all GPUs of its node, which other pods use:
    https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
    So a role gets it only with the image of a role with GPUs. A value of the user remains.
    """
    hide = variables("no-gpu")
    with_gpus, changed = set(), []
    for role in roles:
        if role.spec.gpus:
            with_gpus.add(role.spec.patched("image", role.spec.image))
    for role in roles:
        spec = role.spec
        is_same = not spec.gpus and spec.patched("image", spec.image) in with_gpus
        if is_same and not has_devices(spec) and not hide.keys() & variables_of(spec):
            role = replace(role, env={**role.env, **hide})  # noqa: PLW2901
        changed.append(role)
    return changed


def variables(name: str, **values: object) -> dict[str, str | PodField]:
    """Return the environment variables of a row of `schemas/frameworks/variables.json`.

    They have the order of the row. A variable is a pod field, such as `status.podIP`, or a text
    with placeholders for values. `{index}` is the index of the replica.
    """
    env: dict[str, str | PodField] = {}
    for variable, text in table("frameworks/variables")[name].items():
        if isinstance(text, dict):
            env[variable] = PodField(text["field"])
        elif variable != "$comment":
            env[variable] = text.format(index=INDEX, **values)
    return env


class Planner:
    """Builds the topology of one job, and collects its problems to report all of them at once.

    Create it with the ports of the framework, `add` each role, and return `topology()`.

    Attributes:
        job: the job file.
        ports: the default port on which peers reach a role's replicas, by role.
        more_ports: additional ports of a role's replicas: by role, then by port name.
        facts: further fields of the topology.
        roles: the roles added so far.
        minimums: the minimum number of replicas of an elastic role, by role.
        files: the framework's files in the job's ConfigMap: text by name.
        only_ready: True if the names of replicas resolve only while they are ready.
        collector: the problems reported so far.
        own_jobs: the roles whose replicas have Jobs of their own, except on the host network.
        size: the size of the roles added so far.
    """

    def __init__(
        self,
        job: TrainingJob,
        ports: Mapping[str, int] | None = None,
        more_ports: Mapping[str, Mapping[str, int]] | None = None,
        **facts: Any,
    ) -> None:
        self.job, self.facts = job, facts
        self.ports = ports or {}
        self.more_ports = more_ports or {}
        self.roles: list[Role] = []
        self.minimums: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self.only_ready = False
        self.own_jobs: tuple[str, ...] = ()
        self.collector = Collector()
        self.size = Size(job)

    @cached_property
    def host_ports(self) -> HostPortAllocation:
        """The ports on the nodes, for host networking."""
        return HostPortAllocation(self.job)

    def report(
        self,
        path: ValuePath,
        message: str,
        hint: str,
        *,
        code: Code = "combination",
        warn: bool = False,
    ) -> None:
        """Report an error of the job at a path below `spec`, or a warning if `warn`."""
        self.collector.add((warning if warn else error)(path, message, hint, code))

    def require(self, *names: str) -> None:
        """Report each of these roles that the job lacks."""
        for name in names:
            message = f"{self.job.framework} requires the role {name}"
            if name in self.job.empty_roles:
                path: ValuePath = ("roles", name, "replicas")
                message += ", but it has no replicas"
                hint = "write replicas: 1, or runPolicy.suspend: true to start the job later"
                self.report(path, message, hint, code="missing-role")
            elif name not in self.job.roles:
                self.report(("roles",), message, f"add {name}: {{}}", code="missing-role")

    def single(self, *names: str) -> None:
        """Report each of these roles that has more than one replica."""
        for name in names:
            if name in self.job.roles and self.job.roles[name].replicas > 1:
                path = ("roles", name, "replicas")
                self.report(path, f"a job can have only one {name}", "remove replicas")

    def between(self, name: str, minimum: int, maximum: int, count: int | None = None) -> None:
        """Report an elastic role whose number of replicas, or `count`, is out of its range."""
        replicas = self.job.roles[name].replicas if count is None else count
        written = {"minReplicas", "maxReplicas"} <= self.job.options.get("elasticPolicy", {}).keys()
        if written and minimum > maximum:
            message = f"minReplicas: {minimum} exceeds maxReplicas: {maximum}"
            hint = f"write minReplicas: {maximum}, maxReplicas: {minimum}"
            self.report(("options", "elasticPolicy"), message, hint)
        elif not minimum <= replicas <= maximum:
            message = f"{replicas} is not between minReplicas {minimum} and maxReplicas {maximum}"
            hint = "change replicas, minReplicas or maxReplicas"
            self.report(("roles", name, "replicas"), message, hint)

    def specs(self, *names: str) -> list[RoleSpec]:
        """Return the roles of these names that the job has."""
        return [self.job.roles[name] for name in names if name in self.job.roles]

    def peer_port(self, spec: RoleSpec) -> int | None:
        """Return the port on which peers reach a role's replicas; None if there is none."""
        return spec.port or self.ports.get(spec.name)

    def hosts(self, spec: RoleSpec, count: int | None = None, first: int = 0) -> Hosts:
        """Return the host names of a role's replicas: `<job>-<role>-<i>.<subdomain>`.

        A pod gets that name from its `hostname` and `subdomain` and the job's headless Service.
        The search list of its resolver adds the namespace and the cluster's domain:
        https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
        With host networking, each replica has a Service of its own: `<job>-<role>-<i>`.
        In a JobSet, the host name contains the index of the Job, which is 0, before the index of
        the pod: `<job>-<role>-0-<i>`, or `<job>-<role>-<i>-0-0` if each replica has its own Job.

        Args:
            spec: the role.
            count: the number of replicas; by default all of them.
            first: the index of the first replica.
        """
        job, domain = self.job, self.job.network.cluster_domain
        suffix = f".{job.namespace}.svc.{domain}" if domain else ""
        subdomain = "" if self.is_split(spec) else f".{job.subdomain}"
        count = spec.replicas if count is None else count
        before, after = f"{job.name}-{spec.name}-", f"{subdomain}{suffix}"
        if job.jobset and not self.is_split(spec):
            own = spec.name in self.own_jobs
            before, after = (before, f"-0-0{after}") if own else (f"{before}0-", after)
        return Hosts(before, count, after, first)

    def first_host(self, spec: RoleSpec) -> str:
        """Return the host name of a role's first replica."""
        return next(iter(self.hosts(spec, 1)))

    def own_name(self, spec: RoleSpec) -> Hosts:
        """Return the name that a role's first replica uses for itself, `<job>-<role>-0`.

        It needs a Service of the same name (`Role.aliases`). With a cluster domain it is the
        qualified name, which the pod's /etc/hosts also contains.
        """
        hosts = self.hosts(spec, 1)
        return hosts if self.job.network.cluster_domain else replace(hosts, after="")

    def port(self, spec: RoleSpec, index: int = 0, viewer: Viewer = None, name: str = PEERS) -> int:
        """Return a port of one replica, as the viewer sees it.

        With host networking, the replica itself sees its port on the node, and all others see the
        port of its Service.

        Args:
            spec: the role of the replica.
            index: the index of the replica.
            viewer: the replica that uses the port.
            name: the name of the port.

        Raises:
            KeyError: the role has no port of that name.
        """
        if viewer == (spec.name, index) and self.is_split(spec):
            return self._host_port(spec, index, name)
        return self._service_ports(spec)[name]

    def _service_ports(self, spec: RoleSpec) -> dict[str, int]:
        """Return the ports of a role by name, as its peers see them."""
        port = self.peer_port(spec)
        return ({} if port is None else {PEERS: port}) | dict(self.more_ports.get(spec.name, {}))

    def addresses(self, spec: RoleSpec, viewer: Viewer = None) -> list[str]:
        """Return `host:port` of each replica of a role, as the viewer sees them."""
        port = self.port(spec)
        addresses = [f"{host}:{port}" for host in self.hosts(spec)]
        if viewer and viewer[0] == spec.name:
            host = addresses[viewer[1]].removesuffix(f":{port}")
            addresses[viewer[1]] = f"{host}:{self.port(spec, viewer[1], viewer)}"
        return addresses

    def own_port(self, spec: RoleSpec, viewer: Viewer) -> int:
        """Return the port on which a replica of a role listens, as seen by the replica."""
        return self.port(spec, viewer[1] if viewer else 0, viewer)

    def own_address(self, spec: RoleSpec, viewer: Viewer) -> str:
        """Return `host:port` of a replica, as seen by the replica; its index is `INDEX`."""
        hosts = self.hosts(spec, 1)
        return f"{hosts.before}{INDEX}{hosts.after}:{self.own_port(spec, viewer)}"

    def wait(self, spec: RoleSpec, *, until: Until | None = None, count: int | None = None) -> Wait:
        """Return a wait for the first `count` replicas of a role; by default for all of them.

        The default is to wait for names. They resolve as soon as the pods have addresses, so
        replicas pull their images in parallel, and programs retry a refused connection. Wait for a
        port only if mlgen sets that port on both sides, and the program gives up too early. With
        host networking, names of Services resolve at once, so the default is to wait for ports.
        """
        if until is None:
            until = "port" if self.is_split(spec) else "name"
        port = self.peer_port(spec) if until == "port" else None
        return Wait(spec.name, self.hosts(spec, count), port)

    def waits_for_names(self, *specs: RoleSpec) -> tuple[Wait, ...]:
        """Return waits for the names of all replicas of these roles.

        () for the roles of a job on the host network, because names of Services resolve at once.
        """
        return tuple(self.wait(spec, until="name") for spec in specs if not self.is_split(spec))

    def wait_for_start(self, spec: RoleSpec) -> Wait:
        """Return a wait until a role's first replica runs.

        Use it for programs that stop retrying too early, and fail if the replica's port is probed.
        """
        return Wait(spec.name, replace(self.hosts(spec, 1), after=""), started=True)

    def is_split(self, spec: RoleSpec) -> bool:
        """Return True if each replica becomes a separate role, because its node ports differ."""
        return self.job.network.on_host and self.peer_port(spec) is not None

    def _host_port(self, spec: RoleSpec, index: int, name: str) -> int:
        """Return a replica's port on its node; 0 if no port is left, which is reported once."""
        try:
            return self.host_ports.port(spec.name, index, name)
        except IndexError:
            hint = "use a larger size" if self.job.network.host_ports else "set a larger size"
            message = f"the replicas need more than {self.host_ports.range.size} ports"
            too_few = error(("network", "hostPorts"), message, hint)
            if too_few not in self.collector.problems:
                self.collector.add(too_few)
            return 0

    def add(
        self,
        spec: RoleSpec,
        *,
        serves: bool = False,
        restart: str | None = None,
        success: Success | None = None,
        each: Callable[[Viewer], RoleFields] = lambda _viewer: {},
        **fields: Any,
    ) -> None:
        """Add a role. The job file overrides the framework's defaults.

        It overrides restartPolicy, successPolicy, waitFor and port. With host networking, each
        replica becomes a separate role, because pods of one template cannot have different ports.

        Args:
            spec: the role in the job file.
            serves: True if its replicas do not end by themselves. They are then always restarted,
                unless the job file sets another restartPolicy.
            restart: the default restart policy.
            success: the default success policy of a deciding role; None: all replicas must succeed.
            each: a function that returns the fields of the `Role` that depend on the viewer.
            **fields: the other fields of the `Role`; `waits` is the default for waitFor. `named` is
                True if its pods need the names that only a StatefulSet gives them.

        Raises:
            MlgenError: the job is too large.
        """
        replicas, named = fields.get("replicas", spec.replicas), fields.pop("named", False)
        if fields.get("decides"):
            needed = fields.get("tolerates_failure", False)
            success = _lifecycle.success(self.job, success, needed=needed)
            if replicas > 1 and self.is_split(spec):
                self.job = _lifecycle.with_split_deciders(self.job, spec.name)
        policy = self._restart_policy(spec, restart, serves=serves)
        role = Role(
            name=spec.name,
            replicas=spec.replicas,
            spec=spec,
            # A StatefulSet would wait until Kueue releases a deleted pod, and Kueue until that pod
            # is replaced. A Job replaces it with a pod of another name.
            serves=policy == "Always" and (named or self.job.scheduling.gang != "kueue"),
            restart=policy,
            rejoins=restart is not None,
            gang=_lifecycle.is_in_gang(self.job, spec.name),
            alone=spec.restart_scope is not None,
            success=success if fields.get("decides") else None,
            endless=serves,
            port=self.peer_port(spec),
            more_ports=self.more_ports.get(spec.name, {}),
        )
        if not self.is_split(spec):
            self._append(replace(role, **fields, **each(None)))
            return
        self.size.require(spec, 2 * replicas)
        role = replace(role, **fields)
        first = role.index or 0
        for index in range(first, first + replicas):
            self._append(self._replica(replace(role, **each((spec.name, index))), index))

    def _append(self, role: Role) -> None:
        """Add a finished role, unless the job becomes too large."""
        self.size.add(role)
        self.roles.append(role)

    def _restart_policy(self, spec: RoleSpec, restart: str | None, *, serves: bool) -> str:
        """Return the restart policy of a role; `Always` only for a role that serves.

        In a gang, any failure restarts all replicas, unless the job file lists exit codes. The exit
        code of the first failed replica is not reliable: torchrun exits with 1 whenever a child
        dies, and so do the peers of a lost replica.
        """
        if _lifecycle.is_in_gang(self.job, spec.name) and not serves and not spec.restart_scope:
            restart = "ExitCode" if spec.retryable_exit_codes else "OnFailure"
        policy = spec.restart_policy or restart or ("Always" if serves else "Never")
        if policy != "Always" or serves:
            return policy
        self.report(
            ("roles", spec.name, "restartPolicy"),
            f"{spec.name} runs in a Job, which does not support restartPolicy: Always, so it is"
            " rendered with OnFailure",
            f"write OnFailure for {spec.name}",
            warn=True,
        )
        return "OnFailure"

    def _replica(self, role: Role, index: int) -> Role:
        """Return a role for one replica, with its ports on the node; only replica 0 can decide."""
        spec = role.spec
        ports = {name: self._host_port(spec, index, name) for name in self._service_ports(spec)}
        decides = role.decides and index == 0
        aliases = {name: i for name, i in role.aliases.items() if i in (None, index)}
        of_one = replace(role, index=index, replicas=1, max_replicas=None, decides=decides)
        return replace(of_one, host_ports=ports, aliases=aliases)

    def decider(self, default: str | None, candidates: Iterable[str]) -> str | None:
        """Return the name of the deciding role: `successPolicy.role`, or the default.

        Args:
            default: the deciding role if the job file names none.
            candidates: the roles that the job file may name; any other is reported as an error.
        """
        policy = self.job.success_policy
        role = policy.role or next(iter(policy.roles), None)
        candidates = list(candidates)
        if role is None or policy.roles:
            return role if role in candidates else default
        if role not in candidates:
            choices = ", ".join(candidates) or "none"
            hint = did_you_mean(role, candidates) or f"possible roles: {choices}"
            self.report(("successPolicy", "role"), f'"{role}" cannot be the deciding role', hint)
            return default
        return role

    def _with_waits(self) -> list[Role]:
        """Return the roles with the waits and orders of their waitFor. Call it after all `add`s.

        Orders are added to the framework's waits. An empty waitFor removes these waits.
        """
        of_specs: dict[str, tuple[tuple[Wait, ...], tuple[Order, ...]]] = {}
        roles = []
        for role in self.roles:
            entries = role.spec.wait_for
            if entries is None:
                roles.append(role)
                continue
            name = role.spec.name
            if name not in of_specs:  # the same for each of its replicas
                of_specs[name] = self._of_entries(role, entries)
            more, orders = of_specs[name]
            is_added = bool(entries) and all(entry.until in STATES for entry in entries)
            waits = (*role.waits, *more) if is_added else more
            roles.append(replace(role, waits=waits, orders=orders))
        return roles

    def _of_entries(
        self, role: Role, entries: Sequence[WaitFor]
    ) -> tuple[tuple[Wait, ...], tuple[Order, ...]]:
        """Return the waits and orders for the entries of a role's waitFor.

        Without a supervisor or a workflow, `Ready` becomes a wait for names.
        """
        waits: list[Wait] = []
        orders: list[Order] = []
        for entry in sorted(entries, key=lambda entry: entry.until in STATES):
            for peers in self._peers(role, entry):
                if entry.until == "Complete" or (entry.until == "Ready" and self.job.watched):
                    orders.append(Order(peers[0].name, entry.until))
                else:
                    waits.append(self._wait_of_entry(role, peers, entry.until))
        return tuple(waits), tuple(orders)

    def _peers(self, role: Role, entry: WaitFor) -> Iterable[list[Role]]:
        """Return the roles that an entry of waitFor refers to, grouped by name.

        Report a problem if there are none.
        """
        by_name: dict[str, list[Role]] = {}
        for peer in self.roles:
            if entry.role in (peer.name, peer.spec.name):
                by_name.setdefault(peer.name, []).append(peer)
        if not by_name:
            path = ("roles", role.spec.name, "waitFor")
            names = [each.name for each in self.roles]
            self.collector.add(unknown_role(path, entry.role, names))
        return by_name.values()

    def _wait_of_entry(self, role: Role, peers: list[Role], until: str) -> Wait:
        """Return a role's wait for the peers of one name."""
        first, port = peers[0], None
        if until == "port":
            # A launcher listens on the port in its flags, if they contain one.
            flagged = None if self.is_split(first.spec) else rendezvous_port(first.spec)
            port = flagged or first.port
            if port is None:
                path = ("roles", role.spec.name, "waitFor")
                hint = f"set a port for {first.name}, or write until: name"
                self.report(path, f"{first.name} has no port to wait for", hint)
        count = sum(peer.replicas for peer in peers)
        count = min(count, self.minimums.get(first.name, count))
        spec = replace(first.spec, name=first.name)
        return Wait(first.name, self.hosts(spec, count, first.index or 0), port)

    def topology(self) -> Topology:
        """Return the finished topology, with all problems of the job."""
        roles = _lifecycle.with_deciders(self.job, _with_ready_names(self._with_waits()))
        self.roles = _without_visible_gpus(_with_aliases(self.job, roles))
        topology = Topology(
            job=self.job,
            roles=tuple(self.roles),
            supervised=_lifecycle.is_supervised(self.job, roles),
            decides=_lifecycle.decides(self.job),
            files=self.files,
            only_ready=self.only_ready,
            **self.facts,
        )
        topology = with_requests(topology)
        topology = topology._replace(cleanup=_lifecycle.cleanup(topology))
        found = chain(
            contradictions(topology),
            _lifecycle.without_supervisor(topology),
            launch_problems(topology),
        )
        self.collector.extend(bounded(dict.fromkeys(found)))
        return topology._replace(problems=self.collector.problems)
