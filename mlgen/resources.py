"""The name of an installed resource → its path, text or data.

`schemas/`, `templates/` and `argo/` are in the package in a wheel, and next to it in a checkout.
`prepared/` is in a wheel alone.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # the imports cost more than all the rest
    from pathlib import Path
    from typing import Any


def prepared(name: str) -> "Any":
    """Return the module `mlgen.prepared.NAME`, which the build of the wheel has made.

    Return None if there is none, as in a checkout: then compute what it would say.
    """
    try:
        return import_module(f"mlgen.prepared.{name}")
    except ModuleNotFoundError:
        return None


def folder(name: str) -> "Path":
    """Return the path of the folder `schemas`, `templates` or `argo`."""
    from pathlib import Path

    package = Path(__file__).parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name


def script(name: str) -> str:
    """Return the text of a shell script in `templates/scripts`."""
    if part := prepared("scripts"):
        text: str = part.FILES[name]
        return text
    return (folder("templates") / "scripts" / name).read_text(encoding="utf-8")


def program(*, step: bool = False) -> dict[str, str]:
    """Return the files of `mlgen/runtime`, the program of the supervisor: text by file name.

    Args:
        step: with the modules of the step of an Argo workflow.
    """
    part = prepared("program")
    files: dict[str, str] = part.FILES if part else modules_of_runtime()
    # The folder in the pod is a namespace package, as its parent is.
    omitted = ("__init__.py",) if step else ("__init__.py", "attempt.py", "step.py")
    return {name: text for name, text in files.items() if name not in omitted}


def modules_of_runtime() -> dict[str, str]:
    """Return the text of each file of `mlgen/runtime`, by its name."""
    from pathlib import Path

    files = sorted((Path(__file__).parent / "runtime").glob("*.py"))
    return {file.name: file.read_text(encoding="utf-8") for file in files}
