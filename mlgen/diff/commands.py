"""Objects → the kubectl commands that delete them."""

import shlex
from collections.abc import Iterable, Sequence

from mlgen.diff.pairing import job_key
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import JOB


def delete_objects(objects: Iterable[Object]) -> str:
    """Return the command that deletes objects by name, one for each namespace; "" for none."""
    by_namespace: dict[str, list[Object]] = {}
    for item in objects:
        by_namespace.setdefault(item["metadata"].get("namespace") or "", []).append(item)
    commands = []
    for namespace, items in by_namespace.items():
        names: dict[str, list[str]] = {}
        for item in items:
            names.setdefault(kind_argument(item), []).append(item["metadata"]["name"])
        words = [f"{kind}/{name}" for kind, listed in names.items() for name in listed]
        if len(names) == 1:
            words = [word for kind, listed in names.items() for word in (kind, *listed)]
        commands.append(_delete(words, namespace))
    return " && ".join(commands)


def delete_job(objects: Sequence[Object]) -> str:
    """Return the command that deletes a job's objects by its label.

    Args:
        objects: all of one job, at least one.
    """
    namespace, name = job_key(objects[0])
    kinds = ",".join(dict.fromkeys(kind_argument(item) for item in objects))
    return _delete([kinds, "-l", f"{JOB}={name}"], namespace)


def kind_argument(item: Object) -> str:
    """Return kubectl's name of an object's kind, group-qualified unless it is built in."""
    group, kind = group_kind(item)
    return kind.lower() if is_built_in(item["apiVersion"]) else f"{kind.lower()}.{group}"


def _delete(words: Sequence[str], namespace: str) -> str:
    """Return a command line; the manifests of others may have any text as a name."""
    option = ["-n", namespace] if namespace else []
    if any(word.startswith("-") and word != "-l" for word in words):
        return shlex.join(["kubectl", "delete", *option, "--", *words])
    return shlex.join(["kubectl", "delete", *words, *option])
