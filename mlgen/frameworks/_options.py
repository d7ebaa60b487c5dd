"""The options of a framework: their schemas in `schemas/options/`, and their old names.

A document with old names → the same document with the current names. Only this module handles old
names. The schema lists them as deprecated. All other modules see only current names.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from mlgen.documents.document import UNWRITTEN, Document, Mark
from mlgen.jobfile.schema import inlined
from mlgen.kubernetes.values import mapping
from mlgen.problems import Problem, ValuePath, error, warning
from mlgen.resources import table

OPTIONS: ValuePath = ("spec", "options")


@cache
def schemas(framework: str) -> Mapping[str, Any]:
    """Return a JSON Schema for each option of a framework: `schemas/options/<framework>.json`.

    `{"$ref": "mpi.json#/transport"}` there is the schema of an option of another framework.
    """
    own: dict[str, Any] = inlined(table(f"options/{framework}"), _option)
    return own


def _option(reference: str) -> dict[str, Any]:
    """Return the schema of an option: `mpi.json#/transport`."""
    framework, _, name = reference.partition(".json#/")
    option: dict[str, Any] = schemas(framework)[name]
    return option


def with_deprecated(current: Mapping[str, Any], new_names: Mapping[str, str]) -> dict[str, Any]:
    """Return the schemas of options, including their old names."""
    deprecated = {
        old: {
            **current[new],
            "deprecated": True,
            "description": f"Deprecated: the old name of {new}.",
        }
        for old, new in new_names.items()
    }
    return {**current, **deprecated}


def deprecations(document: Document, new_names: Mapping[str, str]) -> list[Problem]:
    """Return a warning for each old name in a document; an error if both names are set."""
    options, found = _options(document), []
    for old, new in new_names.items():
        path = ("options", old)
        if old in options and new in options:
            message = f"{old} and {new} are mutually exclusive"
            found.append(document.located(error(path, message, f"remove {old}"), key=True))
        elif old in options:
            message = f"{old} is deprecated: its new name is {new}"
            old_name = warning(path, message, f"write {new}", "deprecated")
            found.append(document.located(old_name, key=True))
    return found


def with_current_names(document: Document, new_names: Mapping[str, str]) -> Document:
    """Return a document whose options have their current names; all values keep their locations."""
    options = _options(document)
    if not new_names.keys() & set(options):
        return document
    current_options = {new_names.get(name, name): value for name, value in options.items()}
    spec = {**document.data["spec"], "options": current_options}
    mark = document.marks.at(OPTIONS) or UNWRITTEN
    inner = {new_names.get(str(name), name): option for name, option in mark.inner.items()}
    renamed = Mark(mark.place, mark.key, mark.text, mark.origin, inner)
    marks = document.marks.put(OPTIONS, renamed)
    return replace(document, data={**document.data, "spec": spec}, marks=marks)


def _options(document: Document) -> dict[str, Any]:
    """Return `spec.options`; empty if it is missing or has the wrong type."""
    return mapping(document.data, *OPTIONS)
