"""Command lines: the program of a word, and the commands of a shell script.

Scripts are split as a shell does, without expansions:
https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html
"""

import re
from collections.abc import Sequence

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))

OPERATORS = r"[|&;<>`\n]|\$[\w({]|^\s*cd "
"""A pattern of syntax that only a shell interprets."""

OPTION = r"[-+][a-zA-Z]+|--\w[\w-]*"
"""A pattern of a shell's option. `o` and `O` take the next word as value: `-o pipefail`."""

WORD = (
    r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}"""
    r"""|\$(?!\{)|[^\s;&|()<>'"\\`$])+"""
)
TOKEN = rf"\\\n|[ \t\r]+|\#[^\n]*|(?P<end>[;&|()<>\n]+)|(?P<word>{WORD})"
QUOTED = r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)"""
"""These patterns are not compiled at import, because few jobs need them."""

OPERATORS_BETWEEN = {";": ";", "|": "|", "|&": "|", "&&": "&&", "||": "||"}
REDIRECTION = r"&?>[>|]?|<&?|>&|<>"


def program(word: str) -> str:
    """Return the name of a program without its path."""
    return word.rpartition("/")[2]


def is_shell(word: str) -> bool:
    """Return True for `sh`, `/bin/bash` and so on."""
    return program(word) in SHELLS


def is_python(word: str) -> bool:
    """Return True for `python`, `/usr/bin/python3.11`, `pypy3` and so on."""
    return program(word).rstrip("0123456789.") in ("python", "pypy")


def needs_shell(text: str) -> bool:
    """Return True for a command line that only a shell can run."""
    return re.search(OPERATORS, text) is not None


def text_index(words: Sequence[str], start: int = 0) -> int | None:
    """Return the index of the script in `sh -c SCRIPT` or `bash -euo pipefail -c SCRIPT`.

    None if the program at `start` is not a shell, or reads its commands from another source.
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html
    """
    if start >= len(words) or not is_shell(words[start]):
        return None
    index, runs_text = start + 1, False
    while index < len(words) and re.fullmatch(OPTION, words[index]):
        letters = "" if words[index].startswith("--") else words[index][1:]
        runs_text = runs_text or "c" in letters
        index += 2 if set(letters) & set("oO") else 1
    return index if runs_text and index < len(words) else None


def simple_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command in a shell script, without quotes.

    At a quote or `${` without an end, which a shell rejects, the rest of the script is omitted.
    """
    commands: list[list[str]] = [[]]
    position = 0
    for token in re.finditer(TOKEN, text, re.DOTALL):
        if token.start() != position:
            break
        position = token.end()
        if token["end"]:
            commands.append([])
        elif token["word"]:
            commands[-1].append(re.sub(QUOTED, _unquoted, token["word"], flags=re.DOTALL))
    return [words for words in commands if words]


def sequence(text: str) -> list[tuple[list[str], str]] | None:
    """Return each simple command in a shell script, with the operator after it or "".

    Operators are `|`, `&&`, `||` and `;`. The end of a line counts as `;`. Redirections are
    omitted, except for numbers before them. None if the script contains other operators, such as
    `&` or parentheses, or is incomplete.
    """
    commands: list[tuple[list[str], str]] = []
    words: list[str] = []
    position, target = 0, False
    for token in re.finditer(TOKEN, text, re.DOTALL):
        if token.start() != position:
            return None
        position, end = token.end(), token["end"]
        if token["word"] and not target:
            words.append(re.sub(QUOTED, _unquoted, token["word"], flags=re.DOTALL))
        target = bool(end and "<<" not in end and re.fullmatch(REDIRECTION, end)) or (
            target and not token["word"]
        )
        if not end or target:
            continue
        operator = end.replace("\n", "") or ";"
        if operator not in OPERATORS_BETWEEN:
            return None
        if words:
            commands.append((words, OPERATORS_BETWEEN[operator]))
        words = []
    if words:
        commands.append((words, ""))
    elif commands and commands[-1][1] == ";":
        commands[-1] = (commands[-1][0], "")
    return commands if position == len(text) else None


def _unquoted(match: re.Match[str]) -> str:
    """Return a quoted part of a word without its quotes."""
    single, double, escaped = match.groups()
    if double is not None:
        return re.sub(r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], double)
    return single if single is not None else "" if escaped == "\n" else escaped
