"""Reads and checks a Volcano job: its policies, tasks and plugins, and the roles of the tasks.

A policy maps events, or the exit code of a failed pod, to an action. Policies of a task override
policies of the job, and the first policy that matches applies. `spec.plugins` maps the name of a
plugin to its arguments, written as on a command line.

Source: volcano-sh/volcano, pkg/controllers/job: job_controller_util.go (applyPolicies) and
state/running.go for policies, plugins for arguments and defaults; pkg/webhooks/admission/jobs:
mutate for the defaults and the plugins that the webhook adds, validate for its checks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import ceil
from typing import NamedTuple

from mlgen.dialects._builder import Builder, Field
from mlgen.dialects._schemas import read
from mlgen.input_limits import JOB_PODS
from mlgen.kubernetes.names import DNS_1035, DNS_1035_WORDS
from mlgen.kubernetes.quantity import natural
from mlgen.problems import choice, did_you_mean, one_of

TABLES = read("volcano.json")
"""Tables about Volcano.

- `implied`: by plugin, the plugins for which the webhook adds it.
- `required`: by plugin, the arguments that must name a task with replicas.
- `dependencies`: by plugin, the arguments that name a task and another task that it fails without.
  Volcano starts both at once, and restarts the first one until it succeeds.
- `deciding`: by plugin, the arguments that name the deciding task.
- `serving`: by plugin, the arguments that name tasks that run a server for the deciding task, such
  as sshd. In Volcano, they keep the job running, unless a policy completes it.
- `aliases`: by plugin, other names of its arguments and of their default tasks. Volcano's design
  calls MXNet's servers PS.
- `decidingNames`: parts of the names of likely deciding tasks, the preferred one first.
- `frameworks`: the plugins that are also frameworks of mlgen, with their roles. The roles are also
  the names of the arguments that name tasks.
- `rayPorts`: the ports that the plugin ray adds to the head, by the arguments that set them.
- `sshFiles`: the files that the plugin ssh mounts, with their keys.
- `inherited`: the labels and annotations that Volcano copies from the job to its pods.
- `actions`, `events`: descriptions of Volcano's actions and events, for messages.
"""

PLUGINS: dict[str, dict[str, object]] = TABLES["plugins"]
"""The arguments of each plugin, with their defaults."""

ALL_CODES = range(1, 256)
"""The exit codes of a container that has failed."""

TOGETHER = ("RestartTask", "RestartPartition", "RestartJob")
"""The actions that restart several pods together."""

RESTARTS = ("RestartPod", *TOGETHER)
"""The actions that replace failed pods."""

ENDS = ("AbortJob", "TerminateJob")
"""The actions that end the job unsuccessfully."""

ANY = "*"
"""Matches every event."""

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""The units of a duration in Go, in seconds."""

DURATION_PART = re.compile(r"(\d{1,15}(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|ns|s)")

Event = str | int
"""The name of an event, or the exit code of a failed pod."""


class Policy(NamedTuple):
    """A policy: its source, its action, and the events that trigger the action."""

    source: Field
    action: str
    events: tuple[Event, ...]

    @property
    def bound(self) -> int | None:
        """The number of seconds after which it ends the job, at least 1; None if it does not.

        https://pkg.go.dev/time#ParseDuration
        """
        text = self.source.get("timeout").value or ""
        parts = DURATION_PART.findall(text)
        is_valid = parts and "".join(number + unit for number, unit in parts) == text
        if self.action not in ENDS or not is_valid:
            return None
        return max(1, ceil(sum(float(number) * UNITS[unit] for number, unit in parts)))


def event_names(policy: Field) -> set[str]:
    """Return the events that a policy names in `event` or `events`, including `*`."""
    return {*policy.value.get("events", []), policy.value.get("event", "")} - {""}


def parse_policies(policies: Field) -> Iterator[Policy]:
    """Yield the policies of a job or a task, in order.

    `*` matches every event. A policy for PodPending has no effect without a timeout.
    """
    for source in policies.items():
        names, code = event_names(source), source.value.get("exitCode")
        events = [event for event in TABLES["events"] if event in names or ANY in names]
        if not source.get("timeout"):
            events = [event for event in events if event != "PodPending"]
        yield Policy(source, source.value["action"], tuple(events) if code is None else (code,))


