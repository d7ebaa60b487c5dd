"""Counts phrases in a page that make a reader stop: `python tests/words.py docs/*.md`.

Each line of output is a place and its pattern. The last line is the count per 10,000 words. Code
blocks, inline code, addresses of links and comments are ignored.
"""

import re
import sys
from pathlib import Path

PATTERNS = {
    "two sentences joined by a semicolon": r";",
    "a clause with 'what'": r"\b(?<!\?)[Ww]hat\b(?![^.?|\n]{0,120}\?)(?! if\b)",
    "'nothing' or 'nobody' as an actor": r"\b([Nn]othing|[Nn]obody|[Nn]o one)\b",
    "'decide'": r"\b[Dd]ecid(?:e|es|ed)\b|\b[Dd]eciding(?! Jobs?\b)",
    "an old word": (
        r"\b(anew|afresh|mends?|mended|mending|in silence|for ever|cures?|cured|rooms?|roads?"
        r"|whole of|lest|nor|thereby|thereof|hence)\b"
    ),
    "'who' for a program": r"\b[Ww]ho(ever|m|se)?\b",
    "'that of'": r"\b(that|those) of\b",
    "'go on'": r"\b(go|goes|went|going|gone) on\b",
    "'beside'": r"\bbeside\b",
    "a sentence that ends in 'too'": r",? too[.,)]",
    "a program that talks": (
        r"\b(asks?|asked|tells?|told|says?|said|knows?|knew)\b(?! you\b(?=.*\byourself\b))"
    ),
    "'has the' for contains": r"\b[Hh]a(?:s|ve) (?:the|all|each|every)\b",
    "'is that', 'are those'": r"\b(is that|are those|by which|of which|in which|for which)\b",
    "'come', 'stand' of things": r"\b(stands?|stood|comes? (of|from|to|with)|what comes)\b",
}
"""Patterns by their problem. They only list places. A person judges the sentences."""

_CODE = re.compile(r"^( *)(```|~~~).*?^\1\2$|<!--.*?-->|^---\n.*?\n---$", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """Return a page's text with code, addresses and comments blanked, on the same lines."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = _CODE.sub(blank, text)
    text = re.sub(r"(`+)[^`].*?\1", " ` ", text)
    return re.sub(r"\]\([^)]*\)|<[^>\n]*>|&\w+;", "]", text)


def found(text: str) -> list[tuple[int, str, str]]:
    """Return the line, the pattern and the words of each place."""
    text = prose(text)
    places = []
    for name, pattern in PATTERNS.items():
        for match in re.finditer(pattern, text):
            around = slice(max(0, match.start() - 30), match.end() + 30)
            number = text.count("\n", 0, match.start()) + 1
            places.append((number, name, " ".join(text[around].split())))
    return sorted(places)


def words(text: str) -> int:
    """Return the number of words in a page's prose."""
    return len(re.findall(r"[A-Za-z][\w'-]*", prose(text)))


def main() -> None:
    """Print the places in the files of the command line, and the rate over all of them."""
    total = places = 0
    for name in sys.argv[1:]:
        text = Path(name).read_text()
        total += words(text)
        for line, pattern, where in found(text):
            places += 1
            print(f"{name}:{line}: {pattern}: {where}")
    print(f"{places} in {total} words: {places * 10_000 / max(total, 1):.0f} per 10,000")


if __name__ == "__main__":
    main()
