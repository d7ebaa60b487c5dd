"""What the doctor prints: rows with a level, and what to do; and whom it asks.

The rows are those of `schemas/kubernetes/doctor.json`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.output.columns import columns
from mlgen.resources import table
from mlgen.result import Rendered

DATA: dict[str, Any] = table("kubernetes/doctor")


class Row(NamedTuple):
    """A fact about the cluster.

    Attributes:
        level: ok, note, warning or missing.
        subject: what was checked: `Secret bert-keys`.
        text: what was found, and what to do about it: a command, or a sentence.
    """

    level: str
    subject: str
    text: str


Section = tuple[str, list[Row]]
"""The rows about the cluster, or about one job, under a title."""


@dataclass(frozen=True)
class Patient:
    """A job, and how to ask the cluster about it.

    Attributes:
        rendered: the job.
        kubectl: asks the cluster.
        namespace: of the job, or of kubectl's context.
        exists: False if the namespace does not exist.
        served: the resources of the API server, with their groups: `jobs.batch`.
    """

    rendered: Rendered
    kubectl: Kubectl
    namespace: str
    exists: bool
    served: frozenset[str]

    def objects(self, *words: str) -> list[Object] | None:
        """Return objects of the namespace; None if the rights do not allow to read them."""
        return self.kubectl.readable(*words, namespace=self.namespace)


def row(key: str, /, **values: object) -> Row:
    """Return a row of the table with its values; one without a hint ends before the colon."""
    level, subject, text = DATA["rows"][key]
    return Row(level, subject.format(**values), text.format(**values).removesuffix(": "))


def page(sections: Sequence[Section]) -> str:
    """Return what `mlgen doctor` prints."""
    tables = ["\n".join([title, *columns(rows, "  ")]) for title, rows in sections]
    return "\n\n".join(tables) + "\n"


def has_missing(sections: Iterable[Section]) -> bool:
    """Return whether something is missing."""
    return any(each.level == "missing" for _, rows in sections for each in rows)
