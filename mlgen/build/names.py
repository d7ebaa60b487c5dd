"""The modules of frameworks and dialects → `prepared/names.py`, by which they are found."""

from pprint import pformat

from mlgen import dialects, frameworks


def files() -> dict[str, str]:
    """Return the module."""
    kinds = {key: name for name in dialects.names() for key in dialects.get(name).kinds}
    tables = {"FRAMEWORKS": frameworks.names(), "KINDS": kinds}
    text = "".join(f"\n{n} = {pformat(v, sort_dicts=False)}\n" for n, v in tables.items())
    return {"names.py": f'"""The frameworks, and the dialect of each kind."""\n{text}'}
