"""The published schema, with what editors show beyond it: snippets, and what a value means.

The keywords are those of VS Code, which yaml-language-server and JetBrains read too; validators
ignore them: https://code.visualstudio.com/docs/languages/json#_define-snippets-in-json-schemas.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.jobfile.model import API_VERSION, KIND

ROLE = {"$ref": "#/definitions/role"}


def with_hints(
    schema: dict[str, Any], summaries: Mapping[str, str], snippets: Mapping[str, str]
) -> dict[str, Any]:
    """Return the schema of the job file with what editors complete and explain; it is changed.

    Args:
        schema: of the job file.
        summaries: a sentence for each framework, by name.
        snippets: a job file for each framework, by name; `${1:x}` is x, which the user changes.
    """
    for rule in schema["allOf"]:
        roles = rule["then"]["properties"]["spec"]["properties"].get("roles")
        if roles:  # propertyNames refuses other names, but editors do not complete them
            roles["properties"] = dict.fromkeys(roles["propertyNames"]["enum"], ROLE)
    for node in _nodes(schema):
        meanings = _meanings(node.get("description", ""), node.get("enum", ()))
        if any(meanings):
            node["enumDescriptions"] = meanings
    properties = schema["properties"]
    properties["apiVersion"]["default"], properties["kind"]["default"] = API_VERSION, KIND
    framework = properties["spec"]["properties"]["framework"]
    framework["enumDescriptions"] = [summaries[name] for name in framework["enum"]]
    schema["defaultSnippets"] = [
        {"label": f"{KIND}: {name}", "description": summaries[name], "bodyText": text}
        for name, text in snippets.items()
    ]
    return schema


def _nodes(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each schema of a field, except those of Kubernetes, which have no such descriptions."""
    for keyword in ("properties", "definitions"):
        for node in schema.get(keyword, {}).values():
            yield node
            yield from _nodes(node)


def _meanings(description: str, values: Any) -> list[str]:
    """Return what a description says of each value, as in `None: keep everything. All: delete`."""
    if not values:
        return []
    parts = re.split(rf"(?:^|(?<=[.] ))({'|'.join(map(re.escape, values))}): ", description)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    meanings = [texts.get(value, "").strip() for value in values]
    return [f"{text[:1].upper()}{text[1:]}" for text in meanings]
