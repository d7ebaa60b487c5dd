"""MPI operator: MPIJobs of kubeflow.org, in all versions and for both operators that run them.

The training operator runs v1. The MPI operator runs v2beta1 and, in earlier releases, v1, v1alpha2
and v1alpha1. v2beta1 uses SSH, the other versions use `kubectl exec`. A v1alpha1 MPIJob consists of
one template and a number of GPUs, the others of a Launcher and a Worker.

Read from kubeflow/training-operator 1.9, pkg/webhooks/mpi and pkg/controller.v1/mpi (v1), and from
kubeflow/mpi-operator: 0.8, pkg/apis/kubeflow/validation and pkg/controller (v2beta1); 0.3,
pkg/controllers/v1; 0.2.3, pkg/controllers/v1alpha2 and v1alpha1.
"""

from collections.abc import Iterator, Mapping
from shlex import quote

from mlgen.dialects._builder import ENDLESS, NOTHING, Builder, SourceValue, no_ssh_keys
from mlgen.dialects._kubeflow_common import (
    Rules,
    dialect,
    has_gpus,
    policy_field,
    require_one,
    run_policy,
    warn_of_container,
    warn_of_template,
    warn_of_worker_restarts,
    with_job_label,
    write_slots,
)
from mlgen.dialects._schemas import read
from mlgen.jobfile.model import RunPolicy
from mlgen.kubernetes.quantity import natural
from mlgen.launch.line import Lines, container_lines

FACTS = read("mpi_operator.json")

DISTRIBUTIONS: dict[str, str] = FACTS["distributions"]
"""The job file's `implementation`, by `mpiDistribution`. Older versions use lowercase names."""

DISCOVER_HOSTS = "/etc/mpi/discover_hosts.sh"

VISIBLE_GPUS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

OPERATOR_ENV: dict[str, dict[str, list[str]]] = FACTS["overwritten"]
"""The launcher's variables that an operator appends to the user's, by transport and implementation.

The operator's values override the user's.
"""

HYDRA_ENV = {
    "I_MPI_HYDRA_BOOTSTRAP": "rsh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
}
"""Variables for Intel MPI that the training operator also sets, unless the user does."""

SSH_PORTS = (22, 2222)


def write_job(builder: Builder, rules: Rules) -> None:
    """Write an MPIJob of any version."""
    version = builder.resource.get("apiVersion").value.rpartition("/")[2]
    if version == "v1alpha1":
        _write_one_template(builder, rules)
        return
    replica_types = _write_roles(builder, rules)
    launcher, worker = replica_types["launcher"], replica_types.get("worker")
    restart, launcher_works = launcher.get("restartPolicy"), builder.spec.get("runLauncherAsWorker")
    if version == "v1":
        policy = restart.value or "Never"
        builder.put(("spec", "roles", "launcher", "restartPolicy"), restart, policy)
        if worker:
            warn_of_worker_restarts(builder, worker.get("restartPolicy"))
        launcher_works = SourceValue(has_gpus(launcher), launcher.path)
    else:
        _write_launcher_restarts(builder, restart)
        worker_restart = worker.get("restartPolicy") if worker else NOTHING
        if rules.transport != "ssh" and worker_restart.value in ("Never", "ExitCode"):
            builder.warn(
                worker_restart,
                "a failed worker restarts, because mpirun needs all workers",
                "write restartPolicy: OnFailure. The launcher determines the outcome of the job",
            )
    _warn_of_templates(builder, replica_types, version)
    for name in ("mpiDistribution", "mpiImplementation"):
        source = builder.spec.get(name)
        implementation = DISTRIBUTIONS.get(source.value, source.value)
        builder.put(("spec", "options", "implementation"), source, implementation)
    _write_framework(builder, rules, replica_types, launcher_works)
    for name, value in HYDRA_ENV.items() if version == "v1" and worker else ():
        if name not in builder.roles["launcher"].get("env", {}):
            builder.put(("spec", "roles", "launcher", "env", name), launcher, value)
    if rules.transport == "ssh":
        _write_ssh(builder, replica_types)
    run_policy(builder, rules, replica_types)
    queue = builder.resource.get("metadata", "annotations", "scheduling.volcano.sh/queue-name")
    scheduling = builder.data["spec"].get("scheduling", {})
    if version == "v2beta1" and scheduling.get("gang") == "volcano" and "queue" not in scheduling:
        builder.put(("spec", "scheduling", "queue"), queue)


