"""KubeDL's kinds, each written as a TrainingJob; MPIJob is in `mpi`.

Source: kubedl-io/kubedl at b93a2b4, controllers.
"""

from math import ceil

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import policy_field
from mlgen.dialects.kubedl.annotations import (
    ELASTIC_TRAINING,
    NETWORK_MODE,
    annotation,
    on_host_network,
)
from mlgen.dialects.kubedl.artifacts import write_artifacts
from mlgen.dialects.kubedl.kinds import ELASTICDL, MARS, PYTORCH, TF, XDL, XGBOOST
from mlgen.dialects.kubedl.policies import write_policies
from mlgen.dialects.kubedl.roles import write_roles
from mlgen.dialects.kubedl.tensorboard import write_tensorboard

XGBOOST_TTL = 100
"""KubeDL's default `ttlSecondsAfterFinished` of an XGBoostJob."""

XDL_BACKOFF_LIMIT = 20
"""KubeDL's default `backoffLimit` of an XDLJob."""

XDL_RATE = 90
"""KubeDL's default `minFinishWorkRate` of an XDLJob."""


def write_tfjob(builder: Builder) -> None:
    """Write the TrainingJob of a TFJob."""
    replica_types = write_roles(builder, TF)
    _write_tf_success(builder, [name for name in ("chief", "master") if name in replica_types])
    write_artifacts(builder)
    write_policies(builder, replica_types, TF, "Running")
    write_tensorboard(builder)


def _write_tf_success(builder: Builder, leaders: list[str]) -> None:
    """Write a successPolicy of all workers, and of the leader if there is one."""
    success = builder.spec.get("successPolicy")
    if success.value != "AllWorkers" or "worker" not in builder.roles:
        return
    if leaders:
        builder.put(("spec", "successPolicy", "roles"), success, [*leaders, "worker"])
    else:
        builder.put(("spec", "successPolicy", "role"), success, "worker")
        builder.put(("spec", "successPolicy", "replicas"), success, "All")


def write_pytorchjob(builder: Builder) -> None:
    """Write the TrainingJob of a PyTorchJob, in which all ranks must succeed."""
    replica_types = write_roles(builder, PYTORCH)
    master = replica_types.get("master")
    if not master:
        message = "a PyTorchJob of KubeDL requires a Master"
        hint = "make one of the workers the Master"
        builder.refuse(builder.spec.get(PYTORCH.field), message, hint)
    elif master.get("replicas").value not in (None, 1):
        replicas = master.get("replicas")
        builder.refuse(replicas, f"expected 1 Master, got {replicas.value}", "write replicas: 1")
    elif "worker" in replica_types:
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
