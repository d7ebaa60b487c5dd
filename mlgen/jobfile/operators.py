"""Labels, annotations, variables and files that operators give to pods, and mlgen does not.

`schemas/resources/operator_pods.json` contains them. Its columns:

    operators: by the name of an operator:
        labels: a pattern of labels and annotations that it sets.
        fields: the meaning of these: `job`, `role`, `index`, `namespace` or `queue`.
        selected: the meaning of those that only selectors can use, because their value in a pod
            has no equal here: `job`, `role` or `job and role`.
        variables: patterns of variables, with the fix.
        files: patterns of files, with the fix.
    selectors: by kind, the paths of its selectors of pods. `*` is any item of a list.
    own: a pattern of labels that only mlgen and the Job controller set.
    token: a pattern of texts that read the token of the pod's service account.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from mlgen.jobfile.model import RoleSpec
from mlgen.resources import table

OPERATORS: Mapping[str, Any] = table("resources/operator_pods")["operators"]


def _meanings(column: str) -> dict[str, str]:
    rows = (row.get(column, {}) for row in OPERATORS.values())
    return {key: meaning for row in rows for key, meaning in row.items()}


FIELDS = _meanings("fields")
"""The meaning of labels and annotations that a pod can read."""

SELECTED = FIELDS | _meanings("selected")
"""The meaning of labels in a selector."""

OF_PODS = re.compile(r"metadata\.(labels|annotations)\['([^'\]]*)'\]")
"""The path of a label or annotation in `fieldRef`."""

TOKEN: str = table("resources/operator_pods")["token"]


SELECTORS: Mapping[str, Sequence[str]] = table("resources/operator_pods")["selectors"]


@lru_cache(maxsize=256)
def operator_of(label: str) -> str:
    """Return the operator that sets a label or annotation; "" if none does."""
    rows = OPERATORS.items()
    found = (name for name, row in rows if label in row.get("fields", ()) or _like(row, label))
    return next(found, "")


def _like(row: Mapping[str, Any], label: str) -> bool:
    return re.fullmatch(row["labels"], label) is not None


def is_of_job(label: str) -> bool:
    """Return True for a label that only the pods of a job have."""
    own = re.fullmatch(table("resources/operator_pods")["own"], label)
    return own is not None or operator_of(label) != ""


def hints(column: str) -> Iterator[tuple[str, str, str]]:
    """Yield each operator, and the patterns and fixes in its column `variables` or `files`."""
    for name, row in OPERATORS.items():
        yield from ((name, pattern, fix) for pattern, fix in row.get(column, {}).items())


def distinguishes(spec: RoleSpec) -> bool:
    """Return True if the pods of a role read their role, or an operator's label with their index.

    They read the role from an operator's label, or from their own name.
    """
    parts = (spec.env, spec.templates, spec.init_containers, spec.preflight)
    text = json.dumps((*parts, spec.command, spec.args), default=str)
    read = (FIELDS.get(key) in ("role", "index") for _, key in OF_PODS.findall(text))
    return any(read) or re.search(TESTS_ROLE, text) is not None


TESTS_ROLE = (
    r"(HOSTNAME|hostname|POD_NAME)\b[^\n]{0,9}(=|\bin\b|\bgrep\b)[^\n]{0,20}(master|worker)"
)
"""A test of a pod's name for its role, in a shell."""
