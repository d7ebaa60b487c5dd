"""What keeps running or is deleted when training ends, where a job file says otherwise.

A Job stops and deletes only its own pods, and a TTL only a finished Job:
https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from collections.abc import Iterator

from mlgen.problems import Problem
from mlgen.topology import SUPERVISED_MIN_TTL, Topology

CLEAN = ("spec", "runPolicy", "cleanPodPolicy")
TTL = ("spec", "runPolicy", "ttlSecondsAfterFinished")


def problems(topology: Topology) -> Iterator[Problem]:
    """Return warnings for cleanPodPolicy and ttlSecondsAfterFinished."""
    yield from _clean_pod_policy(topology)
    yield from _ttl(topology)


def cleanup(topology: Topology) -> str:
    """Return the command that deletes the pods that keep running after training ends.

    It is "" if there are none, or if a supervisor or a workflow stops them.
    """
    return _command(topology) if _endless(topology) and not _cleans_up(topology) else ""


def _command(topology: Topology) -> str:
    """Return the command that deletes StatefulSets, and Jobs of servers if there are any."""
    job = topology.job.name
    if all(role.serves for role in topology.roles if role.endless):
        return f"kubectl delete statefulsets -l mlgen.dev/job={job}"
    return f"kubectl delete statefulsets,jobs -l 'mlgen.dev/job={job},mlgen.dev/decides!=true'"


def _endless(topology: Topology) -> list[str]:
    """Return the roles whose replicas do not end by themselves."""
    roles = topology.roles
    return [role.name for role in roles if (role.serves or role.endless) and not role.decides]


def _cleans_up(topology: Topology) -> bool:
    """Return True if a supervisor or a workflow stops the pods that keep running."""
    job = topology.job
    return topology.supervised or (job.workflow and job.run_policy.clean_pod_policy != "None")


def _clean_pod_policy(topology: Topology) -> Iterator[Problem]:
    """Only a supervisor stops the pods of other roles, and it needs some to stop."""
    job = topology.job
    policy = job.run_policy.clean_pod_policy
    if policy == "None" or _cleans_up(topology):
        return
    remaining = [role.name for role in topology.roles if not role.decides]
    if remaining:
        message = f"without a supervisor, {_names(remaining)} are not stopped when training ends"
        hint = (
            "then run: kubectl delete statefulsets,jobs"
            f" -l 'mlgen.dev/job={job.name},mlgen.dev/decides!=true'"
        )
        yield Problem(CLEAN, message, "combination", hint, warning=True)
    elif not job.converted and not _stops_replicas(topology):
        message = f"{policy} has no effect: no pod keeps running after training ends"
        yield Problem(CLEAN, message, "no-effect", "remove it", warning=True)


def _stops_replicas(topology: Topology) -> bool:
    """Return True if the policy lets Kubernetes stop replicas of the deciding role: `_success`."""
    return topology.job.success_policy.replicas is None and any(
        role.decides and role.replicas > 1 and role.success and not role.success.needed
        for role in topology.roles
        if not role.tolerates_failure
    )


def _ttl(topology: Topology) -> Iterator[Problem]:
    """A TTL deletes finished Jobs only, and must leave the supervisor time to see their result."""
    job = topology.job
    ttl, supervised = job.run_policy.ttl_seconds_after_finished, topology.supervised
    if ttl is None:
        return
    if supervised and ttl < SUPERVISED_MIN_TTL:
        message = f"a Job may be deleted after {ttl} s, before the supervisor sees its result"
        hint = f"rendered as {SUPERVISED_MIN_TTL}"
        yield Problem(TTL, message, "combination", hint, warning=True)
    if supervised and job.run_policy.clean_pod_policy == "All":
        return
    remaining = _endless(topology)
    if remaining:
        what, rest = ("objects", "remain") if supervised else ("pods", "keep running")
        names = _names(remaining)
        message = f"Kubernetes deletes only finished Jobs; the {what} of {names} {rest}"
        hint = f"then run: {_command(topology)}"
        yield Problem(TTL, message, "combination", hint, warning=True)


def _names(names: list[str]) -> str:
    """Return each name once, separated by commas."""
    return ", ".join(dict.fromkeys(names))
