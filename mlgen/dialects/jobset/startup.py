"""The order in which the Jobs of a set start: `dependsOn` and `startupPolicy`.

JobSet creates a Job when those before it are ready. Here all Jobs start at once, and their pods
wait in an init container. Source: kubernetes-sigs/jobset, pkg/controllers/depends_on.go and
startup_policy.go.
"""

from collections.abc import Iterable, Iterator

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob
from mlgen.problems import did_you_mean


def write_startup_order(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write `waitFor` of each role: the roles that JobSet waits for before it creates its Job."""
    order = builder.spec.get("startupPolicy", "startupPolicyOrder")
    for position, replicated in enumerate(replicated_jobs):
        waits = _dependencies(builder, replicated, replicated_jobs[:position])
        if order.value == "InOrder" and position:
            waits += _until_ready(builder, replicated_jobs[position - 1])
        source = replicated.source.get("dependsOn") or order
        for role in replicated.roles if waits else ():
            builder.put(("spec", "roles", role, "waitFor"), source, waits)


def _dependencies(
    builder: Builder, replicated: ReplicatedJob, earlier_jobs: list[ReplicatedJob]
) -> list[dict[str, str]]:
    """Return the waits for the replicated Jobs of `dependsOn`; report what is not supported."""
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
        elif dependency.value["status"] == "Complete":
            _report_complete(builder, dependency, replicated, earlier[name])
        else:
            waits += _until_ready(builder, earlier[name])
    return waits


def _report_complete(
    builder: Builder, dependency: SourceValue, replicated: ReplicatedJob, first: ReplicatedJob
) -> None:
    """Report that the Job does not wait for another one to complete."""
    message = f"JobSet creates {replicated.name} when {first.name} has completed"
    claims = " after its claims" if builder.spec.get("volumeClaimPolicies") else ""
    builder.differs(
        dependency,
        f"{message}; here both start at once",
        f"apply {first.name} alone{claims} and wait for it: kubectl apply -f - and kubectl wait"
        f" --for=condition=complete jobs, both with -l {kubectl_selector(builder, first.roles)}",
    )


def kubectl_selector(builder: Builder, roles: Iterable[str]) -> str:
    """Return the argument of `kubectl -l` that selects the Jobs of these roles."""
    some = f",mlgen.dev/role in ({','.join(roles)})" if set(roles) != set(builder.roles) else ""
    return f"'mlgen.dev/job={builder.name}{some}'"


def _until_ready(builder: Builder, replicated: ReplicatedJob) -> Iterator[dict[str, str]]:
    """Yield a wait for each role: for its probed port, or without one until its names resolve.

    A pod without a readiness or startup probe is ready as soon as it runs.
    """
    port = _probed_port(replicated)
    for role in replicated.roles if replicated.pod_count else ():
        if port:
            builder.put(("spec", "roles", role, "port"), port)
            yield {"role": role}
        else:
            yield {"role": role, "until": "name"}


def _probed_port(replicated: ReplicatedJob) -> SourceValue | None:
    """Return the number of the port that the main container is probed at, or None."""
    container = replicated.main_container
    for probe in (container.get("readinessProbe"), container.get("startupProbe")):
        for handler in ("tcpSocket", "httpGet", "grpc"):
            port = probe.get(handler, "port")
            if isinstance(port.value, int):
                return port
            for named in container.get("ports").items() if port else ():
                if named.value.get("name") == port.value:
                    return named.get("containerPort")
    return None