@dataclass(eq=False)
class Task:
    """One task.

    Attributes:
        source: the task in the custom resource.
        name: in the Volcano job.
        role: its name in the TrainingJob.
        restart: the restart policy of its pods, written or by default. With Always and OnFailure,
            the kubelet restarts their containers in place, and Volcano does not see a failed pod.
        policies: its own policies, then the job's policies.
    """

    source: Field
    name: str
    role: str
    restart: str
    policies: tuple[Policy, ...]

    @property
    def replicas(self) -> int:
        """The number of its pods, by default 0."""
        return int(self.source.get("replicas").value or 0)

    @property
    def pod(self) -> Field:
        """The `spec` of its pods."""
        return self.source.get("template", "spec")

    @property
    def dependencies(self) -> list[Field]:
        """The names of the tasks in `dependsOn`."""
        return list(self.source.get("dependsOn", "name").items())

    def policy_for(self, event: Event) -> Policy | None:
        """Return the policy that applies to an event: the first one that matches."""
        return next((policy for policy in self.policies if event in policy.events), None)

    @cached_property
    def by_code(self) -> dict[Event, Policy]:
        """The policy that applies to each exit code of a failed pod.

        Empty if the pods restart their own containers: they never fail with an exit code.
        """
        policies: dict[Event, Policy] = {}
        for policy in self.policies if self.restart == "Never" else ():
            for code in ALL_CODES if "PodFailed" in policy.events else policy.events:
                if code in ALL_CODES:
                    policies.setdefault(code, policy)
        return policies

    @property
    def completion_policy(self) -> Policy | None:
        """The task's own policy that completes the job when the task completes."""
        policy = self.policy_for("TaskCompleted")
        is_own = policy and policy.source.path[:2] == ("spec", "tasks")
        return policy if policy and is_own and policy.action == "CompleteJob" else None


class Gang(NamedTuple):
    """The running tasks that restart together.

    `action` is RestartJob or RestartTask, or "" if there is no gang. `source` is the policy with
    this action.
    """

    tasks: Sequence[Task] = ()
    action: str = ""
    source: Field = Field(None)


