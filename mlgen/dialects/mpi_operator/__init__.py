"""MPI operator: MPIJobs of kubeflow.org, of all versions and of both operators that had them.

Read off kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1, pkg/webhooks/mpi and
pkg/controller.v1/mpi (v1), and off kubeflow/mpi-operator: 0.8, pkg/apis/kubeflow/validation and
pkg/controller (v2beta1); 0.3, pkg/controllers/v1; 0.2.3, pkg/controllers/v1alpha2 and v1alpha1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._kubeflow_common import (
    INLINE,
    REPLICA,
    RUN_POLICY,
    SCHEDULING,
    policy,
    run_policy,
)
from mlgen.dialects._schemas import COUNT, SWITCH, TEMPLATE, TEXT, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.jobfile.model import RunPolicy

TRAINING_OPERATOR = "kubeflow.org/training-operator"
MPI_OPERATOR = "kubeflow.org/mpi-operator"

DISCOVER_HOSTS = "/etc/mpi/discover_hosts.sh"

VISIBLE_GPUS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

OWN_ENV: dict[str, dict[str, tuple[str, ...]]] = {
    "kubectl-exec": {
        "OpenMPI": ("OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile"),
        "Intel": ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_HOST_FILE"),
        "MPICH": ("HYDRA_LAUNCHER_EXEC", "HYDRA_HOST_FILE"),
    },
    "ssh": {
        "OpenMPI": (
            "OMPI_MCA_orte_keep_fqdn_hostnames",
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_plm_rsh_args",
            "OMPI_MCA_orte_set_default_slots",
        ),
        "Intel": (
            "I_MPI_HYDRA_HOST_FILE",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
            "I_MPI_PERHOST",
        ),
        "MPICH": ("HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS"),
    },
}
"""Variables of the launcher that an operator writes after the user's, so that its own count."""

HYDRA_ENV = {
    "I_MPI_HYDRA_BOOTSTRAP": "rsh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
}
"""Those that the training operator writes for Intel MPI too, where the user does not."""

SSHD_PORT = re.compile(r"\bsshd\b.*?\s(?:-p\s*|-o\s*[\"']?Port[\s=]\s*)(\d+)", re.DOTALL)
SSH_PORTS = (22, 2222)

UNITS_PER_NODE = {"gpus": 8, "processingUnits": 1}
"""What a node has where the resource does not say: the operator was told when it was started.

The manifests that it was installed with say 8 GPUs (deploy/3-mpi-operator.yaml, and Kubeflow's own
kubeflow/mpi-job/prototypes); of other units they say nothing, and the flag's default is 1.
"""

MASTER_NODES = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
"""The label and taint that the operator knew, and what Kubernetes calls it since 1.24."""


def _v1(builder: Builder) -> None:
    found = _replicas(builder, "kubectl-exec")
    launcher = found["launcher"]
    restart = launcher.get("restartPolicy")
    builder.put(("spec", "roles", "launcher", "restartPolicy"), restart, restart.value or "Never")
    workers = found.get("worker", SourceValue(None)).get("restartPolicy")
    if workers.value not in (None, "Always"):
        builder.differs(
            workers,
            f"a worker that fails is started again here, not left to {workers.value}: kubectl exec"
            " needs pods of fixed names, and a StatefulSet always restarts them",
            "leave it out; when mpirun loses a worker, the launcher fails, and the job with it",
        )
    _framework(builder, "kubectl-exec", found, launcher_works=_has_gpus(launcher))
    for name, value in HYDRA_ENV.items():
        if name not in builder.roles["launcher"].get("env", {}) and "worker" in found:
            builder.put(("spec", "roles", "launcher", "env", name), launcher, value)
    run_policy(builder, found, TRAINING_OPERATOR, endless=restart.value not in (None, "Never"))


def _v1alpha2(builder: Builder) -> None:
    found = _replicas(builder, "kubectl-exec")
    _launcher_job(builder, found["launcher"].get("restartPolicy"))
    distribution = builder.spec.get("mpiDistribution")
    if distribution:
        name = DISTRIBUTIONS[distribution.value]
        builder.put(("spec", "options", "implementation"), distribution, name)
    _framework(builder, "kubectl-exec", found)
    run_policy(builder, found, MPI_OPERATOR, endless=False)


