"""What the doctor prints: rows with a level, and what to do; and whom it asks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.output.columns import columns
from mlgen.result import Rendered

Level = Literal["ok", "note", "warning", "missing"]
"""`note`: cannot be checked from here; `warning`: the job may have to wait, or may not run as
expected; `missing`: it cannot run."""

UNREADABLE = "cannot be read with your rights"


class Row(NamedTuple):
    """A fact about the cluster.

    Attributes:
        subject: what was checked: `Secret bert-keys`.
        text: what was found.
        hint: what to do about it: a command, or a sentence.
    """

    level: Level
    subject: str
    text: str = ""
    hint: str = ""


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


def page(sections: Sequence[Section]) -> str:
    """Return what `mlgen doctor` prints."""
    parts = []
    for title, rows in sections:
        cells = [(each[0], each[1], ": ".join(filter(None, each[2:]))) for each in rows]
        parts.append("\n".join([title, *columns(cells, "  ")]))
    return "\n\n".join(parts) + "\n"


def has_missing(sections: Iterable[Section]) -> bool:
    """Return whether something is missing."""
    return any(each.level == "missing" for _, rows in sections for each in rows)