class Job(Builder):
    """A Volcano job.

    Attributes:
        sources: each plugin's place in the custom resource. A plugin that the webhook adds has the
            place of the plugin that implies it.
        arguments: all arguments, written or by default, by plugin and name.
        tasks: in order.
        framework: of mlgen.
        together: the tasks that restart together.
        deciders: the tasks that determine the outcome. At least one of them has pods.
        any_decides: True if the first decider that completes ends the job. False if all of them
            must complete.
        is_guess: True if Volcano would also wait for tasks that are not deciders.
    """

    framework, together = "generic", Gang()
    any_decides = is_guess = False

    def read(self) -> None:
        """Read the plugins and the tasks, and report every error in them."""
        self.sources: dict[str, Field] = {}
        self.arguments: dict[tuple[str, str], Field] = {}
        self._read_plugins()
        self.tasks = list(self._tasks())
        self.deciders: list[Task] = []
        self._validate()

    @property
    def running(self) -> list[Task]:
        """The tasks with replicas."""
        return [task for task in self.tasks if task.replicas]

    @property
    def min_available(self) -> int:
        """The number of pods that the gang needs.

        If the job's minAvailable is 0 or missing, it is the sum of the tasks' minAvailable. The
        default of a task is its number of replicas.
        """
        of_tasks = [(t.source.get("minAvailable").value, t.replicas) for t in self.running]
        least = sum(count if least is None else least for least, count in of_tasks)
        return int(self.spec.get("minAvailable").value or least)

    def argument(self, plugin: str, name: str) -> Field:
        """Return an argument. Its value is None if the job does not use the plugin."""
        return self.arguments.get((plugin, name), Field(None))

    def hosts(self, task: Task) -> list[str]:
        """Return the host names of the replicas of a task."""
        name = self.name
        return [f"{name}-{task.role}-{i}.{name}" for i in range(task.replicas)]

    def hosts_of(self, plugin: str, name: str) -> list[str]:
        """Return the host names of the task that an argument of a plugin names."""
        named = self.argument(plugin, name).value
        return [host for task in self.tasks if task.name == named for host in self.hosts(task)]

    def _tasks(self) -> Iterator[Task]:
        job_policies = tuple(parse_policies(self.spec.get("policies")))
        for i, source in enumerate(self.spec.get("tasks").items()):
            name = source.get("name").value or f"default{i}"
            restart = source.get("template", "spec", "restartPolicy").value or "Always"
            policies = (*parse_policies(source.get("policies")), *job_policies)
            yield Task(source, name, name, restart, policies)

    def _read_plugins(self) -> None:
        """Read the plugins, and add those that the webhook adds with their defaults."""
        for name, source in self.spec.get("plugins").fields():
            if name in PLUGINS:
                self.sources[name] = source
            else:
                self.refuse(source, f'unknown plugin "{name}"', choice(name, list(PLUGINS)))
        for implied, causes in TABLES["implied"].items():
            for cause in causes:
                if cause in self.sources:
                    self.sources.setdefault(implied, self.sources[cause])
        names = [task.get("name").value for task in self.spec.get("tasks").items()]
        for plugin, source in self.sources.items():
            for name, default in PLUGINS[plugin].items():
                self.arguments[plugin, name] = Field(default, source.path)
            for alias, name in TABLES["aliases"].get(plugin, {}).items():
                if alias in names and name not in names:
                    self.arguments[plugin, name] = Field(alias, source.path)
            self._read_arguments(plugin)

    def _read_arguments(self, plugin: str) -> None:
        """Parse arguments as Go's `flag` does: `--a=b`, `--a b`, or `--a` for true.

        https://pkg.go.dev/flag#hdr-Command_line_flag_syntax
        """
        defaults, items = PLUGINS[plugin], self.spec.get("plugins", plugin).items()
        ignored = f"plugin {plugin} ignores this argument and all that follow"
        for item in items:
            name, equals, text = item.value.lstrip("-").partition("=")
            name = TABLES["aliases"].get(plugin, {}).get(name, name)
            if name not in defaults or not item.value.startswith("-"):
                hint = "remove it: this plugin has no arguments"
                if defaults:
                    hint = choice(f"--{name}", [f"--{option}" for option in defaults])
                self.warn(item, f"unknown argument {item.value}: {ignored}", hint, code="no-effect")
                return
            default = defaults[name]
            is_bool = isinstance(default, bool)
            if not equals:
                text = "true" if is_bool else str(next(items, Field("")).value)
            value = _value(text, default)
            if value is None:
                wanted = "true or false" if is_bool else "a non-negative integer"
                self.warn(
                    item,
                    f'expected {wanted} for {name}, got "{text}": {ignored}',
                    f"write a value such as --{name}={str(default).lower()}",
                    code="no-effect",
                )
                return
            self.arguments[plugin, name] = Field(value, item.path)

    def _validate(self) -> None:
        """Report every error in the job, in its tasks and in the arguments of its plugins."""
        self._validate_policies(self.spec.get("policies"))
        names = [task.name for task in self.tasks]
        for i, task in enumerate(self.tasks):
            if task.name in names[:i]:
                self.refuse(
                    task.source.get("name"),
                    f'duplicate task name "{task.name}"',
                    "rename one of the tasks",
                )
            self._validate_task(task)
        self._validate_replicas()
        self._validate_dependencies(names)
        self._validate_volumes()

    def _validate_policies(self, policies: Field) -> None:
        """Report errors in the policies of a job or a task."""
        seen: set[Event] = set()
        for policy in policies.items():
            events, code = event_names(policy), policy.get("exitCode")
            if bool(events) == bool(code):
                message = "expected either an event or an exit code, got "
                message += "both" if code else "neither"
                self.refuse(policy, message, "write only one of event, events and exitCode")
            for event in sorted(events):
                if event in seen:
                    self.refuse(policy, f"duplicate policy for {event}", "remove one of them")
            seen |= events
            if ANY in seen and len([event for event in seen if isinstance(event, str)]) > 1:
                self.refuse(
                    policy,
                    f'"{ANY}" and other events are mutually exclusive',
                    f'remove "{ANY}" or the other events',
                )
            if code.value == 0:
                self.refuse(
                    code, "exit code 0 means success", "write the exit code of a failure, 1 to 255"
                )
            elif code.value in seen:
                self.refuse(
                    code, f"duplicate policy for exit code {code.value}", "remove one of them"
                )
            seen |= {code.value} if code else set()

    def _validate_task(self, task: Task) -> None:
        self._validate_policies(task.source.get("policies"))
        # In Volcano, names may also start with a digit.
        if not DNS_1035.match(task.name):
            self.refuse(
                task.source.get("name"), f'invalid task name "{task.name}"', f"use {DNS_1035_WORDS}"
            )
        least, partitions = task.source.get("minAvailable"), task.source.get("partitionPolicy")
        self._validate_least(least, task.replicas, task.name)
        for name in ("hostname", "subdomain"):
            self.refuse(
                task.pod.get(name),
                f"{name} is reserved: peers find a pod by its hostname and subdomain",
                "remove it",
            )
        if task.restart not in RESTART_POLICIES:
            source = task.pod.get("restartPolicy")
            self.refuse(source, f'unknown restartPolicy "{source.value}"', one_of(RESTART_POLICIES))
        if partitions:
            pods = partitions.value["totalPartitions"] * partitions.value["partitionSize"]
            if pods != task.replicas:
                self.refuse(
                    partitions,
                    f"totalPartitions * partitionSize is {pods}, "
                    f"but {task.name} has {task.replicas} replicas",
                    "make the two numbers equal",
                )

    def _validate_least(self, least: Field, replicas: int, of: str) -> None:
        """Report a number of pods without which nothing starts, and which never exist."""
        if least and least.value > replicas:
            self.refuse(
                least,
                f"{least.value} is more than the {replicas} replicas of {of}",
                f"write at most {replicas}",
            )

    def _validate_replicas(self) -> None:
        """Report invalid numbers of replicas, and missing replicas of tasks that a plugin needs."""
        total, least = sum(task.replicas for task in self.tasks), self.spec.get("minAvailable")
        if total > JOB_PODS:
            largest = max(self.tasks, key=lambda task: task.replicas)
            source = largest.source.get("replicas")
            self.refuse(
                source,
                f"the job has {total:,} replicas; a cluster runs at most {JOB_PODS:,} pods",
                "use fewer replicas",
                code="too-large",
            )
        self._validate_least(least, total, "all tasks")
        if not total:
            self.refuse(
                self.spec.get("tasks"),
                "all tasks have 0 replicas",
                "set replicas of at least one task",
            )
        running = {task.name for task in self.running}
        for plugin, arguments in TABLES["required"].items():
            for name in (self.argument(plugin, argument) for argument in arguments):
                if name and name.value not in running:
                    self.refuse(
                        name,
                        f'the plugin {plugin} needs a task "{name.value}" with replicas',
                        _known(name, running),
                    )

    def _validate_dependencies(self, names: list[str]) -> None:
        """Report dependencies on unknown tasks, and cycles."""
        for dependency in (name for task in self.tasks for name in task.dependencies):
            if dependency.value not in names:
                self.refuse(
                    dependency, f'unknown task "{dependency.value}"', _known(dependency, names)
                )
        try:
            graph = {task.name: {name.value for name in task.dependencies} for task in self.tasks}
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = list(reversed(error.args[1]))
            source = self.spec.get("tasks", names.index(cycle[0]), "dependsOn")
            self.refuse(
                source,
                f"these tasks wait for each other: {' → '.join(cycle)}",
                "remove one of the dependencies",
            )

    def _validate_volumes(self) -> None:
        """Report volumes with no claim or two claims, and duplicate paths."""
        seen: set[str] = set()
        for volume in self.spec.get("volumes").items():
            path, named = volume.get("mountPath"), bool(volume.get("volumeClaimName").value)
            if path.value in seen:
                self.refuse(
                    path,
                    f"duplicate mountPath {path.value}",
                    "change the mountPath of one of the two volumes",
                )
            seen.add(path.value)
            is_described = bool(volume.get("volumeClaim"))
            if named and is_described:
                names = ("volumeClaimName", "volumeClaim")
                self.refuse_both(volume, *names, hint=f"keep {names[0]}")
            elif not (named or is_described):
                self.refuse(
                    volume,
                    "volumeClaimName is missing",
                    "write the name of an existing PersistentVolumeClaim",
                )


