"""What was rendered → the files of a folder that is kept in Git, one for each object.

Which files are ours can be read off them: they begin with `MARKER`. So nothing else has to be
remembered of what was made before, and what somebody else put there is never touched.
"""

import difflib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgen.checks import NAME
from mlgen.kubernetes.groups import group_of, is_built_in
from mlgen.objects.labels import DECIDES
from mlgen.output import files
from mlgen.output.summary import summary
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.problems import MlgenError, Place, Problem
from mlgen.result import Foreign, Rendered

MARKER = "# Made by mlgen render"
"""How the first line of each of our files begins, in every version."""

HEAD = f"{MARKER}. Change the job, not this file: it is written anew.\n"

NAME_MAX = 245
"""Bytes of a file's name: 255 on most file systems, less what a draft of it has besides."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """What makes a folder that which was rendered.

    Attributes:
        old: the texts of the files that are written anew or removed, by name.
        new: the texts of the files that are written, by name.
    """

    old: Mapping[str, str]
    new: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """The names of all these files."""
        return sorted({*self.old, *self.new})


def texts(parts: Iterable[Rendered | Foreign]) -> dict[str, str]:
    """Return the text of each object's file, by the file's name.

    Raises:
        MlgenError: with every object that cannot have a file.
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for part in parts:
        for item, text in _documents(part):
            name = file_name(item)
            problem = _problem(item, name, found)
            if problem or name is None:
                problems += [part.document.located(problem)] if problem else []
                continue
            found[name] = HEAD + text
    if problems:
        raise MlgenError(problems)
    return found


def _documents(part: Rendered | Foreign) -> Iterator[tuple[Object, str]]:
    """Each object and its text; a job's summary stands with the Job whose end is its end."""
    if isinstance(part, Foreign):
        yield part.document.data, verbatim(part.document.text, part.document.data)
        return
    for item in part.objects:
        decides = item["metadata"]["labels"].get(DECIDES) == "true"
        yield item, yaml_text([item], summary(part.topology) if decides else "")


def file_name(item: Object) -> str | None:
    """Return the name of an object's file: `[NAMESPACE_]KIND[.GROUP]_NAME.yaml`.

    It depends on the object alone, and no other object has it. A kind is written in lower case. In
    the rest, all but lower-case letters, digits, `.` and `-` becomes `%` and two digits for each
    byte, so that `_` parts nothing else, and no file system takes two names for one.

    Returns:
        None for an object that has no name yet.
    """
    meta = item.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(name, str) or not name:
        return None
    kind = item["kind"].lower()
    if not is_built_in(item["apiVersion"]):
        kind += f".{group_of(item['apiVersion'])}"
    namespace = meta.get("namespace")
    parts = [*([str(namespace)] if namespace else []), kind, name]
    return "_".join(map(_escaped, parts)) + ".yaml"


def _escaped(text: str) -> str:
    return re.sub(
        "[^a-z0-9.-]", lambda found: "".join(f"%{byte:02x}" for byte in found[0].encode()), text
    )


def _problem(item: Object, name: str | None, found: Mapping[str, str]) -> Problem | None:
    kind = item["kind"]
    if name is None:
        message = f"a file is named after its object, and this {kind} has no metadata.name"
        hint = "write its items as documents" if kind.endswith("List") else "give it a name"
        return Problem((), message, "no-name", hint)
    if len(name) > NAME_MAX:
        message = f"the name of its file would have {len(name)} of {NAME_MAX} characters"
        return Problem(NAME, message, "name-too-long", f"cut {len(name) - NAME_MAX}")
    if name in found:
        message = f"two objects would be written to {name}"
        return Problem(NAME, message, "name-collision", "give one of them another name")
    return None


def changes(folder: Path, made: Mapping[str, str]) -> Changes:
    """Compare a folder, which need not be there yet, with what was made.

    Args:
        folder: of its files only those count that begin with `MARKER`, or stand in the way.
        made: the text of each file, by its name.

    Raises:
        MlgenError: with every file that stands in the way and is not ours.
        OSError: the folder, or a file in it, cannot be read.
    """
    old: dict[str, str] = {}
    same: set[str] = set()
    problems: list[Problem] = []
    for file in sorted(folder.iterdir()) if folder.exists() else []:
        data = _ours(file)
        if data is None and file.name in made:
            message = "this file would be written, but mlgen did not make what is there"
            hint = "move it away, or render into another folder"
            problems.append(Problem((), message, "foreign-file", hint, place=Place(str(file), 0)))
        elif data is not None and data == made.get(file.name, "").encode():
            same.add(file.name)
        elif data is not None:
            old[file.name] = data.decode(errors="replace")
    if problems:
        raise MlgenError(problems)
    return Changes(old, {name: made[name] for name in sorted(made) if name not in same})


def _ours(file: Path) -> bytes | None:
    """The content of a file that we made, else None; what is large and foreign is not read."""
    if file.suffix != ".yaml" or not file.is_file():
        return None
    with file.open("rb") as stream:
        begin = stream.read(len(MARKER))
        return begin + stream.read() if begin == MARKER.encode() else None


def update(folder: Path, change: Changes) -> None:
    """Make the changes; each file is written whole, and none is removed before all are written.

    Raises:
        OSError: a file cannot be written or removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in change.new.items():
        files.write(str(folder / name), text)
    for name in change.old:
        if name not in change.new:
            (folder / name).unlink()


def diff(folder: Path, change: Changes) -> str:
    """Return the changes as `patch -p0` reads them; "" where there are none."""
    return "".join(line for name in change.names for line in _diff(folder, change, name))


def _diff(folder: Path, change: Changes, name: str) -> Iterator[str]:
    path = (folder / name).as_posix()
    before, after = (path if name in side else "/dev/null" for side in (change.old, change.new))
    old, new = (_lines(side.get(name, "")) for side in (change.old, change.new))
    for line in difflib.unified_diff(old, new, before, after):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """The lines as other tools know them; for `str.splitlines` a form feed ends one too."""
    return list(io.StringIO(text, newline="\n"))
