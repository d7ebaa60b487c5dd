"""Volcano: jobs of tasks, batch.volcano.sh/v1alpha1, with their plugins and policies.

Read off Volcano's own sources, volcano-sh/volcano: staging/src/volcano.sh/apis/pkg/apis/batch for
fields, pkg/webhooks/admission/jobs for defaults and what is refused, pkg/controllers/job for what
is done. What has become of a part of it here stands in a module of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._schemas import COUNT, TEMPLATE, TEXT, mapping
from mlgen.dialects.volcano.admission import admit, before
from mlgen.dialects.volcano.plugins import PLUGINS, Plugins, give, read, role, trainer
from mlgen.dialects.volcano.policies import (
    POLICIES,
    RESTARTS,
    RETRIES,
    Lifecycle,
    Task,
    completing,
    retries,
    rules,
)
from mlgen.dialects.volcano.scheduling import minimum, schedule, tell

if TYPE_CHECKING:
    from mlgen.dialects._source_value import SourceValue

ROLES = {
    "tensorflow": ("chief", "ps", "worker", "evaluator"),
    "pytorch": ("master", "worker"),
}
"""By plugin that has a framework here: the roles for which its arguments name tasks."""

LEADS = {
    "tensorflow": ("chief", "worker"),
    "pytorch": ("master", "worker"),
    "mpi": ("master",),
    "ray": ("head",),
}
"""By plugin: the tasks whose end is the end of training, as its arguments call them."""

LEADERS = ("chief", "master", "launcher", "driver", "head", "scheduler", "worker")
"""What the name of such a task holds, where no plugin says; of two, that which stands first."""

NEEDS = {"mpi": ("master", "worker"), "ray": ("worker", "head")}
"""By plugin: a task that can do nothing without another one, as its arguments call the two."""


def _job(builder: Builder) -> None:
    plugins = read(builder)
    tasks = list(_tasks(builder))
    admit(builder, plugins, tasks)
    if not _refused(builder):
        framework, tasks = _named(builder, plugins, tasks)
        if not _refused(builder):
            _written(builder, plugins, framework, tasks)


def _refused(builder: Builder) -> bool:
    return builder.collector.has_errors


def _written(builder: Builder, plugins: Plugins, framework: str, tasks: list[Task]) -> None:
    """Write the job, in which nothing is wrong."""
    decides = _decider(builder, plugins, [task for task in tasks if task.replicas]).role
    tasks = [_ending(builder, framework, task, decides) for task in tasks]
    running = [task for task in tasks if task.replicas]
    decider = next(task for task in running if task.role == decides)
    schedule(builder, running)
    gifts = give(builder, plugins, tasks)
    for task in tasks:
        role(builder, plugins, task, gifts)
        given = task.given.get("replicas") or task.given
        builder.put(("spec", "roles", task.role, "replicas"), given, task.replicas)
    tell(builder, tasks)
    _framework(builder, plugins, framework)
    if "ray" in plugins:
        _explain_ray(builder, plugins, running)
    _waits(builder, plugins, framework, running)
    _retries(builder, running)
    _success(builder, framework, running, decider)
    _end(builder, running)
    Lifecycle(builder, running, decider).explain()


def _tasks(builder: Builder) -> Iterator[Task]:
    whole = tuple(rules(builder.spec.get("policies")))
    for i, given in enumerate(builder.spec.get("tasks").items()):
        name = given.get("name").value or f"default{i}"
        restart = given.get("template", "spec", "restartPolicy").value or "Always"
        own = tuple(rules(given.get("policies")))
        replicas = given.get("replicas").value or 0
        yield Task(name, name, given, replicas, restart, (*own, *whole))


def _named(builder: Builder, plugins: Plugins, tasks: list[Task]) -> tuple[str, list[Task]]:
    """Return the framework, and the tasks under the names of its roles."""
    asked = [name for name in ROLES if name in plugins]
    if not asked:
        return "generic", tasks
    if len(asked) > 1:
        message = f"a job is of one of {' and '.join(asked)}"
        builder.refuse(plugins.given[asked[1]], message, "keep one of the two")
    framework = asked[0]
    roles = {plugins.value(framework, name): name for name in ROLES[framework]}
    strangers = [task for task in tasks if task.name not in roles]
    if strangers and not _acts(plugins, framework, tasks):
        return "generic", tasks
    for task in strangers:
        message = f"{task.name} is none of the tasks that {framework} knows: {', '.join(roles)}"
        builder.refuse(task.given, message, "make it a job of its own, or leave the plugin out")
    return framework, [_renamed(builder, task, roles.get(task.name, task.name)) for task in tasks]


def _acts(plugins: Plugins, framework: str, tasks: Sequence[Task]) -> bool:
    """Return whether the plugin gives anything to the pods at all."""
    if "master" in ROLES[framework]:
        return plugins.value(framework, "master") in [task.name for task in tasks]
    return len(tasks) > 1 or tasks[0].replicas > 1


def _renamed(builder: Builder, task: Task, name: str) -> Task:
    if name != task.name:
        message = f"the pods of {task.name} are called {builder.name}-{name}-<i> here"
        hint = "write these names where a command has the others"
        builder.differs(task.given.get("name"), message, hint)
    return replace(task, role=name)


def _decider(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> Task:
    """Return the task whose end is the end of training."""
    completes = [task for task in tasks if completing(task)]
    if completes or len(tasks) == 1:
        return (completes or tasks)[0]
    decider = _leader(plugins, tasks)
    rule = decider.fits("TaskCompleted")
    if rule is None or rule.action != "CompleteJob":
        message = f"Volcano ends the job when all tasks have ended; here when {decider.role} has"
        policy = "{event: TaskCompleted, action: CompleteJob}"
        hint = f"write policies: [{policy}] in the task that decides"
        builder.differs(builder.spec.get("tasks"), message, hint)
    return decider


def _leader(plugins: Plugins, tasks: Sequence[Task]) -> Task:
    """Return the task that most likely trains, where no policy says so."""
    names = [plugins.value(plugin, word) for plugin, words in LEADS.items() for word in words]
    leads = [task for name in names for task in tasks if task.name == name]
    needed = {name.value for task in tasks for name in before(task)}
    last = [task for task in tasks if task.name not in needed]
    last = [task for task in last if task.restart != "Always"] or last
    alike = [task for word in LEADERS for task in last if word in task.name]
    return (leads or alike or last)[0]


def _ending(builder: Builder, framework: str, task: Task, decides: str) -> Task:
    """What ends is a Job, which starts nothing again that has succeeded."""
    ends = task.role == decides or (framework in ROLES and task.role != "ps")
    if task.restart != "Always" or not ends:
        return task
    given = task.given.get("template", "spec", "restartPolicy")
    if given:
        message = f"a Job does not start {task.role} again once it has succeeded"
        builder.differs(given, message, "it is rendered as OnFailure")
    return replace(task, restart="OnFailure")


def _framework(builder: Builder, plugins: Plugins, framework: str) -> None:
    """Write the framework, and what its plugin's arguments say."""
    kind = builder.given.get("kind")
    builder.put(("spec", "framework"), kind, framework)
    if framework not in ROLES:
        builder.put(("spec", "options", "addresses"), kind, value=False)
        return
    arguments = plugins.arguments[framework]
    if arguments["port"].value != PLUGINS[framework]["port"]:
        builder.put(("spec", "port"), arguments["port"])
    if plugins.value("pytorch", "wait-master-enabled"):
        builder.put(("spec", "wait", "timeoutSeconds"), arguments["wait-master-timeout"])
        builder.put(("spec", "helpers", "waitImage"), arguments["wait-master-image"])
    for given in builder.spec.get("tasks").items():
        containers = given.get("template", "spec", "containers")
        if len(containers.value) > 1:
            message = f"Volcano gives all containers what {framework} needs"
            first = containers.value[0]["name"]
            builder.differs(containers, f"{message}; here {first} alone gets it")


