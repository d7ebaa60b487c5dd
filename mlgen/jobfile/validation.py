"""Validates documents against the JSON Schema of their kind and the schema of Kubernetes' API.

`job.schema.json` does not describe the parts that belong to Kubernetes' API, such as pod templates,
or fields that depend on its version. The API's schema is loaded only for documents with such parts.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from mlgen import input_limits as bounds
from mlgen.documents import flags, overrides
from mlgen.documents.document import Document
from mlgen.documents.flags import ROLES
from mlgen.jobfile import hints
from mlgen.jobfile.hints import JobFile, Owners
from mlgen.jobfile.schema import base, resolved, target
from mlgen.kubernetes.values import mapping, sequence, value_at
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import (
    Code,
    MlgenError,
    Problem,
    ValuePath,
    bounded,
    choice,
    described,
    did_you_mean,
    listed,
    one_of,
    shown,
)
from mlgen.shell import flow

BOUNDS = {
    ("maximum", bounds.REPLICAS): "a Job runs at most this many pods at the same time",
    ("maxProperties", bounds.ROLES): "split it into several jobs",
    ("maxItems", bounds.ROLES): "split it into several jobs",
}
"""Hints for the rules of schemas that are limits of mlgen."""

Schema = Mapping[str, Any]


def conforms(value: Any, schema: Any, root: Schema) -> bool:
    """Return True if a value is valid against a JSON Schema, as jsonschema 4 would.

    jsonschema also describes the errors, but importing it takes longer than a render. Supports only
    the keywords of draft-07 that the schemas of mlgen use.

    Args:
        value: plain data.
        schema: of the value. True accepts any value, False accepts none.
        root: the whole schema, for references.
    """
    if schema is True or schema is False:
        return schema is True
    if "$ref" in schema:  # overrides its siblings in draft-07
        return conforms(value, target(schema["$ref"], root), root)
    types, (own, is_valid) = schema.get("type"), OF_TYPES[type(value)]
    if types and own not in types and not _is_such_a_number(value, types):
        return False
    if not is_valid(value, schema, root):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    return COMBINED.isdisjoint(schema) or _is_combination(value, schema, root)


def _is_such_a_number(value: Any, types: str | Sequence[str]) -> bool:
    """Return True if a value is a number of one of these types. 1.0 is an integer."""
    if type(value) is float:
        return "integer" in types and value.is_integer()
    return type(value) is int and "number" in types


def _is_mapping(value: Mapping[str, Any], schema: Schema, root: Schema) -> bool:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    names = schema.get("propertyNames", True)
    for name, item in value.items():
        part = known.get(name, others)
        if part is not True and not conforms(item, part, root):
            return False
        if names is not True and not conforms(name, names, root):
            return False
    is_whole = all(name in value for name in schema.get("required", ()))
    return is_whole and _is_within(len(value), schema, "minProperties", "maxProperties")


def _is_list(value: Sequence[Any], schema: Schema, root: Schema) -> bool:
    part = schema.get("items", True)
    if part is not True and not all(conforms(item, part, root) for item in value):
        return False
    is_set = not schema.get("uniqueItems") or _is_unique(value)
    return is_set and _is_within(len(value), schema, "minItems", "maxItems")


def _is_text(value: str, schema: Schema, _: Schema) -> bool:
    if "pattern" in schema and not re.search(python_pattern(schema["pattern"]), value):
        return False
    return _is_within(len(value), schema, "minLength", "maxLength")


def python_pattern(pattern: str) -> str:
    r"""Convert a pattern of JSON Schema to an equivalent pattern for Python's `re.search`.

    In JSON Schema, `$` matches only the end of the text (ECMA 262, 22.2.2.4). In Python, it also
    matches before a line feed at the end. mlgen's patterns use `$` only at their end.
    """
    return f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern


def _is_number(value: float, schema: Schema, _: Schema) -> bool:
    return _is_within(value, schema, "minimum", "maximum")


def _is_other(_value: Any, _schema: Schema, _: Schema) -> bool:
    return True


OF_TYPES: Mapping[type, tuple[str, Callable[[Any, Any, Any], bool]]] = {
    dict: ("object", _is_mapping),
    list: ("array", _is_list),
    str: ("string", _is_text),
    int: ("integer", _is_number),
    float: ("number", _is_number),
    bool: ("boolean", _is_other),
    type(None): ("null", _is_other),
}
"""The name of each type in JSON Schema, and the function that checks its own keywords."""

COMBINED = frozenset(["allOf", "const", "if", "not", "oneOf"])


def _is_combination(value: Any, schema: Schema, root: Schema) -> bool:
    """Return True if a value meets `allOf`, `if`, `oneOf`, `not` and `const`."""
    every = [*schema.get("allOf", ())]
    if "if" in schema and conforms(value, schema["if"], root):
        every.append(schema.get("then", True))
    if not all(conforms(value, part, root) for part in every):
        return False
    one = schema.get("oneOf")
    if one and sum(conforms(value, part, root) for part in one) != 1:
        return False
    if "not" in schema and conforms(value, schema["not"], root):
        return False
    return "const" not in schema or bool(value == schema["const"])


def _is_within(size: float, schema: Schema, low: str, high: str) -> bool:
    """Return True if a size is within the bounds in two keywords."""
    return not (low in schema and size < schema[low]) and not (
        high in schema and size > schema[high]
    )


def _is_unique(items: Sequence[Any]) -> bool:
    """Return True if no two items are equal. In JSON Schema, True does not equal 1.

    Lists and mappings are compared as in Python, so the result may be wrong for them.
    """
    try:
        return len({(item, type(item) is bool) for item in items}) == len(items)
    except TypeError:
        return not any(item in items[:number] for number, item in enumerate(items))


def require_valid(
    document: Document,
    schema: Mapping[str, Any],
    further: Sequence[Problem] = (),
    owners: Owners = dict,
) -> None:
    """Check that a document has no problems and is valid against a JSON Schema (draft-07).

    Args:
        document: a TrainingJob or a custom resource.
        schema: of its kind.
        further: problems from other checks of the document. They replace the same problems from
            the schema.
        owners: returns the options of all frameworks, for hints.

    Raises:
        MlgenError: contains every problem of the document, ordered by place.
    """
    unread = {problem.path for problem in document.problems if problem.code == "not-yaml"}
    invalid = _once(invalid_fields(document, schema, owners), further)
    problems = [*document.problems, *(item for item in invalid if item.path not in unread)]
    if problems:
        first = bounded(sorted(problems, key=lambda item: item.place or document.place(())))
        raise MlgenError(each if each.place else document.located(each) for each in first)


def _once(invalid: Sequence[Problem], further: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems of two checks, with only one problem per value and code."""
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


