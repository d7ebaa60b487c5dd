"""Find replica names in the user's commands and variables → the Services for these names.

Operators create a Service for each replica: `<job>-<role>-<i>`. So programs dial that bare name,
with or without the namespace and the cluster's domain. The address `<job>-<role>-<i>.<job>` needs
no such Service. mlgen renders Services only for bare names that are used.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.names import TEXTS, host_pattern, indexes, names_service
from mlgen.topology import Role

Replica = tuple[int, int]
"""The position of a `Role` in the topology, and the index of one of its replicas."""


SSH_ALIAS = "(?m)^Host .*"
"""A line of an ssh configuration that defines an alias of a host."""


def with_aliases(job: TrainingJob, roles: Sequence[Role]) -> list[Role]:
    """Return the roles, with an alias for each bare replica name in the job file.

    Args:
        job: the job file.
        roles: the topology's roles.
    """
    plain_names = {job.name, job.written_name}
    texts = dict.fromkeys(text for spec in job.roles.values() for text in _texts(spec))
    replicas = _replicas(job, roles)
    role_names = {f"{name}-{role}": role for name in plain_names for role in replicas}
    texts_with_name = [text for text in texts if any(f"{name}-" in text for name in role_names)]
    if not texts_with_name:  # then the pattern need not be compiled
        return list(roles)
    pattern = host_pattern(role_names)
    aliases: dict[int, dict[str, int]] = {}
    for text in texts_with_name:
        for match in pattern.finditer(text):
            role = role_names[match["name"]]
            subdomains = (*plain_names, job.subdomain, job.network.subdomain or job.name)
            if not all(names_service(match, each, job.namespace) for each in subdomains):
                continue
            for index in indexes(match["index"], len(replicas[role])):
                if index < len(replicas[role]):
                    position, replica = replicas[role][index]
                    aliases.setdefault(position, {})[f"{job.name}-{role}-{index}"] = replica
    return [
        replace(role, aliases={**role.aliases, **aliases[position]})
        if position in aliases
        else role
        for position, role in enumerate(roles)
    ]


def _replicas(job: TrainingJob, roles: Sequence[Role]) -> dict[str, list[Replica]]:
    """Return the replicas of each role, by role name in the topology and in the job file."""
    replicas: dict[str, list[Replica]] = {}
    for position, role in enumerate(roles):
        count = role.max_replicas or role.replicas
        first = role.index or 0
        places = ((position, index) for index in range(first, first + count))
        replicas.setdefault(role.name, []).extend(places)
    for role in {role.name: role for role in roles if role.merged}.values():
        first = 0
        for part in role.merged:
            last = first + job.roles[part].replicas
            replicas[part] = replicas[role.name][first:last]
            first = last
    return replicas


def _texts(spec: RoleSpec) -> Iterator[str]:
    """Yield the user's texts that the pods of a role read: commands, variables and files."""
    yield from (*spec.command, *spec.args)
    yield from _strings(spec.env)
    yield from (re.sub(SSH_ALIAS, "", text) for text in spec.file_texts)
    for template in spec.templates:
        yield from _strings(template, every=False)


def _strings(value: Any, *, every: bool = True) -> Iterator[str]:
    """Yield all strings in a value; in a pod template, only the strings that can name hosts."""
    if isinstance(value, str) and every:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, every=every)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _strings(item, every=every or name in TEXTS)
