"""Applies `--set path=value` to a document."""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from mlgen.documents import flags
from mlgen.documents.document import UNWRITTEN, Document, Mark, is_too_deep
from mlgen.documents.reader import value_document
from mlgen.input_limits import DEPTH
from mlgen.problems import Place, Problem, ValuePath, dotted

KEY = r"(?:\\.|[^.\[\]\\])+"
STEP = re.compile(rf"{KEY}|\[(\d+)\]")
PATH = re.compile(rf"{KEY}(?:\[\d+\])*(?:\.{KEY}(?:\[\d+\])*)*")

ANOTHER = re.compile(r""",\s*(?=(?:spec|metadata)\.[^\s=,'"]+=)""")
"""Another setting within a value. Helm's --set splits at commas, mlgen's does not."""

HELM_LIST = re.compile(r"\{([^:{}]+)\}")
"""A list as in Helm's --set. In YAML, it is a mapping with null values."""

QUALIFIED = (
    *("resources", "limits", "requests", "minResources", "overhead"),
    *("labels", "annotations", "matchLabels", "nodeSelector"),
)
"""Mappings with keys that may start with a domain, such as nvidia.com/gpu."""

SETTING = Place("--set", 0)
"""The place of values from the command line."""


def parse(setting: str) -> tuple[ValuePath, Any]:
    r"""Parse `spec.roles.worker.replicas=8` into a path and a value.

    The value is read as YAML 1.2. The value of a flag, as in `args.lr=1e-4`, is always a string.
    In the path, `[0]` is an item of a list, and `\.` a dot within a key.

    Raises:
        ValueError: the setting has another format. The message describes the error.
    """
    name, equals, value = setting.partition("=")
    if not equals:
        raise ValueError('expected path=value, but there is no "="')
    path = parse_path(name)
    _require_plain(name, path, value)
    document = value_document(value)
    if flags.is_flag(path):
        return path, document.texts.get((), document.data)
    return path, document.data


def parse_path(name: str) -> ValuePath:
    r"""Parse a path such as `spec.roles.worker.args[0]`.

    Raises:
        ValueError: it is not a path.
    """
    if not PATH.fullmatch(name):
        raise ValueError(f'"{name}" is not a path such as spec.roles.worker.args[0]')
    return tuple(
        int(step.group(1)) if step.group(1) else re.sub(r"\\(.)", r"\1", step.group())
        for step in STEP.finditer(name)
    )


def unambiguous(name: str) -> ValuePath:
    """Parse a path in which the dots within keys must be escaped.

    Raises:
        ValueError: it is not a path, or they are not. The message contains the fix.
    """
    path = parse_path(name)
    key, escaped = with_dots_escaped(path)
    if key:
        raise ValueError(f'escape the dots in the key "{key}" with a backslash: {escaped}')
    return path


def _require_plain(name: str, path: ValuePath, value: str) -> None:
    """Check that a setting does not use Helm's syntax, and that dots within keys are escaped.

    Args:
        name: the path as written.
        path: the path as read.
        value: the value as written.

    Raises:
        ValueError: one of these checks fails. The message contains the fix.
    """
    settings = ANOTHER.split(f"{name}={value}")
    if len(settings) > 1 and value[:1] not in tuple("'\"[{"):
        repeated = " ".join(f"--set '{setting}'" for setting in settings)
        raise ValueError(f"the value contains another setting; repeat the option: {repeated}")
    items = HELM_LIST.fullmatch(value)
    if items:
        listed = ", ".join(item.strip() for item in items[1].split(","))
        raise ValueError(f"a list is written as in YAML: --set '{name}=[{listed}]'")
    key, escaped = with_dots_escaped(path)
    if key:
        message = f'escape the dots in the key "{key}" with a backslash'
        raise ValueError(f"{message}, in single quotes: --set '{escaped}={value}'")


def with_dots_escaped(path: ValuePath) -> tuple[str, str]:
    """Return the key that was split at its unescaped dots, and the path with escaped dots.

    Both are "" if there is no such key.
    """
    slash = next((n for n, step in enumerate(path) if isinstance(step, str) and "/" in step), 0)
    holders = [n for n, step in enumerate(path[:slash]) if step in QUALIFIED]
    if not holders or holders[-1] >= slash - 1:
        return "", ""
    key = ".".join(map(str, path[holders[-1] + 1 : slash + 1]))
    return key, written((*path[: holders[-1] + 1], key, *path[slash + 1 :]))


def written(path: ValuePath) -> str:
    r"""Return a path as `parse` reads it: `metadata.labels.example\.com/team`."""
    return dotted(
        tuple(
            step if isinstance(step, int) else re.sub(r"([.\[\]\\])", r"\\\1", step)
            for step in path
        )
    )


