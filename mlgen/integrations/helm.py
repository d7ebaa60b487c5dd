"""A Helm post-renderer: replace every job in the manifests of a chart.

Helm passes the manifests of a chart on stdin, and installs the output instead. Each document names
its template, and each document of the output must name one:

- Helm 3 (pkg/action/action.go, v3.22.0): in a comment, `# Source: chart/templates/x.yaml`;
- Helm 4 (pkg/action/action.go, v4.3.1): in an annotation, which Helm removes afterwards.

Only documents that may be a job are parsed. All others pass through unchanged, because they may be
large, or invalid YAML.
"""

import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mlgen import dialects
from mlgen.documents.document import Document
from mlgen.documents.files import STDIN, Context, Text, chunks, decode, is_blank
from mlgen.integrations import file_type
from mlgen.jobfile.model import KIND
from mlgen.kubernetes.objects import CONFIG_MAP_MAX, Object, group_of, kib
from mlgen.kubernetes.values import mapping
from mlgen.objects import notes
from mlgen.objects.supervisor import FILE
from mlgen.output.files import write
from mlgen.output.manifests import heading
from mlgen.output.terminal import safe_lines
from mlgen.output.yaml import yaml_text
from mlgen.pipeline import Outcome, Walk
from mlgen.problems import MlgenError, Place, Problem, listed, severe
from mlgen.result import Foreign, Options, Rendered

HEADLESS = re.compile(dialects.HEADLESS.pattern.encode())
"""A document that may be a headless Service, which a job may render itself."""

ANNOTATION = "postrenderer.helm.sh/postrender-filename"

HEAD = re.compile(rb"(?:---[ \t]*\r?\n)?(?:# Source: ([^\r\n]+)\r?\n)?")
"""The lines that Helm writes before a document. Line 1 of the template follows them."""

ANNOTATED = re.compile(re.escape(ANNOTATION).encode() + rb"[\"']?:[ \t]*[\"']?([^\"'\r\n,}]+)")

ANNOTATION_LINES = rb"(?m)^( *)annotations:\n\1 +%(key)s: .*\n(?!\1 )|^ +%(key)s: .*\n"
ADDED = re.compile(ANNOTATION_LINES % {b"key": re.escape(ANNOTATION).encode()})
"""The lines that Helm 4 adds. They are removed, so that line numbers match the template."""

KIND_LINE = re.compile(rb"""(?m)^["']?kind["']?:[ \t]*["']?(\w+)""")
"""The line of an object with its kind."""

HOOK = "helm.sh/hook"

_Origin = tuple[str, str]
"""The names of a document's template in Helm 3 and in Helm 4; each is "" if it is missing."""

PLUGIN = "HELM_PLUGIN_NAME"
"""The variable that Helm 4 sets for a plugin (internal/plugin/runtime_subprocess.go)."""

DRIVER = "HELM_DRIVER"
"""The variable of Helm that sets where it stores releases."""

WITHOUT_LIMIT = ("sql", "memory")
"""The values of `DRIVER` with which Helm stores releases in neither Secrets nor ConfigMaps
(Configuration.Init in pkg/action/action.go)."""

RELEASE_MAX = CONFIG_MAP_MAX
"""The maximum size of a release, in bytes: that of the data of its Secret or ConfigMap."""

NEAR, SURE = 0.9, 1.01
"""The fractions of `RELEASE_MAX` from which a release is reported, and is too large for certain.

A release also contains the chart and its values. Go's compressor saves up to 0.4 % more than zlib.
"""

MEASURED = 8 * RELEASE_MAX
"""The size at which a release is no longer measured."""

STORING = {b"install", b"upgrade"}
"""The commands of Helm that call a post-renderer and store a release. `template` stores none."""

LOG = "MLGEN_LOG"
LOG_NAME = ("mlgen", "last-error.txt")
"""The folder and the file below the user's cache folder."""


class PostRendered(NamedTuple):
    """The manifests of a chart, and all warnings.

    Unlike `Manifests`, the parts are bytes, because all manifests but jobs pass through unchanged.
    """

    parts: Sequence[bytes]
    warnings: tuple[Problem, ...]


