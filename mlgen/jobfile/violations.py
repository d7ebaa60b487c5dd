"""Validate a document against a JSON Schema, and report violations as problems with a place."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.documents.document import Document
from mlgen.problems import Code, MlgenError, Problem, ValuePath, choice

TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
"""How a message names the types of JSON Schema."""

PATTERNS = {
    r"^/": "use an absolute path",
    r"^[0-9]+$": "use digits only",
    r"^[^=]+$": "use a name without =",
    r"^(?!mlgen[.]dev/)": "use another prefix; mlgen.dev/ is reserved",
    r"^[-._a-zA-Z0-9]+$": "use letters, digits, dashes, underscores and dots",
    r"^[a-z][a-z0-9_]*$": "use lower-case letters, digits and underscores, starting with a letter",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$": (
        "use lower-case letters, digits and dashes, starting with a letter and not ending with a"
        " dash"
    ),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": (
        "use lower-case letters, digits and dashes, starting and ending with a letter or digit"
    ),
    r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$": (
        "use lower-case letters, digits, dashes and dots, starting and ending with a letter or"
        " digit"
    ),
    r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$": (
        "use letters, digits, dashes, underscores and dots, starting and ending with a letter or"
        " digit"
    ),
}
"""What to write to match a pattern of a schema, for messages. Other patterns have examples."""

MAX_SHOWN = 60
"""The number of characters of a wrong value that a message repeats."""


def require_valid(document: Document, schema: Mapping[str, Any]) -> None:
    """Check that a document has no problems and is valid against a JSON Schema (draft-07).

    Raises:
        MlgenError: with every problem of the document, in the order of their places.
    """
    unread = {problem.path for problem in document.problems if problem.code == "not-yaml"}
    invalid = [problem for problem in violations(document, schema) if problem.path not in unread]
    problems = [*document.problems, *invalid]
    if problems:
        raise MlgenError(sorted(problems, key=lambda item: item.place or document.place(())))


def violations(document: Document, schema: Mapping[str, Any]) -> list[Problem]:
    """Return a problem, with its place, for each violation of a JSON Schema (draft-07)."""
    from jsonschema.validators import Draft7Validator

    problems: dict[Problem, None] = {}
    for error in Draft7Validator(schema).iter_errors(document.data):
        problems.update(dict.fromkeys(_problems(error, document)))
    return list(problems)


def _problems(error: Any, document: Document) -> Iterator[Problem]:
    """Turn a ValidationError of jsonschema into problems with messages of ours."""
    path = tuple(error.absolute_path)
    value, rule = error.instance, error.validator
    if rule == "additionalProperties":
        yield from _unknown_fields(path, value, error.schema.get("properties", {}), document)
    elif rule == "required":
        yield from _missing_fields(path, value, error.schema, document)
    elif "propertyNames" in error.absolute_schema_path:
        message, hint, code = _bad_name(value, rule, error.validator_value)
        yield document.located(Problem((*path, value), message, code, hint), key=True)
    else:
        message, hint, code = _bad_value(error, document.texts.get(path))
        yield document.located(Problem(path, message, code, hint))


def _unknown_fields(
    path: ValuePath, value: Mapping[str, Any], known: Mapping[str, Any], document: Document
) -> Iterator[Problem]:
    choices = [name for name, schema in known.items() if not schema.get("deprecated")]
    for name in value:
        if name not in known:
            hint = choice(name, choices) if choices else "remove it"
            problem = Problem((*path, name), f'unknown field "{name}"', "unknown-field", hint)
            yield document.located(problem, key=True)


def _missing_fields(
    path: ValuePath, value: Mapping[str, Any], schema: Mapping[str, Any], document: Document
) -> Iterator[Problem]:
    for name in schema["required"]:
        if name not in value:
            field = schema.get("properties", {}).get(name, {})
            examples = [field["const"]] if "const" in field else field.get("examples", [])
            hint = f"for example {name}: {json.dumps(examples[0])}" if examples else ""
            message = f'field "{name}" is missing'
            yield document.located(Problem(path, message, "missing-field", hint))


def _bad_name(name: str, rule: str, limit: Any) -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a key that breaks `propertyNames`.

    Only roles have an enumeration of names.
    """
    if rule == "enum":
        return (
            f'unknown role "{name}"',
            choice(name, limit),
            "unknown-role",
        )
    return f'invalid name "{name}"', PATTERNS.get(limit, ""), "bad-value"


