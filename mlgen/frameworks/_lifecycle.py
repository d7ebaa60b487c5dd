"""The lifecycle of a job: the start order of roles, gang restarts, success and cleanup.

The supervisor (`mlgen/runtime`) or the step of an Argo workflow controls it. A job with neither is
rendered without the policies that need one, with a warning for each. If a role would never start
without one, that is an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mlgen.launch._old import launches_of, scripts_of, trains, words_of
from mlgen.frameworks._tables import problem
from mlgen.jobfile.model import (
    GANG_BOUNDS,
    GiveUpAfter,
    RoleSpec,
    RunPolicy,
    SuccessPolicy,
    TrainingJob,
    written,
)
from mlgen.problems import Problem, did_you_mean
from mlgen.shell import is_shell, program, sequence
from mlgen.topology import Role, Success, Topology

FIRST = Success(indexes="0")
"""Success as soon as replica 0 has succeeded."""

ANY = Success(count=1)
"""Success as soon as any replica has succeeded."""

BOUNDS = {path[-1]: ("runPolicy", *path) for path in GANG_BOUNDS}
"""The path below `spec` of each bound on the restarts of a gang."""

OWN_LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
"""The limits of a role that restarts alone. They have no effect in a gang."""


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


def with_split_deciders(job: TrainingJob, role: str, *, split: bool) -> TrainingJob:
    """Return the job with a policy by which the Jobs of a split role decide together, if needed.

    It is needed if all replicas must succeed.

    Args:
        job: the job.
        role: the deciding role.
        split: True if it has several replicas, and each of them has its own Job.
    """
    if not split or not job.watched or job.success_policy.replicas != "All":
        return job
    return replace(job, success_policy=SuccessPolicy(roles=(role,)))


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


def supervision_problems(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    """Yield the problems of the lifecycle: policies that need a supervisor, and lost signals."""
    yield from _deciders(job, roles)
    yield from _gang(job, roles)
    yield from _orders(job, roles)
    yield from _signals(roles)
    yield from _alone(job, roles)
    if not job.watched:
        yield from _undecided(job)


def _deciders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    policy = job.success_policy
    if policy.roles and (policy.role or policy.replicas is not None):
        yield problem("deciders-and-role")
    if policy.operator == "Any" and not policy.roles:
        yield problem("operator-alone")
    yield from unknown_roles(("successPolicy", "roles"), policy.roles, roles)
    for role in roles:
        if role.name in policy.roles and role.endless:
            yield problem("endless-decider", role=role)


def _gang(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    scope = job.run_policy.restart_scope
    if scope == "Replica":
        for role in (role for role in roles if role.spec.restart_scope):
            yield problem("scope-is-replica", role=role)
        return
    if isinstance(scope, tuple):
        yield from unknown_roles(("runPolicy", "restartScope"), scope, roles)
    named = [role for role in roles if role.gang and role.serves]
    if named and job.scheduling.gang == "kueue" and not job.jobset:
        yield problem("scope-with-kueue", role=named[0])
    for role in roles:
        limits = OWN_LIMITS if role.restarts_together else ()
        for name in (name for name in limits if name in written(role.spec)):
            yield problem("limit-in-gang", role=role, name=name)


STATIC_RANKS = ("PET_NODE_RANK", "PROCESS_ID")
"""Variables with a rank that a replica keeps, so that its peers cannot continue without it."""


def _alone(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    """Warn of replicas with static ranks that restart alone, while their peers hang.

    Operators do the same. torchrun's dynamic rendezvous admits a new replica.
    """
    rule = "restarts-alone-as-there" if job.converted else "restarts-alone"
    for role in (role for role in roles if needs_gang(job, role)):
        spec = role.spec
        launches = launches_of(spec)
        is_dynamic = "PET_RDZV_BACKEND" in spec.env or any(
            launch.options.get("rdzv_backend", "static") != "static" for launch in launches
        )
        is_written = not job.unwritten.issuperset(role.merged or [spec.name])
        if spec.restart_policy == "OnFailure" and is_written and not is_dynamic:
            yield problem(rule, spec=spec)


def needs_gang(job: TrainingJob, role: Role) -> bool:
    """Return True if replicas with static ranks restart alone, but could restart together."""
    is_static = job.replicas > 1 and not role.env.keys().isdisjoint(STATIC_RANKS)
    is_possible = job.supervisor and not job.workflow
    return is_static and is_possible and not is_in_gang(job, role.spec.name)


DEFAULT_GRACE = 30
"""terminationGracePeriodSeconds of pods that do not set it."""


def _signals(roles: Sequence[Role]) -> Iterator[Problem]:
    """Warn of a shell that keeps SIGTERM from a program for which the job file prepares it.

    The shell is process 1, and the kernel discards signals for which process 1 has no handler
    (pid_namespaces(7)). So the program gets only SIGKILL, after the grace period. bash replaces
    itself with the last command of its script, unless that has a redirection. dash and busybox
    do not.
    """
    for spec in (role.spec for role in roles if not role.endless):
        script = next(iter(scripts_of(spec)), None)
        if script is None or not _relies_on_sigterm(spec):
            continue
        text, path = script.text, script.path
        commands = [words for words, _ in sequence(text) or ()]
        last = commands[-1] if commands else []
        shell = next((word for word in words_of(spec) if is_shell(word)), "sh")
        replaces_itself = program(shell) == "bash" and ">" not in text
        if trains(last) and not replaces_itself and not {"exec", "trap"} & {c[0] for c in commands}:
            command = " ".join(last[:2])
            yield problem("no-sigterm", ("roles", spec.name, *path), shell=shell, command=command)


def _relies_on_sigterm(spec: RoleSpec) -> bool:
    """Return True if a role has more than the default time to end, or a file handles SIGTERM."""
    hooks = [(patch.get("lifecycle") or {}).get("preStop") for patch in spec.container_patches]
    pods = [template.get("spec") or {} for template in spec.templates]
    grace = [pod.get("terminationGracePeriodSeconds") or 0 for pod in pods]
    return not any(hooks) and (
        max(grace, default=0) > DEFAULT_GRACE
        or any("signal.SIGTERM" in text for text in spec.file_texts)
    )


def unknown_roles(
    path: tuple[str, ...], names: Iterable[str], roles: Iterable[Role | RoleSpec]
) -> Iterator[Problem]:
    """Return an error for each name that no role of the job has."""
    known = sorted({role.name for role in roles})
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"the roles are {', '.join(known)}"
            yield problem("unknown-role", path, name=name, hint=hint)


def _orders(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    by_name = {role.name: role for role in roles}
    for role in roles:
        for order in role.orders:
            other = by_name[order.role]
            if job.scheduling.gang == "kueue" and not job.jobset:
                yield problem("order-with-kueue", role=role, order=order)
            elif not job.watched:
                yield problem("order-unsupervised", role=role, order=order)
            elif order.until == "Complete" and other.endless:
                yield problem("order-after-endless", role=role, order=order)
            elif order.until == "Complete" and other.decides and decides(job) == "one":
                yield problem("order-after-end", role=role, order=order)


def _undecided(job: TrainingJob) -> Iterator[Problem]:
    """Return a warning for each policy that requires a supervisor."""
    policy = job.run_policy
    if policy.restart_scope != "Replica":
        yield problem("unsupervised-scope")
    if job.success_policy.roles:
        yield problem("unsupervised-deciders", name=job.success_policy.roles[0])
    for role in job.roles.values():
        if any(entry.until == "Ready" for entry in role.wait_for or ()):
            yield problem("unsupervised-ready", role=role)
    for name, value in (
        ("giveUpAfter", policy.give_up_after),
        ("forceDeleteAfterSeconds", policy.force_delete_after_seconds),
        ("metricsPort", policy.metrics_port),
        ("networkPolicy", policy.network_policy),
        ("progress", policy.progress),
    ):
        if value not in (None, GiveUpAfter(crashes=0), GiveUpAfter(start_failures=0)):
            yield problem("unsupervised-field", name=name)


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


def success_problems(job: TrainingJob, replicas: int, *, split: bool) -> Iterator[Problem]:
    """Return the errors of `successPolicy.replicas`.

    Args:
        job: the job.
        replicas: the number of replicas of the deciding role.
        split: True if there are several, and each of them has its own Job.
    """
    required = job.success_policy.replicas
    if required == "All" and split:
        yield problem("split-all")
    elif required not in (None, "First") and split:
        yield problem("split-number")
    if required not in (None, "First", "All") and int(required) > replicas:
        yield problem("more-than-replicas", required=required, replicas=replicas)


def cleanup(topology: Topology) -> str:
    """Return the command that deletes the pods that keep running after training ends.

    A Job stops and deletes only its own pods. A TTL deletes only a finished Job:
    https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
    The command is "" if no pods remain, or if the supervisor or a workflow removes them.
    """
    job, endless = topology.job, _endless(topology)
    deletes = topology.supervised and job.run_policy.ttl_seconds_after_finished is not None
    if not endless or deletes or _stops_pods(topology):
        return ""
    if all(role.serves for role in topology.roles if role.endless):
        return f"kubectl delete statefulsets -l mlgen.dev/job={job.name}"
    # Kueue would wait until the deleted pods are replaced.
    in_group = topology.supervised and job.scheduling.gang == "kueue"
    return _delete_others(topology) + (f"; kubectl delete workload {job.name}" * in_group)


def _delete_others(topology: Topology) -> str:
    """Return the command that deletes all workloads except the deciding Job."""
    selector = f"mlgen.dev/job={topology.job.name},mlgen.dev/decides!=true"
    return f"kubectl delete statefulsets,jobs -l '{selector}'"


def _endless(topology: Topology) -> list[str]:
    """Return the roles whose replicas do not end by themselves."""
    roles = topology.roles
    return [role.name for role in roles if (role.serves or role.endless) and not role.decides]


def _stops_pods(topology: Topology) -> bool:
    """Return True if the supervisor, a workflow or JobSet stops the pods that keep running."""
    job, cleans = topology.job, topology.job.run_policy.clean_pod_policy != "None"
    return job.jobset or (cleans and (topology.supervised or job.workflow))


def clean_pod_policy(topology: Topology) -> Iterator[Problem]:
    """Warn of a cleanPodPolicy without a supervisor to stop pods, or of All without any to delete.

    Running is right without pods to stop: none keeps running.
    """
    job = topology.job
    policy = job.run_policy.clean_pod_policy
    if policy == "None" or _stops_pods(topology):
        return
    remaining = [role.name for role in topology.roles if not role.decides]
    if remaining:
        yield problem("not-stopped", names=_names(remaining), command=_delete_others(topology))
    elif policy == "All" and not job.converted and not _stops_replicas(topology):
        yield problem("nothing-to-stop", policy=policy)


def _stops_replicas(topology: Topology) -> bool:
    """Return True if the policy lets Kubernetes stop the deciding role's pods; see `success`."""
    return topology.job.success_policy.replicas is None and any(
        role.decides and role.replicas > 1 and role.success and not role.success.needed
        for role in topology.roles
        if not role.tolerates_failure
    )