def _v2beta1(builder: Builder) -> None:
    found = _replicas(builder, "ssh")
    spec, worker = builder.spec, found.get("worker")
    _launcher_job(builder, found["launcher"].get("restartPolicy"))
    builder.put(("spec", "options", "implementation"), spec.get("mpiImplementation"))
    launcher_works = bool(spec.get("runLauncherAsWorker").value)
    _framework(builder, "ssh", found, launcher_works=launcher_works)
    for role, given in found.items():
        builder.put(("spec", "roles", role, "env", "K_MPI_JOB_ROLE"), given, role)
        if given.get("template", "spec", "hostNetwork").value:
            at = ("spec", "roles", role, "template", "spec", "dnsPolicy")
            builder.put(at, given, "ClusterFirstWithHostNet")
    if worker:
        _ssh(builder, worker)
    run_policy(builder, found, MPI_OPERATOR, endless=False)
    queue = builder.given.get("metadata", "annotations", "scheduling.volcano.sh/queue-name")
    scheduling = builder.data["spec"].get("scheduling", {})
    if scheduling.get("gang") == "volcano" and "queue" not in scheduling:
        builder.put(("spec", "scheduling", "queue"), queue)


def _launcher_job(builder: Builder, restart: SourceValue) -> None:
    """Write the restart policy of a launcher that is a Job in the operator too.

    Under Never such a Job still makes new pods, as often as backoffLimit says.
    """
    never = restart.value == "Never"
    builder.put(
        ("spec", "roles", "launcher", "restartPolicy"), restart, "Never" if never else "OnFailure"
    )
    if never:
        limit = policy(builder.spec, "backoffLimit")
        retries = RunPolicy().backoff_limit if limit.value is None else limit.value
        builder.put(("spec", "roles", "launcher", "backoffLimit"), limit or restart, retries)


def _replicas(builder: Builder, transport: str) -> dict[str, SourceValue]:
    """Write the roles; return the replica types by role, without one of no replicas."""
    specs = builder.spec.get("mpiReplicaSpecs")
    launcher, worker = specs.get("Launcher"), specs.get("Worker")
    if launcher.get("replicas").value not in (None, 1):
        hint = "leave replicas out"
        builder.refuse(launcher.get("replicas"), "there can be one Launcher only", hint)
    if transport == "ssh" and worker and not worker.get("replicas").value:
        given = worker.get("replicas")
        message = "a Worker has one replica or more, and must say how many"
        builder.refuse(given or worker, message, "write replicas, or leave Worker out")
    found = {"launcher": launcher}
    if worker.get("replicas").value:
        found["worker"] = worker
    for role, given in found.items():
        main = _main_container(builder, role, given.get("template"))
        if role == "worker" and transport == "kubectl-exec":
            main = _without_lone_args(builder, main)
        builder.role(role, given.get("template"), main)
    if "worker" in found:
        builder.put(("spec", "roles", "worker", "replicas"), worker.get("replicas"))
    return found


def _main_container(builder: Builder, role: str, template: SourceValue) -> SourceValue:
    """Return the container that `mainContainer` names, else the first."""
    containers = template.get("spec", "containers")
    for container in containers.items():
        if not container.get("image").value:
            builder.refuse(container, "the container has no image", "write image")
    name = builder.spec.get("mainContainer")
    for container in containers.items():
        if name and container.value["name"] == name.value:
            return container
    if name.value and role == "worker":
        message = f'no container of the Worker has the name "{name.value}"'
        builder.refuse(name, message, "name the container in which mpirun starts processes")
    return containers.get(0)


def _without_lone_args(builder: Builder, main: SourceValue) -> SourceValue:
    """A worker without a command sleeps, and the operator overwrites its arguments then too."""
    if main.get("command").value or not main.get("args").value:
        return main
    message = "the operator lets a worker without a command sleep, and drops its arguments"
    builder.differs(main.get("args"), message, "leave them out, or write command")
    return _without(main, "args")


