"""Helm: what a chart renders, with every job in it replaced by its manifests.

Helm calls a post-renderer with all manifests on standard input, and takes standard output in their
place. Where a manifest comes from it says in two ways, and wants to hear in the same:

- Helm 3 (pkg/action/action.go, v3.22.0): each document begins `# Source: chart/templates/x.yaml`;
- Helm 4 (pkg/action/action.go, v4.3.1): each document has an annotation, which Helm takes off.

Only what may be a job is parsed; all else, which may be large or no YAML, passes byte for byte.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import IO, Any

from mlgen import dialects
from mlgen.documents.chunks import chunks, is_blank
from mlgen.documents.document import Document
from mlgen.documents.files import Text, decoded
from mlgen.jobfile.schema import KIND
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import Key
from mlgen.output.summary import summary
from mlgen.output.yaml import yaml_text
from mlgen.pipeline import render_documents
from mlgen.problems import Collector, Place, Problem
from mlgen.result import Foreign, Options, Rendered

ANNOTATION = "postrenderer.helm.sh/postrender-filename"

HEAD = re.compile(rb"(?:---[ \t]*\r?\n)?(?:# Source: ([^\r\n]+)\r?\n)?")
"""What Helm writes before a document; the first line of a template is that below it."""

ANNOTATED = re.compile(re.escape(ANNOTATION).encode() + rb"[\"']?:[ \t]*[\"']?([^\"'\r\n,}]+)")

NOTE = rb"(?m)^( *)annotations:\n\1 +%(key)s: .*\n(?!\1 )|^ +%(key)s: .*\n"
ADDED = re.compile(NOTE % {b"key": re.escape(ANNOTATION).encode()})
"""The lines that Helm 4 adds, without which the others are where the template has them."""

HOOK = "helm.sh/hook"

SPOOL_BYTES = 8 << 20
"""What is kept in memory until all is done; more than that goes into a file."""

PLUGIN = "HELM_PLUGIN_NAME"
"""The variable that Helm 4 gives to a plugin (internal/plugin/runtime_subprocess.go)."""

LOG = "MLGEN_LOG"
LOG_NAME = "mlgen-last-error.txt"

Object = dict[str, Any]


def post_render(lines: Iterable[bytes], options: Options) -> tuple[IO[bytes], tuple[Problem, ...]]:
    """Return what Helm is to take in the place of a chart's manifests.

    Args:
        lines: the manifests, with the ends of the lines.
        options: of the command line.

    Returns:
        A file to read from its beginning, and what the user should know.

    Raises:
        MlgenError: with every problem of every job, each with its place.
    """
    written = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - the caller reads it
    collector = Collector()
    taken: set[Key] = set()
    nothing = True
    for line, chunk in chunks(lines):
        nothing = nothing and is_blank(chunk)
        written.write(_replaced(line, chunk, options, collector, taken))
    if nothing:
        # Helm 3 would take an empty answer, and delete what the release has.
        hint = "switch something on in its values, or leave the post-renderer out"
        place = Place("<stdin>", 0)
        collector.add(Problem((), "the chart renders nothing", "empty", hint, place=place))
    if collector.has_errors:
        written.close()
    collector.raise_errors()
    written.seek(0)
    return written, collector.problems


def _replaced(
    line: int,
    chunk: bytes,
    options: Options,
    collector: Collector,
    taken: set[Key],
) -> bytes:
    """One document: the manifests of the job that it is, or itself."""
    if not _possible().search(chunk):
        return chunk
    origin = _origin(chunk)
    text = _text(line, chunk, origin)
    found = list(dialects.documents(text))
    if not any(_is_ours(document, chunk) for document in found):
        return chunk
    parts = list(render_documents(text.name, found, options, collector, taken))
    for part in parts:
        collector.extend(map(part.document.located, _hook(part)))
    return "".join(_written(part, origin) for part in parts).encode()


def _version() -> str:
    groups = "|".join(map(re.escape, sorted(dialects.groups())))
    return rf"""apiVersion["']?\s*:\s*["']?(?:{groups})/"""


@cache
def _possible() -> re.Pattern[bytes]:
    """What stands in every document that may be a job, and in few others."""
    return re.compile(_version().encode())


@cache
def _certain() -> tuple[re.Pattern[bytes], ...]:
    """What all stands in a document that is a job, even where it cannot be parsed."""
    kinds = "|".join(sorted({KIND, *(kind for _, kind in dialects.kinds())}))
    kind = rf"""kind["']?[ \t]*:[ \t]*["']?(?:{kinds})\b"""
    return tuple(re.compile(rf"""(?m)^["']?{word}""".encode()) for word in (_version(), kind))


def _is_ours(document: Document | list[Problem], chunk: bytes) -> bool:
    """Whether it is a job, or means to be one; what is not can be anything, even no YAML at all."""
    if isinstance(document, list):
        return all(pattern.search(chunk) for pattern in _certain())
    data = document.data if isinstance(document.data, dict) else {}
    version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    return group_of(version) in dialects.groups() and not dialects.is_foreign(version, kind)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The template that a document is from, as Helm 3 and as Helm 4 says it; "" where it does not.

    It is read off the bytes, as what is wrong with a document may be that it is no YAML.
    """

    comment: str
    annotation: str


def _origin(chunk: bytes) -> _Origin:
    matches = HEAD.match(chunk), ANNOTATED.search(chunk)
    names = (((match and match[1]) or b"") for match in matches)
    return _Origin(*(name.decode(errors="replace").strip() for name in names))


def _text(line: int, chunk: bytes, origin: _Origin) -> Text:
    head = HEAD.match(chunk)
    name = origin.comment or origin.annotation
    if name and head:
        return decoded(name, ADDED.sub(b"", chunk[head.end() :], count=1))
    return decoded("<stdin>", chunk, line)


def _written(part: Rendered | Foreign, origin: _Origin) -> str:
    """The objects of a job, or one that stood in a List beside it, each with where it is from."""
    above = f"Source: {origin.comment}\n" if origin.comment else ""
    if isinstance(part, Foreign):
        return yaml_text([_annotated(part.document.data, origin.annotation)], above)
    first = above + summary(part.topology)
    return "".join(
        yaml_text([_annotated(item, origin.annotation)], above if number else first)
        for number, item in enumerate(part.objects)
    )


def _annotated(item: Object, file: str) -> Object:
    """An object with Helm's annotation, which one that stood in braces has from its job."""
    if not file:
        return item
    meta = item.get("metadata") or {}
    notes = {ANNOTATION: file} | (meta.get("annotations") or {})
    return item | {"metadata": meta | {"annotations": notes}}


def _hook(part: Rendered | Foreign) -> Iterator[Problem]:
    """Helm makes hooks of one weight by name, and ends each Job first (pkg/action/hooks.go)."""
    if isinstance(part, Foreign) or HOOK not in part.job.annotations:
        return
    named = sorted((item["metadata"]["name"], item["kind"]) for item in part.objects)
    for (name, kind), (following, other) in pairwise(named):
        if kind == "Job":
            message = (
                f"Helm would wait for the end of Job {name} before it makes {other} {following}"
            )
            hint = "leave the annotation out, so that all of the job is made at once"
            yield Problem(("metadata", "annotations", HOOK), message, "combination", hint)
            return


def run(
    lines: Iterable[bytes], options: Options, environ: Mapping[str, str]
) -> tuple[IO[bytes], tuple[Problem, ...]]:
    """Do as `post_render`, and `tell` what it raises."""
    try:
        return post_render(lines, options)
    except Exception as error:
        tell(str(error), environ)
        raise


def tell(failure: str, environ: Mapping[str, str]) -> None:
    """Bring a failure past Helm 4, which drops the standard error of a plugin.

    It goes to the file that `MLGEN_LOG` names, or mlgen-last-error.txt among temporary files, and
    to Helm's own standard error, or else the terminal.

    Args:
        failure: one or more lines.
        environ: the environment; nothing is done where Helm 4 has not called.
    """
    if not environ.get(PLUGIN):
        return
    log = environ.get(LOG) or os.path.join(tempfile.gettempdir(), LOG_NAME)  # noqa: PTH118 - for os
    # Others can write to a folder for temporary files, so a link there is not followed.
    _wrote(log, failure, os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
    of_helm = f"/proc/{os.getppid()}/fd/2"
    if not (_is_seen(of_helm) and _wrote(of_helm, failure)):
        _wrote("/dev/tty", failure)


def _is_seen(path: str) -> bool:
    """Whether it is a pipe or a terminal; a file would be written over by who has it open."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path of the system, not of files
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _wrote(path: str, text: str, flags: int = 0) -> bool:
    try:
        with open(os.open(path, os.O_WRONLY | flags, 0o600), "wb") as stream:  # noqa: PTH123 - flags
            stream.write(f"{text}\n".encode())
    except OSError:
        return False
    return True
