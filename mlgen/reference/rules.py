"""Rules by name and code, and the problems of their examples."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from textwrap import indent
from typing import Any

from mlgen import frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.problems import Problem
from mlgen.resources import prepared
from mlgen.result import Options
from mlgen.rules import Rule, Rules, job_file

AnyRule = Rule[Any, Any]

WITHOUT_TEXTS = sys.flags.optimize > 1
"""True if Python omits docstrings, which are the texts of rules."""


def named() -> dict[str, AnyRule]:
    """Return all rules by name, sorted."""
    for name in frameworks.names():  # the pipeline imports all other modules with rules
        import_module(f"{frameworks.__name__}.{name}")
    return {rule.name: rule for rule in sorted(Rules.every, key=lambda rule: rule.name)}


def by_subject() -> list[AnyRule]:
    """Return all rules, sorted by subject and name."""
    return sorted(named().values(), key=lambda rule: rule.subject)


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
