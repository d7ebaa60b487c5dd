"""A path in a rendered object → the path of the value's source in the job file."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mlgen.checks.pods import ROLES, TEMPLATE, Located
from mlgen.jobfile.model import own_files
from mlgen.kubernetes.merge import KEYS
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import has, value_at
from mlgen.objects.labels import ROLE, files_name
from mlgen.objects.pod import PREFLIGHT
from mlgen.problems import Problem, ValuePath

SPEC: ValuePath = ("spec",)

ELSEWHERE: dict[str, ValuePath] = {
    "affinity": ("scheduling", "topology"),
    "hostNetwork": ("network", "host"),
    "priorityClassName": ("scheduling", "priorityClassName"),
    "schedulerName": ("scheduling", "schedulerName"),
    "securityContext": ("security",),
    "topologySpreadConstraints": ("scheduling", "spread"),
}
"""Fields of a pod, and the fields of `spec` in the job file that set them."""


def path_in_job_file(
    job_file: Mapping[str, Any], item: Object, path: ValuePath
) -> ValuePath | None:
    """Return the path in the job file of a value in an object; None if mlgen has set the value.

    Args:
        job_file: the data of the job file.
        item: the object.
        path: the path of the value in the object.
    """
    role = item["metadata"].get("labels", {}).get(ROLE)
    roles = value_at(job_file, ROLES) or {}
    # A role that is not in the job file was merged from its roles.
    sources = [role] if role in roles else roles if role else []
    starts = [*((*ROLES, name) for name in sources), SPEC]
    if item["kind"] == "Deployment":
        starts = [(*SPEC, "tensorboard"), SPEC]
    value = value_at(item, path)
    best: ValuePath = ()
    deepest = 0
    for base, steps in _candidates(item, path):
        for start in starts:
            written = _written(job_file, (*start, *base, *steps))
            depth = len(written) - len(start) - len(base)
            if depth == len(steps) and _equal(value_at(job_file, written), value):
                return written
            depth = min(depth, len(steps) - 1)
            # A container or volume that the job file lacks is mlgen's own.
            step = steps[depth] if depth > deepest else 0
            if isinstance(step, str) and "=" not in step:
                best, deepest = written, depth
    root = _written(job_file, _of_the_job(job_file, item, path))
    return root or best or None


def in_job_file(found: Located, job_file: Mapping[str, Any]) -> Problem:
    """Return the problem of a value in an object, with its path in the job file."""
    written = path_in_job_file(job_file, found.item, found.path) if found.path else None
    return replace(found.problem, path=written or found.problem.path)


def holders(job_file: Mapping[str, Any]) -> Iterator[tuple[ValuePath, Mapping[str, Any], Any]]:
    """Yield the path, the volumes and the template of all roles together, and of each role."""
    spec = job_file.get("spec") or {}
    for path in (("spec",), *(("spec", "roles", name) for name in spec.get("roles") or ())):
        holder = value_at(job_file, path) or {}
        yield path, holder.get("volumes") or {}, holder.get("template")


def _of_the_job(job_file: Mapping[str, Any], item: Object, path: ValuePath) -> ValuePath:
    """Return the path of a value that occurs once per job, not per role; () for other values."""
    inner = path[len(TEMPLATE) :] if path[: len(TEMPLATE)] == TEMPLATE else path
    if inner[:1] == ("metadata",) and _written(job_file, inner) == inner:
        return inner
    if item["kind"] == "ConfigMap" and path[:1] == ("data",):
        prefix = files_name(job_file["metadata"]["name"], "")
        volume = item["metadata"]["name"].removeprefix(prefix)
        roles = [(*ROLES, role) for role in value_at(job_file, ROLES) or {}]
        for start in ((*start, "volumes", volume) for start in (SPEC, *roles)):
            for steps, _ in own_files(value_at(job_file, start) or {}):
                full = (*start, *steps, *path[1:])
                if _written(job_file, full) == full:
                    return full
    return ()


def _equal(written: Any, value: Any) -> bool:
    """Return whether a value may come from the job file, where amounts may be numbers."""
    scalars = isinstance(written, str | int | float) and isinstance(value, str | int | float)
    return not scalars or str(written) == str(value)


def _written(value: Any, steps: ValuePath) -> ValuePath:
    """Return the longest prefix of a path that exists in the job file."""
    written: list[str | int] = []
    for step in steps:
        found = _step(value, step)
        if found is None:
            break
        written.append(found)
        value = value[found]
    return tuple(written)


def _candidates(item: Object, path: ValuePath) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Yield the possible paths of a value in a role or in `spec`, each in two parts.

    The first part must exist. A prefix of the second part must exist.
    """
    if path[: len(TEMPLATE)] == TEMPLATE:
        inner, template = path[len(TEMPLATE) :], item["spec"]["template"]
        yield ("template",), _named(template, inner)
        if inner[:1] == ("spec",):
            yield from _short_forms(template["spec"], inner[1:])
    elif item["kind"] == "PersistentVolumeClaim":
        yield ("claims", item["metadata"]["name"]), path[1:]
    elif path[:1] == ("spec",) and len(path) > 1:
        yield (), (path[1],)


