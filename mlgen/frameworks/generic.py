"""Generic: any roles, with waits, and the addresses of all peers as variables.

For what has no framework of its own. A role with restartPolicy Always serves; the others end, and
one of them decides. Each replica gets MLGEN_REPLICA_INDEX and, unless `addresses` is false,
MLGEN_ROLE and, for each role, its size MLGEN_<ROLE>_REPLICAS and its addresses MLGEN_<ROLE>_HOSTS,
separated by commas.
"""

from functools import partial
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, RoleFields, Viewer
from mlgen.jobfile.model import TrainingJob
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


def topology(job: TrainingJob) -> Topology:
    """Lay out the roles as they are."""
    planner = Planner(job)
    ending = [name for name, spec in job.roles.items() if spec.restart_policy != "Always"]
    decider = planner.decider(ending[0] if len(ending) == 1 else None, ending)
    if decider is None:
        known = f"({', '.join(ending)} end by themselves)" if ending else "(none ends by itself)"
        planner.problem(
            ("roles",),
            f"it is not clear which role's end is the end of training {known}",
            "write successPolicy.role, and restartPolicy: Always for roles that serve the others",
        )
    for name, spec in job.roles.items():
        planner.add(
            spec,
            serves=spec.restart_policy == "Always",
            decides=name == decider,
            each=partial(_env, planner, name),
        )
    return planner.topology()


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    if not planner.job.options.get("addresses", True):
        return {}
    env = {"MLGEN_ROLE": name}
    for role, spec in planner.job.roles.items():
        key = f"MLGEN_{role.upper().replace('-', '_')}"
        found = planner.addresses(spec, viewer) if spec.port else planner.hosts(spec)
        env[f"{key}_REPLICAS"] = str(spec.replicas)
        env[f"{key}_HOSTS"] = ",".join(found)
    return {"env": env}


FRAMEWORK = Framework(
    title="Generic",
    summary="Any roles, with waits, and the addresses of all peers as variables.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
