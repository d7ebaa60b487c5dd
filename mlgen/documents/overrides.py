"""`--set path=value` → a document with that value replaced."""

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from mlgen.documents.document import Document
from mlgen.documents.reader import scalar
from mlgen.problems import Place, ValuePath, dotted

T = TypeVar("T")

KEY = r"(?:\\.|[^.\[\]\\])+"
STEP = re.compile(rf"{KEY}|\[(\d+)\]")
PATH = re.compile(rf"{KEY}(?:\[\d+\])*(?:\.{KEY}(?:\[\d+\])*)*")


def parse(setting: str) -> tuple[ValuePath, Any]:
    r"""Parse `spec.roles.worker.replicas=8` into a path and a value.

    The value is YAML 1.2. In the path, `[0]` is an item of a list, and `\.` a dot within a key.

    Raises:
        ValueError: the setting has another form; the message says what is wrong.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise ValueError('expected path=value, but there is no "="')
    if not PATH.fullmatch(name):
        raise ValueError(f'"{name}" is not a path such as spec.roles.worker.args[0]')
    path = (
        int(step.group(1)) if step.group(1) else re.sub(r"\\(.)", r"\1", step.group())
        for step in STEP.finditer(name)
    )
    return tuple(path), scalar(value)


def apply(document: Document, path: ValuePath, value: Any) -> Document:
    """Return a copy of a document with the value at a path set.

    Mappings and lists on the way to it are created; an item can be appended to a list. Problems
    with the value are reported at the place `--set`.

    Raises:
        ValueError: the path leads through a scalar, or skips items of a list.
    """
    data = copy.deepcopy(document.data)
    parent = data
    for depth, (step, following) in enumerate(pairwise(path)):
        if isinstance(step, str) and isinstance(parent, dict):
            if parent.get(step) is None:
                parent[step] = [] if isinstance(following, int) else {}
            parent = parent[step]
        elif isinstance(step, int) and isinstance(parent, list) and step < len(parent):
            parent = parent[step]
        else:
            raise _no_such_value(path[:depth], step, parent)
    _put(parent, path, value)
    place = Place("--set", 0)
    origins = _outside(document.origins, path)
    return replace(
        document,
        data=data,
        places=_outside(document.places, path) | {path: place},
        keys=document.keys | {path: place},
        texts=_outside(document.texts, path),
        origins=origins | {path: path} if origins else origins,
    )


def _put(parent: Any, path: ValuePath, value: Any) -> None:
    """Set the value at the last step of a path, in the value that contains it."""
    step = path[-1]
    if isinstance(parent, dict) and isinstance(step, str):
        parent[step] = value
    elif isinstance(parent, list) and isinstance(step, int) and step <= len(parent):
        parent[step : step + 1] = [value]
    else:
        raise _no_such_value(path[:-1], step, parent)


def _no_such_value(path: ValuePath, step: str | int, parent: Any) -> ValueError:
    """Return the error for a value that has no such field or item."""
    holder = dotted(path) or "the document"
    if isinstance(step, str):
        return ValueError(f'{holder} is not a mapping, so "{step}" cannot be set in it')
    if isinstance(parent, list):
        return ValueError(f"{holder} has {len(parent)} items, so [{step}] cannot be set")
    return ValueError(f"{holder} is not a list, so [{step}] cannot be set in it")


def _outside(values: Mapping[ValuePath, T], path: ValuePath) -> dict[ValuePath, T]:
    """Return the entries that are neither at a path nor below it."""
    return {p: value for p, value in values.items() if p[: len(path)] != path}
