"""`TrainingJob`: the contents of a job file as frozen dataclasses, with the defaults.

Fields are named as in the job file, in snake case. `schemas/job.schema.json` describes each.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

from mlgen.kubernetes.quantity import natural
from mlgen.problems import ValuePath

API_VERSION, KIND = "mlgen.dev/v1alpha1", "TrainingJob"

Resources = dict[str, dict[str, str]]
"""Resources of a container: {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}."""

PERMANENT_EXIT_CODES = frozenset(range(1, 128))
"""Exit codes that restartPolicy ExitCode does not retry if the role has no `retryableExitCodes`.

Kubeflow's training operator uses the same range (pkg/util/train/train_util.go).
"""

KILLED_EXIT_CODES = (137, 143)
"""SIGKILL and SIGTERM, the signals that end containers from outside.

A gang restarts after these codes, regardless of its restart policy.
"""


class WaitFor(NamedTuple):
    """A role to wait for.

    Attributes:
        until: the condition. `port`: all replicas accept connections. `name`: the names of all
            replicas resolve. `Complete`: the role has succeeded. `Ready`: all replicas are ready.
    """

    role: str
    until: Literal["port", "name", "Complete", "Ready"] = "port"


def containers_of(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a pod template."""
    return [*((template.get("spec") or {}).get("containers") or ())]


def is_below(path: str, folder: str) -> bool:
    """Return True if an absolute path is in a folder."""
    return path.startswith(f"{folder.rstrip('/')}/")


MAIN = "main"
"""The default name of the training container."""


def own_files(volume: Mapping[str, Any]) -> Iterator[tuple[ValuePath, Mapping[str, str]]]:
    """Yield the files that the job file contains for a volume, each with their path in it."""
    if "files" in volume:
        yield ("files",), volume["files"]
    for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        if "files" in source:
            yield ("projected", "sources", number, "files"), source["files"]


@dataclass(frozen=True)
class RoleSpec:
    """One role of the job file, merged with the fields that apply to all roles.

    Attributes:
        env: strings, or {"valueFrom": …}, by variable name.
        env_from: entries of `envFrom` of a container.
        volumes: entries of `volumes` in the job file, by name.
        init_containers: each overrides fields of the training container.
        preflight: fields of the last init container, which also override those.
        security_context: of the training container.
        shm_size: size of /dev/shm as a quantity; "0" keeps the container runtime's default.
        restart_scope: `Replica` if a failed replica restarts alone, regardless of the job's scope.
        wait_for: None for the framework's default.
        templates: pod templates to merge in order: the one for all roles, then the role's own.
        gpus: True if `resources` or a template has a limit for GPUs.
        own_resources: True if the role itself sets `resources`, False if all roles share them.
        without_gpus: True if the GPUs for all roles were removed from `resources`.
    """

    name: str
    replicas: int = 1
    image: str | None = None
    image_pull_policy: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    env_from: tuple[Mapping[str, Any], ...] = ()
    resources: Resources = field(default_factory=dict)
    image_pull_secrets: tuple[Mapping[str, str], ...] = ()
    service_account_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = ()
    security_context: Mapping[str, Any] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    init_containers: tuple[Mapping[str, Any], ...] = ()
    preflight: Mapping[str, Any] | None = None
    shm_size: str | None = None
    port: int | None = None
    main_container: str = MAIN
    restart_policy: str | None = None
    restart_scope: str | None = None
    retryable_exit_codes: tuple[int, ...] = ()
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    wait_for: tuple[WaitFor, ...] | None = None
    templates: tuple[Mapping[str, Any], ...] = ()
    gpus: bool = False
    own_resources: bool = field(default=False, compare=False)
    without_gpus: bool = field(default=False, compare=False)

    @cached_property
    def container_patches(self) -> list[dict[str, Any]]:
        """The fields of the training container in the role and its templates, in merge order."""
        own = [{"securityContext": dict(self.security_context)}] if self.security_context else []
        return own + [
            container
            for template in self.templates
            for container in containers_of(template)
            if container.get("name") == self.main_container
        ]

    def patched(self, name: str, own: Any) -> Any:
        """Return a field of the training container: its own value, unless a template replaces it.

        Args:
            name: the name of the field in a container.
            own: the value of the role.
        """
        for patch in reversed(self.container_patches):
            if patch.get(name):
                return patch[name]
        return own

    @cached_property
    def file_texts(self) -> list[str]:
        """The contents of the files in the job file that the pods of the role mount."""
        texts: list[str] = []
        for volume in self.volumes.values():
            for _, files in own_files(volume):
                texts += files.values()
        return texts

    @property
    def mount_paths(self) -> list[str]:
        """The folders at which the training container mounts volumes."""
        patches = (
            mount for patch in self.container_patches for mount in patch.get("volumeMounts") or ()
        )
        paths = (volume.get("mountPath") for volume in (*self.volumes.values(), *patches))
        return [path for path in paths if isinstance(path, str)]

    @property
    def may_have_more_env(self) -> bool:
        """True if ConfigMaps or Secrets may set any variable of the training container."""
        return bool(self.env_from) or any("envFrom" in patch for patch in self.container_patches)


