"""The text of a shell → the words of its commands."""

import re

WORD = (
    r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}"""
    r"""|[^\s;&|()<>'"\\`])+"""
)
TOKEN = rf"\\\n|[ \t\r]+|\#[^\n]*|(?P<end>[;&|()<>\n]+)|(?P<word>{WORD})"
QUOTED = r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)"""
"""Not compiled here, as few jobs need them."""


def simple_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command in a shell's text; quotes are removed.

    The rest of a text is left out where a quote has no end, as the shell rejects it.
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html#tag_18_09_01
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


def _unquoted(match: re.Match[str]) -> str:
    """Return a quoted part of a word without its quotes."""
    single, double, escaped = match.groups()
    if double is not None:
        return re.sub(r'\\([$`"\\\n])', lambda m: "" if m[1] == "\n" else m[1], double)
    return single if single is not None else "" if escaped == "\n" else escaped
