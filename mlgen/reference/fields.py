"""The fields of a job file: from its schema, the options of the frameworks, and Kubernetes' API.

Paths are written as for `kubectl explain`, without list indices. Any name can take the place of a
name that the user chooses, such as a role: `spec.roles.worker.template.spec.containers`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from mlgen import dialects, frameworks
from mlgen.documents.files import texts
from mlgen.jobfile.model import KIND
from mlgen.jobfile.schema import resolved
from mlgen.kubernetes.versions import definition, element, is_definition
from mlgen.problems import MlgenError, did_you_mean

STEP = re.compile(r"(?:\\.|[^.\[\]\\])+")
"""A step of a path. A backslash escapes a dot."""

KINDS = {
    "affinity": "Affinity",
    "container": "Container",
    "template": "PodTemplateSpec",
    "volume": "Volume",
}
"""Definitions of the schema that also allow all other fields of a type in Kubernetes' API."""

CLAIM = "PersistentVolumeClaimSpec"
"""The Kubernetes type of the values of `spec.claims`."""

ALTERNATIVES = re.compile(r"\^\((\w+(?:\|\w+)*)\)\$")
"""A pattern that only lists words."""

PLACEHOLDERS = {"roles": "<role>"}
"""Placeholders for names that the user chooses. Default: `<name>`."""