def invalid_fields(
    document: Document, schema: Mapping[str, Any], owners: Owners = dict
) -> list[Problem]:
    """Return a problem, with its place, for each violation of a JSON Schema (draft-07)."""
    if conforms(document.data, schema, schema):
        return []
    errors = validator()(schema).iter_errors(document.data)
    job = JobFile(document.data, schema, owners)
    every = bounded(problem for error in errors for problem in _of_error(error, document, job))
    found = dict.fromkeys(every)
    # Two schemas of a value may report the same problem, one with a hint and one without.
    hinted = {replace(problem, hint="") for problem in found if problem.hint}
    return [problem for problem in found if problem not in hinted and not job.repeats(problem)]


@cache
def validator() -> Any:
    """Return the validator class. Importing `jsonschema` takes longer than a render."""
    from jsonschema import validators

    extend: Any = validators.extend
    return extend(validators.Draft7Validator, {"pattern": _pattern})


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    """Check the keyword `pattern`, as in `conforms`."""
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not re.search(python_pattern(pattern), instance):
        yield ValidationError("does not match")


def _of_error(error: Any, document: Document, job: JobFile) -> Iterator[Problem]:
    """Convert a ValidationError of jsonschema to problems with mlgen's messages."""
    path = tuple(error.absolute_path)
    value, rule = error.instance, error.validator
    known = error.schema.get("properties", {})
    if rule == "additionalProperties":
        yield from _unknown_fields(path, value, known, document, job)
    elif rule == "required":
        yield from _missing_fields(path, value, error.schema, document, job)
    elif "propertyNames" in error.absolute_schema_path:
        message, hint, code = _bad_name(path, value, error, job)
        yield document.located(Problem((*path, value), message, code, hint), key=True)
    elif rule == "oneOf" and _is_misnamed(error, known):
        return
    elif rule == "enum" and error.schema.get("type") == "string" and not isinstance(value, str):
        return  # the wrong type is reported
    else:
        message, hint, code = _bad_value(error, document.texts.get(path), job)
        if code == "wrong-type" and document.places.get(path) == overrides.SETTING:
            hint = overrides.cure(path, error.validator_value, value) or hint
        yield document.located(Problem(path, message, code, hint))


