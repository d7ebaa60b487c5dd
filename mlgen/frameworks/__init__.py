"""The frameworks: `TrainingJob` → `Topology`. Each module implements the framework of its name.

A framework's row in `schemas/frameworks/frameworks.json` is a `Framework`. The schemas of its
options are in `schemas/options/<name>.json`. Its module defines `lay_out`, which gets a `Planner`
and adds roles, without Kubernetes objects or YAML. `lay_out` runs only if the job has all required
roles. Modules whose names begin with `_` are helpers. CONTRIBUTING.md lists the steps to add a
framework.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from mlgen.documents.document import UNWRITTEN, Document, Mark
from mlgen.jobfile.model import TrainingJob, without_gpus
from mlgen.jobfile.schema import Extension, extended, inlined, with_kubernetes
from mlgen.jobfile.validation import invalid_kubernetes_fields, require_valid
from mlgen.kubernetes.values import mapping, value_at
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion
from mlgen.problems import Collector, MlgenError, Problem, ValuePath, error, warning
from mlgen.resources import table
from mlgen.topology import Topology


class Framework(NamedTuple):
    """A machine-learning framework: its roles, and how replicas find each other.

    Attributes:
        name: as in the job file; also the name of its module.
        title: its name in the project's own spelling.
        summary: one sentence for `mlgen frameworks`.
        rules: by role, in the order of the documentation; None if a job may have roles of any name:
            port: the default port on which peers reach its replicas.
            required: True if every job has the role.
            single: True if it has only one replica.
            idle: True if it does not compute, so it gets no GPUs from `spec.resources`. It computes
                if the job has the option `works_with`, or lacks the role `idle_with`.
        first_job: the fields of `spec` in a first job; see `example`.
        others: the role whose rules apply to roles of any other name; None if there are none.
        ranked: True if its replicas train together, each with a rank.
        renamed_options: old names of options → current names. An old name is accepted with a
            warning, and has the schema of the current name.
    """

    name: str
    title: str
    summary: str
    rules: Mapping[str, Mapping[str, Any]] | None
    first_job: Mapping[str, Any]
    others: str | None = None
    ranked: bool = True
    renamed_options: Mapping[str, str] = {}

    @property
    def roles(self) -> tuple[str, ...] | None:
        """The names of its roles; None if a job may have roles of any name."""
        return None if self.rules is None else tuple(self.rules)

    def topology(self, job: TrainingJob) -> Topology:
        """Lay out a job that matches the schema. The topology contains the job's problems.

        Raises:
            MlgenError: the job lacks required roles, or is too large; lists all problems.
        """
        from mlgen.frameworks._planner import Planner  # imported late, as few commands need it

        rules = self.rules or {}
        ports = {name: row["port"] for name, row in rules.items() if "port" in row}
        planner = Planner(job, ports, ranked=self.ranked, idle=self.idle_roles(job))
        is_complete = True
        for name, row in rules.items():
            if "required" in row:
                planner.require(name)
                is_complete = is_complete and name in job.roles
            if "single" in row:
                planner.single(name)
        if not is_complete:
            raise MlgenError(planner.topology().problems)
        import_module(f"{__name__}.{self.name}").lay_out(planner)
        return planner.topology()

    def example(self, replicas: int, gpus: int) -> dict[str, Any]:
        """Return the framework's fields of `spec` in a first job: command, options, roles.

        Fields whose number would be 0 are omitted.

        Args:
            replicas: the number of replicas that compute.
            gpus: the number of GPUs in each of them.
        """
        numbers = {
            "{replicas}": replicas,
            "{others}": replicas - 1,
            "{gpus}": gpus,
            "{processes}": str(replicas * max(gpus, 1)),
        }
        filled: dict[str, Any] = _filled(self.first_job, numbers)
        return filled

    def idle_roles(self, job: TrainingJob) -> frozenset[str]:
        """Return the roles of a job that do not compute."""
        rules = self.rules or {}
        names = {name if name in rules else self.others for name in job.roles}
        idle = set()
        for name, row in rules.items():
            works = job.options.get(row.get("works_with", ""))
            if "idle" in row and not works and row.get("idle_with", name) in names:
                idle.add(name)
        return frozenset(idle)


def _filled(value: Any, numbers: Mapping[str, Any]) -> Any:
    """Return a value with numbers in place of their names; None if it becomes empty or 0."""
    if isinstance(value, dict):
        filled = {name: _filled(inner, numbers) for name, inner in value.items()}
        remaining = {name: inner for name, inner in filled.items() if inner is not None}
        return remaining if remaining or not value else None
    if isinstance(value, list):
        return [_filled(item, numbers) for item in value]
    return numbers.get(value, value) or None


def names() -> list[str]:
    """Return the names of all frameworks, sorted, without importing them."""
    return sorted(table("frameworks/frameworks"))


def get(name: str) -> Framework:
    """Return a framework by name."""
    return Framework(name, **table("frameworks/frameworks")[name])


def without_idle_gpus(job: TrainingJob) -> TrainingJob:
    """Return a job in which only roles that compute get the GPUs of `spec.resources`.

    A launcher, a scheduler or a parameter server does not use them. GPUs in the resources of the
    role itself remain. So do the GPUs of custom resources, where each role has its own resources.
    """
    idle = get(job.framework).idle_roles(job)
    roles = {
        name: without_gpus(spec) if name in idle and not spec.own_resources else spec
        for name, spec in job.roles.items()
    }
    return job._replace(roles=roles)


def schema(selected: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the job file with the roles and options of some frameworks."""
    extensions = {}
    for name in selected:
        framework = get(name)
        schemas = {**options(name)}
        for old, new in framework.renamed_options.items():
            description = f"Deprecated: the old name of {new}."
            schemas[old] = {**schemas[new], "deprecated": True, "description": description}
        extensions[name] = Extension(
            framework.title,
            framework.roles,
            schemas,
            bool(framework.others),
            framework.example(2, 0)["roles"],
        )
    return extended(names(), extensions)


