"""`templates/objects` → `prepared/skeletons.py`: the skeletons, which need no Jinja and no YAML."""

from mlgen.objects.skeleton import parsed
from mlgen.resources import folder

TEXT = '''\
"""The skeletons of `templates/objects`, by name: see mlgen/objects/skeleton.py."""

SKELETONS = {
'''


def files() -> dict[str, str]:
    """Return the module."""
    names = sorted(path.stem for path in (folder("templates") / "objects").glob("*.yaml"))
    return {"skeletons.py": TEXT + "".join(f"    {n!r}: {parsed(n)!r},\n" for n in names) + "}\n"}
