"""Replica types and a run policy: what the operators based on kubeflow/common share.

Kubeflow's training operator and MPI operator and KubeDL all started with that library. So a job is
a mapping of replica types, each with a pod template, and a policy for the whole job. Read from the
training operator 1.9, pkg/apis/kubeflow.org/v1/common_types.go and pkg/controller.v1/common.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlgen.dialects._builder import ENDLESS, Builder, SourceValue
from mlgen.problems import choice

JOB_NAME = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label of RFC 1035: the operator names Services after the job."""

RETRYABLE_EXIT_CODES = [130, 137, 138, 143]
"""The exit codes that ExitCode retries: in Kubeflow before v1, and in KubeDL."""


@dataclass(frozen=True)
class Rules:
    """The names and defaults of one kind.

    Attributes:
        framework: the TrainingJob's name of the framework.
        replica_field: the field of `spec` that holds the replica types.
        roles: the replica types, in the order in which they are written.
        container: the name of the training container.
        port: the name of the port that peers connect to; "" if the operator creates no Services.
        restart: the default restart policy.
        servers: the roles that never end by themselves.
        role_restarts: the default restart policies of roles, where they differ from `restart`.
    """

    framework: str
    replica_field: str
    roles: tuple[str, ...]
    container: str
    port: str = ""
    restart: str = "Never"
    servers: tuple[str, ...] = ()
    role_restarts: Mapping[str, str] = field(default_factory=dict)


