"""Validate a document against a JSON Schema, and report violations as problems with a place."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen import bounds
from mlgen.documents.document import Document
from mlgen.jobfile.patterns import LINE, PATH, SSH_FOLDER, TEXT, python_pattern
from mlgen.problems import Code, MlgenError, Problem, ValuePath, bounded, choice, described, shown

if TYPE_CHECKING:
    from mlgen.jobfile.cures import JobFile, Owners

TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
"""How a message names the types of JSON Schema."""

ROLES = ("spec", "roles")

BOUNDS = {
    ("maximum", bounds.REPLICAS): "Kubernetes runs no more pods of a Job at a time",
    ("maxProperties", bounds.ROLES): "split it into several jobs",
    ("maxItems", bounds.ROLES): "split it into several jobs",
}
"""The rules of schemas that are bounds of mlgen: what to do about each."""

PATTERNS = {
    LINE: "use a single line without control characters",
    PATH: "use an absolute path",
    SSH_FOLDER: "use an absolute path of letters, digits, dashes, underscores and dots",
    r"^[-._/:@A-Za-z0-9]*$": "use a reference to an image",
    TEXT: "remove the character U+0000, which no command line can have",
    r"^(?!-|ext::)[^\x00-\x1f\x7f]*$": "use a URL that git can fetch",
    r"^(?!-)[^\x00-\x1f\x7f]*$": "use a name that does not start with a dash",
    r"^[0-9]+$": "use digits only",
    r"^[^=\x00-\x1f\x7f]+$": "use a name without =",
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
    "^(exclude|include|(args|metadata|spec)[.].+)$": (
        "use a path such as args.lr or spec.env.SEED, or exclude or include"
    ),
    "^(args|metadata|spec)[.].+$": "use a path such as args.lr or spec.env.SEED",
    r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$": (
        "use letters, digits, dashes, underscores and dots, starting and ending with a letter or"
        " digit"
    ),
}
"""What to write to match a pattern of a schema, for messages. Other patterns have examples."""


def require_valid(
    document: Document,
    schema: Mapping[str, Any],
    further: Sequence[Problem] = (),
    owners: "Owners" = dict,
) -> None:
    """Check that a document has no problems and is valid against a JSON Schema (draft-07).

    Args:
        document: a TrainingJob or a custom resource.
        schema: of its kind.
        further: problems of the document that other checks have found; where the schema finds the
            same, these are reported.
        owners: returns the options of all frameworks, for hints.

    Raises:
        MlgenError: with every problem of the document, in the order of their places.
    """
    unread = {problem.path for problem in document.problems if problem.code == "not-yaml"}
    invalid = _once(violations(document, schema, owners), further)
    problems = [*document.problems, *(item for item in invalid if item.path not in unread)]
    if problems:
        raise MlgenError(sorted(problems, key=lambda item: item.place or document.place(())))


def _once(invalid: Sequence[Problem], further: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems of two checks, but one problem of each kind for a value."""
    reported = {(problem.path, problem.code) for problem in further}
    rest = [
        problem
        for problem in invalid
        if not {(problem.path, problem.code), (problem.path, "unknown-field")} & reported
    ]
    yield from rest
    unread = {problem.path for problem in rest if problem.code == "wrong-type"}
    for problem in further:
        if not any(problem.path[: len(path)] == path for path in unread):
            yield problem


def violations(
    document: Document, schema: Mapping[str, Any], owners: "Owners" = dict
) -> list[Problem]:
    """Return a problem, with its place, for each violation of a JSON Schema (draft-07)."""
    errors = list(validator()(schema).iter_errors(document.data))
    if not errors:
        return []
    from mlgen.jobfile.cures import JobFile

    job = JobFile(document.data, schema, owners)
    every = bounded(problem for error in errors for problem in _problems(error, document, job))
    return [problem for problem in dict.fromkeys(every) if not job.repeats(problem)]


@cache
def validator() -> Any:
    """Return the class that validates; importing `jsonschema` takes longer than a render."""
    from jsonschema import validators

    extend: Any = validators.extend
    return extend(validators.Draft7Validator, {"pattern": _pattern})


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    """The rule of `pattern`, as in `mlgen.build`."""
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not re.search(python_pattern(pattern), instance):
        yield ValidationError("does not match")


