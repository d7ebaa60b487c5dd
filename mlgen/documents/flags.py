"""Resolves paths such as `args.lr`, the flag `--lr` in `command` or `args` of a job file.

In a job file, a program's flags are items of a list, without names. A path to a flag is resolved to
the plain paths of these items.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlgen.kubernetes.values import mapping, value_at
from mlgen.problems import ValuePath, dotted
from mlgen.shell import text_index

LISTS = ("args", "command")
"""The lists that contain flags. A new flag is appended to the first of these that exists."""

NUMBER = re.compile(r"-\.?\d")
"""The start of a negative number: a value, not a flag."""

ROLES: ValuePath = ("spec", "roles")

Setting = tuple[ValuePath, Any]


class _Flag(NamedTuple):
    """A flag in a list.

    Attributes:
        path: of its item.
        prefix: the item up to the value, as in `--lr=`; "" if the value is the next item.
        has_value: False if the next item is missing or another flag.
    """

    path: ValuePath
    prefix: str
    has_value: bool = True


def is_flag(path: ValuePath) -> bool:
    """Return True for a path such as `args.lr`, `spec.args.lr` or `spec.roles.worker.args.lr`."""
    return _split(path) is not None


def text(value: Any) -> str:
    """Return a value as an argument of a program: `true`, `0.1`, a string unchanged."""
    return value if isinstance(value, str) else json.dumps(value)


def resolved(data: Any, path: ValuePath, value: Any) -> list[Setting]:
    """Return the plain paths to set, each with its value, for a path to a flag.

    A flag is written as `--lr 1e-4`, `--lr=1e-4`, either with one dash, or `lr=1e-4` (Hydra). A
    missing flag is appended as `--lr 1e-4`.

    Args:
        data: a job file, valid or not.
        path: of a flag; see `is_flag`.
        value: of the flag.

    Raises:
        ValueError: the flag exists more than once or has no value, or there is no list, or no
            single list, to append it to. The message contains the fix.
    """
    split = _split(path)
    if split is None or isinstance(value, (dict, list)) or value is None:
        raise ValueError(f"{dotted(path)} is a flag, which takes one string or number")
    chosen, name = split
    lists = {list_path: items for list_path, items in _lists(data) if chosen in (None, list_path)}
    flags = [flag for list_path, items in lists.items() for flag in _flags(list_path, items, name)]
    if len(flags) > 1:
        places = " and ".join(dotted(flag.path) for flag in flags)
        raise ValueError(f"the flag {name} occurs at {places}; {_narrower(flags, lists, name)}")
    if not flags:
        return _appended(data, chosen, lists, name, text(value))
    (flag,) = flags
    if not flag.has_value:
        raise ValueError(f"the flag at {dotted(flag.path)} has no value that can be replaced")
    return [(_value_path(flag), flag.prefix + text(value))]


def _split(path: ValuePath) -> tuple[ValuePath | None, str] | None:
    """Return the list and the name of a flag; None if the path does not lead to a flag.

    The list is None for the short form `args.NAME`, which matches any list. Dots within the name
    need no backslash, because a flag is always the end of a path.
    """
    length = len(path[:3]) if path[:2] == ROLES else int(path[:1] == ("spec",))
    name = path[length + 1 :]
    is_list = path[length : length + 1] in ((("args",), ("command",)) if length else (("args",),))
    if not is_list or not name or not all(isinstance(step, str) for step in name):
        return None
    return path[: length + 1] if length else None, ".".join(map(str, name))


def holders(data: Any) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield `spec`, for the fields that apply to all roles, and each role, with their paths."""
    if isinstance(spec := value_at(data, ("spec",)), dict):
        yield ("spec",), spec
    for name, role in mapping(data, *ROLES).items():
        if isinstance(role, dict):
            yield (*ROLES, name), role


