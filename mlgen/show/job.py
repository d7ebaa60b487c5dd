"""A rendered job → a page for a person: roles, endings, cleanup and prerequisites.

The words are in `templates/show/job.txt`. The effect of each exit code and each disruption, by
role, is from the podFailurePolicy and limits of the rendered Jobs, as in the Job controller
(pkg/controller/job/pod_failure_policy.go and backoff_utils.go in kubernetes/kubernetes), and, for
roles that restart together, from the supervisor's plan (`mlgen/runtime/failures.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlgen import checks
from mlgen.checks.pods import with_jobs, workloads
from mlgen.checks.prerequisites import totals
from mlgen.kubernetes import quantity
from mlgen.kubernetes.objects import INT32_MAX, Object
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.objects import supervisor
from mlgen.objects.labels import DECIDES, ROLE, status_name
from mlgen.output.manifests import awaited, replaced_alone, required
from mlgen.output.terminal import duration, named, some, template_text
from mlgen.result import Rendered
from mlgen.runtime.plan import Plan, Workload
from mlgen.show.groups import Group, groups, ranked, spans, table_text
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
    deciding = list(_deciding(topology))
    anyone = topology.decides == "any"
    joined = " or ".join(deciding) if anyone else named(deciding)
    amounts, alone = totals(topology, objects), replaced_alone(topology)
    limits = amounts.limits if amounts.limits != amounts.requests else {}
    obstacles = checks.obstacles(objects, version)
    met = level(obstacles)
    stricter = LEVELS[LEVELS.index(met) + 1 :][:1]
    return template_text(
        "show/job.txt",
        columns=table_text,
        topology=topology,
        file=rendered.file,
        version=str(version),
        table=_table_of_roles(rendered, rows),
        limits=", ".join(
            f"{name} {amount}" for name, amount in sorted(quantity.readable_amounts(limits).items())
        ),
        deciding=joined,
        one_decides="replicas" not in joined and (anyone or len(deciding) == 1),
        exits=endings(topology, rows, plan),
        alone=[f"{each[0].upper()}{each[1:]}" for each in alone[-2:]],
        lasting=list(dict.fromkeys(r.name for r in topology.roles if r.serves or r.endless)),
        plan=plan,
        starts={role.name: _start(role) for role in topology.roles if role.orders},
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


def _table_of_roles(rendered: Rendered, rows: list[Group]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of roles: requests of one replica, and the totals of all."""
    topology = rendered.topology
    counts = topology.counts
    table = [
        (
            *(group.name, group.kind, str(group.replicas)),
            quantity.lasting(group.pod, "requests"),
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
                    quantity.lasting(pod["spec"], "requests"),
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
        shown = quantity.readable_amounts(amounts)
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


# The effect of each exit code and each event

CODES = range(1, 256)
"""Exit codes of a failed program. From 128 on, signal code - 128 ended it."""

KILLED = 137
"""The exit code of a killed container, including containers that run out of memory."""

DISRUPTED = "preempted, evicted, drained or node lost"
"""All of these set the condition DisruptionTarget of a pod:
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

REJECTED = "rejected by the kubelet"
"""The node lacks capacity, CPUs or devices for a pod, although the scheduler chose it: OutOfcpu,
TopologyAffinityError, UnexpectedAdmissionError (pkg/kubelet/lifecycle/predicate.go).
"""

OOM = f"out of memory ({KILLED})"
DEADLINE = "past its deadline"

DONE = "done"

JOB_FAILS, ROLE_FAILS = "job fails", "role fails"
_Outcomes = Mapping[int | str, tuple[str, ...]]
"""The effects of an exit code or event, one for each group."""


class _Case(NamedTuple):
    """A group of replicas in its job.

    Attributes:
        topology: the job's topology.
        group: the group.
        plan: the supervisor's plan.
    """

    topology: Topology
    group: Group
    plan: Plan

    @property
    def workload(self) -> Workload:
        """The first workload of the group, as in the plan."""
        name = self.group.workloads[0]["metadata"]["name"]
        return next(item for item in self.plan.workloads if item.name == name)

    @property
    def scope(self) -> str:
        """The roles that restart together; "" for all of them."""
        scope = self.plan.restart_scope
        return "" if isinstance(scope, str) else named(scope)

    @property
    def spec(self) -> Object:
        spec: Object = self.group.workloads[0]["spec"]
        return spec


def endings(topology: Topology, groups: Sequence[Group], plan: Plan) -> list[tuple[str, ...]]:
    """Return the effects of a replica's end as a table.

    The first row is a heading. Each other row is a way in which a replica can end. Each column is a
    role.

    Args:
        topology: the job's topology.
        groups: the groups of its replicas.
        plan: the supervisor's plan.
    """
    cases = [_Case(topology, group, plan) for group in groups]
    events = (0, *CODES, OOM, DISRUPTED, REJECTED, DEADLINE)
    return _table_of_endings(
        cases, {event: tuple(_cell(case, event) for case in cases) for event in events}
    )


def _table_of_endings(cases: Sequence[_Case], outcomes: _Outcomes) -> list[tuple[str, ...]]:
    """Return the rows of the table. Exit codes and roles with equal cells are merged."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for code in CODES:
        alike.setdefault(outcomes[code], []).append(code)
    rows = {"0": outcomes[0], **{spans(codes, "-"): cells for cells, codes in alike.items()}}
    rows |= {event: outcomes[event] for event in (OOM, DISRUPTED, REJECTED)}
    if any(_deadline(case) for case in cases):
        rows[DEADLINE] = outcomes[DEADLINE]
    by_role: dict[tuple[str, ...], list[str]] = {}
    for case, *cells in zip(cases, *rows.values(), strict=True):
        by_role.setdefault(tuple(cells), []).append(case.group.name)
    heading = ("EXIT CODE OR EVENT", *map(", ".join, by_role.values()))
    return [heading, *zip(rows, *by_role, strict=True)]


def _cell(case: _Case, event: Any) -> str:
    if event == 0:
        return _succeeded(case)
    if event == DEADLINE:
        limit = _deadline(case)
        return f"{_role_fails(case)} after {duration(limit)}" if limit else "-"
    if event in (DISRUPTED, REJECTED):
        return _without_exit_code(case, disrupted=event == DISRUPTED)
    return _failed(case, KILLED if event == OOM else event)


def _deadline(case: _Case) -> int:
    """Return the deadline of a role in seconds; 0 if there is none."""
    limit: int = case.spec.get("activeDeadlineSeconds") or 0
    return limit


def _succeeded(case: _Case) -> str:
    role, topology = case.group.role, case.topology
    if role.serves:
        return "restarts in place"
    if role.decides and topology.decides == "one" and case.group.replicas == 1:
        return "training succeeds"
    return DONE


def _failed(case: _Case, code: int) -> str:
    """Return the effect of a failure of the training container."""
    role = case.group.role
    if role.restarts_together:
        retries = case.workload.is_retryable(code)
        return _together(case, counted=True) if retries else JOB_FAILS
    if role.serves:
        return "restarts in place"
    action = next(_actions(case.spec, role.spec.main_container, code), "Count")
    if action == "FailJob":
        return _role_fails(case)
    return {"FailIndex": "replica fails permanently", "Ignore": "new pod"}.get(
        action, _counted(case)
    )


def _actions(spec: Object, container: str, code: int) -> Iterator[str]:
    """Yield the actions of a Job's podFailurePolicy that match an exit code."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        condition = rule.get("onExitCodes")
        if not condition or condition.get("containerName", container) != container:
            continue
        if (code in condition["values"]) == (condition["operator"] == "In"):
            yield rule["action"]


def _counted(case: _Case) -> str:
    """Return the effect of a failure that counts against a limit."""
    spec, pod = case.spec, case.group.pod
    verb = "restarts in place" if pod.get("restartPolicy") == "OnFailure" else "new pod"
    per_index, limit = spec.get("backoffLimitPerIndex"), spec.get("backoffLimit")
    if per_index is not None:
        return (
            f"{verb}{_times(per_index)} per replica" if per_index else "replica fails permanently"
        )
    limit = 6 if limit is None else limit  # the API server's default
    return f"{verb}{_times(limit)}" if limit else _role_fails(case)


def _times(limit: int) -> str:
    if limit == INT32_MAX:
        return ""
    return ", once" if limit == 1 else f", up to {limit} times"


def _without_exit_code(case: _Case, *, disrupted: bool) -> str:
    """Return the effect of a disruption, or of a rejection by the kubelet."""
    role = case.group.role
    if role.gang:
        return _together(case, counted=not disrupted)
    rules = case.spec.get("podFailurePolicy", {}).get("rules", ())
    ignored = any(rule["action"] == "Ignore" and "onPodConditions" in rule for rule in rules)
    if role.serves or (disrupted and ignored):
        return "new pod"
    return _counted(case).replace("restarts in place", "new pod")


def _together(case: _Case, *, counted: bool) -> str:
    subject = f"{case.scope} restart together" if case.scope else "all restart"
    limit = case.plan.backoff_limit if counted else case.plan.disruptions or INT32_MAX
    return f"{subject}{_times(limit)}" if limit else JOB_FAILS


def _role_fails(case: _Case) -> str:
    """Return the effect of a role's failure on the job."""
    role, topology = case.group.role, case.topology
    watched = topology.supervised or topology.job.jobset
    if role.tolerates_failure or not (role.decides or watched):
        return "role fails, job continues"
    return ROLE_FAILS if role.decides and topology.decides == "any" else JOB_FAILS
