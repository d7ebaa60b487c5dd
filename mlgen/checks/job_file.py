"""A path in a rendered object → the path in the job file of the value that it comes from."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlgen.checks.pods import ROLES, TEMPLATE, has, value_at
from mlgen.kubernetes.merge import KEYS
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import ROLE
from mlgen.problems import ValuePath

SPEC: ValuePath = ("spec",)

ELSEWHERE: dict[str, ValuePath] = {
    "affinity": ("scheduling", "topology"),
    "hostNetwork": ("network", "host"),
    "priorityClassName": ("scheduling", "priorityClassName"),
    "schedulerName": ("scheduling", "schedulerName"),
    "securityContext": ("security",),
    "topologySpreadConstraints": ("scheduling", "spread"),
}
"""Fields of `spec` in the job file, by the field of a pod that they become."""


def path_in_job_file(
    job_file: Mapping[str, Any], item: Object, path: ValuePath
) -> ValuePath | None:
    """Return the path in the job file of a value in an object; None if mlgen itself has set it.

    Args:
        job_file: its data.
        item: the object.
        path: of the value in the object.
    """
    role = item["metadata"].get("labels", {}).get(ROLE)
    roles = value_at(job_file, ROLES) or {}
    # A role that the job file lacks is made of those that it has.
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
            if depth > deepest and not _is_item(steps[depth]):
                best, deepest = written, depth
    root = _written(job_file, _of_the_job(job_file, item, path))
    return root or best or None


def _of_the_job(job_file: Mapping[str, Any], item: Object, path: ValuePath) -> ValuePath:
    """Return the path of a value that the job file has only once; () for any other."""
    inner = path[len(TEMPLATE) :] if path[: len(TEMPLATE)] == TEMPLATE else path
    if inner[:1] == ("metadata",) and _written(job_file, inner) == inner:
        return inner
    if item["kind"] == "ConfigMap" and path[:1] == ("data",):
        prefix = f"{job_file['metadata']['name']}-"
        volume = item["metadata"]["name"].removeprefix(prefix)
        roles = [(*ROLES, role) for role in value_at(job_file, ROLES) or {}]
        for start in (SPEC, *roles):
            files = (*start, "volumes", volume, "files", *path[1:])
            if _written(job_file, files) == files:
                return files
    return ()


def _equal(written: Any, value: Any) -> bool:
    """Return whether a value may come from one in the job file, where amounts may be numbers."""
    scalar = (str, int, float)
    return not (isinstance(written, scalar) and isinstance(value, scalar)) or str(written) == str(
        value
    )


def _is_item(step: str | int) -> bool:
    """Return whether a step leads to an item of a list."""
    return isinstance(step, int) or "=" in step


def _written(value: Any, steps: ValuePath) -> ValuePath:
    """Return the longest part of a path that the job file has."""
    written: list[str | int] = []
    for step in steps:
        found = _step(value, step)
        if found is None:
            break
        written.append(found)
        value = value[found]
    return tuple(written)


def _candidates(item: Object, path: ValuePath) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Return the paths that a value may have in a role or in `spec`, each in two parts.

    The first part must exist; the second may exist in part.
    """
    if path[: len(TEMPLATE)] != TEMPLATE:
        if item["kind"] == "PersistentVolumeClaim":
            yield ("claims", item["metadata"]["name"]), path[1:]
        elif path[:1] == ("spec",) and len(path) > 1:
            yield (), (path[1],)
        return
    inner = path[len(TEMPLATE) :]
    template = item["spec"]["template"]
    yield ("template",), _named(template, inner)
    yield from _short_forms(template, inner)


def _named(template: Object, steps: ValuePath) -> ValuePath:
    """Return a path in which items of lists that merge have the value of their key as a step."""
    named: list[str | int] = []
    value: Any = template
    for step in steps:
        field = named[-1] if named else ""
        value = value[step] if has(value, step) else None
        key = KEYS.get(str(field))
        if isinstance(step, int) and key and isinstance(value, dict) and key in value:
            named.append(f"{key}={value[key]}")
        else:
            named.append(step)
    return tuple(named)


def _short_forms(template: Object, steps: ValuePath) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Return the paths of the short forms in the job file that a value may come from."""
    if steps[:1] == ("metadata",) or len(steps) < 2:  # noqa: PLR2004
        return
    field, rest = str(steps[1]), steps[2:]
    pod = template["spec"]
    if field == "volumes" and rest and has(pod.get("volumes"), rest[0]):
        yield ("volumes",), (pod["volumes"][rest[0]].get("name", ""), *_source(rest[1:]))
    elif field == "containers" and rest[:1] == (0,) and len(rest) > 1:
        yield from _of_container(pod["containers"][0], str(rest[1]), rest[2:])
    elif field == "initContainers" and rest[1:] == ("image",):
        image = pod["initContainers"][rest[0]].get("image")
        for name in ("waitImage", "kubectlImage", "gitImage"):
            yield ("helpers",), (f"{name}={image}",)
        yield (), ("image",)
    else:
        yield (), (field, *rest)
        if field in ELSEWHERE:
            yield (), ELSEWHERE[field]


SOURCES = {"persistentVolumeClaim": "pvc"}
NAMES = ("claimName", "secretName", "name", "path")


def _source(steps: ValuePath) -> ValuePath:
    """Return the path of a volume's source in its short form, which may be the name alone."""
    if not steps:
        return ()
    source = SOURCES.get(str(steps[0]), steps[0])
    return (
        (source,) if source != "nfs" and steps[1:2] and steps[1] in NAMES else (source, *steps[1:])
    )


def _of_container(
    container: Object, field: str, rest: ValuePath
) -> Iterator[tuple[ValuePath, ValuePath]]:
    """Return the short forms of a field of the training container."""
    if field == "resources":
        yield ("resources",), rest
        yield ("resources",), rest[1:]
        yield (), ("resources",)
    elif field == "env" and rest and has(container.get("env"), rest[0]):
        steps = rest[1:] if rest[1:2] == ("valueFrom",) else ()
        yield ("env",), (container["env"][rest[0]].get("name", ""), *steps)
    elif field == "volumeMounts" and rest and has(container.get("volumeMounts"), rest[0]):
        mount = container["volumeMounts"][rest[0]]
        yield ("volumes",), (mount.get("name", ""), *rest[1:])
    elif field == "ports":
        yield (), ("port",)
    else:
        yield (), (field, *rest)


def _step(value: Any, step: str | int) -> str | int | None:
    """Return the key of an item in the job file; None if there is none.

    `name=main` stands for the item of a list with that name, and for a field with that value.
    """
    if isinstance(step, str) and "=" in step and not has(value, step):
        key, _, wanted = step.partition("=")
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict) and str(item.get(key)) == wanted:
                    return index
            return None
        return key if has(value, key) and str(value[key]) == wanted else None
    return step if has(value, step) else None
