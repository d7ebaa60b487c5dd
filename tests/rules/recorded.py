"""Run mlgen, and record which rule found what."""

from contextlib import contextmanager

import mlgen
from mlgen import pipeline  # noqa: F401  # imports all rules
from mlgen.rules import Rules


@contextmanager
def recorded():
    """Yield a list that gets a pair for each finding of a rule: the rule and the finding."""
    found = []
    plain = Rules.broken_by

    def broken_by(self, subject):
        for rule in self.rules:
            for each in rule.check(subject):
                found.append((rule, each))
                yield each

    Rules.broken_by = broken_by
    try:
        yield found
    finally:
        Rules.broken_by = plain


def problems_of(text):
    """Return all problems of a job file, and the findings of rules; see `recorded`."""
    with recorded() as found:
        try:
            problems = mlgen.validate(text).warnings
        except mlgen.MlgenError as error:
            problems = error.problems
    return [str(each) for each in problems], found
