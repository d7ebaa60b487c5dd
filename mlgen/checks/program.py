"""Whether the program of a supervisor is the one that this mlgen builds, byte for byte.

Whoever can change the program acts with the supervisor's permissions. The annotation of the program
proves nothing, because it can be changed as well.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence

from mlgen.checks.pods import Located, title
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import PROGRAM, ROLE
from mlgen.objects.supervisor import (
    FILE,
    FOLDER,
    IN_ARCHIVE,
    IN_IMAGE,
    NAME,
    PLAN,
    archive,
    planned,
    read_plan,
)
from mlgen.problems import Problem, ValuePath
from mlgen.version import VERSION

FIELDS = {
    *("name", "image", "imagePullPolicy", "command", "env", "ports", "resources"),
    *("securityContext", "terminationMessagePath", "terminationMessagePolicy", "volumeMounts"),
}
"""The fields of a container that are checked, or do not start a program."""

PREFIXES = ("PYTHON", "LD_")
"""Prefixes of variables that can make Python, or any program, run other code."""

HARMLESS = {
    *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING"),
    *("PYTHONMALLOC", "PYTHONUNBUFFERED", "PYTHONUTF8"),
}
"""Variables with such a prefix that run no other code:
https://docs.python.org/3/using/cmdline.html#environment-variables."""

OURS = f"the program of mlgen {VERSION}"
HINT = "read it with mlgen show --program, or render the job again with this mlgen"

POD = ("spec", "template", "spec")


def unknown(objects: Sequence[Object]) -> Iterator[Located]:
    """Yield a warning for each place from which a supervisor gets or starts an unknown program.

    Args:
        objects: of a job, in the shape of `schemas/checks/verify.json`.
    """
    for item in objects:
        if program_path(item) and not is_known(item):
            yield unknown_program(item)
    programs = {item["metadata"]["name"] for item in objects if program_path(item)}
    for item in objects:
        if item["kind"] == "Job" and item["metadata"]["labels"].get(ROLE) == NAME:
            yield from _started(item, programs)


def unknown_program(item: Object) -> Located:
    """Return the warning for a ConfigMap of any shape that has another program."""
    claim = value_at(item, ("metadata", "annotations", PROGRAM))
    claimed = f"; its annotation names {claim}" if claim else ""
    return _warning(item, program_path(item), f"{FILE} is not {OURS}{claimed}")


def program_path(item: Object) -> ValuePath:
    """Return the path of the program in an object of any shape; () if it has none."""
    paths = [(field, FILE) for field in ("data", "binaryData")]
    is_map = item.get("kind") == "ConfigMap"
    return next((path for path in paths if is_map and value_at(item, path) is not None), ())


def is_known(item: Object) -> bool:
    """Return whether a ConfigMap of any shape has exactly the program that its plan needs."""
    try:
        content = b64decode(item["binaryData"][FILE], validate=True)
        # The plan of a workflow's step is not in the ConfigMap of a supervisor.
        return content == archive(read_plan(item["data"][PLAN]), step=planned(item) is None)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return False


def _started(job: Object, programs: set[str]) -> Iterator[Located]:
    """Yield a warning for each field of a supervisor's Job that starts an unknown program."""
    pod = job["spec"]["template"]["spec"]
    names = [each["name"] for each in pod["containers"]]
    if NAME not in names:
        yield _warning(job, (*POD, "containers"), f"no container has the name {NAME}")
        return
    path = (*POD, "containers", names.index(NAME))
    container = pod["containers"][names.index(NAME)]
    command = container.get("command")
    if command not in (IN_ARCHIVE, IN_IMAGE):
        yield _warning(job, path, f"the container does not start {OURS}")
    for field in sorted(container.keys() - FIELDS):
        yield _warning(job, (*path, field), f"the field {field} can start another program")
    for index, variable in enumerate(container.get("env", [])):
        if variable["name"].startswith(PREFIXES) and variable["name"] not in HARMLESS:
            text = f"the variable {variable['name']} can start other code"
            yield _warning(job, (*path, "env", index), text)
    # A mount in the folder, such as one with a subPath, could replace the program.
    mounts = [each for each in container.get("volumeMounts", []) if _is_in_folder(each)]
    volumes = {each["name"]: each.get("configMap", {}) for each in pod.get("volumes", [])}
    sources = [volumes.get(each["name"], {}) for each in mounts if "subPath" not in each]
    maps = {each.get("name") for each in sources if "items" not in each} & programs
    if command == IN_ARCHIVE and (len(mounts), len(maps)) != (1, 1):
        yield _warning(job, path, f"its files in {FOLDER} are not {OURS}")


def _is_in_folder(mount: Object) -> bool:
    return f"{mount.get('mountPath')}/".startswith(f"{FOLDER}/")


def _warning(item: Object, path: ValuePath, text: str) -> Located:
    message = f"{title(item)}: {text}"
    return Located(item, path, Problem(path, message, "unknown-program", HINT, warning=True))
