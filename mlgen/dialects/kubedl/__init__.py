"""KubeDL: the jobs of training.kubedl.io. Their annotations are in `annotations`.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and defaults, controllers
and pkg/job_controller for behavior. KubeDL has no webhook; what is rejected here, KubeDL would
accept but never run.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from mlgen.dialects._builder import Builder, Dialect, SourceValue
from mlgen.dialects._kubeflow_common import (
    Rules,
    bound_crashes,
    main_container,
    policy_field,
    replica_types,
    require_one,
    run_policy,
    warn_of_worker_restarts,
    write_all_workers,
    write_retryable_exit_codes,
    write_role,
    write_slots,
)
from mlgen.dialects.kubedl.annotations import (
    ELASTIC_TRAINING,
    NETWORK_MODE,
    annotation,
    on_host_network,
    remove_annotation,
    write_artifacts,
    write_code_sync,
    write_tensorboard,
)
from mlgen.dialects.kubeflow import kinds as kubeflow

TF = replace(kubeflow.TF, restart="ExitCode")
PYTORCH = replace(
    kubeflow.PYTORCH,
    roles=("AIMaster", "Master", "Worker"),
    role_restarts={"master": "ExitCode"},
)
XGBOOST = replace(kubeflow.OLD_XGBOOST, restart="Always")
XDL = Rules(
    framework="xdl",
    replica_field="xdlReplicaSpecs",
    roles=("PS", "Scheduler", "Worker", "ExtendRole"),
    container="xdl",
    port="xdljob-port",
    servers=("ps", "scheduler"),
)
MARS = Rules(
    framework="mars",
    replica_field="marsReplicaSpecs",
    roles=("Scheduler", "WebService", "Worker"),
    container="mars",
    port="mars-port",
    servers=("webservice",),
    role_restarts={"webservice": "Always", "worker": "ExitCode"},
)
ELASTICDL = Rules(
    framework="elasticdl",
    replica_field="elasticdlReplicaSpecs",
    roles=("Master",),
    container="elasticdl",
    restart="Always",
)
MPI = Rules(
    framework="mpi",
    replica_field="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    container="mpi",
)


def write_roles(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Write every role; return the replica types by role."""
    builder.put(("spec", "framework"), builder.resource.get("kind"), rules.framework)
    sources = replica_types(builder, rules)
    run_policy = builder.spec.get("runPolicy")
    if run_policy and rules is not MPI:
        message = "KubeDL ignores runPolicy, and reads its fields from spec"
        builder.refuse(run_policy, message, "move its fields to spec")
    ai_master = sources.pop("aimaster", None)
    if ai_master:
        message = "the AIMaster controls the job through this resource, which mlgen does not create"
        builder.differs(ai_master, f"{message}; it is not rendered")
    for role, source in sources.items():
        main = _main_container(builder, source.get("template"), rules)
        if main:
            write_role(builder, rules, role, source, main)
            write_retryable_exit_codes(builder, role, source.get("restartPolicy"))
            _write_spot_pods(builder, role, source)
    return sources


def _main_container(builder: Builder, template: SourceValue, rules: Rules) -> SourceValue | None:
    """Return the training container, or None if there is none.

    If KubeDL creates no Services, it is `mainContainer`, else the one of the kind's name, else the
    first.
    """
    name: str = rules.container
    if not rules.port:
        names = [container["name"] for container in template.get("spec", "containers").value]
        candidates = (builder.spec.get("mainContainer").value, rules.container, names[0])
        name = next(candidate for candidate in candidates if candidate in names)
    return main_container(builder, template, name)


def _write_spot_pods(builder: Builder, role: str, source: SourceValue) -> None:
    """Write the priority class and labels of spot pods, if all replicas of a role are spot pods.

    In KubeDL, only the last replicas can be spot pods. Here all replicas have the same template.
    """
    spot, at = source.get("spotReplicaSpec"), ("spec", "roles", role, "template")
    number, replicas = spot.get("spotReplicaNumber"), builder.roles[role].get("replicas", 1)
    if not number.value:
        return
    if number.value < replicas:
        message = f"only the last {number.value} of {replicas} replicas would be spot pods"
        hint = "write priorityClassName and labels in the template, for all replicas"
        builder.differs(spot, f"{message}; here none are", hint)
        return
    builder.put((*at, "spec", "priorityClassName"), spot.get("priorityClassName"))
    labels = builder.roles[role].get("template", {}).get("metadata", {}).get("labels", {})
    spot_labels = spot.get("labels")
    builder.put((*at, "metadata", "labels"), spot_labels, labels | (spot_labels.value or {}))


def write_policies(
    builder: Builder, replica_types: Mapping[str, SourceValue], rules: Rules, clean: str = ""
) -> None:
    """Write the policies, the network and the code of the whole job.

    Args:
        builder: has all roles.
        replica_types: by role.
        rules: of the kind.
        clean: KubeDL's default of `cleanPodPolicy` for the kind, if it is not None.
    """
    run_policy(builder, replica_types, "", clean)
    bound_crashes(builder, rules)
    _report_controllers(builder)
    if on_host_network(builder):
        builder.put(("spec", "network", "host"), annotation(builder, NETWORK_MODE), value=True)
        remove_annotation(builder, NETWORK_MODE)
    write_code_sync(builder)
    builder.share_templates()


