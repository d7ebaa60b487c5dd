"""Generic: any roles, with waits, and the addresses of all peers as variables.

For what has no framework of its own. A role with restartPolicy Always serves; the others end, and
one of them decides. Each replica gets MLGEN_ROLE, MLGEN_REPLICA_INDEX and, for each role, its size
MLGEN_<ROLE>_REPLICAS and its addresses MLGEN_<ROLE>_HOSTS, separated by commas.
"""

from typing import Any

from mlgen.job import Job
from mlgen.layout import Plan
from mlgen.topology import Topology, hosts

ROLES = None

OPTIONS: dict[str, Any] = {
    "type": "object",
    "description": "There are none.",
    "additionalProperties": False,
    "properties": {},
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
    peers = _peers(job)
    for name, spec in job.roles.items():
        plan.add(
            spec,
            serves=spec.restart_policy == "Always",
            decides=name == decider,
            env={"MLGEN_ROLE": name} | peers,
        )
    return plan.topology()


def _peers(job: Job) -> dict[str, str]:
    env = {}
    for name, spec in job.roles.items():
        port = f":{spec.port}" if spec.port else ""
        key = f"MLGEN_{name.upper().replace('-', '_')}"
        env[f"{key}_REPLICAS"] = str(spec.replicas)
        env[f"{key}_HOSTS"] = ",".join(f"{h}{port}" for h in hosts(job, name, spec.replicas))
    return env
