"""The frameworks: `TrainingJob` → `Topology`. Each module is one framework, found by its name.

Its row in `schemas/frameworks/frameworks.json` is a `Framework`, and the schemas of its options are
in `schemas/options/<name>.json`. Its module defines `lay_out`, which gets a `Planner`, adds roles,
and sees no Kubernetes object and no YAML. It runs only if the job has all required roles. A module
whose name begins with `_` is a helper. CONTRIBUTING.md lists the steps to add a framework.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from mlgen.documents.document import Document
from mlgen.frameworks import _options
from mlgen.jobfile.gpus import without_gpus
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.schema import Extension, extended, with_kubernetes
from mlgen.jobfile.validation import invalid_kubernetes_fields, require_valid
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion
from mlgen.problems import Collector, Problem
from mlgen.resources import table
from mlgen.topology import Topology


@dataclass(frozen=True)
class Framework:
    """A machine-learning framework: its roles, and how replicas find each other.

    Attributes:
        name: as in the job file, and of its module.
        title: its name as its project spells it.
        summary: one sentence for `mlgen frameworks`.
        rules: by role, in the order of the documentation; None if a job may have roles of any name:
            port: the default port on which peers reach its replicas.
            required: True if every job has the role.
            single: True if it has only one replica.
            idle: True if it does not compute. GPUs in `spec.resources`, for all roles, are not for
                it: unless the job has the option `works_with`, or lacks the role `idle_with`.
        first_job: the fields of `spec` in a first job; see `example`.
        renamed_options: the old names of options, each with its current name. An old name is
            accepted with a warning; its schema is that of the current one.
    """

    name: str
    title: str
    summary: str
    rules: Mapping[str, Mapping[str, Any]] | None
    first_job: Mapping[str, Any]
    renamed_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...] | None:
        """The names of its roles; None if a job may have roles of any name."""
        return None if self.rules is None else tuple(self.rules)

    def topology(self, job: TrainingJob) -> Topology:
        """Lay out a job that matches the schema.

        Raises:
            MlgenError: with every problem.
        """
        from mlgen.frameworks._planner import Planner  # imported late, as few commands need it

        rules = self.rules or {}
        planner = Planner(job, {name: row["port"] for name, row in rules.items() if "port" in row})
        planner.require(*(name for name, row in rules.items() if "required" in row))
        planner.single(*(name for name, row in rules.items() if "single" in row))
        if all(name in job.roles for name, row in rules.items() if "required" in row):
            import_module(f"{__name__}.{self.name}").lay_out(planner)
        return planner.topology()

    def example(self, replicas: int, gpus: int) -> dict[str, Any]:
        """Return the fields of `spec` that are the framework's own in a first job.

        They are such as command, options and roles. What would have the number 0 is left out.

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

    def idle_roles(self, job: TrainingJob) -> set[str]:
        """Return the roles of a job that do not compute."""
        return {
            name
            for name, row in (self.rules or {}).items()
            if "idle" in row
            and not job.options.get(row.get("works_with", ""))
            and row.get("idle_with", name) in job.roles
        }


def _filled(value: Any, numbers: Mapping[str, Any]) -> Any:
    """Return a value with numbers in place of their names; None if nothing is left of it."""
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
    """Return a job in which the GPUs in `spec.resources` are given only to roles that compute.

    A launcher, a scheduler or a parameter server does not use them. GPUs that are written at such a
    role itself remain; so do those of custom resources, in which each role has its own resources.
    """
    idle = get(job.framework).idle_roles(job)
    roles = {
        name: without_gpus(spec) if name in idle and not spec.own_resources else spec
        for name, spec in job.roles.items()
    }
    return replace(job, roles=roles)


def schema(selected: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the job file with the roles and options of some frameworks."""
    extensions = {}
    for name in selected:
        framework = get(name)
        schemas = _options.with_deprecated(options(name), framework.renamed_options)
        extensions[name] = Extension(framework.title, framework.roles, schemas)
    return extended(names(), extensions)


@cache
def _schema(name: str | None) -> dict[str, Any]:
    """Return the JSON Schema of the job file of a framework, or of one that is not known."""
    return schema([name] if name else [])


def options(name: str) -> Mapping[str, Any]:
    """Return a JSON Schema for each option of a framework."""
    return _options.schemas(name)


def owners() -> dict[str, list[str]]:
    """Return every option of every framework, with the names of the frameworks that have it."""
    by_option: dict[str, list[str]] = {}
    for name in names():
        for option in options(name):
            by_option.setdefault(option, []).append(name)
    return by_option


def published_schema(selected: Iterable[str], version: KubeVersion) -> dict[str, Any]:
    """Return the JSON Schema of the job file for editors, with that of pod templates in it."""
    return with_kubernetes(schema(selected), version)


def validate(
    document: Document, version: KubeVersion = SUPPORTED[-1]
) -> tuple[Document, list[Problem]]:
    """Check a TrainingJob document against the schema, including its framework's part of it.

    Args:
        document: a TrainingJob.
        version: of Kubernetes, by which the pod templates are checked.

    Returns:
        The document, in which renamed options have their current names, and a warning for each
        old name.

    Raises:
        MlgenError: with every problem of the document, each with its place.
    """
    spec = document.data.get("spec")
    name: Any = spec.get("framework") if isinstance(spec, dict) else None
    known: str | None = name if name in names() else None
    new_names = get(known).renamed_options if known else {}
    old_names = _options.deprecations(document, new_names)
    collector = Collector(found for found in old_names if not found.warning)
    further = invalid_kubernetes_fields(document, version)
    with collector.catch():
        require_valid(document, _schema(known), further, owners)
    collector.raise_errors()
    return _options.with_current_names(document, new_names), old_names
