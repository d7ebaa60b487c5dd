"""The parts that are made when a wheel is built: `mlgen/prepared/`, modules of plain data.

A module beside this one makes a part, in its function `files`, from what the checkout says. The
installed program then need not compute it. A checkout has no parts: there, mlgen computes what
they say (`resources.prepared`). `hook.py` puts the parts into the wheel, and nothing else imports
this package.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

PACKAGE = '"""Made by `mlgen.build` for this version of mlgen. Do not edit."""\n'
"""The text of `mlgen/prepared/__init__.py`."""


def files() -> dict[str, str]:
    """Return the text of every prepared file by its path below `mlgen/prepared/`.

    It depends on the checkout and its dependencies alone: the same input makes the same wheel.
    """
    texts = {"__init__.py": PACKAGE}
    for module in iter_modules(__path__):  # in alphabetical order
        if module.name != "hook" and not module.name.startswith("_"):
            texts |= import_module(f"{__name__}.{module.name}").files()
    return texts


def write(folder: Path) -> None:
    """Write all prepared files into a folder."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
