"""What the frameworks have in common: the user's words on restart, waiting, success and ranks.

A framework says what it would do; the functions here let the job file have the last word, and
collect what does not make sense.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.job import Job, RoleSpec, WaitFor
from mlgen.problems import MlgenError, Problem, did_you_mean
from mlgen.topology import Role, Success, Topology, Wait, hosts

FIRST = Success(indexes="0")
ANY = Success(count=1)


@dataclass
class Plan:
    """A topology in the making; collects problems, so that all of them are told at once."""

    job: Job
    roles: list[Role] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

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

    def add(
        self,
        spec: RoleSpec,
        *,
        serves: bool = False,
        restart: str | None = None,
        success: Success | None = None,
        waits: Iterable[Wait] = (),
        **fields: Any,
    ) -> None:
        """Add a role; what the job file says wins over what the framework says.

        That holds for restartPolicy, successPolicy, waitFor and port.

        Args:
            spec: the role as the user gave it.
            serves: it works for others and does not end by itself; it is then restarted for ever
                unless the user says otherwise.
            restart: what happens to a failed replica where the user does not say.
            success: when it has succeeded, if it decides, where the user does not say.
            waits: what it waits for where the user does not say.
            **fields: of `Role`; name and replicas are the spec's unless given.
        """
        given: dict[str, Any] = {"name": spec.name, "replicas": spec.replicas} | fields
        given |= {"port": spec.port or fields.get("port"), "waits": tuple(waits)}
        if fields.get("decides"):
            given["success"] = self._success(given["replicas"], success)
        policy = spec.restart_policy or restart or ("Always" if serves else "Never")
        if policy == "Always" and not serves:
            self.problem(
                ("roles", spec.name, "restartPolicy"),
                f"{spec.name} ends by itself, and a Job does not start again what has succeeded",
                "it is rendered as OnFailure",
                warning=True,
            )
            policy = "OnFailure"
        self.roles.append(Role(spec=spec, serves=policy == "Always", restart=policy, **given))

    def wait(self, role: str, port: int | None = None) -> Wait:
        """Wait for all of a role's replicas, by port, or else by name."""
        return Wait(role, hosts(self.job, role, self.job.roles[role].replicas), port)

    def _success(self, replicas: int, default: Success | None) -> Success | None:
        """When so many replicas that decide have succeeded: as the user says, or by default."""
        wanted = self.job.success_policy.replicas
        if wanted is None:
            return default
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
        self._check_exit_codes()
        self._check_policies()
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
        for peer in peers:
            if wanted.until == "port" and peer.port is None:
                message = f"{peer.name} has no port to wait for"
                self.problem(path, message, f"give {peer.name} a port, or write until: name")
            found = hosts(self.job, peer.name, peer.replicas, peer.index or 0)
            yield Wait(peer.name, found, peer.port if wanted.until == "port" else None)

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

    def _check_exit_codes(self) -> None:
        """Codes may be given for all roles, but then one of them must heed them."""
        heeded = {r.spec.retryable_exit_codes for r in self.roles if r.restart == "ExitCode"}
        for role in self.roles:
            codes = role.spec.retryable_exit_codes
            if codes and codes not in heeded:
                self.problem(
                    ("roles", role.spec.name, "retryableExitCodes"),
                    f"exit codes do not count under restartPolicy {role.restart}",
                    "write restartPolicy: ExitCode",
                )

    def _check_policies(self) -> None:
        policy = self.job.run_policy
        deadline, timeout = policy.active_deadline_seconds, self.job.wait.timeout_seconds
        if (
            deadline is not None
            and deadline <= timeout
            and any(r.waits or r.helpers for r in self.roles)
        ):
            self.problem(
                ("runPolicy", "activeDeadlineSeconds"),
                f"the deadline of {deadline} s ends the job before waiting for peers"
                f" ({timeout} s) can say what is missing",
                f"write more than {timeout}, or less for wait.timeoutSeconds",
            )
        if self.job.network.cluster_domain and not self.job.namespace:
            self.problem(
                ("network", "clusterDomain"),
                "an address with the cluster's domain needs the namespace",
                "write metadata.namespace, or give --namespace",
            )
        staying = [role.name for role in self.roles if not role.decides]
        if policy.clean_pod_policy != "None" and staying:
            self.problem(
                ("runPolicy", "cleanPodPolicy"),
                f"nothing in the cluster stops {', '.join(dict.fromkeys(staying))} at the end",
                "then run: kubectl delete statefulsets,jobs"
                f" -l 'mlgen.dev/job={self.job.name},mlgen.dev/decides!=true'",
                warning=True,
            )


@dataclass(frozen=True, slots=True)
class Rank:
    """One or more replicas whose rank is known before they run.

    Attributes:
        rank: a number, or `topology.INDEX` where it is the replica's own index.
    """

    spec: RoleSpec
    replicas: int
    rank: str
    index: int | None = None


def ranks(job: Job, leader: str, follower: str, index: str) -> list[Rank]:
    """Number the replicas of two roles through, the leader's first.

    Kubernetes can put a replica's index into a value, but cannot add to it. So where both roles
    are alike they are folded into one of the name `rank`, whose index is the rank; where they are
    not, each follower gets a Job of its own with its rank written out.

    Returns:
        The replicas in the order of their ranks; the first of them is rank 0.
    """
    specs: Mapping[str, RoleSpec] = job.roles
    if leader not in specs or follower not in specs:
        only = specs.get(leader) or specs[follower]
        return [Rank(only, only.replicas, index)]
    first, rest = specs[leader], specs[follower]
    if replace(first, name="rank", replicas=0) == replace(rest, name="rank", replicas=0):
        size = first.replicas + rest.replicas
        return [Rank(replace(first, name="rank", replicas=size), size, index)]
    return [
        Rank(first, first.replicas, index),
        *(Rank(rest, 1, str(first.replicas + i), i) for i in range(rest.replicas)),
    ]
