"""The parts that are made when a wheel is built: `mlgen/prepared/`, modules of plain data.

The skeletons of objects then need no Jinja, which saves a start more than 15 ms. A checkout has no
parts: there, mlgen computes what they say (`resources.prepared`). `hook.py` puts the parts into the
wheel; nothing else imports this package.
"""

from pathlib import Path

from mlgen.objects.skeleton import parsed
from mlgen.resources import folder

MADE = '"""Made by `mlgen.build` for this version of mlgen. Do not edit."""\n\n'


def write(target: Path) -> None:
    """Write all prepared files into a folder.

    They depend on the checkout and its dependencies alone: the same input makes the same wheel.
    """
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def files() -> dict[str, str]:
    """Return the text of every prepared file by its path below `mlgen/prepared/`."""
    names = sorted(path.stem for path in (folder("templates") / "objects").glob("*.yaml"))
    rows = "".join(f"    {name!r}: {parsed(name)!r},\n" for name in names)
    return {"__init__.py": MADE, "skeletons.py": f"{MADE}SKELETONS = {{\n{rows}}}\n"}
