"""What a framework does, from the topology of its example job."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mlgen import frameworks, pipeline, scaffold
from mlgen.documents.files import Text
from mlgen.problems import MlgenError
from mlgen.result import Options, Rendered
from mlgen.topology import INDEX, PEERS, PodField, Role, Topology, Wait

FILE = "job.yaml"

INDEX_MEANS = f"{INDEX} is the index of the replica, from 0."


@dataclass(frozen=True)
class RoleFacts:
    """A role of the example job.

    Attributes:
        name: of the role.
        sentence: how many replicas it has, what they are, and how they end.
        ports: on which it listens, by name.
        waits: what a replica waits for before it starts, each as a phrase.
        env: the variables that mlgen sets in the training container: values as rendered.
        command: what runs if the job file has no command.
        without: variables that a replica has only without the option; () unless in a `Variant`.
    """

    name: str
    sentence: str
    ports: Mapping[str, int]
    waits: tuple[str, ...]
    env: Mapping[str, str]
    command: str
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variant:
    """The example job with one more option.

    Attributes:
        option: its name.
        value: its value, that of an example in its schema.
        roles: what is then different in each role for which something is.
    """

    option: str
    value: Any
    roles: tuple[RoleFacts, ...]


@dataclass(frozen=True)
class FrameworkFacts:
    """A framework.

    Attributes:
        name: as in `spec.framework`.
        title: as its project spells it.
        summary: one sentence.
        roles: the names of its roles; () if a job may have roles of any name.
        example: a short job file.
        laid_out: the roles of the example.
        more: roles that the example has not, if it is given all that go together with its own.
        variants: the example with each option that changes something that is told about a role.
    """

    name: str
    title: str
    summary: str
    roles: tuple[str, ...]
    example: str
    laid_out: tuple[RoleFacts, ...]
    more: tuple[RoleFacts, ...]
    variants: tuple[Variant, ...]


def uses_index(roles: Iterable[RoleFacts]) -> bool:
    """Return whether a value of a variable of a role contains the replica's index."""
    return any(INDEX in value for role in roles for value in role.env.values())


def facts(name: str) -> FrameworkFacts:
    """Return the facts about a framework."""
    framework, example = frameworks.get(name), scaffold.example(name)
    job = _rendered(example)
    laid_out = _roles(job.topology)
    known = {role.name for role in laid_out}
    more = _roles(_topology_with_more_roles(job, framework.roles or ()))
    return FrameworkFacts(
        name,
        framework.title,
        framework.summary,
        framework.roles or (),
        example,
        laid_out,
        tuple(role for role in more if role.name not in known),
        tuple(_variants(job, frameworks.options(name))),
    )


def _rendered(text: str) -> Rendered:
    """Return the only job of a job file."""
    (job,) = pipeline.render([Text(FILE, text)], Options()).jobs
    return job


def _topology_with_more_roles(job: Rendered, names: tuple[str, ...]) -> Topology:
    """Return the topology of a job with each of some roles that its framework accepts with it."""
    for name in names:
        data = job.document.data
        roles = {name: {}, **data["spec"]["roles"]}
        with suppress(MlgenError):
            job = _rendered(json.dumps({**data, "spec": {**data["spec"], "roles": roles}}))
    return job.topology


def _variants(job: Rendered, options: Mapping[str, Any]) -> Iterator[Variant]:
    """Yield a job with each of the options that it has not, if that makes a difference."""
    data, before = job.document.data, {role.name: role for role in _roles(job.topology)}
    already = data["spec"].get("options", {})
    for option in sorted(options.keys() - already.keys()):
        schema = options[option]
        value = next((v for v in schema["examples"] if v != schema.get("default")), None)
        spec = {**data["spec"], "options": {**already, option: value}}
        with suppress(MlgenError):
            roles = _roles(_rendered(json.dumps({**data, "spec": spec})).topology)
            changes = (_difference(role, before.get(role.name)) for role in roles)
            changed = tuple(change for change in changes if change)
            if changed:
                yield Variant(option, value, changed)


def _difference(role: RoleFacts, before: RoleFacts | None) -> RoleFacts | None:
    """Return what is new or different in a role; None if nothing is."""
    if before is None or role == before:
        return None if role == before else role
    nobody = ("nobody",) if before.waits and not role.waits else ()
    return RoleFacts(
        role.name,
        role.sentence if role.sentence != before.sentence else "",
        role.ports if role.ports != before.ports else {},
        (role.waits or nobody) if role.waits != before.waits else (),
        {name: value for name, value in role.env.items() if before.env.get(name) != value},
        role.command if role.command != before.command else "",
        tuple(name for name in before.env if name not in role.env),
    )


def _roles(topology: Topology) -> tuple[RoleFacts, ...]:
    """Return the facts about the roles of a topology; of its first replica, if each has a Job."""
    first = {role.name: role for role in reversed(topology.roles)}
    names = dict.fromkeys(role.name for role in topology.roles)
    return tuple(_role(topology, first[name]) for name in names)


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
    """Return what a role is rendered as, and how it ends."""
    count = sum(other.replicas for other in topology.roles if other.name == role.name)
    kind = "StatefulSet" if role.serves else "Job"
    parts = [f"{count} replica{'s' * (count > 1)} in a {kind}{' each' * (role.index is not None)}"]
    if role.merged:
        parts.append(f"the replicas of {' and '.join(role.merged)} under one name")
    if role.decides:
        parts.append("decides when training has ended")
    if role.endless:
        parts.append("serves until training has ended")
    return ", ".join(parts)


def _wait(wait: Wait) -> str:
    """Return what a wait is for."""
    if wait.started:
        return f"{wait.role}: until {wait.hosts} has started"
    if wait.port is not None:
        return f"{wait.role}: until {wait.hosts} accepts connections on port {wait.port}"
    return f"{wait.role}: until the name {wait.hosts} resolves"


def _value(value: str | PodField) -> str:
    """Return the value of a variable."""
    return f"(the pod's {value.path})" if isinstance(value, PodField) else value
