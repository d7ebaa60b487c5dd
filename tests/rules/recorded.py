"""Run mlgen, and record which rule found what."""

from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from mlgen import pipeline
from mlgen.documents.files import Text
from mlgen.problems import Problem
from mlgen.result import Options
from mlgen.rules import Rule, Rules

FILE = "job.yaml"


class Finding(NamedTuple):
    """What a rule found, and the line of its source that found it."""

    rule: Rule
    line: int
    message: str


class Outcome(NamedTuple):
    """The problems of a text as users see them, and all findings of rules."""

    problems: tuple[Problem, ...]
    findings: list[Finding]

    def by(self, rule):
        """Return the problems that a rule found, without those that the job excuses."""
        messages = {each.message for each in self.findings if each.rule is rule}
        return [problem for problem in self.problems if problem.message in messages]


@contextmanager
def recorded():
    """Yield a list to which each finding of a rule is added."""
    findings = []
    plain = Rules.broken_by

    def broken_by(self, subject):
        for rule in self.rules:
            found = iter(rule.check(subject) if rule.applies(subject) else ())
            for each in found:
                # A generator that has yielded stands at the line of its `yield`.
                line = found.gi_frame.f_lineno if hasattr(found, "gi_frame") else 0
                message = getattr(each, "problem", each).message
                findings.append(Finding(rule, line, message))
                yield each

    Rules.broken_by = broken_by
    try:
        yield findings
    finally:
        Rules.broken_by = plain


@cache
def outcome(text, name=FILE):
    """Return the outcome of a job file or of other documents. Each text is validated once."""
    with recorded() as findings:
        result = pipeline.attempt([Text(name, text)], Options())
    return Outcome(tuple(result.problems), findings)