def post_render(
    lines: Iterable[bytes], options: Options, environ: Mapping[str, str] | None = None
) -> PostRendered:
    """Return the manifests of a chart with every job replaced by its manifests.

    Args:
        lines: the manifests that Helm passes on stdin, with line ends.
        options: the options for rendering.
        environ: the environment of Helm.

    Raises:
        MlgenError: the chart has no manifests, or jobs have errors; lists all problems.
    """
    if options.site:  # the release has a namespace
        options = replace(options, site=options.site.without_namespace())
    walk, of_jobs = Walk(options), list[bool]()
    empty = True
    for line, chunk, context in _in_context(chunks(lines)):
        empty = empty and is_blank(chunk)
        for outcome, text, of_job in _replaced(line, chunk, context, walk):
            walk.write(outcome, text)
            of_jobs.append(of_job)
    if empty:
        # Helm 3 would accept an empty output, and delete the objects of the release.
        hint = "enable a resource in its values, or omit --post-renderer"
        place = Place(STDIN, 0)
        message = "the chart renders no manifests"
        walk.problems.append(Problem((), message, "empty", hint, place=place))
    if walk.jobs and not walk.has_errors:
        problems = _release_problems(walk.spool, of_jobs, walk.jobs, environ or {})
        walk.problems += severe(problems, strict=options.strict)
    if walk.has_errors:
        raise MlgenError(walk.problems)
    return PostRendered(walk.spool, tuple(walk.problems))


def _in_context(
    documents: Iterator[tuple[int, bytes]],
) -> Iterator[tuple[int, bytes, Context | None]]:
    """Yield documents, with all documents that they may refer to.

    From the first document that may refer to others, all of them are kept in memory.
    """
    groups = [group.encode() for group in dialects.MERGED_GROUPS]
    for line, chunk in documents:
        if not (any(group in chunk for group in groups) or HEADLESS.search(chunk)):
            yield line, chunk, None
            continue
        every = [(line, chunk), *documents]
        merged = [each for each in every if any(group in each[1] for group in groups)]
        context = dialects.context_of(_text(*each, _origin(each[1])) for each in merged)
        jobs = dialects.jobs_with_services([_text(*each, _origin(each[1])) for each in every])
        yield from ((*each, context._replace(jobs=jobs)) for each in every)


def _replaced(
    line: int, chunk: bytes, context: Context | None, walk: Walk
) -> Iterator[tuple[Outcome, bytes, bool]]:
    """Yield the manifests of a document with a job; other documents unchanged.

    With each text, yield the outcome of its document, and True if it is of a job.
    """
    only_jobs, may_be_own = walk.options.only_jobs, HEADLESS.search(chunk)
    unchanged = Outcome(Text(STDIN))
    if is_blank(chunk) or not (only_jobs or may_be_own or _patterns()[0].search(chunk)):
        yield unchanged, chunk, False
        return
    origin = _origin(chunk)
    source = replace(_text(line, chunk, origin), context=context)
    documents = list(dialects.documents(source))
    is_job = any(_is_job(document, chunk) for document in documents)
    is_left_out = any(isinstance(each, Document) and walk.leaves_out(each) for each in documents)
    if not (only_jobs or is_job or is_left_out):
        yield unchanged, chunk, False
        return
    for outcome in walk.outcomes_of(source, documents):
        for part in outcome.parts:
            walk.report(outcome, map(part.document.located, _hook_problems(part)))
            for text in _manifests(part, origin):
                yield outcome, text.encode(), not isinstance(part, Foreign)


@cache
def _patterns() -> tuple[re.Pattern[bytes], ...]:
    """Return patterns for a document that may be a job, for its apiVersion, and for its kind.

    The first pattern matches in every job: in its group, or in an escape sequence in it. The other
    two identify a job that cannot be parsed.
    """
    groups = "|".join(map(re.escape, sorted(dialects.groups())))
    kinds = "|".join(sorted({KIND, *(kind for _, kind in dialects.kinds())}))
    any_job = rf"(?:{groups})/|\\[xuU/\r\n]"
    kind = rf"""(?m)^["']?kind["']?[ \t]*:[ \t]*["']?(?:{kinds})\b"""
    return tuple(re.compile(text.encode()) for text in (any_job, dialects.version_line(), kind))