class Field(NamedTuple):
    """A field of the job file.

    Attributes:
        path: steps of its path. A name that the user chooses is as written, or `<name>`.
        schema: its JSON Schema, resolved. {} for a field of Kubernetes' API only.
        kind: its type in Kubernetes' API, as in `mlgen.kubernetes.versions`; "" for none.
        required: True if it is required in its object.
        frameworks: frameworks with this option; () for any other field.
        items: indices of the steps that are inside items of a list.
    """

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    kind: str = ""
    required: bool = False
    frameworks: tuple[str, ...] = ()
    items: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The last step of the path."""
        return self.path[-1] if self.path else ""

    @property
    def description(self) -> str:
        """Its meaning. For a field of Kubernetes, a `kubectl explain` command."""
        text: str = self.schema.get("description", "")
        return text or f"A field of Kubernetes: see kubectl explain {_native_path(self.path)}."

    @property
    def type(self) -> str:
        """Its type, as kubectl writes it: `integer`, `[]string`, `map[string]Object`."""
        if "type" in self.schema or not self.kind:
            return _type(self.schema)
        return _native_type(self.kind)

    @property
    def values(self) -> list[str]:
        """The allowed values, or their range. [] allows any value of the type."""
        schema = self.schema
        found = [*schema.get("enum", _resolved(schema.get("items")).get("enum", ()))]
        found += [schema["const"]] if "const" in schema else []
        words = ALTERNATIVES.fullmatch(schema.get("pattern", ""))
        found += words.group(1).split("|") if words else []
        low, high = schema.get("minimum"), schema.get("maximum")
        if high is not None and high < 2**31 - 1:
            found.append(f"{low or 0} to {high}")
        elif low is not None:
            found.append(f"{low} or more")
        return [str(value) for value in found]

    @property
    def default(self) -> Any:
        """The default value. None if there is none, or if it depends on other fields."""
        return self.schema.get("default")

    @property
    def examples(self) -> list[Any]:
        """Example values."""
        return list(self.schema.get("examples", ()))

    @property
    def is_list(self) -> bool:
        """True if it is a list."""
        return "array" in _types(self.schema) or self.kind.startswith("[")

    def children(self) -> list["Field"]:
        """Return the fields inside it, or inside the items of a list."""
        if self.path == ("spec", "options"):
            return _options()
        schema = _resolved(self.schema.get("items", self.schema))
        native = _native_fields(self.kind)
        required = {*schema.get("required", ()), *(n for n, (_, need) in native.items() if need)}
        if self.kind.endswith("PodSpec"):  # a patch can omit the containers
            required.discard("containers")
        properties = {name: _resolved(part) for name, part in schema.get("properties", {}).items()}
        if schema.get("additionalProperties") is not False:
            properties |= {name: {} for name in sorted(native.keys() - properties.keys())}
        fields = [
            Field(
                (*self.path, name),
                inner,
                native[name][0] if name in native else _kind(inner),
                name in required,
                self.frameworks,
                (*self.items, len(self.path)) if self.is_list else self.items,
            )
            for name, inner in properties.items()
        ]
        more = _resolved(schema.get("additionalProperties") or {})
        if more.get("properties"):
            path = (*self.path, PLACEHOLDERS.get(self.name, "<name>"))
            fields.append(Field(path, more, CLAIM if self.name == "claims" else _kind(more)))
        return fields

    def child(self, name: str) -> list["Field"]:
        """Return the fields with a name. Options of several frameworks can share a name."""
        fields = self.children()
        exact = [field for field in fields if field.name == name]
        any_name = [field for field in fields if field.name.startswith("<")]
        return exact or [field._replace(path=(*self.path, name)) for field in any_name]


def root() -> Field:
    """Return the job file as a whole."""
    return Field((), _schema())


def find(path: str) -> list[Field]:
    """Return the fields at a path: `spec.runPolicy`, or from `spec` on, `runPolicy.backoffLimit`.

    The last name alone is enough. The result contains all fields with this name. If
    frameworks have different options with this name, each of these options is a field.

    Raises:
        LookupError: no such field. The message contains the last valid step and a suggestion.
    """
    steps = [re.sub(r"\\(.)", r"\1", step) for step in STEP.findall(re.sub(r"\[\d*\]", "", path))]
    if steps[:1] in ([KIND], [KIND.lower()]):  # as kubectl explain begins a path
        steps = steps[1:]
    top = [field.name for field in root().children()]
    if not steps or steps[0] in top:
        return _walk([root()], steps)
    (spec,) = root().child("spec")
    if spec.child(steps[0]):
        return _walk([spec], steps)
    found = [field for field in every() if field.name == steps[-1]] if len(steps) == 1 else []
    if found:
        return found
    known = {field.name for field in (*every(), *spec.children())}
    hint = did_you_mean(steps[0], known)
    raise LookupError(f'there is no field "{steps[0]}"' + (f"; {hint}" if hint else ""))


def every(field: Field | None = None) -> Iterator[Field]:
    """Yield all fields inside a field, or in the job file, without fields of Kubernetes' API.

    Fields that a role shares with `spec` are yielded only once, below `spec`.
    """
    field = field or root()
    for child in field.children():
        if not child.schema:
            continue
        if field.path == ("spec", "roles", "<role>") and child.schema in _shared():
            continue
        yield child
        yield from every(child)


def shared_with_roles(field: Field) -> bool:
    """Return whether a field can be set both in `spec` and in a role."""
    return len(field.path) in (2, 4) and field.schema in _shared()


def _shared() -> list[Any]:
    """Return the schemas of the fields that `spec` and a role share."""
    return [
        _resolved(schema)
        for name, schema in _schema()["definitions"]["role"]["properties"].items()
        if "$ref" in schema and name in _schema()["properties"]["spec"]["properties"]
    ]


@cache
def _schema() -> dict[str, Any]:
    """Return the schema of the job file, without the parts that depend on the framework."""
    return frameworks.schema([])


def _walk(fields: list[Field], steps: list[str]) -> list[Field]:
    """Return the fields at the end of a path that starts at some fields."""
    for step in steps:
        inner = [child for field in fields for child in field.child(step)]
        if not inner:
            names = list(dict.fromkeys(child.name for f in fields for child in f.children()))
            place = ".".join(fields[0].path) or "a job file"
            hint = did_you_mean(step, names)
            if not hint:
                hint = f"its fields are {', '.join(names)}" if names else "it has no fields"
            raise LookupError(f'{place} has no field "{step}"; {hint}')
        fields = inner
    return fields


def _options() -> list[Field]:
    """Return the options of all frameworks, with equal options only once."""
    owners: dict[tuple[str, str], list[str]] = {}
    schemas: dict[tuple[str, str], Any] = {}
    for framework in frameworks.names():
        for name, schema in frameworks.options(framework).items():
            key = name, json.dumps(schema, sort_keys=True)
            schemas[key] = schema
            owners.setdefault(key, []).append(framework)
    return [
        Field(("spec", "options", key[0]), schemas[key], frameworks=tuple(owners[key]))
        for key in sorted(owners, key=itemgetter(0))
    ]


def options(framework: str) -> list[Field]:
    """Return the options of a framework."""
    return [field for field in _options() if framework in field.frameworks]


def _resolved(part: Any) -> dict[str, Any]:
    """Return a part of the schema of the job file, or the definition that it refers to."""
    return resolved(part, _schema())


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the Kubernetes type that a schema describes in part, or ""."""
    definitions = _schema()["definitions"]
    kinds = {name: kind for name, kind in KINDS.items() if definitions[name] == schema}
    return next(iter(kinds.values()), "")