def _value(text: str, default: object) -> object:
    """Return a text as the type of the default, or None if it cannot be parsed."""
    if isinstance(default, bool):
        words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
        return words.get(text.lower())
    return natural(text) if isinstance(default, int) else text


RESTART_POLICIES = ("Always", "OnFailure", "Never")


def _known(name: Field, tasks: Iterable[str]) -> str:
    """Return a hint for the name of a task that does not exist."""
    return did_you_mean(name.value, tasks) or f"the tasks are: {', '.join(sorted(tasks))}"


def assign_roles(job: Job) -> None:
    """Set the framework, and name the tasks' roles after its roles.

    Report an error if the plugins of two frameworks are used, or a task is not a role.
    """
    frameworks = [name for name in TABLES["frameworks"] if name in job.sources]
    if not frameworks:
        return
    framework, *others = frameworks
    if others:
        source = job.sources[others[0]]
        job.refuse_both(source, *frameworks, hint="remove one of the plugins")
    arguments = TABLES["frameworks"][framework]
    roles = {job.argument(framework, argument).value: argument for argument in arguments}
    without_role = [task for task in job.tasks if task.name not in roles]
    if without_role and not _has_effect(job, framework):
        master = job.argument(framework, "master")
        is_written = master and master.path != job.sources[framework].path
        if is_written and sum(task.replicas for task in job.tasks) > 1:
            job.warn(
                master,
                f'the plugin {framework} has no effect, because no task is named "{master.value}"',
                _known(master, [task.name for task in job.tasks]),
                code="no-effect",
            )
        return
    job.framework = framework
    for task in without_role:
        job.refuse(
            task.source,
            f"the plugin {framework} has no role for the task {task.name}, "
            f"only for {', '.join(roles)}",
            "write the name of the task in the arguments of the plugin, move the task to a "
            "separate job, or remove the plugin",
        )
    for task in job.tasks:
        task.role = roles.get(task.name, task.name)
        if task.role != task.name:
            name = job.name
            job.warn(
                task.source.get("name"),
                f"Volcano names the pods {name}-{task.name}-<i>; "
                f"mlgen names them {name}-{task.role}-<i>",
                "change the names in commands",
            )


