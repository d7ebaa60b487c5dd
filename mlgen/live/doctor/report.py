"""What the doctor prints: rows with a level, and what to do; and whom it asks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from mlgen.checks.pods import workloads
from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl, KubectlError
from mlgen.output.columns import columns
from mlgen.result import Rendered

Level = Literal["ok", "note", "warning", "missing"]
"""`note`: cannot be checked from here; `warning`: the job may have to wait, or may not run as
expected; `missing`: it cannot run."""


@dataclass(frozen=True)
class Row:
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


@dataclass(frozen=True)
class Section:
    """The rows about the cluster, or about one job."""

    title: str
    rows: tuple[Row, ...]


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
        return allowed(self.kubectl, *words, namespace=self.namespace)


def allowed(kubectl: Kubectl, *words: str, namespace: str | None = None) -> list[Object] | None:
    """Return objects; None if the rights do not allow to read them.

    Raises:
        KubectlError: kubectl fails otherwise.
    """
    try:
        return kubectl.objects(*words, namespace=namespace)
    except KubectlError as error:
        if error.cause != "forbidden":
            raise
        return None


def page(sections: Sequence[Section]) -> str:
    """Return what `mlgen doctor` prints."""
    parts = []
    for section in sections:
        rows = [
            (each.level, each.subject, ": ".join(filter(None, (each.text, each.hint))))
            for each in section.rows
        ]
        parts.append("\n".join([section.title, *columns(rows, "  ")]))
    return "\n\n".join(parts) + "\n"


def shown(amount: Decimal) -> str:
    """Return an amount without trailing zeros or an exponent."""
    return f"{amount.normalize():f}"


def has_missing(sections: Iterable[Section]) -> bool:
    """Return whether something is missing."""
    return any(each.level == "missing" for section in sections for each in section.rows)


def pod_templates(rendered: Rendered) -> list[tuple[str, Object]]:
    """Return the kind and name of each workload, with its pod template."""
    return [
        (f"{item['kind']} {name}", item["spec"]["template"])
        for name, item in workloads(rendered.objects).items()
    ]
