"""Which framework a Volcano job uses, which role each task is, and which tasks decide."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Deciders:
    """The tasks that determine the outcome of training.

    Attributes:
        tasks: at least one.
        any_of_them: True if the first of several that completes ends the job; otherwise all must.
        guessed: True if Volcano would also wait for other tasks.
    """

    tasks: tuple[Task, ...]
    any_of_them: bool = False
    guessed: bool = False

    @property
    def roles(self) -> list[str]:
        """The names of their roles."""
        return [task.role for task in self.tasks]


def deciding_tasks(
    builder: Builder, plugins: Plugins, framework: str, tasks: Sequence[Task]
) -> Deciders:
    """Return the tasks that determine the outcome of training.

    Those whose own policy completes the job; else all that end by themselves, as far as that is
    known. A warning tells the user if Volcano waits for others too.

    Args:
        builder: gets the warning.
        plugins: of the job.
        framework: of the job.
        tasks: those with replicas.
    """
    completing = tuple(task for task in tasks if task.completion_policy)
    likely = completing or (tuple(tasks) if len(tasks) == 1 else _likely_deciders(plugins, tasks))
    # The ranks of one framework are one group, and minSuccess counts replicas of one role.
    if "master" in FRAMEWORK_ROLES.get(framework, ()) or builder.spec.get("minSuccess"):
        likely = likely[:1]
    policies = [task.policy_for("TaskCompleted") for task in likely]
    if all(policy and policy.action == "CompleteJob" for policy in policies):
        return Deciders(likely, any_of_them=True)
    deciders = Deciders(likely, guessed=len(likely) < len(tasks))
    if deciders.guessed:
        _report_guess(builder, deciders, [task.role for task in tasks if task.restart != "Always"])
    return deciders


def _report_guess(builder: Builder, deciders: Deciders, ending: Sequence[str]) -> None:
    """Warn that Volcano would wait for more tasks; `ending` may all decide."""
    roles = " and ".join(deciders.roles)
    has = "has" if len(deciders.roles) == 1 else "have"
    message = f"Volcano ends the job when all tasks have finished; mlgen ends it when {roles} {has}"
    example = "{event: TaskCompleted, action: CompleteJob}"
    hint = f"add policies: [{example}] to the task that decides"
    if len(ending) > len(deciders.roles) and not builder.spec.get("minSuccess"):
        together = f"--set 'spec.successPolicy={{roles: [{', '.join(ending)}]}}'"
        hint += f", or if all of them end, pass {together}"
    builder.differs(builder.spec.get("tasks"), message, hint)


def _likely_deciders(plugins: Plugins, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks that most likely train: by plugin, else by name, else by dependencies.

    Tasks that always restart do not end, nor may those that others need.
    """
    names = [
        plugins.argument(plugin, argument)
        for plugin, arguments in DECIDING_TASKS.items()
        for argument in arguments
    ]
    by_plugin = [task for name in names for task in tasks if task.name == name]
    if by_plugin:
        return (by_plugin[0],)
    needed = {name.value for task in tasks for name in task.dependencies}
    last = [task for task in tasks if task.name not in needed]
    ending = [task for task in last if task.restart != "Always"]
    by_name = [[task for task in ending or last if name in task.name] for name in DECIDING_NAMES]
    likely = next(filter(None, by_name), ending or last)
    return tuple(likely if ending else likely[:1])


def as_job(builder: Builder, framework: str, task: Task, deciders: Deciders) -> Task:
    """Return the task with a restart policy that a Job accepts, if its role is a Job.

    Args:
        builder: gets a warning if the user wrote another policy.
        framework: whose roles are Jobs, except for parameter servers.
        task: any task.
        deciders: whose roles are always Jobs.
    """
    is_job = task.role in deciders.roles or (framework in FRAMEWORK_ROLES and task.role != "ps")
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
