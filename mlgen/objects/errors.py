"""Errors in the pod template of a user."""

from mlgen.problems import Code, MlgenError, Problem
from mlgen.topology import Role


def template_error(role: Role, message: str, code: Code, hint: str = "") -> MlgenError:
    """Return an error at the pod template of a role."""
    path = ("spec", "roles", role.spec.name, "template")
    return MlgenError([Problem(path, message, code, hint)])