def replica_types(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Return the replica types by role; as in the operator, their names are case-insensitive."""
    canonical = {name.lower(): name for name in rules.roles}
    by_role: dict[str, SourceValue] = {}
    for name, replica_type in builder.spec.get(rules.replica_field).fields():
        role = name.lower()
        if role not in canonical:
            message = f'unknown replica type "{name}"'
            builder.refuse(replica_type, message, choice(name, rules.roles))
        elif role in by_role:
            message = f"duplicate replica type {canonical[role]}: its name is case-insensitive"
            builder.refuse(replica_type, message, "keep one of the two")
        else:
            by_role[role] = replica_type
    return {role: by_role[role] for role in canonical if role in by_role}


def check_name(builder: Builder) -> None:
    """Reject a job name that the operator's webhook rejects."""
    if not JOB_NAME.fullmatch(builder.name):
        source = SourceValue(builder.name, builder.origins["metadata", "name"])
        hint = (
            "use at most 63 lower-case letters, digits and dashes; start with a letter, and do not"
            " end with a dash"
        )
        builder.refuse(source, f'"{builder.name}" is not a valid job name', hint)


def main_container(builder: Builder, template: SourceValue, name: str) -> SourceValue | None:
    """Return the container with this name, which the operator's webhook requires, or the only one.

    Operators without a webhook run a pod whose container has another name.
    """
    containers = template.get("spec", "containers")
    main = containers.get(0) if len(containers.value) == 1 else None
    for container in containers.items():
        if container.value["name"] == name:
            main = container
    if main is None:
        message = f'no container has the name "{name}"'
        builder.refuse(containers, message, f'name the training container "{name}"')
    elif not main.get("image").value:
        builder.refuse(main, "the training container has no image", "set image")
        return None
    elif main.value["name"] != name:
        warn_of_container_name(builder, main.get("name"), name)
    return main


def warn_of_container_name(builder: Builder, written: SourceValue, name: str) -> None:
    """Warn that the only container of a pod does not have the operator's name of it."""
    message = f'the only container trains, but the operator requires the name "{name}"'
    builder.differs(written, message, f"write name: {name}")


def write_roles(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Write the framework and every role with the operator's defaults; return `replica_types`."""
    check_name(builder)
    builder.put(("spec", "framework"), builder.resource.get("kind"), rules.framework)
    by_role = replica_types(builder, rules)
    for role, replica_type in by_role.items():
        main = main_container(builder, replica_type.get("template"), rules.container)
        if main:
            write_role(builder, rules, role, replica_type, main)
    return by_role


def write_role(
    builder: Builder, rules: Rules, role: str, replica_type: SourceValue, main: SourceValue
) -> None:
    """Write a role, with the number of replicas and their restart policy.

    Args:
        builder: receives it.
        rules: of the kind.
        role: its name.
        replica_type: where it is written.
        main: the training container.
    """
    path, restart = ("spec", "roles", role), replica_type.get("restartPolicy")
    builder.role(role, replica_type.get("template"), main, rules.port)
    builder.put((*path, "replicas"), replica_type.get("replicas"))
    default = rules.role_restarts.get(role, rules.restart)
    builder.put((*path, "restartPolicy"), restart, restart.value or default)


def write_retryable_exit_codes(builder: Builder, role: str, source: SourceValue) -> None:
    """Write the exit codes that ExitCode retries, except in v1 of Kubeflow."""
    if builder.roles[role].get("restartPolicy") == "ExitCode":
        path = ("spec", "roles", role, "retryableExitCodes")
        builder.put(path, source, RETRYABLE_EXIT_CODES)


def require_one(builder: Builder, replica_type: SourceValue, name: str) -> bool:
    """Reject a replica type with another number of replicas than one; return whether it has one.

    The webhook of the training operator 1.9 also rejects a Master without `replicas`, whose default
    is 1 everywhere else.
    """
    replicas = replica_type.get("replicas")
    if replicas.value not in (None, 1):
        builder.refuse(replicas, f"the {name} must have one replica", "write replicas: 1")
        return False
    return True


def write_all_workers(builder: Builder) -> None:
    """Write the successPolicy AllWorkers of a TFJob without a chief or master."""
    policy = builder.spec.get("successPolicy")
    if policy.value == "AllWorkers" and "worker" in builder.roles:
        builder.put(("spec", "successPolicy", "role"), policy, "worker")
        builder.put(("spec", "successPolicy", "replicas"), policy, "All")


def has_gpus(replica_type: SourceValue) -> bool:
    """Return whether a container has GPUs; the training operator then runs processes in it."""
    containers = replica_type.get("template", "spec", "containers").items()
    limits = [container.get("resources", "limits").value or {} for container in containers]
    return any("gpu" in name for names in limits for name in names)


def write_slots(builder: Builder, worker: SourceValue) -> None:
    """Write the slots of an MPI job's workers: the operators' default is 1, not the GPUs."""
    slots = builder.spec.get("slotsPerWorker")
    if slots or has_gpus(worker):
        source = slots or builder.resource.get("kind")
        builder.put(("spec", "options", "slotsPerWorker"), source, slots.value or 1)


def warn_of_worker_restarts(builder: Builder, restart: SourceValue) -> None:
    """Warn if an MPI job ends when a worker fails, but here its launcher tries again.

    Workers that are reached by `kubectl exec` are a StatefulSet, because they need fixed names. It
    restarts containers in place, as OnFailure does. mpirun fails when it loses a worker, so with a
    launcher that does not restart, the job ends anyway.
    """
    launcher_restarts = builder.roles.get("launcher", {}).get("restartPolicy") != "Never"
    if launcher_restarts and restart.value in ("Never", "ExitCode"):
        message = "the operator ends the job if a worker fails; here, it and the launcher restart"
        hint = "write restartPolicy: Never for the Launcher, which fails if it loses a worker"
        builder.differs(restart, message, hint)


def drop_overwritten(builder: Builder, names: Iterable[str]) -> None:
    """Remove the user's values of these variables, which the operator overwrites."""
    for role, fields in builder.roles.items():
        for name in [name for name in names if name in fields.get("env", {})]:
            source = SourceValue(None, builder.origins["spec", "roles", role, "env", name])
            message = f"the operator overwrites {name}, and mlgen does the same"
            builder.differs(source, message, "remove it")
            del fields["env"][name]
        if not fields.get("env", True):
            del fields["env"]


def run_policy(
    builder: Builder,
    replica_types: Mapping[str, SourceValue],
    manager: str,
    clean: str = "",
    *,
    endless: bool = True,
) -> None:
    """Write the policies of the whole job, from `runPolicy` or from `spec` itself.

    Args:
        builder: has all roles.
        replica_types: by role.
        manager: the operator's name for itself in `managedBy`.
        clean: the operator's default of `cleanPodPolicy`, if it is not None.
        endless: without a `backoffLimit`, the operator restarts replicas without limit.
    """
    spec = builder.spec
    for name in (
        "cleanPodPolicy",
        "ttlSecondsAfterFinished",
        "backoffLimit",
        "suspend",
        "activeDeadlineSeconds",
    ):
        builder.put(("spec", "runPolicy", name), policy_field(spec, name))
    if clean and not policy_field(spec, "cleanPodPolicy"):
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), spec, clean)
    restarts = {role.get("restartPolicy", "Never") for role in builder.roles.values()}
    written = builder.data["spec"].get("runPolicy", {})
    if endless and restarts != {"Never"} and "backoffLimit" not in written:
        builder.put(("spec", "runPolicy", "backoffLimit"), spec, ENDLESS)
    _never_retry(builder)
    managed = policy_field(spec, "managedBy")
    if managed.value != manager:
        builder.put(("spec", "runPolicy", "managedBy"), managed)
    _scheduling(builder, policy_field(spec, "schedulingPolicy"), replica_types)


