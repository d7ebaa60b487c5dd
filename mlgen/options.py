"""Options as a person writes them in Python → as mlgen keeps them.

A value of another type raises a TypeError that says what to write. An invalid path or version
raises an MlgenError, as on the command line.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypeVar

from mlgen.documents import overrides
from mlgen.kubernetes import versions
from mlgen.problems import Code, MlgenError, Place, Problem, ValuePath

if TYPE_CHECKING:
    from mlgen.variants.matrix import Axes

T = TypeVar("T")

Settings = tuple[tuple[ValuePath, Any], ...]
"""Values by path, as pairs."""

VERSION = 'kube_version="1.34"'
SETTINGS = 'settings={"spec.env.LR": "0.1"}'
MATRIX = 'matrix={"args.lr": ["1e-4", "1e-5"]}'

FLAGS = ("supervisor", "workflow", "jobset", "only_jobs", "strict")

TEXTS = {
    "namespace": 'namespace="team-a"',
    "default_namespace": 'default_namespace="team-a"',
    "target": 'target="argocd"',
}


def kept(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options as mlgen keeps them.

    Raises:
        MlgenError: a path, a version or a tool is invalid.
        TypeError: a value has another type. The message contains what to write.
    """
    for name in FLAGS:
        typed(name, given[name], bool, f"{name}=True or {name}=False")
    for name, example in TEXTS.items():
        typed(name, given[name], str | None, example)
    if given["site"]:
        from mlgen.site import Site

        typed("site", given["site"], Site, "mlgen.site_options().site")
    if given["target"]:
        from mlgen.variants.gitops import tool

        _parsed("target", "bad-value", tool, given["target"])
    return {
        **given,
        "kube_version": kube_version(given["kube_version"]),
        "settings": settings(given["settings"]),
        "matrix": matrix(given["matrix"]),
    }


def kube_version(value: Any) -> versions.KubeVersion:
    """Return a version from `"1.34"` or `(1, 34)`. Log a warning if it is newer than supported."""
    if isinstance(value, tuple) and list(map(type, value)) == [int, int]:
        value = "{}.{}".format(*value)
    version, message = _parsed(
        "kube_version", "bad-value", versions.nearest, typed("kube_version", value, str, VERSION)
    )
    if message:
        import logging

        hint, place = f"rendering for {version} instead", Place("kube_version", 0)
        problem = Problem((), message, "bad-value", hint, warning=True, place=place)
        logging.getLogger("mlgen").warning("%s", problem)
    return version


def settings(value: Any) -> Settings:
    """Return pairs of path and value from a mapping of written paths, or pairs unchanged."""
    if not isinstance(value, Mapping):
        return _pairs("settings", value, SETTINGS)
    return tuple(
        (_path("settings", overrides.unambiguous, path, SETTINGS), _plain(path, item))
        for path, item in value.items()
    )


def matrix(value: Any) -> "Axes":
    """Return pairs of path and values from a mapping of written paths, or pairs unchanged."""
    if not isinstance(value, Mapping):
        return _pairs("matrix", value, MATRIX)
    from mlgen.variants.matrix import axis

    return tuple(
        _path("matrix", partial(axis, values=_listed(path, items)), path, MATRIX)
        for path, items in value.items()
    )


def typed(name: str, value: T, types: Any, example: str) -> T:
    """Return the value of an option unchanged.

    Raises:
        TypeError: it has another type. The message contains the example.
    """
    if not isinstance(value, types):
        raise TypeError(f"{name}={short(value)} is of type {_type(value)}; write {example}")
    return value


def _pairs(name: str, value: Any, example: str) -> tuple[Any, ...]:
    """Return pairs with parsed paths unchanged."""
    pairs = tuple(typed(name, value, Iterable, example))
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], tuple)):  # noqa: PLR2004
            raise TypeError(f"{name} has an item {short(pair)}; write a mapping: {example}")
    return pairs


def _path(name: str, parse: Callable[[str], T], path: Any, example: str) -> T:
    """Return what `parse` returns for a written path."""
    if not isinstance(path, str):
        raise TypeError(f"the path {short(path)} of {name} is no string; write {example}")
    return _parsed(name, "bad-setting", parse, path)


def _parsed(name: str, code: Code, parse: Callable[[str], T], text: str) -> T:
    """Return what `parse` returns for a text. A ValueError becomes a problem of an option."""
    try:
        return parse(text)
    except ValueError as error:
        raise MlgenError([Problem((), str(error), code, place=Place(name, 0))]) from None


def _listed(path: Any, values: Any) -> list[Any]:
    """Return the values of a path of a matrix."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"the value {short(values)} of {path} is no list; write {MATRIX}")
    return [_plain(path, value) for value in values]


def _plain(path: Any, value: Any) -> Any:
    """Return a value as it is in a document: of mappings, lists and scalars.

    Raises:
        TypeError: it contains a value of another type, or a mapping with a key that is no string.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f'{path} has the key {short(key)}; write a string: "{key}"')
        return {key: _plain(path, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(path, item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    expected = "a string, number, boolean, list or mapping"
    raise TypeError(f"{path} has a value of type {_type(value)}; write {expected}")


def _type(value: Any) -> str:
    return type(value).__name__
