"""Roles and RoleBindings of a job → warnings of rights that reach further than the job."""

from collections.abc import Iterator
from typing import Any

from mlgen.checks.pods import ROLES, Objects
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import COMPONENT
from mlgen.problems import Problem

DEFAULT = "default"
"""The service account of all pods of a namespace that name no other:
https://kubernetes.io/docs/concepts/security/service-accounts/#default-service-accounts"""


def problems(job: Objects) -> Iterator[Problem]:
    """Return a warning for each Role that may create pods, and each that others have too."""
    for item in job.of_kind("Role").values():
        if any(map(creates_pods, item["rules"])):
            yield _warning(
                item,
                (),
                # https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation
                "creates pods, so it can read every Secret of its namespace and act as every"
                " service account in it",
                "run it in a namespace of its own",
            )
    for item in job.of_kind("RoleBinding").values():
        if any(subject["name"] == DEFAULT for subject in item.get("subjects", [])):
            yield _warning(
                item,
                ("serviceAccountName",),
                "has rights that go to all pods of the namespace that run as the account default",
                "remove it, so that mlgen adds an account for this role alone, or name another one",
            )


def creates_pods(rule: dict[str, Any]) -> bool:
    """Return True if a rule of a Role allows creating pods."""
    return "pods" in rule.get("resources", []) and "create" in rule["verbs"]


def _warning(item: Object, field: tuple[str, ...], message: str, hint: str) -> Problem:
    role = item["metadata"]["labels"].get(COMPONENT, "")
    return Problem((*ROLES, role, *field), f"{role} {message}", "rights", hint, warning=True)
