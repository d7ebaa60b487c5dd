"""A path in a rendered object → the path of the value's source in the job file.

`mlgen/objects/pod.py` merges parts of the job file in a fixed order. So the source of a value is
the last part that contains its path. The values themselves do not matter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mlgen.checks.pods import TEMPLATE, Located
from mlgen.documents.flags import ROLES
from mlgen.jobfile.hints import SPEC
from mlgen.jobfile.model import own_files
from mlgen.jobfile.parser import origin
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import KEYS, has, value_at
from mlgen.objects.labels import ROLE, files_name
from mlgen.objects.pod import PREFLIGHT, SCRIPTS
from mlgen.objects.storage import NAMES
from mlgen.problems import Problem, ValuePath
from mlgen.topology import RESERVED

IMAGES: dict[str, tuple[ValuePath, ...]] = {
    "kubectl-delivery": (("helpers", "kubectlImage"),),
    "ssh-setup": (("image",),),
    "supervisor": (("helpers", "supervisorImage"), ("helpers", "pythonImage")),
    "sync": (("helpers", "gitImage"),),
    "tensorboard": (("tensorboard", "image"), ("image",)),
}
"""mlgen's own containers, and the fields of the job file that set their images.

All others have `waitImage`. `sync-` and the name of a volume is a container that clones into it.
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

SHARED = ("imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations", "volumes")
"""Fields of mlgen's own pods that may be copied from training pods."""


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
        step = steps[depth] if depth > deepest else 0
        # A container or volume that the job file lacks is mlgen's own.
        if isinstance(step, str) and "=" not in step:
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
    label = item["metadata"].get("labels", {}).get(ROLE)
    every = value_at(job_file, ROLES) or {}
    # A role that is not in the job file was merged from its roles.
    roles = [label] if label in every else every
    for part, steps in _of_role(item, label, path):
        for role in roles:
            full = origin(job_file, (*ROLES, role, *part, *steps))
            yield Source(full[: len(full) - len(steps)], steps)
        if part[:1] == ("template",):
            yield Source((*SPEC, *part), steps)
    inner = path[len(TEMPLATE) :] if path[: len(TEMPLATE)] == TEMPLATE else path
    if inner[:1] == ("metadata",):
        yield Source(inner)
    if item["kind"] == "ConfigMap" and path[:1] == ("data",):
        volume = item["metadata"]["name"].removeprefix(files_name(job_file["metadata"]["name"], ""))
        for holder, volumes, _ in holders(job_file):
            for steps, _ in own_files(volumes.get(volume) or {}):
                yield Source((*holder, "volumes", volume, *steps, *path[1:]))


def _of_role(item: Object, role: str | None, path: ValuePath) -> Iterator[Source]:
    """Yield the parts of a role, or of `spec`, that may set a value of an object.

    Args:
        item: the object.
        role: the role that it belongs to; None for an object of the whole job.
        path: the path of the value in the object.
    """
    if path[: len(TEMPLATE)] == TEMPLATE:
        template, inner = item["spec"]["template"], path[len(TEMPLATE) :]
        named = _named(template, inner)
        is_own = value_at(template, ("metadata", "labels", ROLE)) in RESERVED
        if not is_own:
            yield Source(("template",), named)
            if named[1:2] == ("initContainers",) and named[2:]:
                # A sidecar is a container in the template.
                yield Source(("template", "spec", "containers"), named[2:])
        if inner[:1] == SPEC:
            yield from _of_pod(template["spec"], inner[1:], named[1:], is_own=is_own)
    elif item["kind"] == "PersistentVolumeClaim":
        yield Source(("claims", item["metadata"]["name"]), path[1:])
    elif role and path[:1] == SPEC and path[1:]:
        yield Source((), path[1:2])


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


def _of_pod(pod: Object, path: ValuePath, named: ValuePath, *, is_own: bool) -> Iterator[Source]:
    """Yield the parts of a role that may set a value of its pods, except for the template.

    Args:
        pod: the spec of the pod.
        path: the path of the value in it.
        named: the same path with the names of items in place of their indexes.
        is_own: True for the pod of the supervisor or TensorBoard.
    """
    match path:
        case ("containers" | "initContainers" as kind, int(number), *_) if has(
            pod.get(kind), number
        ):
            yield from _of_container(pod[kind][number], path, named, is_own=is_own)
        case ("volumes", int(), *_):
            name = str(value_at(pod, (*path[:2], "name")))
            yield Source(("volumes",), (name, *path[2:]))
            yield Source(("volumes",), (name, *_source(path[2:])))
        case (str(field), *_) if not is_own or field in SHARED:
            if is_own:
                yield Source(("helpers",), named)
            if field != "securityContext":  # of a role, it applies to its containers
                yield Source((), named)
            if field in ELSEWHERE:
                yield Source((), ELSEWHERE[field])


def _of_container(
    container: Object, path: ValuePath, named: ValuePath, *, is_own: bool
) -> Iterator[Source]:
    """Yield the parts of a role that may set a value of a container; see `_of_pod`."""
    steps, name = path[2:], str(container.get("name"))
    is_main, is_init = path[:2] == ("containers", 0), path[0] == "initContainers"
    if is_own or (is_init and _runs_script(container)):
        if steps == ("image",):
            key = "sync" if name.startswith("sync-") else name
            yield from map(Source, IMAGES.get(key, [("helpers", "waitImage")]))
        for at in (name, "helpers"):
            yield from (Source((at, *part), inner) for part, inner in _of_main(container, steps))
        is_main = steps[:1] == ("volumeMounts",)
    elif is_init:
        yield Source(("preflight",), steps) if name == PREFLIGHT else Source((), named)
        # It has the fields of the training container that it does not set.
        is_main = value_at(container, steps) is not None
    if is_main:
        yield from _of_main(container, steps)


def _runs_script(container: Object) -> bool:
    """Return whether the command of a container starts with a script of mlgen."""
    return SCRIPTS in str(value_at(container, ("command", 1)))


def _of_main(container: Object, steps: ValuePath) -> Iterator[Source]:
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
        case ("command", int(number)) if str(value_at(container, ("command", 1))).startswith(
            SCRIPTS
        ):
            yield Source((), ("command", number - 2) if number > 1 else ("command",))
        case (field, *_) if field != "restartPolicy":
            yield Source((), steps)


def _source(steps: ValuePath) -> ValuePath:
    """Return the path of a volume's source in its short form, which may be only a name."""
    if steps[:3] == ("ephemeral", "volumeClaimTemplate", "spec"):
        return ("ephemeral", *steps[3:])
    for short, (kind, name) in NAMES.items():
        if steps[:1] == (kind,):
            return (short,) if steps[1:2] == (name,) else (short, *steps[1:])
    return steps


def _written(value: Any, steps: ValuePath) -> ValuePath:
    """Return the longest prefix of a path that exists in the job file."""
    written: list[str | int] = []
    for step in steps:
        key, equals, name = str(step).partition("=")
        found = step
        if equals and isinstance(value, list):
            found = next(
                (n for n, item in enumerate(value) if str(value_at(item, [key])) == name), -1
            )
        if found == -1 or not has(value, found):
            break
        written.append(found)
        value = value[found]
    return tuple(written)
