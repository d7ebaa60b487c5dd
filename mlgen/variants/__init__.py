"""Variants of a job for a certain use: a name with a hash, a workflow, a JobSet, a GitOps tool."""

from mlgen.problems import Problem


def conflict(path: tuple[str, ...], message: str, hint: str) -> Problem:
    """Return the warning that a field of `spec` conflicts with the variant."""
    return Problem(("spec", *path), message, "combination", hint, warning=True)