def _warn_of_templates(
    builder: Builder, replica_types: Mapping[str, SourceValue], version: str
) -> None:
    """Report restart policies in pod templates, which the operator overwrites."""
    for role, replica_type in replica_types.items():
        default = "OnFailure" if role == "launcher" and version != "v1" else "Never"
        policy = replica_type.get("restartPolicy").value or default
        warn_of_template(builder, replica_type.get("template"), policy)


def _write_launcher_restarts(builder: Builder, restart: SourceValue) -> None:
    """Write the restart policy of a launcher that the operator also runs as a Job.

    With Never, such a Job still creates new pods, up to `backoffLimit` times.
    """
    never = restart.value == "Never"
    policy = "Never" if never else "OnFailure"
    builder.put(("spec", "roles", "launcher", "restartPolicy"), restart, policy)
    if never:
        limit = policy_field(builder.spec, "backoffLimit")
        retries = RunPolicy().retries if limit.value is None else limit.value
        builder.put(("spec", "roles", "launcher", "backoffLimit"), limit or restart, retries)


def _write_roles(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Write the roles. Return the replica types by role, without a Worker that has 0 replicas."""
    specs = builder.spec.get("mpiReplicaSpecs")
    replica_types = {"launcher": specs.get("Launcher")}
    worker, replicas = specs.get("Worker"), specs.get("Worker", "replicas")
    require_one(builder, replica_types["launcher"], "Launcher")
    if replicas.value:
        replica_types["worker"] = worker
    elif rules.transport == "ssh":
        builder.refuse(
            replicas or worker,
            "the Worker requires replicas, at least 1",
            "set replicas, or remove the Worker",
        )
    for role, replica_type in replica_types.items():
        template = with_job_label(replica_type.get("template"))
        main = _main_container(builder, role, template)
        if main.get("command").value and not any(main.get("command").value):
            # The operator's example leaves the worker's command empty in this way.
            main = _without_fields(main, "command")
        command, args = main.get("command"), main.get("args")
        runs_sleep = role == "worker" and rules.transport != "ssh" and not command.value
        if runs_sleep and args.value:
            builder.warn(
                args,
                "the operator runs sleep in a worker without a command, and ignores its args",
                "remove args, or set command",
            )
            main = _without_fields(main, "args")
        builder.role(role, template, main)
    if replicas.value:
        builder.put(("spec", "roles", "worker", "replicas"), replicas)
    return replica_types


def _main_container(builder: Builder, role: str, template: SourceValue) -> SourceValue:
    """Return the container that `mainContainer` names, or the first."""
    containers, name = template.get("spec", "containers"), builder.spec.get("mainContainer")
    for container in containers.items():
        if not container.get("image").value:
            builder.refuse(container, "the container has no image", "set image")
    for container in containers.items():
        if name and container.value["name"] == name.value:
            return container
    if name.value and role == "worker" and len(containers.value) == 1:
        warn_of_container(builder, containers.get(0), name.value)
    elif name.value and role == "worker":
        builder.refuse(
            name,
            f'no container of the Worker has the name "{name.value}"',
            "name the container in which mpirun starts processes",
        )
    return containers.get(0)


def _without_fields(source: SourceValue, *names: str) -> SourceValue:
    """Return a mapping without these fields, at the same place."""
    fields = {name: value for name, value in source.value.items() if name not in names}
    return SourceValue(fields, source.path)


INDEX_LABEL = "training.kubeflow.org/replica-index"
"""The label with the index of a worker, from 1 if the launcher is a worker: workerReplicaIndexLabel
in pkg/controller/mpi_job_controller.go."""


def _write_framework(
    builder: Builder,
    rules: Rules,
    replica_types: Mapping[str, SourceValue],
    works: SourceValue = NOTHING,
) -> None:
    """Write the framework and its options.

    Args:
        builder: contains all roles.
        rules: of the kind.
        replica_types: by role.
        works: whether mpirun also starts processes in the launcher.
    """
    spec, kind = builder.spec, builder.resource.get("kind")
    launcher, slots = replica_types["launcher"], spec.get("slotsPerWorker")
    alone = "worker" not in replica_types
    _write_launcher_env(builder, rules, hide_gpus=not works.value and not has_gpus(launcher))
    if alone:
        # Without workers, mpirun starts all processes in its own pod, which is an ordinary Job.
        builder.data["spec"].pop("options", None)
        builder.put(("spec", "framework"), kind, "generic")
        if works.value and slots:
            path = ("spec", "roles", "launcher", "env", "OMPI_MCA_orte_set_default_slots")
            builder.put(path, slots, str(slots.value))
        return
    is_elastic = DISCOVER_HOSTS in container_lines(builder.roles["launcher"]).text
    builder.put(("spec", "framework"), kind, "horovod" if is_elastic else rules.framework)
    if rules.transport == "ssh":
        builder.put(("spec", "options", "transport"), kind, "ssh")
    if slots or not spec.get("template"):  # v1alpha1's default is the number of units
        write_slots(builder)
    if works.value:
        builder.put(("spec", "options", "runLauncherAsWorker"), works)
        if rules.transport == "ssh" and INDEX_LABEL in str(replica_types["worker"].value):
            builder.warn(
                replica_types["worker"].get("template"),
                "with runLauncherAsWorker, the label replica-index of the operator's workers "
                "begins at 1, but here at 0",
                "add 1 to it in the program",
            )
    if is_elastic:
        _write_elastic(builder, launcher, int(bool(works.value)))


def _write_launcher_env(builder: Builder, rules: Rules, *, hide_gpus: bool) -> None:
    """Remove the user's values of variables that the operator overwrites.

    Args:
        builder: contains the launcher.
        rules: of the kind.
        hide_gpus: True to hide the node's GPUs from the launcher.
    """
    implementation = builder.data["spec"].get("options", {}).get("implementation", "OpenMPI")
    launcher = builder.roles["launcher"]
    env = launcher.pop("env", {})
    overwritten = OPERATOR_ENV[rules.transport][implementation]
    kept = {name: value for name, value in env.items() if name not in overwritten}
    if hide_gpus:
        kept |= {name: "" for name in VISIBLE_GPUS if name in env}
    if kept:
        launcher["env"] = kept


def _write_elastic(builder: Builder, launcher: SourceValue, working_launchers: int) -> None:
    """Write the range of workers, from the numbers of processes in horovodrun's arguments.

    Args:
        builder: contains the roles.
        launcher: the replica type.
        working_launchers: the number of launchers that also have slots, 0 or 1.
    """
    launches = container_lines(builder.roles["launcher"]).launches
    slots = builder.spec.get("slotsPerWorker").value or 1
    replicas = builder.roles["worker"]["replicas"]
    least, most = (
        max((launch.number(bound) or 0 for launch in launches), default=0)
        for bound in ("min_np", "max_np")
    )
    lower = -(-least // slots) - working_launchers
    upper = most // slots - working_launchers
    path = ("spec", "options", "elasticPolicy")
    builder.put((*path, "minReplicas"), launcher, min(max(lower, 1), replicas))
    builder.put((*path, "maxReplicas"), launcher, max(upper, replicas))


def _write_ssh(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Write the fields for SSH, and warn that the user must create the keys."""
    for role, replica_type in replica_types.items():
        path = ("spec", "roles", role)
        builder.put((*path, "env", "K_MPI_JOB_ROLE"), replica_type, role)
        if replica_type.get("template", "spec", "hostNetwork").value:
            policy = "ClusterFirstWithHostNet"
            builder.put((*path, "template", "spec", "dnsPolicy"), replica_type, policy)
    if "worker" not in replica_types:
        return
    worker = replica_types["worker"]
    _write_worker_restarts(builder, worker.get("restartPolicy"))
    builder.put(("spec", "options", "sshAuthMountPath"), builder.spec.get("sshAuthMountPath"))
    main = worker.get("template", "spec", "containers", 0)
    port = next(_ssh_ports(main, container_lines(builder.roles["worker"])), None)
    if port:
        builder.put(("spec", "roles", "worker", "port"), port)
    namespace = builder.resource.get("metadata", "namespace").value
    option = f" -n {quote(str(namespace))}" if namespace else ""
    builder.warn(builder.spec, *no_ssh_keys("the operator", f"{builder.name}-ssh", option))


def _write_worker_restarts(builder: Builder, restart: SourceValue) -> None:
    """Write the restart policy of workers, if it is set. In the operator, each worker is a pod.

    With Never, a failed worker is not replaced. The other workers continue, and the launcher
    determines the outcome.
    """
    path = ("spec", "roles", "worker")
    builder.put((*path, "restartPolicy"), restart)
    if restart.value == "OnFailure":
        builder.put((*path, "backoffLimit"), restart, ENDLESS)
    elif restart.value == "Never":
        builder.put((*path, "backoffLimitPerIndex"), restart, 0)


def _ssh_ports(main: SourceValue, lines: Lines) -> Iterator[SourceValue]:
    """Yield each indication of the port that sshd listens on, the most reliable first.

    Without one, both sides of ssh use the port configured in the image, as with the operator.
    """
    if lines.sshd_port:
        yield SourceValue(lines.sshd_port, (main.get("args") or main.get("command")).path)
    for port in main.get("ports").items():
        number = port.get("containerPort")
        if "ssh" in port.value.get("name", "") or number.value in SSH_PORTS:
            yield number
    probed = main.get("readinessProbe", "tcpSocket", "port")
    if isinstance(probed.value, int):
        yield probed


UNITS_PER_NODE = {"gpus": 8, "processingUnits": 1}
"""The number of units per node if the resource does not set it, from an option of the operator.

The manifests that installed the operator set 8 GPUs (deploy/3-mpi-operator.yaml, and Kubeflow's
kubeflow/mpi-job/prototypes). They set no number of other units, so the default of 1 applies.
"""


def _write_one_template(builder: Builder, rules: Rules) -> None:
    """Write an MPIJob of v1alpha1: both roles share one template."""
    spec = builder.spec
    template, main = spec.get("template"), spec.get("template", "spec", "containers", 0)
    replica_types = {"launcher": spec}
    workers, units = _workers_and_units(builder, main)
    builder.role("launcher", template, _without_fields(main, "resources"))
    _write_launcher_restarts(builder, template.get("spec", "restartPolicy"))
    if workers:
        replica_types["worker"] = spec
        worker_main = _without_fields(_with_units(spec, main, units), "command", "args")
        builder.role("worker", template, worker_main)
        builder.put(("spec", "roles", "worker", "replicas"), workers)
    on_master = spec.get("launcherOnMaster")
    for name, value in FACTS["launcherOnMaster"].items() if on_master.value else ():
        builder.put(("spec", "roles", "launcher", name), on_master, value)
    _write_framework(builder, rules, replica_types)
    if workers and not spec.get("slotsPerWorker"):
        builder.put(("spec", "options", "slotsPerWorker"), units)
    run_policy(builder, rules, replica_types)
    if workers:  # the operator scales them to 0 when the launcher has ended
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), spec, "Running")