def _bad_value(error: Any, text: str | None) -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a value that breaks one rule of the schema.

    Args:
        error: the ValidationError of jsonschema.
        text: a value that is not a string, as written in the file; None if not known.
    """
    rule, limit, value = error.validator, error.validator_value, error.instance
    shown = _shown(value, text)
    if rule == "type":
        types = limit if isinstance(limit, list) else [limit]
        expected = " or ".join(TYPES[name] for name in types if name in TYPES)
        message = f"expected {expected}, got {_kind(value)}{shown}"
        return message, _type_hint(types, value, text), "wrong-type"
    if rule in ("enum", "const"):
        allowed = limit if isinstance(limit, list) else [limit]
        hint = choice(str(value), [str(word) for word in allowed])
        return f"unknown value {shown}", hint, "unknown-value"
    if rule == "pattern":
        return f"invalid value {shown}", _pattern_hint(limit, error.schema), "bad-value"
    if rule == "oneOf":
        fields = [name for alternative in limit for name in alternative["required"]]
        return *_bad_alternative(fields, value), "bad-value"
    return *_bad_amount(rule, limit, value, shown), "bad-value"


def _pattern_hint(pattern: str, schema: Mapping[str, Any]) -> str:
    """Return what to write to match a pattern: its description, its examples, or both."""
    description = PATTERNS.get(pattern, "")
    examples = _listed([json.dumps(example) for example in schema.get("examples", [])], "or")
    if description and examples:
        return f"{description}, for example {examples}"
    return description or (f"use a value such as {examples}" if examples else "")


def _bad_alternative(names: list[str], value: Mapping[str, Any]) -> tuple[str, str]:
    """Return message and hint for a mapping that must have exactly one of the fields."""
    present = [name for name in names if name in value]
    if len(present) > 1:
        return f"{_listed(present, 'and')} are mutually exclusive", "keep one of them"
    return f"expected one of {', '.join(names)}, got none of them", "add one of them"


def _bad_amount(rule: str, limit: Any, value: Any, shown: str) -> tuple[str, str]:
    """Return message and hint for a number or a size that is out of bounds, or for duplicates."""
    if rule == "uniqueItems":
        return "duplicate items", "remove the duplicates"
    if rule == "minLength":
        return 'expected a non-empty string, got ""', ""
    bound = "at least" if rule.startswith("min") else "at most"
    if rule in ("minimum", "maximum"):
        return f"expected {bound} {limit}, got {shown}", ""
    unit = {"Length": "character", "Items": "item", "Properties": "field"}[rule[len("min") :]]
    return f"expected {bound} {limit} {unit}{'' if limit == 1 else 's'}, got {len(value)}", ""


def _type_hint(types: list[str], value: Any, text: str | None) -> str:
    """Return how to fix quotes, which cause most wrong types, or an omitted mapping; else ""."""
    if text is not None and "string" in types:
        return f"quote it: '{text}'" if text else "write '' for an empty string"
    if value is None and "object" in types:
        return "write {} if it has no fields"
    if isinstance(value, str) and "integer" in types and value.isdecimal():
        return "remove the quotes"
    return ""


def _shown(value: Any, text: str | None) -> str:
    """Return a value as a message repeats it: as written if that is known, else as JSON."""
    shown = json.dumps(value, ensure_ascii=False) if text is None else text or "nothing"
    return shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "…"


def _kind(value: Any) -> str:
    """Return what a message puts in front of a value; nothing in front of null."""
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "the boolean "),
        (str, "the string "),
        ((int, float), "the number "),
        (dict, "the mapping "),
        (list, "the list "),
    )
    return next((kind for types, kind in kinds if isinstance(value, types)), "")


def _listed(names: list[str], word: str) -> str:
    """Return "a", "a or b", "a, b or c": names as a sentence lists them; "" if there are none."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
