"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

`v1alpha1` writes the jobs of the oldest version. Read from kubeflow/training-operator 1.9 (1.8 for
MXJob): pkg/webhooks for rejections, pkg/controller.v1 for behavior. The versions before v1:
pkg/trainer and pkg/util/train of kubeflow/tf-operator 0.3 and 0.5, pytorch-operator,
mxnet-operator and xgboost-operator.
"""

import re

from mlgen.dialects._builder import NOTHING, Builder, SourceValue
from mlgen.dialects._kubeflow_common import (
    Rules,
    dialect,
    drop_overwritten,
    refuse_without_master,
    require_one,
    run_policy,
    write_all_workers,
    write_roles,
)
from mlgen.dialects.kubeflow.v1alpha1 import write_list
from mlgen.kubernetes.quantity import natural

JOB_NAME = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label of RFC 1035. The operator names Services after the job, and rejects other names."""

PET_ENV = ("PET_NPROC_PER_NODE", "PET_NNODES")
ELASTIC_ENV = ("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", *PET_ENV)
"""Variables that the operator overwrites in elastic PyTorchJobs, and in those without a Master."""

TUNER_KEY = "tuner-server-key"
"""The pod template's annotation with the key of a tuner server."""

AUTOSCALER = "the operator creates a HorizontalPodAutoscaler, which cannot scale a Job"

PYTORCH_PORT = 23456
"""The default port of a PyTorchJob (pytorch_types.go, DefaultPort)."""


def write_job(builder: Builder, rules: Rules) -> None:
    """Write a job of any kind and version."""
    if not JOB_NAME.fullmatch(builder.name):
        builder.refuse_name()
    if rules.list:
        write_list(builder, rules)
        return
    replica_types = write_roles(builder, rules)
    if rules.needs_master and "master" not in replica_types:
        refuse_without_master(builder, builder.spec.get(rules.replica_field))
    elif rules.needs_master or rules.framework == "pytorch":
        require_one(builder, replica_types.get("master", NOTHING), "Master")
    if rules.framework == "tensorflow":
        _write_tensorflow(builder, rules, replica_types)
    elif rules.framework == "pytorch":
        _write_pytorch(builder, rules, replica_types)
    else:
        drop_overwritten(builder, rules.overwritten)
        builder.warn(builder.spec.get("elasticPolicy", "metrics"), AUTOSCALER, "set replicas")
        _write_tuner_keys(builder, rules, replica_types)
    run_policy(builder, rules, replica_types)
    seconds = builder.spec.get("ttlSecondsAfterFinishing")
    builder.put(("spec", "runPolicy", "ttlSecondsAfterFinished"), seconds)


def _write_tensorflow(
    builder: Builder, rules: Rules, replica_types: dict[str, SourceValue]
) -> None:
    """Write the deciding role and the options of a TFJob."""
    leaders = [name for name in ("chief", "master") if name in replica_types]
    if len(leaders) > 1:
        builder.refuse(
            replica_types["master"], "Chief and Master are mutually exclusive", "remove one of them"
        )
    if not leaders:
        write_all_workers(builder)
    builder.put(("spec", "options", "enableDynamicWorker"), builder.spec.get("enableDynamicWorker"))
    if sum(role.get("replicas", 1) for role in builder.roles.values()) > 1:
        drop_overwritten(builder, rules.overwritten)


def _write_pytorch(builder: Builder, rules: Rules, replica_types: dict[str, SourceValue]) -> None:
    """Write the options of a PyTorchJob, elastic or not."""
    elastic, processes = builder.spec.get("elasticPolicy"), builder.spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(builder, elastic, replica_types) or processes
    else:
        # Without a Master, the operator sets no ranks, so the user's variables take effect.
        drop_overwritten(builder, rules.overwritten if "master" in replica_types else PET_ENV)
    if processes:
        number = natural(str(processes.value))
        value = str(processes.value) if number is None else number
        builder.put(("spec", "options", "nprocPerNode"), processes, value)


