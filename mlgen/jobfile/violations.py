"""What in a document breaks a JSON Schema, in the words of a user."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.documents.document import Document
from mlgen.problems import Code, MlgenError, Problem, ValuePath, did_you_mean

TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}


def require_valid(document: Document, schema: Mapping[str, Any]) -> None:
    """Hold a document against a JSON Schema (draft-07).

    Raises:
        MlgenError: with every problem of the document, each with its place.
    """
    unread = {problem.path for problem in document.problems if problem.code == "not-yaml"}
    wrong = [problem for problem in violations(document, schema) if problem.path not in unread]
    found = [*document.problems, *wrong]
    if found:
        raise MlgenError(sorted(found, key=lambda problem: problem.place or document.place(())))


def violations(document: Document, schema: Mapping[str, Any]) -> list[Problem]:
    """Return what breaks a rule of a JSON Schema, each with its place."""
    from jsonschema.validators import Draft7Validator

    found: dict[Problem, None] = {}
    for error in Draft7Validator(schema).iter_errors(document.data):
        found.update(dict.fromkeys(_explained(error, document)))
    return list(found)


def _explained(error: Any, document: Document) -> Iterator[Problem]:
    """Say in our own words what jsonschema found (a ValidationError)."""
    path = tuple(error.absolute_path)
    value, rule, limit = error.instance, error.validator, error.validator_value
    if rule == "additionalProperties":
        yield from _unknown_fields(path, value, error.schema.get("properties", {}), document)
    elif rule == "required":
        yield from _missing_fields(path, value, error.schema, document)
    elif "propertyNames" in error.absolute_schema_path:
        message, hint = _bad_name(value, rule, limit)
        code: Code = "unknown-role" if rule == "enum" else "bad-value"
        yield document.located(Problem((*path, value), message, code, hint), key=True)
    else:
        text = document.texts.get(path)
        shown = json.dumps(value, ensure_ascii=False) if text is None else text or "nothing"
        shown = shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "…"
        message, hint, code = _bad_value(error, shown, text)
        yield document.located(Problem(path, message, code, hint))


MAX_SHOWN = 60
"""Characters of a wrong value that a message repeats."""


def _unknown_fields(
    path: ValuePath, value: Mapping[str, Any], known: Iterable[str], document: Document
) -> Iterator[Problem]:
    for name in value:
        if name not in known:
            message = f'the field "{name}" is not known here'
            hint = did_you_mean(name, known) or f"known are: {', '.join(known) or 'none'}"
            problem = Problem((*path, name), message, "unknown-field", hint)
            yield document.located(problem, key=True)


def _missing_fields(
    path: ValuePath, value: Mapping[str, Any], schema: Mapping[str, Any], document: Document
) -> Iterator[Problem]:
    for name in schema["required"]:
        if name not in value:
            field = schema.get("properties", {}).get(name, {})
            examples = [field["const"]] if "const" in field else field.get("examples", [])
            hint = f"for example {name}: {json.dumps(examples[0])}" if examples else ""
            message = f'the field "{name}" is missing'
            yield document.located(Problem(path, message, "missing-field", hint))


def _bad_name(value: str, rule: str, limit: Any) -> tuple[str, str]:
    if rule == "enum":
        hint = did_you_mean(value, limit) or f"known are: {', '.join(limit)}"
        return f'"{value}" is not a role of this framework', hint
    return f'"{value}" is not a name that is possible here', f"it must match {limit}"


def _bad_value(error: Any, shown: str, bare: str | None) -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a value that breaks one rule of the schema.

    Args:
        error: what jsonschema found.
        shown: the value, as it is repeated in the message.
        bare: how a value that is not a text was written, else None.
    """
    rule, limit, value = error.validator, error.validator_value, error.instance
    if rule == "type":
        wanted = limit if isinstance(limit, list) else [limit]
        found = "stands here" if value is None else f"is {_kind(value)}"
        message = f"{shown} {found}, not {' or '.join(TYPES[t] for t in wanted if t in TYPES)}"
        return message, _requote(wanted, value, bare), "wrong-type"
    if rule in ("enum", "const"):
        known = limit if isinstance(limit, list) else [limit]
        hint = did_you_mean(str(value), known) or f"known are: {', '.join(map(str, known))}"
        return f"{shown} is not known here", hint, "unknown-value"
    if rule == "pattern":
        examples = " or ".join(json.dumps(example) for example in error.schema.get("examples", []))
        hint = f"write it like {examples}" if examples else f"it must match {limit}"
        return f"{shown} is not of the right form", hint, "bad-value"
    if rule == "oneOf":
        names = [name for alternative in limit for name in alternative["required"]]
        given = [name for name in names if name in value]
        message = f"it has {' and '.join(given) or 'none'} of {', '.join(names)}"
        return message, "give exactly one of them", "bad-value"
    words = {
        "minimum": f"{shown} is less than {limit}",
        "maximum": f"{shown} is more than {limit}",
        "minLength": "is empty",
        "maxLength": f"is longer than {limit} characters",
        "minItems": f"has fewer than {_counted(limit, 'item')}",
        "maxItems": f"has more than {_counted(limit, 'item')}",
        "minProperties": f"has fewer than {_counted(limit, 'field')}",
        "maxProperties": f"has more than {_counted(limit, 'field')}",
        "uniqueItems": "names the same value twice",
    }
    return words[rule], "", "bad-value"


def _counted(count: Any, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _requote(wanted: list[str], value: Any, bare: str | None) -> str:
    """Quotes are what is most often wrong with a type, or a mapping that was left out."""
    if bare is not None and "string" in wanted:
        return f"quote it: '{bare}'"
    if value is None and "object" in wanted:
        return "write {} for one with no fields"
    if isinstance(value, str) and "integer" in wanted and value.isdecimal():
        return f"write it without quotes: {value}"
    return ""


def _kind(value: Any) -> str:
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "a boolean"),
        (str, "a text"),
        ((int, float), "a number"),
        (dict, "a mapping"),
        (list, "a list"),
    )
    return next((name for types, name in kinds if isinstance(value, types)), "null")
