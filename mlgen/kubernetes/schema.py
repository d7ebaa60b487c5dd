"""The structure of Kubernetes' objects: its errors in a value with fixes, and its JSON Schemas.

Errors are unknown fields, missing fields and wrong types, for one version of Kubernetes. Types are
as strict as the decoder of the API server (sigs.k8s.io/json, and UnmarshalJSON of Quantity and
IntOrString in k8s.io/apimachinery). Unknown fields are errors because `kubectl apply` requests
strict validation: https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation

The JSON Schemas describe strategic merge patches, for editors. They only use keywords that draft-07
and 2020-12 share.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from mlgen.kubernetes.quantity import parse, seconds
from mlgen.kubernetes.values import DIRECTIVES, KEYS
from mlgen.kubernetes.versions import (
    DEFAULT,
    KubeVersion,
    definition,
    element,
    is_definition,
    names,
)
from mlgen.problems import SURE, Problem, ValuePath, choice, described, did_you_mean, one_of, shown
from mlgen.resources import table
from mlgen.shell import flow, flow_words

MAXIMA = {"int32": 2**31 - 1, "int64": 2**63 - 1, "int-or-string": 2**31 - 1}
"""The maximum of each integer type. The minimum is its negative, minus 1."""

EXPECTED = {
    "boolean": "true or false",
    "int-or-string": "an integer or a string",
    "int32": "an integer",
    "int64": "an integer",
    "quantity": "a number or a string",
}
"""Names of scalar types in messages. The default is "a string"."""

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
"""RFC 3339, as read by the type Time of k8s.io/apimachinery."""


BYTES = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
"""Base64 with padding, as read by Go's encoding/json, which ignores line breaks."""


def broken_structure(
    kind: str,
    value: Any,
    version: KubeVersion | None = DEFAULT,
    *,
    patch: bool = False,
    texts: Mapping[ValuePath, str] | None = None,
) -> Iterator[Problem]:
    """Yield the errors in a value's structure that the API server rejects.

    Null fields are ignored, because the API server drops them.

    Args:
        kind: a definition or another type: `PodTemplateSpec`, `Job`, `[Toleration]`.
        value: plain data.
        version: the version of the cluster; None allows the fields of all versions.
        patch: True for a strategic merge patch, in which required fields may be missing.
        texts: source texts of values that are not strings, by path in the value.
    """
    check = _Check(kind, version, {} if texts is None else texts, partial=patch)
    yield from check.value(kind, value, _Spot((), "", patch=patch))


def has_kind(kind: str) -> bool:
    """Return whether mlgen has the definition of a kind."""
    return kind in names()


class _Spot(NamedTuple):
    """The location of a value.

    Attributes:
        path: the path of the value.
        owner: the definition of the object around it; "" if there is none.
        patch: whether it is merged into another value, and may have directives.
        key: the required merge key of a list item in a patch; "" if there is none.
    """

    path: ValuePath
    owner: str
    patch: bool
    key: str = ""

    @property
    def field(self) -> str:
        """The name of the field that contains the value; "" for the root value."""
        return str(self.path[-1]) if self.path else ""

    def at(self, step: str | int, *, owner: str = "", patch: bool, key: str = "") -> "_Spot":
        """Return the spot of a value within this one."""
        return _Spot((*self.path, step), owner or self.owner, patch, key)


