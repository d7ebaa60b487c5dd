"""Where `schemas/` and `templates/` are: inside the wheel, or beside the package in a checkout."""

from pathlib import Path


def folder(name: str) -> Path:
    """Return the folder `schemas` or `templates` as a path that exists."""
    package = Path(__file__).parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def script(name: str) -> str:
    """Return the text of a shell script of `templates/scripts`."""
    return (folder("templates") / "scripts" / name).read_text(encoding="utf-8")
