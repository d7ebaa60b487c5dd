"""A name at a wrong place in a job file → what to write instead.

Called only for a document that has errors: the schemas are searched for the place of a name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlgen.flow import flow, words
from mlgen.jobfile import confusions
from mlgen.jobfile.model import KIND
from mlgen.problems import SURE, Problem, ValuePath, choice, did_you_mean

MAX_WRITTEN = 50
"""The number of characters of a value that a hint shows at its new place."""

SPEC: ValuePath = ("spec",)
ROLES: ValuePath = ("spec", "roles")

Owners = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the options of all frameworks, each with the names of the frameworks that have it."""


@dataclass(frozen=True)
class JobFile:
    """What a cure depends on.

    Attributes:
        data: the document.
        schema: that of the job file, with the parts of its framework.
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
        for rule in self.schema.get("allOf", ()):
            properties: Mapping[str, Any] = rule["then"]["properties"]["spec"]["properties"]
            return properties
        return {}

    @property
    def role_names(self) -> list[str]:
        """The roles of the framework; none if a job may have roles of any name."""
        names: Mapping[str, Any] = self.framework.get("roles", {}).get("propertyNames", {})
        return list(names.get("enum", []))

    @property
    def options(self) -> list[str]:
        """The options of the framework."""
        schemas = self.framework.get("options", {}).get("properties", {})
        return [name for name, schema in schemas.items() if not schema.get("deprecated")]

    @property
    def spec_fields(self) -> Mapping[str, Any]:
        """The schemas of the fields of `spec`."""
        fields: Mapping[str, Any] = self.schema["properties"]["spec"]["properties"]
        return fields

    @property
    def role_fields(self) -> list[str]:
        """The fields of a role."""
        return list(self.schema["definitions"]["role"]["properties"])

    def value(self, *path: str | int) -> Any:
        """Return a value of the document, or None."""
        value = self.data
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def for_role(self, name: str) -> str:
        """Return what to write instead of a role that the framework does not have, or ""."""
        same = [role for role in self.role_names if normalized(role) == normalized(name)]
        if same:
            return did_you_mean(name, same, 0) if name not in same else ""
        if name in self.spec_fields:
            return f"move it to spec.{name}"
        if name in self.role_fields:
            return _write(f"roles.{self.trainer}.{name}", self.value(*ROLES, name))
        return choice(name, self.role_names) if self.role_names else ""

    def repeats(self, problem: Problem) -> bool:
        """Return True for a problem in what is not a role, which another problem says."""
        path, names = problem.path, self.role_names
        if not names or path[:2] != ROLES or len(path) == len(ROLES) or path[2] in names:
            return False
        if _is_role(path):
            return problem.code != "unknown-role"
        return path[2] in (*self.spec_fields, *self.role_fields)

    @property
    def trainer(self) -> str:
        """The role that a number of nodes is meant for."""
        roles = self.value(*ROLES)
        names = self.role_names or (list(roles) if isinstance(roles, dict) else [])
        return "worker" if "worker" in names or not names else names[0]


def normalized(name: str) -> str:
    """Return a name in lower case, without dashes and underscores."""
    return name.replace("_", "").replace("-", "").lower()


def for_field(job: JobFile, path: ValuePath, name: str, value: Any, known: Sequence[str]) -> str:
    """Return what to write instead of a field that the mapping at a path does not have.

    Args:
        job: the job file.
        path: of the mapping.
        name: of the unknown field.
        value: of the unknown field.
        known: the fields that the mapping has.
    """
    same = [other for other in known if normalized(other) == normalized(name)]
    if same:
        return did_you_mean(name, same, 0)
    if "volumes" in path[:-1]:
        return _for_volume(name, value) or choice(name, known)
    if not _is_block(path):
        return choice(name, known)
    longer = [other for other in known if name[2:] and other.startswith(name)]
    here = did_you_mean(name, longer, 0) or did_you_mean(name, known, SURE)
    elsewhere = _misplaced_role(job, path, name, value) or _elsewhere(
        job, path, normalized(name), value
    )
    is_open = len(path) <= 1 or _is_role(path)
    hint = elsewhere or here if is_open else here or elsewhere
    return hint or _similar(job, path, name, value) or choice(name, known)


def for_resource_field(job: JobFile, path: ValuePath, name: str, known: Sequence[str]) -> str:
    """Return what to write instead of a field that a mapping of a custom resource does not have.

    The fields of a pod and of its containers are in its `template`; other places are in the schema.
    """
    same = [other for other in known if normalized(other) == normalized(name)]
    if same or not known:
        return did_you_mean(name, same, 0) or "remove it"
    if "template" in known:
        for definition, place in (("PodSpec", ""), ("Container", "containers[0].")):
            if name in _fields(definition):
                return f"move it to template.spec.{place}{name}"
    fields = _places(job) if path == SPEC else ()
    places = [place for other, place in fields if normalized(other) == normalized(name)]
    return f"move it to {places[0]}" if places else choice(name, known)


def _is_block(path: ValuePath) -> bool:
    """Return True for the document, its metadata, `spec`, a field of `spec`, and a role."""
    return len(path) <= len(ROLES) or _is_role(path)


def _is_role(path: ValuePath) -> bool:
    return path[:2] == ROLES and len(path) == len(ROLES) + 1


def _for_volume(name: str, value: Any) -> str:
    """Return the field of a volume's short form that has another name there."""
    field_name = confusions.VOLUMES.get(normalized(name), "")
    if field_name == "pvc" and isinstance(value, dict):
        value = value.get("claimName")
    return _write(field_name, value) if field_name else ""


