"""The policies, tasks and plugins of a Volcano job, parsed and checked, and the roles of the tasks.

A policy maps events, or the exit code of a failed pod, to an action. The policies of a task come
before those of the job, and the first one that matches applies. `spec.plugins` maps the name of a
plugin to its arguments, written as on a command line.

Source: volcano-sh/volcano, pkg/controllers/job: job_controller_util.go (applyPolicies) and
state/running.go for policies, plugins for arguments and defaults; pkg/webhooks/admission/jobs:
mutate for the defaults and the plugins that the webhook adds, validate for its checks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from math import ceil
from typing import Any

from mlgen.bounds import JOB_PODS
from mlgen.dialects._builder import Builder, SourceValue
from mlgen.dialects._schemas import read
from mlgen.kubernetes.quantity import natural
from mlgen.problems import choice, did_you_mean, one_of

ALL_CODES = range(1, 256)
"""The exit codes of a container that has failed."""

TOGETHER = ("RestartTask", "RestartPartition", "RestartJob")
"""The actions that restart several pods together."""

RESTARTS = ("RestartPod", *TOGETHER)
"""The actions that replace failed pods."""

ENDS = ("AbortJob", "TerminateJob")
"""The actions that end the job unsuccessfully."""

ACTIONS = {
    "RestartPod": "restarts the pod",
    "RestartTask": "restarts all pods of the task",
    "RestartPartition": "restarts all pods of the partition",
    "RestartJob": "restarts all pods of the job",
    "AbortJob": "aborts the job",
    "TerminateJob": "terminates the job",
    "CompleteJob": "completes the job",
    "ResumeJob": "resumes the job",
}
"""By action: what Volcano does, for messages."""

EVENTS = {
    "PodFailed": "a pod fails",
    "PodEvicted": "a pod is evicted",
    "TaskFailed": "containers restart too often",
    "TaskCompleted": "a task completes",
    "PodPending": "a pod is pending for too long",
    "Unknown": "part of the gang cannot be scheduled",
    "JobUpdated": "the job is updated",
}
"""By event: when it occurs, for messages."""

JOB_EVENTS = ("Unknown", "JobUpdated")
"""Events of the job as a whole; policies of a task do not match them."""

ANY = "*"
"""Matches every event."""


UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""The units of a duration in Go, in seconds."""

DURATION_PART = re.compile(r"(\d{1,15}(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|ns|s)")


@dataclass(frozen=True)
class Policy:
    """One policy.

    Attributes:
        source: where it is written.
        action: what Volcano does, a key of `ACTIONS`.
        events: all events that it matches, in the order of `EVENTS`; () if it is for an exit code.
        exit_code: of a failed pod; None if the policy is for events.
    """

    source: SourceValue
    action: str
    events: tuple[str, ...]
    exit_code: int | None

    @property
    def timeout_seconds(self) -> int | None:
        """How long Volcano waits before it acts, at least 1; None without a valid timeout.

        https://pkg.go.dev/time#ParseDuration
        """
        text = self.source.get("timeout").value or ""
        parts = DURATION_PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            return None
        return max(1, ceil(sum(float(number) * UNITS[unit] for number, unit in parts)))


def event_names(policy: SourceValue) -> set[str]:
    """Return the events that a policy names in `event` or `events`; `*` is returned as it is."""
    return {*policy.value.get("events", []), policy.value.get("event", "")} - {""}


