"""Explanations of problem codes. Each is a Markdown file in `codes/`.

A file contains the meaning of the code, the fix, and the sections "Wrong" and "Right". Each section
contains the files of an example, its commands (default: `mlgen render job.yaml`), and its messages,
which `.ci/reference` writes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mlgen.jobfile.validation import EXCUSABLE_ERRORS
from mlgen.problems import Code

FOLDER = Path(__file__).parent / "codes"

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMAND = "mlgen render job.yaml"


@dataclass(frozen=True)
class Example:
    """An example: files and commands.

    Attributes:
        files: texts by file name.
        commands: shell commands, one per line.
        messages: their output on stderr. "" for the right example.
    """

    files: Mapping[str, str]
    commands: str
    messages: str


@dataclass(frozen=True)
class Explanation:
    """The explanation of a problem code.

    Attributes:
        meaning: the condition that the code reports.
        remedy: the fix.
        wrong: an example with the problem.
        right: the same example without the problem.
    """

    code: str
    meaning: str
    remedy: str
    wrong: Example
    right: Example

    @property
    def excusable(self) -> bool:
        """True if a job can excuse problems of the code: errors about programs, and warnings."""
        return self.code in EXCUSABLE_ERRORS or "warning" in self.meaning.lower()


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
