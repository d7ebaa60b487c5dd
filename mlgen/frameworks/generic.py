"""Generic: roles of any name, with waits, and variables with the addresses of all peers.

For programs without a framework module. A role with restartPolicy Always serves. The others run to
completion, and one of them decides. Each replica gets MLGEN_REPLICA_INDEX. Unless `addresses` is
false, it also gets MLGEN_ROLE and, for each role, the number of replicas in MLGEN_<ROLE>_REPLICAS
and their addresses, separated by commas, in MLGEN_<ROLE>_HOSTS.
"""

from functools import partial

from mlgen.frameworks._planner import Planner, RoleFields, Viewer


def lay_out(planner: Planner) -> None:
    """Add the roles of the job file."""
    job = planner.job
    completing = [name for name, spec in job.roles.items() if spec.restart_policy != "Always"]
    decider = planner.decider(completing[0] if len(completing) == 1 else None, completing)
    if decider is None and completing:
        message = f"several roles run to completion: {', '.join(completing)}"
        hint = "set successPolicy.role, or restartPolicy: Always for the other roles"
        planner.report(("roles",), message, hint)
    elif decider is None:
        message = "no role runs to completion, because all have restartPolicy: Always"
        planner.report(("roles",), message, "change the restartPolicy of the deciding role")
    for name, spec in job.roles.items():
        planner.add(
            spec,
            serves=spec.restart_policy == "Always",
            decides=name == decider,
            evaluates=name.startswith("eval"),
            each=partial(_env, planner, name),
        )


def _env(planner: Planner, name: str, viewer: Viewer) -> RoleFields:
    """Return the variables of one role."""
    if not planner.job.options.get("addresses", True):
        return {}
    env = {"MLGEN_ROLE": name}
    for role, spec in planner.job.roles.items():
        key = f"MLGEN_{role.upper().replace('-', '_')}"
        addresses = planner.addresses(spec, viewer) if spec.port else planner.hosts(spec)
        env[f"{key}_REPLICAS"] = str(spec.replicas)
        env[f"{key}_HOSTS"] = ",".join(addresses)
    return {"env": env}
