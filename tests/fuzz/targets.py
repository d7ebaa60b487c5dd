"""All targets, by name."""

from fuzz import of_documents, of_lines, of_runtime, of_texts  # noqa: F401 - they register their targets
from fuzz.checks import TARGETS

__all__ = ["TARGETS"]
