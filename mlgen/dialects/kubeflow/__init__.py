"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

`kinds` has the names and defaults of each kind, and `v1alpha1` writes the jobs of the oldest
version. Read from kubeflow/training-operator 1.9: pkg/webhooks for what it rejects,
pkg/controller.v1 for what it does; 1.8 for MXJob. The versions before v1: pkg/trainer and
pkg/util/train of kubeflow/tf-operator 0.3 and 0.5, pytorch-operator, mxnet-operator and
xgboost-operator.
"""

from collections.abc import Iterable
from functools import partial

from mlgen.dialects._builder import Builder, Dialect, SourceValue
from mlgen.dialects._kubeflow_common import (
    Rules,
    bound_crashes,
    drop_overwritten,
    require_one,
    run_policy,
    write_all_workers,
    write_retryable_exit_codes,
    write_roles,
)
from mlgen.dialects.kubeflow.kinds import (
    ELASTIC_ENV,
    JAX,
    JAX_ENV,
    MANAGER,
    MXNET,
    MXNET_ENV,
    OLD_XGBOOST,
    PADDLE,
    PADDLE_ENV,
    PET_ENV,
    PYTORCH,
    PYTORCH_ENV,
    PYTORCH_PORT,
    RANK_ENV,
    TF,
    TUNER_KEY,
    XGBOOST,
    XGBOOST_ENV,
)
from mlgen.dialects.kubeflow.v1alpha1 import MXNET_LIST, PYTORCH_LIST, TF_LIST, write_list
from mlgen.kubernetes.quantity import natural


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
    if not leaders:
        write_all_workers(builder)
    builder.put(("spec", "options", "enableDynamicWorker"), builder.spec.get("enableDynamicWorker"))
    if sum(role.get("replicas", 1) for role in builder.roles.values()) > 1:
        drop_overwritten(builder, ("TF_CONFIG",))
    run_policy(builder, replica_types, MANAGER, clean)
    bound_crashes(builder, TF)


def write_pytorchjob(builder: Builder) -> None:
    """Write a PyTorchJob, elastic or not."""
    replica_types = write_roles(builder, PYTORCH)
    spec, elastic = builder.spec, builder.spec.get("elasticPolicy")
    if "master" in replica_types:
        _require_one_master(builder, PYTORCH, replica_types)
    processes = spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(builder, elastic, replica_types) or processes
    else:
        # Without a Master the operator sets no ranks, so the user's variables take effect.
        drop_overwritten(builder, PYTORCH_ENV if "master" in replica_types else PET_ENV)
    if processes:
        number = natural(str(processes.value))
        value = str(processes.value) if number is None else number
        builder.put(("spec", "options", "nprocPerNode"), processes, value)
    run_policy(builder, replica_types, MANAGER)


def write_job(
    builder: Builder, rules: Rules, variables: Iterable[str], *, one_master: bool = False
) -> None:
    """Write a job of a kind without options of its own.

    Args:
        builder: receives the TrainingJob.
        rules: of the kind.
        variables: those that the operator sets.
        one_master: the operator requires a Master.
    """
    replica_types = write_roles(builder, rules)
    if one_master:
        _require_one_master(builder, rules, replica_types)
    drop_overwritten(builder, variables)
    _warn_of_autoscaler(builder, builder.spec.get("elasticPolicy"), hint="set replicas")
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
    bound_crashes(builder, MXNET)


def write_old_tfjob(builder: Builder) -> None:
    """Write a TFJob of v1alpha2 to v1beta2."""
    write_tfjob(builder, "Running")
    _write_old_fields(builder)


def write_old_pytorchjob(builder: Builder) -> None:
    """Write a PyTorchJob of v1alpha2 to v1beta2, which has no torchrun."""
    write_job(builder, PYTORCH, RANK_ENV, one_master=True)
    _write_old_fields(builder)


def write_old_mxjob(builder: Builder, clean: str) -> None:
    """Write an MXJob of v1alpha2 or v1beta1, whose defaults of `cleanPodPolicy` differ."""
    write_mxjob(builder, clean, labels=True)
    _write_old_fields(builder)


def _write_old_fields(builder: Builder) -> None:
    """Write what v1 does differently: the exit codes that are retried, and a field's name."""
    for role in builder.roles:
        write_retryable_exit_codes(builder, role, builder.resource.get("apiVersion"))
    seconds = builder.spec.get("ttlSecondsAfterFinishing")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), seconds)


