"""The roles of a KubeDL job, with KubeDL's defaults.

Source: kubedl-io/kubedl at b93a2b4, apis/training/v1alpha1 and pkg/job_controller/pod.go.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import Rules, main_container, replica_types
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubedl.kinds import MPI, ROLE_RESTARTS, WITHOUT_SERVICES
from mlgen.dialects.kubeflow.kinds import RETRYABLE_EXIT_CODES


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
        template = source.get("template")
        main = _main_container(builder, template, rules)
        if main:
            builder.role(role, template, main, None if rules in WITHOUT_SERVICES else rules.port)
            default = ROLE_RESTARTS.get((rules.framework, role), rules.restart)
            _write_restarts(builder, role, source, default)
            _write_spot_pods(builder, role, source)
    return sources


def _main_container(builder: Builder, template: SourceValue, rules: Rules) -> SourceValue | None:
    """Return the training container, or None if there is none.

    If KubeDL creates no Services, it is `mainContainer`, else the one of the kind's name, else the
    first.
    """
    name: str = rules.container
    if rules in WITHOUT_SERVICES:
        names = [container["name"] for container in template.get("spec", "containers").value]
        candidates = (builder.spec.get("mainContainer").value, rules.container, names[0])
        name = next(candidate for candidate in candidates if candidate in names)
    return main_container(builder, template, name)


def _write_restarts(builder: Builder, role: str, source: SourceValue, default: str) -> None:
    """Write the number of replicas and their restart policy."""
    builder.put(("spec", "roles", role, "replicas"), source.get("replicas"))
    field = source.get("restartPolicy")
    restart = field.value or default
    builder.put(("spec", "roles", role, "restartPolicy"), field, restart)
    if restart == "ExitCode":
        builder.put(("spec", "roles", role, "retryableExitCodes"), field, RETRYABLE_EXIT_CODES)


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