def _is_job(document: Document | list[Problem], chunk: bytes) -> bool:
    """Return True if a document is a job or a misspelt job.

    Args:
        document: the document, or the problems of its YAML.
        chunk: its text.
    """
    if isinstance(document, list):
        return all(pattern.search(chunk) for pattern in _patterns()[1:])
    data = mapping(document.data)
    version, kind = str(data.get("apiVersion")), str(data.get("kind"))
    return group_of(version) in dialects.groups() and not dialects.is_foreign(version, kind)


def _origin(chunk: bytes) -> _Origin:
    """Return the origin of a document from its bytes, because it may be invalid YAML."""
    matches = HEAD.match(chunk), ANNOTATED.search(chunk)
    names = (((match and match[1]) or b"") for match in matches)
    comment, annotation = (name.decode(errors="replace").strip() for name in names)
    return comment, annotation


def _text(line: int, chunk: bytes, origin: _Origin) -> Text:
    """Return a document as a text, with its template's name and line numbers if known."""
    head, name = HEAD.match(chunk), origin[0] or origin[1]
    if name and head:
        return decode(name, ADDED.sub(b"", chunk[head.end() :], count=1))
    return decode(STDIN, chunk, line)


def _manifests(part: Rendered | Foreign, origin: _Origin) -> Iterator[str]:
    """Yield a job or another object of the document as YAML, with the origin on each object."""
    source, annotation = origin
    comment = f"Source: {source}\n" if source else ""
    if isinstance(part, Foreign):
        yield yaml_text([_annotated(part.document.data, annotation)], comment)
        return
    first, explained = comment + heading(part), notes(part.topology)
    for number, item in enumerate(part.objects):
        text = comment if number else first
        yield yaml_text([_annotated(item, annotation)], text, explained)


def _annotated(item: Object, file: str) -> Object:
    """Add Helm 4's annotation to an object, unless the job's metadata already sets it."""
    if not file:
        return item
    meta = item.get("metadata") or {}
    annotations = {ANNOTATION: file} | (meta.get("annotations") or {})
    return item | {"metadata": meta | {"annotations": annotations}}


def _hook_problems(part: Rendered | Foreign) -> Iterator[Problem]:
    """Report a hook with a Job that would block the creation of the other objects.

    Helm creates hooks of the same weight in the order of their names, and waits for each Job to
    finish before it creates the next object (pkg/action/hooks.go).
    """
    if isinstance(part, Foreign) or HOOK not in part.job.annotations:
        return
    objects = sorted((item["metadata"]["name"], item["kind"]) for item in part.objects)
    for (name, kind), (next_name, next_kind) in pairwise(objects):
        if kind == "Job":
            message = (
                f"Helm waits for Job {name} to finish before it creates {next_kind} {next_name}"
            )
            hint = "remove the annotation, so that Helm creates all objects at once"
            yield Problem(("metadata", "annotations", HOOK), message, "combination", hint)
            return


def _release_problems(
    output: Sequence[bytes], of_jobs: Sequence[bool], jobs: int, environ: Mapping[str, str]
) -> Iterator[Problem]:
    """Report manifests that fill the Secret in which Helm stores a release, or exceed it.

    It is an error only if Helm is about to store them. Otherwise, as in a pipe from `helm template`
    to mlgen, there may be no release.

    Args:
        output: the manifests.
        of_jobs: for each of them, True if it is of a job.
        jobs: the number of jobs.
        environ: the environment of Helm.
    """
    if environ.get(DRIVER) in WITHOUT_LIMIT:
        return
    if sum(map(len, output)) < NEAR * RELEASE_MAX * 3 // 4:  # compressed, it is even smaller
        return
    numbers: Sequence[int] = range(len(output))
    if environ.get(PLUGIN):  # Helm 4 sorts the objects, Helm 3 does not
        numbers = sorted(numbers, key=lambda number: _kind(output[number]))
    size = stored_size(output[number] for number in numbers)
    if size < NEAR * RELEASE_MAX:
        return
    others = stored_size(output[number] for number in numbers if not of_jobs[number])
    fit = int((RELEASE_MAX - others) * jobs / max(size - others, 1)) if size < MEASURED else 0
    less = f"at most {fit} of these jobs" if fit > 0 else "fewer objects"
    ways = [f"install {less} in a release"]
    if any(FILE.encode() in text for text, own in zip(output, of_jobs, strict=True) if own):
        ways.append("set spec.helpers.supervisorImage")
    ways.append(f"set {DRIVER}={WITHOUT_LIMIT[0]}")
    amount = kib(size) if size < MEASURED else f"over {kib(MEASURED)}"
    message = (
        f"the output with {jobs} job{'s' if jobs > 1 else ''} has {amount} as Helm stores it, and"
        f" the limit of a release with its chart is {kib(RELEASE_MAX)}"
    )
    warning = size < SURE * RELEASE_MAX or not _is_stored()
    hint = listed(ways, "or")
    yield Problem((), message, "too-large", hint, warning, place=Place(STDIN, 0))


