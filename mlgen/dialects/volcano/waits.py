"""Which roles of a Volcano job wait for which: `dependsOn`, and what a plugin needs."""

from collections.abc import Mapping, Sequence

from mlgen.dialects._builder import Builder
from mlgen.dialects.volcano.plugins import Plugins
from mlgen.dialects.volcano.pods import main_container
from mlgen.dialects.volcano.roles import FRAMEWORK_ROLES
from mlgen.dialects.volcano.tasks import Task

PLUGIN_DEPENDENCIES = {"mpi": ("master", "worker"), "ray": ("worker", "head")}
"""By plugin: a task that fails without another one, as its arguments name the two.

Volcano starts both at once and restarts the first until it succeeds.
"""


def write_waits(builder: Builder, plugins: Plugins, framework: str, tasks: Sequence[Task]) -> None:
    """Write `waitFor` of each role.

    Volcano creates the pods of a task when the pods it depends on are ready. So does mlgen if a
    readiness probe says when that is. Otherwise the pods wait for a port if the other role declares
    one, else until its names resolve. The port of a framework's plugin is a variable, and its
    programs also listen at other ports.

    Args:
        builder: has the roles.
        plugins: of the job.
        framework: of the job.
        tasks: those with replicas.
    """
    running = {task.name: task for task in tasks}
    for task in tasks:
        depends_on = task.source.get("dependsOn")
        names = [name.value for name in task.dependencies]
        ready = [name for name in names if name in running and _is_probed(builder, running[name])]
        if depends_on.get("iteration").value == "any" and len(names) > 1:
            message = "Volcano waits for any one of these tasks; mlgen waits for all of them"
            builder.differs(depends_on.get("iteration"), message, "keep the one that starts first")
        names += _plugin_dependencies(plugins, running, task)
        waits = []
        for name in (name for name in dict.fromkeys(names) if name in running):
            wait, other = {"role": running[name].role}, running[name]
            if name in ready:
                wait["until"] = "Ready"
            elif not _has_port(builder, plugins, framework, other):
                wait["until"] = "name"
            waits.append(wait)
        builder.put(("spec", "roles", task.role, "waitFor"), depends_on or task.source, waits)


def _is_probed(builder: Builder, task: Task) -> bool:
    """True if a readiness probe says when the pods of a task are ready.

    Kueue resumes what is suspended, so that nothing else can.
    """
    containers = task.source.get("template", "spec", "containers").items()
    gang = builder.data["spec"].get("scheduling", {}).get("gang")
    return gang != "kueue" and any(container.get("readinessProbe") for container in containers)


def _plugin_dependencies(plugins: Plugins, running: Mapping[str, Task], task: Task) -> list[str]:
    """Return the tasks that a plugin needs before this one, unless they wait for it."""
    names = []
    for plugin, (dependent, needed) in PLUGIN_DEPENDENCIES.items():
        name = plugins.argument(plugin, needed)
        if plugins.argument(plugin, dependent) != task.name or name not in running:
            continue
        if task.name not in _with_dependencies(running, name):
            names.append(name)
    return names


def _with_dependencies(running: Mapping[str, Task], name: str) -> set[str]:
    """Return a task and all tasks that it waits for, directly or not."""
    reached: set[str] = set()
    left = [name]
    while left:
        task = running.get(left.pop())
        if task and task.name not in reached:
            reached.add(task.name)
            left += [dependency.value for dependency in task.dependencies]
    return reached


def _has_port(builder: Builder, plugins: Plugins, framework: str, task: Task) -> bool:
    """True if a role has a port; the first that its training container declares is written."""
    if framework in FRAMEWORK_ROLES:
        return False
    if "port" not in builder.roles[task.role]:
        containers = task.source.get("template", "spec", "containers")
        port = containers.get(main_container(plugins, task), "ports", 0, "containerPort")
        builder.put(("spec", "roles", task.role, "port"), port)
    return "port" in builder.roles[task.role]
