"""Command lines → problems with words that were probably meant to be more, or fewer, words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.problems import Problem, ValuePath
from mlgen.shell import is_shell, program, text_index

WRAPPERS = frozenset(("env", "tini", "dumb-init", "exec", "nohup"))
"""Programs that run the words after their options as they are."""

PARAMETERS = (
    r"\$[0-9@*#]|\$\{[#!]?[0-9@*#]|\b(shift|getopts)\b|\bset\s+--|\bfor\s+\w+\s*(;|\n)?\s*do\b"
    r"|(^|[;&|\n(])\s*(source|\.)\s"
)
"""Parts of a shell's text that use the words after it, or that may do so in another file."""

PLACEHOLDERS = ("--", "-", "_")
"""Words after a shell's text that only fill its $0."""


def problems(fields: ValuePath, container: dict[str, Any]) -> Iterator[Problem]:
    """Return problems with the command line of a container.

    Args:
        fields: the path in the job file below which the container's fields are.
        container: of a pod.
    """
    command = [str(word) for word in container.get("command") or []]
    args = [str(word) for word in container.get("args") or []]
    if command and re.search(r"\s", command[0]):
        yield _one_word((*fields, "command", 0), command[0])
    ignored = _ignored_words([*command, *args])
    if ignored:
        text, number = ignored
        words = [*command, *args]
        last = number - len(command)
        path = (*fields, "command", number) if last < 0 else (*fields, "args", last)
        message = f'the shell ignores "{_shown(words[number])}": its command is "{_shown(text)}"'
        meant = _shown(" ".join([text, *words[number:]]))
        yield Problem(path, message, "no-effect", f'write one string, "{meant}"', warning=True)


def _one_word(path: ValuePath, word: str) -> Problem:
    """Return the problem of a program with spaces in its name; the name of a file may have some."""
    message = f'the container would look for a program of the name "{_shown(word)}"'
    from mlgen import flow

    line = flow.words(word, command=True)
    hint = f"write {line}" if word.strip() else "write the name of a program"
    return Problem(path, message, "bad-value", hint, warning=word.startswith(("/", ".")))


def _ignored_words(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the text that a shell runs, and the index of the first word that it ignores.

    The words after the text of `sh -c` are its parameters $0, $1 and so on:
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html
    """
    index = text_index(words, _start(words))
    if index is None or index + 1 >= len(words) or re.search(PARAMETERS, words[index]):
        return None
    name = words[index + 1]
    rest = index + 2 if name in PLACEHOLDERS or is_shell(name) else index + 1
    return (words[index], rest) if rest < len(words) else None


def _start(words: Sequence[str]) -> int:
    """Return the index of the first word that is no wrapper, and no option of one."""
    wraps = (program(word) in WRAPPERS or word.startswith("-") for word in words)
    return next((index for index, wrap in enumerate(wraps) if not wrap), len(words))


def _shown(text: str) -> str:
    """Return a text as a message shows it: in one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


MAX_SHOWN = 60
