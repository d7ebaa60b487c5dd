"""Rendered objects → comments on the fields of a workload that a reviewer asks about.

A comment is true for a value of the user, too. Values that explain themselves have none.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mlgen.kubernetes.limits import INT32_MAX
from mlgen.kubernetes.objects import Notes, Object
from mlgen.objects import placement
from mlgen.objects.labels import numbered, workload_name
from mlgen.objects.supervisor import RESTARTS, WORKLOADS, own_name
from mlgen.topology import Role, Topology

LONGEST = 70
"""The maximum length of a comment on a condition, so that its line has less than 100 columns."""

PAUSED = "as in the input; render without suspend to start"
OWN_FAILURES = "failures of the supervisor itself, not of training"


def notes(topology: Topology) -> Callable[[Object], Notes]:
    """Return a function that returns the comments on an object of the job."""
    job = topology.job
    roles = {workload_name(job, role): role for role in topology.roles}
    added = {own_name(job): {"suspend": PAUSED, "backoffLimit": OWN_FAILURES}}
    added[placement.release_name(job)] = {
        "suspend": "the supervisor resumes it to release the group",
        "backoffLimit": "evictions of its pod count as failures",
    }

    def of_object(item: Object) -> Notes:
        if item["kind"] == "JobSet":
            return _of_jobset(topology, item)
        if item["kind"] not in WORKLOADS:
            return {}
        name, spec = item["metadata"]["name"], item["spec"]
        role = roles.get(name)
        fields = dict(_of_role(topology, role, spec)) if role else added.get(name, {})
        return {"spec": {key: text for key, text in fields.items() if _is_explained(spec, key)}}

    return of_object


def _is_explained(spec: Mapping[str, Any], key: str) -> bool:
    """Return True for a value that mlgen sets. Any other one is the user's."""
    values = {"suspend": (True,), "replicas": (0,)}.get(key, (0, RESTARTS, INT32_MAX))
    return spec.get(key) in values


def _of_jobset(topology: Topology, item: Object) -> Notes:
    """Return the comments on a JobSet and its Jobs."""
    roles = {numbered(role): role for role in topology.roles}
    jobs = {
        number: {"template": {"spec": dict(_of_role(topology, roles[each["name"]], spec))}}
        for number, each in enumerate(item["spec"]["replicatedJobs"])
        for spec in [each["template"]["spec"]]
    }
    return {"spec": {"suspend": PAUSED, "replicatedJobs": jobs}}


def _of_role(topology: Topology, role: Role, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield fields of a role's workload, each with its comment."""
    field = "replicas" if role.serves else "suspend"
    if topology.job.run_policy.suspend:
        yield field, PAUSED
    elif role.orders:
        yield field, _order(topology, role)
    limits = () if role.serves else ("backoffLimit", "backoffLimitPerIndex")
    for name in limits:
        if name in spec and (text := _limit(topology, role, spec[name])):
            yield name, text


def _order(topology: Topology, role: Role) -> str:
    """Return what a role waits for, and which program then starts it."""
    who = "the workflow" if topology.job.workflow else "the supervisor"
    verb = "scales it up" if role.serves else "resumes it"
    states = (f"{order.role} is {order.until.lower()}" for order in role.orders)
    text = f"{who} {verb} when {' and '.join(states)}"
    return text if len(text) <= LONGEST else f"{who} {verb} in order"


def _limit(topology: Topology, role: Role, limit: int) -> str:
    """Return why a role has no limit of retries, or no retries; "" for another limit.

    See `_retries` in `mlgen/objects/workload.py`.
    """
    job = topology.job
    if limit == INT32_MAX:
        why = ": it always restarts" if role.restart == "Always" else ""
        if role.restarts_together and not job.jobset:
            why = f": {'the workflow' if job.workflow else 'the supervisor'} counts the restarts"
        return f"no limit{why}"
    if limit == 0 and role.restarts_together and job.jobset and role.restart != "Never":
        return "JobSet counts the restarts"
    return NO_RETRIES.get(role.restart, "") if limit == 0 else ""


NO_RETRIES = {
    "Workflow": "the workflow counts the restarts",
    "Never": "no retries: the role's restartPolicy is Never",
}
"""Why a Job has no retries, by the restart policy of its role."""