def _explain_ray(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> None:
    name = plugins.value("ray", "head")
    serves = any(task.name == name and task.restart == "Always" for task in tasks)
    pods = f"{'statefulset' if serves else 'job'}/{builder.name}-{name}"
    message = f"Volcano makes a Service {builder.name}-{name}-svc, by which others reach the head"
    hint = f"kubectl port-forward {pods} {plugins.value('ray', 'dashboardPort')}"
    builder.differs(plugins.given["ray"], f"{message}; here none is", hint)


def _waits(builder: Builder, plugins: Plugins, framework: str, tasks: Sequence[Task]) -> None:
    """Write which roles wait for which: as the resource says, and where a plugin needs it."""
    running = {task.name: task for task in tasks}
    for task in tasks:
        given = task.given.get("dependsOn")
        names = [name.value for name in before(task)]
        if given.get("iteration").value == "any" and len(names) > 1:
            message = "Volcano waits for any one of these tasks; here for all of them"
            builder.differs(given.get("iteration"), message, "keep the one that comes first")
        for plugin, (needy, needed) in NEEDS.items():
            other = plugins.value(plugin, needed)
            needs = plugins.value(plugin, needy) == task.name and other in running
            if needs and task.name not in _reached(running, other):
                names.append(other)
        waits = [
            {"role": running[name].role}
            | ({} if _listens(builder, plugins, framework, running[name]) else {"until": "name"})
            for name in dict.fromkeys(names)
            if name in running
        ]
        builder.put(("spec", "roles", task.role, "waitFor"), given or task.given, waits)


def _reached(tasks: Mapping[str, Task], name: str) -> set[str]:
    """A task, and all that it waits for."""
    found: set[str] = set()
    left = [name]
    while left:
        task = tasks.get(left.pop())
        if task and task.name not in found:
            found.add(task.name)
            left += [given.value for given in before(task)]
    return found


def _listens(builder: Builder, plugins: Plugins, framework: str, task: Task) -> bool:
    """Return whether a role has a port; of several that its container declares, the first."""
    containers = task.given.get("template", "spec", "containers")
    port = containers.get(trainer(plugins, task), "ports", 0, "containerPort")
    if framework not in ROLES and "port" not in builder.roles[task.role]:
        builder.put(("spec", "roles", task.role, "port"), port)
    return framework in ROLES or "port" in builder.roles[task.role]


def _retries(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write what happens to failed replicas, and how often."""
    limits: dict[str, tuple[SourceValue, int]] = {}
    for task in tasks:
        at = ("spec", "roles", task.role)
        given = task.given.get("template", "spec", "restartPolicy") or task.given
        if task.restart == "Always":
            builder.put((*at, "restartPolicy"), given, "Always")
            continue
        policy, source, limit = retries(builder, task)
        builder.put((*at, "restartPolicy"), given, policy)
        if policy == "ExitCode":
            builder.put((*at, "retryableExitCodes"), source, sorted(task.codes(*RESTARTS)))
        if policy != "Never":
            limits[task.role] = (source, limit)
        elif limit:
            builder.put((*at, "backoffLimit"), source, limit)
    alike = len({limit for _, limit in limits.values()}) == 1
    for name, (source, limit) in limits.items():
        target = ("runPolicy",) if alike else ("roles", name)
        builder.put(("spec", *target, "backoffLimit"), source, limit)


def _success(builder: Builder, framework: str, tasks: Sequence[Task], decider: Task) -> None:
    """Write which role decides, and how many of its replicas."""
    rule = completing(decider)
    source = rule.given if rule else builder.spec.get("tasks")
    roles = [task.role for task in tasks]
    leads = next((n for n in LEADS.get(framework, ()) if framework in ROLES and n in roles), None)
    if "master" in ROLES.get(framework, ()) and decider.role != leads:
        message = f"Volcano completes the job when {decider.role} has; here when {leads} has"
        builder.differs(source, message, f"write that policy in the task {leads}")
    elif len(tasks) > 1 and decider.role != leads:
        builder.put(("spec", "successPolicy", "role"), source, decider.role)
    if "ps" in ROLES.get(framework, ()) and decider.role == "worker" and decider.replicas > 1:
        builder.put(("spec", "successPolicy", "replicas"), source, "All")
    wanted = builder.spec.get("minSuccess")
    if not wanted:
        _tolerate(builder, tasks)
        return
    if len(tasks) > 1:
        message = f"Volcano completes the job when {wanted.value} pods of any tasks have"
        builder.differs(wanted, f"{message} succeeded; here those of {decider.role} count")
    if len(tasks) == 1 or wanted.value < decider.replicas:
        builder.put(("spec", "successPolicy", "replicas"), wanted)


def _tolerate(builder: Builder, tasks: Sequence[Task]) -> None:
    """Of one task, let replicas fail that Volcano can do without; the others go on.

    A success policy would stop those, once so many have succeeded.
    """
    (task, *others), least = tasks, minimum(builder.spec, tasks)
    judged = task.fits("PodFailed") or task.codes(*RESTARTS)
    if others or judged or task.restart != "Never" or least >= task.replicas:
        return
    given = builder.spec.get("minAvailable") or task.given.get("minAvailable")
    at = ("spec", "roles", task.role)
    builder.put((*at, "backoffLimitPerIndex"), given, 0)
    builder.put((*at, "maxFailedIndexes"), given, task.replicas - least)
    message = f"Volcano completes the job when {least} of {task.replicas} pods have succeeded"
    builder.differs(
        given,
        f"{message} and the others have failed; here such a Job has failed at its end",
        f"to stop the others then, --set spec.successPolicy.replicas={least}",
    )


def _end(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write what happens when training has ended."""
    builder.put(
        ("spec", "runPolicy", "ttlSecondsAfterFinished"),
        builder.spec.get("ttlSecondsAfterFinished"),
    )
    found = [task.fits("TaskCompleted") for task in tasks]
    completes = [rule.given for rule in found if rule and rule.action == "CompleteJob"]
    if builder.spec.get("minSuccess"):
        completes.append(builder.spec.get("minSuccess"))
    if completes and len(tasks) > 1:
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), completes[0], "Running")


