"""The model in the middle: what a framework decided, and what objects are made of.

Values only. A framework fills them in without knowing Kubernetes; `mlgen.objects` turns them into
objects without knowing a framework.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import Problem

INDEX_NAME = "MLGEN_REPLICA_INDEX"
INDEX = f"$({INDEX_NAME})"
"""A replica's own index, 0 and up, in any env value, command or argument.

Kubernetes puts it in the place of this text, as the variable is defined before those that use it:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""


PEERS = "peers"
"""The name of the port on which peers reach a replica."""


@dataclass(frozen=True, slots=True)
class PodField:
    """The value of a variable that only the pod itself knows, by its path in the pod.

    https://kubernetes.io/docs/concepts/workloads/pods/downward-api/#available-fields
    """

    path: str


POD_IP, POD_NAME = PodField("status.podIP"), PodField("metadata.name")
POD_NAMESPACE = PodField("metadata.namespace")

Env = Mapping[str, str | PodField]

Until = Literal["port", "name"]
"""What is waited for: that a peer accepts connections, or only that its name leads to it."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The replicas `first` … `first + count - 1` of a role, by their host names."""

    before: str
    count: int
    after: str
    first: int = 0

    def __iter__(self) -> Iterator[str]:
        return (f"{self.before}{i}{self.after}" for i in range(self.first, self.first + self.count))

    def __str__(self) -> str:
        """Return the short form that the scripts read: `mnist-ps-[0-1].mnist`."""
        last = self.first + self.count - 1
        index = str(self.first) if self.count == 1 else f"[{self.first}-{last}]"
        return f"{self.before}{index}{self.after}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Before a replica starts: until every one of these hosts can be reached."""

    role: str
    hosts: Hosts
    port: int | None = None
    """None: until the name leads to an address."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """An empty volume that the containers of a pod share; in memory, so never on a disk, or not."""

    name: str
    memory: bool = False
    size: str | None = None


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """The keys of a Secret as files; `keys` maps a key to the file's name, {} takes all of them."""

    name: str
    secret: str
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Files of the job's ConfigMap; those that end in `.sh` may be run."""

    name: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume, and the folder under which a container sees it."""

    volume: Scratch | SecretFiles | ConfigFiles
    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Helper:
    """An init container that runs one of `templates/scripts`.

    Attributes:
        image: `wait`, `kubectl` or `git`, the job's helper images, or `main`, the training image:
            what a script leaves in a volume then belongs to the same user.
        env: what the script reads, in order.
    """

    name: str
    script: str
    image: Literal["wait", "kubectl", "git", "main"]
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True)
class Right:
    """What a role may ask of the Kubernetes API, and of which objects by name; () is of all."""

    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Success:
    """When the deciding Job has succeeded, where that is not "all replicas".

    The two fields are those of a Job's successPolicy:
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy
    """

    indexes: str | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """One set of equal replicas: a StatefulSet or a Job.

    Attributes:
        spec: what the user asked for these pods.
        serves: it does not end by itself and is restarted for ever: a StatefulSet.
        decides: its end is the end of training.
        success: when it has succeeded, if it decides; None: when all replicas have.
        index: the replica's index, where a replica has a Job of its own.
        restart: Never, OnFailure, ExitCode or Workflow; of no meaning where it serves. Workflow: a
            replica that fails, for whatever reason, fails its Job, and the whole job starts again.
        tolerates_failure: a replica that fails does not end the others.
        port: the port on which peers reach it.
        more_ports: further ports by name.
        host_ports: where each replica has ports of its node: these, under the names of the above;
            that of `port` is called `peers`.
        env: what the framework gives the main container; the user's own values win.
        command: what runs, with `args`, where the user gives neither.
        waits: what a replica waits for before it starts.
        bare_name: its first replica is also called by its host name alone, without the domain.
        labels: further labels of its pods.
        workload: the name of its Job or StatefulSet, where that is not `<job>-<role>`.
    """

    name: str
    replicas: int
    spec: RoleSpec
    serves: bool = False
    decides: bool = False
    success: Success | None = None
    index: int | None = None
    restart: str = "Never"
    tolerates_failure: bool = False
    port: int | None = None
    more_ports: Mapping[str, int] = field(default_factory=dict)
    host_ports: Mapping[str, int] = field(default_factory=dict)
    env: Env = field(default_factory=dict)
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    helpers: tuple[Helper, ...] = ()
    mounts: tuple[Mount, ...] = ()
    rights: tuple[Right, ...] = ()
    bare_name: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    workload: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """A job as its framework lays it out.

    Attributes:
        roles: in the order in which they are rendered.
        supervised: a supervisor frees what is left when training has ended.
        files: the texts that the framework wrote, by name. Another file that a role mounts is a
            script of `templates/scripts`.
        warnings: what the user should know although the job is rendered.
    """

    job: TrainingJob
    roles: tuple[Role, ...]
    supervised: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()


SEEN = 600
"""Seconds for which a supervised Job that has ended is there, so that its end is seen."""
