"""Objects other than jobs → warnings about training kinds that mlgen does not render."""

from collections.abc import Sequence
from typing import NamedTuple

from mlgen.checks.pods import items_of
from mlgen.documents.document import Document
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.problems import Problem
from mlgen.resources import table

OPERATORS = table("checks/operators")
OTHER = {
    "runs": "its operator",
    "else": "to run without an operator, write a job file: see mlgen frameworks",
}
"""The row of a kind that is not in the table."""


class Trainings(NamedTuple):
    """The training objects of a document, and the kinds that it defines."""

    warnings: tuple[tuple[str, Problem], ...] = ()
    """One for each object that requires an operator, with its group and kind."""
    defined: tuple[str, ...] = ()
    """The groups and kinds of its CustomResourceDefinitions."""


def trainings(document: Document) -> Trainings:
    """Return the training kinds in a document that is not a job."""
    warnings: list[tuple[str, Problem]] = []
    defined: list[str] = []
    for path, item in items_of(document.data):
        if not isinstance(item, dict):
            continue
        spec = item.get("spec")
        if item.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            kind = names.get("kind") if isinstance(names, dict) else None
            defined.append(f"{spec.get('group')}/{kind}")
        kind = group_kind(item)[1]
        name = "/".join(group_kind(item))
        is_job = kind.endswith("Job") and not is_built_in(str(item.get("apiVersion")))
        row = OPERATORS.get(name, OTHER if is_job else {})
        if row:
            message = f"mlgen passes the {kind} through unchanged; only {row['runs']} can run it"
            problem = Problem((*path, "kind"), message, "not-run", row["else"], warning=True)
            warnings.append((name, document.located(problem)))
    return Trainings(tuple(warnings), tuple(defined))


def not_run(found: Sequence[Trainings]) -> list[Problem]:
    """Return the warnings about objects without their operator's CustomResourceDefinition.

    If the definition is among the objects, the operator is assumed to be installed.
    """
    defined = {kind for each in found for kind in each.defined}
    return [warning for each in found for kind, warning in each.warnings if kind not in defined]
