"""The lifecycle of a job: the start order of roles, gang restarts, success and cleanup.

The supervisor (`mlgen/runtime`) or the step of an Argo workflow controls it. A job with neither is
rendered without the policies that need one, with a warning for each. If a role would never start
without one, that is an error.
"""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mlgen.contradictions.pods import SERVER_TOKEN, SERVER_URL
from mlgen.jobfile.model import GiveUpAfter, Progress, SuccessPolicy, TrainingJob, is_below
from mlgen.problems import Problem, error, warning
from mlgen.topology import Helper, Mount, PodField, PodFiles, Role, Scratch, Success, Topology

FIRST = Success(indexes="0")
"""Success as soon as replica 0 has succeeded."""

ANY = Success(count=1)
"""Success as soon as any replica has succeeded."""


def decides(job: TrainingJob) -> Literal["one", "all", "any"]:
    """Return how the deciding roles determine the outcome: one alone, all together, or any."""
    if not job.decides_together:
        return "one"
    return "any" if job.success_policy.operator == "Any" else "all"


def is_supervised(job: TrainingJob, roles: Sequence[Role]) -> bool:
    """Return True if the job needs a supervisor, and the job file permits one."""
    policy = job.run_policy
    configured = policy.restart_scope != "Replica" or policy.give_up_after or policy.port
    several = not all(role.decides for role in roles) or decides(job) != "one"
    needed = bool(configured or several)
    return job.supervisor and not job.workflow and not job.jobset and needed


def is_in_gang(job: TrainingJob, role: str) -> bool:
    """Return True if the supervisor restarts a role together with others.

    In a workflow there is no supervisor: the workflow restarts all roles.
    """
    scope = job.run_policy.restart_scope
    chosen = scope == "All" or (scope != "Replica" and role in scope)
    return chosen and job.supervisor and not job.workflow


def with_split_deciders(job: TrainingJob, role: str) -> TrainingJob:
    """Return the job with a policy by which the Jobs of a split role decide together, if needed.

    It is needed if all replicas must succeed.

    Args:
        job: the job.
        role: the deciding role, of which each of several replicas has its own Job.
    """
    if not job.watched or job.success_policy.replicas != "All":
        return job
    return job._replace(success_policy=SuccessPolicy(roles=(role,)))


def with_deciders(job: TrainingJob, roles: Sequence[Role]) -> list[Role]:
    """Return the job's roles; the names in `successPolicy.roles` are marked as deciding.

    All replicas of a deciding role must succeed. Without a supervisor or a workflow, only the first
    role in `successPolicy.roles` decides.
    """
    names = job.success_policy.roles
    if not names:
        return list(roles)
    chosen = names if job.watched else names[:1]
    return [
        _decider(role) if role.name in chosen else replace(role, decides=False) for role in roles
    ]


def _decider(role: Role) -> Role:
    success = role.success if role.success and role.success.needed else None
    return replace(role, decides=True, success=success)


def success(job: TrainingJob, default: Success | None, *, needed: bool) -> Success | None:
    """Return the success policy of the deciding role; None: all of its replicas must succeed.

    Once a Job's successPolicy is met, the Job controller deletes the pods that still run. With
    cleanPodPolicy None, operators keep these pods. So the framework's default applies only if the
    job is cleaned up anyway, or if its program relies on it.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy

    Args:
        job: the job.
        default: the framework's success policy.
        needed: True if the default always applies, because other replicas may fail.
    """
    required = job.success_policy.replicas
    if required is None:
        needed = needed or (default is not None and default.needed)
        return default if needed or job.run_policy.clean_pod_policy != "None" else None
    if required == "All":
        return None
    return FIRST if required == "First" else Success(count=int(required))


def cleanup(topology: Topology) -> str:
    """Return the command that deletes the pods that keep running after training ends.

    A Job stops and deletes only its own pods. A TTL deletes only a finished Job:
    https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
    The command is "" if no pods remain, or if the supervisor or a workflow removes them.
    """
    job, supervised = topology.job, topology.supervised
    stops = job.run_policy.clean_pod_policy != "None" and (supervised or job.workflow)
    deletes = job.run_policy.ttl_seconds_after_finished is not None and supervised
    if job.jobset or stops or deletes or not _endless(topology):
        return ""
    if all(role.serves for role in topology.roles if role.endless):
        return f"kubectl delete statefulsets -l mlgen.dev/job={job.name}"
    # Kueue would wait until the deleted pods are replaced.
    in_group = supervised and job.scheduling.gang == "kueue"
    return _delete_others(topology) + (f"; kubectl delete workload {job.name}" * in_group)


def _delete_others(topology: Topology) -> str:
    """Return the command that deletes all workloads except the deciding Job."""
    selector = f"mlgen.dev/job={topology.job.name},mlgen.dev/decides!=true"
    return f"kubectl delete statefulsets,jobs -l '{selector}'"


def _endless(topology: Topology) -> list[str]:
    """Return the roles whose replicas do not end by themselves."""
    roles = topology.roles
    return [role.name for role in roles if (role.serves or role.endless) and not role.decides]


