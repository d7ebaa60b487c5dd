"""Documents → warnings that depend on other documents.

Training kinds that mlgen does not render, and claims that the pods of a job cannot share.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mlgen.checks._facts import in_job_file
from mlgen.checks.pods import Objects, items_of
from mlgen.checks.storage import shared_claims
from mlgen.documents.document import Document
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.kubernetes.objects import Object
from mlgen.problems import Problem
from mlgen.resources import table

OPERATORS = table("checks/operators")
OTHER = {
    "runs": "its operator",
    "else": "to run without an operator, write a job file: see mlgen frameworks",
}
"""The row of a kind that is not in the table."""


class Trainings(NamedTuple):
    """The training objects and claims of a document, and the kinds that it defines."""

    warnings: tuple[tuple[str, Problem], ...] = ()
    """One for each object that requires an operator, with its group and kind."""
    defined: tuple[str, ...] = ()
    """The groups and kinds of its CustomResourceDefinitions."""
    shared: tuple[tuple[str, Problem], ...] = ()
    """One for each claim that several pods of a job use, with its namespace and name."""
    single: tuple[str, ...] = ()
    """The namespaces and names of claims that only the pods of one node can use."""


def shared(job: str, objects: Sequence[Object], document: Document) -> Trainings:
    """Return the claims that several pods of a job use.

    Args:
        job: the name of the job.
        objects: its objects.
        document: its job file.
    """
    found = shared_claims(Objects(job, objects, alike=True))
    claims = (
        (_name_of_claim(name, each.item), document.located(in_job_file(each, document.data)))
        for name, each in found
    )
    return Trainings(shared=tuple(claims))


def _name_of_claim(name: str, item: Object) -> str:
    return f"{item['metadata'].get('namespace') or ''}/{name}"


def trainings(document: Document) -> Trainings:
    """Return the training kinds in a document that is not a job."""
    warnings: list[tuple[str, Problem]] = []
    defined, single = list[str](), list[str]()
    for path, item in items_of(document.data):
        if not isinstance(item, dict):
            continue
        spec = item.get("spec")
        if item.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            kind = names.get("kind") if isinstance(names, dict) else None
            defined.append(f"{spec.get('group')}/{kind}")
        metadata = item.get("metadata")
        if item.get("kind") == "PersistentVolumeClaim" and isinstance(metadata, dict):
            claim = spec if isinstance(spec, dict) else {}
            modes, is_static = claim.get("accessModes"), "volumeName" in claim
            if modes in (["ReadWriteOnce"], ["ReadWriteOncePod"]) and not is_static:
                single.append(_name_of_claim(str(metadata.get("name")), item))
        kind = group_kind(item)[1]
        name = "/".join(group_kind(item))
        is_job = kind.endswith("Job") and not is_built_in(str(item.get("apiVersion")))
        row = OPERATORS.get(name, OTHER if is_job else {})
        if row:
            message = f"mlgen passes the {kind} through unchanged; only {row['runs']} can run it"
            problem = Problem((*path, "kind"), message, "not-run", row["else"], warning=True)
            warnings.append((name, document.located(problem)))
    return Trainings(tuple(warnings), tuple(defined), single=tuple(single))


def across(found: Sequence[Trainings]) -> list[Problem]:
    """Return the warnings that depend on several documents.

    If the definition of a training kind is among the objects, its operator is assumed to be
    installed.
    """
    defined = {kind for each in found for kind in each.defined}
    single = {claim for each in found for claim in each.single}
    return [
        *(warning for each in found for kind, warning in each.warnings if kind not in defined),
        *(warning for each in found for claim, warning in each.shared if claim in single),
    ]
