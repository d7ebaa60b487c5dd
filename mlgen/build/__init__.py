"""Generate `mlgen/prepared/`, modules of plain data in a wheel.

The skeletons of objects then need no Jinja, which makes each start more than 15 ms faster. A
checkout has no prepared modules, so mlgen computes their data (`resources.prepared`): for
`mlgen explain CODE`, it runs the examples of all rules, which takes seconds. `hook.py` adds the
modules to a wheel. No other module imports this package.
"""

from pathlib import Path

from mlgen.objects.skeleton import parsed
from mlgen.reference import rules
from mlgen.resources import PACKAGE, folder
from mlgen.version import commit

MADE = '"""Made by `mlgen.build` for this version of mlgen. Do not edit."""\n\n'


def write(target: Path) -> None:
    """Write all prepared files into a folder.

    They depend only on the checkout and its dependencies, so wheels are reproducible.
    """
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def files() -> dict[str, str]:
    """Return the text of every prepared file by its path below `mlgen/prepared/`."""
    names = sorted(path.stem for path in (folder("templates") / "objects").glob("*.yaml"))
    rows = "".join(f"    {name!r}: {parsed(name)!r},\n" for name in names)
    return {
        "__init__.py": MADE,
        "commit.py": f"{MADE}COMMIT = {commit(PACKAGE.parent)!r}\n",
        "rules.py": f"{MADE}BY_CODE = {rules.computed()!r}\n",
        "skeletons.py": f"{MADE}SKELETONS = {{\n{rows}}}\n",
    }