def stored_size(texts: Iterable[bytes]) -> int:
    """Return the size of a manifest as Helm stores it, in bytes: as JSON, compressed, in base64.

    The result is at most `MEASURED`. encodeRelease in pkg/storage/driver/util.go (v3.22.0 and
    v4.3.1).
    """
    compressor, size = zlib.compressobj(9), 0
    for text in texts:
        line = json.dumps(text.decode(errors="replace"), ensure_ascii=False)[1:-1]
        for character in "<>&":  # Go escapes them
            line = line.replace(character, f"\\u{ord(character):04x}")
        size += len(compressor.compress(line.encode()))
        if size * 4 // 3 >= MEASURED:
            return MEASURED
    return -(-(size + len(compressor.flush())) // 3) * 4


def _kind(text: bytes) -> bytes:
    """Return the kind of an object, by which Helm 4 sorts it."""
    kind = KIND_LINE.search(text)
    return kind[1] if kind else b""


def _is_stored() -> bool:
    """Return True if this process is called by a command of Helm that stores a release.

    Helm passes no variable with its command. Without /proc, the result is False.
    """
    with suppress(OSError):
        program, *words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
        return Path(os.fsdecode(program)).name.startswith("helm") and bool(STORING & {*words})
    return False


def run(lines: Iterable[bytes], options: Options, environ: Mapping[str, str]) -> PostRendered:
    """Call `post_render`, and report its exceptions with `report_failure`."""
    try:
        return post_render(lines, options, environ)
    except Exception as error:
        report_failure(str(error), environ)
        raise


def report_failure(message: str, environ: Mapping[str, str]) -> None:
    """Report a failure to the user of Helm 4, which discards the stderr of a plugin.

    Write it to the file in `MLGEN_LOG`, by default in the user's cache folder, because in a shared
    folder, the file could belong to another user. Also write it to Helm's own stderr, or else to
    the terminal.

    Args:
        message: one or more lines.
        environ: the environment. Without Helm 4's `HELM_PLUGIN_NAME`, the function does nothing.
    """
    if not environ.get(PLUGIN):
        return
    text = f"{safe_lines(message)}\n"
    _write_log(text, environ)
    stderr_of_helm = f"/proc/{os.getppid()}/fd/2"
    # In a file, Helm would overwrite the message at its own position.
    is_stream = file_type(stderr_of_helm) in (stat.S_IFIFO, stat.S_IFCHR)
    if not (is_stream and _write(stderr_of_helm, text)):
        _write("/dev/tty", text)


def _write_log(text: str, environ: Mapping[str, str]) -> None:
    """Write the error to a new file that only the user can read.

    A link, or another user's file of the same name, is replaced or not changed.
    """
    log = environ.get(LOG)
    with suppress(OSError):
        if not log:
            caches = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/", ".cache")
            file = Path(caches, *LOG_NAME)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = str(file)
        write(log, [text], mode=0o600)


def _write(path: str, text: str) -> bool:
    """Write a text to a terminal or pipe; return False if it cannot be written immediately."""
    names = ("O_WRONLY", "O_NONBLOCK", "O_NOCTTY")  # Windows has only the first
    flags = sum(getattr(os, name, 0) for name in names)
    try:
        with open(os.open(path, flags), "wb") as stream:  # noqa: PTH123 - flags
            stream.write(text.encode())
    except OSError:
        return False
    return True
