"""Jobs of the training operator, with a mapping of replica types → TrainingJob.

Read from kubeflow/training-operator 1.9: pkg/webhooks for what it rejects, pkg/controller.v1 for
what it does; 1.8 for MXJob. The versions before v1: pkg/trainer and pkg/util/train of
kubeflow/tf-operator 0.3 and 0.5, pytorch-operator, mxnet-operator and xgboost-operator.
"""

from collections.abc import Callable

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import (
    Rules,
    drop_overwritten,
    run_policy,
    wait_for_names,
    warn_of_service_names,
    write_roles,
)
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubeflow.kinds import (
    ELASTIC_ENV,
    JAX,
    JAX_ENV,
    MANAGER,
    MXNET,
    MXNET_ENV,
    PADDLE,
    PADDLE_ENV,
    PET_ENV,
    PYTORCH,
    PYTORCH_ENV,
    PYTORCH_PORT,
    RANK_ENV,
    RETRYABLE_EXIT_CODES,
    TF,
    TUNER_KEY,
    XGBOOST_ENV,
)


def write_job(builder: Builder, write: Callable[[Builder], None]) -> None:
    """Write a job of one kind, and warn of addresses that only the operator provides."""
    write(builder)
    is_elastic = "elasticPolicy" in builder.data["spec"].get("options", {})
    warn_of_service_names(builder, [f"{builder.name}-worker-0"] if is_elastic else [])


def write_tfjob(builder: Builder, clean: str = "") -> None:
    """Write a TFJob.

    Args:
        builder: receives the TrainingJob.
        clean: the default of `cleanPodPolicy`, if it is not None.
    """
    replica_types = write_roles(builder, TF)
    leaders = [name for name in ("chief", "master") if name in replica_types]
    if len(leaders) > 1:
        message = "Chief and Master are mutually exclusive"
        builder.refuse(replica_types["master"], message, "keep one of the two")
    policy = builder.spec.get("successPolicy")
    if policy.value == "AllWorkers" and not leaders and "worker" in replica_types:
        builder.put(("spec", "successPolicy", "role"), policy, "worker")
        builder.put(("spec", "successPolicy", "replicas"), policy, "All")
    builder.put(("spec", "options", "enableDynamicWorker"), builder.spec.get("enableDynamicWorker"))
    if sum(role.get("replicas", 1) for role in builder.roles.values()) > 1:
        drop_overwritten(builder, ("TF_CONFIG",))
    run_policy(builder, replica_types, MANAGER, clean)


def write_pytorchjob(builder: Builder) -> None:
    """Write a PyTorchJob, elastic or not."""
    replica_types = write_roles(builder, PYTORCH)
    spec, elastic = builder.spec, builder.spec.get("elasticPolicy")
    if "master" in replica_types:
        _require_one_master(builder, PYTORCH, replica_types, explicit=True)
    processes = spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(builder, elastic, replica_types) or processes
    else:
        # Without a Master the operator sets no ranks, so the user's variables take effect.
        drop_overwritten(builder, PYTORCH_ENV if "master" in replica_types else PET_ENV)
    if processes:
        count = str(processes.value)
        value = int(count) if count.isdecimal() else count
        builder.put(("spec", "options", "nprocPerNode"), processes, value)
    run_policy(builder, replica_types, MANAGER)


def write_xgboostjob(builder: Builder, rules: Rules, *, explicit: bool = True) -> None:
    """Write an XGBoostJob.

    Args:
        builder: receives the TrainingJob.
        rules: those of the operator that this version belongs to.
        explicit: the operator requires `replicas: 1` of the Master to be written.
    """
    replica_types = write_roles(builder, rules)
    _require_one_master(builder, rules, replica_types, explicit=explicit)
    drop_overwritten(builder, XGBOOST_ENV)
    # XGBoost's tracker before 2.1 crashes if its port is probed, and LightGBM's workers connect
    # to each other. The resource does not say which of the two the image runs.
    wait_for_names(builder)
    run_policy(builder, replica_types, MANAGER)


def write_paddlejob(builder: Builder) -> None:
    """Write a PaddleJob."""
    replica_types = write_roles(builder, PADDLE)
    drop_overwritten(builder, PADDLE_ENV)
    _warn_of_autoscaler(builder, builder.spec.get("elasticPolicy"), hint="set replicas")
    run_policy(builder, replica_types, MANAGER)


def write_jaxjob(builder: Builder) -> None:
    """Write a JAXJob."""
    replica_types = write_roles(builder, JAX)
    drop_overwritten(builder, JAX_ENV)
    run_policy(builder, replica_types, MANAGER)


def write_mxjob(builder: Builder, clean: str = "", *, labels: bool = False) -> None:
    """Write an MXJob.

    Args:
        builder: receives the TrainingJob.
        clean: the default of `cleanPodPolicy`, if it is not None.
        labels: the keys of tuner servers are in `label` of a replica type, as before v1, instead
            of in an annotation.
    """
    replica_types = write_roles(builder, MXNET)
    drop_overwritten(builder, MXNET_ENV)
    for role, replica_type in replica_types.items():
        annotation = replica_type.get("template", "metadata", "annotations", TUNER_KEY)
        label = replica_type.get("label")
        builder.put(("spec", "options", "tunerServerKeys", role), label if labels else annotation)
        if label and not labels:
            hint = f"set the annotation {TUNER_KEY} in the template's metadata"
            builder.differs(label, "the operator ignores this field since v1", hint)
    run_policy(builder, replica_types, MANAGER, clean)