def _named(template: Object, steps: ValuePath) -> ValuePath:
    """Return a path with merge keys in place of indexes: `name=main`."""
    named: list[str | int] = []
    value: Any = template
    for step in steps:
        key = KEYS.get(str(named[-1])) if named else None
        value = value[step] if has(value, step) else None
        has_key = isinstance(step, int) and key and has(value, key)
        named.append(f"{key}={value[key]}" if has_key else step)
    return tuple(named)


def _short_forms(pod: Object, steps: ValuePath) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Yield the paths of the short forms in the job file that may set a value of a pod."""
    match steps:
        case ("volumes", int(number), *source) if has(pod.get("volumes"), number):
            name = pod["volumes"][number].get("name", "")
            yield ("volumes",), (name, *source)
            yield ("volumes",), (name, *_source(tuple(source)))
        case ("containers", 0, _, *_):
            yield from _of_container(pod["containers"][0], steps[2:])
        case ("initContainers", int(number), *rest) if _is_preflight(pod, number):
            yield ("preflight",), tuple(rest)
            yield from _of_container(pod["initContainers"][number], tuple(rest))
        case ("initContainers", int(), "image"):
            for name in ("waitImage", "kubectlImage", "gitImage"):
                yield ("helpers",), (f"{name}={value_at(pod, steps)}",)
            yield (), ("image",)
        case (field, *_):
            yield (), steps
            if field in ELSEWHERE:
                yield (), ELSEWHERE[str(field)]


def _is_preflight(pod: Object, number: int) -> bool:
    return bool(value_at(pod, ("initContainers", number, "name")) == PREFLIGHT)


def _of_container(container: Object, steps: ValuePath) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Yield the paths of the short forms that may set a value of the training container."""
    item = value_at(container, steps[:2])
    match steps:
        case ("resources", *rest):
            yield ("resources",), tuple(rest)
            yield ("resources",), tuple(rest[1:])
            yield (), ("resources",)
        case ("env", int(), *rest) if item is not None:
            source = rest if rest[:1] == ["valueFrom"] else []
            yield ("env",), (item.get("name", ""), *source)
        case ("volumeMounts", int(), *rest) if item is not None:
            yield ("volumes",), (item.get("name", ""), *rest)
        case ("ports", *_):
            yield (), ("port",)
        case _:
            yield (), steps


NAMES = ("claimName", "secretName", "name", "path")


def _source(steps: ValuePath) -> ValuePath:
    """Return the path of a volume's source in its short form, which may be only a name."""
    if steps[:1] == ("persistentVolumeClaim",):
        steps = ("pvc", *steps[1:])
    if steps[:3] == ("ephemeral", "volumeClaimTemplate", "spec"):
        steps = ("ephemeral", *steps[3:])
    is_name = steps[:1] != ("nfs",) and len(steps) > 1 and steps[1] in NAMES
    return steps[:1] if is_name else steps


def _step(value: Any, step: str | int) -> str | int | None:
    """Return the key or index of a step in the job file; None if there is none.

    `name=main` matches an item of a list with that name, or a field with that value.
    """
    if has(value, step):
        return step
    key, equals, wanted = str(step).partition("=")
    items = list(enumerate(value)) if isinstance(value, list) else [(key, value)]
    for found, item in items if equals else []:
        if has(item, key) and str(item[key]) == wanted:
            return found
    return None
