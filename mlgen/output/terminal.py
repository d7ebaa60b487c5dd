"""Texts for people: without unsafe characters, in columns, as a diff, or from a template.

CI systems read commands in the output of programs, so the marks of commands are also unsafe. stdout
and stderr may be closed or full.
"""

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlgen.input_limits import DIFF_LINES
from mlgen.problems import listed
from mlgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters of terminals, and characters that hide or reorder text (Unicode, UAX 9)."""

INVISIBLE = "[^ -~]"
"""Any character beyond ASCII. .NET ignores some of them in a comparison, such as U+034F."""

MARK = re.compile(f"#(?={INVISIBLE}*#(?:{INVISIBLE}|[A-Za-z])*\\[)")
"""The start of a command anywhere in a line: `##[` of GitHub, `##vso[` of Azure Pipelines.

actions/runner, src/Runner.Common/ActionCommand.cs, TryParse; microsoft/azure-pipelines-agent,
src/Agent.Sdk/Command.cs.
"""

COLON = re.compile(f"\\A((?: |{INVISIBLE})*):(?={INVISIBLE}*:)")
"""The start of a command at the start of a line: `::` of GitHub (the same file, TryParseV2)."""

SHORT = {"\t": " ", "\n": r"\n", "\r": r"\r"}
"""Replacements for the most frequent control characters."""


def safe(text: str) -> str:
    r"""Return a text on one line, with escapes such as `\x1b` for unsafe characters."""
    if not text.isprintable():
        text = UNSAFE.sub(_visible, text)
    if "#" in text:
        text = MARK.sub(r"\\x23", text)
    return COLON.sub(r"\1\\x3a", text) if "::" in text or not text.isascii() else text


def safe_lines(text: str) -> str:
    """Return a text in which each line is safe."""
    return "\n".join(map(safe, text.split("\n")))


def safe_json(text: str) -> str:
    r"""Return JSON with escapes such as `\u202e` in its strings; its value does not change."""
    text = UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else _unit(match[0]), text)
    return MARK.sub(r"\\u0023", text)


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    unit = f"\\x{ord(character):02x}" if character <= "\xff" else _unit(character)
    return SHORT.get(character, unit)


def _unit(character: str) -> str:
    return f"\\u{ord(character):04x}"


INTERRUPTED, CLOSED_PIPE = 128 + 2, 128 + 13
"""The exit status that a shell reports for a program that SIGINT or SIGPIPE ended."""


def say(text: str) -> int:
    """Print lines on stderr, and return the exit status: 0, or 1 if stderr cannot be written."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        return 1
    return 0


def failed(error: OSError) -> int:
    """Report on stderr why stdout cannot be written, and return the exit status.

    A pipe that its reader has closed is not reported, because this can happen at any time.
    """
    _discard_output()
    if error.errno == errno.EPIPE:
        return CLOSED_PIPE
    if sys.stderr is None:
        return 1
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror
    return say(f"Error: cannot write to standard output: {reason}") or 1


def interrupted() -> int:
    """End the line on which a terminal shows ^C, and return the exit status."""
    if sys.stderr is not None and sys.stderr.isatty():
        say("")
    return INTERRUPTED


def _discard_output() -> None:
    """Discard the buffer of stdout, which the interpreter would fail to write at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


GAP = "   "
"""The spaces between two columns, as in `kubectl get`."""


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return one line per row, with columns that are as wide as their longest texts.

    Characters that would break the table are escaped; see `terminal.safe`.
    """
    rows = [[safe(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            indent + GAP.join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def named(names: Iterable[str]) -> str:
    """Return names as in a sentence: `a`, `a and b`, `a, b and c`; "" if there are none."""
    return listed([*names], "and")


def some(names: Sequence[str], most: int) -> str:
    """Return names separated by commas. If there are more than `most`, it ends in `and N more`."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join([*names[: most - 1], f"and {len(names) - most + 1} more"])


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: int) -> str:
    """Return a duration in kubectl's format for ages: `45s`, `10m`, `7d`, `1d12h`."""
    parts, rest = [], seconds
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def unified(
    old: Sequence[str], new: Sequence[str], end: str = "\n", context: int = 3
) -> Iterator[str]:
    """Yield the lines of a unified diff, as `difflib.unified_diff` does, without its header.

    The time of difflib grows with the square of the lines. In a longer text, only the lines from
    the first to the last change are compared. If these are too many, all of them are replaced.

    Args:
        old: the lines of the first text.
        new: the lines of the second text.
        end: the end of a line with line numbers.
        context: the number of equal lines around a change.
    """
    from difflib import unified_diff  # imported late: only changes need it

    if _is_small(old, new):
        yield from islice(unified_diff(old, new, lineterm=end, n=context), 2, None)
        return
    head = _equal(old, new)
    tail = _equal(old[head:][::-1], new[head:][::-1])
    start, kept = max(0, head - context), max(0, tail - context)
    old, new = old[start : len(old) - kept], new[start : len(new) - kept]
    head, tail = head - start, tail - kept
    if _is_small(old, new):
        for line in islice(unified_diff(old, new, lineterm=end, n=context), 2, None):
            yield _moved(line, start) if line.startswith("@@ ") else line
        return
    yield f"@@ -{start + bool(old)},{len(old)} +{start + bool(new)},{len(new)} @@{end}"
    yield from (f" {line}" for line in old[:head])
    yield from (f"-{line}" for line in old[head : len(old) - tail])
    yield from (f"+{line}" for line in new[head : len(new) - tail])
    yield from (f" {line}" for line in old[len(old) - tail :])


def _moved(numbers: str, start: int) -> str:
    """Return `@@ -1,2 +1,3 @@` for lines that start after some number of other lines."""
    return re.sub(r"([-+])(\d+)", lambda match: f"{match[1]}{int(match[2]) + start}", numbers)


def _is_small(old: Sequence[str], new: Sequence[str]) -> bool:
    return len(old) * len(new) <= DIFF_LINES**2


def _equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the start of two texts."""
    pairs = zip(old, new, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new))
    )


def template_text(template: str, /, **values: Any) -> str:
    """Return the text of `templates/<template>` with these values."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> "Environment":
    """Return the Jinja environment of the templates. A plain render does not import Jinja."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - renders no HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"counted": counted, "duration": duration, "named": named}
    return environment
