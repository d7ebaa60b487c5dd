"""A value of a wrong type or form → what to write instead."""

from collections.abc import Sequence
from typing import Any

from mlgen.flow import MAX_FLOW, flow, words
from mlgen.jobfile.confusions import VALUES
from mlgen.jobfile.cures import normalized
from mlgen.jobfile.schema import base
from mlgen.kubernetes.quantity import cure
from mlgen.problems import ValuePath, choice

TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")

WORD_LISTS = ("command", "args")
"""Fields that are lists of the words of a command line."""


def for_type(path: ValuePath, types: Sequence[str], value: Any, text: str | None) -> str:
    """Return how to write a value as one of the types of JSON Schema; "" if that is not clear.

    Args:
        path: of the value.
        types: those that it may have.
        value: it has none of them.
        text: a value that is not a string, as written in the file; None if not known.
    """
    if isinstance(value, str):
        return _for_string(path, types, value)
    if isinstance(value, dict | list):
        return _for_collection(path, types, value)
    if text is not None and "string" in types:
        return f"quote it: '{text}'" if text else "write '' for an empty string"
    if "object" in types:
        is_count = path[:2] == ("spec", "roles") and type(value) is int
        return f"write {{replicas: {value}}}" if is_count else _for_nothing(value)
    if types == ["array"] and value is not None:
        return f"write [{flow(text if path[-1] in WORD_LISTS else value)}]"
    return ""


def _for_nothing(value: Any) -> str:
    """Return how to write nothing as a mapping."""
    return "write {} if it has no fields" if value is None else ""


def for_choice(value: str, allowed: Sequence[str]) -> str:
    """Return which of the allowed values is meant, or all of them."""
    same = [word for word in allowed if normalized(word) == normalized(value)]
    meant = VALUES.get(normalized(value), "")
    return choice(same[0] if same else meant if meant and meant in allowed else value, allowed)


def for_quantity(pattern: str, value: str) -> str:
    """Return how to write a quantity with a wrong unit; "" if the pattern is another one."""
    is_quantity = pattern == base()["definitions"]["quantity"]["pattern"]
    return cure(value) if is_quantity else ""


def _for_string(path: ValuePath, types: Sequence[str], value: str) -> str:
    """Return how to write a string as another type."""
    if "integer" in types and value.isdecimal():
        return "remove the quotes"
    if "boolean" in types and value.lower() in (*TRUE, *FALSE):
        word = "true" if value.lower() in TRUE else "false"
        return "remove the quotes" if value == word else f"write {word}"
    if "array" in types and value and path[-1] in WORD_LISTS:
        return f"write {words(value, command=path[-1] == 'command')}"
    return f"write [{flow(value)}]" if "array" in types and len(value) < MAX_FLOW else ""


def _for_collection(path: ValuePath, types: Sequence[str], value: Any) -> str:
    """Return how to write a list as a mapping, a mapping as a list, or either as a string."""
    if isinstance(value, dict):
        return _listed(path, value) if "array" in types else ""
    if "string" in types and len(value) == 1 and isinstance(value[0], str):
        return f"write {flow(value[0])}"
    if "object" not in types:
        return ""
    named = [i for i in value if isinstance(i, dict) and isinstance(i.get("name"), str)]
    if len(named) < len(value):
        pairs = [str(item).partition("=") for item in value if not isinstance(item, dict | list)]
        mapping = {name: text for name, equals, text in pairs if equals}
        return f"write {_short(mapping)}" if mapping and len(mapping) == len(value) else ""
    by_name = {item["name"]: _without_name(path, item) for item in named}
    return f"write {_short(by_name)}" if by_name else ""


def _listed(path: ValuePath, value: dict[str, Any]) -> str:
    """Return how to write a mapping as a list: the variables of a container, or anything else."""
    if path[-1] != "env" or any(isinstance(inner, dict | list) for inner in value.values()):
        return "start each item with a dash"
    items = [{"name": name, "value": str(inner)} for name, inner in value.items()]
    shown = flow(items)
    return f"write {shown}" if len(shown) <= MAX_FLOW else f"write {flow(items[:1])[:-1]}, …]"


def _without_name(path: ValuePath, item: dict[str, Any]) -> Any:
    """Return what the name of an item stands for in a mapping."""
    rest = {name: inner for name, inner in item.items() if name != "name"}
    claim = rest.get("persistentVolumeClaim")
    if path[-1] == "volumes":
        pvc = {"pvc": claim.get("claimName")} if isinstance(claim, dict) else rest
        return {"mountPath": "…"} | pvc
    return rest.get("value", "") if path[-1] == "env" and "valueFrom" not in rest else rest


def _short(mapping: dict[str, Any]) -> str:
    """Return a mapping in flow style, or the first of its fields if that is too long."""
    full = flow(mapping)
    if len(full) <= MAX_FLOW:
        return full
    name, value = next(iter(mapping.items()))
    first = flow({name: value})
    return f"{first[:-1]}, …}}" if len(first) <= MAX_FLOW else f"{{{flow(name)}: …}}"
