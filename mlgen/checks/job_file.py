"""A path in a rendered object → the path of the value's source in the job file.

An object is merged from parts of the job file, as `mlgen/objects/pod.py` describes. So the source of
a value is the part with the highest precedence that contains its path. The values themselves do not
matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mlgen.checks.pods import ROLES, TEMPLATE, Located, has, value_at
from mlgen.jobfile.model import own_files
from mlgen.jobfile.parser import origin
from mlgen.kubernetes.merge import KEYS
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import ROLE, files_name
from mlgen.objects.pod import PREFLIGHT, SCRIPTS
from mlgen.problems import Problem, ValuePath
from mlgen.topology import RESERVED

SPEC: ValuePath = ("spec",)
BOARD, HELPERS = ("tensorboard",), ("helpers",)

IMAGES: dict[str, tuple[ValuePath, ...]] = {
    "kubectl-delivery": (("helpers", "kubectlImage"),),
    "release": (("helpers", "waitImage"),),
    "ssh-setup": (("image",),),
    "supervised": (("helpers", "waitImage"),),
    "supervisor": (("helpers", "supervisorImage"), ("helpers", "pythonImage")),
    "sync": (("helpers", "gitImage"),),
    "tensorboard": (("tensorboard", "image"), ("image",)),
    "wait-for-peers": (("helpers", "waitImage"),),
}
"""mlgen's own containers, and the fields of the job file that set their images.

The name of a container that clones a repository is `sync-` and the name of its volume.
"""

ELSEWHERE: dict[str, ValuePath] = {
    "affinity": ("scheduling", "topology"),
    "hostNetwork": ("network", "host"),
    "priorityClassName": ("scheduling", "priorityClassName"),
    "schedulerName": ("scheduling", "schedulerName"),
    "securityContext": ("security",),
    "topologySpreadConstraints": ("scheduling", "spread"),
}
"""Fields of a pod, and the fields of `spec` in the job file that set them for all roles."""

COPIED = ("imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations")
"""The fields of training pods that mlgen's own pods have by default."""


class Source(NamedTuple):
    """A part of the job file that may set a value.

    Attributes:
        part: its path.
        steps: the path of the value in it. A step `name=main` is the item of a list with that name.
    """

    part: ValuePath
    steps: ValuePath = ()


def path_in_job_file(
    job_file: Mapping[str, Any], item: Object, path: ValuePath
) -> ValuePath | None:
    """Return the path in the job file of a value in an object; None if mlgen has set the value.

    If the job file contains only a mapping around the value, the result is the path of the mapping.

    Args:
        job_file: the data of the job file.
        item: the object.
        path: the path of the value in the object.
    """
    nearest: ValuePath = ()
    deepest = 0
    for part, steps in _sources(job_file, item, path):
        written = _written(job_file, (*part, *steps))
        depth = len(written) - len(part)
        if depth == len(steps):
            return written
        # A container or volume that the job file lacks is mlgen's own.
        if depth > deepest and isinstance(steps[depth], str) and "=" not in steps[depth]:
            nearest, deepest = written, depth
    return nearest or None


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


def _sources(job_file: Mapping[str, Any], item: Object, path: ValuePath) -> Iterator[Source]:
    """Yield the parts of the job file that may set a value, the last one to be merged first."""
    kind, label = item["kind"], item["metadata"].get("labels", {}).get(ROLE)
    every = value_at(job_file, ROLES) or {}
    # A role that is not in the job file was merged from its roles.
    roles = [(*ROLES, name) for name in ([label] if label in every else every)]
    inner = path[len(TEMPLATE) :] if path[: len(TEMPLATE)] == TEMPLATE else path
    if inner != path:
        template = item["spec"]["template"]
        named = _named(template, inner)
        is_own = kind == "Deployment" or label in RESERVED
        for holder in () if is_own else (*roles, SPEC):
            yield Source((*holder, "template"), named)
            if named[1:2] == ("initContainers",):  # a sidecar is a container in the template
                yield Source((*holder, "template"), ("spec", "containers", *named[2:]))
        if inner[:1] == SPEC:
            forms = _of_own_pod if is_own else _of_pod
            yield from _in_roles(job_file, roles, forms(template["spec"], inner[1:], named[1:]))
    elif kind == "PersistentVolumeClaim":
        yield Source(("spec", "claims", item["metadata"]["name"]), path[1:])
    elif kind == "ConfigMap" and path[:1] == ("data",):
        volume = item["metadata"]["name"].removeprefix(files_name(job_file["metadata"]["name"], ""))
        for holder, volumes, _ in holders(job_file):
            for steps, _ in own_files(volumes.get(volume) or {}):
                yield Source((*holder, "volumes", volume, *steps, *path[1:]))
    elif path[:1] == SPEC and len(path) > 1 and label:
        yield from _in_roles(job_file, roles, [Source((), (path[1],))])
    if inner[:1] == ("metadata",):
        yield Source(inner)


