"""The archive with the program of the supervisor, or of the step of an Argo workflow.

It has only the modules of `mlgen/runtime` that a job needs, and the same bytes on every machine.
Therefore `source` is compressed with bzip2, whose compressor has not changed since 2010: the output
of zlib differs between its implementations.
"""

import io
import re
import zipfile
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from mlgen.resources import PACKAGE
from mlgen.version import VERSION

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan

RUNTIME = PACKAGE / "runtime"
PATH = "mlgen/runtime"

FEATURES = {"port": ("server",), "in_place": ("gate", "in_place"), "progress": ("reports", "stall")}
"""The modules that are imported only if a field of the plan is set."""

FILE = "supervisor.pyz"
FOLDER = "/mlgen"
"""The key of the archive in its ConfigMap, and the folder in which it is mounted."""

IMPORT = re.compile(r"^from mlgen\.runtime(?:\.(\w+) import | import (.+)$)", re.MULTILINE)
"""An import at the top of a module of the program."""

DOCSTRING = re.compile(r'^( *)"""(?:[^"]|"(?!""))*"""$', re.MULTILINE)
COMMENT = re.compile(r"(?:^|  )# .*$", re.MULTILINE)
"""A docstring and a comment in the program. It has no other texts of these forms: a test compares
the syntax trees."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time in a zip."""


def archive(job_plan: "Plan", *, step: bool = False) -> bytes:
    """Return the archive for a plan.

    Args:
        job_plan: the plan.
        step: the archive is for the step of an Argo workflow.
    """
    used = [name for field, names in FEATURES.items() if getattr(job_plan, field) for name in names]
    return _archive("step" if step else "supervise", tuple(used))


def name(content: bytes) -> str:
    """Return the value of the annotation of an archive, which this mlgen has built.

    It names a version and a SHA-256 as the reference of a container image does.
    """
    return f"mlgen:{VERSION}@sha256:{sha256(content).hexdigest()}"


@cache
def _archive(start: str, others: tuple[str, ...]) -> bytes:
    names = dict.fromkeys([start, *sorted(_needed([start, *others]))])
    source = "".join(f"\f{PATH}/{name}.py\n{_stripped(name)}" for name in names)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text, method in (
            ("__main__.py", _stripped("__main__"), zipfile.ZIP_STORED),
            ("source", source, zipfile.ZIP_BZIP2),
        ):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Linux
            file.writestr(entry, text, method, 9)
    return content.getvalue()


def _needed(names: Iterable[str]) -> set[str]:
    """Return the modules that some modules import when they are imported."""
    found, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _imports(name)
    return found


@cache
def _imports(name: str) -> list[str]:
    found = ("".join(modules) for modules in IMPORT.findall(_text(name)))
    return [each.split(" as ")[0] for modules in found for each in modules.split(", ")]


def _text(name: str) -> str:
    return (RUNTIME / f"{name}.py").read_text(encoding="utf-8")


@cache
def _stripped(name: str) -> str:
    """Return a module without docstrings and comments, with the same line numbers."""
    return COMMENT.sub("", DOCSTRING.sub(_blank, _text(name)))


def _blank(docstring: re.Match[str]) -> str:
    return f'{docstring[1]}""' + "\n" * docstring[0].count("\n")
