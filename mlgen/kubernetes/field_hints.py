"""An invalid value or an unknown field → a hint with the fix."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from mlgen.flow_style import flow, words
from mlgen.kubernetes.quantity import seconds
from mlgen.kubernetes.versions import KubeVersion, definition, element, is_definition
from mlgen.problems import SURE, choice, did_you_mean, one_of
from mlgen.resources import table

FEW = 6
"""A hint lists all fields of an object that has at most this many."""

MAIN_FIELDS = {
    "ConfigMapVolumeSource": "name",
    "HostPathVolumeSource": "path",
    "LocalObjectReference": "name",
    "SecretVolumeSource": "secretName",
}
"""The field that is meant by a string in place of the object. Default: the required field."""


Places = list[tuple[str, str]]
"""The paths of objects in a value, each with its definition."""


def for_field(name: str, kind: str, owner: str, root: str, version: KubeVersion | None) -> str:
    """Return the hint for an unknown field.

    Args:
        name: the name of the field.
        kind: the definition of the object.
        owner: the definition of the object around it; "" if there is none.
        root: the type of the whole value.
        version: the version of Kubernetes.
    """
    fields, near = _fields(kind, version), _near(kind, owner, root, version)
    amounts = "write amounts under requests or limits" if kind == "ResourceRequirements" else ""
    rows = table("hints")["pod fields"]
    short = re.sub("[-_]", "", name).lower()
    synonyms = table("hints")["container fields"].items() if kind == "Container" else ()
    return (
        rows.get(f"{root}/{kind}.{name}")
        or rows.get(f"{kind}.{name}")
        or next((hint for hint, names in synonyms if short in names.split()), "")
        or did_you_mean(name, fields, SURE)
        or amounts
        or _move(name, near, version)
        or _move(name, _places(root, version), version)
        or did_you_mean(name, fields)
        or _similar(name, near, version)
        or (one_of(list(fields)) if len(fields) <= FEW else "remove it")
    )


def for_missing(name: str, kind: str) -> str:
    """Return the hint for a missing field of an object; "" if its value is not clear."""
    hint: str = table("hints")["pod fields"].get(f"{kind}.{name}", "")
    return hint


def move(name: str, kind: str, owner: str, root: str, version: KubeVersion | None) -> str:
    """Return where to move a field that belongs to a nearby object; "" if ambiguous."""
    return _move(name, _near(kind, owner, root, version), version)


def _near(kind: str, owner: str, root: str, version: KubeVersion | None) -> Places:
    """Return the objects near an object: its parents, siblings and children."""
    kinds = {owner, *map(element, _fields(kind, version).values())}
    return [place for place in _places(root, version) if place[1] in kinds]


def _similar(name: str, near: Places, version: KubeVersion | None) -> str:
    """Return a hint with a similar field of a nearby object, or ""."""
    for path, kind in near:
        similar = did_you_mean(name, _fields(kind, version), SURE)
        if similar:
            return f"{similar.removesuffix('?')} in {path}?"
    return ""


def for_choice(value: str, allowed: Sequence[str]) -> str:
    """Return the hint for a string that is not one of the allowed values."""
    for pattern, hint in table("hints")["strings"].items():
        if match := re.fullmatch(pattern, value):
            text: str = hint
            return text.format(value, *match.groups())
    return choice(value, allowed)


def for_list(
    name: str, kind: str, value: Any, version: KubeVersion | None, texts: Mapping[str | int, str]
) -> str:
    """Return the hint for a value that should be a list.

    Args:
        name: the name of the field.
        kind: the type of its items.
        value: the value in the file.
        version: the version of Kubernetes.
        texts: the source text of the value's fields that are not strings.
    """
    if isinstance(value, str) and kind == "string":
        return f"write {words(value, command=name == 'command')}"
    if isinstance(value, dict) and kind == "EnvVar":
        variables = [_variable(key, texts.get(key, value[key])) for key in list(value)[:1]]
        return f"write {flow(variables)}"
    if isinstance(value, dict):
        return "start each item with a dash"
    if is_definition(kind):
        item = _object(kind, value, version)
        return f"write {flow([item])}" if item else ""
    return f"write {flow([json.dumps(value) if kind == 'string' else value])}"


def for_mapping(value: Any) -> str:
    """Return the hint for a value that should be a mapping with any keys."""
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, str) and "=" in item for item in items):
        return f"write {flow(dict(item.split('=', 1) for item in items))}"
    return "remove the dashes" if items and all(isinstance(item, dict) for item in items) else ""


def for_object(kind: str, value: Any, version: KubeVersion | None) -> str:
    """Return the hint for a value that should be an object."""
    if isinstance(value, list):
        return "remove the dash" if len(value) == 1 and isinstance(value[0], dict) else ""
    instead = _object(kind, value, version)
    return f"write {flow(instead)}" if instead else ""


def for_scalar(kind: str, value: Any, text: str | None) -> str:
    """Return the hint for a value that should be a scalar.

    Args:
        kind: the expected type.
        value: the value in the file.
        text: its source text; None if unknown.
    """
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return f"write {flow(value[0])}"
    if isinstance(value, dict | list):
        return ""
    if isinstance(value, str) and kind in ("int32", "int64"):
        duration = seconds(value)
        if duration is not None:
            return f"write {duration}"
        return "remove the quotes" if value.isdecimal() else ""
    if isinstance(value, str):
        return "remove the quotes" if value in ("true", "false") else ""
    return f"quote it: '{text or json.dumps(value)}'" if kind == "string" else ""


def _object(kind: str, value: Any, version: KubeVersion | None) -> dict[str, Any] | None:
    """Return the object that a scalar probably means, or None."""
    if isinstance(value, str) and kind == "EnvVar" and "=" in value:
        return _variable(*value.split("=", 1))
    if isinstance(value, str) and kind == "EnvFromSource":
        return {"secretRef": {"name": value}}
    if isinstance(value, str) and kind == "VolumeMount":
        name, _, path = value.partition(":")
        return {"name": name, "mountPath": path} if path else None
    required = definition(kind, version).required
    name = MAIN_FIELDS.get(kind) or (required[0] if len(required) == 1 else "")
    types: dict[str, type] = {"string": str, "int32": int, "int-or-string": int}
    wanted = types.get(_fields(kind, version).get(name, ""))
    return {name: value} if wanted and isinstance(value, wanted) and value else None


def _variable(name: str, value: Any) -> dict[str, Any]:
    """Return an item of `env`."""
    if isinstance(value, dict):
        return {"name": name, **value}
    return {"name": name, "value": value if isinstance(value, str) else json.dumps(value)}


def _move(name: str, places: Places, version: KubeVersion | None) -> str:
    """Return where to move a field that belongs to one of these objects; "" if ambiguous."""
    found = [path for path, kind in places if name in _fields(kind, version)]
    shortest = min((path.count(".") for path in found), default=0)
    paths = [path for path in found if path.count(".") == shortest]
    usual = [path for path in paths if "containers[]" in path.split(".")] or paths
    return f"move it to {usual[0] or 'the top level'}" if len(usual) == 1 else ""


def _fields(kind: str, version: KubeVersion | None) -> dict[str, str]:
    """Return the fields of a definition."""
    return dict(definition(kind, version).fields)


@cache
def _places(root: str, version: KubeVersion | None) -> Places:
    """Return the path of each object in a value of a type, with its definition.

    For an object with several paths, only the shortest are returned: `spec.containers[]`.
    """
    start = "template" if root == "PodTemplateSpec" else ""
    places = [(start, element(root))] if is_definition(element(root)) else []
    result: Places = []
    known: set[str] = set()
    while places:
        result += places
        known |= {kind for _, kind in places}
        places = [
            inner
            for path, kind in places
            for inner in _inner(path, kind, version)
            if inner[1] not in known
        ]
    return result


def _inner(path: str, kind: str, version: KubeVersion | None) -> Iterator[tuple[str, str]]:
    """Yield the path and definition of each object in the fields of an object at a path."""
    for name, inner in _fields(kind, version).items():
        if is_definition(element(inner)):
            mark = "[]" if inner[0] == "[" else ""
            yield f"{path}.{name}{mark}".removeprefix("."), element(inner)