def parse_policies(policies: SourceValue) -> Iterator[Policy]:
    """Return the policies of a job or a task, in order.

    `*` matches every event. A policy for PodPending needs a timeout, and matches nothing without.
    """
    for item in policies.items():
        names = event_names(item)
        events = [event for event in EVENTS if event in names or ANY in names]
        if not item.get("timeout"):
            events = [event for event in events if event != "PodPending"]
        yield Policy(item, item.value["action"], tuple(events), item.value.get("exitCode"))


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: in the Volcano job.
        role: its name in the TrainingJob.
        source: where it is written.
        replicas: 0 if the field is missing.
        restart: the restart policy of its pods, written or by default. With Always and OnFailure,
            the kubelet restarts their containers in place, and Volcano does not see a failed pod.
        policies: its own, then those of the job.
    """

    name: str
    role: str
    source: SourceValue
    replicas: int
    restart: str
    policies: tuple[Policy, ...] = ()

    @property
    def dependencies(self) -> list[SourceValue]:
        """The names of the tasks in `dependsOn`."""
        return list(self.source.get("dependsOn", "name").items())

    def policy_for(self, event: str) -> Policy | None:
        """Return the policy that applies to an event: the first one that matches."""
        return next((policy for policy in self.policies if event in policy.events), None)

    def policies_by_code(self) -> dict[int, Policy]:
        """Return, by exit code of a failed pod, the policy that applies to it.

        Empty if the pods restart their own containers: they never fail with an exit code.
        """
        policies: dict[int, Policy] = {}
        for policy in self.policies if self.restart == "Never" else ():
            every_code = "PodFailed" in policy.events
            for code in ALL_CODES if every_code else (policy.exit_code or 0,):
                if code in ALL_CODES:
                    policies.setdefault(code, policy)
        return policies

    @property
    def completion_policy(self) -> Policy | None:
        """The task's own policy, not one of the job, that completes the job when it completes."""
        policy = self.policy_for("TaskCompleted")
        own_path = self.source.get("policies").path
        if policy and policy.action == "CompleteJob":
            return policy if policy.source.path[: len(own_path)] == own_path else None
        return None


def parse_tasks(builder: Builder) -> Iterator[Task]:
    """Return the tasks of the job, in order; their roles have the same names at first."""
    job_policies = tuple(parse_policies(builder.spec.get("policies")))
    for i, source in enumerate(builder.spec.get("tasks").items()):
        name = source.get("name").value or f"default{i}"
        restart = source.get("template", "spec", "restartPolicy").value or "Always"
        own_policies = tuple(parse_policies(source.get("policies")))
        replicas = source.get("replicas").value or 0
        yield Task(name, name, source, replicas, restart, (*own_policies, *job_policies))


Argument = bool | int | str

PLUGINS: dict[str, dict[str, Argument]] = read("volcano.json")["plugins"]
"""By plugin: its arguments, with their defaults."""

IMPLIED = {"svc": ("tensorflow", "pytorch", "mpi", "ray"), "ssh": ("mpi",)}
"""By plugin: those for which the webhook adds it, with its defaults."""


@dataclass(frozen=True)
class Plugins:
    """The plugins of a job.

    Attributes:
        sources: by plugin, where it is written; for one that the webhook adds, where the plugin
            that implies it is written.
        arguments: by plugin and name, all arguments, written or by default.
    """

    sources: dict[str, SourceValue] = field(default_factory=dict)
    arguments: dict[str, dict[str, SourceValue]] = field(default_factory=dict)

    def __contains__(self, plugin: str) -> bool:
        return plugin in self.sources

    def argument(self, plugin: str, name: str) -> Any:
        """Return the value of an argument, or None if the job does not have the plugin."""
        return self.arguments[plugin][name].value if plugin in self else None


def parse_plugins(builder: Builder) -> Plugins:
    """Return the plugins of the job, including those that the webhook adds.

    Unknown plugins and arguments are reported as errors.
    """
    plugins = Plugins()
    for name, source in builder.spec.get("plugins").fields():
        if name in PLUGINS:
            plugins.sources[name] = source
            plugins.arguments[name] = _arguments(builder, source, name)
        else:
            builder.refuse(source, f'unknown plugin "{name}"', choice(name, list(PLUGINS)))
    for implied, causes in IMPLIED.items():
        for cause in (name for name in causes if name in plugins and implied not in plugins):
            source = plugins.sources[cause]
            plugins.sources[implied] = source
            plugins.arguments[implied] = _defaults(implied, source)
    return plugins


def _defaults(plugin: str, source: SourceValue) -> dict[str, SourceValue]:
    return {name: SourceValue(value, source.path) for name, value in PLUGINS[plugin].items()}


