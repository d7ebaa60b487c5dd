"""Rendered objects → the files of a folder, for example in Git, one file per object.

Every file that mlgen writes starts with `MARKER`. So no record of earlier renders is needed, and
mlgen does not change other files in the folder. In `.gitattributes`, it changes only its own lines.
"""

import errno
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlgen.checks.pods import NAME
from mlgen.input_limits import PATCH_LINES, TEXT_BYTES
from mlgen.kubernetes.objects import Object, group_of, is_built_in
from mlgen.objects import notes
from mlgen.objects.labels import DECIDES
from mlgen.objects.supervisor import FILE
from mlgen.output import files
from mlgen.output.files import Stored
from mlgen.output.manifests import Piece, headed
from mlgen.output.problems import has_secret
from mlgen.output.terminal import unified
from mlgen.output.yaml import Annotate, unexplained, verbatim, yaml_text
from mlgen.problems import MlgenError, Place, Problem
from mlgen.result import Foreign, Rendered

MARKER = "# Made by mlgen render"
"""The start of every file that mlgen, in any version, writes to a folder."""

HEAD = f"{MARKER}. Do not edit: edit the job and render it again.\n"

ATTRIBUTES = ".gitattributes"
FOLDED = "linguist-generated gitlab-generated"
"""The attributes of a file that pull requests of GitHub and merge requests of GitLab fold.

Unlike with `-diff`, a reviewer can unfold it, and `git diff` shows it.
https://docs.github.com/en/repositories/working-with-files/managing-files/customizing-how-changed-files-appear-on-github
https://docs.gitlab.com/user/project/merge_requests/changes/#collapse-generated-files
"""

NAME_MAX = 245
"""The maximum size of a file name in bytes: 255 on most file systems, minus suffixes that editors
and `patch` add."""


@dataclass(frozen=True)
class Changes:
    """The writes and deletions that bring a folder up to date.

    Attributes:
        old: the current text of each file to rewrite or remove, by file name.
        new: the new text of each file to write, by file name.
    """

    old: Mapping[str, str]
    new: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """The names of all files that change, sorted."""
        return sorted({*self.old, *self.new})


def misplaced(part: Rendered | Foreign) -> Iterator[Problem]:
    """Yield an error for each object whose file name would be missing or too long."""
    for item in part.objects:
        name = file_name(item)
        if name is None or len(name) > NAME_MAX:
            yield part.document.located(_problem(item, name))


def pieces(part: Rendered | Foreign) -> Iterator[Piece]:
    """Yield the file of each object that is not misplaced."""
    explained = unexplained if isinstance(part, Foreign) else notes(part.topology)
    for item in part.objects:
        name = file_name(item)
        if name is not None and len(name) <= NAME_MAX:
            piece = _piece(part, item, explained)
            binary = () if isinstance(part, Foreign) else item.get("binaryData") or ()
            yield piece._replace(before=HEAD + piece.before, name=name, is_program=FILE in binary)


def _piece(part: Rendered | Foreign, item: Object, explained: Annotate) -> Piece:
    """Return the text of an object. The deciding Job's text starts with the job's summary."""
    if isinstance(part, Foreign):
        return Piece(verbatim(part.document.text, part.document.data))
    if item["metadata"]["labels"].get(DECIDES) == "true":
        return next(headed(part, [item]))
    return Piece(yaml_text([item], notes=explained))


