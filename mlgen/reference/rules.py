"""Rules by name and by code, and the problems of their examples, for `mlgen explain` and `docs/`."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from textwrap import indent
from typing import Any

from mlgen import frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.problems import Problem
from mlgen.result import Options
from mlgen.rules import Rule, Rules, job_file

AnyRule = Rule[Any, Any]


def named() -> dict[str, AnyRule]:
    """Return all rules by name."""
    for name in frameworks.names():  # the pipeline imports all other modules with rules
        import_module(f"{frameworks.__name__}.{name}")
    return {rule.name: rule for rule in Rules.every}


def by_code() -> dict[str, list[AnyRule]]:
    """Return the rules of each code. A rule has the codes of its wrong examples, which are run."""
    found: dict[str, list[AnyRule]] = {}
    for rule in sorted(named().values(), key=lambda rule: (rule.subject, rule.name)):
        for code in dict.fromkeys(each.code for each in problems_of(rule)):
            found.setdefault(code, []).append(rule)
    return found


def problems_of(rule: AnyRule) -> Iterator[Problem]:
    """Yield the problems of the wrong examples of a rule."""
    for example in rule.texts.wrong:
        yield from problems(example)


@cache
def problems(example: str) -> list[Problem]:
    """Return the problems of an example, without places, because a reader sees only a part of it."""
    found = pipeline.attempt([Text("job.yaml", job_file(example))], Options()).problems
    return [replace(problem, place=None) for problem in found]


def shown(example: str) -> str:
    """Return an example as YAML: `spec` of a job file, or a complete document."""
    return example if example.startswith("apiVersion:") else f"spec:\n{indent(example, '  ')}"
