"""The JSON Schema of the job file, combined with the roles and options of the frameworks.

The schema checks types and values. Frameworks check which roles and fields make sense together.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

from mlgen.jobfile.model import API_VERSION, KIND
from mlgen.kubernetes.versions import KubeVersion
from mlgen.resources import table


def base() -> dict[str, Any]:
    """Return `schemas/job.schema.json`: the job file without roles and options of frameworks."""
    schema: dict[str, Any] = table("job.schema")
    return schema


def steps_of(reference: str) -> list[str]:
    """Return the path in a `$ref`: `job.schema.json#/definitions/role` → definitions, role."""
    return reference.partition("#/")[2].split("/")


def target(reference: str, root: Any) -> Any:
    """Return the part of a whole schema that a `$ref` refers to."""
    return reduce(getitem, steps_of(reference), root)


def resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema, or if it is a reference, the part of `root` that it refers to.

    Args:
        schema: `true` and None result in {}.
        root: the whole schema.
    """
    known: dict[str, Any] = schema if isinstance(schema, dict) else {}
    return target(known["$ref"], root) if "$ref" in known else known


def inlined(node: Any, find: Callable[[str], Mapping[str, Any]]) -> Any:
    """Return a part of a schema with the target of each reference in place of the reference.

    Args:
        node: the part. What is beside a `$ref` replaces that of the target.
        find: returns the target of a `$ref`.
    """
    if isinstance(node, list):
        return [inlined(item, find) for item in node]
    if not isinstance(node, dict):
        return node
    own = {name: inlined(part, find) for name, part in node.items() if name != "$ref"}
    return {**find(node["$ref"]), **own} if "$ref" in node else own


def fields(
    schema: Mapping[str, Any], omitted: Collection[str] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the path and the schema of each field at any depth, shorter paths first.

    Args:
        schema: of an object. References are not followed.
        omitted: names of fields that are omitted, with the fields in them.
    """
    level: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), schema)]
    while level:
        found = [
            ((*path, name), field)
            for path, outer in level
            for name, field in outer.get("properties", {}).items()
            if name not in omitted
        ]
        yield from found
        level = [*found]


def of_matrix() -> dict[str, Any]:
    """Return the JSON Schema of `spec.matrix`."""
    matrix: dict[str, Any] = base()["properties"]["spec"]["properties"]["matrix"]
    return matrix | {"definitions": base()["definitions"]}


class Extension(NamedTuple):
    """The additions of one framework to the schema.

    Attributes:
        title: the display name of the framework.
        roles: the role names; None allows roles of any name.
        options: a JSON Schema for each field of `spec.options`.
        others: True if roles may also have other names.
        first_roles: the roles of a first job.
    """

    title: str
    roles: tuple[str, ...] | None
    options: Mapping[str, Any]
    others: bool = False
    first_roles: Mapping[str, Any] = {}


def extended(names: Sequence[str], extensions: Mapping[str, Extension]) -> dict[str, Any]:
    """Return the schema of the job file with the roles and options of each `framework`.

    Args:
        names: the allowed values of `framework`.
        extensions: the additions, by framework. A framework without one gets no further checks.
    """
    schema = base()
    spec = schema["properties"]["spec"]
    framework = spec["properties"]["framework"] | {"enum": list(names)}
    spec = spec | {"properties": spec["properties"] | {"framework": framework}}
    conditions = [
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
    return schema | {"properties": schema["properties"] | {"spec": spec}, "allOf": conditions}


def with_kubernetes(schema: dict[str, Any], version: KubeVersion) -> dict[str, Any]:
    """Return the schema of the job file with the schema of pod templates in it, for editors.

    mlgen itself checks pod templates without JSON Schema: see mlgen/kubernetes/schema.py.

    Args:
        schema: of the job file.
        version: of Kubernetes.
    """
    from mlgen.kubernetes.schema import definitions, reference

    schema = deepcopy(schema)
    parts: dict[str, Any] = schema["definitions"]
    claim = schema["properties"]["spec"]["properties"]["claims"]["additionalProperties"]
    parts["template"]["allOf"] = [reference("PodTemplateSpec")]
    parts["affinity"]["allOf"] = [reference("Affinity")]
    claim["allOf"] = [reference("PersistentVolumeClaimSpec")]
    parts |= definitions("PodTemplateSpec", version)  # includes the other two
    return schema


def _properties(extension: Extension) -> dict[str, Any]:
    """Return the schemas of `spec.options` and `spec.roles` for a framework."""
    title, options = extension.title, dict(extension.options)
    properties: dict[str, Any] = {
        "options": {
            "type": "object",
            "description": f"Options of {title}." if options else f"{title} has no options.",
            "additionalProperties": False,
            "properties": options,
        }
    }
    if extension.others:
        properties["roles"] = {"properties": {name: {} for name in extension.roles or ()}}
    elif extension.roles is not None:
        properties["roles"] = {"propertyNames": {"enum": list(extension.roles)}}
    if extension.first_roles:
        properties.setdefault("roles", {})["examples"] = [extension.first_roles]
    return properties


ROLE = {"$ref": "#/definitions/role"}


def with_hints(
    schema: dict[str, Any], summaries: Mapping[str, str], snippets: Mapping[str, str]
) -> dict[str, Any]:
    """Add completions and explanations for editors to the schema of the job file, and return it.

    The keywords come from VS Code. yaml-language-server and JetBrains also read them, and
    validators ignore them:
    https://code.visualstudio.com/docs/languages/json#_define-snippets-in-json-schemas.

    Args:
        schema: of the job file. It is changed.
        summaries: a sentence for each framework, by name.
        snippets: a job file for each framework, by name. `${1:x}` is the placeholder x.
    """
    for rule in schema["allOf"]:
        roles = rule["then"]["properties"]["spec"]["properties"].get("roles", {})
        # editors do not complete names from propertyNames
        names = roles.get("propertyNames", {}).get("enum", roles.get("properties"))
        if names:
            roles["properties"] = dict.fromkeys(names, ROLE)
    parts = (schema, *schema["definitions"].values())
    for node in (*parts, *(field for part in parts for _, field in fields(part))):
        texts = meanings(node.get("description", ""), node.get("enum", ()))
        if any(texts):
            node["enumDescriptions"] = texts
    properties = schema["properties"]
    properties["apiVersion"]["default"], properties["kind"]["default"] = API_VERSION, KIND
    framework = properties["spec"]["properties"]["framework"]
    framework["enumDescriptions"] = [summaries[name] for name in framework["enum"]]
    schema["defaultSnippets"] = [
        {"label": f"{KIND}: {name}", "description": summaries[name], "bodyText": text}
        for name, text in snippets.items()
    ]
    return schema


def meanings(description: str, values: Any) -> list[str]:
    """Return the part of a description for each value: `None: keep everything. All: delete`."""
    if not values:
        return []
    parts = re.split(rf"(?:^|(?<=[.] ))({'|'.join(map(re.escape, values))}): ", description)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    stripped = [texts.get(value, "").strip() for value in values]
    return [f"{text[:1].upper()}{text[1:]}" for text in stripped]
