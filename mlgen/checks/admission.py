"""Objects of a job → what the API server rejects in them, each value at its place in the job file.

The rules are those of Kubernetes (mlgen/kubernetes/validation).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import Finding, role_path, title
from mlgen.kubernetes import validation
from mlgen.kubernetes.objects import Object, without_nulls
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation
from mlgen.problems import Problem, dotted

NAMES_CONTAINER = ("missing-image", "volume")
"""Codes of problems whose message says where they are."""


def findings(
    objects: Iterable[Object],
    kube_version: KubeVersion,
    job_file: Mapping[str, Any],
    *,
    written_only: bool = False,
) -> Iterator[Finding]:
    """Return the values of a job's objects that the API server rejects.

    Args:
        objects: of the job; one of those that are alike.
        kube_version: of the cluster.
        job_file: its data; empty if there is none.
        written_only: only values that are in the job file.
    """
    for item in objects:
        for violation in validation.violations(item, kube_version):
            path = path_in_job_file(job_file, item, violation.path)
            message = violation.message
            if path is None and written_only:
                continue
            if path is None and violation.code not in NAMES_CONTAINER:
                message = f"{title(item)}: {dotted(violation.path)}: {message}"
            hint = violation.hint + _other_container(item, violation)
            problem = Problem(path or role_path(item), message, violation.code, hint)
            yield Finding(item, violation.path, problem)


def _other_container(item: Object, violation: Violation) -> str:
    """Return how to make the only other container the training container, if that has no image."""
    if violation.code != "missing-image" or violation.path[-2:] != ("containers", 0):
        return ""
    others = [
        container["name"]
        for container in item["spec"]["template"]["spec"]["containers"][1:]
        if container.get("image")
    ]
    return f", or write mainContainer: {others[0]}" if len(others) == 1 else ""


def violations(item: Mapping[str, Any], kube_version: KubeVersion) -> Iterator[Violation]:
    """Return what the API server rejects in any object, as `mlgen verify` finds it.

    Values are checked only if the structure is right, because wrong types count as omitted.

    Args:
        item: the object.
        kube_version: of the cluster.
    """
    from mlgen.kubernetes import schema

    kind = str(item.get("kind"))
    wrong = list(schema.violations(kind, item, kube_version)) if schema.has_kind(kind) else []
    yield from wrong or validation.violations(without_nulls(item), kube_version)
