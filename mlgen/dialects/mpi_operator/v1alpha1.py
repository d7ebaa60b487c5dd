"""MPIJobs of kubeflow.org/v1alpha1, which have one template and a number of GPUs → TrainingJob.

Read from kubeflow/mpi-operator 0.2.3, pkg/controllers/v1alpha1.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import run_policy
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.mpi_operator.translation import (
    MPI_OPERATOR,
    without_fields,
    write_framework,
    write_launcher_restarts,
)
from mlgen.kubernetes.quantity import natural

UNITS_PER_NODE = {"gpus": 8, "processingUnits": 1}
"""The number of units per node if the resource does not set it: an option of the operator.

The manifests that installed the operator set 8 GPUs (deploy/3-mpi-operator.yaml, and Kubeflow's
kubeflow/mpi-job/prototypes) and no number of other units, for which the default is 1.
"""

MASTER_NODES = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
"""The label and taint that the operator uses, and their names in Kubernetes since 1.24."""


def write_v1alpha1(builder: Builder) -> None:
    """Write an MPIJob of v1alpha1: both roles share one template."""
    spec = builder.spec
    template, main = spec.get("template"), spec.get("template", "spec", "containers", 0)
    replica_types = {"launcher": spec}
    workers, units = _workers_and_units(builder, main)
    builder.role("launcher", template, without_fields(main, "resources"))
    write_launcher_restarts(builder, template.get("spec", "restartPolicy"))
    if workers:
        replica_types["worker"] = spec
        worker_main = without_fields(_with_units(spec, main, units), "command", "args")
        builder.role("worker", template, worker_main)
        builder.put(("spec", "roles", "worker", "replicas"), workers)
    if spec.get("launcherOnMaster").value:
        _place_on_master(builder, spec.get("launcherOnMaster"))
    write_framework(builder, "kubectl-exec", replica_types)
    if workers and not spec.get("slotsPerWorker"):
        builder.put(("spec", "options", "slotsPerWorker"), units)
    # The operator scales the workers to 0 when the launcher has ended.
    clean = "Running" if workers else ""
    run_policy(builder, replica_types, MPI_OPERATOR, clean, endless=False)


def _workers_and_units(builder: Builder, main: SourceValue) -> tuple[SourceValue, SourceValue]:
    """Return the number of workers and the units of each; both are false if not set."""
    spec, nothing = builder.spec, SourceValue(None)
    fields = [spec.get(name) for name in ("gpus", "processingUnits", "replicas")]
    totals = [total for total in fields if total]
    if len(totals) > 1:
        message = "gpus, processingUnits and replicas are mutually exclusive"
        builder.refuse(totals[1], message, "keep one of them")
    if len(totals) != 1:
        return nothing, nothing
    (total,) = totals
    field = str(total.path[-1])
    if field == "replicas":
        limit = main.get("resources", "limits", _unit(spec))
        count = natural(str(limit.value))
        return total, nothing if count is None else SourceValue(count, limit.path)
    per_node = spec.get(f"{field}PerNode")
    most = per_node.value or UNITS_PER_NODE[field]
    if total.value > most and total.value % most:
        message = f"{total.value} is not a multiple of {most}, the number of {field} per node"
        builder.refuse(total, message, f"change it, or set {field}PerNode")
    if not per_node:
        message = f"the number of {field} per node is an option of the operator; {most} is assumed"
        builder.differs(total, message, f"set {field}PerNode")
    workers = max(total.value // most, 1)
    return SourceValue(workers, total.path), SourceValue(min(total.value, most), total.path)


def _unit(spec: SourceValue) -> str:
    """Return the name of the resource that is counted."""
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


def _place_on_master(builder: Builder, source: SourceValue) -> None:
    """Write the tolerations and affinity with which the operator replaces the template's."""
    tolerations = [{"key": key, "effect": "NoSchedule"} for key in MASTER_NODES]
    builder.put(("spec", "roles", "launcher", "tolerations"), source, tolerations)
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in MASTER_NODES]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    builder.put(("spec", "roles", "launcher", "affinity"), source, {"nodeAffinity": required})
