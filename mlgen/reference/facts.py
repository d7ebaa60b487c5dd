"""Ports, waits and variables of a framework, from the topology of its example job."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mlgen import frameworks, pipeline, scaffold
from mlgen.documents.files import Text
from mlgen.flow import flow
from mlgen.problems import MlgenError
from mlgen.result import Options, Rendered
from mlgen.topology import INDEX, PEERS, PodField, Role, Topology, Wait

FILE = "job.yaml"

MORE_ROLES = "more roles"


@dataclass(frozen=True)
class RoleFacts:
    """A role of the example job.

    Attributes:
        name: name of the role.
        sentence: number of replicas, their kind of object, and how they end.
        ports: ports on which it listens, by name.
        waits: conditions that must hold before a replica starts, each as a phrase.
        env: variables that mlgen sets in the training container, with rendered values.
        command: default command, if the job file sets none.
        without: variables of the example that an option removes.
    """

    name: str
    sentence: str
    ports: Mapping[str, int]
    waits: Sequence[str]
    env: Mapping[str, str]
    command: str
    without: Sequence[str] = ()


SAME: dict[str, Any] = {"sentence": "", "ports": {}, "waits": (), "command": ""}
"""Placeholders for facts that an option does not change."""


@dataclass(frozen=True)
class FrameworkFacts:
    """A framework.

    Attributes:
        name: as in `spec.framework`.
        roles: names of its roles; () if any name is allowed.
        example: a short job file.
        settings: roles by setting. "": roles of the example. `MORE_ROLES`: roles that appear if
            the example gets all compatible roles. An option as YAML: roles that it changes, with
            only the changed facts.
    """

    name: str
    title: str
    summary: str
    roles: Sequence[str]
    example: str
    settings: Mapping[str, Sequence[RoleFacts]]

    @property
    def uses_index(self) -> bool:
        """True if a value of a variable in the example contains the replica's index."""
        return any(INDEX in value for role in self.settings[""] for value in role.env.values())


def facts(name: str) -> FrameworkFacts:
    """Return the facts about a framework."""
    framework, example = frameworks.get(name), scaffold.example(name)
    names, job = framework.roles or (), _rendered(example)
    roles = _roles(job)
    settings = {"": list(roles.values())}
    more = [
        role for name, role in _roles(_with_more_roles(job, names)).items() if name not in roles
    ]
    if more:
        settings[MORE_ROLES] = more
    settings |= _changes(job, roles, frameworks.options(name))
    return FrameworkFacts(name, framework.title, framework.summary, names, example, settings)


def _rendered(text: str) -> Rendered:
    """Return the only job of a job file."""
    (job,) = pipeline.render([Text(FILE, text)], Options()).jobs
    return job


def _with(job: Rendered, **fields: Any) -> Rendered:
    """Return a job with some fields of `spec` replaced."""
    data = job.document.data
    return _rendered(json.dumps({**data, "spec": {**data["spec"], **fields}}))


def _with_more_roles(job: Rendered, names: Sequence[str]) -> Rendered:
    """Return a job with those roles of a list added that its framework accepts."""
    for name in names:
        with suppress(MlgenError):
            job = _with(job, roles={name: {}, **job.document.data["spec"]["roles"]})
    return job


def _changes(
    job: Rendered, before: Mapping[str, RoleFacts], options: Mapping[str, Any]
) -> Iterator[tuple[str, list[RoleFacts]]]:
    """Yield each option that changes the example job, with the roles that it changes."""
    already = job.document.data["spec"].get("options", {})
    for option in sorted(options.keys() - already.keys()):
        schema = options[option]
        value = next((v for v in schema["examples"] if v != schema.get("default")), None)
        with suppress(MlgenError):
            roles = _roles(_with(job, options={**already, option: value})).values()
            changed = [_difference(r, before.get(r.name)) for r in roles if r != before.get(r.name)]
            if changed:
                yield flow({option: value}), changed


def _difference(role: RoleFacts, before: RoleFacts | None) -> RoleFacts:
    """Return the facts of a role that are new or different."""
    if before is None:
        return role
    same = {
        fact: empty for fact, empty in SAME.items() if getattr(role, fact) == getattr(before, fact)
    }
    changed = replace(
        role,
        waits=role.waits or ("no other replica",),
        env={name: value for name, value in role.env.items() if before.env.get(name) != value},
        without=[name for name in before.env if name not in role.env],
    )
    return replace(changed, **same)


def _roles(job: Rendered) -> dict[str, RoleFacts]:
    """Return the facts about the roles of a job. Replicas with a Job each share one entry."""
    first: dict[str, Role] = {}
    for role in job.topology.roles:
        first.setdefault(role.name, role)
    return {name: _role(job.topology, role) for name, role in first.items()}


def _role(topology: Topology, role: Role) -> RoleFacts:
    """Return the facts about a role of a topology."""
    ports = {"peers": role.port} if role.port else {}
    return RoleFacts(
        role.name,
        _sentence(topology, role),
        {**ports, **{name: port for name, port in role.more_ports.items() if name != PEERS}},
        tuple(dict.fromkeys(map(_wait, role.waits))),
        {name: _value(value) for name, value in role.env.items()},
        " ".join((*role.command, *role.args)),
    )


def _sentence(topology: Topology, role: Role) -> str:
    """Return the rendered kind of a role, its number of replicas, and when it ends."""
    count, each = topology.counts[role.name], " each" * (role.index is not None)
    parts = [f"{count} replica{'s' * (count > 1)} in a {role.kind}{each}"]
    if role.merged:
        parts.append(f"the replicas of {' and '.join(role.merged)} under one name")
    if role.decides:
        parts.append("determines the outcome of training")
    if role.endless:
        parts.append("serves until training ends")
    return ", ".join(parts)


def _wait(wait: Wait) -> str:
    """Return a wait as a phrase: `worker: until the name train-worker-0 resolves`."""
    if wait.started:
        return f"{wait.role}: until {wait.hosts} has started"
    if wait.port is not None:
        return f"{wait.role}: until {wait.hosts} accepts connections on port {wait.port}"
    return f"{wait.role}: until the name {wait.hosts} resolves"


def _value(value: str | PodField) -> str:
    """Return the value of a variable as text."""
    return f"(the pod's {value.path})" if isinstance(value, PodField) else value