def _without(given: SourceValue, *names: str) -> SourceValue:
    return SourceValue({k: v for k, v in given.value.items() if k not in names}, given.path)


def _framework(
    builder: Builder,
    transport: str,
    found: Mapping[str, SourceValue],
    *,
    launcher_works: bool = False,
) -> None:
    """Write the framework and its options, once the roles are there.

    Args:
        builder: is written to.
        transport: how mpirun reaches the workers.
        found: the replica types by role.
        launcher_works: mpirun starts processes in the launcher too.
    """
    spec, kind = builder.spec, builder.given.get("kind")
    slots = spec.get("slotsPerWorker")
    hidden = not launcher_works and not _has_gpus(found["launcher"])
    _launcher_env(builder, transport, hidden=hidden, alone="worker" not in found)
    if "worker" not in found:
        # Without workers mpirun starts all processes where it is: that is a Job like any other.
        builder.data["spec"].pop("options", None)
        builder.put(("spec", "framework"), kind, "generic")
        if launcher_works and slots:
            at = ("spec", "roles", "launcher", "env", "OMPI_MCA_orte_set_default_slots")
            builder.put(at, slots, str(slots.value))
        return
    elastic = DISCOVER_HOSTS in _words(builder.roles["launcher"])
    builder.put(("spec", "framework"), kind, "horovod" if elastic else "mpi")
    if transport == "ssh":
        builder.put(("spec", "options", "transport"), kind, "ssh")
    builder.put(("spec", "options", "slotsPerWorker"), slots)
    if launcher_works:
        source = spec.get("runLauncherAsWorker") or found["launcher"]
        builder.put(("spec", "options", "runLauncherAsWorker"), source, value=True)
    if elastic:
        _elastic(builder, found["launcher"], int(launcher_works))


def _launcher_env(builder: Builder, transport: str, *, hidden: bool, alone: bool) -> None:
    """Take away the user's values of what the operator writes over.

    Args:
        builder: is written to.
        transport: how mpirun reaches the workers.
        hidden: the launcher is not to see the GPUs of its node.
        alone: there are no workers, so that no framework hides them.
    """
    implementation = builder.data["spec"].get("options", {}).get("implementation", "OpenMPI")
    env = builder.roles["launcher"].get("env", {})
    own = OWN_ENV[transport][implementation]
    kept = {name: value for name, value in env.items() if name not in own}
    if hidden:
        kept |= {name: "" for name in VISIBLE_GPUS if alone or name in env}
    if kept:
        builder.roles["launcher"]["env"] = kept
    else:
        builder.roles["launcher"].pop("env", None)


def _has_gpus(given: SourceValue) -> bool:
    """As the training operator knows a launcher with GPUs, which then gets processes too."""
    limits: set[str] = set()
    for container in given.get("template", "spec", "containers").items():
        limits |= set(container.get("resources", "limits").value or {})
    return any("gpu" in name for name in limits)


def _words(role: Mapping[str, Any]) -> str:
    return " ".join([*role.get("command", []), *role.get("args", [])])