def write_old_tfjob(builder: Builder) -> None:
    """Write a TFJob of v1alpha2 to v1beta2."""
    write_tfjob(builder, "Running")
    _write_old_fields(builder)


def write_old_pytorchjob(builder: Builder) -> None:
    """Write a PyTorchJob of v1alpha2 to v1beta2, which has no torchrun."""
    replica_types = write_roles(builder, PYTORCH)
    _require_one_master(builder, PYTORCH, replica_types, explicit=False)
    drop_overwritten(builder, RANK_ENV)
    run_policy(builder, replica_types, MANAGER)
    _write_old_fields(builder)


def write_old_mxjob(builder: Builder, clean: str) -> None:
    """Write an MXJob of v1alpha2 or v1beta1, whose defaults of `cleanPodPolicy` differ."""
    write_mxjob(builder, clean, labels=True)
    _write_old_fields(builder)


def _write_old_fields(builder: Builder) -> None:
    """Write what v1 does differently: the exit codes that are retried, and a field's name."""
    for name, role in builder.roles.items():
        if role.get("restartPolicy") == "ExitCode":
            path = ("spec", "roles", name, "retryableExitCodes")
            builder.put(path, builder.resource.get("apiVersion"), RETRYABLE_EXIT_CODES)
    seconds = builder.spec.get("ttlSecondsAfterFinishing")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), seconds)


def _require_one_master(
    builder: Builder, rules: Rules, replica_types: dict[str, SourceValue], *, explicit: bool
) -> None:
    """Reject a job without a Master, or whose Master has several replicas.

    Args:
        builder: collects the problems.
        rules: name the field of the replica types.
        replica_types: by role.
        explicit: `replicas: 1` must be written.
    """
    master = replica_types.get("master")
    if master is None:
        message = "a job of this kind and version needs a Master"
        hint = "turn one of the workers into the Master"
        builder.refuse(builder.spec.get(rules.field), message, hint)
    elif master.get("replicas").value not in ((1,) if explicit else (None, 1)):
        message = "the Master must have one replica" + (", set explicitly" if explicit else "")
        builder.refuse(master.get("replicas") or master, message, "write replicas: 1")


def _warn_of_autoscaler(builder: Builder, elastic: SourceValue, hint: str) -> None:
    """Warn if the operator would scale the job by metrics."""
    if elastic.get("metrics"):
        message = "the operator creates a HorizontalPodAutoscaler, which cannot scale a Job"
        builder.differs(elastic.get("metrics"), message, hint)


def _elastic(
    builder: Builder, elastic: SourceValue, replica_types: dict[str, SourceValue]
) -> SourceValue | None:
    """Write the options of torchrun; return its processes per node, if the policy sets them."""
    if "worker" not in replica_types:
        builder.refuse(elastic, "a Worker is required", "add one, or remove elasticPolicy")
        return None
    processes = elastic.get("nProcPerNode")
    if processes and builder.spec.get("nprocPerNode"):
        message = "nProcPerNode and spec.nprocPerNode are mutually exclusive"
        builder.refuse(processes, message, "keep spec.nprocPerNode")
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "rdzvId"):
        builder.put(("spec", "options", "elasticPolicy", name), elastic.get(name))
    pairs = {item.value["key"]: item.value["value"] for item in elastic.get("rdzvConf").items()}
    builder.put(("spec", "options", "elasticPolicy", "rdzvConf"), elastic.get("rdzvConf"), pairs)
    if "worker" in builder.roles:
        _rendezvous(builder, elastic)
    hint = "patch completions and parallelism of the Job together"
    _warn_of_autoscaler(builder, elastic, hint)
    return processes or None


def _rendezvous(builder: Builder, elastic: SourceValue) -> None:
    """Write where torchrun meets, unless that is worker 0 with the backend c10d."""
    worker = builder.roles["worker"]
    if not builder.data["spec"].get("options"):
        path = ("spec", "options", "elasticPolicy", "maxReplicas")
        builder.put(path, elastic, worker.get("replicas", 1))
    drop_overwritten(builder, ELASTIC_ENV)
    backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
    first_worker = f"{builder.name}-worker-0"
    is_elsewhere = bool(host) and str(host.value).partition(".")[0] != first_worker
    env = ("spec", "roles", "worker", "env")
    if is_elsewhere:
        number = port.value or worker.get("port", PYTORCH_PORT)
        builder.put((*env, "PET_RDZV_ENDPOINT"), host, f"{host.value}:{number}")
    else:
        builder.put(("spec", "roles", "worker", "port"), port)
    has_other_backend = backend.value not in (None, "", "c10d")
    if has_other_backend:
        builder.put((*env, "PET_RDZV_BACKEND"), backend)
    standalone = elastic.get("standalone")
    if standalone.value:
        builder.put((*env, "PET_STANDALONE"), standalone, "1")
    if is_elsewhere or has_other_backend or standalone.value:
        wait_for_names(builder)
