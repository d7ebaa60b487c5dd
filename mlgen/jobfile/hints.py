"""Names of other tools: hints for problems in job files, and what operators give to pods.

A hint corrects an unknown name or a wrong value. Sources of hints are the schemas, which contain
the place and type of each field, similar names ("did you mean"), and tables of names in other
tools.

`schemas/resources/operator_pods.json` contains labels, annotations, variables and files that
operators give to pods, and mlgen does not. Its columns:

    operators: by the name of an operator:
        labels: a pattern of labels and annotations that it sets.
        fields: the meaning of these: `job`, `role`, `index`, `namespace` or `queue`.
        selected: the meaning of those that only selectors can use, because their value in a pod
            has no equal here: `job`, `role` or `job and role`.
        variables: patterns of variables, with the fix.
        files: patterns of files, with the fix.
    selectors: by kind, the paths of its selectors of pods. `*` is any item of a list.
    own: a pattern of labels that only mlgen and the Job controller set.
    token: a pattern of texts that read the token of the pod's service account.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from mlgen.documents.flags import ROLES
from mlgen.jobfile.model import KIND, RoleSpec
from mlgen.jobfile.schema import base, fields
from mlgen.kubernetes.quantity import cure, seconds
from mlgen.kubernetes.values import mapping, value_at
from mlgen.kubernetes.versions import definition
from mlgen.problems import SURE, Problem, ValuePath, choice, did_you_mean, listed, similar
from mlgen.resources import table
from mlgen.shell import MAX_FLOW, flow, flow_words


def texts(name: str) -> Mapping[str, str]:
    """Return a table of `schemas/hints.json`, which describes its tables."""
    rows: Mapping[str, str] = table("hints")[name]
    return rows


REPLICAS = "roles.ROLE.replicas"
CONTAINER = ".template: {spec: {containers: [{name: MAIN, FIELD: …}]}}"
SLOT = re.compile(r"\b(MAIN|ROLES?|VALUE)\b")

MAX_WRITTEN = 50
"""The maximum length of values in hints, in characters."""

DEVICES = r"[\w-]+(?::[\w-]+)?:([0-9]{1,3})"
"""Devices as SkyPilot and Slurm write them: `A100:8`, `gpu:a100:8`."""

SPEC: ValuePath = ("spec",)
HELPERS: ValuePath = ("spec", "helpers")

Owners = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the options of all frameworks, each with the names of its frameworks."""


