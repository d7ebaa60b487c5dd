"""The frameworks: `TrainingJob` → `Topology`. Every module of this package is one, found by name.

A framework module defines `FRAMEWORK`, a `Framework`. It sees no Kubernetes object and no YAML. A
module whose name begins with `_` is a helper. CONTRIBUTING.md says what belongs to a new framework.
"""

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from mlgen.documents.document import Document
from mlgen.frameworks._framework import Framework
from mlgen.jobfile.schema import Extension, extended
from mlgen.jobfile.violations import require_valid


def names() -> list[str]:
    """Return the names of all frameworks, sorted; none of them is imported."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def get(name: str) -> Framework:
    """Import a framework by name."""
    framework: Framework = import_module(f"{__name__}.{name}").FRAMEWORK
    return framework


def schema(chosen: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the job file with the roles and options of these frameworks."""
    found = {name: get(name) for name in chosen}
    return extended(
        names(), {name: Extension(f.title, f.roles, f.options) for name, f in found.items()}
    )


def validate(document: Document) -> None:
    """Check a TrainingJob document against the schema, with what its framework adds.

    Raises:
        MlgenError: with every problem of the document, each with its place.
    """
    spec = document.data.get("spec")
    name = spec.get("framework") if isinstance(spec, dict) else None
    require_valid(document, schema([name] if name in names() else []))
