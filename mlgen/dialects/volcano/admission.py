"""The checks of Volcano's webhook, and of fields that mlgen cannot render.

Source: volcano-sh/volcano, pkg/webhooks/admission/jobs/validate (admit_job.go and util.go).
"""

import re
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from mlgen.bounds import JOB_PODS
from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.plugins import Plugins
from mlgen.dialects.volcano.policies import ANY, event_names
from mlgen.dialects.volcano.tasks import Task
from mlgen.problems import did_you_mean

TASK_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""The name of a role, and therefore of a task. Volcano's names may also start with a digit."""

RESTART_POLICIES = ("Always", "OnFailure", "Never")

REQUIRED_TASKS = {"mpi": ("master", "worker"), "ray": ("head",)}
"""By plugin: the arguments that must name a task with replicas."""


def validate(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> None:
    """Report every error in the job, in its tasks and in what its plugins need."""
    _validate_policies(builder, builder.spec.get("policies"))
    names: set[str] = set()
    for task in tasks:
        if task.name in names:
            message = f'duplicate task name "{task.name}"'
            builder.refuse(task.source.get("name"), message, "rename one of the tasks")
        names.add(task.name)
        _validate_task(builder, task)
    _validate_replicas(builder, tasks)
    _validate_required_tasks(builder, plugins, tasks)
    _validate_dependencies(builder, tasks)
    _validate_volumes(builder)


def _validate_policies(builder: Builder, policies: SourceValue) -> None:
    """Report errors in the policies of a job or a task."""
    seen_events: set[str] = set()
    seen_codes: set[int] = set()
    for policy in policies.items():
        events, code = event_names(policy), policy.get("exitCode")
        if bool(events) == bool(code):
            message = f"expected either events or an exit code, got {'both' if code else 'neither'}"
            builder.refuse(policy, message, "write event, events or exitCode")
        for event in sorted(events & seen_events):
            builder.refuse(policy, f"duplicate policy for {event}", "keep one of the two")
        seen_events |= events
        if ANY in seen_events and len(seen_events) > 1:
            message = f'"{ANY}" and other events are mutually exclusive'
            builder.refuse(policy, message, f'remove "{ANY}" or the other events')
        if code.value == 0:
            hint = "write the exit code of a failure, 1 to 255"
            builder.refuse(code, "exit code 0 means success", hint)
        elif code and code.value in seen_codes:
            message = f"duplicate policy for exit code {code.value}"
            builder.refuse(code, message, "keep one of the two")
        seen_codes |= {code.value} if code else set()


def _validate_task(builder: Builder, task: Task) -> None:
    _validate_policies(builder, task.source.get("policies"))
    if not TASK_NAME.fullmatch(task.name):
        hint = "use lower-case letters, digits and dashes, a letter first and no dash at the end"
        builder.refuse(task.source.get("name"), f'invalid task name "{task.name}"', hint)
    least = task.source.get("minAvailable")
    if least and least.value > task.replicas:
        message = f"{least.value} is more than the {task.replicas} replicas of {task.name}"
        builder.refuse(least, message, f"write at most {task.replicas}")
    for field in ("hostname", "subdomain"):
        source = task.source.get("template", "spec", field)
        if source:
            message = f"{field} is reserved: peers find a pod by its hostname and subdomain"
            builder.refuse(source, message, "remove it")
    if task.restart not in RESTART_POLICIES:
        restart = task.source.get("template", "spec", "restartPolicy")
        hint = f"expected one of: {', '.join(RESTART_POLICIES)}"
        builder.refuse(restart, f'unknown restartPolicy "{task.restart}"', hint)
    _validate_partitions(builder, task)


def _validate_partitions(builder: Builder, task: Task) -> None:
    partitions = task.source.get("partitionPolicy")
    if not partitions:
        return
    pods = partitions.value["totalPartitions"] * partitions.value["partitionSize"]
    if pods != task.replicas:
        message = (
            f"totalPartitions times partitionSize is {pods}, but {task.name} has {task.replicas}"
            " replicas"
        )
        builder.refuse(partitions, message, "make the two numbers equal")


def _validate_replicas(builder: Builder, tasks: Sequence[Task]) -> None:
    total, least = sum(task.replicas for task in tasks), builder.spec.get("minAvailable")
    if total > JOB_PODS:
        largest = max(tasks, key=lambda task: task.replicas).source.get("replicas")
        message = f"the job has {total:,} replicas; a cluster runs at most {JOB_PODS:,} pods"
        builder.refuse(largest, message, "use fewer replicas", "too-large")
    if least and least.value > total:
        message = f"{least.value} is more than the {total} replicas of all tasks"
        builder.refuse(least, message, f"write at most {total}")
    if not total:
        hint = "set replicas of at least one task"
        builder.refuse(builder.spec.get("tasks"), "all tasks have 0 replicas", hint)


def _validate_required_tasks(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> None:
    """Report the tasks that a plugin needs and the job does not run."""
    running = {task.name for task in tasks if task.replicas}
    for plugin in (name for name in REQUIRED_TASKS if name in plugins):
        for required in (plugins.arguments[plugin][name] for name in REQUIRED_TASKS[plugin]):
            if required.value not in running:
                message = f'the plugin {plugin} needs a task "{required.value}" with replicas'
                builder.refuse(required, message, _known_tasks(required.value, running))


def _known_tasks(name: str, tasks: Iterable[str]) -> str:
    """Return a hint for the name of a task that does not exist."""
    return did_you_mean(name, tasks) or f"the tasks are: {', '.join(sorted(tasks))}"


def _validate_dependencies(builder: Builder, tasks: Sequence[Task]) -> None:
    """Report dependencies on unknown tasks, and cycles."""
    names = [task.name for task in tasks]
    for dependency in (name for task in tasks for name in task.dependencies):
        if dependency.value not in names:
            message = f'unknown task "{dependency.value}"'
            builder.refuse(dependency, message, _known_tasks(dependency.value, names))
    try:
        graph = {task.name: {name.value for name in task.dependencies} for task in tasks}
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        source = builder.spec.get("tasks", names.index(cycle[0]), "dependsOn")
        message = f"these tasks wait for each other: {' → '.join(cycle)}"
        builder.refuse(source, message, "remove one of these dependencies")


def _validate_volumes(builder: Builder) -> None:
    """Report volumes with no claim or two claims, and duplicate paths."""
    seen: set[str] = set()
    for volume in builder.spec.get("volumes").items():
        path, name, claim = (
            volume.get(field) for field in ("mountPath", "volumeClaimName", "volumeClaim")
        )
        if path.value in seen:
            hint = "change the mountPath of one of the two volumes"
            builder.refuse(path, f"duplicate mountPath {path.value}", hint)
        seen.add(path.value)
        if name.value and claim:
            message = "volumeClaimName and volumeClaim are mutually exclusive"
            builder.refuse(volume, message, "keep volumeClaimName")
        elif not name.value and not claim:
            hint = "write the name of an existing PersistentVolumeClaim"
            builder.refuse(volume, "volumeClaimName is missing", hint)