def _require_one_master(
    builder: Builder, rules: Rules, replica_types: dict[str, SourceValue]
) -> None:
    """Reject a job without a Master, or whose Master has several replicas."""
    master = replica_types.get("master")
    if master is None:
        message = "a job of this kind and version needs a Master"
        hint = "turn one of the workers into the Master"
        builder.refuse(builder.spec.get(rules.replica_field), message, hint)
    else:
        require_one(builder, master, "Master")


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
    if set(builder.roles) == set(replica_types):
        _count_master(builder, elastic)
        _rendezvous(builder, elastic)
    hint = "patch completions and parallelism of the Job together"
    _warn_of_autoscaler(builder, elastic, hint)
    return processes or None


def _count_master(builder: Builder, elastic: SourceValue) -> None:
    """Write how many replicas take part, at most: the operator counts only workers.

    torchrun runs as many replicas as the first number of PET_NNODES to the second. The Master is
    one more than the operator counts, and would wait for ever if it came last.
    """
    path = ("spec", "options", "elasticPolicy", "maxReplicas")
    count = sum(role.get("replicas", 1) for role in builder.roles.values())
    maximum = elastic.get("maxReplicas")
    if "master" in builder.roles and maximum and maximum.value < count:
        message = f"the operator does not count the Master, and one of {count} replicas would wait"
        builder.differs(maximum, f"{message}; here maxReplicas is {count}", "count the Master")
        builder.put(path, maximum, count)
    elif not builder.data["spec"].get("options"):
        builder.put(path, elastic, count)


def _rendezvous(builder: Builder, elastic: SourceValue) -> None:
    """Write where torchrun meets, unless that is worker 0 with the backend c10d."""
    worker = builder.roles["worker"]
    drop_overwritten(builder, ELASTIC_ENV)
    backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
    first_worker = f"{builder.name}-worker-0"
    is_elsewhere = bool(host) and str(host.value).partition(".")[0] != first_worker
    env: dict[str, tuple[SourceValue, str]] = {}
    if is_elsewhere:
        number = port.value or worker.get("port", PYTORCH_PORT)
        env["PET_RDZV_ENDPOINT"] = (host, f"{host.value}:{number}")
    else:
        builder.put(("spec", "roles", "worker", "port"), port)
    has_other_backend = backend.value not in (None, "", "c10d")
    if has_other_backend:
        env["PET_RDZV_BACKEND"] = (backend, backend.value)
    standalone = elastic.get("standalone")
    if standalone.value:
        env["PET_STANDALONE"] = (standalone, "1")
    for role in builder.roles:
        for name, (source, value) in env.items():
            builder.put(("spec", "roles", role, "env", name), source, value)


_xgboost = partial(write_job, variables=XGBOOST_ENV, one_master=True)


DIALECT = Dialect(
    groups=("xgboostjob.kubeflow.org",),
    kinds={
        ("kubeflow.org/v1", "TFJob"): write_tfjob,
        ("kubeflow.org/v1", "PyTorchJob"): write_pytorchjob,
        ("kubeflow.org/v1", "XGBoostJob"): partial(_xgboost, rules=XGBOOST),
        ("kubeflow.org/v1", "PaddleJob"): partial(write_job, rules=PADDLE, variables=PADDLE_ENV),
        ("kubeflow.org/v1", "JAXJob"): partial(write_job, rules=JAX, variables=JAX_ENV),
        ("kubeflow.org/v1", "MXJob"): write_mxjob,
        ("kubeflow.org/v1beta2", "TFJob"): write_old_tfjob,
        ("kubeflow.org/v1beta1", "TFJob"): write_old_tfjob,
        ("kubeflow.org/v1alpha2", "TFJob"): write_old_tfjob,
        ("kubeflow.org/v1alpha1", "TFJob"): partial(write_list, form=TF_LIST),
        ("kubeflow.org/v1beta2", "PyTorchJob"): write_old_pytorchjob,
        ("kubeflow.org/v1beta1", "PyTorchJob"): write_old_pytorchjob,
        ("kubeflow.org/v1alpha2", "PyTorchJob"): write_old_pytorchjob,
        ("kubeflow.org/v1alpha1", "PyTorchJob"): partial(write_list, form=PYTORCH_LIST),
        ("kubeflow.org/v1beta1", "MXJob"): partial(write_old_mxjob, clean="All"),
        ("kubeflow.org/v1alpha2", "MXJob"): partial(write_old_mxjob, clean="Running"),
        ("kubeflow.org/v1alpha1", "MXJob"): partial(write_list, form=MXNET_LIST),
        ("xgboostjob.kubeflow.org/v1", "XGBoostJob"): partial(_xgboost, rules=OLD_XGBOOST),
        ("xgboostjob.kubeflow.org/v1alpha1", "XGBoostJob"): partial(_xgboost, rules=OLD_XGBOOST),
    },
)