GANG_BOUNDS = (
    ("giveUpAfter", "startFailures"),
    ("giveUpAfter", "startSeconds"),
    ("giveUpAfter", "disruptions"),
    ("backoffResetSeconds",),
    ("avoidNodes",),
)
"""Fields of `runPolicy` that have an effect only on roles that restart together."""


class GiveUpAfter(NamedTuple):
    """Limits after which the supervisor ends a job that cannot continue; 0 for no limit.

    Attributes:
        crashes: number of crashes of a server replica that crash-loops.
        image_pull_seconds: time during which an image cannot be pulled, a container cannot be
            created or a volume cannot be mounted.
        pending_seconds: time during which a pod cannot be created or scheduled.
        start_failures: number of failures of a gang in a row, with the same exit code, each soon
            after its start.
        start_seconds: time that a container must run to count as started.
        disruptions: number of disruptions of a gang.
    """

    crashes: int = 5
    image_pull_seconds: int = 21600
    pending_seconds: int = 0
    start_failures: int = 3
    start_seconds: int = 60
    disruptions: int = 1000


class Progress(NamedTuple):
    """How the supervisor follows the progress of training. Times are in seconds.

    Attributes:
        start_seconds: longest time from the start of all replicas to the first report; None for no
            limit.
        stalled_seconds: longest time without a report; None for no limit.
        on_stall: whether to report a stalled job, or also to restart it.
        file: path of a file in a volume that the training program writes.
    """

    start_seconds: int | None = None
    stalled_seconds: int | None = None
    on_stall: Literal["Report", "Restart"] = "Report"
    file: str | None = None


class ServerPolicy(NamedTuple):
    """The NetworkPolicy of the supervisor's port.

    Attributes:
        also_from: the clients that may connect, in addition to the pods of the job.
    """

    also_from: tuple[Mapping[str, Any], ...] = ()


SERVER_PORT = 8080
"""The port of the supervisor's HTTP server, unless `runPolicy.metricsPort` sets it."""


class RunPolicy(NamedTuple):
    """Policies for the whole job. Times are in seconds.

    Attributes:
        restart_scope: the replicas to restart when one fails: `Replica`, `All`, or these roles.
        backoff_limit: None if the job file does not set it; see `retries`.
        backoff_reset_seconds: time that all replicas of a gang must run before earlier failures no
            longer count; 0 for never.
        avoid_nodes: how a gang that restarts avoids the nodes that failed; None if the job file
            does not set it. Then it depends on the version of Kubernetes.
        give_up_after: None if the job file does not set it. A supervisor then uses the defaults.
        force_delete_after_seconds: time after its grace period until a terminating pod of a
            StatefulSet is deleted without its node; None for never.
        metrics_port: of the supervisor.
        network_policy: None if any pod may connect to the supervisor.
        progress: None if the supervisor does not follow the progress of training.
        restart_mode: whether a gang restarts with new pods, or in its pods.
        keep_last_log: whether the supervisor keeps the last lines of a replica that failed.
    """

    clean_pod_policy: str = "None"
    restart_scope: str | tuple[str, ...] = "Replica"
    backoff_limit: int | None = None
    backoff_reset_seconds: int = 3600
    avoid_nodes: Literal["Preferred", "Required", "Never"] | None = None
    give_up_after: GiveUpAfter | None = None
    force_delete_after_seconds: int | None = None
    metrics_port: int | None = None
    network_policy: ServerPolicy | None = None
    progress: Progress | None = None
    restart_mode: Literal["Recreate", "InPlace"] = "Recreate"
    keep_last_log: bool = True
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str | None = None

    @property
    def retries(self) -> int:
        """The number of retries of failed replicas, for roles that retry. Kubernetes' default is 6.

        https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
        """
        return 6 if self.backoff_limit is None else self.backoff_limit

    @property
    def has_requests(self) -> bool:
        """True if replicas send requests to the supervisor."""
        return self.progress is not None or self.restart_mode == "InPlace"

    @property
    def port(self) -> int | None:
        """The port of the supervisor's HTTP server; None if it needs none."""
        return self.metrics_port or (SERVER_PORT if self.has_requests else None)


