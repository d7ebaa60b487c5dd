"""The tables of Kubernetes' own rules in `schemas/kubernetes`."""

import json
from functools import cache
from typing import Any

from mlgen.resources import folder


@cache
def table(name: str) -> Any:
    """Return the content of a table, which no caller changes, by the name of its file."""
    path = folder("schemas") / "kubernetes" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))
