"""KubeDL: the jobs of training.kubedl.io. `annotations` converts their annotations.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and defaults, controllers
and pkg/job_controller for behavior. KubeDL has no webhook. It would accept the jobs that mlgen
rejects, but never run them.
"""

from collections.abc import Mapping
from math import ceil

from mlgen.dialects._builder import NOTHING, Builder, SourceValue
from mlgen.dialects._kubeflow_common import (
    Rules,
    dialect,
    policy_field,
    refuse_without_master,
    require_one,
    run_policy,
    warn_of_worker_restarts,
    write_all_workers,
    write_roles,
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


def write_job(builder: Builder, rules: Rules) -> None:
    """Write a job of any kind."""
    replica_types = write_roles(builder, rules)
    if rules.framework != "mpi":
        builder.warn(
            builder.spec.get("runPolicy"),
            "KubeDL ignores runPolicy, and reads its fields from spec; so does mlgen",
            "move the fields of runPolicy to spec",
            code="no-effect",
        )
        own = {k: v for k, v in builder.spec.value.items() if k != "runPolicy"}
        builder.resource = SourceValue({**builder.resource.value, "spec": own})
    for role in builder.roles:
        _write_spot_pods(builder, role, replica_types[role])
    if rules.framework in OWN:
        OWN[rules.framework](builder, replica_types)
    run_policy(builder, rules, replica_types)
    builder.warn(
        policy_field(builder.spec, "cronPolicy"),
        "KubeDL starts the job on this schedule; mlgen does not",
        "run the job in a CronWorkflow: mlgen argo --cron",
    )
    builder.warn(
        policy_field(builder.spec, "schedulingPolicy").get("priority"),
        "KubeDL's queue starts jobs of high priority first; mlgen has no queue",
        "write priorityClassName in the templates",
    )
    if on_host_network(builder):
        source = annotation(builder, NETWORK_MODE)
        builder.put(("spec", "network", "host"), source, value=True)
        restarts = {role.get("restartPolicy") for role in builder.roles.values()} - {"Never"}
        if rules.port and restarts:
            builder.warn(
                source,
                "KubeDL gives a restarted replica another host port; with mlgen, it keeps its own",
                "if a program of a node uses one of the ports, choose others: "
                "--set 'spec.network.hostPorts={base: 25000, size: 1000}'",
            )
        remove_annotation(builder, NETWORK_MODE)
    write_code_sync(builder)
    builder.share_templates()
    if rules.framework == "tensorflow":
        write_tensorboard(builder)
    elif rules.framework == "xgboost" and not policy_field(builder.spec, TTL):
        builder.put(("spec", "runPolicy", TTL), builder.spec, XGBOOST_TTL)


def _write_spot_pods(builder: Builder, role: str, source: SourceValue) -> None:
    """Write the priority class and labels of spot pods, if all replicas of a role are spot pods.

    KubeDL can limit spot pods to the last replicas. Here, all replicas share one template.
    """
    spot, at = source.get("spotReplicaSpec"), ("spec", "roles", role, "template")
    number, replicas = spot.get("spotReplicaNumber"), builder.roles[role].get("replicas", 1)
    if not number.value:
        return
    if number.value < replicas:
        builder.warn(
            spot,
            f"KubeDL runs the last {number.value} of {replicas} replicas as spot pods; "
            "mlgen does not",
            "write priorityClassName and labels in the template, for all replicas",
        )
        return
    builder.put((*at, "spec", "priorityClassName"), spot.get("priorityClassName"))
    labels = builder.roles[role].get("template", {}).get("metadata", {}).get("labels", {})
    spot_labels = spot.get("labels")
    builder.put((*at, "metadata", "labels"), spot_labels, labels | (spot_labels.value or {}))


TTL = "ttlSecondsAfterFinished"

XGBOOST_TTL = 100
"""KubeDL's default `ttlSecondsAfterFinished` for XGBoostJobs."""

XDL_BACKOFF_LIMIT = 20
"""KubeDL's default `backoffLimit` for XDLJobs."""

XDL_RATE = 90
"""KubeDL's default `minFinishWorkRate` for XDLJobs."""


def _write_tensorflow(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Write the deciding role of a TFJob, and its artifacts."""
    leaders = [name for name in ("chief", "master") if name in replica_types]
    success = builder.spec.get("successPolicy")
    if leaders and success.value == "AllWorkers" and "worker" in builder.roles:
        builder.put(("spec", "successPolicy", "roles"), success, [*leaders, "worker"])
    elif not leaders:
        write_all_workers(builder)
    write_artifacts(builder)


def _write_pytorch(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Write the success policy (all ranks) and the artifacts of a PyTorchJob."""
    master = replica_types.get("master")
    if not master:
        refuse_without_master(builder, builder.spec.get("pytorchReplicaSpecs"))
    elif require_one(builder, master, "Master") and "worker" in replica_types:
        builder.put(("spec", "successPolicy", "roles"), master, ["master", "worker"])
    elastic = annotation(builder, ELASTIC_TRAINING)
    if elastic.value == "true":
        builder.warn(
            elastic,
            "KubeDL restarts replicas with a new WORLD_SIZE when their number changes; "
            "mlgen renders a fixed number",
            "use torchrun, and options.elasticPolicy in a job file",
        )
    write_artifacts(builder)


def _write_xdl(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Write the options of an XDLJob, with a unique ZooKeeper path."""
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
    builder.warn(
        replica_types.get("extendrole", NOTHING),
        "KubeDL counts these replicas toward the required successes; mlgen counts only workers",
    )
    restarts = {role["restartPolicy"] for role in builder.roles.values()} - {"Never"}
    # The default limit does not apply to restarts after exit codes.
    if not policy_field(builder.spec, "backoffLimit") and restarts != {"ExitCode"}:
        builder.put(("spec", "runPolicy", "backoffLimit"), builder.spec, XDL_BACKOFF_LIMIT)


def _require_all_workers(builder: Builder) -> None:
    """Write that all workers must succeed. On the host network, each worker is a separate Job."""
    source = annotation(builder, NETWORK_MODE)
    builder.put(("spec", "successPolicy", "replicas"), source, "All")
    replicas = builder.roles.get("worker", {}).get("replicas", 1)
    options = builder.data["spec"].get("options", {})
    rate = options.get("minFinishWorkRate", XDL_RATE)
    needed = options.get("minFinishWorkNum", ceil(replicas * rate / 100))
    if needed < replicas:
        builder.warn(
            source,
            "with host networking, mlgen renders a Job for each worker, and all must succeed; "
            f"KubeDL requires {needed} of {replicas}",
            "remove it",
        )


def _write_mars(builder: Builder, _: Mapping[str, SourceValue]) -> None:
    """Write the memory options of a MarsJob's workers."""
    memory = "workerMemoryTuningPolicy"
    at, source = ("spec", "options", memory), builder.spec.get(memory)
    for name in ("plasmaStore", "lockFreeFileIO", "spillDirs"):
        builder.put((*at, name), source.get(name))
    size, percentage = source.get("workerCacheSize"), source.get("workerCachePercentage")
    if size:
        builder.put((*at, "workerCacheSize"), size, str(size.value))
    elif percentage.value:
        builder.put((*at, "workerCachePercentage"), percentage, min(100, percentage.value))
    host = builder.spec.get("webHost")
    builder.warn(
        host,
        f"KubeDL creates an Ingress for {host.value}; mlgen does not",
        f"create an Ingress for the Service {builder.name}",
    )


def _check_entrypoint(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Warn about an ElasticDL master without a command."""
    master = builder.roles.get("master", {})
    if master and not master.get("command") and not master.get("args"):
        builder.warn(
            replica_types["master"].get("template", "spec", "containers"),
            "KubeDL runs the image's entrypoint; mlgen starts ElasticDL's master",
            "set command if the entrypoint starts another program",
        )


V1ALPHA1_FIELDS = ("gpus", "processingUnits", "replicas")
"""Fields of the earliest MPIJobs, from which KubeDL creates the replica types."""


def _write_mpi(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Write the framework and options of an MPIJob. By default, the launcher also runs processes.

    A launcher without workers is a `generic` job. The framework controls how workers restart.
    """
    spec, worker = builder.spec, replica_types.get("worker")
    launcher = replica_types.get("launcher")
    for name in V1ALPHA1_FIELDS:
        builder.refuse(
            spec.get(name),
            f"with {name}, KubeDL creates workers that run mpirun themselves",
            "write mpiReplicaSpecs and slotsPerWorker instead",
        )
    if launcher:
        require_one(builder, launcher, "Launcher")
    else:
        builder.refuse(
            spec.get("mpiReplicaSpecs"),
            "a Launcher is required, because it runs mpirun",
            "add a Launcher",
        )
    if not worker:
        builder.put(("spec", "framework"), builder.resource.get("kind"), "generic")
        return
    if not worker.get("replicas"):
        builder.refuse(worker, "replicas is required for Worker", "add replicas")
    write_slots(builder)
    distribution = spec.get("mpiDistribution")
    implementation = "Intel" if distribution.value == "IntelMPI" else distribution.value
    builder.put(("spec", "options", "implementation"), distribution, implementation)
    if on_host_network(builder):
        builder.warn(
            annotation(builder, NETWORK_MODE),
            "KubeDL also starts processes in the launcher; mlgen does not with host networking",
            "reduce the number after -np by the number of processes in the launcher",
        )
    else:
        builder.put(("spec", "options", "runLauncherAsWorker"), launcher or spec, value=True)
    for name in ("restartPolicy", "retryableExitCodes"):
        builder.roles.get("worker", {}).pop(name, None)
    warn_of_worker_restarts(builder, worker.get("restartPolicy"))


OWN = {
    "tensorflow": _write_tensorflow,
    "pytorch": _write_pytorch,
    "xdl": _write_xdl,
    "mars": _write_mars,
    "mpi": _write_mpi,
    "elasticdl": _check_entrypoint,
}
"""The function for the fields that only one kind has, by framework."""

DIALECT = dialect("kubedl", write_job)
