"""Pages of `mlgen explain`, as plain text. The texts are in `templates/reference`.

The ports, waits and variables of a framework are from the topology of its example job.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from textwrap import fill, indent
from typing import Any, NamedTuple

from mlgen import frameworks, pipeline, scaffold
from mlgen.documents.files import Text
from mlgen.output.terminal import template_text
from mlgen.output.yaml import yaml_text
from mlgen.problems import MlgenError, did_you_mean
from mlgen.reference import fields, rules
from mlgen.reference.fields import Field
from mlgen.result import Options, Rendered
from mlgen.shell import flow
from mlgen.topology import INDEX, PEERS, PodField, Role, Topology, Wait

WIDTH = 100
MARGIN = 4
"""Columns of the margin of sections. `WIDTH` is the columns of a page."""

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

PLACEHOLDERS = {"<role>": "worker", "<name>": "name"}
"""Names for placeholders in examples."""


def page(topic: str = "", *, recursive: bool = False) -> str:
    """Return the page of a topic.

    Args:
        topic: a framework, a problem code, a rule, or the path of a field. "" for the job file.
        recursive: include all fields below a field, as a tree.

    Raises:
        LookupError: unknown topic. The message contains a suggestion.
    """
    topic = topic.strip("[]")  # a code as in a message: [no-such-peer]
    if not topic and not recursive:
        tops = sorted(fields.root().children(), key=lambda field: field.name == "spec")
        return _filled("overview.txt", tops=tops, names=frameworks.names())
    if topic in frameworks.names():
        return _filled("framework.txt", known=facts(topic), options=fields.options(topic))
    every, known = rules.by_name(), ""
    if topic in rules.codes():
        of_code = [every[name] for name in rules.by_code().get(topic, ())]
        known = _filled("code.txt", known=rules.explanation(topic), rules=of_code)
    if topic in every:
        known += "\n" * bool(known) + _filled("rule.txt", rule=every[topic])
    if known:
        return known
    try:
        found = fields.find(topic)
    except LookupError as error:
        names = [*frameworks.names(), *rules.codes(), *every]
        hint = did_you_mean(topic, names, cutoff=0.75)
        if "." in topic or not hint:
            raise
        message = f'there is no field, framework, problem code or rule "{topic}"; {hint}'
        raise LookupError(message) from error
    return "\n".join(_filled("field.txt", field=field, recursive=recursive) for field in found)


def topics(incomplete: str) -> list[str]:
    """Return the topics of `mlgen explain` that can complete an incomplete one."""
    found = [*frameworks.names(), *rules.codes(), *rules.by_name()]
    return [*found, *fields.paths(incomplete, fields.roles())]


def _filled(template: str, **values: Any) -> str:
    """Return a page from a template and its values. The template can call these functions."""
    functions = {
        "command": rules.COMMAND,
        "example": example,
        "flow": flow,
        "index": INDEX,
        "indented": lambda text, margin=" " * MARGIN: indent(text, margin),
        "first_sentence": lambda text: re.split(r"(?<=\.)\s", text)[0],
        "paragraphs": lambda text: [" ".join(each.split()) for each in text.split("\n\n")],
        "problems": rules.problems,
        "shown": rules.shown,
        "plain": lambda text: LINK.sub(r"\1", text).replace("`", ""),
        "shared_with_roles": fields.shared_with_roles,
        "without_texts": rules.WITHOUT_TEXTS,
        "wrapped": _wrapped,
    }
    text = template_text(f"reference/{template}", **functions, **values)
    return f"{text.rstrip()}\n"


def _wrapped(text: str, margin: str = "", width: int = WIDTH - MARGIN) -> str:
    """Return a paragraph, wrapped for a terminal."""
    return fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,
    )


def example(field: Field) -> str:
    """Return an example of a field as YAML, nested in its parent fields."""
    return "\n".join(_example(field))


def _example(field: Field) -> Iterator[str]:
    """Yield the lines of an example of a field."""
    steps = [PLACEHOLDERS.get(step, step) for step in field.path]
    margins = ["  " * depth for depth in range(len(steps))]
    for depth in field.items:
        margins[depth] = f"{margins[depth][:-2]}- "
    for margin, step in zip(margins, steps[:-1], strict=False):
        yield f"{margin}{step}:"
    value = field.examples[0]
    line = f"{margins[-1]}{steps[-1]}: {flow(value)}"
    if len(line) <= WIDTH - MARGIN:
        yield line
    else:
        lines = yaml_text([{steps[-1]: value}]).splitlines()[1:]
        rest = " " * len(margins[-1])
        yield from (f"{rest if number else margins[-1]}{line}" for number, line in enumerate(lines))


FILE = "job.yaml"

MORE_ROLES = "more roles"


class RoleFacts(NamedTuple):
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


class FrameworkFacts(NamedTuple):
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
    changed = role._replace(
        waits=role.waits or ("no other replica",),
        env={name: value for name, value in role.env.items() if before.env.get(name) != value},
        without=[name for name in before.env if name not in role.env],
    )
    return changed._replace(**same)


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