class _Check(NamedTuple):
    """The check of one value, see `broken_structure`.

    Attributes:
        root: the type of the whole value.
        partial: whether required fields may be missing.
    """

    root: str
    version: KubeVersion | None
    texts: Mapping[ValuePath, str]
    partial: bool

    def value(self, kind: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problems of a value."""
        if kind == "any":
            return
        if kind[0] == "[":
            yield from self._list(kind[1:-1], value, spot)
        elif kind[0] == "{":
            yield from self._mapping(kind[1:-1], value, spot)
        elif is_definition(kind):
            yield from self._object(kind, value, spot)
        else:
            yield from self._scalar(kind, value, spot)

    def _list(self, kind: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problems of a list."""
        if not isinstance(value, list):
            texts = {path[-1]: text for path, text in self.texts.items() if path[:-1] == spot.path}
            hint = for_list(spot.field, kind, value, self.version, texts)
            yield self._wrong_type("a list", value, spot, hint)
            return
        # Lists without a merge key are replaced, not merged.
        key = KEYS.get(spot.field, "") if spot.patch else ""
        for number, item in enumerate(value):
            # Null is an object without fields.
            item_or_empty = {} if item is None and is_definition(kind) else item
            yield from self.value(kind, item_or_empty, spot.at(number, patch=bool(key), key=key))

    def _mapping(self, kind: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problems of a mapping that may have any keys."""
        if not isinstance(value, dict):
            hint = for_mapping(value)
            yield self._wrong_type("a mapping", value, spot, hint)
            return
        for name, inner in value.items():
            if spot.patch and name.startswith("$"):
                yield from self._directive(name, inner, spot)
            elif inner is not None:
                yield from self.value(kind, inner, spot.at(name, patch=spot.patch))

    def _object(self, kind: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problems of an object that has a definition."""
        if not isinstance(value, dict):
            hint = for_object(kind, value, self.version)
            yield self._wrong_type("a mapping", value, spot, hint)
            return
        fields = definition(kind, self.version).fields
        for name, inner in value.items():
            if name not in fields:
                yield from self._unknown(kind, name, inner, spot)
            elif inner is not None:
                yield from self.value(
                    fields[name], inner, spot.at(name, owner=kind, patch=spot.patch)
                )
        yield from self._missing(kind, value, spot)

    def _unknown(self, kind: str, name: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problem of a field that is not in the definition in this version."""
        path, known = (*spot.path, name), definition(kind, self.version)
        holder = (kind, spot.owner, self.root, self.version)
        if spot.patch and name.startswith("$"):
            yield from self._directive(name, value, spot)
        elif name in known.later:
            since = known.later[name]
            message = f"{name} requires Kubernetes {since}, not {self.version}"
            hint = f"{move(name, *holder) or 'remove it'}, or set --kube-version {since}"
            yield Problem(path, message, "unknown-field", hint)
        elif name in known.earlier:
            message = f"{name} was removed after Kubernetes {known.earlier[name]}"
            yield Problem(path, message, "unknown-field", "remove it")
        else:
            hint = for_field(name, *holder)
            yield Problem(path, f'unknown field "{name}"', "unknown-field", hint)

    def _missing(self, kind: str, value: Mapping[str, Any], spot: _Spot) -> Iterator[Problem]:
        """Yield a problem for each required field that is missing."""
        required = definition(kind, self.version).required
        if self.partial:
            required = () if "$patch" in value or not spot.key else (spot.key,)
        for name in required:
            if value.get(name) is None:
                hint = for_missing(name, kind)
                yield Problem(spot.path, f'field "{name}" is missing', "missing-field", hint)

    def _directive(self, name: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problem of a directive of a strategic merge patch."""
        path = (*spot.path, name)
        if name == "$patch":
            if value not in DIRECTIVES:
                message = f"unknown value {shown(value)}"
                yield Problem(path, message, "unknown-value", one_of(DIRECTIVES))
        elif name == "$retainKeys":
            yield from self.value("[string]", value, spot.at(name, patch=False))
        else:
            message = f"{name} is not supported"
            yield Problem(path, message, "unknown-field", "use $patch or $retainKeys")

    def _scalar(self, kind: str, value: Any, spot: _Spot) -> Iterator[Problem]:
        """Yield the problem of a scalar."""
        if value is None:  # an item of a list, which becomes the type's zero value
            return
        if not _fits(kind, value):
            text = self.texts.get(spot.path)
            hint = for_scalar(kind, value, text)
            yield self._wrong_type(EXPECTED.get(kind, "a string"), value, spot, hint)
        elif kind in MAXIMA and not isinstance(value, str):
            if not -MAXIMA[kind] - 1 <= value <= MAXIMA[kind]:
                message = f"expected an integer up to {MAXIMA[kind]}, got {described(value)}"
                yield Problem(spot.path, message, "bad-value")
        else:
            message, hint = _malformed(kind, value)
            if message:
                yield Problem(spot.path, message, "bad-value", hint)

    def _wrong_type(self, expected: str, value: Any, spot: _Spot, hint: str) -> Problem:
        """Return the problem of a value that has the wrong type."""
        got = described(value, self.texts.get(spot.path))
        return Problem(spot.path, f"expected {expected}, got {got}", "wrong-type", hint)


def _fits(kind: str, value: Any) -> bool:
    """Return whether a value has the given scalar type.

    A float without a fraction counts as an integer, because kubectl writes it as one.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_integer = is_number and (isinstance(value, int) or value.is_integer())
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int32", "int64"):
        return is_integer
    if kind == "int-or-string":
        return is_integer or isinstance(value, str)
    return isinstance(value, str) or (kind == "quantity" and is_number)


def _malformed(kind: str, value: Any) -> tuple[str, str]:
    """Return the message and the hint for an invalid string; "" if it is valid."""
    if kind == "quantity":
        try:
            parse(value.strip() if isinstance(value, str) else value)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            return message, hint
    elif kind == "time" and not TIME.fullmatch(value):
        return f"{shown(value)} is not a time", "write a time such as 2026-01-31T12:00:00Z"
    elif kind == "bytes" and not BYTES.fullmatch(value.replace("\r", "").replace("\n", "")):
        return "expected text in base64", ""
    return "", ""


PREFIX = "kubernetes."
"""Prefix of definition names, to avoid collisions with other definitions."""

SCALARS: dict[str, list[str]] = {
    "boolean": ["boolean"],
    "bytes": ["string"],
    "int-or-string": ["integer", "string"],
    "int32": ["integer"],
    "int64": ["integer"],
    "quantity": ["number", "string"],
    "string": ["string"],
    "time": ["string"],
}

PATCH: dict[str, Any] = {
    "$patch": {"enum": list(DIRECTIVES)},
    "$retainKeys": {"type": "array", "items": {"type": "string"}},
}
"""The directives of a patch, see mlgen/kubernetes/values.py."""


def reference(name: str) -> dict[str, Any]:
    """Return the JSON Schema that refers to a definition."""
    return {"$ref": f"#/definitions/{PREFIX}{name}"}


def definitions(root: str, version: KubeVersion) -> dict[str, Any]:
    """Return the JSON Schemas of a definition and its dependencies, by prefixed name."""
    schemas: dict[str, Any] = {}
    names = [root]
    while names:
        name = names.pop()
        if f"{PREFIX}{name}" not in schemas:
            fields = definition(name, version).fields
            schemas[f"{PREFIX}{name}"] = _object(fields)
            names += filter(is_definition, map(element, fields.values()))
    return dict(sorted(schemas.items()))


def _object(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema of an object. All fields are optional, and null removes a field."""
    properties = {name: _schema(kind) for name, kind in fields.items()}
    return {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": properties | PATCH,
    }


def _schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a type."""
    if kind == "any":
        return {}
    if kind[0] == "[":
        return {"type": ["array", "null"], "items": _schema(kind[1:-1])}
    if kind[0] == "{":
        return {"type": ["object", "null"], "additionalProperties": _schema(kind[1:-1])}
    return reference(kind) if is_definition(kind) else {"type": [*SCALARS[kind], "null"]}


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
        return f"write {flow_words(value, command=name == 'command')}"
    if isinstance(value, dict) and kind == "EnvVar":
        variables = [_variable(key, texts.get(key, value[key])) for key in list(value)[:1]]
        return f"write {flow(variables)}"
    if isinstance(value, dict):
        return "start each item with a dash"
    if is_definition(kind):
        item = _meant(kind, value, version)
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
    instead = _meant(kind, value, version)
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


def _meant(kind: str, value: Any, version: KubeVersion | None) -> dict[str, Any] | None:
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
