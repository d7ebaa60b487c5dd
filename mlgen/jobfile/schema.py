"""The schema of the job file: put together with the frameworks' options, and held against a file.

The schema guards shape. What only makes sense together (roles, limits) is the framework's to say.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlgen.resources import folder

API_VERSION, KIND = "mlgen.dev/v1alpha1", "TrainingJob"


@cache
def base() -> dict[str, Any]:
    """Read `schemas/job.schema.json`: the job file without what single frameworks add."""
    text = (folder("schemas") / "job.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@dataclass(frozen=True, slots=True)
class Extension:
    """What one framework adds to the schema.

    Attributes:
        title: of the framework, as people write it.
        roles: their names; None if a job may have roles of any name.
        options: a JSON Schema for each field of `spec.options`.
    """

    title: str
    roles: tuple[str, ...] | None
    options: Mapping[str, Any]


def extended(names: Sequence[str], extensions: Mapping[str, Extension]) -> dict[str, Any]:
    """Return the schema of the job file with what frameworks add, chosen by `framework`.

    Args:
        names: every possible value of `framework`.
        extensions: of these frameworks, or of those of interest, by name.
    """
    schema: dict[str, Any] = json.loads(json.dumps(base()))
    schema["properties"]["spec"]["properties"]["framework"]["enum"] = list(names)
    schema["allOf"] = [
        {
            "if": {
                "properties": {
                    "spec": {
                        "properties": {"framework": {"const": name}},
                        "required": ["framework"],
                    }
                },
                "required": ["spec"],
            },
            "then": {"properties": {"spec": {"properties": _properties(extension)}}},
        }
        for name, extension in extensions.items()
    ]
    return schema


def _properties(extension: Extension) -> dict[str, Any]:
    """Return the properties of `spec` that the framework defines."""
    title = extension.title
    properties: dict[str, Any] = {
        "options": {
            "type": "object",
            "description": f"What only {title} knows." if extension.options else "There are none.",
            "additionalProperties": False,
            "properties": dict(extension.options),
        }
    }
    if extension.roles is not None:
        properties["roles"] = {"propertyNames": {"enum": list(extension.roles)}}
    return properties