def ttl(topology: Topology) -> Iterator[Problem]:
    """Warn of a TTL without a supervisor: it deletes only finished Jobs."""
    remaining, is_watched = _endless(topology), topology.supervised or topology.job.jobset
    if topology.job.run_policy.ttl_seconds_after_finished is None or is_watched:
        return
    if remaining:
        yield problem("not-deleted", names=_names(remaining), command=cleanup(topology))


def _names(names: list[str]) -> str:
    """Return each name once, separated by commas."""
    return ", ".join(dict.fromkeys(names))


def force_delete(topology: Topology) -> Iterator[Problem]:
    """Report a time after which no pod is deleted, because the job has no StatefulSet."""
    is_set = topology.job.run_policy.force_delete_after_seconds is not None
    if is_set and not any(role.serves for role in topology.roles):
        yield problem("force-delete")


def server_policy(topology: Topology) -> Iterator[Problem]:
    """Report a NetworkPolicy of the supervisor's port that is not rendered, or blocks clients."""
    job, policy = topology.job, topology.job.run_policy
    own, reports = policy.network_policy, policy.has_requests
    if own is None or not topology.supervised:
        return
    if any("ipBlock" in each and len(each) > 1 for each in own.also_from):
        yield problem("policy-block-and-pods")
    if policy.port is None:
        yield problem("policy-without-port")
    elif policy.metrics_port and not own.also_from:
        yield problem("policy-hides-metrics", port=policy.metrics_port)
    if job.network.on_host and reports and not any("ipBlock" in each for each in own.also_from):
        yield problem("policy-hides-host", names=_names([role.name for role in topology.roles]))