@dataclass(frozen=True)
class JobFile:
    """The document with a problem, and its schema.

    Attributes:
        data: the document.
        schema: of the job file, including its framework, or of a custom resource.
        owners: see `Owners`.
    """

    data: Any
    schema: Mapping[str, Any]
    owners: Owners = field(default=dict)

    @property
    def is_job_file(self) -> bool:
        """False for a custom resource, and in tests."""
        kind = self.schema.get("properties", {}).get("kind", {})
        return bool(kind.get("const") == KIND)

    @property
    def framework(self) -> Mapping[str, Any]:
        """The schemas of the framework's `roles` and `options`; {} if there is no framework."""
        rules = self.schema.get("allOf")
        return rules[0]["then"]["properties"]["spec"]["properties"] if rules else {}

    @property
    def role_names(self) -> list[str]:
        """The roles of the framework; [] if it accepts roles of any name."""
        return list(self.framework.get("roles", {}).get("propertyNames", {}).get("enum", []))

    def examples(self, path: ValuePath, schema: Mapping[str, Any]) -> list[Any]:
        """Return the examples of a value from its schema; for `spec.roles`, of the framework."""
        own = self.framework.get("roles", {}) if path == ROLES else {}
        return list(own.get("examples") or schema.get("examples", []))

    @property
    def options(self) -> list[str]:
        """The options of the framework."""
        schemas = self.framework.get("options", {}).get("properties", {})
        return [name for name, schema in schemas.items() if not schema.get("deprecated")]

    @property
    def spec_fields(self) -> list[str]:
        """The fields of `spec`."""
        return list(self.schema["properties"]["spec"]["properties"])

    @property
    def role_fields(self) -> list[str]:
        """The fields of a role."""
        return list(self.schema["definitions"]["role"]["properties"])

    @property
    def main_role(self) -> str:
        """The role that a number of nodes applies to."""
        names = self.role_names or list(mapping(self.data, *ROLES))
        return "worker" if "worker" in names or not names else names[0]

    def places(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Return the fields in a schema with their paths, shorter paths first."""
        omitted = ("volumes", "template", "roles", "options")
        return ((path[-1], ".".join(path)) for path, _ in fields(schema, omitted))

    @cached_property
    def targets(self) -> dict[str, str]:
        """The place of every known name, by normalized name."""
        rows = [
            *((name, f"spec.roles.{name}") for name in self.role_names),
            *((name, f"spec.options.{name}") for name in self.options),
            *((name, place) for place, names in texts("fields").items() for name in names.split()),
            *self.places(self.schema),
            *((name, f"roles.ROLE.{name}") for name in self.role_fields),
            *((name, f".template.spec.{name}") for name in definition("PodSpec").fields),
            *((name, CONTAINER.replace("FIELD", name)) for name in definition("Container").fields),
        ]
        return {normalized(name): place for name, place in reversed(rows)}

    def for_role(self, name: str) -> str:
        """Return a hint for an unknown role, or ""."""
        same = _same(name, self.role_names)
        if same:
            return f'did you mean "{same}"?' if same != name else ""
        if name in self.spec_fields:
            return f"move it to spec.{name}"
        if name in self.role_fields:
            return _write(f"roles.{self.main_role}.{name}", mapping(self.data, *ROLES).get(name))
        return choice(name, self.role_names) if self.role_names else ""

    def repeats(self, problem: Problem) -> bool:
        """Return True for a problem within an unknown role, which is a problem itself."""
        path, names = problem.path, self.role_names
        if not names or path[:2] != ROLES or len(path) == len(ROLES) or path[2] in names:
            return False
        if _is_role(path):
            return problem.code != "unknown-role"
        return path[2] in (*self.spec_fields, *self.role_fields)


def normalized(name: str) -> str:
    """Return a name in lower case, without dashes and underscores."""
    return name.replace("_", "").replace("-", "").lower()


def _same(name: str, known: Sequence[str]) -> str:
    """Return the known name that is equal except for case, dashes and underscores, or ""."""
    return next((other for other in known if normalized(other) == normalized(name)), "")


def _is_role(path: ValuePath) -> bool:
    return path[:2] == ROLES and len(path) == len(ROLES) + 1


def for_field(job: JobFile, path: ValuePath, name: str, value: Any, known: Sequence[str]) -> str:
    """Return a hint for an unknown field of the mapping at a path.

    Args:
        job: the job file.
        path: of the mapping.
        name: of the unknown field.
        value: of the unknown field.
        known: the fields that the mapping can have.
    """
    same = _same(name, known)
    if same:
        return f'did you mean "{same}"?'
    if (path == SPEC or _is_role(path)) and _meant(name, "advice"):
        return _meant(name, "advice")
    if "volumes" in path[:-1]:
        meant = _meant(name, "volumes")
        claim = value.get("claimName") if meant == "pvc" and isinstance(value, dict) else value
        return _write(meant, claim) if meant else choice(name, known)
    is_role = _is_role(path)
    if path == HELPERS or (len(path) > len(ROLES) and not is_role):
        return choice(name, known)  # elsewhere, the field would not apply to what mlgen adds
    is_any_role = path == SPEC and not job.role_names and isinstance(value, dict)
    if is_any_role and value and value.keys() <= {*job.role_fields}:
        return f"move it to spec.roles.{name}"
    longer = [other for other in known if name[2:] and other.startswith(name)]
    here = did_you_mean(name, longer, 0) or did_you_mean(name, known, SURE)
    there = _elsewhere(job, path, normalized(name), value) or _of_other_frameworks(job, name)
    is_listed = any(normalized(name) in names.split() for names in texts("fields").values())
    there_first = len(path) <= 1 or is_role or (path == SPEC and is_listed)
    hint = there or here if there_first else here or there
    close = "" if hint else similar(normalized(name), job.targets, SURE)
    return hint or _elsewhere(job, path, close, value) or choice(name, known)


def for_resource_field(job: JobFile, path: ValuePath, name: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown field in a custom resource.

    Fields of a pod and its containers belong in a `template`. Other places come from the schema.
    """
    same = _same(name, known)
    if same or not known:
        return f'did you mean "{same}"?' if same else "remove it"
    meant, is_job = _meant_field(name), path[-2:-1] == ("replicatedJobs",)
    if is_job and name in definition("JobSpec").fields:
        return f"move it to template.spec.{name}"
    number = next((each for each in NUMBERS if each in known), "")
    own = number if meant in NUMBERS else meant
    own = "resourcesPerNode" if meant == "resources" and "resourcesPerNode" in known else own
    if own in known:
        return f'did you mean "{own}"?'
    types = next((each for each in known if each.endswith("ReplicaSpecs")), "")
    if "template" in known or types:
        role = next(iter(mapping(job.data, *path, types)), "Worker")
        start = f"{types}.{role}." if types else ""
        if types and meant in NUMBERS:
            return f"write {start}replicas"
        start = "template.spec." if is_job else start
        kinds = (("PodSpec", ""), ("Container", "containers[0]."))
        for kind, place in reversed(kinds) if meant == "resources" else kinds:
            if meant in definition(kind).fields:
                verb = "move it to" if meant == name else "write"
                return f"{verb} {start}template.spec.{place}{meant}"
    named = job.places(job.schema) if path == SPEC else ()
    places = (place for other, place in named if normalized(other) == normalized(name))
    place = next(places, "")
    return f"move it to {place}" if place else choice(name, known)


NUMBERS = ("replicas", "numNodes", "parallelism")
"""The fields of custom resources with a number of pods."""


def _meant_field(name: str) -> str:
    """Return the field of Kubernetes that a name of another tool means, or the name itself."""
    for place, names in texts("fields").items():
        if normalized(name) in names.split():
            field_name = place.partition(":")[0].removeprefix(".")
            is_resource = field_name.startswith("resources")
            if place == REPLICAS or is_resource:
                return "resources" if is_resource else "replicas"
            return name if "." in field_name else field_name
    return name


def _elsewhere(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return a hint with the place of a field in the job file, by normalized name, or ""."""
    is_role = _is_role(path)
    target = job.targets.get("replicaspecs" if name.endswith("replicaspecs") else name, "")
    if target == REPLICAS and isinstance(value, dict | list):
        return ""
    if target == REPLICAS and is_role:
        target = ".replicas"
    elif name in ("labels", "annotations") and is_role:
        target, value = f".template.metadata.{name}", None
    elif target.startswith("spec.roles."):
        value = {"replicas": value} if type(value) is int else None
    elif target.startswith("spec.") and target in texts("fields") and isinstance(value, dict):
        value = None  # its fields also have other names
    if isinstance(value, str) and target.startswith(".") and ": " not in target:
        value = _meant(value, "values") or value
    if target.endswith("Seconds") and isinstance(value, str):
        value = value if seconds(value) is None else seconds(value)
    amount = re.fullmatch(DEVICES, value) if isinstance(value, str) else None
    if amount and "/gpu" in target:
        value = int(amount[1])
    if target.startswith("."):
        target = target[1:] if path == SPEC or is_role else f"spec{target}"
    role = mapping(job.data, *path) if is_role else {}
    slots = {
        "MAIN": role.get("mainContainer") or mapping(job.data, *SPEC).get("mainContainer", "main"),
        "ROLE": job.main_role,
        "ROLES": flow(dict.fromkeys((job.role_names or [job.main_role])[:3], "…")),
        "VALUE": flow(value) if isinstance(value, str | int | float) else "…",
    }
    return _write(SLOT.sub(lambda slot: str(slots[slot[0]]), target), value) if target else ""


def _of_other_frameworks(job: JobFile, name: str) -> str:
    """Return a hint with the frameworks that an option belongs to; "" if there are none."""
    by_option = job.owners()
    option = _same(name, list(by_option))
    if not option:
        return ""
    others = listed(sorted(by_option[option]), "and")
    framework = value_at(job.data, (*SPEC, "framework"))
    return f"remove it: it is an option of {others}, not of {framework}"


def _write(target: str, value: Any) -> str:
    """Return `write TARGET: VALUE`, or `move it to TARGET` for an empty or long value."""
    field_name = target.rpartition(".")[2]
    if ": " in target:
        return f"write {target}"
    if field_name in WORD_LISTS and isinstance(value, str):
        return f"write {target}: {flow_words(value, command=field_name == 'command')}"
    if field_name == "imagePullSecrets" and value:
        items = value if isinstance(value, list) else [value]
        value = [{"name": item} if isinstance(item, str) else item for item in items]
    written = flow(value)
    if (not value and value not in (0, False)) or len(written) > MAX_WRITTEN:
        return f"move it to {target}"
    return f"write {target}: {written}"


def _meant(name: str, kind: str) -> str:
    """Return the correct name for a name of another tool, or ""."""
    rows = texts(kind).items()
    return next((meant for meant, names in rows if normalized(name) in names.split()), "")


WORD_LISTS = ("command", "args")
"""Fields with the words of a command line as a list."""


def for_type(path: ValuePath, types: Sequence[str], value: Any, text: str | None) -> str:
    """Return a hint that fixes the type of a value; "" if the fix is not clear.

    Args:
        path: of the value.
        types: the allowed types of JSON Schema.
        value: of another type.
        text: the spelling of the value if it is not a string; None if not known.
    """
    if isinstance(value, str):
        return _for_string(path, types, value)
    if isinstance(value, dict):
        return _for_mapping(path, types, value)
    if isinstance(value, list):
        return _for_list(path, types, value)
    return _for_scalar(path, types, value, text)


def _for_scalar(path: ValuePath, types: Sequence[str], value: Any, text: str | None) -> str:
    """Return a hint to write a number, a boolean or null as another type."""
    if value is None and text and isinstance(path[-1], str) and "string" in types:
        return "remove it" if "number" in types else "write '' for an empty string, or remove it"
    if text is not None and "string" in types:
        return f"quote it: '{text}'" if text else "write '' for an empty string"
    if "object" in types:
        is_count = path[:2] == ROLES and type(value) is int
        count = f"write {{replicas: {value}}}" if is_count else ""
        return "write {} if it has no fields" if value is None else count
    if types == ["array"] and value is not None:
        return f"write [{flow(text if path[-1] in WORD_LISTS else value)}]"
    return ""


def _for_list(path: ValuePath, types: Sequence[str], value: list[Any]) -> str:
    """Return a hint to write a list as a string or a mapping."""
    if "string" in types and len(value) == 1 and isinstance(value[0], str):
        return f"write {flow(value[0])}"
    if path[-1] == "volumes" and all(isinstance(item, str) for item in value):
        return "write {NAME: {mountPath: …, pvc: …}}, or another source instead of pvc"
    by_name = _by_name(path, value) if "object" in types else {}
    return f"write {_short(by_name)}" if by_name else ""


def _for_string(path: ValuePath, types: Sequence[str], value: str) -> str:
    """Return a hint to write a string as another type."""
    word = _meant(value, "booleans") if "boolean" in types else ""
    if ("integer" in types and value.isdecimal()) or (word and word == value):
        return "remove the quotes"
    if word:
        return f"write {word}"
    if "integer" in types:
        return _for_integer(value)
    field_name = next(step for step in reversed(path) if isinstance(step, str))
    for pattern, form in texts("mappings").items() if "object" in types else ():
        if match := re.fullmatch(pattern, f"{field_name} {value}"):
            return f"write {form.format(value, *map(flow, match.groups()))}"
    if "array" in types and value and path[-1] in WORD_LISTS:
        return f"write {flow_words(value, command=path[-1] == 'command')}"
    return f"write [{flow(value)}]" if "array" in types and len(value) < MAX_FLOW else ""


def _for_integer(value: str) -> str:
    """Return a hint for a string that means an integer: a duration, or a mapping of ports."""
    if re.search(r"[$]|\{\{|<[^<>\n]+>", value):
        return "mlgen does not fill in placeholders; write the number, or pass it with --set"
    duration = seconds(value)
    if duration is not None:
        return f"write {duration}"
    match = re.fullmatch(r"\d+:(\d+)", value)
    return f"write {match[1]}" if match else ""


def _for_mapping(path: ValuePath, types: Sequence[str], value: Mapping[str, Any]) -> str:
    """Return a hint to write a mapping as a list or a string."""
    if "string" in types:
        text = value.get("repository") if path[-1] == "image" else None
        if isinstance(text, str):  # Helm
            tag = value.get("tag")
            return f"write {flow(f'{text}:{tag}' if tag else text)}"
        only = next(iter(value.values())) if len(value) == 1 else None
        return f"write {flow(only)}" if isinstance(only, str) and value.keys() <= NAMES else ""
    if "array" not in types:
        return ""
    if path[-1] != "env" or any(isinstance(inner, dict | list) for inner in value.values()):
        return "start each item with a dash"
    return f"write {_short([{'name': name, 'value': str(v)} for name, v in value.items()])}"


NAMES = {"claimName", "name", "path", "secretName"}
"""Fields of Kubernetes with the name of an object, in place of which a string is expected."""


def _by_name(path: ValuePath, items: Sequence[Any]) -> dict[str, Any]:
    """Return a list of named items, or of `NAME=value`, as a mapping; {} for other lists."""
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        pairs = [str(item).partition("=") for item in items if not isinstance(item, dict | list)]
        values: dict[str, Any] = {name: text for name, equals, text in pairs if equals}
        return values if len(values) == len(items) else {}
    by_name: dict[str, Any] = {}
    for item in items:
        rest = {name: inner for name, inner in item.items() if name != "name"}
        if path[-1] == "volumes":
            claim = value_at(rest, ("persistentVolumeClaim", "claimName"))
            rest = {"mountPath": "…"} | ({"pvc": claim} if claim else rest)
        is_value = path[-1] == "env" and "valueFrom" not in rest
        by_name[item["name"]] = rest.get("value", "") if is_value else rest
    return by_name


def _short(value: Any) -> str:
    """Return a mapping or a list in flow style, or only its first entry if it is too long."""
    full = flow(value)
    if len(full) <= MAX_FLOW:
        return full
    if isinstance(value, list):
        return f"{flow(value[:1])[:-1]}, …]"
    name, inner = next(iter(value.items()))
    first = flow({name: inner})
    return f"{first[:-1]}, …}}" if len(first) <= MAX_FLOW else f"{{{flow(name)}: …}}"


def for_choice(value: str, allowed: Sequence[str]) -> str:
    """Return the allowed value for another tool's value, or all allowed values."""
    meant = _meant(value, "values")
    if not meant or meant not in allowed:
        meant = value
    return choice(_same(value, allowed) or meant, allowed)


def for_quantity(pattern: str, value: str) -> str:
    """Return a hint for a quantity with a wrong unit; "" unless the pattern is for quantities."""
    is_quantity = pattern == base()["definitions"]["quantity"]["pattern"]
    devices = re.fullmatch(DEVICES, value)
    if is_quantity and devices:
        return f"write the number of devices by their resource, as in nvidia.com/gpu: {devices[1]}"
    return cure(value) if is_quantity else ""


OPERATORS: Mapping[str, Any] = table("resources/operator_pods")["operators"]


def _meanings(column: str) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for row in OPERATORS.values():
        meanings |= row.get(column, {})
    return meanings


FIELDS = _meanings("fields")
"""The meaning of labels and annotations that a pod can read."""

SELECTED = FIELDS | _meanings("selected")
"""The meaning of labels in a selector."""

OF_PODS = re.compile(r"metadata\.(labels|annotations)\['([^'\]]*)'\]")
"""The path of a label or annotation in `fieldRef`."""

TOKEN: str = table("resources/operator_pods")["token"]


SELECTORS: Mapping[str, Sequence[str]] = table("resources/operator_pods")["selectors"]


@lru_cache(maxsize=256)
def operator_of(label: str) -> str:
    """Return the operator that sets a label or annotation; "" if none does."""
    for name, row in OPERATORS.items():
        if label in row.get("fields", ()) or re.fullmatch(row["labels"], label):
            return name
    return ""


def is_of_job(label: str) -> bool:
    """Return True for a label that only the pods of a job have."""
    own = re.fullmatch(table("resources/operator_pods")["own"], label)
    return own is not None or operator_of(label) != ""


def operator_hints(column: str) -> Iterator[tuple[str, str, str]]:
    """Yield each operator, and the patterns and fixes in its column `variables` or `files`."""
    for name, row in OPERATORS.items():
        for pattern, fix in row.get(column, {}).items():
            yield name, pattern, fix


def distinguishes(spec: RoleSpec) -> bool:
    """Return True if the pods of a role read their role, or an operator's label with their index.

    They read the role from an operator's label, or from their own name.
    """
    parts = (spec.env, spec.templates, spec.init_containers, spec.preflight)
    text = json.dumps((*parts, spec.command, spec.args), default=str)
    read = (FIELDS.get(key) in ("role", "index") for _, key in OF_PODS.findall(text))
    return any(read) or re.search(TESTS_ROLE, text) is not None


TESTS_ROLE = (
    r"(HOSTNAME|hostname|POD_NAME)\b[^\n]{0,9}(=|\bin\b|\bgrep\b)[^\n]{0,20}(master|worker)"
)
"""A test of a pod's name for its role, in a shell."""