class SuccessPolicy(NamedTuple):
    """The condition for the job's success.

    Attributes:
        role: the deciding role; None for the framework's default.
        replicas: `All`, `First` (replica 0) or a number of replicas.
        roles: several deciding roles; () if there is only one.
        operator: whether `All` or `Any` of these must succeed.
    """

    role: str | None = None
    replicas: str | int | None = None
    roles: tuple[str, ...] = ()
    operator: Literal["All", "Any"] = "All"


class WaitPolicy(NamedTuple):
    """How long replicas wait for their peers, in seconds; None for no limit."""

    timeout_seconds: int | None = None


class HostPorts(NamedTuple):
    """The range of node ports for replicas, `base` to `base + size - 1`."""

    base: int = 20000
    size: int = 10000
    allow_reserved: bool = False


class Rdma(NamedTuple):
    """RDMA hardware, by its names in the cluster.

    Attributes:
        resource: the extended resource of the device plugin.
        networks: NetworkAttachmentDefinitions that Multus attaches.
        interface: the network interface over which NCCL sets up connections.
        hca: the name prefix of the RDMA adapters that NCCL uses.
    """

    mode: Literal["none", "host", "sriov", "shared"] = "none"
    resource: str | None = None
    networks: tuple[str, ...] = ()
    interface: str | None = None
    hca: str | None = None


class Network(NamedTuple):
    """The network of the replicas, and their addresses in it.

    Attributes:
        host: None if the job file does not set it; see `on_host`.
    """

    cluster_domain: str | None = None
    subdomain: str | None = None
    host: bool | None = None
    host_ports: HostPorts | None = None
    mesh: Literal["none", "native"] = "none"
    rdma: Rdma = Rdma()

    @property
    def on_host(self) -> bool:
        """True if the pods use the network of their nodes."""
        return self.rdma.mode == "host" if self.host is None else self.host


class Placement(NamedTuple):
    """Spread the job's pods over topology domains.

    Attributes:
        key: the node label that contains the domain.
    """

    key: str
    mode: Literal["required", "preferred"] = "required"


class Slice(NamedTuple):
    """Place each `size` consecutive replicas of a role in one domain of the node label `key`."""

    key: str
    size: int


class Together(NamedTuple):
    """Place the job's pods in one topology domain.

    Attributes:
        key: the node label that contains the domain.
        tier: the number or name of the highest tier of Volcano's HyperNodes.
        name: the Topology of KAI with the node label.
        slice: smaller domains, with Kueue.
    """

    key: str | None = None
    mode: Literal["required", "preferred"] = "required"
    tier: int | str | None = None
    name: str | None = None
    slice: Slice | None = None


class Scheduling(NamedTuple):
    """How the job's pods are scheduled. `min_member` is a number of pods."""

    gang: Literal["none", "kubernetes", "volcano", "coscheduling", "kueue", "kai"] = "none"
    queue: str | None = None
    priority_class_name: str | None = None
    min_member: int | None = None
    min_resources: Mapping[str, str] | None = None
    schedule_timeout_seconds: int | None = None
    scheduler_name: str | None = None
    safe_to_evict: bool | None = None
    disruption: Literal["Pod", "All"] = "Pod"
    topology: Together | None = None
    spread: Placement | None = None