COUNTED = COUNT | {"minimum": 1}
NAMES: dict[str, Any] = {"type": "array", "items": TEXT}
TOPOLOGY = mapping(
    {"mode": {"enum": ["hard", "soft"]}, "highestTierAllowed": COUNT, "highestTierName": TEXT}
)
PARTITIONS = mapping(
    {
        "totalPartitions": COUNTED,
        "partitionSize": COUNTED,
        "networkTopology": TOPOLOGY,
        "minPartitions": COUNT,
    },
    "totalPartitions",
    "partitionSize",
)
TASK = mapping(
    {
        "name": TEXT,
        "replicas": COUNT,
        "minAvailable": COUNT,
        "template": TEMPLATE,
        "policies": POLICIES,
        "topologyPolicy": {"enum": ["none", "best-effort", "restricted", "single-numa-node"]},
        "maxRetry": RETRIES,
        "dependsOn": mapping({"name": NAMES, "iteration": {"enum": ["any", "all"]}}),
        "partitionPolicy": PARTITIONS,
    },
    "template",
)
VOLUME = mapping(
    {"mountPath": TEXT, "volumeClaimName": TEXT, "volumeClaim": {"type": "object"}}, "mountPath"
)
SPEC = mapping(
    {
        "schedulerName": TEXT,
        "minAvailable": COUNT,
        "volumes": {"type": "array", "items": VOLUME},
        "tasks": {"type": "array", "minItems": 1, "items": TASK},
        "policies": POLICIES,
        "plugins": {"type": "object", "additionalProperties": NAMES},
        "runningEstimate": TEXT,
        "queue": TEXT,
        "maxRetry": COUNT,
        "ttlSecondsAfterFinished": COUNT,
        "priorityClassName": TEXT,
        "minSuccess": COUNTED,
        "networkTopology": TOPOLOGY,
    },
    "tasks",
)

DIALECT = Dialect(
    groups=(
        "batch.volcano.sh",
        "bus.volcano.sh",
        "flow.volcano.sh",
        "training.volcano.sh",
    ),
    kinds={("batch.volcano.sh/v1alpha1", "Job"): Kind(SPEC, _job)},
)
