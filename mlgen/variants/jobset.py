"""`--as jobset`: one JobSet instead of Jobs, StatefulSets, the job's Service and a supervisor.

Each role is a replicated Job of one Job, so a replica's host name is `<job>-<role>-0-<index>`. A
replica with a Job of its own is a replicated Job, `<role>-<index>`. A role that serves is also a
Job. Its containers restart without limit, and JobSet deletes it when the training ends.

JobSet restarts all Jobs if one of them fails. The first failed pod of a role that restarts with
others therefore fails its Job. If the pod was disrupted, or if its exit code is permanent, the
reason of the failed Job is `PodFailurePolicy`, which a rule of the JobSet matches.

Sources: kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2, pkg/controllers/failure_policy.go and
pkg/webhooks/jobset_webhook.go. `schemas/integrations/jobset.json` lists the differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlgen.checks import sizes
from mlgen.jobfile.model import GiveUpAfter, RunPolicy, TrainingJob
from mlgen.kubernetes.names import KUEUE, KUEUE_QUEUE, LABEL_MAX
from mlgen.kubernetes.objects import Object
from mlgen.objects import placement
from mlgen.objects.labels import metadata, numbered, sign, workload_name
from mlgen.objects.skeleton import filled
from mlgen.problems import Problem, ValuePath, error, warning
from mlgen.resources import table
from mlgen.topology import Role, Topology
from mlgen.variants import Target

COMPONENT = "jobset"

TOO_LARGE = "use fewer replicas with Jobs of their own, or render Jobs"
"""The hint for a JobSet that is too large for the cluster."""

MOST_ORDERS = 5
"""The maximum length of `dependsOn`."""

SUFFIX = "-abcde"
"""The webhook adds this to the host name of a pod, and limits the length of both."""

DISRUPTED = "has condition DisruptionTarget"
"""A part of the message of a Job that failed because a pod was disrupted
(k8s.io/kubernetes, pkg/controller/job/pod_failure_policy.go)."""

KEPT = (
    "clean_pod_policy",
    "restart_scope",
    "backoff_limit",
    "active_deadline_seconds",
    "ttl_seconds_after_finished",
    "suspend",
    "managed_by",
)
"""The fields of the run policy that a JobSet has, or that change its Jobs."""


class JobSet(Target):
    """One JobSet, for clusters with its controller."""

    def job(self, job: TrainingJob) -> TrainingJob:
        """Return the job without the policies that JobSet does not have."""
        kept = {name: getattr(job.run_policy, name) for name in KEPT}
        never = GiveUpAfter(crashes=0, image_pull_seconds=0, start_failures=0, disruptions=0)
        policy = RunPolicy(
            **kept, give_up_after=never, backoff_reset_seconds=0, avoid_nodes="Never"
        )
        return job._replace(run_policy=policy, jobset=True, supervisor=True)

    def topology(self, topology: Topology, job: TrainingJob, spec: Mapping[str, Any]) -> Topology:
        """Return the topology in which roles that serve are Jobs that JobSet ends.

        The differences between the job and its JobSet are warnings.
        """
        problems = (*topology.problems, *_differences(topology, spec))
        roles = [
            # If it serves, its containers restart until JobSet deletes its Job.
            replace(role, serves=False, alone=role.alone or role.always_restarts, max_replicas=None)
            for role in topology.roles
        ]
        return topology._replace(roles=tuple(roles), problems=problems)

    def objects(self, topology: Topology, objects: Sequence[Object]) -> list[Object]:
        """Return the objects of a job, with one JobSet in the place of its Jobs and its Service.

        JobSet's controller creates the Service.
        """
        jobs: dict[str, Object] = {}
        packed: list[Object] = []
        position = 0
        for item in objects:
            kind, name = item["kind"], item["metadata"]["name"]
            if kind == "Job":
                position = position if jobs else len(packed)
                jobs[name] = item
            elif (kind, name) != ("Service", topology.job.subdomain):
                packed.append(item)
        # JobSet starts a Job only after Jobs that are listed before it.
        ranks = {role.name: 0 for role in topology.roles}
        for _ in ranks:
            for role in topology.roles:
                ranks[role.name] = max([0, *(ranks[order.role] + 1 for order in role.orders)])
        roles = sorted(topology.roles, key=lambda role: ranks[role.name])
        with_roles = [(role, jobs[workload_name(topology.job, role)]) for role in roles]
        packed.insert(position, _jobset(topology, with_roles))
        return packed

    def problems(self, topology: Topology, objects: Sequence[Object]) -> Iterator[Problem]:
        """Report a JobSet that is too large. One with a single Job is as large as this Job."""
        if len(topology.roles) > 1:
            for item in objects:
                yield from sizes(item, TOO_LARGE)


def _differences(topology: Topology, spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the differences between a job and its JobSet, and the reasons to reject it.

    Args:
        topology: of the job, with its roles that serve.
        spec: of the job file.
    """
    gang = [role for role in topology.roles if role.gang]
    yield from _missing_policies(spec.get("runPolicy") or {}, is_gang=bool(gang))
    scope: ValuePath = ("runPolicy", "restartScope")
    if gang:
        limit = topology.job.run_policy.retries
        message = "JobSet restarts the replicas at once, without a growing delay"
        yield warning(scope, f"{message}, up to {limit} times in total", code="differs")
    others = dict.fromkeys(role.name for role in topology.roles if not role.gang)
    if gang and others:
        message = f"JobSet restarts all roles, also {', '.join(others)}"
        yield warning(scope, message, "write restartScope: All, or render Jobs", "differs")
    for role in topology.roles:
        path = ("roles", role.spec.name)
        if role.tolerates_failure and not role.decides:
            message = (
                f"JobSet fails the job when the last replica of {role.name} has ended"
                " and one of them has failed"
            )
            yield warning(path, message, code="differs")
        if (role.max_replicas or 0) > role.replicas:
            message = f"a JobSet cannot be scaled: {role.name} keeps {role.replicas} replicas"
            yield warning((*path, "replicas"), message, code="differs")
        if len(role.orders) > MOST_ORDERS:
            message = (
                f"a JobSet can start a Job after at most {MOST_ORDERS} others,"
                f" but {role.name} waits for {len(role.orders)}"
            )
            hint = "wait for fewer roles with until: Complete or until: Ready"
            yield error((*path, "waitFor"), message, hint)
    yield from _unusable_names(topology)


