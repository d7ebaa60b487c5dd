"""The JSON Schemas of custom resources, from `schemas/resources/<dialect>.json`.

In these files, `kinds` contains the schema of `spec` by apiVersion and kind. A `$ref` refers to a
definition in the same file or another one. As in the schema of a CRD, an object with `properties`
has no other fields, unless `additionalProperties` is true. The `type` of a schema with `properties`
or `items` is omitted. Only the dialect uses the other keys of its file.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from mlgen.jobfile.schema import base, inlined
from mlgen.kubernetes.schema import definitions, reference
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import choice
from mlgen.resources import table

COMMON = "common.json"
JOB_FILE = "../job.schema.json"
LOCAL = "#/definitions/"
TEMPLATE = "podTemplate"


def resource_schema(dialect: str, version: str, kind: str, kept: str = "") -> dict[str, Any]:
    """Return the JSON Schema of a custom resource.

    Args:
        dialect: the name of the dialect.
        version: the apiVersion of the resource.
        kind: of the resource.
        kept: a definition of common.json: references to it are not resolved.
    """
    file = f"{dialect}.json"
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _definition(COMMON, "metadata"),
            "spec": _inlined(read(file)["kinds"][version][kind], file, kept),
            "status": {},
        },
        "definitions": base()["definitions"],
    }


def editor_schema(
    dialect: str, version: str, kind: str, kube_version: KubeVersion
) -> dict[str, Any]:
    """Return the same for editors: with all fields of pods, and without unused definitions.

    Args:
        dialect: the name of the dialect.
        version: the apiVersion of the resource.
        kind: of the resource.
        kube_version: of the pods.
    """
    template = _definition(COMMON, TEMPLATE)
    schema = resource_schema(dialect, version, kind, TEMPLATE)
    parts = schema.pop("definitions") | definitions("PodSpec", kube_version)
    spec = template["properties"]["spec"] | {"allOf": [reference("PodSpec")]}
    parts[TEMPLATE] = template | {"properties": template["properties"] | {"spec": spec}}
    schema["properties"] |= {"apiVersion": {"const": version}, "kind": {"const": kind}}
    used: set[str] = set()
    referenced = _references(schema)
    while referenced > used:
        used = referenced
        referenced = used.union(*(_references(parts[name]) for name in used))
    schema["definitions"] = {name: part for name, part in parts.items() if name in used}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": kind, **schema}


def newest(name: str, keys: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the apiVersion and kind that a user has written, in full or in part.

    Args:
        name: `pytorchjob` or `kubeflow.org/v1/MPIJob`, case-insensitive. The default is the newest
            version.
        keys: every apiVersion and kind.

    Raises:
        LookupError: the kind is unknown. The message suggests similar kinds.
    """
    keys = list(keys)
    matches = [key for key in keys if f"/{'/'.join(key)}".lower().endswith(f"/{name.lower()}")]
    if not matches:
        kind = name.rpartition("/")[2].lower()
        versions = ["/".join(key) for key in keys if key[1].lower() == kind]
        known = versions or sorted({kind for _, kind in keys})
        raise LookupError(f'unknown kind "{name}"; {choice(name, known)}')
    return max(matches, key=lambda key: _age(key[0]))


def _age(version: str) -> tuple[int, ...]:
    """Return a sort key for an apiVersion, larger for newer versions: v2beta1 is after v1."""
    match = re.search(r"/v(\d+)(?:(alpha|beta)(\d+))?$", version)
    major, stage, minor = match.groups("") if match else ("0", "", "")
    return int(major), STAGES.index(stage), int(minor or 0)


STAGES = ("alpha", "beta", "")
"""The stages of an API version, from the first to the last."""


def read(file: str) -> Any:
    """Return a file of `schemas/resources`."""
    return table(f"resources/{file.removesuffix('.json')}")


@cache
def _definition(file: str, name: str, kept: str = "") -> dict[str, Any]:
    """Return a definition of a file, see `_inlined`."""
    return _inlined(read(file)["definitions"][name], file, kept)


def _inlined(node: Any, file: str, kept: str) -> dict[str, Any]:
    """Return a part of a file without references, except to definitions of the job file.

    Args:
        node: the part.
        file: the name of the file.
        kept: as for `resource_schema`.
    """

    def find(reference: str) -> dict[str, Any]:
        other, _, name = reference.partition(LOCAL)
        is_kept = other == JOB_FILE or name == kept
        return {"$ref": f"{LOCAL}{name}"} if is_kept else _definition(other or file, name, kept)

    part: dict[str, Any] = inlined(_closed(node), find)
    return part


def _closed(node: Any) -> Any:
    """Return a part of a file with `type`, and with no other fields than `properties`."""
    if isinstance(node, list):
        return [*map(_closed, node)]
    if not isinstance(node, dict):
        return node
    closed: dict[str, Any] = {"type": "array"} if "items" in node else {}
    if "properties" in node:
        closed = {"type": "object", "additionalProperties": False}
    return closed | {name: _closed(part) for name, part in node.items()}


def _references(node: Any) -> set[str]:
    """Return the names of the definitions that a schema refers to."""
    return set(re.findall(rf'"\$ref": "{LOCAL}([^"]+)"', json.dumps(node)))
