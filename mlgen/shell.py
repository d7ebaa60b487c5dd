"""Command lines: the program of a word, the commands of a shell script, and lists in messages.

Scripts are split as a shell does, without expansions:
https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html

Messages show values and command lines as YAML in flow style: `[python, train.py]`.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))

OPERATORS = r"[|&;<>`\n]|\$[\w({]|(^|\s)~/|^\s*(cd|export|set|source|ulimit|\.) "
"""A pattern of syntax that only a shell interprets."""

OPTION = r"[-+][a-zA-Z]+|--\w[\w-]*"
"""A pattern of a shell's option. `o` and `O` take the next word as value: `-o pipefail`."""

WORD = (
    r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\{[^}]*\}"""
    r"""|\$(?!\{)|[^\s;&|()<>'"\\`$])+"""
)
TOKEN = rf"\\\n|[ \t\r]+|\#[^\n]*|(?P<end>[;&|()<>\n]+)|(?P<word>{WORD})"
QUOTED = r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)"""
"""These patterns are not compiled at import, because few jobs need them."""

HERE_DOCUMENT = r"""(?<!<)<<-?[ \t]*['"\\]?([^\s'"\\;&|<>()]+)['"]?"""
OUTSIDE = (
    r"""\\.|'[^']*'|\$\(|[<>]\(|[()"`]|(?<![^\s;(])\#[^\n]*"""
    r"""|(?<![^\s;&|(`{])(?:case|esac)(?![^\s;&|)`])"""
)
INSIDE = r"""\\.|\$\(|["`]"""
"""The parts of a script that begin or end a substitution, outside and inside of double quotes."""

FIRST_MARK = 0xF0000
"""The first of the private characters that stand for substitutions."""

OPERATORS_BETWEEN = {"&": "&", ";": ";", "|": "|", "|&": "|", "&&": "&&", "||": "||"}
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


def has_carriage_returns(name: str, text: str) -> bool:
    """Return True for a script with lines that end with a carriage return.

    Shells, and the kernel in the first line, read it as a part of the last word.
    """
    return "\r\n" in text and (text.startswith("#!") or name.endswith((".sh", ".bash")))


def needs_shell(text: str) -> bool:
    """Return True for a command line that only a shell can run."""
    return re.search(OPERATORS, text) is not None


def split(text: str) -> list[str] | None:
    """Return the words of a command line, in which operators are ordinary characters.

    None if a quote is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError:
        return None


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
    if index < len(words) and words[index] == "--":  # ends the options
        index += 1
    return index if runs_text and index < len(words) else None


def without_documents(text: str) -> str:
    """Return a shell script without its here-documents: `<<END`, the lines after it, and `END`."""
    lines, kept, end = text.split("\n"), [], ""
    ends = {line.strip() for line in lines} if "<<" in text else set()
    for line in lines:
        found = re.search(HERE_DOCUMENT, line) if ends and not end else None
        if end:
            end = "" if line.strip() == end else end
        elif found and found[1] in ends:
            end = found[1]
            kept.append(line[: found.start()] + line[found.end() :])
        else:
            kept.append(line)
    return "\n".join(kept)


class Script(NamedTuple):
    """A shell script in which one character stands for each substitution, with all that is in it.

    A substitution is `$(…)`, `$((…))`, `<(…)` or a text in backticks. It may contain quotes,
    parentheses and `case`.

    Attributes:
        text: the script without its here-documents, up to a substitution without an end.
        parts: the substitutions, by character code.
    """

    text: str
    parts: dict[int, str]

    @property
    def tokens(self) -> Iterator[re.Match[str]]:
        """The tokens of the script, up to a quote, `${` or a substitution without an end."""
        match = re.compile(TOKEN, re.DOTALL).match
        token = match(self.text)
        while token:
            yield token
            token = match(self.text, token.end())

    def word(self, token: str) -> str:
        """Return a word of the script without its quotes. Substitutions are kept as written."""
        return re.sub(QUOTED, _unquoted, token, flags=re.DOTALL).translate(self.parts)


def read(text: str) -> Script:
    """Return a shell script with its substitutions replaced."""
    text = without_documents(text)
    if not re.search(r"[$<>]\(|`", text):
        return Script(text, {})
    kept, parts, position = [], dict[int, str](), 0
    for start, end in _substitutions(text):
        kept.append(text[position:start])
        if end is None:  # a backtick without an end is no token
            return Script("".join((*kept, "`")), parts)
        kept.append(chr(FIRST_MARK + len(parts)))
        parts[FIRST_MARK + len(parts)] = text[start:end]
        position = end
    return Script("".join((*kept, text[position:])), parts)


def _substitutions(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield the start and the end of each outermost substitution. None: it has no end."""
    outside, inside = re.compile(OUTSIDE, re.DOTALL), re.compile(INSIDE, re.DOTALL)
    around: list[str] = []  # what ends each open quote, parenthesis and `case`
    position, start, depth = 0, 0, -1
    while found := (inside if around[-1:] == ['"'] else outside).search(text, position):
        position, part = found.end(), found[0]
        if around and part == around[-1]:
            around.pop()
        elif part in ('"', "case") and (part == '"' or depth >= 0):
            around.append({"case": "esac"}.get(part, part))
        elif part in ("$(", "<(", ">(", "`") or (part == "(" and depth >= 0):
            if depth < 0:
                start, depth = found.start(), len(around)
            around.append("`" if part == "`" else ")")
        if depth == len(around):
            yield start, position
            depth = -1
    if depth >= 0:
        yield start, None