def without_supervisor(topology: Topology) -> Iterator[Problem]:
    """Yield the problems of a job that is rendered without the supervisor that it needs.

    A role that would never start without one is an error. A policy without an effect is a warning.
    """
    job, policy = topology.job, topology.job.run_policy
    if policy.ttl_seconds_after_finished is not None and topology.cleanup:
        names = ", ".join(dict.fromkeys(_endless(topology)))
        message = f"Kubernetes deletes only finished Jobs; the pods of {names} keep running"
        hint = f"to stop them, run: {topology.cleanup}"
        yield warning(("runPolicy", "ttlSecondsAfterFinished"), message, hint)
    if not job.watched:
        yield from _ends(topology)
        yield from _starts(topology)


def _ends(topology: Topology) -> Iterator[Problem]:
    """Yield a warning for each policy that needs a supervisor until the end of a job."""
    job, policy, hint = topology.job, topology.job.run_policy, "remove --no-supervisor"
    remaining = dict.fromkeys(role.name for role in topology.roles if not role.decides)
    if policy.clean_pod_policy != "None" and remaining:
        names = ", ".join(remaining)
        message = f"without the supervisor, pods keep running after training ends: {names}"
        fix = f"to stop them, run: {_delete_others(topology)}"
        yield warning(("runPolicy", "cleanPodPolicy"), message, fix)
    if policy.restart_scope != "Replica":
        message = "restartScope has no effect: only the failed replica restarts"
        yield warning(("runPolicy", "restartScope"), f"without the supervisor, {message}", hint)
    if job.success_policy.roles:
        message = f"only {job.success_policy.roles[0]} determines the outcome"
        yield warning(("successPolicy", "roles"), f"without the supervisor, {message}", hint)
    split = [role for role in topology.roles if role.decides and role.host_ports]
    if job.success_policy.replicas == "All" and split and split[0].spec.replicas > 1:
        yield warning(
            ("successPolicy", "replicas"),
            "with host networking, each replica has its own Job; without the supervisor, only"
            " replica 0 determines the outcome",
            f"{hint}, or write First",
        )
    for name, value in (
        ("giveUpAfter", policy.give_up_after),
        ("forceDeleteAfterSeconds", policy.force_delete_after_seconds),
        ("metricsPort", policy.metrics_port),
        ("networkPolicy", policy.network_policy),
        ("progress", policy.progress),
    ):
        if value not in (None, GiveUpAfter(crashes=0), GiveUpAfter(start_failures=0)):
            message = f"without the supervisor, {name} has no effect"
            yield warning(("runPolicy", name), message, hint)


def _starts(topology: Topology) -> Iterator[Problem]:
    """Yield the problems of roles that wait for a state, which the supervisor would await."""
    hint = "remove --no-supervisor"
    for role in topology.roles:
        for order in role.orders if topology.job.scheduling.gang != "kueue" else ():
            message = f"{role.name} cannot wait until {order.role} is complete"
            path, fix = ("roles", role.spec.name, "waitFor"), f"{hint}, or write until: name"
            yield error(path, f"without the supervisor, {message}", fix)
    for spec in topology.job.roles.values():
        if any(entry.until == "Ready" for entry in spec.wait_for or ()):
            yield warning(
                ("roles", spec.name, "waitFor"),
                f"without the supervisor, the pods of {spec.name} start immediately, and wait only"
                " for DNS names",
                hint,
            )


POD = "/mlgen/pod"
"""The folder with the pod's UID, with which the supervisor identifies the sender of a request."""

RUN = "/mlgen/run"
"""The folder in which the sidecar keeps the number of the attempt while containers restart."""

TOKEN = f"{POD}/uid"
POD_MOUNT = Mount(PodFiles("mlgen-pod", {"uid": PodField("metadata.uid")}), POD)


def with_requests(topology: Topology) -> Topology:
    """Return the topology with what replicas need for requests to the supervisor, if they send any.

    They report progress and restart in place, with variables, volumes and a sidecar in the pods.
    """
    if not topology.supervised or not topology.job.run_policy.has_requests:
        return topology
    return topology._replace(
        roles=tuple(_with_request(topology.job, role) for role in topology.roles)
    )


def _with_request(job: TrainingJob, role: Role) -> Role:
    progress, helpers = job.run_policy.progress, role.helpers
    role = replace(role, in_place=role.gang and job.run_policy.restart_mode == "InPlace")
    file = _watched_file(progress, role)
    watched = {"MLGEN_FILE": file} if file else {}
    run = [Mount(Scratch("mlgen-run"), RUN, read_only=False)] if role.in_place else []
    if watched or run:
        env = {"MLGEN_SUPERVISOR": _server(job)} | watched
        mounts = (POD_MOUNT, *run)
        sidecar = Helper("supervised", "supervised.sh", "wait", env, mounts, sidecar=True)
        helpers = (sidecar, *role.helpers)
    if not progress:
        return replace(role, helpers=helpers)
    own = {SERVER_URL: f"{_server(job)}/progress", SERVER_TOKEN: TOKEN}
    mounts = (*role.mounts, POD_MOUNT)
    return replace(role, env={**role.env, **own}, mounts=mounts, helpers=helpers)


def _watched_file(progress: Progress | None, role: Role) -> str:
    """Return `progress.file` if a volume of a role's training container contains it, else ""."""
    file = (progress and progress.file) or ""
    paths = role.spec.mount_paths
    return file if any(is_below(posixpath.normpath(file), path) for path in paths) else ""


def _server(job: TrainingJob) -> str:
    """Return the URL of the supervisor."""
    domain = job.network.cluster_domain
    suffix = f".{job.namespace}.svc.{domain}" if domain else ""
    return f"http://{job.name}-supervisor{suffix}:{job.run_policy.port}"
