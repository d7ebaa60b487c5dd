"""Definitions of Kubernetes' API → JSON Schemas of strategic merge patches, for editors.

The schemas only use keywords that draft-07 and 2020-12 share.
"""

from collections.abc import Mapping
from typing import Any

from mlgen.kubernetes.definitions import definition, element, is_definition
from mlgen.kubernetes.merge import DIRECTIVES
from mlgen.kubernetes.versions import KubeVersion

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
"""The directives of a patch, see mlgen/kubernetes/merge.py."""


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