def simple_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command in a shell script, without quotes.

    At a quote or `${` without an end, which a shell rejects, the rest of the script is omitted.
    Here-documents are omitted, and commands in substitutions.
    """
    commands: list[list[str]] = [[]]
    script = read(text)
    for token in script.tokens:
        if token["end"]:
            commands.append([])
        elif token["word"]:
            commands[-1].append(script.word(token["word"]))
    return [words for words in commands if words]


def unclosed(text: str) -> str | None:
    """Return the quote that a shell script does not close; None if there is none, or in doubt."""
    script, position = read(text), 0
    text = script.text
    for token in script.tokens:
        position = token.end()
    quote = text[position : position + 1]
    sure = quote in ("'", '"') and text.count(quote) % 2 and not re.search(r"\$\(|`|\\['\"]", text)
    return quote if sure else None


def cut(text: str) -> str | None:
    """Return the first word of a line that a line break cuts off the command before it.

    That is an option, an operator such as `&&`, or a word after a backslash that does not end its
    line. None if there is no such line, or in a script with `case`, whose patterns look alike.
    An array, `[[ ]]` and `(( ))` may contain line breaks. A backslash with a blank may be a word.
    """
    script, at_start = read(text), False
    text = script.text
    before = until = ""
    follows = re.compile(r"[ \t]+[^\s-]")
    for token in () if re.search(r"\besac\b", text) else script.tokens:
        position, word, end = token.end(), token["word"] or "", token["end"] or ""
        if not (word or end):
            continue
        if word == "[[":
            until = "]]"
        elif "((" in end or (end.startswith("(") and before.endswith("=")):
            until = ")"
        goes_on = at_start and re.match(r"--?[a-zA-Z]", word)
        operator = re.search(r"\n(&&|\|)", f"\n{end}" if at_start else end)
        if before and not until and (goes_on or operator):
            return word.translate(script.parts) or end.strip()
        is_blank = word[1:].isspace() and follows.match(text, position)
        if re.match(r"\\[ \t]", word) and not is_blank and until != "]]":
            rest = word[1:].strip() or next(iter(text[position:].split()), "")
            return rest.translate(script.parts)
        if until and until in (word if until == "]]" else end):
            until = ""
        at_start = end.endswith("\n") and not re.match(r"[&|(]", end)
        before = word or end
    return None


def sequence(text: str) -> list[tuple[list[str], str]] | None:
    """Return each simple command in a shell script, with the operator after it or "".

    Operators are `|`, `&&`, `||`, `&` and `;`. The end of a line counts as `;`. Redirections are
    omitted, except for numbers before them, and here-documents. None if the script contains other
    operators, such as parentheses, or is incomplete.
    """
    commands: list[tuple[list[str], str]] = []
    words: list[str] = []
    script, position, target = read(text), 0, False
    for token in script.tokens:
        position, end = token.end(), token["end"]
        if token["word"] and not target:
            words.append(script.word(token["word"]))
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
    return commands if position == len(script.text) else None


def _unquoted(match: re.Match[str]) -> str:
    """Return a quoted part of a word without its quotes."""
    single, double, escaped = match.groups()
    if double is not None:
        return re.sub(r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], double)
    return single if single is not None else "" if escaped == "\n" else escaped


PLAIN = re.compile(r"-{0,2}[A-Za-z/_.](?:[-A-Za-z0-9/_.=+@]|:(?=[A-Za-z0-9/]))*|[0-9]+[KMGTP]i?")
"""Strings that need no quotes, unless YAML reads them as something else."""

NOT_STRINGS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])
"""Words that a version of YAML does not read as strings."""

MAX_FLOW = 100
"""The number of characters of a value that a hint shows."""


def flow(value: Any) -> str:
    """Return a value as YAML in flow style."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(name)}: {flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    is_plain = isinstance(value, str) and PLAIN.fullmatch(value) and not _is_special(value)
    return str(value) if is_plain or value == "…" else json.dumps(value, ensure_ascii=False)


def _is_special(text: str) -> bool:
    """Return True for what YAML reads as a boolean, null or number."""
    return bool(text.lower() in NOT_STRINGS or re.fullmatch(r"-?\.([0-9].*|inf|nan)", text.lower()))


def flow_words(text: str, *, command: bool) -> str:
    """Return a command line as the list that the field expects.

    Args:
        text: the command line.
        command: True if it starts with a program, so that a shell can run it.
    """
    text = text.strip()
    if command and needs_shell(text):
        shown = flow(["sh", "-c", text])
        return shown if len(shown) <= MAX_FLOW else '[sh, -c, "…"], with all of it as the last item'
    items = split(text) or text.split()
    shown = flow(items)
    return shown if len(shown) <= MAX_FLOW else f"{flow(items[:3])[:-1]}, …]"