def _report_controllers(builder: Builder) -> None:
    """Report policies that KubeDL's other controllers would apply."""
    cron = policy_field(builder.spec, "cronPolicy")
    if cron:
        message = "KubeDL starts the job again by this schedule; mlgen does not"
        hint = "let a CronJob or an Argo CronWorkflow apply the manifests"
        builder.differs(cron, message, hint)
    priority = policy_field(builder.spec, "schedulingPolicy").get("priority")
    if priority:
        message = "KubeDL's queue starts jobs of high priority first; here there is no queue"
        builder.differs(priority, message, "write priorityClassName in the templates")


XGBOOST_TTL = 100
"""KubeDL's default `ttlSecondsAfterFinished` of an XGBoostJob."""

XDL_BACKOFF_LIMIT = 20
"""KubeDL's default `backoffLimit` of an XDLJob."""

XDL_RATE = 90
"""KubeDL's default `minFinishWorkRate` of an XDLJob."""


def write_tfjob(builder: Builder) -> None:
    """Write the TrainingJob of a TFJob."""
    replica_types = write_roles(builder, TF)
    leaders = [name for name in ("chief", "master") if name in replica_types]
    success = builder.spec.get("successPolicy")
    if leaders and success.value == "AllWorkers" and "worker" in builder.roles:
        builder.put(("spec", "successPolicy", "roles"), success, [*leaders, "worker"])
    elif not leaders:
        write_all_workers(builder)
    write_artifacts(builder)
    write_policies(builder, replica_types, TF, "Running")
    write_tensorboard(builder)


def write_pytorchjob(builder: Builder) -> None:
    """Write the TrainingJob of a PyTorchJob, in which all ranks must succeed."""
    replica_types = write_roles(builder, PYTORCH)
    master = replica_types.get("master")
    if not master:
        message = "a PyTorchJob of KubeDL requires a Master"
        hint = "make one of the workers the Master"
        builder.refuse(builder.spec.get(PYTORCH.replica_field), message, hint)
    elif require_one(builder, master, "Master") and "worker" in replica_types:
        builder.put(("spec", "successPolicy", "roles"), master, ["master", "worker"])
    elastic = annotation(builder, ELASTIC_TRAINING)
    if elastic.value == "true":
        message = "KubeDL restarts replicas with a new WORLD_SIZE when their number changes"
        hint = "use torchrun, and options.elasticPolicy in a job file"
        builder.differs(elastic, f"{message}; here the number is fixed", hint)
    write_artifacts(builder)
    write_policies(builder, replica_types, PYTORCH)


def write_xgboostjob(builder: Builder) -> None:
    """Write the TrainingJob of an XGBoostJob."""
    replica_types = write_roles(builder, XGBOOST)
    write_policies(builder, replica_types, XGBOOST)
    if not policy_field(builder.spec, "ttlSecondsAfterFinished"):
        at = ("spec", "runPolicy", "ttlSecondsAfterFinished")
        builder.put(at, builder.spec, XGBOOST_TTL)


def write_xdljob(builder: Builder) -> None:
    """Write the TrainingJob of an XDLJob, with a path of its own in ZooKeeper."""
    replica_types = write_roles(builder, XDL)
    for role in builder.roles.values():
        address = role.get("env", {}).get("ZK_ADDR")
        if isinstance(address, str):
            role["env"]["ZK_ADDR"] = f"{address.rstrip('/')}/{builder.name}"
    rate = builder.spec.get("minFinishWorkRate")
    builder.put(("spec", "options", "minFinishWorkRate"), rate)
    if not rate:
        builder.put(("spec", "options", "minFinishWorkNum"), builder.spec.get("minFinishWorkNum"))
    if on_host_network(builder):
        _require_all_workers(builder)
    if "extendrole" in replica_types:
        message = "KubeDL counts these replicas among those that must succeed"
        builder.differs(replica_types["extendrole"], f"{message}; here only workers count")
    restarts = {role["restartPolicy"] for role in builder.roles.values()} - {"Never"}
    # The default does not count restarts after exit codes, which are then without limit.
    if not policy_field(builder.spec, "backoffLimit") and restarts != {"ExitCode"}:
        builder.put(("spec", "runPolicy", "backoffLimit"), builder.spec, XDL_BACKOFF_LIMIT)
    write_policies(builder, replica_types, XDL, "Running")


def _require_all_workers(builder: Builder) -> None:
    """Let all workers decide, because on the host network each of them is a separate Job."""
    source = annotation(builder, NETWORK_MODE)
    builder.put(("spec", "successPolicy", "replicas"), source, "All")
    replicas = builder.roles.get("worker", {}).get("replicas", 1)
    options = builder.data["spec"].get("options", {})
    rate = options.get("minFinishWorkRate", XDL_RATE)
    needed = options.get("minFinishWorkNum", ceil(replicas * rate / 100))
    if needed < replicas:
        message = "with host networking, each worker is a separate Job, and all must succeed here"
        builder.differs(source, f"{message}; in KubeDL, {needed} of {replicas}", "remove it")