def _is_misnamed(error: Any, known: Mapping[str, Any]) -> bool:
    """Return True if an unknown field is probably a misnamed alternative of `oneOf`."""
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
    job: JobFile,
) -> Iterator[Problem]:
    choices = [name for name, schema in known.items() if not schema.get("deprecated")]
    for name in value:
        if name not in known:
            hint = hints.for_resource_field(job, path, name, choices)
            if job.is_job_file:
                hint = hints.for_field(job, path, name, value[name], choices)
            problem = Problem((*path, name), f'unknown field "{name}"', "unknown-field", hint)
            yield document.located(problem, key=True)


def _missing_fields(
    path: ValuePath,
    value: Mapping[str, Any],
    schema: Mapping[str, Any],
    document: Document,
    job: JobFile,
) -> Iterator[Problem]:
    for name in schema["required"]:
        if name not in value:
            field = resolved(schema.get("properties", {}).get(name), base())
            own = job.examples((*path, name), field)
            examples = [field["const"]] if "const" in field else own
            hint = f"for example {name}: {json.dumps(examples[0])}" if examples else ""
            message = f'field "{name}" is missing'
            yield document.located(Problem(path, message, "missing-field", hint))


def _bad_name(path: ValuePath, name: str, error: Any, job: JobFile) -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a key that violates `propertyNames`.

    Only roles have an enumeration of names.
    """
    rule, limit = error.validator, error.validator_value
    hint = job.for_role(name) if path == ROLES and job.is_job_file else ""
    if rule == "enum":
        return f'unknown role "{name}"', hint or choice(name, limit), "unknown-role"
    return f'invalid name "{name}"', hint or hints.texts("patterns").get(limit, ""), "bad-value"


def _bad_value(error: Any, text: str | None, job: JobFile) -> tuple[str, str, Code]:
    """Return the message, the hint and the code for a value that violates the schema.

    Args:
        error: the ValidationError of jsonschema.
        text: the spelling of the value if it is not a string; None if not known.
        job: the document.
    """
    rule, limit, value = error.validator, error.validator_value, error.instance
    path = tuple(error.absolute_path)
    repeated = shown(value, text)
    if rule == "type":
        types = limit if isinstance(limit, list) else [limit]
        named = hints.texts("types")
        expected = " or ".join(named[name] for name in types if name in named)
        message = f"expected {expected}, got {described(value, text)}"
        hint = job.for_role(path[2]) if job.is_job_file and path[:-1] == ROLES else ""
        hint = hint or hints.for_type(path, types, value, text)
        if "enum" in error.schema:
            hint = one_of(error.schema["enum"])
        elif value is None and error.schema.get("minLength"):
            hint = "write a value, or remove it"
        examples = job.examples(path, error.schema)
        if path == ROLES and not isinstance(value, list):
            hint = ""
        if types == ["object"] and examples and not hint and not isinstance(value, dict | list):
            hint = f"for example {flow(examples[0])}"
        return message, hint, "wrong-type"
    if rule in ("enum", "const"):
        allowed = limit if isinstance(limit, list) else [limit]
        hint = hints.for_choice(str(value), [str(word) for word in allowed])
        return f"unknown value {repeated}", hint, "unknown-value"
    if rule == "pattern":
        hint = hints.for_quantity(limit, value) or _pattern_hint(limit, error.schema)
        return f"invalid value {repeated}", hint, "bad-value"
    if rule == "oneOf":
        fields = [name for alternative in limit for name in alternative["required"]]
        return *_bad_alternative(fields, value), "bad-value"
    code: Code = "too-large" if (rule, limit) in BOUNDS else "bad-value"
    message, hint = _bad_amount(rule, limit, value, repeated)
    if rule in ("minItems", "minProperties") and not value and not hint:
        examples = [flow(example) for example in job.examples(path, error.schema)[:1]]
        hint = f"use a value such as {examples[0]}" if examples else "add one, or remove the field"
    return message, hint, code


def _pattern_hint(pattern: str, schema: Mapping[str, Any]) -> str:
    """Return a hint for a pattern: its description, its examples, or both."""
    description = hints.texts("patterns").get(pattern, "")
    examples = listed([json.dumps(example) for example in schema.get("examples", [])], "or")
    if description and examples:
        return f"{description}, for example {examples}"
    return description or (f"use a value such as {examples}" if examples else "")


def _bad_alternative(names: list[str], value: Mapping[str, Any]) -> tuple[str, str]:
    """Return message and hint for a mapping that must have exactly one of the fields."""
    present = [name for name in names if name in value]
    if len(present) > 1:
        return f"{listed(present, 'and')} are mutually exclusive", "keep one of them"
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


KINDS = {
    "template": "PodTemplateSpec",
    "affinity": "Affinity",
    "topologySpreadConstraints": "[TopologySpreadConstraint]",
    "securityContext": "SecurityContext",
    "initContainers": "[Container]",
    "preflight": "Container",
}
"""The API types of a role's fields."""

