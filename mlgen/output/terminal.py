"""Terminal output: text without unsafe characters, on streams that may be closed or full.

CI systems read commands in the output of programs, so the marks of commands are also unsafe.
"""

import errno
import os
import re
import sys
from contextlib import suppress

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
    return COLON.sub(r"\1\\x3a", text)


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


INTERRUPTED = 128 + 2
"""The exit status that a shell reports for a program that SIGINT ended."""


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
    if error.errno == errno.EPIPE or sys.stderr is None:
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