def _elastic(builder: Builder, launcher: SourceValue, working: int) -> None:
    """Write how many workers there may be, by the numbers of processes that horovodrun is told.

    Args:
        builder: is written to.
        launcher: the replica type.
        working: launchers that have slots too.
    """
    words = _words(builder.roles["launcher"])
    slots = builder.spec.get("slotsPerWorker").value or 1
    replicas = builder.roles["worker"]["replicas"]
    least, most = (_processes(words, name) for name in ("min", "max"))
    lower = 1 if least is None else -(-least // slots) - working
    upper = 0 if most is None else most // slots - working
    for name, value in (
        ("minReplicas", min(max(lower, 1), replicas)),
        ("maxReplicas", max(upper, replicas)),
    ):
        builder.put(("spec", "options", "elastic", name), launcher, value)


def _processes(words: str, bound: str) -> int | None:
    """Return an argument of horovodrun, under its name of today or of before."""
    found = re.search(rf"--{bound}-(?:np|num-proc)[\s=]+(\d+)", words)
    return int(found[1]) if found else None


def _ssh(builder: Builder, worker: SourceValue) -> None:
    """Write how the workers serve; the keys are for the user to make."""
    restart = worker.get("restartPolicy")
    builder.put(("spec", "roles", "worker", "restartPolicy"), restart)
    if restart.value == "OnFailure":
        builder.put(("spec", "roles", "worker", "backoffLimit"), restart, ENDLESS)
    builder.put(("spec", "options", "sshAuthMountPath"), builder.spec.get("sshAuthMountPath"))
    main = worker.get("template", "spec", "containers", 0)
    port = next(_ssh_ports(main, _words(builder.roles["worker"])), None)
    if port:
        builder.put(("spec", "roles", "worker", "port"), port)
    namespace = builder.given.get("metadata", "namespace").value
    within = f" -n {namespace}" if namespace else ""
    builder.differs(
        builder.spec,
        f"the operator makes the job's ssh keys; no pod starts before there is {builder.name}-ssh",
        f"run once: mlgen ssh-secret{within} {builder.name}-ssh | kubectl apply -f -",
    )


def _ssh_ports(main: SourceValue, words: str) -> Iterator[SourceValue]:
    """Return each sign of where sshd listens, the surest first."""
    told = SSHD_PORT.search(words)
    if told:
        yield SourceValue(int(told[1]), main.get("args" if main.get("args") else "command").path)
    ports = list(main.get("ports").items())
    for port in ports:
        number = port.get("containerPort")
        if "ssh" in port.value.get("name", "") or number.value in SSH_PORTS:
            yield number
    probed = main.get("readinessProbe", "tcpSocket", "port")
    if isinstance(probed.value, int):
        yield probed
    if words and len(ports) == 1:
        yield ports[0].get("containerPort")


def _v1alpha1(builder: Builder) -> None:
    """One template for both roles; the workers are as many as hold all processing units."""
    spec = builder.spec
    template, main = spec.get("template"), spec.get("template", "spec", "containers", 0)
    found = {"launcher": spec}
    workers, units = _units(builder, main)
    builder.role("launcher", template, _without(main, "resources"))
    _launcher_job(builder, template.get("spec", "restartPolicy"))
    if workers:
        found["worker"] = spec
        builder.role(
            "worker", template, _without(_with_units(spec, main, units), "command", "args")
        )
        builder.put(("spec", "roles", "worker", "replicas"), workers)
    if spec.get("launcherOnMaster").value:
        _on_master(builder, spec.get("launcherOnMaster"))
    _framework(builder, "kubectl-exec", found)
    if workers and not spec.get("slotsPerWorker"):
        builder.put(("spec", "options", "slotsPerWorker"), units)
    run_policy(builder, found, MPI_OPERATOR, endless=False)


def _units(builder: Builder, main: SourceValue) -> tuple[SourceValue, SourceValue]:
    """Return how many workers there are, and how many units each has; neither may be given."""
    spec, nothing = builder.spec, SourceValue(None)
    given = [spec.get(name) for name in ("gpus", "processingUnits", "replicas")]
    totals = [total for total in given if total]
    if len(totals) > 1:
        message = "gpus, processingUnits and replicas are three ways to say the same"
        builder.refuse(totals[1], message, "keep one of them")
    if not totals or len(totals) > 1:
        return nothing, nothing
    (total,) = totals
    field = str(total.path[-1])
    if field == "replicas":
        limit = main.get("resources", "limits", _unit(spec))
        count = str(limit.value)
        return total, SourceValue(int(count), limit.path) if count.isdecimal() else nothing
    per_node = spec.get(f"{field}PerNode")
    most = per_node.value or UNITS_PER_NODE[field]
    workers = max(total.value // most, 1)
    if total.value > most and total.value % most:
        message = f"{total.value} is no multiple of the {most} that a node has"
        builder.refuse(total, message, f"change it, or write {field}PerNode")
    if not per_node:
        message = f"how many a node has only the operator was told; it is taken for {most} here"
        builder.differs(total, message, f"write {field}PerNode")
    return SourceValue(workers, total.path), SourceValue(min(total.value, most), total.path)


def _unit(spec: SourceValue) -> str:
    return spec.get("processingResourceType").value or "nvidia.com/gpu"


def _with_units(spec: SourceValue, main: SourceValue, units: SourceValue) -> SourceValue:
    """The container with what each worker gets of the processing units."""
    if not units:
        return main
    limits = (main.get("resources", "limits").value or {}) | {_unit(spec): units.value}
    requests = dict(main.get("resources", "requests").value or {})
    requests.pop(_unit(spec), None)
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return SourceValue(main.value | {"resources": resources}, main.path)


def _on_master(builder: Builder, given: SourceValue) -> None:
    """Write what the operator puts in the place of the template's tolerations and affinity."""
    tolerations = [{"key": key, "effect": "NoSchedule"} for key in MASTER_NODES]
    builder.put(("spec", "roles", "launcher", "tolerations"), given, tolerations)
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in MASTER_NODES]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    builder.put(("spec", "roles", "launcher", "affinity"), given, {"nodeAffinity": required})


SLOTS = {"type": "integer", "minimum": 1}

DISTRIBUTIONS = {
    "OpenMPI": "OpenMPI",
    "IntelMPI": "Intel",
    "MPICH": "MPICH",
    "open_mpi": "OpenMPI",
    "intel_mpi": "Intel",
    "mpich": "MPICH",
}
"""Our names, by those of v1alpha2; the second three are of its first days."""


def _roles(replica: Mapping[str, Any]) -> dict[str, Any]:
    return mapping({"Launcher": replica, "Worker": replica}, "Launcher")


V1 = mapping(
    {
        "slotsPerWorker": SLOTS,
        "mainContainer": TEXT,
        "mpiReplicaSpecs": _roles(REPLICA),
        "runPolicy": RUN_POLICY,
        **{name: INLINE[name] for name in INLINE if name != "ttlSecondsAfterFinished"},
    },
    "mpiReplicaSpecs",
)

V1ALPHA2 = mapping(
    V1["properties"] | {"mpiDistribution": {"enum": list(DISTRIBUTIONS)}}, "mpiReplicaSpecs"
)

V1ALPHA1 = mapping(
    {
        "gpus": SLOTS,
        "gpusPerNode": SLOTS,
        "processingUnits": SLOTS,
        "processingUnitsPerNode": SLOTS,
        "processingResourceType": {"enum": ["", "nvidia.com/gpu", "cpu"]},
        "slotsPerWorker": SLOTS,
        "launcherOnMaster": SWITCH,
        "backoffLimit": COUNT,
        "activeDeadlineSeconds": COUNT,
        "replicas": COUNT,
        "template": TEMPLATE,
    },
    "template",
)

RESTARTS = {"restartPolicy": {"enum": ["Never", "OnFailure"]}}
POLICY = {
    "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
    "schedulingPolicy": SCHEDULING,
}

V2BETA1 = mapping(
    {
        "slotsPerWorker": SLOTS,
        "runLauncherAsWorker": SWITCH,
        "mpiReplicaSpecs": _roles(mapping(REPLICA["properties"] | RESTARTS, "template")),
        "runPolicy": mapping(RUN_POLICY["properties"] | POLICY),
        "sshAuthMountPath": {"type": "string", "pattern": "^/"},
        "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
        "waitForWorkers": SWITCH,
        "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
    },
    "mpiReplicaSpecs",
)

DIALECT = Dialect(
    groups=(),
    kinds={
        ("kubeflow.org/v1", "MPIJob"): Kind(V1, _v1),
        ("kubeflow.org/v2beta1", "MPIJob"): Kind(V2BETA1, _v2beta1),
        ("kubeflow.org/v1alpha2", "MPIJob"): Kind(V1ALPHA2, _v1alpha2),
        ("kubeflow.org/v1alpha1", "MPIJob"): Kind(V1ALPHA1, _v1alpha1),
    },
)