def _arguments(builder: Builder, source: SourceValue, plugin: str) -> dict[str, SourceValue]:
    """Parse arguments as Go's `flag` does: `--a=b`, `--a b`, or `--a` for true.

    https://pkg.go.dev/flag#hdr-Command_line_flag_syntax
    """
    defaults = PLUGINS[plugin]
    arguments = _defaults(plugin, source)
    items = source.items()
    for item in items:
        name, equals, text = item.value.lstrip("-").partition("=")
        if name not in defaults or not item.value.startswith("-"):
            message = f"unknown argument {item.value}: {plugin} ignores it and all after it"
            builder.refuse(item, message, _known_arguments(name, plugin))
            continue
        default = defaults[name]
        if not equals:
            text = "true" if isinstance(default, bool) else str(next(items, SourceValue("")).value)
        value = _value(text, default)
        if value is None:
            wanted = "true or false" if isinstance(default, bool) else "a non-negative integer"
            message = f'expected {wanted} for {name}, got "{text}"'
            builder.refuse(item, message, f"for example --{name}={str(default).lower()}")
        arguments[name] = SourceValue(value, item.path)
    return arguments


def _known_arguments(name: str, plugin: str) -> str:
    """Return a hint for an unknown argument."""
    options = [f"--{option}" for option in PLUGINS[plugin]]
    if not options:
        return "remove it: this plugin has no arguments"
    return choice(f"--{name}", options)


def _value(text: str, default: Argument) -> Argument | None:
    """Return a text as the type of the default, or None if it cannot be parsed."""
    if isinstance(default, bool):
        words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
        return words.get(text.lower())
    if isinstance(default, int):
        return natural(text)
    return text


def min_available(spec: SourceValue, tasks: Sequence[Task]) -> int:
    """Return how many pods the gang needs.

    If the job's minAvailable is 0 or missing, that is the sum over all tasks, and each task counts
    with its own minAvailable, by default its replicas.
    """
    of_job: int = spec.get("minAvailable").value or 0
    of_tasks = [(task.source.get("minAvailable").value, task.replicas) for task in tasks]
    return of_job or sum(replicas if least is None else least for least, replicas in of_tasks)


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
        message = f"the plugin {framework} has no role for the task {task.name}, only for"
        hint = "move it to a job of its own, or remove the plugin"
        builder.refuse(task.source, f"{message} {', '.join(roles)}", hint)
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
        message = f"Volcano names the pods {builder.name}-{task.name}-<i>; mlgen names them"
        hint = "change the names in commands"
        builder.differs(task.source.get("name"), f"{message} {builder.name}-{role}-<i>", hint)
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
            message = f"Volcano sets the variables of {framework} in all containers"
            builder.differs(containers, f"{message}; mlgen sets them in {first} only")


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
    for name in ("hostname", "subdomain"):
        source = task.source.get("template", "spec", name)
        if source:
            message = f"{name} is reserved: peers find a pod by its hostname and subdomain"
            builder.refuse(source, message, "remove it")
    if task.restart not in RESTART_POLICIES:
        restart = task.source.get("template", "spec", "restartPolicy")
        message = f'unknown restartPolicy "{task.restart}"'
        builder.refuse(restart, message, one_of(RESTART_POLICIES))
    _validate_partitions(builder, task)


def _validate_partitions(builder: Builder, task: Task) -> None:
    partitions = task.source.get("partitionPolicy")
    if not partitions:
        return
    pods = partitions.value["totalPartitions"] * partitions.value["partitionSize"]
    if pods != task.replicas:
        message = f"totalPartitions times partitionSize is {pods}, but {task.name} has"
        hint = "make the two numbers equal"
        builder.refuse(partitions, f"{message} {task.replicas} replicas", hint)


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
        path, claim_name, claim = (
            volume.get(name) for name in ("mountPath", "volumeClaimName", "volumeClaim")
        )
        if path.value in seen:
            hint = "change the mountPath of one of the two volumes"
            builder.refuse(path, f"duplicate mountPath {path.value}", hint)
        seen.add(path.value)
        if claim_name.value and claim:
            message = "volumeClaimName and volumeClaim are mutually exclusive"
            builder.refuse(volume, message, "keep volumeClaimName")
        elif not claim_name.value and not claim:
            hint = "write the name of an existing PersistentVolumeClaim"
            builder.refuse(volume, "volumeClaimName is missing", hint)
