"""What keeps running or is deleted when training ends, where a job file says otherwise.

A Job stops and deletes only its own pods, and a TTL only a finished Job:
https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from collections.abc import Iterator

from mlgen.problems import Problem
from mlgen.topology import Topology

CLEAN = ("spec", "runPolicy", "cleanPodPolicy")
TTL = ("spec", "runPolicy", "ttlSecondsAfterFinished")


def problems(topology: Topology) -> Iterator[Problem]:
    """Return warnings for cleanPodPolicy and ttlSecondsAfterFinished."""
    yield from _clean_pod_policy(topology)
    yield from _ttl(topology)


def cleanup(topology: Topology) -> str:
    """Return the command that deletes the pods that keep running after training ends.

    It is "" if there are none, or if the supervisor or a workflow stops or deletes them.
    """
    job, endless = topology.job, _endless(topology)
    deletes = topology.supervised and job.run_policy.ttl_seconds_after_finished is not None
    if not endless or deletes or _stops_pods(topology):
        return ""
    if all(role.serves for role in topology.roles if role.endless):
        return f"kubectl delete statefulsets -l mlgen.dev/job={job.name}"
    return _delete_others(topology)


def _delete_others(topology: Topology) -> str:
    """Return the command that deletes every workload but the deciding Job."""
    selector = f"mlgen.dev/job={topology.job.name},mlgen.dev/decides!=true"
    return f"kubectl delete statefulsets,jobs -l '{selector}'"


def _endless(topology: Topology) -> list[str]:
    """Return the roles whose replicas do not end by themselves."""
    roles = topology.roles
    return [role.name for role in roles if (role.serves or role.endless) and not role.decides]


def _stops_pods(topology: Topology) -> bool:
    """Return True if the supervisor or a workflow stops the pods that keep running."""
    job = topology.job
    return (topology.supervised or job.workflow) and job.run_policy.clean_pod_policy != "None"


def _clean_pod_policy(topology: Topology) -> Iterator[Problem]:
    """Only a supervisor stops the pods of other roles, and it needs some to stop."""
    job = topology.job
    policy = job.run_policy.clean_pod_policy
    if policy == "None" or _stops_pods(topology):
        return
    remaining = [role.name for role in topology.roles if not role.decides]
    if remaining:
        message = f"without a supervisor, {_names(remaining)} are not stopped when training ends"
        hint = f"then run: {_delete_others(topology)}"
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
    """Without a supervisor, a TTL deletes finished Jobs only."""
    remaining = _endless(topology)
    if topology.job.run_policy.ttl_seconds_after_finished is None or topology.supervised:
        return
    if remaining:
        names = _names(remaining)
        message = f"Kubernetes deletes only finished Jobs; the pods of {names} keep running"
        hint = f"then run: {cleanup(topology)}"
        yield Problem(TTL, message, "combination", hint, warning=True)


def _names(names: list[str]) -> str:
    """Return each name once, separated by commas."""
    return ", ".join(dict.fromkeys(names))