class Security(NamedTuple):
    """The PodSecurity level that the pods must meet, and the user and groups that they run as."""

    profile: Literal["restricted", "baseline", "privileged"] | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None


class Tensorboard(NamedTuple):
    """A TensorBoard server for the job.

    Attributes:
        image: None to use the training image.
    """

    log_dir: str
    image: str | None = None
    port: int = 6006
    resources: Mapping[str, dict[str, str]] = {}


class Helpers(NamedTuple):
    """Settings of the pods and containers that mlgen adds.

    Attributes:
        supervisor_image: an image that contains mlgen. With it, the program of the supervisor is
            not rendered.
        run_as_user: `Cluster` if the cluster assigns the user.
        run_as_group: None for the same number as the default user, or none with `Cluster`.
        tolerations: None for the tolerations of the deciding role's pods.
    """

    wait_image: str = "busybox:1.36"
    kubectl_image: str = "alpine/kubectl:1.34.2"
    git_image: str = "alpine/git:2.49.1"
    python_image: str = "python:3.13.9-alpine"
    supervisor_image: str | None = None
    run_as_user: int | Literal["Cluster"] = 65534
    run_as_group: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, Any], ...] | None = None
    priority_class_name: str | None = None
    resources: Mapping[str, dict[str, str]] = {}


class TrainingJob(NamedTuple):
    """One training job.

    Attributes:
        roles: by name, without those that have 0 replicas.
        name_suffix: `hash` if a hash of the pod templates and files is to be appended to the name.
        part_of: the name in the job file, if `name` has a suffix: a hash, or the values of a
            combination of `spec.matrix`.
        hashed: True if `name` has a hash.
        options: of the framework, as in the job file, without defaults.
        volumes: the volumes of all roles. Each RoleSpec also contains them.
        claims: the specs of the PersistentVolumeClaims to create, by name.
        supervisor: True if mlgen may add a supervisor.
        workflow: True if an Argo workflow runs the job, and cleans up after it.
        jobset: True if JobSet's controller runs the job, restarts it and cleans up after it.
        converted: True if the job file was converted from an operator's custom resource.
        unwritten: the roles whose restart policy is the default of that operator.
    """

    name: str
    framework: str
    roles: Mapping[str, RoleSpec]
    namespace: str | None = None
    name_suffix: str | None = None
    part_of: str | None = None
    hashed: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    empty_roles: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    run_policy: RunPolicy = RunPolicy()
    success_policy: SuccessPolicy = SuccessPolicy()
    wait: WaitPolicy = WaitPolicy()
    network: Network = Network()
    scheduling: Scheduling = Scheduling()
    security: Security = Security()
    tensorboard: Tensorboard | None = None
    volumes: Mapping[str, Mapping[str, Any]] = {}
    claims: Mapping[str, Mapping[str, Any]] = {}
    helpers: Helpers = Helpers()
    supervisor: bool = True
    workflow: bool = False
    jobset: bool = False
    converted: bool = False
    unwritten: frozenset[str] = frozenset()

    @property
    def written_name(self) -> str:
        """The name in the job file, without a hash and the values of a matrix."""
        return self.part_of or self.name

    @property
    def subdomain(self) -> str:
        """The subdomain of the pods, which is also the name of their headless Service.

        A suffix of the job's name is also one of this name, because several jobs can be in use.
        """
        suffix = self.name.removeprefix(self.part_of) if self.part_of else ""
        return f"{self.network.subdomain}{suffix}" if self.network.subdomain else self.name

    @property
    def watched(self) -> bool:
        """True if a supervisor, a workflow or JobSet may watch the job while it runs."""
        return self.supervisor or self.workflow or self.jobset

    @property
    def decides_together(self) -> bool:
        """True if several roles determine the outcome together."""
        return self.watched and bool(self.success_policy.roles)

    @property
    def replicas(self) -> int:
        """The number of replicas of all roles."""
        return sum(role.replicas for role in self.roles.values())


