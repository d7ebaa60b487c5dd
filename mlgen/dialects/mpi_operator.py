"""MPI operator: MPIJobs of kubeflow.org, of all versions and of both operators that had them.

Read off kubeflow/training-operator 1.9, pkg/apis/kubeflow.org/v1, pkg/webhooks/mpi and
pkg/controller.v1/mpi (v1), and off kubeflow/mpi-operator: 0.8, pkg/apis/kubeflow/validation and
pkg/controller (v2beta1); 0.3, pkg/controllers/v1; 0.2.3, pkg/controllers/v1alpha2 and v1alpha1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.draft import COUNT, ENDLESS, SWITCH, TEMPLATE, TEXT, Draft, Given, Kind, mapping
from mlgen.job import RunPolicy
from mlgen.kubeflow_common import INLINE, REPLICA, RUN_POLICY, SCHEDULING, policy, run_policy

GROUPS: tuple[str, ...] = ()

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


def _v1(draft: Draft) -> None:
    found = _replicas(draft, "kubectl-exec")
    launcher = found["launcher"]
    restart = launcher.get("restartPolicy")
    draft.put("spec.roles.launcher.restartPolicy", restart, restart.value or "Never")
    workers = found.get("worker", Given(None)).get("restartPolicy")
    if workers.value not in (None, "Always"):
        draft.differs(
            workers,
            f"a worker that fails is started again here, not left to {workers.value}: kubectl exec"
            " needs pods of fixed names, and a StatefulSet always restarts them",
            "leave it out; when mpirun loses a worker, the launcher fails, and the job with it",
        )
    _framework(draft, "kubectl-exec", found, launcher_works=_has_gpus(launcher))
    for name, value in HYDRA_ENV.items():
        if name not in draft.roles["launcher"].get("env", {}) and "worker" in found:
            draft.put(f"spec.roles.launcher.env.{name}", launcher, value)
    run_policy(draft, found, TRAINING_OPERATOR, endless=restart.value not in (None, "Never"))


def _v1alpha2(draft: Draft) -> None:
    found = _replicas(draft, "kubectl-exec")
    _launcher_job(draft, found["launcher"].get("restartPolicy"))
    distribution = draft.spec.get("mpiDistribution")
    if distribution:
        name = DISTRIBUTIONS[distribution.value]
        draft.put("spec.options.implementation", distribution, name)
    _framework(draft, "kubectl-exec", found)
    run_policy(draft, found, MPI_OPERATOR, endless=False)


def _v2beta1(draft: Draft) -> None:
    found = _replicas(draft, "ssh")
    spec, worker = draft.spec, found.get("worker")
    _launcher_job(draft, found["launcher"].get("restartPolicy"))
    draft.put("spec.options.implementation", spec.get("mpiImplementation"))
    launcher_works = bool(spec.get("runLauncherAsWorker").value)
    _framework(draft, "ssh", found, launcher_works=launcher_works)
    for role, given in found.items():
        draft.put(f"spec.roles.{role}.env.K_MPI_JOB_ROLE", given, role)
        if given.get("template", "spec", "hostNetwork").value:
            at = f"spec.roles.{role}.template.spec.dnsPolicy"
            draft.put(at, given, "ClusterFirstWithHostNet")
    if worker:
        _ssh(draft, worker)
    run_policy(draft, found, MPI_OPERATOR, endless=False)
    queue = draft.given.get("metadata", "annotations", "scheduling.volcano.sh/queue-name")
    scheduling = draft.data["spec"].get("scheduling", {})
    if scheduling.get("gang") == "volcano" and "queue" not in scheduling:
        draft.put("spec.scheduling.queue", queue)


def _launcher_job(draft: Draft, restart: Given) -> None:
    """Write the restart policy of a launcher that is a Job in the operator too.

    Under Never such a Job still makes new pods, as often as backoffLimit says.
    """
    never = restart.value == "Never"
    draft.put("spec.roles.launcher.restartPolicy", restart, "Never" if never else "OnFailure")
    if never:
        limit = policy(draft.spec, "backoffLimit")
        retries = RunPolicy().backoff_limit if limit.value is None else limit.value
        draft.put("spec.roles.launcher.backoffLimit", limit or restart, retries)


def _replicas(draft: Draft, transport: str) -> dict[str, Given]:
    """Write the roles; return the replica types by role, without one of no replicas."""
    specs = draft.spec.get("mpiReplicaSpecs")
    launcher, worker = specs.get("Launcher"), specs.get("Worker")
    if launcher.get("replicas").value not in (None, 1):
        cure = "leave replicas out"
        draft.refuse(launcher.get("replicas"), "there can be one Launcher only", cure)
    if transport == "ssh" and worker and not worker.get("replicas").value:
        given = worker.get("replicas")
        message = "a Worker has one replica or more, and must say how many"
        draft.refuse(given or worker, message, "write replicas, or leave Worker out")
    found = {"launcher": launcher}
    if worker.get("replicas").value:
        found["worker"] = worker
    for role, given in found.items():
        main = _main_container(draft, role, given.get("template"))
        if role == "worker" and transport == "kubectl-exec":
            main = _without_lone_args(draft, main)
        draft.role(role, given.get("template"), main)
    if "worker" in found:
        draft.put("spec.roles.worker.replicas", worker.get("replicas"))
    return found


def _main_container(draft: Draft, role: str, template: Given) -> Given:
    """Return the container that `mainContainer` names, else the first."""
    containers = template.get("spec", "containers")
    for container in containers.items():
        if not container.get("image").value:
            draft.refuse(container, "the container has no image", "write image")
    name = draft.spec.get("mainContainer")
    for container in containers.items():
        if name and container.value["name"] == name.value:
            return container
    if name.value and role == "worker":
        message = f'no container of the Worker has the name "{name.value}"'
        draft.refuse(name, message, "name the container in which mpirun starts processes")
    return containers.get(0)


def _without_lone_args(draft: Draft, main: Given) -> Given:
    """A worker without a command sleeps, and the operator overwrites its arguments then too."""
    if main.get("command").value or not main.get("args").value:
        return main
    message = "the operator lets a worker without a command sleep, and drops its arguments"
    draft.differs(main.get("args"), message, "leave them out, or write command")
    return _without(main, "args")


def _without(given: Given, *names: str) -> Given:
    return Given({k: v for k, v in given.value.items() if k not in names}, given.path)


def _framework(
    draft: Draft, transport: str, found: Mapping[str, Given], *, launcher_works: bool = False
) -> None:
    """Write the framework and its options, once the roles are there.

    Args:
        draft: is written to.
        transport: how mpirun reaches the workers.
        found: the replica types by role.
        launcher_works: mpirun starts processes in the launcher too.
    """
    spec, kind = draft.spec, draft.given.get("kind")
    slots = spec.get("slotsPerWorker")
    hidden = not launcher_works and not _has_gpus(found["launcher"])
    _launcher_env(draft, transport, hidden=hidden, alone="worker" not in found)
    if "worker" not in found:
        # Without workers mpirun starts all processes where it is: that is a Job like any other.
        draft.data["spec"].pop("options", None)
        draft.put("spec.framework", kind, "generic")
        if launcher_works and slots:
            at = "spec.roles.launcher.env.OMPI_MCA_orte_set_default_slots"
            draft.put(at, slots, str(slots.value))
        return
    elastic = DISCOVER_HOSTS in _words(draft.roles["launcher"])
    draft.put("spec.framework", kind, "horovod" if elastic else "mpi")
    if transport == "ssh":
        draft.put("spec.options.transport", kind, "ssh")
    draft.put("spec.options.slotsPerWorker", slots)
    if launcher_works:
        source = spec.get("runLauncherAsWorker") or found["launcher"]
        draft.put("spec.options.runLauncherAsWorker", source, value=True)
    if elastic:
        _elastic(draft, found["launcher"], int(launcher_works))


def _launcher_env(draft: Draft, transport: str, *, hidden: bool, alone: bool) -> None:
    """Take away the user's values of what the operator writes over.

    Args:
        draft: is written to.
        transport: how mpirun reaches the workers.
        hidden: the launcher is not to see the GPUs of its node.
        alone: there are no workers, so that no framework hides them.
    """
    implementation = draft.data["spec"].get("options", {}).get("implementation", "OpenMPI")
    env = draft.roles["launcher"].get("env", {})
    own = OWN_ENV[transport][implementation]
    kept = {name: value for name, value in env.items() if name not in own}
    if hidden:
        kept |= {name: "" for name in VISIBLE_GPUS if alone or name in env}
    if kept:
        draft.roles["launcher"]["env"] = kept
    else:
        draft.roles["launcher"].pop("env", None)


def _has_gpus(given: Given) -> bool:
    """As the training operator knows a launcher with GPUs, which then gets processes too."""
    limits: set[str] = set()
    for container in given.get("template", "spec", "containers").items():
        limits |= set(container.get("resources", "limits").value or {})
    return any("gpu" in name for name in limits)


def _words(role: Mapping[str, Any]) -> str:
    return " ".join([*role.get("command", []), *role.get("args", [])])


def _elastic(draft: Draft, launcher: Given, working: int) -> None:
    """Write how many workers there may be, by the numbers of processes that horovodrun is told.

    Args:
        draft: is written to.
        launcher: the replica type.
        working: launchers that have slots too.
    """
    words = _words(draft.roles["launcher"])
    slots = draft.spec.get("slotsPerWorker").value or 1
    replicas = draft.roles["worker"]["replicas"]
    least, most = (_processes(words, name) for name in ("min", "max"))
    lower = 1 if least is None else -(-least // slots) - working
    upper = 0 if most is None else most // slots - working
    for name, value in (
        ("minReplicas", min(max(lower, 1), replicas)),
        ("maxReplicas", max(upper, replicas)),
    ):
        draft.put(f"spec.options.elastic.{name}", launcher, value)


def _processes(words: str, bound: str) -> int | None:
    """Return an argument of horovodrun, under its name of today or of before."""
    found = re.search(rf"--{bound}-(?:np|num-proc)[\s=]+(\d+)", words)
    return int(found[1]) if found else None


def _ssh(draft: Draft, worker: Given) -> None:
    """Write how the workers serve; the keys are for the user to make."""
    restart = worker.get("restartPolicy")
    draft.put("spec.roles.worker.restartPolicy", restart)
    if restart.value == "OnFailure":
        draft.put("spec.roles.worker.backoffLimit", restart, ENDLESS)
    draft.put("spec.options.sshAuthMountPath", draft.spec.get("sshAuthMountPath"))
    main = worker.get("template", "spec", "containers", 0)
    port = next(_ssh_ports(main, _words(draft.roles["worker"])), None)
    if port:
        draft.put("spec.roles.worker.port", port)
    namespace = draft.given.get("metadata", "namespace").value
    within = f" -n {namespace}" if namespace else ""
    draft.differs(
        draft.spec,
        f"the operator makes the job's ssh keys; no pod starts before there is {draft.name}-ssh",
        f"run once: mlgen ssh-secret{within} {draft.name}-ssh | kubectl apply -f -",
    )


def _ssh_ports(main: Given, words: str) -> Iterator[Given]:
    """Return each sign of where sshd listens, the surest first."""
    told = SSHD_PORT.search(words)
    if told:
        yield Given(int(told[1]), main.get("args" if main.get("args") else "command").path)
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


def _v1alpha1(draft: Draft) -> None:
    """One template for both roles; the workers are as many as hold all processing units."""
    spec = draft.spec
    template, main = spec.get("template"), spec.get("template", "spec", "containers", 0)
    found = {"launcher": spec}
    workers, units = _units(draft, main)
    draft.role("launcher", template, _without(main, "resources"))
    _launcher_job(draft, template.get("spec", "restartPolicy"))
    if workers:
        found["worker"] = spec
        draft.role("worker", template, _without(_with_units(spec, main, units), "command", "args"))
        draft.put("spec.roles.worker.replicas", workers)
    if spec.get("launcherOnMaster").value:
        _on_master(draft, spec.get("launcherOnMaster"))
    _framework(draft, "kubectl-exec", found)
    if workers and not spec.get("slotsPerWorker"):
        draft.put("spec.options.slotsPerWorker", units)
    run_policy(draft, found, MPI_OPERATOR, endless=False)


def _units(draft: Draft, main: Given) -> tuple[Given, Given]:
    """Return how many workers there are, and how many units each has; neither may be given."""
    spec, nothing = draft.spec, Given(None)
    given = [spec.get(name) for name in ("gpus", "processingUnits", "replicas")]
    totals = [total for total in given if total]
    if len(totals) > 1:
        message = "gpus, processingUnits and replicas are three ways to say the same"
        draft.refuse(totals[1], message, "keep one of them")
    if not totals or len(totals) > 1:
        return nothing, nothing
    (total,) = totals
    field = str(total.path[-1])
    if field == "replicas":
        limit = main.get("resources", "limits", _unit(spec))
        count = str(limit.value)
        return total, Given(int(count), limit.path) if count.isdecimal() else nothing
    per_node = spec.get(f"{field}PerNode")
    most = per_node.value or UNITS_PER_NODE[field]
    workers = max(total.value // most, 1)
    if total.value > most and total.value % most:
        message = f"{total.value} is no multiple of the {most} that a node has"
        draft.refuse(total, message, f"change it, or write {field}PerNode")
    if not per_node:
        message = f"how many a node has only the operator was told; it is taken for {most} here"
        draft.differs(total, message, f"write {field}PerNode")
    return Given(workers, total.path), Given(min(total.value, most), total.path)


def _unit(spec: Given) -> str:
    return spec.get("processingResourceType").value or "nvidia.com/gpu"


def _with_units(spec: Given, main: Given, units: Given) -> Given:
    """The container with what each worker gets of the processing units."""
    if not units:
        return main
    limits = (main.get("resources", "limits").value or {}) | {_unit(spec): units.value}
    requests = dict(main.get("resources", "requests").value or {})
    requests.pop(_unit(spec), None)
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return Given(main.value | {"resources": resources}, main.path)


def _on_master(draft: Draft, given: Given) -> None:
    """Write what the operator puts in the place of the template's tolerations and affinity."""
    tolerations = [{"key": key, "effect": "NoSchedule"} for key in MASTER_NODES]
    draft.put("spec.roles.launcher.tolerations", given, tolerations)
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in MASTER_NODES]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    draft.put("spec.roles.launcher.affinity", given, {"nodeAffinity": required})


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

KINDS = {
    ("kubeflow.org/v1", "MPIJob"): Kind(V1, _v1),
    ("kubeflow.org/v2beta1", "MPIJob"): Kind(V2BETA1, _v2beta1),
    ("kubeflow.org/v1alpha2", "MPIJob"): Kind(V1ALPHA2, _v1alpha2),
    ("kubeflow.org/v1alpha1", "MPIJob"): Kind(V1ALPHA1, _v1alpha1),
}
