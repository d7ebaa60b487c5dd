"""Candidates for completion in a shell: roles, topics and field paths."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from mlgen import dialects, frameworks
from mlgen.documents.files import texts
from mlgen.problems import MlgenError
from mlgen.reference import fields, problem_codes, rules


def roles(files: Iterable[str] = ()) -> list[str]:
    """Return the roles of the jobs in files, or of all frameworks if no file can be read."""
    named = list(dict.fromkeys(_roles_of(tuple(file for file in files if file != "-"))))
    if named:
        return named
    every = (frameworks.get(name).roles or () for name in frameworks.names())
    return sorted({role for names in every for role in names})


def _roles_of(files: tuple[str, ...]) -> Iterator[str]:
    """Yield the roles of the jobs in files. Stop silently at the first invalid file."""
    with suppress(MlgenError, OSError, LookupError, TypeError, AttributeError):
        for text in dialects.in_context(texts(files)):
            for document in dialects.documents(text):
                native = None if isinstance(document, list) else dialects.native(document)[0]
                if native is not None:
                    yield from native.data["spec"]["roles"]


def topics(incomplete: str) -> list[str]:
    """Return the topics of `mlgen explain` that can complete an incomplete one."""
    found = [*frameworks.names(), *problem_codes.names(), *rules.named()]
    return [*found, *paths(incomplete, roles())]


def settings(incomplete: str, files: Iterable[str] = ()) -> list[str]:
    """Return completions for --set: paths, and after `=` the values that the schema lists."""
    path, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{found}=" if not _inner(found) else found for found in paths(path, roles(files))]
    with suppress(LookupError):
        return [f"{path}={value}" for field in fields.find(path) for value in _words(field)]
    return []


def paths(incomplete: str, names: Iterable[str] = ()) -> list[str]:
    """Return the paths of fields that start with a prefix.

    If the only match is an object, the result also contains the fields inside it. The shell then
    adds a dot after the match instead of a space.

    Args:
        incomplete: a path with an incomplete last step: `spec.runPolicy.b`.
        names: names of roles to suggest.
    """
    found = [path for path in _siblings(incomplete, names) if path.startswith(incomplete)]
    if len(found) == 1 and _inner(found[0]):
        return [*found, *_siblings(f"{found[0]}.", names)]
    return found


def _siblings(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the paths of all fields in the parent object of an incomplete path."""
    parent, dot, _ = incomplete.rpartition(".")
    found = [fields.root()]
    if parent:
        try:
            found = fields.find(parent)
        except LookupError:
            return []
    children = {child.name for field in found for child in field.children()}
    steps = sorted(name for name in children if not name.startswith("<"))
    steps += [name for name in names if "<role>" in children]
    return [f"{parent}{dot}{step}" for step in steps]


def _inner(path: str) -> bool:
    """Return whether a path leads to an object with known fields."""
    with suppress(LookupError):
        return any(field.children() for field in fields.find(path))
    return False


def _words(field: fields.Field) -> list[str]:
    """Return the allowed values of a field that contain no space. For a boolean: true, false."""
    if field.type == "boolean":
        return ["true", "false"]
    return [value for value in field.values if " " not in value]