def written(part: Any) -> dict[str, Any]:
    """Return the fields of a part of a job that differ from their defaults, as in a job file.

    A default that the user has written is also omitted.
    """
    values = {}
    for name, default in _defaults(part.__class__).items():
        value = getattr(part, name)
        if value != default:
            head, *rest = name.split("_")
            values[head + "".join(map(str.capitalize, rest))] = value
    return values


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the defaults of a class of parts by field; MISSING for a field that has none."""
    if issubclass(kind, RoleSpec):
        rows = (each for each in fields(kind) if each.compare)
        return {
            row.name: row.default if row.default_factory is MISSING else row.default_factory()
            for row in rows
        }
    return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}


Templates = tuple[Mapping[str, Any], ...]


def is_gpu(resource: str) -> bool:
    """Return True for a GPU of any vendor, a part of a GPU, or any resource of nvidia.com."""
    return "gpu" in resource.rpartition("/")[2] or "nvidia.com/" in resource


def has_gpus(resources: Resources, templates: Templates) -> bool:
    """Return True if `resources` or a container of a template has a limit for GPUs."""
    limits = set(resources.get("limits", {}))
    for template in templates:
        for container in containers_of(template):
            limits |= set(_limits(container))
    return any(map(is_gpu, limits))


def has_devices(spec: RoleSpec) -> bool:
    """Return True if a container of a role requests a device of any kind.

    Devices are extended resources, such as `aliyun.com/gpu-mem`, and resource claims.
    """
    pods: list[Mapping[str, Any]] = [template.get("spec") or {} for template in spec.templates]
    containers = [container for template in spec.templates for container in containers_of(template)]
    resources = [spec.resources, *(container.get("resources") or {} for container in containers)]
    claims = any(each.get("claims") for each in resources) or any(
        pod.get("resourceClaims") for pod in pods
    )
    amounts = [each.get(kind) or {} for each in resources for kind in ("limits", "requests")]
    return claims or any("/" in name for by_name in amounts for name in by_name)


def gpu_count(spec: RoleSpec) -> int:
    """Return the number of GPUs of the training container; 0 for none, or for parts of GPUs.

    Only whole GPUs count, such as `nvidia.com/gpu`. The number of processes per
    `aliyun.com/gpu-mem` depends on the device plugin.
    """
    return _amount_of(spec, WHOLE_GPU)


WHOLE_GPU = r"(.*/)?gpu"

DEVICES = (
    rf"{WHOLE_GPU}|nvidia\.com/mig-\d+g\.\d+gb(\.me)?|huawei\.com/Ascend\w+|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/neuroncore"
)
"""Resources of which two processes cannot share one: GPUs, MIG slices, NPUs and chips of TPUs.

https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, and "one process per device" in
https://docs.pytorch.org/xla/release/r2.7/_sources/learn/pjrt.md.txt.
"""


def process_devices(spec: RoleSpec) -> int:
    """Return the number of `DEVICES` of the training container, each for one process.

    0 for none, for parts of GPUs, and if processes share them by MPS:
    https://docs.nvidia.com/deploy/mps/
    """
    return (
        0
        if re.search("nvidia-cuda-mps-control|CUDA_MPS_", repr(spec))
        else _amount_of(spec, DEVICES)
    )


def _amount_of(spec: RoleSpec, pattern: str) -> int:
    """Return the sum of a container's resources with these names; 0 if it has parts of GPUs."""
    limits: dict[str, Any] = dict(spec.resources.get("limits", {}))
    for container in spec.container_patches:
        limits |= _limits(container)
    names = [name for name in limits if is_gpu(name) or re.fullmatch(pattern, name)]
    whole = all(re.fullmatch(pattern, name) for name in names)
    return sum(natural(str(limits[name])) or 0 for name in names) if whole else 0


def without_gpus(spec: RoleSpec) -> RoleSpec:
    """Return a role without the GPUs in its `resources`. GPUs in its templates remain."""
    amounts = {kind: dict(by_name) for kind, by_name in spec.resources.items()}
    kept = {
        kind: {name: amount for name, amount in by_name.items() if not is_gpu(name)}
        for kind, by_name in amounts.items()
    }
    if kept == amounts:
        return spec
    resources = {kind: by_name for kind, by_name in kept.items() if by_name}
    gpus = has_gpus(resources, spec.templates)
    return replace(spec, resources=resources, gpus=gpus, without_gpus=True)


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the limits of a container."""
    return (container.get("resources") or {}).get("limits") or {}