def gang_bounds(topology: Topology) -> Iterator[Problem]:
    """Report bounds on gang restarts that contradict each other or never apply."""
    job, policy = topology.job, topology.job.run_policy
    bounds = policy.give_up_after or GiveUpAfter()
    names = {*written(policy), *written(bounds)}
    if job.converted or not job.supervisor or job.jobset:
        return
    if any(role.gang for role in topology.roles):
        yield from _bounds_of_gang(policy, bounds, names)
    elif not job.workflow:
        for name in (name for name in BOUNDS if name in names):
            yield problem("bound-without-gang", BOUNDS[name], name=name)


def _bounds_of_gang(policy: RunPolicy, bounds: GiveUpAfter, names: set[str]) -> Iterator[Problem]:
    """Report contradicting bounds on gang restarts; `names` are the fields in the job file."""
    start, reset, most = bounds.start_seconds, policy.backoff_reset_seconds, policy.retries + 1
    if "startFailures" in names and bounds.start_failures > most:
        yield problem("start-failures", BOUNDS["startFailures"], policy=policy, most=most)
    if not bounds.start_failures:
        if "startSeconds" in names:
            yield problem("start-seconds", BOUNDS["startSeconds"])
    elif {"startSeconds", "backoffResetSeconds"} & names and 0 < reset <= start:
        name = "backoffResetSeconds" if "backoffResetSeconds" in names else "startSeconds"
        yield problem("reset-before-start", BOUNDS[name], reset=reset, start=start)