def _problems(error: Any, document: Document, job: "JobFile") -> Iterator[Problem]:
    """Turn a ValidationError of jsonschema into problems with messages of ours."""
    path = tuple(error.absolute_path)
    value, rule = error.instance, error.validator
    known = error.schema.get("properties", {})
    if rule == "additionalProperties":
        yield from _unknown_fields(path, value, known, document, job)
    elif rule == "required":
        yield from _missing_fields(path, value, error.schema, document)
    elif "propertyNames" in error.absolute_schema_path:
        message, hint, code = _bad_name(path, value, error, job)
        yield document.located(Problem((*path, value), message, code, hint), key=True)
    elif rule == "oneOf" and _is_misnamed(error, known):
        return
    else:
        message, hint, code = _bad_value(error, document.texts.get(path), job)
        from mlgen.documents import overrides

        if code == "wrong-type" and document.places.get(path) == overrides.SETTING:
            hint = overrides.cure(path, error.validator_value, value) or hint
        yield document.located(Problem(path, message, code, hint))


def _is_misnamed(error: Any, known: Mapping[str, Any]) -> bool:
    """Return True if an unknown field is probably one of the alternatives under another name."""
    value = error.instance
    if not isinstance(value, dict):
        return True
    alternatives = {name for option in error.validator_value for name in option["required"]}
    return not alternatives & value.keys() and bool(value.keys() - known.keys())


def _unknown_fields(
    path: ValuePath,
    value: Mapping[str, Any],
    known: Mapping[str, Any],
    document: Document,
    job: "JobFile",
) -> Iterator[Problem]:
    from mlgen.jobfile.cures import for_field, for_resource_field

    choices = [name for name, schema in known.items() if not schema.get("deprecated")]
    for name in value:
        if name not in known:
            hint = for_resource_field(job, path, name, choices)
            if job.is_job_file:
                hint = for_field(job, path, name, value[name], choices)
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


def _bad_name(path: ValuePath, name: str, error: Any, job: "JobFile") -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a key that breaks `propertyNames`.

    Only roles have an enumeration of names.
    """
    rule, limit = error.validator, error.validator_value
    hint = job.for_role(name) if path == ROLES and job.is_job_file else ""
    if rule == "enum":
        return f'unknown role "{name}"', hint or choice(name, limit), "unknown-role"
    return f'invalid name "{name}"', hint or PATTERNS.get(limit, ""), "bad-value"


def _bad_value(error: Any, text: str | None, job: "JobFile") -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a value that breaks one rule of the schema.

    Args:
        error: the ValidationError of jsonschema.
        text: a value that is not a string, as written in the file; None if not known.
        job: the document.
    """
    from mlgen.jobfile import value_cures

    rule, limit, value = error.validator, error.validator_value, error.instance
    repeated = shown(value, text)
    if rule == "type":
        types = limit if isinstance(limit, list) else [limit]
        expected = " or ".join(TYPES[name] for name in types if name in TYPES)
        message = f"expected {expected}, got {described(value, text)}"
        path = tuple(error.absolute_path)
        hint = job.for_role(path[2]) if job.is_job_file and path[:-1] == ROLES else ""
        return message, hint or value_cures.for_type(path, types, value, text), "wrong-type"
    if rule in ("enum", "const"):
        allowed = limit if isinstance(limit, list) else [limit]
        hint = value_cures.for_choice(str(value), [str(word) for word in allowed])
        return f"unknown value {repeated}", hint, "unknown-value"
    if rule == "pattern":
        hint = value_cures.for_quantity(limit, value) or _pattern_hint(limit, error.schema)
        return f"invalid value {repeated}", hint, "bad-value"
    if rule == "oneOf":
        fields = [name for alternative in limit for name in alternative["required"]]
        return *_bad_alternative(fields, value), "bad-value"
    code: Code = "too-large" if (rule, limit) in BOUNDS else "bad-value"
    return *_bad_amount(rule, limit, value, repeated), code


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
    hint = BOUNDS.get((rule, limit), "")
    bound = "at least" if rule.startswith("min") else "at most"
    if rule in ("minimum", "maximum"):
        return f"expected {bound} {limit}, got {shown}", hint
    unit = {"Length": "character", "Items": "item", "Properties": "field"}[rule[len("min") :]]
    message = f"expected {bound} {limit} {unit}{'' if limit == 1 else 's'}, got {len(value)}"
    return message, hint


def _listed(names: list[str], word: str) -> str:
    """Return "a", "a or b", "a, b or c": names as a sentence lists them; "" if there are none."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
