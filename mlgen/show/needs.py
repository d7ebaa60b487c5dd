"""A rendered job → what it needs: prerequisites, limits, the PodSecurity level."""

from mlgen import checks
from mlgen.checks.totals import totals
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.output.columns import columns, some
from mlgen.result import Rendered

MAX_USERS = 6
"""The number of users of a prerequisite that are named."""


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
        f"  {violation.field} {violation.message} ({', '.join(roles)})"
        for violation, roles in obstacles.items()
        if LEVELS.index(violation.level) == stricter
    ]
    return [f"PodSecurity: {met}{f'; {LEVELS[stricter]} requires:' if missing else ''}", *missing]
