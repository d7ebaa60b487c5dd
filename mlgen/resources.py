"""The name of an installed resource → its path or text.

`schemas/`, `templates/` and `argo/` are in the package in a wheel, and next to it in a checkout.
"""

from pathlib import Path


def folder(name: str) -> Path:
    """Return the path of the folder `schemas`, `templates` or `argo`."""
    package = Path(__file__).parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name


def script(name: str) -> str:
    """Return the text of a shell script in `templates/scripts`."""
    return (folder("templates") / "scripts" / name).read_text(encoding="utf-8")


def program(*, step: bool = False) -> dict[str, str]:
    """Return the files of `mlgen/runtime`, the program of the supervisor: text by file name.

    Args:
        step: with the module that is the step of an Argo workflow.
    """
    files = sorted((Path(__file__).parent / "runtime").glob("*.py"))
    # The folder in the pod is a namespace package, as its parent is.
    omitted = ("__init__",) if step else ("__init__", "step")
    modules = (file for file in files if file.stem not in omitted)
    return {file.name: file.read_text(encoding="utf-8") for file in modules}
