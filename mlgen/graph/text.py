"""The width of texts, without a browser.

The widths are those of DejaVu Sans, one of the widest fonts that a browser may fall back on, in
thousandths of the font's size. In Helvetica, Arial or Segoe UI, a text takes about a tenth less.
"""

NARROW = dict.fromkeys("ijl|'", 280) | dict.fromkeys(" .,:;!/\\I()[]", 390)
WIDE = dict.fromkeys("mwMW@%", 975) | {"…": 1000, "—": 1000}
BOLD = 1.06
"""By which bold letters are wider."""

UPPER, DIGIT, OTHER = 730, 640, 620


def width(text: str, size: float) -> float:
    """Return the width of a text in a font of a size, in the unit of the size."""
    return sum(map(_width, text)) * size / 1000


def _width(character: str) -> int:
    if character in NARROW:
        return NARROW[character]
    if character in WIDE:
        return WIDE[character]
    if character.isupper():
        return UPPER
    return DIGIT if character.isdigit() else OTHER if character.isascii() else 1000


def shortened(text: str, size: float, limit: float) -> str:
    """Return a text that is at most so wide; of a longer one, the middle is left out."""
    if width(text, size) <= limit:
        return text
    for kept in range(len(text) - 1, 0, -1):
        short = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if width(short, size) <= limit:
            return short
    return "…"