def _missing_policies(policy: Mapping[str, Any], *, is_gang: bool) -> Iterator[Problem]:
    """Yield the fields of the run policy that JobSet does not have."""
    fields = table("integrations/jobset")["fields"]
    for name, value in policy.items():
        reason = fields.get(f"{name}: {value}") or fields.get(name)
        is_different = value not in (0, "Never") and (is_gang or name != "activeDeadlineSeconds")
        if reason and is_different:
            message, hint = f"{name} differs in a JobSet: {reason}", "remove it, or render Jobs"
            yield warning(("runPolicy", name), message, hint, "differs")


def _unusable_names(topology: Topology) -> Iterator[Problem]:
    """Yield an error if the job needs certain names of pods, or if these names are too long."""
    job = topology.job
    rights = [right for role in topology.roles for right in role.rights if right.names]
    if any(role.workload for role in topology.roles):
        message = f"a JobSet cannot run {job.framework}, whose Job must have a fixed name"
        yield error(("framework",), message, "render Jobs")
    elif any(right.resource == "pods" for right in rights):
        message = (
            "the launcher reaches workers by pod name, but the pods of a JobSet have random names"
        )
        yield error(("options", "transport"), message, "write transport: ssh")
    pods = [f"{workload_name(job, role)}-{role.replicas - 1}{SUFFIX}" for role in topology.roles]
    pod = max(pods, key=len)
    excess = len(pod) - LABEL_MAX
    if excess > 0:
        length = f'JobSet\'s pod "{pod}" has {len(pod)} characters, the limit is {LABEL_MAX}'
        hint = f"shorten the name by {excess} character{'s' if excess > 1 else ''}"
        message = f"the name is too long: {length}"
        yield Problem(("metadata", "name"), message, "name-too-long", hint)