def _has_effect(job: Job, framework: str) -> bool:
    """True if the plugin changes any pod.

    pytorch needs a master, tensorflow more than one pod. Source: volcano-sh/volcano,
    pkg/controllers/job/plugins/distributed-framework.
    """
    if framework == "pytorch":
        return job.argument(framework, "master").value in [task.name for task in job.tasks]
    return len(job.tasks) > 1 or job.tasks[0].replicas > 1


def choose_deciders(job: Job) -> None:
    """Set the deciding tasks, and warn if Volcano would also wait for other tasks.

    They are the tasks with a policy that completes the job, or if there are none, the tasks that
    most likely train and end by themselves.
    """
    tasks = job.running
    likely = [task for task in tasks if task.completion_policy]
    likely = likely or (tasks if len(tasks) == 1 else _likely_deciders(job, tasks))
    # The ranks of one framework are one group, and minSuccess counts replicas of one role.
    if job.framework == "pytorch" or job.spec.get("minSuccess"):
        likely = likely[:1]
    job.deciders = likely
    policies = [task.policy_for("TaskCompleted") for task in likely]
    job.any_decides = all(policy and policy.action == "CompleteJob" for policy in policies)
    waited = [task for task in tasks if task in likely or not _serves(job, task)]
    job.is_guess = not job.any_decides and len(likely) < len(waited)
    if job.is_guess:
        ending = [task.role for task in tasks if task.restart != "Always"]
        together = len(ending) > len(likely) and not job.spec.get("minSuccess")
        roles = " and ".join(task.role for task in likely) + (" have" if likely[1:] else " has")
        hint = "add policies: [{event: TaskCompleted, action: CompleteJob}] to the deciding task"
        if together:
            hint += ", or, if all tasks complete, pass --set "
            hint += f"'spec.successPolicy={{roles: [{', '.join(ending)}]}}'"
        message = "Volcano ends the job when all tasks have finished; mlgen ends it when "
        job.warn(job.spec.get("tasks"), message + roles, hint)


def _serves(job: Job, task: Task) -> bool:
    """Return True if a task runs a server for the deciding task, and does not end by itself."""
    arguments = TABLES["serving"].items()
    named = [job.argument(plugin, name).value for plugin, names in arguments for name in names]
    return task.name in named


def _likely_deciders(job: Job, tasks: list[Task]) -> list[Task]:
    """Return the tasks that most likely train: by plugin, else by name, else by dependencies.

    Tasks that always restart do not end. Tasks that others depend on may not end either.
    """
    by_name = {task.name: task for task in tasks}
    for plugin, arguments in TABLES["deciding"].items():
        for argument in arguments:
            if job.argument(plugin, argument).value in by_name:
                return [by_name[job.argument(plugin, argument).value]]
    needed = {name.value for task in tasks for name in task.dependencies}
    last = [task for task in tasks if task.name not in needed]
    ending = [task for task in last if task.restart != "Always"]
    names = TABLES["decidingNames"]
    named = ([task for task in ending or last if name in task.name] for name in names)
    likely = next(filter(None, named), ending or last)
    return likely if ending else likely[:1]


def restart_as_jobs(job: Job) -> None:
    """Replace the restart policy Always of tasks that become Jobs, which do not accept it.

    The roles of frameworks are Jobs, except for parameter servers, and so are the deciding roles.
    Warn if the user has written Always.
    """
    for task in job.tasks:
        is_rank = job.framework in TABLES["frameworks"] and task.role != "ps"
        if task.restart == "Always" and (is_rank or task in job.deciders):
            task.restart = "OnFailure"
            job.warn(
                task.pod.get("restartPolicy"),
                f"Volcano restarts {task.role} even after success; mlgen does not",
                "write restartPolicy: OnFailure",
            )
