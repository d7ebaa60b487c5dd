"""Variables of the user that replace those from which a replica learns its rank, or the size.

A value of the job file replaces the framework's. If it is a constant, all replicas have the same
rank, and wait for the others.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.frameworks._launch import launches_of, words_of
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.quantity import natural
from mlgen.problems import Problem, ValuePath
from mlgen.topology import INDEX, Role, Topology

SAME_AS: Mapping[str, str] = {
    "NODE_RANK": "RANK",
    "GROUP_RANK": "RANK",
    "PADDLE_TRAINER_ID": "PADDLE_RANK",
}
"""Variables that programs read before or besides one that a framework sets.

Lightning (lightning/fabric/plugins/environments/lightning.py) and PaddlePaddle
(paddle/distributed/parallel.py).
"""

SIZES: Mapping[str, bool] = {
    "WORLD_SIZE": True,
    "NUM_PROCESSES": True,
    "JAX_NUM_PROCESSES": True,
    "PET_NNODES": False,
    "PADDLE_NNODES": False,
    "DMLC_NUM_WORKER": False,
    "DMLC_NUM_SERVER": False,
}
"""Numbers of replicas or processes; True if a replica can have several processes."""

TORCHRUN = ("torchrun", "accelerate")
"""Launchers that set ranks and sizes of their processes themselves."""

Constants = Mapping[str, tuple[ValuePath, str]]
"""Variables with a literal value: path below the role, and value."""


def roles_of(topology: Topology, name: str) -> list[Role]:
    """Return the roles of a topology that a role of the job file is rendered as."""
    return [role for role in topology.roles if name in (role.spec.name, *role.merged)]


def problems(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each constant that replicas of one job cannot share."""
    job = topology.job
    ranks = {
        name
        for role in topology.roles
        for name, value in role.env.items()
        if isinstance(value, str) and INDEX in value
    }
    constants = {name: _constants(spec) for name, spec in job.roles.items()}
    for role_name, values in constants.items():
        roles = roles_of(topology, role_name)
        for name, (path, value) in values.items():
            same_as = name if name in ranks else SAME_AS.get(name, "")
            message = (
                _same_rank(topology, constants, name, same_as, value) if same_as in ranks else None
            ) or _other_size(roles, name, value)
            if message and not _is_unused(job.roles[role_name], name):
                full_path = ("spec", "roles", role_name, *path)
                hint = f"write $({same_as})" if name in SAME_AS else "remove it: mlgen sets it"
                yield Problem(full_path, message, "launch", hint, warning=True)


def _constants(spec: RoleSpec) -> Constants:
    """Return the literal variables of a role's training container."""
    values: dict[str, tuple[ValuePath, Any]] = {
        name: (("env", name), value) for name, value in spec.env.items()
    }
    for patch in spec.container_patches:
        for item in patch.get("env") or []:
            values[item["name"]] = (("template",), item.get("value"))
    return {
        name: (path, value)
        for name, (path, value) in values.items()
        if isinstance(value, str) and "$(" not in value
    }


def _same_rank(
    topology: Topology,
    constants: Mapping[str, Constants],
    name: str,
    framework_name: str,
    value: str,
) -> str | None:
    """Return a message if replicas that need different values all have this one.

    Args:
        topology: of the job.
        constants: by role of the job file.
        name: of the variable.
        framework_name: of the framework's variable that has the same meaning.
        value: the constant.
    """
    needed: set[str] = set()
    size = 0
    for role in topology.roles:
        own = role.env.get(framework_name)
        if not isinstance(own, str):
            continue
        only = own.replace(INDEX, str(role.index or 0)) if role.replicas == 1 else own
        _, constant = constants.get(role.spec.name, constants.get(_first(role), {})).get(
            name, ((), only)
        )
        if constant == value:
            size += role.replicas
            needed |= {only} if INDEX not in only else {only, ""}
    if len(needed) > 1:
        return f"{name} is the same in {size} replicas, which need different values"
    return None


def _first(role: Role) -> str:
    """Return the first of the roles that a role was merged from; they have the same fields."""
    return role.merged[0] if role.merged else role.name


def _other_size(roles: list[Role], name: str, value: str) -> str | None:
    """Return a message if a constant is another number than the framework's."""
    own = natural(str(roles[0].env.get(name, ""))) if roles and name in SIZES else None
    size = natural(value)
    if not own or size is None:
        return None
    fits = size > 0 and size % own == 0 if SIZES[name] else value == str(own)
    return None if fits else f'{name} is "{value}", but for this job it is {own}'


def _is_unused(spec: RoleSpec, name: str) -> bool:
    """Return True if a launcher sets a variable itself, or does not read it."""
    launches = [launch for launch in launches_of(spec) if launch.program in TORCHRUN]
    if not launches or re.search(rf"\$[({{]?{name}\b", " ".join(words_of(spec))):
        return False
    if name == "PET_NODE_RANK":
        return all({"node_rank", "rdzv_backend"} & set(launch.options) for launch in launches)
    if name == "PET_NNODES":
        return all("nnodes" in launch.options for launch in launches)
    return True
