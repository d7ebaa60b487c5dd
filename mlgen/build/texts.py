"""The scripts and the program of the supervisor → `prepared/scripts.py` and `prepared/program.py`.

They are text in ConfigMaps; as data of a module, they are read without looking for files.
"""

from collections.abc import Mapping

from mlgen.resources import folder, modules_of_runtime, script


def files() -> dict[str, str]:
    """Return the modules."""
    names = sorted(path.name for path in (folder("templates") / "scripts").iterdir())
    return {
        "scripts.py": _module("The scripts of `templates/scripts`.", {n: script(n) for n in names}),
        "program.py": _module("The modules of `mlgen.runtime`.", modules_of_runtime()),
    }


def _module(title: str, texts: Mapping[str, str]) -> str:
    rows = "".join(f"    {name!r}: {text!r},\n" for name, text in texts.items())
    return f'"""{title}"""\n\nFILES = {{\n{rows}}}\n'
