"""The frameworks: `TrainingJob` → `Topology`. Each module is one framework, found by its name.

A framework module defines `FRAMEWORK`, a `Framework`. It sees no Kubernetes object and no YAML. A
module whose name begins with `_` is a helper. CONTRIBUTING.md lists the steps to add a framework.
"""

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from mlgen.documents.document import Document
from mlgen.frameworks import _renamed
from mlgen.frameworks._framework import Framework
from mlgen.jobfile.schema import Extension, extended
from mlgen.jobfile.violations import require_valid
from mlgen.problems import Collector, Problem


def names() -> list[str]:
    """Return the names of all frameworks, sorted, without importing them."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def get(name: str) -> Framework:
    """Import a framework by name."""
    framework: Framework = import_module(f"{__name__}.{name}").FRAMEWORK
    return framework


def schema(selected: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the job file with the roles and options of some frameworks."""
    frameworks = {name: get(name) for name in selected}
    extensions = {
        name: Extension(framework.title, framework.roles, _renamed.with_deprecated(framework))
        for name, framework in frameworks.items()
    }
    return extended(names(), extensions)


def validate(document: Document) -> tuple[Document, list[Problem]]:
    """Check a TrainingJob document against the schema, including its framework's part of it.

    Returns:
        The document, in which renamed options have their current names, and a warning for each
        old name.

    Raises:
        MlgenError: with every problem of the document, each with its place.
    """
    spec = document.data.get("spec")
    name = spec.get("framework") if isinstance(spec, dict) else None
    selected = [name] if name in names() else []
    new_names = get(selected[0]).renamed_options if selected else {}
    collector = Collector(_renamed.conflicts(document, new_names))
    with collector.catch():
        require_valid(document, schema(selected))
    collector.raise_errors()
    warnings = _renamed.deprecations(document, new_names)
    return _renamed.with_current_names(document, new_names), warnings
