"""A rendered job → a page for a person: roles, endings, cleanup and prerequisites.

The words are in `templates/show/job.txt`.
"""

from collections.abc import Iterator

from mlgen import checks
from mlgen.checks.pods import with_jobs, workloads
from mlgen.checks.prerequisites import totals
from mlgen.kubernetes import pod_resources
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.objects import supervisor
from mlgen.objects.labels import DECIDES, ROLE, status_name
from mlgen.output import pages
from mlgen.output.columns import named, some
from mlgen.output.summary import awaited, required
from mlgen.result import Rendered
from mlgen.show.exits import bounds, endings
from mlgen.show.groups import Group, groups, ranked, table_text
from mlgen.topology import Role, Topology

MAX_USERS = 6
"""The maximum number of a prerequisite's users that are listed."""


def page(rendered: Rendered) -> str:
    """Return the page of one job, which ends with a line break."""
    topology, version = rendered.topology, rendered.kube_version
    objects = tuple(with_jobs(rendered.objects))
    rows, plan = groups(rendered), supervisor.plan(topology, objects, version)
    if not (topology.supervised or topology.job.jobset):
        plan = plan._replace(crashes=0, image_seconds=0, pending_seconds=0)
    ends = endings(topology, rows, plan)
    deciding = list(_deciding(topology))
    anyone = topology.decides == "any"
    joined = " or ".join(deciding) if anyone else named(deciding)
    amounts = totals(topology, objects)
    limits = amounts.limits if amounts.limits != amounts.requests else {}
    obstacles = checks.obstacles(objects, version)
    met = level(obstacles)
    stricter = LEVELS[LEVELS.index(met) + 1 :][:1]
    return pages.page(
        "show/job.txt",
        columns=table_text,
        topology=topology,
        file=rendered.file,
        version=str(version),
        table=_table(rendered, rows),
        limits=", ".join(
            f"{name} {amount}" for name, amount in sorted(pod_resources.readable(limits).items())
        ),
        deciding=joined,
        one_decides="replicas" not in joined and (anyone or len(deciding) == 1),
        exits=ends.table,
        events=ends.sentences,
        lasting=list(dict.fromkeys(r.name for r in topology.roles if r.serves or r.endless)),
        plan=plan,
        starts={role.name: _start(role) for role in topology.roles if role.orders},
        states=" or ".join(bounds(topology, plan)),
        status=status_name(topology.job.name),
        reads_jobs=len(plan.jobs) > supervisor.MANY_JOBS,
        needs=[
            (str(item), some(item.used_by, MAX_USERS), item.command or "-")
            for item in rendered.prerequisites
        ],
        level=met,
        stricter=stricter[0] if stricter else "",
        missing=[pair for pair in obstacles.items() if pair[0].level in stricter],
    )


def _table(rendered: Rendered, rows: list[Group]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of roles: requests of one replica, and the totals of all."""
    topology = rendered.topology
    counts = topology.counts
    table = [
        (
            *(group.name, group.kind, str(group.replicas)),
            pod_resources.lasting(group.pod, "requests"),
            *(waits(group.role, counts), _decides(topology, group.role)),
            group.main.get("image", ""),
        )
        for group in rows
    ]
    of_roles = [item["metadata"]["name"] for group in rows for item in group.workloads]
    others = []
    for name, item in workloads(rendered.objects).items():
        if name not in of_roles:
            labels, pod = item["metadata"]["labels"], item["spec"]["template"]
            others.append(
                (
                    *(pod["metadata"]["labels"][ROLE], item["kind"], "1"),
                    pod_resources.lasting(pod["spec"], "requests"),
                    *("-", "from the roles" if labels.get(DECIDES) else "-"),
                    pod["spec"]["containers"][0]["image"],
                )
            )
    sums = totals(topology, rendered.objects).requests
    used = {name: amount for name, amount in sums.items() if amount != "0"}
    table += [("all roles", "", str(sum(counts.values())), used, "", "", ""), *others]
    names = ranked({name for row in table for name in row[3]})
    titles = ["GPUS" if name == "nvidia.com/gpu" else name.upper() for name in names]
    yield ("ROLE", "KIND", "REPLICAS", *titles, "WAITS FOR", "DECIDES", "IMAGE")
    for name, kind, replicas, amounts, *rest in table:
        shown = pod_resources.readable(amounts)
        yield (name, kind, replicas, *(shown.get(n, "-") for n in names), *rest)


def waits(role: Role, counts: dict[str, int]) -> str:
    """Return a role's wait conditions in a few words; `-` if there are none.

    Args:
        role: the role.
        counts: the number of replicas of each role.
    """
    parts = [f"{order.role} {order.until.lower()}" for order in role.orders]
    for wait in role.waits:
        condition = " started" if wait.started else f":{wait.port}" if wait.port else ""
        peers = awaited(wait, counts)
        if wait.role == role.name and not condition and peers == role.name:
            peers = "its own name" if counts[role.name] == 1 else f"each {role.name}"
        parts.append(f"{peers}{condition}")
    return ", ".join(dict.fromkeys(parts)) or "-"


def _decides(topology: Topology, role: Role) -> str:
    if not role.decides:
        return "-"
    others = {"one": "", "all": ", with others", "any": ", if first"}[topology.decides]
    return f"{required(role) or 'yes'}{others}"


def _deciding(topology: Topology) -> Iterator[str]:
    """Yield the deciding roles, each with its deciding replicas."""
    for name, roles in topology.by_name.items():
        deciding = [role for role in roles if role.decides]
        if not deciding:
            continue
        which, index = required(deciding[0]), deciding[0].index
        if len(deciding) > 1:
            which = "all replicas"
        elif index is not None and not which and len(roles) > 1:
            which = f"replica {index}"
        yield f"{which} of {name}" if which else name


def _start(role: Role) -> str:
    """Return the condition on which the supervisor starts a role."""
    return named(f"{order.role} is {order.until.lower()}" for order in role.orders)
