"""`--set path=value`: one value of every job file, replaced on the command line."""

import copy
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from mlgen.documents.document import Document
from mlgen.documents.reader import scalar
from mlgen.problems import Place, ValuePath

KEY = r"(?:\\.|[^.\[\]\\])+"
STEP = re.compile(rf"{KEY}|\[(\d+)\]")
FORM = re.compile(rf"{KEY}(?:\[\d+\])*(?:\.{KEY}(?:\[\d+\])*)*")


def parse(setting: str) -> tuple[ValuePath, Any]:
    r"""Read `spec.roles.worker.replicas=8` into a path and a value.

    The value is read as YAML 1.2; a dot in a key is written `\.`, an item of a list `[0]`.

    Raises:
        ValueError: it is not of that form; the message says why.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise ValueError("there is no = in it; write path=value")
    if not FORM.fullmatch(name):
        raise ValueError(f'"{name}" is not a path such as spec.roles.worker.args[0]')
    path = (
        int(step.group(1)) if step.group(1) else re.sub(r"\\(.)", r"\1", step.group())
        for step in STEP.finditer(name)
    )
    return tuple(path), scalar(value)


def apply(document: Document, path: ValuePath, value: Any) -> Document:
    """Return a document with one value replaced; what is wrong with it is said of `--set`.

    Raises:
        ValueError: the path leads through a value that has no fields or no such item.
    """
    data = copy.deepcopy(document.data)
    parent = data
    for step, following in pairwise(path):
        if isinstance(step, str) and isinstance(parent, dict):
            if parent.get(step) is None:
                parent[step] = [] if isinstance(following, int) else {}
            parent = parent[step]
        else:
            parent = _item(parent, step)
    _put(parent, path[-1], value)
    place = Place("--set", 0)
    length = len(path)
    places = {p: q for p, q in document.places.items() if p[:length] != path} | {path: place}
    texts = {p: t for p, t in document.texts.items() if p[:length] != path}
    keys = document.keys | {path: place}
    origins = {p: q for p, q in document.origins.items() if p[:length] != path}
    if origins:
        origins[path] = path
    return replace(document, data=data, places=places, keys=keys, texts=texts, origins=origins)


def _item(parent: Any, step: str | int) -> Any:
    if isinstance(parent, list) and isinstance(step, int) and step < len(parent):
        return parent[step]
    raise ValueError(f"there is nothing at {step!r} to set a value in")


def _put(parent: Any, step: str | int, value: Any) -> None:
    if isinstance(parent, dict) and isinstance(step, str):
        parent[step] = value
    elif isinstance(parent, list) and isinstance(step, int) and step <= len(parent):
        parent[step : step + 1] = [value]
    else:
        raise ValueError(f"there is nothing at {step!r} to set a value in")