@cache
def _schema(name: str | None) -> dict[str, Any]:
    """Return the JSON Schema of a framework's job file; without options if `name` is None."""
    return schema([name] if name else [])


def owners() -> dict[str, list[str]]:
    """Return each option's name, with the names of the frameworks that have it."""
    by_option: dict[str, list[str]] = {}
    for name in names():
        for option in options(name):
            by_option.setdefault(option, []).append(name)
    return by_option


def published_schema(selected: Iterable[str], version: KubeVersion) -> dict[str, Any]:
    """Return the JSON Schema of the job file for editors, including the pod template's schema."""
    return with_kubernetes(schema(selected), version)


def validate(
    document: Document, version: KubeVersion = SUPPORTED[-1]
) -> tuple[Document, list[Problem]]:
    """Check a TrainingJob document against the schema, including the framework's options.

    Args:
        document: a TrainingJob.
        version: the Kubernetes version whose pod fields the templates may use.

    Returns:
        The document, in which renamed options have their current names, and a warning for each
        old name.

    Raises:
        MlgenError: the document has errors; lists all of them with their locations.
    """
    name = value_at(document.data, ("spec", "framework"))
    known: str | None = name if name in names() else None
    new_names = get(known).renamed_options if known else {}
    old_names = _deprecations(document, new_names) if new_names else []
    collector = Collector(error for error in old_names if not error.warning)
    further = invalid_kubernetes_fields(document, version)
    with collector.catch():
        require_valid(document, _schema(known), further, owners)
    collector.raise_errors()
    current = _with_current_names(document, new_names) if new_names else document
    return current, old_names


OPTIONS: ValuePath = ("spec", "options")


@cache
def options(framework: str) -> Mapping[str, Any]:
    """Return a JSON Schema for each option of a framework: `schemas/options/<framework>.json`.

    `{"$ref": "mpi.json#/transport"}` there is the schema of an option of another framework.
    """
    own: dict[str, Any] = inlined(table(f"options/{framework}"), _option)
    return own


def _option(reference: str) -> dict[str, Any]:
    """Return the schema of an option: `mpi.json#/transport`."""
    framework, _, name = reference.partition(".json#/")
    option: dict[str, Any] = options(framework)[name]
    return option


def _deprecations(document: Document, new_names: Mapping[str, str]) -> list[Problem]:
    """Return a warning for each old name in a document; an error if both names are set."""
    own, found = _written_options(document), []
    for old, new in new_names.items():
        path = ("options", old)
        if old in own and new in own:
            message = f"{old} and {new} are mutually exclusive"
            found.append(document.located(error(path, message, f"remove {old}"), key=True))
        elif old in own:
            message = f"{old} is deprecated: its new name is {new}"
            old_name = warning(path, message, f"write {new}", "deprecated")
            found.append(document.located(old_name, key=True))
    return found


def _with_current_names(document: Document, new_names: Mapping[str, str]) -> Document:
    """Return a document whose options have their current names; all values keep their locations."""
    own = _written_options(document)
    if not new_names.keys() & set(own):
        return document
    current_options = {new_names.get(name, name): value for name, value in own.items()}
    spec = {**document.data["spec"], "options": current_options}
    mark = document.marks.at(OPTIONS) or UNWRITTEN
    inner = {new_names.get(str(name), name): option for name, option in mark.inner.items()}
    renamed = Mark(mark.place, mark.key, mark.text, mark.origin, inner)
    marks = document.marks.put(OPTIONS, renamed)
    return replace(document, data={**document.data, "spec": spec}, marks=marks)


def _written_options(document: Document) -> dict[str, Any]:
    """Return `spec.options`; empty if it is missing or has the wrong type."""
    return mapping(document.data, *OPTIONS)
