"""What Volcano's webhook refuses of a job, with its reasons, and what has no place here.

Read off volcano-sh/volcano, pkg/webhooks/admission/jobs/validate.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.plugins import Plugins
from mlgen.dialects.volcano.policies import Task, admit_policies
from mlgen.problems import did_you_mean

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""Of a role, and so of a task; Volcano's own could begin with a digit."""

RESTART = ("Always", "OnFailure", "Never")

NEEDED = {"mpi": ("master", "worker"), "ray": ("head",)}
"""By plugin: its arguments that must name a task."""


def admit(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> None:
    """Refuse what cannot be, of the job and of each task."""
    admit_policies(builder, builder.spec.get("policies"))
    names: set[str] = set()
    for task in tasks:
        if task.name in names:
            message = f"there is another task {task.name}"
            builder.refuse(task.given.get("name"), message, "give one of the two another name")
        names.add(task.name)
        _task(builder, task)
    _replicas(builder, tasks)
    names = {task.name for task in tasks if task.replicas}
    for plugin in (name for name in NEEDED if name in plugins):
        for given in (plugins.arguments[plugin][word] for word in NEEDED[plugin]):
            if given.value not in names:
                message = f'{plugin} needs the task "{given.value}"'
                builder.refuse(given, message, _alike(given.value, names))
    _order(builder, tasks)
    _volumes(builder)


def _alike(name: str, tasks: Iterable[str]) -> str:
    return did_you_mean(name, tasks) or f"tasks are: {', '.join(sorted(tasks))}"


def _replicas(builder: Builder, tasks: Sequence[Task]) -> None:
    total, least = sum(task.replicas for task in tasks), builder.spec.get("minAvailable")
    if least and least.value > total:
        message = f"all tasks together have {total} replicas"
        builder.refuse(least, message, f"write at most {total}")
    if not total:
        builder.refuse(
            builder.spec.get("tasks"), "no task has a replica", "write replicas in a task"
        )


def _task(builder: Builder, task: Task) -> None:
    admit_policies(builder, task.given.get("policies"))
    if not NAME.fullmatch(task.name):
        message = f'"{task.name}" cannot name a task'
        hint = "use lower-case letters, digits and dashes, a letter first and no dash last"
        builder.refuse(task.given.get("name"), message, hint)
    least = task.given.get("minAvailable")
    if least and least.value > task.replicas:
        message = f"{task.name} has {task.replicas} replicas"
        builder.refuse(least, message, f"write at most {task.replicas}")
    for word in ("hostname", "subdomain"):
        given = task.given.get("template", "spec", word)
        if given:
            message = "here a pod has the host name by which its peers find it"
            builder.refuse(given, message, "leave it out")
    restart = task.given.get("template", "spec", "restartPolicy")
    if task.restart not in RESTART:
        builder.refuse(restart, f"{task.restart} is not known", f"known are: {', '.join(RESTART)}")
    parts = task.given.get("partitionPolicy")
    if parts and parts.value["totalPartitions"] * parts.value["partitionSize"] != task.replicas:
        message = f"totalPartitions times partitionSize is not {task.replicas}, the replicas"
        builder.refuse(parts, message, "change one of the three")


def before(task: Task) -> Iterator[SourceValue]:
    """Return the names of the tasks that a task waits for."""
    return task.given.get("dependsOn", "name").items()


def _order(builder: Builder, tasks: Sequence[Task]) -> None:
    """Refuse tasks that wait for what is not there, or for each other."""
    names = [task.name for task in tasks]
    for given in (given for task in tasks for given in before(task)):
        if given.value not in names:
            message = f'there is no task "{given.value}"'
            builder.refuse(given, message, _alike(given.value, names))
    try:
        graph = {task.name: {name.value for name in before(task)} for task in tasks}
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        given = builder.spec.get("tasks", names.index(circle[0]), "dependsOn")
        message = f"these tasks wait for each other: {' → '.join(circle)}"
        builder.refuse(given, message, "break the circle")


def _volumes(builder: Builder) -> None:
    """Refuse what is no claim, and claims that Volcano would make."""
    seen: set[str] = set()
    for given in builder.spec.get("volumes").items():
        path, name, claim = (given.get(w) for w in ("mountPath", "volumeClaimName", "volumeClaim"))
        if path.value in seen:
            message = f"there is another volume at {path.value}"
            builder.refuse(path, message, "give one of the two another mountPath")
        seen.add(path.value)
        if name.value and claim:
            message = "a claim is one that there is, or one that Volcano makes"
            builder.refuse(given, message, "keep volumeClaimName alone")
        elif claim:
            message = "nothing here makes a PersistentVolumeClaim"
            hint = "apply one of your own, and write its name in volumeClaimName"
            builder.refuse(claim, message, hint)
        elif not name.value:
            builder.refuse(given, "a volume needs a claim", "write volumeClaimName")