def _in_roles(
    job_file: Mapping[str, Any], roles: Iterable[ValuePath], sources: Iterable[Source]
) -> Iterator[Source]:
    """Yield parts of a role at their paths in the job file, for each of several roles."""
    for part, steps in sources:
        for role in roles:
            full = origin(job_file, (*role, *part, *steps))
            yield Source(full[: len(full) - len(steps)], steps)


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


def _of_pod(pod: Object, path: ValuePath, named: ValuePath) -> Iterator[Source]:
    """Yield the parts of a role that may set a value of its pods, except for the template.

    Args:
        pod: the spec of the pod.
        path: the path of the value in it.
        named: the same path with the names of items in place of their indexes.
    """
    match path:
        case ("containers", 0, *_):
            yield from _of_container(pod["containers"][0], path[2:])
        case ("initContainers", int(number), *_) if has(pod.get("initContainers"), number):
            container = pod["initContainers"][number]
            if _images(container):
                yield from _of_helper(container, path[2:], (HELPERS,))
                return
            is_preflight = container.get("name") == PREFLIGHT
            yield Source(("preflight",), path[2:]) if is_preflight else Source((), named)
            if value_at(container, path[2:]) is not None:
                yield from _of_container(container, path[2:])
        case ("volumes", int(number), *_) if has(pod.get("volumes"), number):
            name = pod["volumes"][number].get("name", "")
            yield Source(("volumes",), (name, *path[2:]))
            yield Source(("volumes",), (name, *_source(path[2:])))
        case (str(field), *_):
            if field != "securityContext":  # the one of a role is that of its containers
                yield Source((), named)
            if field in ELSEWHERE:
                yield Source((), ELSEWHERE[field])


def _of_own_pod(pod: Object, path: ValuePath, named: ValuePath) -> Iterator[Source]:
    """Yield the parts that may set a value of the pod of the supervisor or TensorBoard.

    See `_of_pod` for the arguments.
    """
    match path:
        case ("containers", 0, *steps):
            container = pod["containers"][0]
            yield from _of_helper(container, path[2:], (BOARD, HELPERS))
            if steps[:1] == ["volumeMounts"]:
                yield from _of_container(container, path[2:])
        case (str(field), *_) if field == "volumes" or field in COPIED:
            yield Source(HELPERS, named)
            yield from _of_pod(pod, path, named)


def _of_helper(
    container: Object, steps: ValuePath, holders: Iterable[ValuePath]
) -> Iterator[Source]:
    """Yield the parts that may set a value of a container of mlgen."""
    if steps == ("image",):
        yield from (Source(field) for field in _images(container))
    for holder in holders:
        yield from (Source((*holder, *part), inner) for part, inner in _of_container(container, steps))


def _images(container: Object) -> Sequence[ValuePath]:
    """Return the fields that set the image of a container of mlgen; () for another container."""
    name = str(container.get("name"))
    return IMAGES.get("sync" if name.startswith("sync-") else name, ())


def _of_container(container: Object, steps: ValuePath) -> Iterator[Source]:
    """Yield the parts of a role that may set a value of its training container."""
    item = value_at(container, steps[:2])
    match steps:
        case ("resources", *rest):
            yield Source(("resources",), tuple(rest))
            yield Source(("resources",), tuple(rest[1:]))
            yield Source((), ("resources",))
        case ("env", int(), *rest) if item is not None:
            source = rest if rest[:1] == ["valueFrom"] else []
            yield Source(("env",), (item.get("name", ""), *source))
        case ("volumeMounts", int(), *rest) if item is not None:
            yield Source(("volumes",), (item.get("name", ""), *rest))
        case ("ports", *_):
            yield Source((), ("port",))
        case ("command", int(number)) if str(value_at(container, ("command", 1))).startswith(SCRIPTS):
            yield Source((), ("command", number - 2) if number > 1 else ("command",))
        case (field, *_) if field != "restartPolicy":
            yield Source((), steps)


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
    """Return the key or index of a step in the job file; None if there is none."""
    if has(value, step):
        return step
    key, equals, wanted = str(step).partition("=")
    for number, item in enumerate(value) if equals and isinstance(value, list) else ():
        if has(item, key) and str(item[key]) == wanted:
            return number
    return None