def file_name(item: Object) -> str | None:
    """Return the name of an object's file: `[NAMESPACE_]KIND[.GROUP]_NAME.yaml`.

    The name depends only on the object, and is unique to it, even on file systems that ignore case.
    The kind is in lower case. Elsewhere, every byte other than a lowercase letter, digit, `.` or
    `-` is escaped as `%` and two hex digits.

    Returns:
        None for an object without metadata.name.
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
    """Return a text with `%` and two hex digits for each byte that a file name must not have."""
    return re.sub(
        "[^a-z0-9.-]", lambda match: "".join(f"%{byte:02x}" for byte in match[0].encode()), text
    )


def _problem(item: Object, name: str | None) -> Problem:
    """Return the error of an object without a name, or with a name that is too long."""
    kind = item["kind"]
    if name is None:
        message = f"the {kind} has no metadata.name, which its file name requires"
        hint = (
            "write the items of the list as documents"
            if kind.endswith("List")
            else "add metadata.name"
        )
        return Problem((), message, "no-name", hint)
    message = f"the file name would have {len(name)} characters, the limit is {NAME_MAX}"
    return Problem(
        NAME, message, "name-too-long", f"shorten the name by {len(name) - NAME_MAX} characters"
    )


def clash(name: str) -> Problem:
    """Return the error of two objects with the same file name."""
    message = f"two objects would be written to {name}"
    return Problem(NAME, message, "name-collision", "rename one of the objects")


def changes(folder: Path, rendered: Mapping[str, str], programs: Collection[str] = ()) -> Changes:
    """Return how a folder differs from rendered files.

    Args:
        folder: the folder, which need not exist. Only files that start with `MARKER`, or have the
            name of a rendered file, and `.gitattributes` are considered.
        rendered: the text of each rendered file, by file name.
        programs: the names of the files that a review folds.

    Raises:
        MlgenError: existing files that mlgen did not write would be overwritten; lists all of them.
        OSError: the folder, or a file in it, cannot be read.
    """
    old: list[str] = []
    same: set[str] = set()
    problems: list[Problem] = []
    for file in sorted(folder.iterdir()) if folder.exists() else []:
        data = _content(file)
        if data is None and file.name in rendered:
            message = "already exists, but was not written by mlgen"
            hint = "move it, or render to another folder"
            problems.append(Problem((), message, "foreign-file", hint, place=Place(str(file), 0)))
        elif data is not None and data == rendered.get(file.name, "").encode():
            same.add(file.name)
        elif data is not None:
            old.append(file.name)
    if problems:
        raise MlgenError(problems)

    attributes = _attributes(folder / ATTRIBUTES)
    folded = attributes if attributes is None else _with_folded(attributes, programs)
    new = rendered.keys() - same
    if folded != attributes:
        old += [ATTRIBUTES] if attributes else []
        new |= {ATTRIBUTES} if folded else set()

    def before(name: str) -> str:
        if name == ATTRIBUTES:
            return attributes or ""
        return (_content(folder / name) or b"").decode(errors="replace")

    def after(name: str) -> str:
        return folded or "" if name == ATTRIBUTES else rendered[name]

    return Changes(Stored(dict.fromkeys(old), before), Stored(dict.fromkeys(sorted(new)), after))


def _attributes(file: Path) -> str | None:
    """Return the text of `.gitattributes`, "" if there is none; None if mlgen cannot change it.

    Git does not follow a link with this name.
    """
    if not file.exists() and not file.is_symlink():
        return ""
    if file.is_symlink() or not file.is_file() or file.stat().st_size > TEXT_BYTES:
        return None
    with suppress(UnicodeDecodeError):
        return file.read_bytes().decode()
    return None


def _with_folded(text: str, names: Iterable[str]) -> str:
    """Return the text of `.gitattributes` with the lines that fold files.

    They follow a line with `MARKER`, and replace the ones of an earlier render in the same place.
    Other lines keep their order, because Git uses the last line that matches a file.
    """
    kept, place, is_own = list[str](), None, False
    for line in _lines(text):
        is_folded = line.startswith("/") and line.rstrip().endswith(f" {FOLDED}")
        is_own = line.startswith(MARKER) or (is_own and is_folded)
        if not is_own:
            kept.append(line)
        elif place is None:
            place = len(kept)
    before, after = kept[:place], kept[place:] if place is not None else []
    own = [f"/{name} {FOLDED}\n" for name in sorted(names)]
    if own:
        end = "\n" if before and not before[-1].endswith("\n") else ""
        own = [end, HEAD, *own]
    return "".join([*before, *own, *after])


def _content(file: Path) -> bytes | None:
    """Return the content of a file that mlgen wrote; None for other files."""
    if file.suffix != ".yaml" or file.is_symlink() or not file.is_file():
        return None
    with file.open("rb") as stream:
        start = stream.read(len(MARKER))
        if start != MARKER.encode():
            return None
        if file.stat().st_size > TEXT_BYTES:
            raise OSError(errno.EFBIG, f"{file.name} is larger than {TEXT_BYTES >> 20} MiB")
        return start + stream.read()


def update(folder: Path, change: Changes) -> None:
    """Apply changes to a folder. All files are written atomically before any is removed.

    Raises:
        OSError: a file cannot be written or removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files.remove_drafts(folder)
    for name, text in change.new.items():
        files.write(str(folder / name), [text])
    for name in change.old:
        if name not in change.new:
            (folder / name).unlink()


def diff(folder: Path, change: Changes) -> Iterator[str]:
    """Yield the change of each file as a unified diff for `patch -p0`.

    The content of Secrets, and of files with more lines than a manifest, is not shown.
    """
    return ("".join(_diff(folder, change, name)) for name in change.names)


def _diff(folder: Path, change: Changes, name: str) -> Iterator[str]:
    """Return the lines of the unified diff of one file."""
    path = (folder / name).as_posix()
    before, after = (path if name in side else "/dev/null" for side in (change.old, change.new))
    texts = [side.get(name, "") for side in (change.old, change.new)]
    yield f"--- {before}\n+++ {after}\n"
    if _is_secret(name, texts):
        yield "# a Secret, which is not shown\n"
        return
    if max(text.count("\n") for text in texts) > PATCH_LINES:
        yield f"# more than {PATCH_LINES:,} lines, which are not shown\n"
        return
    old, new = map(_lines, texts)
    for line in unified(old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _is_secret(name: str, texts: Iterable[str]) -> bool:
    """Return True if a file contains a Secret, or did, independent of its name."""
    if name == ATTRIBUTES:
        return False
    return "secret" in name.split("_")[-2:-1] or any(map(has_secret, texts))


def _lines(text: str) -> list[str]:
    """Return lines that end only at newlines. `str.splitlines` also splits at a form feed."""
    return list(io.StringIO(text, newline="\n"))
