"""A text → the same text, safe for a terminal: nothing in it hides, reorders or overwrites."""

import re

UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters of terminals, and those that hide or reorder text (Unicode, UAX 9)."""

SHORT = {"\t": " ", "\n": r"\n", "\r": r"\r"}
"""What stands for the most frequent of them."""


def safe(text: str) -> str:
    r"""Return a text on one line, with escapes such as `\x1b` for the characters not safe."""
    return text if text.isprintable() else UNSAFE.sub(_visible, text)


def safe_lines(text: str) -> str:
    """Return the lines of a text, each of them safe."""
    return "\n".join(map(safe, text.split("\n")))


def safe_json(text: str) -> str:
    r"""Return JSON with escapes such as `\u202e` within its strings; it stays the same value."""
    return UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else _unit(found[0]), text)


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    unit = f"\\x{ord(character):02x}" if character <= "\xff" else _unit(character)
    return SHORT.get(character, unit)


def _unit(character: str) -> str:
    return f"\\u{ord(character):04x}"
