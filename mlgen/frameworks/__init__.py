"""The frameworks: `TrainingJob` → `Topology`. Each module is one framework, found by its name.

A framework module defines `FRAMEWORK`, a `Framework`. It sees no Kubernetes object and no YAML. The
schemas of its options are in `schemas/options/<name>.json`. A module whose name begins with `_` is
a helper. CONTRIBUTING.md lists the steps to add a framework.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from mlgen.documents.document import Document
from mlgen.frameworks import _options
from mlgen.jobfile.gpus import without_gpus
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.schema import Extension, extended, with_kubernetes
from mlgen.jobfile.validation import accepts, invalid_kubernetes_fields, require_valid
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion
from mlgen.problems import Collector, Problem
from mlgen.topology import Topology


def _workers(replicas: int, _gpus: int) -> dict[str, Any]:
    """Return the fields of a first job that consists of workers; see `Framework.example`."""
    return {"command": ["python", "train.py"], "roles": {"worker": {"replicas": replicas}}}


@dataclass(frozen=True)
class Framework:
    """A machine-learning framework: its roles, and how replicas find each other.

    Attributes:
        title: the name of the framework as its project spells it.
        summary: one sentence for `mlgen frameworks`.
        roles: the names of its roles; None if a job may have roles of any name.
        topology: lays out a job that matches the schema; raises `MlgenError` with every problem.
        example: returns the fields of `spec` that are the framework's own in a first job, such as
            command, options and roles, for a number of replicas that compute and of GPUs in each.
            By default, such a job has workers alone.
        renamed_options: the old names of options, each with its current name. An old name is
            accepted with a warning; its schema is that of the current one.
        idle_roles: returns the roles of a job that do not compute. GPUs in `spec.resources`, for
            all roles, are not for them.
    """

    title: str
    summary: str
    roles: tuple[str, ...] | None
    topology: Callable[[TrainingJob], Topology]
    example: Callable[[int, int], Mapping[str, Any]] = _workers
    renamed_options: Mapping[str, str] = field(default_factory=dict)
    idle_roles: Callable[[TrainingJob], Collection[str]] = lambda _job: ()


@cache
def names() -> list[str]:
    """Return the names of all frameworks, sorted, without importing them."""
    import pkgutil

    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def get(name: str) -> Framework:
    """Import a framework by name."""
    framework: Framework = import_module(f"{__name__}.{name}").FRAMEWORK
    return framework


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
    is_valid = accepts("jobs", str(name), document.data)
    selected = [name] if is_valid or name in names() else []
    new_names = get(selected[0]).renamed_options if selected else {}
    collector = Collector(_options.conflicts(document, new_names))
    further = invalid_kubernetes_fields(document, version)
    if document.problems or further or not is_valid:
        with collector.catch():
            require_valid(document, schema(selected), further, owners)
    collector.raise_errors()
    warnings = _options.deprecations(document, new_names)
    return _options.with_current_names(document, new_names), warnings