def _native_fields(kind: str) -> dict[str, tuple[str, bool]]:
    """Return the fields of a type in Kubernetes' API: type, and True if required."""
    name = element(kind) if kind else ""
    if not name or not is_definition(name):
        return {}
    known = definition(name)
    return {field: (inner, field in known.required) for field, inner in known.fields.items()}


def _native_type(kind: str) -> str:
    """Return a type in Kubernetes' API as kubectl writes it."""
    if kind.startswith("["):
        return f"[]{_native_type(kind[1:-1])}"
    if kind.startswith("{"):
        return f"map[string]{_native_type(kind[1:-1])}"
    return {"int32": "integer", "int64": "integer", "bytes": "string"}.get(kind, kind)


def _native_path(path: tuple[str, ...]) -> str:
    """Return the path of a field of Kubernetes' API for kubectl explain."""
    if "template" in path:
        return ".".join(("pod", *path[path.index("template") + 1 :]))
    if path[:2] == ("spec", "claims"):
        return ".".join(("pvc.spec", *path[3:]))
    return ".".join(("pod.spec", *(path[path.index("affinity") :] if "affinity" in path else ())))


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Return the JSON types of a schema, without null, which only removes a field in a patch."""
    types = schema.get("type", "string" if {"enum", "const"} & schema.keys() else "any")
    return [t for t in ([types] if isinstance(types, str) else types) if t != "null"]


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema as kubectl writes it."""
    names = []
    for name in _types(schema):
        more = schema.get("additionalProperties")
        if name == "array":
            names.append(f"[]{_type(_resolved(schema.get('items')))}")
        elif name == "object" and isinstance(more, dict) and "properties" not in schema:
            names.append(f"map[string]{_type(_resolved(more))}")
        else:
            names.append({"object": "Object"}.get(name, name))
    return " or ".join(names)


# Candidates for completion in a shell


def roles(files: Iterable[str] = ()) -> list[str]:
    """Return the roles of the jobs in files, or of all frameworks if no file can be read."""
    named = list(dict.fromkeys(_roles_of(tuple(file for file in files if file != "-"))))
    if named:
        return named
    every = (frameworks.get(name).roles or () for name in frameworks.names())
    return sorted({role for names in every for role in names})


def _roles_of(files: tuple[str, ...]) -> Iterator[str]:
    """Yield the roles of the jobs in files. Stop silently at the first invalid file."""
    with suppress(MlgenError, OSError, LookupError, TypeError, AttributeError):
        for text in dialects.in_context(texts(files)):
            for document in dialects.documents(text):
                native = None if isinstance(document, list) else dialects.native(document)[0]
                if native is not None:
                    yield from native.data["spec"]["roles"]


def settings(incomplete: str, files: Iterable[str] = ()) -> list[str]:
    """Return completions for --set: paths, and after `=` the values that the schema lists."""
    path, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{found}=" if not _inner(found) else found for found in paths(path, roles(files))]
    with suppress(LookupError):
        return [f"{path}={value}" for field in find(path) for value in _words(field)]
    return []


def paths(incomplete: str, names: Iterable[str] = ()) -> list[str]:
    """Return the paths of fields that start with a prefix.

    If the only match is an object, the result also contains the fields inside it. The shell then
    adds a dot after the match instead of a space.

    Args:
        incomplete: a path with an incomplete last step: `spec.runPolicy.b`.
        names: names of roles to suggest.
    """
    found = [path for path in _siblings(incomplete, names) if path.startswith(incomplete)]
    if len(found) == 1 and _inner(found[0]):
        return [*found, *_siblings(f"{found[0]}.", names)]
    return found


def _siblings(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the paths of all fields in the parent object of an incomplete path."""
    parent, dot, _ = incomplete.rpartition(".")
    found = [root()]
    if parent:
        try:
            found = find(parent)
        except LookupError:
            return []
    children = {child.name for field in found for child in field.children()}
    steps = sorted(name for name in children if not name.startswith("<"))
    steps += [name for name in names if "<role>" in children]
    return [f"{parent}{dot}{step}" for step in steps]


def _inner(path: str) -> bool:
    """Return whether a path leads to an object with known fields."""
    with suppress(LookupError):
        return any(field.children() for field in find(path))
    return False


def _words(field: Field) -> list[str]:
    """Return the allowed values of a field that contain no space. For a boolean: true, false."""
    if field.type == "boolean":
        return ["true", "false"]
    return [value for value in field.values if " " not in value]
