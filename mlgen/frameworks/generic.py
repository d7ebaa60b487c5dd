"""Generic: any roles, with waits, and the addresses of all peers as variables.

For what has no framework of its own. A role with restartPolicy Always serves; the others end, and
one of them decides. Each replica gets MLGEN_REPLICA_INDEX and, unless `addresses` is false,
MLGEN_ROLE and, for each role, its size MLGEN_<ROLE>_REPLICAS and its addresses MLGEN_<ROLE>_HOSTS,
separated by commas.
"""

from functools import partial
from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan, Viewer
from mlgen.topology import Topology

ROLES = None

OPTIONS: dict[str, Any] = {
    "addresses": {
        "type": "boolean",
        "description": "Whether each replica gets the roles' sizes and addresses as variables.",
        "default": True,
        "examples": [False],
    },
}


def topology(job: Job) -> Topology:
    """Lay out the roles as they are."""
    plan = Plan(job)
    ending = [name for name, spec in job.roles.items() if spec.restart_policy != "Always"]
    decider = plan.decider(ending[0] if len(ending) == 1 else None, ending)
    if decider is None:
        known = f"({', '.join(ending)} end by themselves)" if ending else "(none ends by itself)"
        plan.problem(
            ("roles",),
            f"it is not clear which role's end is the end of training {known}",
            "write successPolicy.role, and restartPolicy: Always for roles that serve the others",
        )
    for name, spec in job.roles.items():
        plan.add(
            spec,
            serves=spec.restart_policy == "Always",
            decides=name == decider,
            each=partial(_env, plan, name),
        )
    return plan.topology()


def _env(plan: Plan, name: str, viewer: Viewer) -> dict[str, Any]:
    if not plan.job.options.get("addresses", True):
        return {}
    env = {"MLGEN_ROLE": name}
    for role, spec in plan.job.roles.items():
        key = f"MLGEN_{role.upper().replace('-', '_')}"
        found = plan.addresses(spec, viewer) if spec.port else plan.hosts(spec)
        env[f"{key}_REPLICAS"] = str(spec.replicas)
        env[f"{key}_HOSTS"] = ",".join(found)
    return {"env": env}
