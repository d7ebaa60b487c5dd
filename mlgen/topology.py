"""The topology of a job: its roles, addresses, ports, waits, files and permissions.

A framework creates a `Topology` without knowing Kubernetes objects; `mlgen.objects` renders it
without knowing the framework. It contains data only, and states each fact once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import Problem

INDEX_NAME = "MLGEN_REPLICA_INDEX"
INDEX = f"$({INDEX_NAME})"
"""Write this in an env value, command or argument for the replica's own index, from 0.

Kubernetes expands it, because the variable is defined before those that refer to it:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

RESERVED = ("kueue", "supervisor", "tensorboard")
"""Suffixes of the names of mlgen's own objects, such as `mnist-supervisor`. A role cannot have one
of these names."""

PEERS = "peers"
"""The name of `Role.port` in a pod's ports, in a Service and in `Role.host_ports`."""


class PodField(NamedTuple):
    """An env value that Kubernetes reads from a field of the pod, such as `status.podIP`.

    https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
    """

    path: str


POD_IP, POD_NAME = PodField("status.podIP"), PodField("metadata.name")

Env = Mapping[str, str | PodField]
"""Environment variables by name, in the order in which they are defined."""

Until = Literal["port", "name"]
"""The condition to wait for: a peer accepts connections on its port, or its name resolves."""


@dataclass(frozen=True)
class Hosts:
    """The host names of the replicas `first` to `first + count - 1` of a role.

    Each is `before`, the replica's index and `after`: `mnist-ps-` + 0 + `.mnist`.
    """

    before: str
    count: int
    after: str
    first: int = 0

    def __iter__(self) -> Iterator[str]:
        for index in range(self.first, self.first + self.count):
            yield f"{self.before}{index}{self.after}"

    def __str__(self) -> str:
        """Return the short form that `templates/scripts` read: `mnist-ps-[0-1].mnist`."""
        last = self.first + self.count - 1
        index = str(self.first) if self.count == 1 else f"[{self.first}-{last}]"
        return f"{self.before}{index}{self.after}"


class Wait(NamedTuple):
    """A condition for the start of a replica: all hosts of another role are reachable.

    Attributes:
        role: the other role, for messages.
        port: the port on which each host must accept connections; None if it is enough that its
            name resolves.
        started: True if the only host is the bare name of a replica whose containers must run. The
            replica itself resolves that name at once, from its /etc/hosts.
    """

    role: str
    hosts: Hosts
    port: int | None = None
    started: bool = False


class Order(NamedTuple):
    """A condition for the start of a role: another role's state. The role has no pods before.

    Attributes:
        until: `Complete`: the other role has succeeded; `Ready`: all of its replicas are ready.
    """

    role: str
    until: Literal["Complete", "Ready"]


class Scratch(NamedTuple):
    """An empty volume that the containers of a pod share (emptyDir).

    Attributes:
        memory: keep it in memory and never on disk, for example for private keys.
        size: the size limit as a quantity; None for no limit.
    """

    name: str
    memory: bool = False
    size: str | None = None


class SecretFiles(NamedTuple):
    """A volume with the keys of a Secret as files.

    Attributes:
        secret: the name of the Secret.
        keys: the file name for each key; {} for all keys under their own names.
    """

    name: str
    secret: str
    keys: Mapping[str, str]


class ConfigFiles(NamedTuple):
    """A volume with files of the job's ConfigMap. Files named `*.sh` are executable.

    Attributes:
        files: names in `Topology.files`, or of scripts in `templates/scripts`; () for all files in
            the ConfigMap, none of them executable.
    """

    name: str
    files: tuple[str, ...] = ()


class PodFiles(NamedTuple):
    """A volume with fields of the pod as files: the field by file name."""

    name: str
    fields: Mapping[str, PodField]


class Mount(NamedTuple):
    """A volume that is mounted into a container at a path.

    Attributes:
        file: the name of the only file to mount, which a helper has written; "" for all files.
    """

    volume: Scratch | SecretFiles | ConfigFiles | PodFiles
    path: str
    read_only: bool = True
    file: str = ""


class Helper(NamedTuple):
    """An init container that runs a script of `templates/scripts`.

    Attributes:
        script: the file name of the script.
        image: one of the job's helper images, `wait`, `kubectl` or `git`; or `main`, the training
            image, so that files that the script writes belong to the user of that image.
        env: the variables that the script reads, in order.
        last: True if it runs after all other init containers, including those of the user's
            templates, because it waits for other pods. All pods then prepare at the same time.
        sidecar: True if it runs as long as the pod.
        runs: scripts that the script runs.
    """

    name: str
    script: str
    image: Literal["wait", "kubectl", "git", "main"]
    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    last: bool = False
    sidecar: bool = False
    runs: tuple[str, ...] = ()


class Right(NamedTuple):
    """A permission of a role in the Kubernetes API (a rule of an RBAC Role).

    Attributes:
        resource: the resource type, such as `pods` or `pods/exec`.
        names: the names of the permitted objects; () for all objects of the type.
    """

    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Success:
    """The condition for the success of the deciding Job, if not the success of all replicas.

    The fields are `succeededIndexes` and `succeededCount` of a Job's successPolicy:
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy

    Attributes:
        needed: True if other replicas may fail, so that the Job must not wait for them.
    """

    indexes: str | None = None
    count: int | None = None
    needed: bool = False


