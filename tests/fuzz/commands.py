"""Runs command lines of mlgen in this process, and checks rules for all of them."""

import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, get_args

from mlgen.cli import main
from mlgen.problems import Code

FILE = "job.yaml"
"""The file in the current folder that commands read."""

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
"""Characters that a terminal may interpret."""

FAILURE = re.compile(rf"\[({'|'.join(get_args(Code))})\]$", re.MULTILINE)
"""The end of a problem: the problem code."""

WARNINGS = re.compile(r"^[^\n]*: warning: [^\n]*$", re.MULTILINE)

ERROR = '"severity": "error"'
"""The output of `--problems json` for a problem."""

USAGE = re.compile(r"^Error: ", re.MULTILINE)
"""The start of click's messages."""


class Outcome(NamedTuple):
    """The outcome of a command line.

    Attributes:
        status: the exit status; None if it ended with a traceback.
        out: standard output.
        err: standard error.
        crash: the traceback, or "".
    """

    status: int | None
    out: str
    err: str
    crash: str


class Command(NamedTuple):
    """A command line that reads a text.

    Attributes:
        words: those after `mlgen`; FILE is the text.
        stdin: function from the text to the stdin; None if the text is a file.
        environment: variables of this command.
        statuses: its documented exit statuses.
        is_report: its output is for a terminal, not for a program.
        prints_with_errors: its output does not depend on whether there are errors.
    """

    words: tuple[str, ...]
    stdin: Callable[[bytes], bytes] | None = None
    environment: Mapping[str, str] = {}
    statuses: tuple[int, ...] = (0, 1)
    is_report: bool = False
    prints_with_errors: bool = False


def as_items(text: bytes) -> bytes:
    """Return a ResourceList with the documents of a text as items; a ResourceList is unchanged."""
    if b"kind: ResourceList" in text:
        return text
    head = b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"
    documents = re.split(rb"(?m)^---(?:[ \t]*\n|(?=[ \t]))", text)
    items = (b"- " + document.replace(b"\n", b"\n  ") + b"\n" for document in documents)
    return head + b"".join(item for item in items if item.strip(b"- \n"))


COMMANDS = {
    "render": Command(("render", FILE)),
    "render-json": Command(("render", FILE, "--format", "json", "--problems", "json")),
    "render-for-argocd": Command(("render", FILE, "--for", "argocd")),
    "validate": Command(("validate", FILE), is_report=True, prints_with_errors=True),
    "convert": Command(("convert", FILE)),
    "show": Command(("show", FILE), is_report=True),
    "show-defaults": Command(("show", FILE, "--defaults")),
    "graph": Command(("graph", FILE), statuses=(0, 1, 2)),
    "diff": Command(("diff", FILE, FILE), is_report=True),
    "verify": Command(("verify", FILE), is_report=True, prints_with_errors=True),
    "argo": Command(("argo", FILE), statuses=(0, 1, 2)),
    "krm": Command(("krm",), as_items, prints_with_errors=True),
    "helm-post-render": Command(("helm-post-render",), lambda text: text),
    "argocd-generate": Command(("argocd", "generate")),
    "argocd-parameters": Command(("argocd", "parameters"), prints_with_errors=True),
}
"""Every command that reads job files and needs no cluster."""


def run(*words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a command line as the program does."""
    status, crash = None, ""
    with _streams(stdin) as (out, err), _variables(environment or {}):
        try:
            main(list(words), prog_name="mlgen")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        except BaseException:  # noqa: BLE001 - whatever it is, a user would see it
            status, crash = None, traceback.format_exc()
    texts = (stream.getvalue().decode(errors="surrogateescape") for stream in (out, err))
    return Outcome(status, *texts, crash)


def run_on(name: str, text: bytes) -> Outcome:
    """Run one of COMMANDS on a text, in the current folder."""
    command = COMMANDS[name]
    Path(FILE).write_bytes(text)
    stdin = command.stdin(text) if command.stdin else b""
    return run(*command.words, stdin=stdin, environment=command.environment)


def flaws(command: Command, outcome: Outcome) -> Iterator[str]:
    """Yield the flaws of an outcome that no input may cause."""
    status, out, err, crash = outcome
    if crash:
        yield crash
        return
    printed = out + err
    messages = printed if command.is_report else err  # a manifest may end a line with [launch]
    has_error = FAILURE.search(WARNINGS.sub("", messages)) or USAGE.search(err) or ERROR in err
    if "Traceback (most recent call last)" in printed:
        yield f"prints a traceback: {printed}"
    if status not in command.statuses:
        yield f"exit status {status}"
    if bool(status) != bool(has_error):
        yield f"exit status {status}, but prints {printed[:300]!r}"
    if status and out and not command.prints_with_errors:
        yield f"output in spite of errors: {out[:300]!r}"
    for stream in (err, out if command.is_report else ""):
        found = CONTROLS.search(stream)
        if found:
            around = stream[max(found.start() - 60, 0) : found.end() + 20]
            yield f"prints {found[0]!r} in {around!r}"


@contextmanager
def _streams(stdin: bytes):
    """Replace the standard streams; yield the bytes of stdout and stderr."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout = io.TextIOWrapper(out, "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    ours = sys.stdin, sys.stdout, sys.stderr
    try:
        yield out, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in ours[1:]:
            stream.flush()
            stream.detach()  # otherwise its destructor would close the bytes


@contextmanager
def _variables(environment: Mapping[str, str]):
    """Set environment variables within the context."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
