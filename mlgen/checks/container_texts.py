"""The texts that a container of a job runs or reads: commands, variables, probes and files."""

from collections.abc import Iterator
from typing import NamedTuple

from mlgen.checks.cluster_facts import problem
from mlgen.checks.pods import Located, Objects, Pods, role_path, value_at
from mlgen.checks.sense import command_words
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import files_name
from mlgen.problems import ValuePath
from mlgen.topology import INDEX, INDEX_NAME


class ContainerText(NamedTuple):
    """A text that a container runs or reads.

    Attributes:
        item: the object that contains it.
        path: its path there.
        label: its name in messages.
        text: the text. An option and its value are one text.
        own_index: the text that Kubernetes or a shell replaces there by the index of the replica.
    """

    item: Object
    path: ValuePath
    label: str
    text: str
    own_index: str


HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("postStart", "preStop")
IN_SHELL = f"${INDEX_NAME}"


def texts_of(
    job: Objects, pods: Pods, path: ValuePath, container: Object
) -> Iterator[ContainerText]:
    """Yield the texts of a container, and of the files of the job file that it mounts.

    Args:
        job: the objects of the job.
        pods: the pods.
        path: the path of the container.
        container: the container.
    """
    item, before = pods.item, ""
    for at, text in command_words(container):
        is_value = before.startswith("-") and text.startswith("$") and " " not in text
        whole = f"{before} {text}" if is_value else text
        yield ContainerText(item, (*path, *at), str(at[0]), whole, INDEX)
        before = text
    for number, variable in enumerate(container.get("env") or ()):
        value = str(variable.get("value") or "")
        yield ContainerText(item, (*path, "env", number, "value"), variable["name"], value, INDEX)
    for steps in (*((name,) for name in HANDLERS), *(("lifecycle", name) for name in HOOKS)):
        at = (*path, *steps, "exec", "command")
        for number, text in enumerate(value_at(item, at) or ()):
            yield ContainerText(item, (*at, number), steps[-1], str(text), IN_SHELL)
    prefix = files_name(job.name, "")
    for mount in container.get("volumeMounts") or ():
        volume = pods.named_volumes.get(mount["name"]) or {}
        name = str(value_at(volume, ("configMap", "name")))
        files = job.of_kind("ConfigMap").get(name) if name.startswith(prefix) else None
        for file, text in ((files or {}).get("data") or {}).items():
            yield ContainerText(files or {}, ("data", file), file, str(text), IN_SHELL)


def located(pods: Pods, text: ContainerText, rule: str, /, **values: object) -> Located:
    """Return the problem of a text of pods."""
    return Located(text.item, text.path, problem(rule, role_path(pods.item), **values))
