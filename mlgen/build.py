"""Generate `mlgen/prepared/`, modules of plain data, when hatchling builds a wheel.

The skeletons of objects then need no Jinja, which makes each start more than 15 ms faster. A
checkout has no prepared modules, so mlgen computes their data (`resources.prepared`): for
`mlgen explain CODE`, it runs the examples of all rules, which takes seconds. No other module
imports this one. hatchling loads it without mlgen on the path, so imports of mlgen are late.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MADE = '"""Made by `mlgen.build` for this version of mlgen. Do not edit."""\n\n'


class Prepared(BuildHookInterface[Any]):
    """Adds the prepared modules to a wheel, from a temporary folder."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the modules to a wheel, but not to an editable install, where they would be stale."""
        if version != "standard":
            return
        self._folder = TemporaryDirectory()
        sys.path.insert(0, self.root)
        keeps_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            write(Path(self._folder.name))
        finally:
            sys.dont_write_bytecode = keeps_bytecode
            sys.path.remove(self.root)
        build_data["force_include"][self._folder.name] = "mlgen/prepared"

    def finalize(
        self,
        version: str,
        build_data: dict[str, Any],  # noqa: ARG002 - hatchling's signature
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """Remove the temporary folder."""
        if version == "standard":
            self._folder.cleanup()


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
    from mlgen.objects.skeleton import parsed
    from mlgen.reference import rules
    from mlgen.resources import PACKAGE, folder
    from mlgen.version import commit

    names = sorted(path.stem for path in (folder("templates") / "objects").glob("*.yaml"))
    rows = "".join(f"    {name!r}: {parsed(name)!r},\n" for name in names)
    return {
        "__init__.py": MADE,
        "commit.py": f"{MADE}COMMIT = {commit(PACKAGE.parent)!r}\n",
        "rules.py": f"{MADE}BY_CODE = {rules.computed()!r}\n",
        "skeletons.py": f"{MADE}SKELETONS = {{\n{rows}}}\n",
    }
