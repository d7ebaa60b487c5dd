"""A rendered job → the job file with all defaults, each with a comment on its source.

The result renders to the same manifests, byte for byte.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mlgen import frameworks
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.jobfile import schema
from mlgen.jobfile.model import GANG_BOUNDS, MAIN, Scheduling
from mlgen.jobfile.parser import MERGED
from mlgen.output.yaml import yaml_text
from mlgen.problems import ValuePath
from mlgen.result import Rendered

Values = dict[str, Any]

DEFAULT = "default"
SHARED = "from spec"

OPEN = ("runPolicy", "network", "scheduling", "helpers")
"""Objects of `spec` whose defaults apply even if the job file omits them."""

PATCH = "template"
"""The field with a template. The template for all roles is merged into each pod before the role's
own template."""


class Default(NamedTuple):
    """A value that the job file omits: its path below `spec` or in its role, and its source."""

    path: ValuePath
    value: Any
    source: str


def whole(rendered: Rendered) -> str:
    """Return the job file of a job with all defaults, each with a comment."""
    document = rendered.document
    data: Values = copy.deepcopy(document.data)
    sources: dict[ValuePath, str] = dict(_overrides(document))
    spec = data["spec"]
    for path, value, source in (*_of_spec(rendered, spec), *_of_roles(rendered, spec)):
        _put(spec, path, value)
        sources[("spec", *path)] = source
    for name, role in spec["roles"].items():
        spec["roles"][name] = _in_order(role, schema.base()["definitions"]["role"])
    heading = f"{rendered.job.name} with all defaults. A comment shows the source of each default."
    if document.text and not document.converted:
        from mlgen.output.round_trip import styled_text, styles

        text = styled_text(data, styles(document.text))
    else:
        text = yaml_text([data])
    return _noted(text.replace("---\n", f"---\n# {heading}\n", 1), sources)


def _noted(text: str, sources: Mapping[ValuePath, str]) -> str:
    """Return a YAML document with a comment on each value that has a source.

    If a mapping is written on one line, the comment names the fields.
    """
    document = next(doc for doc in read_documents(Text("", text)) if isinstance(doc, Document))
    deepest_first = sorted(document.keys.items(), key=lambda item: -len(item[0]))
    first = {place.line: path for path, place in deepest_first}
    on_line: dict[int, list[tuple[ValuePath, str]]] = {}
    for path, source in sources.items():
        on_line.setdefault(document.key_place(path).line, []).append((path, source))
    lines = text.splitlines()
    for number, notes in on_line.items():
        lines[number - 1] += f"  # {_note(first.get(number, notes[0][0]), notes)}"
    return "".join(f"{line}\n" for line in lines)


def _note(line: ValuePath, notes: list[tuple[ValuePath, str]]) -> str:
    """Return the comment of a line.

    Args:
        line: the path of the outermost value on the line.
        notes: the path and the source of each value on the line.
    """
    fields: dict[str, list[str]] = {}
    for path, source in notes:
        fields.setdefault(source, []).append(".".join(map(str, path[len(line) :])))
    return "; ".join(
        f"{', '.join(names)}: {source}" if all(names) else source
        for source, names in fields.items()
    )


def _overrides(document: Document) -> Iterator[tuple[ValuePath, str]]:
    """Yield the path and source of each value from --set or mlgen.toml."""
    own, keys = document.place(()).file, document.keys
    # A mapping that a setting has created around its value has a place, but no key.
    set_values = {
        path: place
        for path, place in document.places.items()
        if place.file != own and (path in keys or isinstance(path[-1], int))
    }
    for path, place in set_values.items():
        if path[:-1] not in set_values:
            yield path, f"from {place.file}"


def _put(holder: Values, path: ValuePath, value: Any) -> None:
    """Set a value at a path, and create the mappings that contain it."""
    *steps, last = map(str, path)
    for step in steps:
        holder = holder.setdefault(step, {})
    holder[last] = copy.deepcopy(value)


def _in_order(values: Values, of_schema: Mapping[str, Any]) -> Values:
    """Return a mapping with its fields in the order of the schema."""
    order = {name: number for number, name in enumerate(of_schema["properties"])}
    return dict(sorted(values.items(), key=lambda item: order.get(item[0], len(order))))


def _of_spec(rendered: Rendered, spec: Values) -> Iterator[Default]:
    """Yield each default outside of the roles."""
    properties = schema.base()["properties"]["spec"]["properties"]
    together = any(role.gang for role in rendered.topology.roles)
    scheduling = spec.get("scheduling", {})
    if "gang" not in scheduling and rendered.job.scheduling.gang != Scheduling().gang:
        gang = rendered.job.scheduling.gang
        yield Default(("scheduling", "gang"), gang, "default with queue")
        spec = {**spec, "scheduling": {**scheduling, "gang": gang}}
    idle = () if together else [("runPolicy", *path) for path in GANG_BOUNDS]
    for name in properties:
        value = spec.get(name)
        if name in OPEN or (isinstance(value, dict) and name not in ("roles", "options")):
            object_defaults = _of_object((name,), properties[name], value or {})
            yield from (each for each in object_defaults if each.path not in idle)
    framework = frameworks.get(rendered.job.framework)
    for name, option in frameworks.options(rendered.job.framework).items():
        is_open = "default" in option and name not in rendered.job.options
        if is_open and _applies(rendered, name, option["default"]):
            source = f"default of {framework.title}"
            yield Default(("options", name), option["default"], source)
    if rendered.topology.supervised and "giveUpAfter" not in spec.get("runPolicy", {}):
        policy = properties["runPolicy"]["properties"]["giveUpAfter"]
        object_defaults = _of_object(("runPolicy", "giveUpAfter"), policy, {})
        yield from (each for each in object_defaults if each.path not in idle)


def _applies(rendered: Rendered, name: str, value: Any) -> bool:
    """Return True if an option's default is valid with the job's other options."""
    job = rendered.topology.job._replace(options={**rendered.job.options, name: value})
    problems = frameworks.get(job.framework).topology(job).problems
    return all(problem.warning for problem in problems)


def _of_object(
    path: ValuePath, of_schema: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[Default]:
    """Yield each default of an object, and of its inner objects that the job file contains."""
    for name, reference in of_schema.get("properties", {}).items():
        field = schema.resolved(reference, schema.base())
        if name not in values and "default" in field:
            yield Default((*path, name), field["default"], DEFAULT)
        elif isinstance(values.get(name), dict):
            yield from _of_object((*path, name), field, values[name])


def _of_roles(rendered: Rendered, spec: Values) -> Iterator[Default]:
    """Yield each field that a role does not set itself."""
    fields = schema.base()["definitions"]["role"]["properties"]
    shared = {name: spec[name] for name in fields if name in spec and name != PATCH}
    idle = {role.name for role in rendered.job.roles.values() if role.without_gpus}
    for name, role in spec["roles"].items():
        path = ("roles", name)
        for field, value in shared.items():
            if field in MERGED:
                own = role.get(field, {})
                yield from (
                    Default((*path, field, key), entry, SHARED)
                    for key, entry in value.items()
                    if key not in own
                )
            elif field not in role and not (field == "resources" and name in idle):
                yield Default((*path, field), value, SHARED)
        present = {*role, *shared}
        for each in _of_role(rendered, name, fields):
            if each.path[0] not in present:
                yield each._replace(path=(*path, *each.path))


def _of_role(rendered: Rendered, name: str, fields: Mapping[str, Any]) -> Iterator[Default]:
    """Yield a role's defaults from the schema and the framework."""
    definitions = schema.base()["definitions"]
    for field, of_schema in fields.items():
        target = schema.resolved(of_schema, schema.base())
        if "default" in target and field != "mainContainer":
            yield Default((field,), target["default"], DEFAULT)
    main = rendered.job.roles[name].main_container if name in rendered.job.roles else MAIN
    source = DEFAULT if main == MAIN else "the only container of the template"
    yield Default(("mainContainer",), main, source)
    roles = rendered.topology.roles
    role = next((r for r in roles if name in (r.name, r.spec.name, *r.merged)), None)
    if role is None:
        return
    source = f"default of {frameworks.get(rendered.job.framework).title}"
    if role.restart in definitions["restartPolicy"]["enum"]:
        together = role.restarts_together and not role.serves
        value = "Always" if role.serves else role.restart
        of_policy = "default, in restartScope" if together else source
        yield Default(("restartPolicy",), value, of_policy)
    if role.port is not None:
        yield Default(("port",), role.port, source)
    if not role.spec.command and not role.spec.args:
        if role.command:
            yield Default(("command",), list(role.command), source)
        if role.args:
            yield Default(("args",), list(role.args), source)
