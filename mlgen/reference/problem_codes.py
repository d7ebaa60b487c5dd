"""Problem codes: what each means, and an example of it. Each is a file in `codes/`.

Such a file is Markdown: what the code means, what to do about it, and the sections "Wrong" and
"Right". These have the example's files, its commands unless it is `mlgen render job.yaml`, and the
messages that it leads to, which `.ci/reference` writes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mlgen.problems import Code

FOLDER = Path(__file__).parent / "codes"

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMAND = "mlgen render job.yaml"


@dataclass(frozen=True)
class Example:
    """Files and commands.

    Attributes:
        files: texts by name.
        commands: lines of a shell.
        messages: what they print on stderr; "" for the right example.
    """

    files: Mapping[str, str]
    commands: str
    messages: str


@dataclass(frozen=True)
class Explanation:
    """A problem code.

    Attributes:
        meaning: when it is reported.
        remedy: what to do.
        wrong: an example for which it is reported.
        right: the same example without the problem.
    """

    code: str
    meaning: str
    remedy: str
    wrong: Example
    right: Example


def names() -> tuple[str, ...]:
    """Return all codes, sorted."""
    return get_args(Code)


def explanation(code: str) -> Explanation:
    """Return the explanation of a code."""
    text = (FOLDER / f"{code}.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("## Wrong\n")
    wrong, _, right = rest.partition("## Right\n")
    meaning, remedy = head.strip().split("\n\n", 1)
    return Explanation(code, meaning, remedy, _example(wrong), _example(right))


def _example(section: str) -> Example:
    """Return the example of a section."""
    blocks = BLOCK.findall(section)
    texts = {language: text.strip("\n") for language, _, text in blocks}
    return Example(
        files={title: text for _, title, text in blocks if title},
        commands=texts.get("sh", COMMAND),
        messages=texts.get("text", ""),
    )
