"""Where `schemas/`, `templates/` and `argo/` are: in the wheel, or beside the package."""

from pathlib import Path


def folder(name: str) -> Path:
    """Return the folder `schemas`, `templates` or `argo` as a path that exists."""
    package = Path(__file__).parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def script(name: str) -> str:
    """Return the text of a shell script of `templates/scripts`, or of `argo`."""
    own = folder("templates") / "scripts" / name
    return (own if own.exists() else folder("argo") / name).read_text(encoding="utf-8")
