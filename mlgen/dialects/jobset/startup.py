"""The order in which the Jobs of a set start: `dependsOn` and `startupPolicy`.

JobSet creates a Job when those before it are ready or complete. Here it is suspended until then.
Sources: kubernetes-sigs/jobset, pkg/controllers/depends_on.go and startup_policy.go.
"""

from collections.abc import Iterator

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob, is_queued
from mlgen.problems import did_you_mean


def write_startup_order(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write `waitFor` of each role: the roles that JobSet waits for before it creates its Job."""
    order = builder.spec.get("startupPolicy", "startupPolicyOrder")
    for position, replicated in enumerate(replicated_jobs):
        earlier = replicated_jobs[:position]
        waits = _dependencies(builder, replicated, earlier)
        if order.value == "InOrder":
            waits += [wait for other in earlier for wait in _waits(builder, order, other, "Ready")]
        source = replicated.source.get("dependsOn") or order
        for role in replicated.roles if waits else ():
            builder.put(("spec", "roles", role, "waitFor"), source, waits)


def _dependencies(
    builder: Builder, replicated: ReplicatedJob, earlier_jobs: list[ReplicatedJob]
) -> list[dict[str, str]]:
    """Return the waits for the replicated Jobs of `dependsOn`; report what is not possible."""
    in_order = builder.spec.get("startupPolicy", "startupPolicyOrder").value == "InOrder"
    earlier = {other.name: other for other in earlier_jobs}
    waits: list[dict[str, str]] = []
    for dependency in replicated.source.get("dependsOn").items():
        name = dependency.value["name"]
        if in_order:
            message = "startupPolicyOrder: InOrder and dependsOn are mutually exclusive"
            builder.refuse(dependency, message, "remove one of the two")
        elif name not in earlier:
            message = (
                f"{replicated.name} can depend only on a replicated Job that is listed before it"
            )
            hint = did_you_mean(name, earlier) or "change the order of replicatedJobs"
            builder.refuse(dependency.get("name"), message, hint)
        else:
            waits += _waits(builder, dependency, earlier[name], dependency.value["status"])
    return waits


def _waits(
    builder: Builder, source: SourceValue, other: ReplicatedJob, status: str
) -> Iterator[dict[str, str]]:
    """Yield a wait for each Job of a replicated Job, until it is Ready or Complete.

    A pod without a readiness or startup probe is ready as soon as it runs, and a Job that has
    completed counts as ready. Kueue starts all Jobs at once, so their pods wait.
    """
    if not is_queued(builder):
        yield from ({"role": role, "until": status} for role in other.roles if other.pod_count)
    elif status == "Ready":
        yield from ({"role": role, "until": "name"} for role in other.roles if other.pod_count)
    else:
        message = f"JobSet waits until {other.name} has completed; here Kueue starts both at once"
        builder.differs(source, message, f"apply {other.name} alone, and wait until it completes")


def completed_before(
    builder: Builder, replicated: ReplicatedJob, replicated_jobs: list[ReplicatedJob]
) -> frozenset[str]:
    """Return the names of replicated Jobs that are waited for to complete before this starts."""
    completed: frozenset[str] = frozenset()
    if is_queued(builder):
        return completed
    for dependency in replicated.source.get("dependsOn").items():
        for other in replicated_jobs:
            if (
                other.name == dependency.value["name"]
                and other.first_index < replicated.first_index
            ):
                completed |= completed_before(builder, other, replicated_jobs)
                if dependency.value["status"] == "Complete":
                    completed |= {other.name}
    return completed
