"""A document → `Job`: what the user asked for, with every default.

The names are those of the job file, which borrows them from the operators and from Kubernetes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Resources = dict[str, dict[str, str]]
"""As in a container: {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}."""


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
class Job:
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


def read(data: Mapping[str, Any], namespace: str | None = None, *, supervisor: bool = True) -> Job:
    """Read a TrainingJob that holds against the schema.

    Args:
        data: the document.
        namespace: takes the place of the one in the document.
        supervisor: whether there may be one.
    """
    metadata, spec = data["metadata"], data["spec"]
    specs = {name: _role(name, spec, role) for name, role in spec["roles"].items()}
    return Job(
        name=metadata["name"],
        framework=spec["framework"],
        roles={name: role for name, role in specs.items() if role.replicas},
        namespace=namespace or metadata.get("namespace"),
        name_suffix=metadata.get("nameSuffix"),
        labels=metadata.get("labels", {}),
        annotations=_for_objects(metadata.get("annotations", {})),
        options=spec.get("options", {}),
        run_policy=RunPolicy(**_snake(spec.get("runPolicy", {}))),
        success_policy=SuccessPolicy(**_snake(spec.get("successPolicy", {}))),
        wait=WaitPolicy(**_snake(spec.get("wait", {}))),
        network=_network(spec.get("network", {})),
        scheduling=_scheduling(spec.get("scheduling", {})),
        security=Security(**_snake(spec.get("security", {}))),
        tensorboard=_tensorboard(spec["tensorboard"]) if "tensorboard" in spec else None,
        volumes=spec.get("volumes", {}),
        helpers=Helpers(**_snake(spec.get("helpers", {}))),
        supervisor=supervisor,
    )


def _for_objects(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without those that say of the job file alone where a tool has it from."""
    return {
        name: value
        for name, value in annotations.items()
        if not name.startswith(OF_TOOLS) or name in OF_OBJECTS
    }


OF_TOOLS = (
    "alpha.config.kubernetes.io/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""kustomize and kpt know a resource by these: kyaml/kio/kioutil, kustomize api/internal/utils."""

OF_OBJECTS = ("config.kubernetes.io/depends-on",)
"""An order in which to apply, for `kpt live apply`: sigs.k8s.io/cli-utils, pkg/object/dependson."""


def _snake(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a mapping under the names of our dataclasses."""
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in given.items()
    }


def _network(given: Mapping[str, Any]) -> Network:
    words = _snake(given)
    if "host_ports" in words:
        words["host_ports"] = HostPorts(**_snake(words["host_ports"]))
    rdma = _snake(words.pop("rdma", {}))
    networks = tuple(rdma.pop("networks", ()))
    return Network(**words, rdma=Rdma(**rdma, networks=networks))


def _scheduling(given: Mapping[str, Any]) -> Scheduling:
    words = _snake(given)
    words |= {key: Placement(**words[key]) for key in ("topology", "spread") if key in words}
    if "min_resources" in words:
        words["min_resources"] = {k: str(v) for k, v in words["min_resources"].items()}
    return Scheduling(**words)


def _tensorboard(given: Mapping[str, Any]) -> Tensorboard:
    words = _snake(given)
    return Tensorboard(**words | {"resources": _resources(words.get("resources", {}))})


def _role(name: str, spec: Mapping[str, Any], role: Mapping[str, Any]) -> RoleSpec:
    """A role, with what is given for all roles where it says nothing itself."""
    everyone, own = _snake(spec), _snake(role)
    general = {key: everyone[key] for key in everyone if key in ROLE_FIELDS}
    given = general | own
    for key in ("env", "volumes"):
        given[key] = general.get(key, {}) | own.get(key, {})
    templates = tuple(words["template"] for words in (everyone, own) if "template" in words)
    given.pop("template", None)
    for key in ("command", "args", "retryable_exit_codes", "tolerations"):
        given[key] = tuple(given.get(key, ()))
    if "wait_for" in given:
        given["wait_for"] = tuple(WaitFor(**wait) for wait in given["wait_for"])
    if "shm_size" in given:
        given["shm_size"] = str(given["shm_size"])
    resources = _resources(given.pop("resources", {}))
    gpus = _has_gpu(resources, templates)
    return RoleSpec(name=name, resources=resources, templates=templates, gpus=gpus, **given)


ROLE_FIELDS = frozenset(entry.name for entry in fields(RoleSpec))


def _resources(given: Mapping[str, Any]) -> Resources:
    """Amounts as texts; those outside of requests and limits are both."""
    both = {name: str(a) for name, a in given.items() if name not in ("requests", "limits")}
    found = {
        kind: both | {name: str(amount) for name, amount in given.get(kind, {}).items()}
        for kind in ("requests", "limits")
    }
    return {kind: amounts for kind, amounts in found.items() if amounts}


def _has_gpu(resources: Resources, templates: tuple[Mapping[str, Any], ...]) -> bool:
    named = set(resources.get("limits", {}))
    for template in templates:
        for container in (template.get("spec") or {}).get("containers") or []:
            named |= set((container.get("resources") or {}).get("limits") or {})
    return any("gpu" in name.rpartition("/")[2] or "nvidia.com/" in name for name in named)
