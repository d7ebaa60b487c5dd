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
    """Return the text of a shell script in `templates/scripts` or `argo`."""
    template = folder("templates") / "scripts" / name
    path = template if template.exists() else folder("argo") / name
    return path.read_text(encoding="utf-8")