def _workers_and_units(builder: Builder, main: SourceValue) -> tuple[SourceValue, SourceValue]:
    """Return the number of workers and the units per worker. Both are false if not set."""
    spec = builder.spec
    fields = [spec.get(name) for name in ("gpus", "processingUnits", "replicas")]
    totals = [total for total in fields if total]
    if len(totals) > 1:
        builder.refuse(
            totals[1],
            "gpus, processingUnits and replicas are mutually exclusive",
            "keep one of them",
        )
    if len(totals) != 1:
        return NOTHING, NOTHING
    (total,) = totals
    field = str(total.path[-1])
    if field == "replicas":
        limit = main.get("resources", "limits", _unit(spec))
        count = natural(str(limit.value))
        return total, NOTHING if count is None else SourceValue(count, limit.path)
    per_node = spec.get(f"{field}PerNode")
    most = per_node.value or UNITS_PER_NODE[field]
    if total.value > most and total.value % most:
        builder.refuse(
            total,
            f"{total.value} is not a multiple of {most}, the number of {field} per node",
            f"write a multiple of {most}, or set {field}PerNode",
        )
    if not per_node:
        builder.warn(
            total,
            f"the operator's configuration sets the number of {field} per node; "
            f"mlgen assumes {most}",
            f"set {field}PerNode",
        )
    workers = max(total.value // most, 1)
    return SourceValue(workers, total.path), SourceValue(min(total.value, most), total.path)


def _unit(spec: SourceValue) -> str:
    """Return the name of the resource that units count."""
    return spec.get("processingResourceType").value or "nvidia.com/gpu"


def _with_units(spec: SourceValue, main: SourceValue, units: SourceValue) -> SourceValue:
    """Return the container with the units of one worker as a limit."""
    if not units:
        return main
    limits = (main.get("resources", "limits").value or {}) | {_unit(spec): units.value}
    requests = dict(main.get("resources", "requests").value or {})
    requests.pop(_unit(spec), None)
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return SourceValue(main.value | {"resources": resources}, main.path)


DIALECT = dialect("mpi_operator", write_job)
