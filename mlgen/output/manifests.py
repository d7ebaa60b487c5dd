"""Rendered jobs and other objects → the printed manifests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from mlgen.output.summary import heading
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.result import Foreign, Rendered

Format = Literal["yaml", "json"]


def text(parts: Iterable[Rendered | Foreign], form: Format) -> str:
    """Return the manifests; in YAML, each job starts with its summary as a comment."""
    if form == "json":
        return json_text([item for part in parts for item in part.objects])
    return "".join(
        yaml_text(part.objects, heading(part))
        if isinstance(part, Rendered)
        else verbatim(part.document.text, part.document.data)
        for part in parts
    )


def json_text(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return a JSON List of the objects, as `kubectl get -o json` prints it."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(items, indent=2, ensure_ascii=False) + "\n"
