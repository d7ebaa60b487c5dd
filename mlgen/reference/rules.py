"""Rules and problem codes, with their texts and examples.

The explanation of a code is a Markdown file in `codes/`. A file contains the meaning of the code,
the fix, and the sections "Wrong" and "Right". Each section contains the files of an example, its
commands (default: `mlgen render job.yaml`), and its messages, which `.ci/reference` writes.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple, get_args

from mlgen import frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.jobfile.validation import EXCUSABLE_ERRORS
from mlgen.problems import Code, Problem
from mlgen.resources import prepared
from mlgen.result import Options
from mlgen.rules import Rule, Rules, job_file

AnyRule = Rule[Any, Any]

WITHOUT_TEXTS = sys.flags.optimize > 1
"""True if Python omits docstrings, which are the texts of rules."""


def by_name() -> dict[str, AnyRule]:
    """Return all rules by name, sorted."""
    for name in frameworks.names():  # the pipeline imports all other modules with rules
        import_module(f"{frameworks.__name__}.{name}")
    return {rule.name: rule for rule in sorted(Rules.every, key=lambda rule: rule.name)}


def by_subject() -> list[AnyRule]:
    """Return all rules, sorted by subject and name."""
    return sorted(by_name().values(), key=lambda rule: rule.subject)


def by_code() -> Mapping[str, list[str]]:
    """Return the names of the rules of each code, from the wheel or `computed`."""
    part = prepared("rules")
    found: Mapping[str, list[str]] = computed() if part is None else part.BY_CODE
    return found


@cache
def computed() -> dict[str, list[str]]:
    """Return the names of the rules of each code.

    A rule has the codes of its wrong examples. To run those of all rules takes seconds.
    """
    found: dict[str, list[str]] = {}
    for rule in by_subject():
        for code in dict.fromkeys(problem.code for problem in problems_of(rule)):
            found.setdefault(code, []).append(rule.name)
    return found


def problems_of(rule: AnyRule) -> list[Problem]:
    """Return the problems of the wrong examples of a rule."""
    return [problem for example in rule.texts.wrong for problem in problems(example)]


@cache
def problems(example: str) -> list[Problem]:
    """Return the problems of an example, without places: a reader sees only a part of it."""
    found = pipeline.attempt([Text("job.yaml", job_file(example))], Options()).problems
    return [replace(problem, place=None) for problem in found]


def shown(example: str) -> str:
    """Return an example as YAML: `spec` of a job file, or a complete document."""
    return example if example.startswith("apiVersion:") else f"spec:\n{indent(example, '  ')}"


FOLDER = Path(__file__).parent / "codes"

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMAND = "mlgen render job.yaml"


class Example(NamedTuple):
    """An example: files and commands.

    Attributes:
        files: texts by file name.
        commands: shell commands, one per line.
        messages: their output on stderr. "" for the right example.
    """

    files: Mapping[str, str]
    commands: str
    messages: str


class Explanation(NamedTuple):
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


def codes() -> tuple[str, ...]:
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
