"""Errors that are detected only in a job's objects: pod templates, number and size."""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby

from mlgen.bounds import JOB_BYTES, JOB_OBJECTS
from mlgen.kubernetes.objects import Object
from mlgen.problems import Code, MlgenError, Problem, ValuePath
from mlgen.topology import Role


def template_error(role: Role, message: str, code: Code, hint: str = "") -> MlgenError:
    """Return an error located at a role's pod template."""
    path = ("spec", "roles", role.spec.name, "template")
    return MlgenError([Problem(path, message, code, hint)])


MATRIX: ValuePath = ("spec", "matrix")


def bytes_of(items: Iterable[Object]) -> int:
    """Return the approximate size of objects in a manifest, in bytes."""
    return sum(len(json.dumps(item, ensure_ascii=False)) for item in items)


def require_workloads(workloads: Sequence[tuple[Role, Object]]) -> None:
    """Check the total size of a job's workloads, assuming that a role's workloads are alike.

    Raises:
        MlgenError: the workloads are too large.
    """
    size = 0
    for _, group in groupby(workloads, key=lambda pair: pair[0].name):
        of_role = [item for _, item in group]
        size += bytes_of(of_role[-1:]) * len(of_role)
    if size > JOB_BYTES:
        message = (
            f"the {len(workloads):,} workloads of the job have {size >> 20:,} MiB together, the"
            f" limit is {JOB_BYTES >> 20} MiB"
        )
        hint = "put large files that many replicas read into a volume, or use fewer replicas"
        raise MlgenError([Problem(("spec", "roles"), message, "too-large", hint)])


def require_combinations(count: int, objects: Sequence[Object]) -> None:
    """Check the total number and size of the objects of all combinations of a matrix.

    Args:
        count: the number of combinations.
        objects: the objects of one combination.

    Raises:
        MlgenError: there are too many objects, or they are too large.
    """
    total = count * len(objects)
    size = count * bytes_of(objects) if total <= JOB_OBJECTS else 0
    if total > JOB_OBJECTS or size > JOB_BYTES:
        what = f"{total:,} objects" if total > JOB_OBJECTS else f"{size >> 20:,} MiB"
        limit = f"{JOB_OBJECTS:,} objects" if total > JOB_OBJECTS else f"{JOB_BYTES >> 20} MiB"
        message = f"the {count:,} combinations have {what} together, the limit is {limit}"
        raise MlgenError([Problem(MATRIX, message, "too-large", "use fewer values")])