PATCHES = ("PodTemplateSpec", "Container")
"""The types of which the job file contains patches, without required fields."""

IN_FIELDS = (
    ("volumes", "ephemeral", "PersistentVolumeClaimSpec"),
    ("volumes", "configMap", "ConfigMapVolumeSource"),
    ("volumes", "secret", "SecretVolumeSource"),
    ("volumes", "hostPath", "HostPathVolumeSource"),
    ("env", "valueFrom", "EnvVarSource"),
)
"""The API types of fields in the items of a role's mappings: mapping, field, type."""

LATER_SOURCES = {"fileKeyRef"}
"""The sources of variables that only some supported versions have."""

AMOUNTS = ("requests", "limits")


def invalid_kubernetes_fields(document: Document, version: KubeVersion) -> list[Problem]:
    """Return problems for fields that the API server of this version would reject.

    Args:
        document: a TrainingJob, valid or not.
        version: of the cluster.
    """
    return list(bounded(_rejected(document, version)))


def _rejected(document: Document, version: KubeVersion) -> Iterator[Problem]:
    for path, fields in flags.holders(document.data):
        for steps, kind, value in _kubernetes_values(fields):
            options = {"version": version, "patch": kind in PATCHES}
            yield from _structure(document, (*path, *steps), kind, value, **options)
        yield from _amounts(document, path, fields)


def invalid_templates(document: Document) -> list[Problem]:
    """Return problems for fields of pod templates that the API server would reject.

    Missing fields and fields of other versions are not reported, because the dialect may translate
    them. The job file and the rendered pods are checked later.

    Args:
        document: a custom resource, valid or not, without null fields.
    """
    every = (
        problem
        for path, template in _templates(document.data, ())
        for problem in _structure(document, path, "PodTemplateSpec", template, version=None)
        if problem.code != "missing-field"
    )
    return list(bounded(every))