def _write_tuner_keys(
    builder: Builder, rules: Rules, replica_types: dict[str, SourceValue]
) -> None:
    """Write an MXJob's keys of tuner servers, from annotations, or before v1 from a field."""
    for role, replica_type in replica_types.items():
        annotation = replica_type.get("template", "metadata", "annotations", TUNER_KEY)
        label = replica_type.get("label")
        key = label if rules.tuner_label else annotation
        if rules.framework == "mxnet":
            builder.put(("spec", "options", "tunerServerKeys", role), key)
        if not rules.tuner_label:
            builder.warn(
                label,
                "the operator ignores this field since v1",
                f"set the annotation {TUNER_KEY} in the template's metadata",
            )


def _elastic(
    builder: Builder, elastic: SourceValue, replica_types: dict[str, SourceValue]
) -> SourceValue | None:
    """Write the options of torchrun. Return its processes per node, or None if they are unset."""
    if "worker" not in replica_types:
        builder.refuse(elastic, "a Worker is required", "add a Worker, or remove elasticPolicy")
        return None
    processes, path = elastic.get("nProcPerNode"), ("spec", "options", "elasticPolicy")
    if builder.spec.get("nprocPerNode"):
        builder.refuse(
            processes,
            "nProcPerNode and spec.nprocPerNode are mutually exclusive",
            "keep spec.nprocPerNode",
        )
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "rdzvId"):
        builder.put((*path, name), elastic.get(name))
    pairs = {item.value["key"]: item.value["value"] for item in elastic.get("rdzvConf").items()}
    builder.put((*path, "rdzvConf"), elastic.get("rdzvConf"), pairs)
    if set(builder.roles) == set(replica_types):
        _count_master(builder, elastic)
        _rendezvous(builder, elastic)
    builder.warn(
        elastic.get("metrics"), AUTOSCALER, "patch completions and parallelism of the Job together"
    )
    return processes or None


def _count_master(builder: Builder, elastic: SourceValue) -> None:
    """Write the maximum number of replicas, with the Master: the operator counts only workers.

    torchrun accepts at most as many replicas as the second number of PET_NNODES. Without this, a
    Master that joins last would wait forever.
    """
    path = ("spec", "options", "elasticPolicy", "maxReplicas")
    count = sum(role.get("replicas", 1) for role in builder.roles.values())
    maximum = elastic.get("maxReplicas")
    if "master" in builder.roles and maximum and maximum.value < count:
        builder.warn(
            maximum,
            "the operator does not count the Master in maxReplicas, so one replica would wait; "
            f"mlgen sets maxReplicas to {count}",
            "include the Master in maxReplicas",
        )
        builder.put(path, maximum, count)
    elif not builder.data["spec"].get("options"):
        builder.put(path, elastic, count)


def _rendezvous(builder: Builder, elastic: SourceValue) -> None:
    """Write the rendezvous of torchrun, unless it is at worker 0 with the backend c10d."""
    worker = builder.roles["worker"]
    drop_overwritten(builder, ELASTIC_ENV)
    backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
    if str(backend.value).startswith("etcd") and not host:
        builder.warn(
            backend,
            "without rdzvHost, torchrun looks for etcd at worker 0, which must run it",
            "remove rdzvBackend, for the backend c10d, or add rdzvHost with the address of etcd",
            code="launch",
        )
    env: dict[str, tuple[SourceValue, str]] = {}
    if host and str(host.value).partition(".")[0] != f"{builder.name}-worker-0":
        number = port.value or worker.get("port", PYTORCH_PORT)
        env["PET_RDZV_ENDPOINT"] = (host, f"{host.value}:{number}")
    else:
        builder.put(("spec", "roles", "worker", "port"), port)
    if backend.value not in (None, "", "c10d"):
        env["PET_RDZV_BACKEND"] = (backend, backend.value)
    if elastic.get("standalone").value:
        env["PET_STANDALONE"] = (elastic.get("standalone"), "1")
    for role in builder.roles:
        for name, (source, value) in env.items():
            builder.put(("spec", "roles", role, "env", name), source, value)


DIALECT = dialect("kubeflow", write_job)
