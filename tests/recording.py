"""Draws a session of a page, its commands and their output, as an animated SVG.

The picture contains no script, so that GitHub shows it. The whole session is visible at once for
readers who prefer reduced motion, and in programs without animation.
"""

from html import escape
from itertools import pairwise

from pages import DOCS, blocks

PAGE = DOCS / "tutorials/laptop.md"
COMMANDS = (
    "mlgen validate job.yaml",
    "mlgen render job.yaml | kubectl apply -f -",
    "mlgen logs job.yaml --follow",
)
"""The commands of the page in the recording, each with the output below it."""

PATH = DOCS / "images/session.svg"

WIDTH, LINE, CHARACTER, MARGIN = 78, 18, 7.8, 16
"""The number of columns, and in pixels: height of a line, width of a character, margin."""

SECONDS = {"command": 0.8, "output": 0.1, "end": 10.0}
"""Pauses after a command, after a line of output, and at the end."""

STYLE = """\
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d5d9e0; }
    .command { fill: #ffffff; font-weight: 600; }
    .prompt { fill: #7ee787; }
    @media (prefers-reduced-motion: no-preference) {
      .line { animation: SECONDSs infinite; }
"""


def draw(blocks: list[tuple[list[str], list[str]]]) -> str:
    """Return the SVG of a session: for each block, its commands and the lines that they print."""
    lines = [
        (kind, text[:WIDTH])
        for commands, output in blocks
        for kind, texts in (("command", commands), ("output", output))
        for text in texts
    ]
    starts, time = [], 0.0
    for kind, _ in lines:
        starts.append(time)
        time += SECONDS[kind]
    total = time + SECONDS["end"]
    width = round(WIDTH * CHARACTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    frames = "".join(
        f"      #l{number} {{ animation-name: k{number}; }}\n"
        f"      @keyframes k{number} {{ 0%, {start / total:.1%} {{ opacity: 0; }}"
        f" {start / total + 0.001:.1%}, 100% {{ opacity: 1; }} }}\n"
        for number, start in enumerate(starts)
        if number  # the first line is visible from the start
    )
    texts = "".join(
        f'  <text class="line {kind}" id="l{number}" x="{MARGIN}"'
        f' y="{MARGIN + (number + 1) * LINE - 5}" xml:space="preserve">'
        + ('<tspan class="prompt">$ </tspan>' if kind == "command" else "")
        + f"{escape(text)}</text>\n"
        for number, (kind, text) in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img">\n'
        f"  <style>\n{STYLE.replace('SECONDS', f'{total:g}')}{frames}    }}\n  </style>\n"
        f'  <rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n{texts}</svg>\n'
    )


def recording() -> str:
    """Return the SVG of the page's session. The tests of the page check its output."""
    shown, page = [], blocks(PAGE)
    for block, after in pairwise(page):
        if block.language == "sh" and block.lines()[-1] in COMMANDS:
            output = after.text.splitlines() if after.language == "text" else []
            lines = [line if line == "…" else line.rstrip("…") for line in output]
            lines = lines[lines[:1] == ["…"] :]  # the first lines are of no interest
            shown.append(([block.lines()[-1]], lines))
    return draw(shown)
