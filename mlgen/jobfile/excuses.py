"""Annotations with which a job excuses problems: `mlgen.dev/allow.launch: "reason"`.

Every warning can be excused. Of the errors, only those about programs can be excused, because they
depend on facts outside the job file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import get_args

from mlgen.documents.document import Document
from mlgen.problems import Code, Problem, ValuePath, choice

PREFIX = "mlgen.dev/allow."
ANNOTATIONS: ValuePath = ("metadata", "annotations")

EXCUSABLE_ERRORS = ("exit-code", "launch", "never-ends", "no-such-peer", "port")
"""The codes of errors about programs. All other errors are rules of mlgen or of the API server."""


def unexcused(document: Document, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a job that its annotations do not excuse.

    Args:
        document: a TrainingJob that matches the schema.
        problems: its problems.
    """
    allowed = _reasons(document)
    for problem in problems:
        if problem.code not in allowed:
            yield problem
        elif not problem.warning and problem.code not in EXCUSABLE_ERRORS:
            note = f"{PREFIX}{problem.code} excuses only warnings"
            yield replace(problem, hint=f"{problem.hint}; {note}" if problem.hint else note)


def invalid_excuses(document: Document) -> Iterator[Problem]:
    """Yield the problems of the annotations themselves: an unknown code, or no reason."""
    for code, reason in _reasons(document).items():
        path = (*ANNOTATIONS, PREFIX + code)
        if code not in get_args(Code):
            hint = choice(code, get_args(Code))
            yield Problem(path, f'there is no problem code "{code}"', "unknown-value", hint)
        elif not reason.strip():
            message, hint = "the reason is missing", "write why the job is right"
            yield Problem(path, message, "missing-field", hint)


def _reasons(document: Document) -> dict[str, str]:
    """Return the reason of each excused code."""
    annotations = document.data["metadata"].get("annotations", {})
    return {
        name.removeprefix(PREFIX): reason
        for name, reason in annotations.items()
        if name.startswith(PREFIX)
    }