def write_marsjob(builder: Builder) -> None:
    """Write the TrainingJob of a MarsJob."""
    replica_types = write_roles(builder, MARS)
    at, memory = ("spec", "options", "workerMemoryTuningPolicy"), "workerMemoryTuningPolicy"
    source = builder.spec.get(memory)
    for name in ("plasmaStore", "lockFreeFileIO", "spillDirs"):
        builder.put((*at, name), source.get(name))
    size, percentage = source.get("workerCacheSize"), source.get("workerCachePercentage")
    if size:
        builder.put((*at, "workerCacheSize"), size, str(size.value))
    elif percentage.value:
        builder.put((*at, "workerCachePercentage"), percentage, min(100, percentage.value))
    host = builder.spec.get("webHost")
    if host:
        message = f"KubeDL creates an Ingress for {host.value}"
        hint = f"create one for the Service {builder.name}"
        builder.differs(host, f"{message}; none is rendered", hint)
    write_policies(builder, replica_types, MARS)


def write_elasticdljob(builder: Builder) -> None:
    """Write the TrainingJob of an ElasticDLJob."""
    replica_types = write_roles(builder, ELASTICDL)
    master = builder.roles.get("master", {})
    if master and not master.get("command") and not master.get("args"):
        containers = replica_types["master"].get("template", "spec", "containers")
        message = "KubeDL runs the image's entrypoint; here ElasticDL's master is started"
        builder.differs(containers, message, "write command, unless the entrypoint does the same")
    write_policies(builder, replica_types, ELASTICDL)


V1ALPHA1_FIELDS = ("gpus", "processingUnits", "replicas")
"""Fields of the earliest MPIJobs, from which KubeDL creates the replica types."""


def write_mpijob(builder: Builder) -> None:
    """Write the TrainingJob of an MPIJob; a launcher without workers is a `generic` job."""
    replica_types = write_roles(builder, MPI)
    _refuse_unusable(builder, replica_types)
    worker = replica_types.get("worker")
    if worker:
        write_slots(builder, worker)
        _write_options(builder, replica_types.get("launcher", builder.spec))
        _remove_worker_restarts(builder, worker.get("restartPolicy"))
    else:
        builder.put(("spec", "framework"), builder.resource.get("kind"), "generic")
    write_policies(builder, replica_types, MPI, "Running")


def _refuse_unusable(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Report resources from which KubeDL creates no job that runs."""
    spec = builder.spec
    launcher, worker = replica_types.get("launcher"), replica_types.get("worker")
    for name in V1ALPHA1_FIELDS:
        if spec.get(name):
            message = f"with {name}, KubeDL creates workers that run mpirun themselves"
            hint = "write mpiReplicaSpecs and slotsPerWorker instead"
            builder.refuse(spec.get(name), message, hint)
    if not launcher:
        message = "a Launcher is required, because it runs mpirun"
        builder.refuse(spec.get(MPI.replica_field), message, "add a Launcher")
    else:
        require_one(builder, launcher, "Launcher")
    if worker and not worker.get("replicas"):
        builder.refuse(worker, "a Worker requires a number of replicas", "write replicas")


def _write_options(builder: Builder, launcher: SourceValue) -> None:
    """Write how mpirun starts processes: by KubeDL's default, in the launcher too."""
    distribution = builder.spec.get("mpiDistribution")
    implementation = "Intel" if distribution.value == "IntelMPI" else distribution.value
    builder.put(("spec", "options", "implementation"), distribution, implementation)
    if on_host_network(builder):
        message = "with host networking, mpirun starts no processes in the launcher"
        hint = "start fewer processes than with KubeDL"
        builder.differs(annotation(builder, NETWORK_MODE), message, hint)
    else:
        builder.put(("spec", "options", "runLauncherAsWorker"), launcher, value=True)


def _remove_worker_restarts(builder: Builder, restart: SourceValue) -> None:
    """Leave the restart policy of workers to the framework."""
    for name in ("restartPolicy", "retryableExitCodes"):
        builder.roles.get("worker", {}).pop(name, None)
    warn_of_worker_restarts(builder, restart)


VERSION = "training.kubedl.io/v1alpha1"


DIALECT = Dialect(
    groups=(
        "training.kubedl.io",
        "apps.kubedl.io",
        "cache.kubedl.io",
        "inference.kubedl.io",
        "model.kubedl.io",
        "notebook.kubedl.io",
        "serving.kubedl.io",
    ),
    kinds={
        (VERSION, "TFJob"): write_tfjob,
        (VERSION, "PyTorchJob"): write_pytorchjob,
        (VERSION, "XGBoostJob"): write_xgboostjob,
        (VERSION, "XDLJob"): write_xdljob,
        (VERSION, "MarsJob"): write_marsjob,
        (VERSION, "MPIJob"): write_mpijob,
        (VERSION, "ElasticDLJob"): write_elasticdljob,
    },
)
