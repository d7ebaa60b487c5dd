"""Adapters for other tools, one module per tool.

Each passes its tool's input to `mlgen.pipeline`, and returns the output that the tool expects.
"""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mlgen.problems import Problem


class Manifests(NamedTuple):
    """The output for a tool.

    Attributes:
        parts: parts of YAML.
        warnings: all warnings.
    """

    parts: Iterator[str]
    warnings: tuple[Problem, ...]


def file_type(path: str) -> int:
    """Return the type of a file, such as `stat.S_IFIFO`; 0 if it cannot be found or read."""
    try:
        return stat.S_IFMT(Path(path).stat().st_mode)
    except OSError:
        return 0