@dataclass(frozen=True)
class Role:
    """A set of equal replicas, rendered as one StatefulSet or one Job.

    A role whose replicas differ consists of several of these, one per replica, with an `index`.

    Attributes:
        spec: the role in the job file.
        serves: True if it runs until it is stopped and always restarts: a StatefulSet. Otherwise
            it runs to completion: a Job. Under Kueue, all roles are Jobs.
        endless: True if its replicas do not end by themselves. This can be true without `serves`,
            if a restart policy other than Always makes the role a Job.
        decides: True if it is the deciding Job, which determines the outcome of the training, or
            one of several Jobs that determine it together.
        success: the condition for the success of the deciding Job; None: all replicas succeed.
        index: the index of the replica, if it has a Job of its own.
        restart: Never, OnFailure, ExitCode or Workflow; ignored if it serves. Workflow: any failure
            of a replica fails its Job, and the workflow restarts the whole job. Always: a Job that
            restarts its replicas without a limit.
        rejoins: True if the framework restarts single replicas by default, because one that has
            restarted can join its peers again.
        gang: True if it restarts together with the other roles in the gang.
        alone: True if a failed replica restarts alone, although the role is in the gang. The gang
            then restarts only if a replica is preempted, drained or lost.
        in_place: True if the containers restart in their pods when the gang restarts.
        evaluates: True if it reads the results of the others, and may still work when they end.
        tolerates_failure: True if the other replicas continue when one of them fails.
        port: the port on which peers reach a replica.
        more_ports: additional ports, by name.
        host_ports: the ports on the node, if each replica has its own there, under the names of
            `more_ports`, and `peers` for `port`.
        env: variables of the main container; variables in the job file override them.
        command: the command of the main container if the job file has neither command nor args.
        args: the arguments for `command`.
        wrapper: words before the command of the job file, which they run.
        waits: conditions for the start of a replica.
        orders: conditions for the start of the role.
        helpers: init containers that run before the main container.
        mounts: volumes of the main container.
        rights: permissions in the Kubernetes API.
        aliases: additional names of replicas: the replica's index by name, or None for all of them.
            Each name is a separate Service.
        ready: names that resolve only while a replica is ready: its index by name. Each name is a
            separate Service, which replaces an alias of the same name.
        merged: the roles of the job file that it combines, in the order of their replicas, if there
            are several.
        max_replicas: the number of replicas to which it can be scaled; None if it is not elastic.
        labels: additional labels of the pods.
        workload: the name of the Job or StatefulSet, if it is not `<job>-<role>`.
    """

    name: str
    replicas: int
    spec: RoleSpec
    serves: bool = False
    endless: bool = False
    decides: bool = False
    success: Success | None = None
    index: int | None = None
    restart: str = "Never"
    rejoins: bool = False
    gang: bool = False
    alone: bool = False
    in_place: bool = False
    evaluates: bool = False
    tolerates_failure: bool = False
    port: int | None = None
    more_ports: Mapping[str, int] = field(default_factory=dict)
    host_ports: Mapping[str, int] = field(default_factory=dict)
    env: Env = field(default_factory=dict)
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    orders: tuple[Order, ...] = ()
    helpers: tuple[Helper, ...] = ()
    mounts: tuple[Mount, ...] = ()
    rights: tuple[Right, ...] = ()
    aliases: Mapping[str, int | None] = field(default_factory=dict)
    ready: Mapping[str, int] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    max_replicas: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    workload: str | None = None

    @property
    def kind(self) -> Literal["Job", "StatefulSet"]:
        """The kind of its workload."""
        return "StatefulSet" if self.serves else "Job"

    @property
    def indexes(self) -> Sequence[int]:
        """The indexes of its replicas."""
        return range(self.replicas) if self.index is None else (self.index,)

    @property
    def ports(self) -> dict[str, int]:
        """The ports at which peers reach a replica, by name."""
        return ({PEERS: self.port} if self.port else {}) | dict(self.more_ports)

    @property
    def always_restarts(self) -> bool:
        """True if its replicas restart without a limit, in a StatefulSet or in a Job."""
        return self.serves or self.restart == "Always"

    @property
    def keeps_rank(self) -> bool:
        """True if its replicas have fixed ranks, so that their peers cannot continue without one.

        torchrun and `jax.distributed` read these variables.
        """
        return "PET_NODE_RANK" in self.env or "PROCESS_ID" in self.env

    @property
    def restarts_together(self) -> bool:
        """True if the whole gang restarts when a replica fails."""
        return self.gang and not self.alone


class Topology(NamedTuple):
    """A job as its framework lays it out.

    Attributes:
        roles: in the order in which they are rendered.
        supervised: True if a supervisor makes the decisions that remain while the job runs.
        decides: whether `one` role determines the outcome, or `all` or `any` of several roles.
        files: contents of generated files, by name. Other files that a role mounts are scripts of
            `templates/scripts`.
        problems: the problems of the job so far, including errors.
        cleanup: the command that deletes the pods that keep running after training ends; "" if
            there are no such pods, or if the job itself stops them.
        only_ready: True if the names of replicas resolve only while they are ready.
        idle: the roles of the job file that do not compute.
        ranked: True if the replicas train together, each with a rank. False for roles of any name,
            whose replicas may work alone, and for a cluster that runs submitted programs.
    """

    job: TrainingJob
    roles: tuple[Role, ...]
    supervised: bool = False
    decides: Literal["one", "all", "any"] = "one"
    files: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()
    cleanup: str = ""
    only_ready: bool = False
    idle: frozenset[str] = frozenset()
    ranked: bool = True

    @property
    def by_name(self) -> dict[str, list[Role]]:
        """The roles of each name."""
        found: dict[str, list[Role]] = {}
        for role in self.roles:
            found.setdefault(role.name, []).append(role)
        return found

    @property
    def counts(self) -> dict[str, int]:
        """The number of replicas of each name."""
        found: dict[str, int] = {}
        for role in self.roles:
            found[role.name] = found.get(role.name, 0) + role.replicas
        return found
