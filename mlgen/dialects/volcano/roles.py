"""Which framework a Volcano job uses, which role each task is, and which task decides."""

from collections.abc import Sequence
from dataclasses import replace

from mlgen.dialects._builder import Builder
from mlgen.dialects.volcano.plugins import PLUGINS, Plugins
from mlgen.dialects.volcano.tasks import Task

FRAMEWORK_ROLES = {
    "tensorflow": ("chief", "ps", "worker", "evaluator"),
    "pytorch": ("master", "worker"),
}
"""By plugin that is also a framework of mlgen: its roles. Arguments of these names name tasks."""

DECIDING_TASKS = {
    "tensorflow": ("chief", "worker"),
    "pytorch": ("master", "worker"),
    "mpi": ("master",),
    "ray": ("head",),
}
"""By plugin: the arguments that name the task that decides, the preferred one first."""

DECIDING_NAMES = ("chief", "master", "launcher", "driver", "head", "scheduler", "worker")
"""Parts of names by which a deciding task is guessed, the preferred one first."""


def assign_roles(builder: Builder, plugins: Plugins, tasks: list[Task]) -> tuple[str, list[Task]]:
    """Return the framework, and the tasks with the names of its roles.

    Reports an error if the plugins of two frameworks are used, or a task is no role.
    """
    frameworks = [name for name in FRAMEWORK_ROLES if name in plugins]
    if not frameworks:
        return "generic", tasks
    if len(frameworks) > 1:
        message = f"{' and '.join(frameworks)} are mutually exclusive"
        builder.refuse(plugins.sources[frameworks[1]], message, "remove one of the two plugins")
    framework = frameworks[0]
    roles = {plugins.argument(framework, role): role for role in FRAMEWORK_ROLES[framework]}
    others = [task for task in tasks if task.name not in roles]
    if others and not _has_effect(plugins, framework, tasks):
        return "generic", tasks
    for task in others:
        message = (
            f"the plugin {framework} has no role for the task {task.name}, only for"
            f" {', '.join(roles)}"
        )
        builder.refuse(task.source, message, "move it to a job of its own, or remove the plugin")
    return framework, [_renamed(builder, task, roles.get(task.name, task.name)) for task in tasks]


def _has_effect(plugins: Plugins, framework: str, tasks: Sequence[Task]) -> bool:
    """True if the plugin changes any pod.

    pytorch needs its master, tensorflow more than one pod. Source: volcano-sh/volcano,
    pkg/controllers/job/plugins/distributed-framework.
    """
    if "master" in FRAMEWORK_ROLES[framework]:
        return plugins.argument(framework, "master") in [task.name for task in tasks]
    return len(tasks) > 1 or tasks[0].replicas > 1


def _renamed(builder: Builder, task: Task, role: str) -> Task:
    """Return the task as a role; a warning tells the user if the pods' names change."""
    if role != task.name:
        message = (
            f"Volcano names the pods {builder.name}-{task.name}-<i>; mlgen names them"
            f" {builder.name}-{role}-<i>"
        )
        builder.differs(task.source.get("name"), message, "change the names in commands")
    return replace(task, role=role)


def deciding_task(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> Task:
    """Return the task that determines the outcome of training.

    Volcano waits for all tasks if no policy says otherwise, which is reported as a warning.

    Args:
        builder: gets the warning.
        plugins: of the job.
        tasks: those with replicas.
    """
    completing = [task for task in tasks if task.completion_policy]
    if completing or len(tasks) == 1:
        return (completing or tasks)[0]
    decider = _likely_decider(plugins, tasks)
    policy = decider.policy_for("TaskCompleted")
    if policy is None or policy.action != "CompleteJob":
        message = (
            "Volcano ends the job when all tasks have finished; mlgen ends it when"
            f" {decider.role} has"
        )
        example = "{event: TaskCompleted, action: CompleteJob}"
        hint = f"add policies: [{example}] to the task that decides"
        builder.differs(builder.spec.get("tasks"), message, hint)
    return decider


def _likely_decider(plugins: Plugins, tasks: Sequence[Task]) -> Task:
    """Return the task that most likely trains: by plugin, else by name, else by dependencies."""
    names = [
        plugins.argument(plugin, argument)
        for plugin, arguments in DECIDING_TASKS.items()
        for argument in arguments
    ]
    by_plugin = [task for name in names for task in tasks if task.name == name]
    needed = {name.value for task in tasks for name in task.dependencies}
    last = [task for task in tasks if task.name not in needed]
    last = [task for task in last if task.restart != "Always"] or last
    by_name = [task for name in DECIDING_NAMES for task in last if name in task.name]
    return (by_plugin or by_name or last)[0]


def as_job(builder: Builder, framework: str, task: Task, decider: str) -> Task:
    """Return the task with a restart policy that a Job accepts, if its role is a Job.

    Args:
        builder: gets a warning if the user wrote another policy.
        framework: whose roles are Jobs, except for parameter servers.
        task: any task.
        decider: the role that decides, always a Job.
    """
    is_job = task.role == decider or (framework in FRAMEWORK_ROLES and task.role != "ps")
    if task.restart != "Always" or not is_job:
        return task
    source = task.source.get("template", "spec", "restartPolicy")
    if source:
        message = f"Volcano restarts {task.role} even after success; a Job does not"
        builder.differs(source, message, "write OnFailure, which mlgen renders")
    return replace(task, restart="OnFailure")


def write_framework(builder: Builder, plugins: Plugins, framework: str) -> None:
    """Write the framework, and the fields that its plugin's arguments set."""
    kind = builder.resource.get("kind")
    builder.put(("spec", "framework"), kind, framework)
    if framework not in FRAMEWORK_ROLES:
        builder.put(("spec", "options", "addresses"), kind, value=False)
        return
    arguments = plugins.arguments[framework]
    if arguments["port"].value != PLUGINS[framework]["port"]:
        builder.put(("spec", "port"), arguments["port"])
    if plugins.argument("pytorch", "wait-master-enabled"):
        builder.put(("spec", "wait", "timeoutSeconds"), arguments["wait-master-timeout"])
        builder.put(("spec", "helpers", "waitImage"), arguments["wait-master-image"])
    for task in builder.spec.get("tasks").items():
        containers = task.get("template", "spec", "containers")
        if len(containers.value) > 1:
            first = containers.value[0]["name"]
            message = (
                f"Volcano sets the variables of {framework} in all containers; mlgen sets them in"
                f" {first} only"
            )
            builder.differs(containers, message)
