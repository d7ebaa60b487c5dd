"""A rendered job → what each exit code and each disruption leads to, by role.

It is read from the rendered Jobs: their podFailurePolicy and limits, as the Job controller does
(pkg/controller/job/pod_failure_policy.go and backoff_utils.go in kubernetes/kubernetes), and from
the plan of the supervisor, for roles that restart together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.kubernetes.limits import INT32_MAX
from mlgen.objects.supervisor import ANY, SIGNALS
from mlgen.output.columns import columns, duration, named
from mlgen.records import record
from mlgen.result import Object
from mlgen.show.groups import Group, spans
from mlgen.topology import Topology

CODES = range(1, 256)
"""Exit codes of a program that failed; from 128 on, it was ended by signal code - 128."""

KILLED = 137
"""The exit code of a container that was killed, also when it runs out of memory."""

DISRUPTED = "preempted, evicted, drained or node lost"
"""All of these set the condition DisruptionTarget of a pod:
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

DONE = "done"


@record
class _Case:
    """What is known of the pods of a group.

    Attributes:
        retryable: the exit codes after which the supervisor restarts the gang, as in its plan.
        retries: how often it does so.
        scope: the roles that restart together; "" for all of them.
    """

    topology: Topology
    group: Group
    retryable: Any
    retries: int
    scope: str

    @property
    def spec(self) -> Object:
        spec: Object = self.group.workloads[0]["spec"]
        return spec


def exits(topology: Topology, groups: Sequence[Group], plan: Object) -> list[str]:
    """Return a table: a row for each way in which a replica ends, a column for each role.

    Args:
        topology: the job.
        groups: its roles.
        plan: of the supervisor; {} if there is none.
    """
    by_role: dict[tuple[str, ...], list[str]] = {}
    cases = [_case(topology, group, plan) for group in groups]
    rows = _rows(cases)
    for case in cases:
        cells = tuple(_cell(case, event) for _, event in rows)
        by_role.setdefault(cells, []).append(case.group.name)
    heading = ("EXIT CODE OR EVENT", *map(", ".join, by_role.values()))
    return columns(
        [heading, *((title, *cells) for (title, _), *cells in zip(rows, *by_role, strict=True))]
    )


def _case(topology: Topology, group: Group, plan: Object) -> _Case:
    names = {item["metadata"]["name"] for item in group.workloads}
    planned = [item for item in plan.get("workloads", ()) if item["name"] in names]
    scope = plan.get("restartScope", "")
    return _Case(
        topology,
        group,
        planned[0].get("retryable") if planned else None,
        plan.get("backoffLimit", 0),
        "" if isinstance(scope, str) else named(scope),
    )


def _rows(cases: Sequence[_Case]) -> list[tuple[str, Any]]:
    """Return the title of each row, and the exit code or event that stands for it."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for code in CODES:
        alike.setdefault(tuple(_failed(case, code) for case in cases), []).append(code)
    if len(alike) == 1:
        codes = [("1-255", KILLED)]
    else:
        codes = [(spans(numbers, "-"), numbers[0]) for numbers in alike.values()]
    rows: list[tuple[str, Any]] = [("0", 0), *codes, (f"out of memory ({KILLED})", "oom")]
    rows.append((DISRUPTED, "disrupted"))
    if any(_deadline(case) for case in cases):
        rows.append(("past its deadline", "deadline"))
    return rows


def _cell(case: _Case, event: Any) -> str:
    if event == 0:
        return _succeeded(case)
    if event == "deadline":
        limit = _deadline(case)
        return f"{_role_fails(case)} after {duration(limit)}" if limit else "-"
    if event == "disrupted":
        return _disrupted(case)
    if event == "oom":
        # The supervisor does not retry what would run out of memory again.
        return _failed(case, KILLED, oom=True)
    return _failed(case, event)


def _deadline(case: _Case) -> int:
    """Return the seconds after which a role fails, 0 for none."""
    limit: int = case.spec.get("activeDeadlineSeconds") or 0
    return limit


def _succeeded(case: _Case) -> str:
    role, topology = case.group.role, case.topology
    if role.serves:
        return "restarts in place"
    if role.decides and topology.decides == "one" and case.group.replicas == 1:
        return "training has succeeded"
    return DONE


def _failed(case: _Case, code: int, *, oom: bool = False) -> str:
    """Return what a failure of the training container leads to."""
    role = case.group.role
    if role.restarts_together:
        retries = _is_retryable(case.retryable, code) and not (oom and case.retryable != ANY)
        return _together(case, counted=True) if retries else "job fails"
    if role.serves:
        return "restarts in place"
    action = next(_actions(case.spec, role.spec.main_container, code), "Count")
    match action:
        case "FailJob":
            return _role_fails(case)
        case "FailIndex":
            return "replica fails for good"
        case "Ignore":
            return "new pod"
    return _counted(case)


def _actions(spec: Object, container: str, code: int) -> Iterator[str]:
    """Yield the actions of a Job's podFailurePolicy that match an exit code."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        condition = rule.get("onExitCodes")
        if not condition or condition.get("containerName", container) != container:
            continue
        if (code in condition["values"]) == (condition["operator"] == "In"):
            yield rule["action"]


def _is_retryable(retryable: Any, code: int) -> bool:
    """Return whether the supervisor restarts the gang after an exit code, by its plan."""
    if retryable == SIGNALS:
        return code >= 128  # noqa: PLR2004 - 128 + the number of a signal
    return retryable == ANY or (isinstance(retryable, list) and code in retryable)


def _counted(case: _Case) -> str:
    """Return what a failure leads to that counts against a limit."""
    spec, pod = case.spec, case.group.pod
    verb = "restarts in place" if pod.get("restartPolicy") == "OnFailure" else "new pod"
    per_index, limit = spec.get("backoffLimitPerIndex"), spec.get("backoffLimit")
    if per_index is not None:
        return f"{verb}{_times(per_index)} per replica" if per_index else "replica fails for good"
    limit = 6 if limit is None else limit  # the API server's default
    return f"{verb}{_times(limit)}" if limit else _role_fails(case)


def _times(limit: int) -> str:
    if limit == INT32_MAX:
        return ""
    return ", once" if limit == 1 else f", up to {limit} times"


def _disrupted(case: _Case) -> str:
    role = case.group.role
    if role.gang:
        return _together(case, counted=False)
    if role.serves:
        return "new pod"
    rules = case.spec.get("podFailurePolicy", {}).get("rules", ())
    ignored = any(rule["action"] == "Ignore" and "onPodConditions" in rule for rule in rules)
    return "new pod" if ignored else _counted(case).replace("restarts in place", "new pod")


def _together(case: _Case, *, counted: bool) -> str:
    who = f"{case.scope} restart together" if case.scope else "all restart"
    return f"{who}{_times(case.retries)}" if counted else who


def _role_fails(case: _Case) -> str:
    """Return what the failure of a role means for the job."""
    role, topology = case.group.role, case.topology
    if role.tolerates_failure or (not role.decides and not topology.supervised):
        return "role fails, job goes on"
    return "role fails" if role.decides and topology.decides == "any" else "job fails"