def bound_crashes(builder: Builder, rules: Rules) -> None:
    """Let the restarts of servers with Always count against `backoffLimit`, if `run_policy` did.

    They are StatefulSets, which have no limit. The operators add up the restarts of running pods
    (PastBackoffLimit in pkg/core/job.go).
    """
    for name in rules.servers:
        if builder.roles.get(name, {}).get("restartPolicy") == "Always":
            limit = builder.data["spec"]["runPolicy"]["backoffLimit"]
            crashes = 0 if limit == ENDLESS else max(limit, 1)
            source = policy_field(builder.spec, "backoffLimit") or builder.spec
            builder.put(("spec", "runPolicy", "giveUpAfter", "crashes"), source, crashes)


def _never_retry(builder: Builder) -> None:
    """Keep the job's backoffLimit from roles with Never, whose failure fails the job at once.

    In a job file it applies to them too, as in a Kubernetes Job.
    """
    if "backoffLimit" not in builder.data["spec"].get("runPolicy", {}):
        return
    for name, role in builder.roles.items():
        path = ("spec", "roles", name)
        limits = {"backoffLimit", "backoffLimitPerIndex"}
        if role.get("restartPolicy") == "Never" and not limits & set(role):
            source = SourceValue(None, builder.origins[(*path, "restartPolicy")])
            builder.put((*path, "backoffLimit"), source, 0)


def policy_field(spec: SourceValue, name: str) -> SourceValue:
    """Return a field of the run policy, wherever this version has it; "" counts as not set."""
    places = [spec.get("runPolicy", name), spec.get("RunPolicy", name), spec.get(name)]
    first = next((value for value in places if value), places[0])
    return SourceValue(None, first.path) if first.value == "" else first


def _scheduling(
    builder: Builder, policy: SourceValue, replica_types: Mapping[str, SourceValue]
) -> None:
    """Write gang scheduling.

    The operator's command line names the scheduler. The resource does only if its pods do:
    volcano, or any other name for the coscheduling plugin.
    """
    if not policy:
        return
    schedulers = {
        replica_type.get("template", "spec", "schedulerName").value
        for replica_type in replica_types.values()
    } - {None, "", "default-scheduler"}
    if not schedulers:
        builder.differs(
            policy,
            "the operator uses the gang scheduler that it was started with; no gang is rendered,"
            " because the resource does not name that scheduler",
            "set schedulerName in the templates, or pass --set spec.scheduling.gang=volcano",
        )
        return
    gang = "volcano" if "volcano" in schedulers else "coscheduling"
    builder.put(("spec", "scheduling", "gang"), policy, gang)
    for name, job_field in GANG_FIELDS[gang].items():
        builder.put(("spec", "scheduling", job_field), policy.get(name))


GANG_FIELDS = {
    "volcano": {
        "queue": "queue",
        "priorityClass": "priorityClassName",
        "priorityClassName": "priorityClassName",
        "minAvailable": "minMember",
        "minResources": "minResources",
    },
    "coscheduling": {
        "priorityClass": "priorityClassName",
        "priorityClassName": "priorityClassName",
        "minAvailable": "minMember",
        "minResources": "minResources",
        "scheduleTimeoutSeconds": "scheduleTimeoutSeconds",
    },
}
"""By gang scheduler: the fields of a schedulingPolicy that it supports, and the job file's fields.

KubeDL calls `priorityClassName` what Kubeflow calls `priorityClass`.
"""
