"""The output of `mlgen doctor`: rows with a level, a subject and a hint.

The texts are in `schemas/kubernetes/doctor.json`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.output.terminal import columns
from mlgen.resources import table
from mlgen.result import Rendered

DATA: dict[str, Any] = table("kubernetes/doctor")


class Row(NamedTuple):
    """The result of one check.

    Attributes:
        level: ok, note, warning or missing.
        subject: the checked object or program: `Secret bert-keys`.
        text: the result, and a hint: a command or a sentence.
    """

    level: str
    subject: str
    text: str


Section = tuple[str, list[Row]]
"""A title, and the rows about the cluster or one job."""


@dataclass(frozen=True)
class Patient:
    """A job, and access to its cluster and namespace.

    Attributes:
        rendered: the job.
        kubectl: reads the cluster.
        namespace: the job's namespace, or else the namespace of kubectl's context.
        exists: False if the namespace does not exist.
        served: the API server's resources with their groups: `jobs.batch`.
    """

    rendered: Rendered
    kubectl: Kubectl
    namespace: str
    exists: bool
    served: frozenset[str]

    def objects(self, *words: str) -> list[Object] | None:
        """Return objects of the namespace; None if the user may not read them."""
        return self.kubectl.readable(*words, namespace=self.namespace)


def row(key: str, /, **values: object) -> Row:
    """Return a row of `doctor.json` with its values. Without a hint, the colon is omitted."""
    level, subject, text = DATA["rows"][key]
    return Row(level, subject.format(**values), text.format(**values).removesuffix(": "))


def page(sections: Sequence[Section]) -> str:
    """Return the output of `mlgen doctor`."""
    tables = ["\n".join([title, *columns(rows, "  ")]) for title, rows in sections]
    return "\n\n".join(tables) + "\n"


def has_missing(sections: Iterable[Section]) -> bool:
    """Return whether a row has the level `missing`."""
    return any(each.level == "missing" for _, rows in sections for each in rows)
