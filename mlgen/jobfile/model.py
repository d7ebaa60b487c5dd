"""A document → `Job`: what the user asked for, with every default.

The names are those of the job file, which borrows them from the operators and from Kubernetes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Resources = dict[str, dict[str, str]]
"""As in a container: {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}."""

PERMANENT_EXIT_CODES = frozenset(range(1, 128))
"""Exit codes that restartPolicy ExitCode does not retry, unless the role lists those to retry;
Kubeflow's training operator has the same (pkg/util/train/train_util.go)."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One role to wait for, until all of its replicas accept connections or have a name."""

    role: str
    until: Literal["port", "name"] = "port"


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What the user asked for one role; what he gave for all roles is in it.

    Attributes:
        env: texts, or {"valueFrom": …}, by name.
        templates: pod templates to merge in turn: that for all roles, then the role's own.
        wait_for: None where the framework decides.
        volumes: as in the job file, by name.
        shm_size: of /dev/shm; "0" leaves it to the container runtime.
        gpus: a GPU is among the resources, here or in a template.
    """

    name: str
    replicas: int = 1
    image: str | None = None
    image_pull_policy: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=dict)
    service_account_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shm_size: str | None = None
    port: int | None = None
    main_container: str = "main"
    restart_policy: str | None = None
    retryable_exit_codes: tuple[int, ...] = ()
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    wait_for: tuple[WaitFor, ...] | None = None
    templates: tuple[Mapping[str, Any], ...] = ()
    gpus: bool = False


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """What holds for the whole job; times in seconds."""

    clean_pod_policy: str = "None"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str | None = None


@dataclass(frozen=True, slots=True)
class SuccessPolicy:
    """When the job has succeeded: All or First of a role's replicas, or that many of them."""

    role: str | None = None
    replicas: str | int | None = None


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How long replicas wait for their peers, in seconds."""

    timeout_seconds: int = 600


@dataclass(frozen=True, slots=True)
class HostPorts:
    """The ports `base` … `base + size - 1` of a node, from which each replica gets its own."""

    base: int = 20000
    size: int = 10000
    allow_reserved: bool = False


@dataclass(frozen=True, slots=True)
class Rdma:
    """Network hardware, and what a site calls it."""

    mode: Literal["none", "host", "sriov", "shared"] = "none"
    resource: str | None = None
    networks: tuple[str, ...] = ()
    interface: str | None = None
    hca: str | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """How replicas are addressed, and over what they talk.

    Attributes:
        host: None where the user does not say.
    """

    cluster_domain: str | None = None
    host: bool | None = None
    host_ports: HostPorts | None = None
    mesh: Literal["none", "native"] = "none"
    rdma: Rdma = field(default_factory=Rdma)

    @property
    def on_host(self) -> bool:
        """The pods use the network of their nodes."""
        return self.rdma.mode == "host" if self.host is None else self.host


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the job's pods go: together in, or spread over, what a label of nodes tells apart."""

    key: str
    mode: Literal["required", "preferred"] = "required"


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How the cluster finds room for the job; `min_member` counts pods."""

    gang: Literal["none", "volcano", "coscheduling", "kueue"] = "none"
    queue: str | None = None
    priority_class_name: str | None = None
    min_member: int | None = None
    min_resources: Mapping[str, str] | None = None
    schedule_timeout_seconds: int | None = None
    scheduler_name: str | None = None
    topology: Placement | None = None
    spread: Placement | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """What the training containers may do, and as whom they run."""

    profile: Literal["restricted", "baseline", "privileged"] | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None


@dataclass(frozen=True, slots=True)
class Tensorboard:
    """A TensorBoard beside the job; without an image, the training image has it."""

    log_dir: str
    image: str | None = None
    port: int = 6006
    resources: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Helpers:
    """The images of the containers that mlgen adds."""

    wait_image: str = "busybox:1.36"
    kubectl_image: str = "alpine/kubectl:1.34.2"
    git_image: str = "alpine/git:2.49.1"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training job. Roles of 0 replicas are not in it; `options` have no defaults filled in.

    Attributes:
        name_suffix: `hash`: the name is to follow from what the pods are.
        part_of: the name as the user wrote it, where that is not the whole of it.
        volumes: those of all roles.
        supervisor: a Job beside the others may end what outlives the training.
    """

    name: str
    framework: str
    roles: Mapping[str, RoleSpec]
    namespace: str | None = None
    name_suffix: str | None = None
    part_of: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    run_policy: RunPolicy = field(default_factory=RunPolicy)
    success_policy: SuccessPolicy = field(default_factory=SuccessPolicy)
    wait: WaitPolicy = field(default_factory=WaitPolicy)
    network: Network = field(default_factory=Network)
    scheduling: Scheduling = field(default_factory=Scheduling)
    security: Security = field(default_factory=Security)
    tensorboard: Tensorboard | None = None
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    helpers: Helpers = field(default_factory=Helpers)
    supervisor: bool = True

    @property
    def replicas(self) -> int:
        """How many replicas the user asks for, of all roles."""
        return sum(role.replicas for role in self.roles.values())
