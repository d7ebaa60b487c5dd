"""Access to installed resources: schemas, tables, templates and scripts.

`schemas/`, `templates/` and `argo/` are in the package in a wheel, and next to it in a checkout.
`prepared/` is in a wheel alone.
"""

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent


def prepared(name: str) -> Any:
    """Return the module `mlgen.prepared.NAME`, which the build of the wheel writes.

    Return None in a checkout, where it does not exist. The caller then computes its content.
    """
    try:
        return import_module(f"mlgen.prepared.{name}")
    except ModuleNotFoundError:
        return None


@cache
def folder(name: str) -> Path:
    """Return the path of the folder `schemas`, `templates` or `argo`."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


@cache
def table(name: str) -> Any:
    """Return the data of `schemas/NAME.json`, which no caller changes."""
    return json.loads((folder("schemas") / f"{name}.json").read_bytes())


@cache
def script(name: str) -> str:
    """Return the text of a shell script in `templates/scripts`."""
    return (folder("templates") / "scripts" / name).read_text(encoding="utf-8")
