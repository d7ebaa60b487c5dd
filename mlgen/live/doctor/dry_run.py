"""Whether the API server accepts the objects of a job: its validation, quotas and policies.

https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

import re
import shlex
from collections.abc import Iterator

from mlgen.live.doctor.findings import Finding, Patient
from mlgen.live.kubectl import Outcome, listed
from mlgen.live.reasons import shortened
from mlgen.output.next_steps import file_argument

SUBJECT = "dry run"

REPORTED = (
    "no matches for kind",
    "is forbidden: User ",
    "is attempting to grant RBAC permissions",
    '.rbac.authorization.k8s.io "',
)
"""In errors that have a row already: kinds and rights that are missing, and the binding of a Role
that is not there, because a dry run does not create it."""

IMMUTABLE = "field is immutable"


def dry_run(patient: Patient) -> Iterator[Finding]:
    """Yield the errors with which the API server would reject objects of a job."""
    words = ("apply", "--dry-run=server", "-f", "-")
    objects = listed(patient.rendered.objects)
    outcome = patient.kubectl.outcome(*words, namespace=patient.namespace, stdin=objects)
    if not outcome.status:
        yield Finding("ok", SUBJECT, "the API server accepts all objects")
        return
    for error in _errors(outcome):
        if IMMUTABLE in error:
            cure = shlex.join(["mlgen", "diff", "--live", file_argument(patient.rendered.file)])
            text = "the job is in the cluster, with fields that cannot change"
            yield Finding("warning", SUBJECT, text, cure)
        else:
            yield Finding("missing", SUBJECT, shortened(error))


def _errors(outcome: Outcome) -> list[str]:
    """Return the errors of kubectl that have no other row, each once."""
    starts = r"(?m)^(?=Error from server|error: |The \w+ \")"
    found = [each.strip() for each in re.split(starts, outcome.stderr)]
    errors = [each for each in found if each and not each.startswith("Warning: ")]
    return list(dict.fromkeys(each for each in errors if not any(x in each for x in REPORTED)))