def _templates(value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield the pod templates in a value, with their paths: any `template` with containers.

    A template may be written as a Pod. The API server drops its apiVersion and kind.
    """
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
        spec = value.get("spec")
        if path[-1:] == ("template",) and isinstance(spec, dict) and "containers" in spec:
            yield path, {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}
            return
    elif isinstance(value, list):
        items = enumerate(value)
    for step, inner in items:
        yield from _templates(inner, (*path, step))


def _structure(
    document: Document, path: ValuePath, kind: str, value: Any, **options: Any
) -> Iterator[Problem]:
    """Yield the problems of a value by the schema of Kubernetes' API.

    Args:
        document: contains the value.
        path: of the value.
        kind: its type in the API.
        value: the part of it to check.
        options: of `schema.broken_structure`.
    """
    from mlgen.kubernetes.schema import broken_structure

    texts = document.item(*path).texts
    for broken in broken_structure(kind, value, texts=texts, **options):
        problem = replace(broken, path=(*path, *broken.path))
        shown = overrides.in_shell(problem, document)
        yield document.located(shown, key=broken.code == "unknown-field")


def _kubernetes_values(fields: Mapping[str, Any]) -> Iterator[tuple[ValuePath, str, Any]]:
    """Yield the path, the API type and the value of each part of a role to check."""
    for name, kind in KINDS.items():
        if isinstance(fields.get(name), list if kind[0] == "[" else dict):
            yield (name,), kind, fields[name]
    for name, claim in mapping(fields, "claims").items():
        if isinstance(claim, dict):
            yield ("claims", name), "PersistentVolumeClaimSpec", claim
    yield from _projections(mapping(fields, "volumes"))
    for field, key, kind in IN_FIELDS:
        for name, item in mapping(fields, field).items():
            value = value_at(item, (key,))
            if isinstance(value, dict) and (key != "valueFrom" or LATER_SOURCES & value.keys()):
                yield (field, name, key), kind, value


def _projections(volumes: Mapping[str, Any]) -> Iterator[tuple[ValuePath, str, Any]]:
    """Yield each source of projected volumes, except `files`, which Kubernetes does not have."""
    for name, volume in volumes.items():
        for number, source in enumerate(sequence(volume, "projected", "sources")):
            if isinstance(source, dict) and "files" not in source:
                yield ("volumes", name, "projected", "sources", number), "VolumeProjection", source


def _amounts(document: Document, path: ValuePath, fields: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each mapping in `resources` other than requests and limits."""
    for name, value in mapping(fields, "resources").items():
        if isinstance(value, dict) and name not in AMOUNTS:
            hint = did_you_mean(name, AMOUNTS) or "write amounts under requests or limits"
            problem = Problem(
                (*path, "resources", name), f'unknown field "{name}"', "unknown-field", hint
            )
            yield document.located(problem, key=True)


EXCUSE = "mlgen.dev/allow."
"""The prefix of annotations with which a job excuses problems: `mlgen.dev/allow.launch: "reason"`.

Every warning can be excused. Of the errors, only those about programs can be excused, because they
depend on facts outside the job file.
"""

ANNOTATIONS: ValuePath = ("metadata", "annotations")

EXCUSABLE_ERRORS = ("exit-code", "launch", "never-ends", "no-such-peer", "port")
"""The codes of errors about programs. All other errors are rules of mlgen or of the API server."""


def unexcused(document: Document, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a job that its annotations do not excuse.

    Args:
        document: a TrainingJob that matches the schema.
        problems: its problems.
    """
    allowed = _reasons(document)
    for problem in problems:
        if problem.code not in allowed:
            yield problem
        elif not problem.warning and problem.code not in EXCUSABLE_ERRORS:
            note = f"{EXCUSE}{problem.code} excuses only warnings"
            yield replace(problem, hint=f"{problem.hint}; {note}" if problem.hint else note)


def invalid_excuses(document: Document) -> Iterator[Problem]:
    """Yield the problems of the annotations themselves: an unknown code, or no reason."""
    for code, reason in _reasons(document).items():
        path = (*ANNOTATIONS, EXCUSE + code)
        if code not in get_args(Code):
            hint = choice(code, get_args(Code))
            yield Problem(path, f'there is no problem code "{code}"', "unknown-value", hint)
        elif not reason.strip():
            message, hint = "the reason is missing", "write why the job is right"
            yield Problem(path, message, "missing-field", hint)


def _reasons(document: Document) -> dict[str, str]:
    """Return the reason of each excused code."""
    annotations = document.data["metadata"].get("annotations", {})
    return {
        name.removeprefix(EXCUSE): reason
        for name, reason in annotations.items()
        if name.startswith(EXCUSE)
    }