def _similar(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return the place of a field whose name is almost the same, or ""."""
    for similar in (normalized(other) for other in _names(job)):
        if did_you_mean(normalized(name), [similar], SURE):
            return _elsewhere(job, path, similar, value)
    return ""


def _names(job: JobFile) -> Iterator[str]:
    """Yield every name of which the place is known."""
    yield from confusions.FIELDS
    yield from confusions.SPEC_FIELDS
    yield from job.role_names
    yield from job.options
    yield from job.role_fields
    yield from (name for name, _ in _places(job))
    yield from (*_fields("PodSpec"), *_fields("Container"))


def _elsewhere(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return where in the job file a field with a normalized name belongs, or ""."""
    return (
        _option(job, path, name, value)
        or _amount(job, path, name, value)
        or _role_field(path, name, value)
        or _spec_field(job, name, value)
        or _pod_field(job, path, name, value)
        or _option_of_another_framework(job, name)
    )


def _option(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return the place of an option of the framework that is not in `options`."""
    by_name = {normalized(option): option for option in job.options}
    if name not in by_name or path == ("spec", "options"):
        return ""
    return _write(f"spec.options.{by_name[name]}", value)


def _amount(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return how to write a number of replicas, an amount of a resource, or the roles."""
    amount = value if isinstance(value, str | int | float) else None
    if name in confusions.REPLICAS and not isinstance(value, dict | list):
        return _write("replicas" if _is_role(path) else f"roles.{job.trainer}.replicas", amount)
    if name in confusions.RESOURCES:
        inner = {confusions.RESOURCES[name]: "…" if amount is None else amount}
        return f"write {_here(path)}resources: {flow(inner)}"
    if name == "roles":
        return "move it to spec.roles"
    if name in confusions.ROLES or name.endswith("replicaspecs"):
        roles = dict.fromkeys((job.role_names or [job.trainer])[:3], "…")
        return f"write spec.roles: {flow(roles)}"
    return ""


def _role_field(path: ValuePath, name: str, value: Any) -> str:
    """Return the field of `spec` and of a role that is meant, if it has another name there."""
    if name in ("labels", "annotations") and _is_role(path):
        return f"move it to template.metadata.{name}"
    target = confusions.FIELDS.get(name, "")
    if target == "volumes":
        return f"write {_here(path)}volumes: {{NAME: {{mountPath: …}}}}"
    if "[]" in target:
        return ""
    if target in ("command", "args") and isinstance(value, str):
        return f"write {_here(path)}{target}: {words(value, command=target == 'command')}"
    return _write(_here(path) + target, value) if target else ""


def _spec_field(job: JobFile, name: str, value: Any) -> str:
    """Return the place of a field of the job file that is at a wrong place."""
    if name in confusions.SPEC_FIELDS:
        return _write(confusions.SPEC_FIELDS[name], None if isinstance(value, dict) else value)
    places = [place for other, place in _places(job) if normalized(other) == name]
    if places:
        return _write(places[0], value)
    fields = {normalized(other): other for other in job.role_fields}
    return _write(f"roles.{job.trainer}.{fields[name]}", value) if name in fields else ""


def _misplaced_role(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return where to move a role that is not in `roles`; "" for other fields.

    Where roles may have any name, a role is what has the fields of one.
    """
    if len(path) > 1 and not _is_role(path):
        return ""
    by_name = {normalized(role): role for role in job.role_names}
    role = by_name.get(normalized(name), "")
    if not role and not job.role_names and isinstance(value, dict) and value:
        role = name if value.keys() <= {*job.role_fields} and path == SPEC else ""
    if role and type(value) is int:
        return f"write spec.roles.{role}: {{replicas: {value}}}"
    return f"move it to spec.roles.{role}" if role else ""


def _pod_field(job: JobFile, path: ValuePath, name: str, value: Any) -> str:
    """Return the place of a field of a pod or container in the pod template."""
    pod = {normalized(other): other for other in _fields("PodSpec")}
    if name in pod:
        target = f"{_here(path)}template.spec.{pod[name]}"
        if name == "imagepullsecrets" and value:
            items = value if isinstance(value, list) else [value]
            named = [{"name": item} if isinstance(item, str) else item for item in items]
            return f"write {target}: {flow(named)}"
        return _write(target, value)
    container = {normalized(other): other for other in _fields("Container")}
    if name not in container:
        return ""
    role = job.value(*path) if _is_role(path) else {}
    main = (role or {}).get("mainContainer") or job.value("spec", "mainContainer") or "main"
    item = f"{{name: {main}, {container[name]}: …}}"
    return f"write {_here(path)}template: {{spec: {{containers: [{item}]}}}}"


def _option_of_another_framework(job: JobFile, name: str) -> str:
    """Return which frameworks have an option that this one does not have; "" if none has it."""
    for option, frameworks in job.owners().items():
        if normalized(option) == name and option not in job.options:
            *most, last = sorted(frameworks)
            listed = f"{', '.join(most)} and {last}" if most else last
            framework = job.value("spec", "framework")
            return f"remove it: it is an option of {listed}, not of {framework}"
    return ""


def _here(path: ValuePath) -> str:
    """Return what comes before the name of a field of a role: "" in `spec` and in a role."""
    return "" if path == SPEC or _is_role(path) else "spec."


def _write(target: str, value: Any) -> str:
    """Return `write TARGET: VALUE`, or where to move nothing, or a value that is longer."""
    written = flow(value)
    if (not value and value not in (0, False)) or len(written) > MAX_WRITTEN:
        return f"move it to {target}"
    return f"write {target}: {written}"


def _places(job: JobFile) -> Iterator[tuple[str, str]]:
    """Yield the fields of a job file with their paths, those with shorter paths first."""
    level = [("", job.schema)]
    while level:
        inner = [
            (f"{path}.{name}".removeprefix("."), name, schema)
            for path, parent in level
            for name, schema in parent.get("properties", {}).items()
            if name not in ("volumes", "template", "roles", "options")
        ]
        yield from ((name, path) for path, name, _ in inner)
        level = [(path, schema) for path, _, schema in inner]


def _fields(definition_name: str) -> Sequence[str]:
    """Return the fields of a definition of Kubernetes' API."""
    from mlgen.kubernetes.definitions import definition

    return list(definition(definition_name).fields)