def cure(path: ValuePath, types: Sequence[str], value: Any) -> str:
    """Return a hint that fixes the type of a value of `--set`; "" if the fix is not clear.

    Quotes of YAML need quotes around them, because a shell removes the outer quotes.

    Args:
        path: of the value.
        types: the allowed types of JSON Schema.
        value: of another type.
    """
    if "string" in types and isinstance(value, bool | int | float):
        return f"""write a string: --set '{written(path)}="{json.dumps(value)}"'"""
    if "array" in types and isinstance(value, str) and "," in value:
        listed = ", ".join(item.strip() for item in value.split(","))
        return f"write --set '{written(path)}=[{listed}]'"
    return ""


def in_shell(problem: Problem, document: Document) -> Problem:
    """Return a problem. If its hint is to quote a `--set` value, make it work in a shell."""
    is_setting = document.places.get(problem.path) == SETTING
    if not is_setting or not problem.hint.startswith("quote it"):
        return problem
    hint = cure(problem.path, ("string",), document.item(*problem.path).data)
    return replace(problem, hint=hint or problem.hint)


class Draft:
    """A copy of a document in which values are set, one after the other.

    Args:
        document: is not changed.
    """

    def __init__(self, document: Document) -> None:
        self._before, self._data = document, copy.deepcopy(document.data)
        self._marks: dict[Any, Any] = {}

    @property
    def document(self) -> Document:
        """The document with the values so far."""
        marks = _marked(self._before.marks, self._marks)
        return replace(self._before, data=self._data, marks=marks)

    def set(self, path: ValuePath, value: Any, place: Place = SETTING) -> None:
        """Set the value at a path.

        Missing mappings and lists along the path are created. An item can be appended to a list.
        Problems with the value are reported at the place, by default `--set`. The path can lead to
        a flag: see `flags`.

        Raises:
            ValueError: the path leads through a scalar, skips items of a list, or leads to a flag
                that cannot be resolved. Or the value is nested too deeply.
        """
        settings = flags.resolved(self._data, path, value) if flags.is_flag(path) else None
        for plain_path, plain_value in settings or [(path, value)]:
            self._set(plain_path, plain_value, place)

    def _set(self, path: ValuePath, value: Any, place: Place) -> None:
        """Set the value at a plain path."""
        if len(path) > DEPTH or is_too_deep(value, DEPTH - len(path)):
            raise ValueError(f"the value would be nested more than {DEPTH} levels deep")
        parent, marks = self._data, self._marks
        for depth, (step, following) in enumerate(pairwise(path), 1):
            marks = marks.setdefault(step, {})
            if isinstance(step, str) and isinstance(parent, dict):
                if parent.get(step) is None:
                    parent[step] = [] if isinstance(following, int) else {}
                    marks[None] = Mark(place, origin=self._origin(path[:depth]))
                parent = parent[step]
            elif isinstance(step, int) and isinstance(parent, list) and step < len(parent):
                parent = parent[step]
            else:
                raise _no_such_value(path[: depth - 1], step, parent)
        _put(parent, path, copy.deepcopy(value))
        mark = Mark(place, place, None, self._origin(path), _inner_marks(value, place))
        marks[path[-1]] = {None: mark}

    def _origin(self, path: ValuePath) -> ValuePath | None:
        """Return the origin of a new value: its path in the job file, not in a custom resource."""
        return path if self._before.converted else None


def _inner_marks(value: Any, place: Place) -> dict[str | int, Mark]:
    """Return the marks of the values in a value that a setting has written."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    items = value.items() if isinstance(value, dict) else ()
    return {step: Mark(place, place, inner=_inner_marks(item, place)) for step, item in items}


def _marked(mark: Mark, changes: Mapping[Any, Any]) -> Mark:
    """Return a mark with changes in it.

    Args:
        mark: is not changed.
        changes: the changes in each inner mark, by step. The key None has another mark.
    """
    mark = changes.get(None, mark)
    inner = {
        step: _marked(mark.inner.get(step, UNWRITTEN), further)
        for step, further in changes.items()
        if step is not None
    }
    if not inner:
        return mark
    return Mark(mark.place, mark.key, mark.text, mark.origin, {**mark.inner, **inner})


def _put(parent: Any, path: ValuePath, value: Any) -> None:
    """Set the value at the last step of a path in its parent."""
    step = path[-1]
    if isinstance(parent, dict) and isinstance(step, str):
        parent[step] = value
    elif isinstance(parent, list) and isinstance(step, int) and step <= len(parent):
        parent[step : step + 1] = [value]
    else:
        raise _no_such_value(path[:-1], step, parent)


def _no_such_value(path: ValuePath, step: str | int, parent: Any) -> ValueError:
    """Return the error for a missing field or item of a value."""
    holder = dotted(path) or "the document"
    if isinstance(step, str):
        return ValueError(f'{holder} is not a mapping, so "{step}" cannot be set in it')
    if isinstance(parent, list):
        return ValueError(f"{holder} has {len(parent)} items, so [{step}] cannot be set")
    return ValueError(f"{holder} is not a list, so [{step}] cannot be set in it")