def _lists(data: Any) -> Iterator[tuple[ValuePath, Sequence[Any]]]:
    """Yield every list that may contain flags, with its path."""
    for path, holder in holders(data):
        for name in LISTS:
            if isinstance(holder.get(name), list):
                yield (*path, name), holder[name]


def _flags(path: ValuePath, items: Sequence[Any], name: str) -> Iterator[_Flag]:
    """Yield each occurrence of a flag in a list.

    Raises:
        ValueError: it only occurs in another spelling, such as with an underscore.
    """
    similar = ""
    occurs = False
    for number, item in enumerate(items):
        if not isinstance(item, str):
            continue
        word, equals, _ = item.partition("=")
        dashes = len(word) - len(word.lstrip("-"))
        if dashes > 2 or not (dashes or equals):  # noqa: PLR2004 - `--`
            continue
        if word[dashes:] == name:
            occurs = True
            value = items[number + 1] if number + 1 < len(items) else None
            has_value = value is not None and (
                not str(value).startswith("-") or NUMBER.match(str(value)) is not None
            )
            yield _Flag((*path, number), f"{word}=" if equals else "", bool(equals) or has_value)
        elif _plain(word) == _plain(name):
            similar = word
    if similar and not occurs:
        spelled = similar.lstrip("-")
        raise ValueError(f'{dotted(path)} has the flag "{similar}"; write args.{spelled}')


def _plain(word: str) -> str:
    return word.lstrip("-").replace("_", "-").lower()


def _narrower(flags: Sequence[_Flag], lists: Mapping[ValuePath, Any], name: str) -> str:
    """Return a hint with a path to one of several flags."""
    paths = list(dict.fromkeys(flag.path[:-1] for flag in flags))
    if len(paths) == 1 or len(lists) == 1:
        return f"write the path of its value, such as {dotted(_value_path(flags[-1]))}"
    return f"write {' or '.join(f'{dotted(path)}.{name}' for path in paths)}"


def _value_path(flag: _Flag) -> ValuePath:
    *holder, index = flag.path
    return flag.path if flag.prefix else (*holder, int(index) + 1)


def _appended(
    data: Any,
    chosen: ValuePath | None,
    lists: Mapping[ValuePath, Sequence[Any]],
    name: str,
    value: str,
) -> list[Setting]:
    """Return the settings that append a flag to the chosen list, or to the only command line."""
    runs = list(dict.fromkeys(path[:-1] for path in lists))
    if chosen is None and len(runs) > 1:
        choices = " or ".join(f"{dotted(path)}.{name}" for path in _last_lists(lists).values())
        raise ValueError(f"no command line has the flag {name}; to append it, write {choices}")
    holder = chosen[:-1] if chosen else next(iter(runs), ("spec",))
    parts = dict(holders(data))
    fields = parts.get(holder, {})
    if not any(fields.get(key) for key in LISTS):
        where = dotted(holder)
        hint = f"add {where}.args, so that the flag {name} can be appended"
        raise ValueError(f"{where} has neither command nor args; {hint}")
    command = fields.get("command") or parts[("spec",)].get("command") or ()
    words = [*command, *(fields.get("args") or ())]
    if text_index([word if isinstance(word, str) else "" for word in words]) is not None:
        variable = re.sub(r"\W", "_", name).upper()
        hint = f'set a variable, spec.env.{variable}, and write "${variable}" in the script'
        raise ValueError(f"{dotted(holder)} runs a shell script, which takes no flags; {hint}")
    target = chosen or _last_lists(lists)[holder]
    length = len(lists.get(target, ()))
    return [((*target, length), f"--{name}"), ((*target, length + 1), value)]


def _last_lists(lists: Mapping[ValuePath, Any]) -> dict[ValuePath, ValuePath]:
    """Return the last list of each command line, by the path of its part of the job file."""
    last: dict[ValuePath, ValuePath] = {}
    for path in lists:  # `args` before `command`
        last.setdefault(path[:-1], path)
    return last
