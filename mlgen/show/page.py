"""A rendered job → a page for a person: roles, endings, cleanup, and what it needs."""

from collections.abc import Iterator

from mlgen import checks
from mlgen.checks.pods import workloads
from mlgen.checks.totals import totals
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_resources import GPU, Amounts
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.kubernetes.quantity import times, total
from mlgen.objects import supervisor
from mlgen.objects.labels import COMPONENT, DECIDES, status_name
from mlgen.output.columns import columns, counted, duration, named, some
from mlgen.output.summary import required
from mlgen.result import Rendered
from mlgen.show.exits import bounds, events, exits
from mlgen.show.groups import Group, awaited, groups, replicas_by_role
from mlgen.topology import Role, Topology

FIRST = ("cpu", "memory")
"""Resources that come first among the columns that are no GPUs."""

MAX_USERS = 6
"""The number of users of a prerequisite that are named."""


def page(rendered: Rendered) -> str:
    """Return the page of one job, which ends with a line break."""
    topology, rows = rendered.topology, groups(rendered)
    known = topology, rendered.objects, rendered.kube_version
    plan = supervisor.plan(*known) if topology.supervised else {}
    sections = [
        _header(rendered),
        [*_roles(rendered, rows), *limits(rendered)],
        ["Outcome:", *_indented(outcome(topology))],
        [
            "When replicas end:",
            *_indented([*exits(topology, rows, plan), events(topology, rows, plan)]),
        ],
        ["After training:", *_indented(_afterwards(rendered))],
    ]
    if topology.supervised:
        sections.append(["The supervisor:", *_indented(decisions(topology, plan))])
    sections += [prerequisites(rendered), security(rendered)]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _indented(lines: Iterator[str] | list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _header(rendered: Rendered) -> list[str]:
    job = rendered.topology.job
    gang = job.scheduling.gang
    rows = [
        ("Job:", job.name),
        ("Framework:", job.framework),
        ("File:", rendered.file),
        ("Namespace:", job.namespace or "that of kubectl's context"),
        ("Kubernetes:", str(rendered.kube_version)),
    ]
    if gang != "none":
        queue = f", queue {job.scheduling.queue}" if job.scheduling.queue else ""
        rows.append(("Gang scheduling:", f"{gang}{queue}"))
    if job.run_policy.suspend:
        rows.append(("Suspended:", "yes, until you resume it"))
    return columns(rows)


def _roles(rendered: Rendered, rows: list[Group]) -> list[str]:
    """Return the table of roles, with what one replica requests, and the totals of all."""
    counts = replicas_by_role(rendered.topology.roles)
    table = [
        (
            group.name,
            group.kind,
            group.replicas,
            pod_resources.lasting(group.pod, "requests"),
            waits(group.role, counts),
            _decides(rendered.topology, group.role),
            group.main.get("image", ""),
        )
        for group in rows
    ]
    others = [
        (
            item["metadata"]["labels"][COMPONENT],
            item["kind"],
            1,
            pod_resources.lasting(item["spec"]["template"]["spec"], "requests"),
            "-",
            "as the roles do" if item["metadata"]["labels"].get(DECIDES) else "-",
            item["spec"]["template"]["spec"]["containers"][0]["image"],
        )
        for item in _auxiliaries(rendered, rows)
    ]
    names = _names(row[3] for row in [*table, *others])
    sums = {
        name: total(times(row[3][name], row[2]) for row in table if name in row[3])
        for name in names
    }
    used = {name: amount for name, amount in sums.items() if amount != "0"}
    every = ("all roles", "", sum(row[2] for row in table), used, "", "", "")
    heading = ("ROLE", "KIND", "REPLICAS", *map(_title, names), "WAITS FOR", "DECIDES", "IMAGE")
    lines = [
        (name, kind, str(replicas), *(amounts.get(n, "-") for n in names), *rest)
        for name, kind, replicas, amounts, *rest in [*table, every, *others]
    ]
    return columns([heading, *lines])


def _auxiliaries(rendered: Rendered, rows: list[Group]) -> list[Object]:
    """Return the workloads that are no roles: the supervisor's, TensorBoard's."""
    of_roles = [item["metadata"]["name"] for group in rows for item in group.workloads]
    every = workloads(rendered.objects)
    return [every[name] for name in every if name not in of_roles]


def _names(amounts: Iterator[Amounts]) -> list[str]:
    """Return the resources of all pods: GPUs, CPU, memory, then others by name."""
    found = {name for each in amounts for name in each}
    rank = {name: number for number, name in enumerate(FIRST, 1)}
    return sorted(found, key=lambda n: (0 if n.endswith(GPU) else rank.get(n, len(rank) + 1), n))


def _title(resource: str) -> str:
    return "GPUS" if resource == "nvidia.com/gpu" else resource.upper()


def waits(role: Role, counts: dict[str, int]) -> str:
    """Return what a role waits for, in a few words; `-` for nothing.

    Args:
        role: the role.
        counts: the number of replicas of each role.
    """
    parts = [f"{order.role} {order.until.lower()}" for order in role.orders]
    for wait in role.waits:
        condition = "started" if wait.started else f":{wait.port}" if wait.port else ""
        who = awaited(wait, counts)
        if wait.role == role.name and not condition and who == role.name:
            who = "itself" if counts[role.name] == 1 else f"each {role.name}"
        parts.append(f"{who}{' ' if condition == 'started' else ''}{condition}")
    return ", ".join(dict.fromkeys(parts)) or "-"


def _decides(topology: Topology, role: Role) -> str:
    if not role.decides:
        return "-"
    others = {"one": "", "all": ", with others", "any": ", the first"}[topology.decides]
    return f"{required(role) or 'yes'}{others}"


def outcome(topology: Topology) -> Iterator[str]:
    """Yield when training has succeeded, and when it has failed."""
    deciding: dict[str, list[Role]] = {}
    for role in topology.roles:
        if role.decides:
            deciding.setdefault(role.name, []).append(role)
    subjects = []
    for name, roles in deciding.items():
        which = required(roles[0])
        if len(roles) > 1:
            which = "all replicas"
        elif roles[0].index is not None and not which:
            which = f"replica {roles[0].index}" if _is_split(topology, name) else ""
        subjects.append(f"{which} of {name}" if which else name)
    anyone = topology.decides == "any"
    joined = " or ".join(subjects) if anyone else named(subjects)
    plural = "replicas" in joined or (len(subjects) > 1 and not anyone)
    yield f"Training succeeds when {joined} exit{'' if plural else 's'} with 0."
    if topology.supervised and not all(role.decides for role in topology.roles):
        tolerant = dict.fromkeys(role.name for role in topology.roles if role.tolerates_failure)
        but = f" but {named(list(tolerant))}" if tolerant else ""
        yield f"It fails when any role{but} fails; the supervisor then ends the deciding Job."


def _is_split(topology: Topology, name: str) -> bool:
    return sum(role.name == name for role in topology.roles) > 1


def _afterwards(rendered: Rendered) -> Iterator[str]:
    """Yield what happens to the objects when training has ended."""
    topology, policy = rendered.topology, rendered.topology.job.run_policy
    lasting = list(dict.fromkeys(r.name for r in topology.roles if r.serves or r.endless))
    if topology.supervised and policy.clean_pod_policy == "All":
        yield "The supervisor deletes Jobs, StatefulSets, Services and ConfigMaps, with all pods."
    elif topology.supervised and policy.clean_pod_policy == "Running":
        yield "The supervisor stops the pods that still run. Finished pods keep their logs."
    else:
        yield "Finished pods keep their logs until their Jobs are deleted."
        if lasting:
            verb, them = ("keep", "them") if len(lasting) > 1 else ("keeps", "it")
            until = f"you delete {them}: {topology.cleanup}"
            until = until if topology.cleanup else "the job is deleted."
            yield f"{named(lasting)} {verb} running until {until}"
    ttl = policy.ttl_seconds_after_finished
    if ttl is not None:
        what = "The job" if topology.supervised else "Each Job"
        what = "What is left" if policy.clean_pod_policy == "All" else what
        yield f"{what} is deleted {duration(ttl)} after the end."
    claims = list(topology.job.claims)
    if claims:
        subject = "claims" if len(claims) > 1 else "claim"
        yield f"The {subject} {named(claims)} and the data stay."
    if topology.job.tensorboard:
        name = f"{topology.job.name}-tensorboard"
        yield f"TensorBoard keeps running: kubectl delete deployment,service {name}"


def decisions(topology: Topology, plan: Object) -> Iterator[str]:
    """Yield what the supervisor decides, in short sentences.

    Args:
        topology: a supervised job.
        plan: the supervisor's.
    """
    if topology.decides != "one":
        yield "decides the outcome: its Job succeeds or fails as training does"
    for role in {role.name: role for role in topology.roles if role.orders}.values():
        conditions = [f"{order.role} is {order.until.lower()}" for order in role.orders]
        yield f"starts {role.name} when {named(conditions)}"
    gang = dict.fromkeys(role.name for role in topology.roles if role.gang)
    if gang:
        limit = plan.get("backoffLimit", 0)
        how = f", up to {counted(limit, 'time')}, not counting disruptions"
        away = "; avoids the last three nodes on which one failed" if plan.get("avoidNodes") else ""
        yield f"restarts all replicas of {named(list(gang))} together{how}{away}"
    if not all(role.decides for role in topology.roles):
        yield "ends the job if a role fails"
    states = " or ".join(bounds(topology, plan))
    if states:
        yield f"ends the job after {states}"
    if plan.get("deadlineSeconds"):
        yield f"ends the job after {duration(plan['deadlineSeconds'])}"
    verb = {"All": "deletes", "Running": "stops"}.get(plan.get("cleanPodPolicy", ""))
    if verb:
        yield f"{verb} what still runs when training has ended"
    if plan.get("ttlSeconds") is not None:
        yield f"deletes the job {duration(plan['ttlSeconds'])} after its end"
    if plan.get("metricsPort"):
        yield f"serves metrics for Prometheus on port {plan['metricsPort']}"
    yield f"writes the state of the job to ConfigMap {status_name(topology.job.name)}"
    jobs = sum(item["kind"] == "Job" for item in plan["workloads"])
    read = "pods and Jobs" if jobs > supervisor.MANY_JOBS else "pods"
    yield f"may change these objects, by name, and read the {read} of the namespace"


def limits(rendered: Rendered) -> list[str]:
    """Return what limits the pods of all roles together; [] if it is what they request."""
    amounts = totals(rendered.topology, rendered.objects)
    if not amounts.limits or amounts.limits == amounts.requests:
        return []
    listed = ", ".join(f"{name} {amounts.limits[name]}" for name in sorted(amounts.limits))
    return [f"Limits of all roles: {listed}"]


def prerequisites(rendered: Rendered) -> list[str]:
    """Return a table of what the job needs and the manifests do not bring; [] for nothing."""
    rows = [
        (str(item), some(item.used_by, MAX_USERS), item.command or "-")
        for item in rendered.prerequisites
    ]
    table = columns([("NEEDED", "BY", "COMMAND THAT CREATES IT"), *rows]) if rows else []
    return ["Needs in the cluster:", *(f"  {line}" for line in table)] if table else []


def security(rendered: Rendered) -> list[str]:
    """Return the strictest PodSecurity level that all pods meet, and what the next one requires."""
    obstacles = checks.obstacles(rendered.objects, rendered.kube_version)
    met = level(obstacles)
    stricter = LEVELS.index(met) + 1
    missing = [
        f"  {unmet.field} {unmet.message} ({', '.join(roles)})"
        for unmet, roles in obstacles.items()
        if LEVELS.index(unmet.level) == stricter
    ]
    return [f"PodSecurity: {met}{f'; {LEVELS[stricter]} requires:' if missing else ''}", *missing]