def _jobset(topology: Topology, jobs: Sequence[tuple[Role, Object]]) -> Object:
    """Return the JobSet of these roles and their Jobs."""
    job, policy = topology.job, topology.job.run_policy
    own = metadata(job, job.name, COMPONENT)
    sign(own)
    if placement.is_queued(topology):
        own["labels"][KUEUE_QUEUE] = job.scheduling.queue
    deciding = [numbered(role) for role, _ in jobs if role.decides]
    gang = [role for role, _ in jobs if role.gang]
    return filled(
        "jobset",
        metadata=own,
        suspend=(policy.suspend and not placement.is_queued(topology)) or None,
        managed_by=policy.managed_by,
        ttl=policy.ttl_seconds_after_finished,
        subdomain=job.subdomain if job.network.subdomain else None,
        before_ready=False if topology.only_ready else None,
        operator=("Any" if topology.decides == "any" else "All") if jobs[1:] else None,
        deciding=deciding if jobs[1:] else None,
        max_restarts=policy.retries if gang else None,
        rules=_failure_policy_rules(topology) or None if gang else None,
        jobs=[_replicated(topology, role, item) for role, item in jobs],
    )


def _replicated(topology: Topology, role: Role, item: Object) -> Object:
    """Return the replicated Job of a role.

    Kueue manages the JobSet, so its Jobs must not have Kueue's labels.
    """
    labels = item["metadata"]["labels"].items()
    own = {"labels": {name: value for name, value in labels if not name.startswith(KUEUE)}}
    before = [
        {"name": numbered(other), "status": order.until}
        for order in role.orders
        for other in topology.roles
        if other.name == order.role
    ]
    return {
        "name": numbered(role),
        "replicas": 1,
        **({"dependsOn": before} if before else {}),
        "template": {"metadata": own, "spec": item["spec"]},
    }


def _failure_policy_rules(topology: Topology) -> list[Object]:
    """Return the rules of the failurePolicy. Any other failure of a Job is a counted restart."""
    roles = topology.roles
    permanent = [role for role in roles if role.gang and role.restart == "ExitCode"]
    final = [role for role in roles if not role.restarts_together or role.restart == "Never"]
    disrupted = [role for role in roles if role.gang and role.restart != "OnFailure"]
    disrupted += [role for role in roles if role.restarts_together and role.restart == "OnFailure"]
    patterns = {"onJobFailureMessagePatterns": [DISRUPTED]} if permanent else {}
    reasons = {"onJobFailureReasons": ["PodFailurePolicy"]}
    uncounted = "RestartJobSetAndIgnoreMaxRestarts"
    rules = [
        _rule("disrupted", uncounted, roles, disrupted, reasons | patterns),
        _rule("permanent", "FailJobSet", roles, permanent, reasons),
        _rule("final", "FailJobSet", roles, final, {}),
    ]
    deadline = topology.job.run_policy.active_deadline_seconds
    if deadline or any(role.spec.active_deadline_seconds for role in roles):
        late = {"onJobFailureReasons": ["DeadlineExceeded"]}
        rules.append(_rule("late", "FailJobSet", roles, roles, late))
    return [rule for rule in rules if rule]


def _rule(
    name: str, action: str, roles: Sequence[Role], chosen: Sequence[Role], conditions: Object
) -> Object:
    """Return a rule for the Jobs of the chosen roles; {} if there are none."""
    if not chosen:
        return {}
    of_chosen = {numbered(role) for role in chosen}
    names = [own for role in roles if (own := numbered(role)) in of_chosen]
    targets = {"targetReplicatedJobs": names} if len(names) < len(roles) else {}
    return {"name": name, "action": action, **conditions, **targets}
