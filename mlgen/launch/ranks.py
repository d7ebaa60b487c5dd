"""Check command lines and variables of ranked replicas against the replicas, processes and GPUs.

Launchers such as torchrun run once in each replica, and must agree on the number of replicas. A
variable that must differ between replicas, such as a rank, cannot be a constant. A program may use
its variables in other ways, so most of these contradictions are warnings.

`schemas/launch/launchers.json` lists the meaning of each launcher's options.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise

from mlgen.bounds import NUMBER_DIGITS
from mlgen.launch.addresses import Expected, address_problem, first_address
from mlgen.launch._old import (
    HOSTFILES,
    MEETING_BACKENDS,
    Launch,
    files_of,
    launches_of,
    scripts_of,
    words_of,
)
from mlgen.launch._old import (
    COMPUTED,
    differs,
    entries,
    env_of,
    expanded,
    roles_of,
    settings_of,
    text_of_value,
    values_of,
    variables_of,
)
from mlgen.frameworks._tables import problem
from mlgen.launch.line import COMMANDS
from mlgen.launch.variables import VARIABLES, variable_problems
from mlgen.jobfile import gpus
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.quantity import natural
from mlgen.problems import Problem, ValuePath
from mlgen.shell import is_python, is_shell, simple_commands, text_index
from mlgen.topology import INDEX, INDEX_NAME, Role, Topology

PROCESSES = "PET_NPROC_PER_NODE"

NODES = ("PET_NNODES", "PADDLE_NNODES")
"""The variables with a launcher's number of replicas. Frameworks that set one assign ranks."""

RANKS = ("RANK", "PADDLE_RANK", INDEX_NAME)
"""The variables with the rank of a replica, the preferred one first."""


@dataclass(frozen=True)
class Launched:
    """A launcher that the replicas of a role run.

    Attributes:
        topology: the job's topology.
        spec: the role in the job file.
        launch: the launcher and its options, with the values of variables.
        env: the role's variables from the framework.
        written: the options as written, for messages.
        values: the value of each variable; see `values_of`.
    """

    topology: Topology
    spec: RoleSpec
    launch: Launch
    env: Mapping[str, object]
    written: Mapping[str, str]
    values: Mapping[str, str]

    @property
    def ranked(self) -> bool:
        """True if the framework assigns ranks to all replicas of the job."""
        return not self.env.keys().isdisjoint(NODES)

    @property
    def is_of_ranks(self) -> bool:
        """True if the replicas of a role train together, and not each by itself."""
        job = self.topology.job
        return job.framework not in ("generic", "ray") and "launcher" not in job.roles

    @property
    def replicas(self) -> int:
        """The number of replicas that train together.

        Without ranks, these are the replicas of the roles that run the same launcher, or a program
        in the image, which may run it.
        """
        roles = self.topology.job.roles.values()
        program = self.launch.program
        together = [
            spec.replicas
            for spec in roles
            if self.ranked
            or not words_of(spec)
            or (is_shell(words_of(spec)[0]) and not scripts_of(spec))
            or any(launch.program == program for launch in launches_of(spec))
        ]
        return sum(together)

    @property
    def expects_others(self) -> bool:
        """True if the launcher waits for other pods, or starts processes there."""
        row, nodes = self.launch.launcher, self.launch.options.get(self.launch.launcher.nodes)
        if "standalone" in self.launch.options or nodes in ("1", "1:1"):
            return False
        return self.replicas > 1 and bool(self.ranked or nodes or not row.in_each_pod)

    @property
    def meets_own(self) -> bool:
        """True if no address in the options may be of another job, whose pods may join."""
        texts = [self.launch.options.get(name, "") for name in self.launch.launcher.addresses]
        own = (f"{self.topology.job.name}-", "localhost", "127.0.0.1")
        return all(text.rpartition("//")[2].startswith(own) for text in texts if text)

    @property
    def is_static(self) -> bool:
        """True if each launcher needs its rank. Other rendezvous backends assign the ranks."""
        backend = self.launch.options.get("rdzv_backend", self.spec.env.get("PET_RDZV_BACKEND"))
        return backend == "static" or (backend is None and "PET_RDZV_BACKEND" not in self.env)

    def problem(self, rule: str, **values: object) -> Problem:
        """Return a problem of the command line; see `_tables.problem`."""
        return at_flag(self.launch, rule, self.spec.name, **values)

    def alone(self, flag: str, hint: str = "") -> Problem:
        """Return a warning of replicas that train separately. Default hint: remove the flag."""
        hint = hint or f"remove {flag}"
        return self.problem("all-alone", flag=flag, replicas=self.replicas, hint=hint)


def at_flag(launch: Launch, rule: str, role: str, /, **values: object) -> Problem:
    """Return a problem of a launcher in a role, at the first option that its texts name."""
    found = problem(rule, launch=launch, **values)
    found = replace(found, warning=found.warning or launch.may_be_skipped)
    place = launch.place(f"{found.message} {found.hint}")
    hint = found.hint
    if place[:1] == ("volumes",):
        # Kubernetes replaces $(NAME) in commands only. Options override a configuration file.
        is_script = place == launch.path
        hint = re.sub(r"\$\((\w+)\)", r"$\1", hint) if is_script else hint.replace("write", "pass")
    return replace(found, path=(*found.path, "roles", role, *place), hint=hint)


def launch_problems(topology: Topology) -> Iterator[Problem]:
    """Return the contradictions between the job and its command lines and variables."""
    for name, spec in topology.job.roles.items():
        roles, env = roles_of(topology, name), env_of(topology, name)
        same_as = {variable: row.get("same_as", "") for variable, row in VARIABLES.items()}
        values = values_of(spec, roles, same_as)
        for launch in launches_of(spec):
            written = _configured(launch, spec)
            options = {key: expanded(text, values) for key, text in written.options.items()}
            launched = Launched(
                topology, spec, replace(written, options=options), env, written.options, values
            )
            for check in IN_EACH_POD if launch.launcher.in_each_pod else IN_ONE_POD:
                yield from check(launched)
        yield from _processes_option(spec, env)
        yield from variable_problems(topology, spec, values)
        yield from _arguments(topology, spec, values)
        yield from _address_variables(topology, spec, values)
    yield from _variables(topology)
    yield from _shared(topology)


def _configured(launch: Launch, spec: RoleSpec) -> Launch:
    """Return a launcher with the options of its inline configuration file, if it has one."""
    file = launch.literal(launch.launcher.config)
    for at, text, path in files_of(spec) if file else ():
        if at == file or at.endswith(f"/{file}"):
            options = {**dict(entries(text)), **launch.options}
            del options[launch.launcher.config]
            paths = {**dict.fromkeys(options, path), **launch.paths}
            return replace(launch, options=options, paths=paths)
    return launch


def _nodes(launched: Launched) -> Iterator[Problem]:
    """Compare the number of nodes of a launcher with the replicas."""
    launch, replicas, option = launched.launch, launched.replicas, launched.launch.launcher.nodes
    elastic = "PET_RDZV_BACKEND" in launched.env and not launch.launcher.elastic
    if elastic and launch.literal("rdzv_backend") == "static":
        yield launched.problem("elastic-static")
    text, ranked = launch.literal(option) or "", launched.ranked
    # A number that is cut off here is still too large.
    bounds = [int(number[:NUMBER_DIGITS]) for number in re.findall(r"\d+", text)]
    if ranked and "standalone" in launch.options and replicas > 1:
        yield launched.alone("--standalone")
    elif bounds:
        flag = f"--{option}={launched.written[option]}"
        most = max(*bounds, 0)
        scaled_to = int(str(launched.env.get("PET_NNODES", 0)).rpartition(":")[2])
        everyone = max(replicas, scaled_to)
        values = {"flag": flag, "option": option, "replicas": replicas}
        if bounds[0] > bounds[-1]:
            yield launched.problem("not-ordered", first=flag, second=f"its maximum, {bounds[-1]}")
        elif min(bounds) > everyone:
            meets = ranked or (launched.meets_own and min(bounds) > launched.topology.job.replicas)
            rule = "never-enough-nodes" if meets else "too-many-nodes"
            # One pod would train alone.
            fields = "replicas, numNodes or completions"
            more = f"run {min(bounds)} pods: set {fields} to {min(bounds)}"
            more = more if launched.topology.job.converted else f"write replicas: {min(bounds)}"
            hint = f"write --{option}={replicas}" if replicas > 1 else more
            yield launched.problem(rule, **values, least=min(bounds), everyone=everyone, hint=hint)
        elif ranked and most == 1 < replicas:
            yield launched.alone(flag)
        elif ranked and most < replicas:
            yield launched.problem("too-few-nodes", **values, others=replicas - most)


def _node_rank(launched: Launched) -> Iterator[Problem]:
    """Report a rank that several replicas share, so that the rendezvous never completes."""
    launch, replicas = launched.launch, launched.spec.replicas
    row, ranked = launch.launcher, launched.ranked
    rank, text = launch.number(row.rank), launch.options.get(row.rank, "")
    names_pod = re.fullmatch(NAME_OF_POD, text) or re.fullmatch(r"(?!-?\d+$)[^$`]+", text)
    if not (names_pod or rank is not None) or not launched.expects_others or not launched.is_static:
        return
    own_rank = _own_rank(launched) if ranked else None
    variable = next(name for name in RANKS if name in launched.env or name == INDEX_NAME)
    values = {"row": row, "rank": launched.written[row.rank], "variable": variable}
    if names_pod:
        yield launched.problem("rank-no-number", **values)
    elif replicas > 1:
        yield launched.problem("same-rank", **values, replicas=replicas)
    elif own_rank not in (None, rank):
        yield launched.problem("other-rank", **values, own=own_rank)


NAME_OF_POD = r"\$\((metadata\.(name|uid)|status\.podIP)\)|\$\{?HOSTNAME\}?|(\$\(|`)hostname[)`]"
"""The name of the pod, which is not a number."""


def _own_rank(launched: Launched) -> int | None:
    """Return the rank of a role's only replica; None if it is unknown."""
    name = launched.spec.name
    role = roles_of(launched.topology, name)[0]
    index = role.merged.index(name) if name in role.merged else role.index or 0
    rank = str(role.env.get("PET_NODE_RANK", "")).replace(INDEX, str(index))
    return natural(rank)


def _processes(launched: Launched) -> Iterator[Problem]:
    """Compare a launcher's number of processes in each pod with `nprocPerNode` and the GPUs."""
    launch, job = launched.launch, launched.topology.job
    name = launch.launcher.processes
    number, count = launch.number(name), gpus.per_process(launched.spec)
    option = job.options.get("nprocPerNode") if launched.ranked else None
    if number and isinstance(option, int) and option != number:
        flag, own = f"--{name}={number}", f"nprocPerNode: {option}"
        yield launched.problem("overrides-option", flag=flag, option=own)
    uses = {name: number or 0} | {
        each: max(map(int, text.split(","))) + 1
        for each in launch.launcher.device_lists
        if re.fullmatch(r"\d{1,4}(,\d{1,4})*", text := launch.literal(each) or "")
    }
    for each, size in uses.items():
        if 0 < count < size:
            right = count if each == name else ",".join(map(str, range(count)))
            flag = f"--{each}={launched.written[each]}"
            values = {"flag": flag, "count": count, "right": f"--{each}={right}"}
            yield launched.problem("more-than-gpus-of-pod", **values)


def _all_processes(launched: Launched) -> Iterator[Problem]:
    """Compare the total number of processes of a launcher with the GPUs of all pods.

    The number of GPUs of one pod is probably meant for each pod, unless it is one process for each.
    """
    launch, name = launched.launch, launched.launch.launcher.all_processes
    total, machines = launch.number(name), launch.number(launch.launcher.nodes) or 1
    count = gpus.per_process(launched.spec)
    values = {"total": total, "count": count, "machines": machines, "most": count * machines}
    if not total or not count or "cpu" in launch.options:
        return
    if total > count * machines:
        yield launched.problem("more-than-gpus-of-job", name=name, **values)
    elif total == count and machines > 1 and total != machines:
        yield launched.problem("gpus-left-out", name=name, **values)


def _ordered(launched: Launched) -> Iterator[Problem]:
    """Report a minimum that exceeds a maximum."""
    launch = launched.launch
    numbers = {name: launch.number(name) for name in launch.launcher.ordered}
    known = [name for name, number in numbers.items() if number is not None]
    for less, more in pairwise(known):
        if (numbers[less] or 0) > (numbers[more] or 0):
            first, second = (f"--{name.replace('_', '-')} {numbers[name]}" for name in (less, more))
            yield launched.problem("not-ordered", first=first, second=second)


def _reach(launched: Launched) -> Iterator[Problem]:
    """Warn of a multi-pod launcher that runs in each replica, and starts processes only there.

    Without a hostfile, and without --no_ssh, deepspeed trains alone
    (deepspeed/launcher/runner.py).
    """
    launch, reaches = launched.launch, launched.launch.launcher.reaches
    alone = reaches and not set(reaches) & set(launch.options)
    if alone and launched.spec.replicas > 1 and launched.is_of_ranks:
        hint = f"use framework: {launch.launcher.framework}"
        hint = f"write torchrun instead, or {hint}" if "PET_NNODES" in launched.env else hint
        yield launched.alone(f"the {launch.program} launcher", hint)


def _foreign(launched: Launched) -> Iterator[Problem]:
    """Warn of a launcher whose variables the framework of the job does not set."""
    launch, row, job = launched.launch, launched.launch.launcher, launched.topology.job
    variables = {*launched.env, *variables_of(launched.spec)}
    if row.reads in variables or {*row.addresses, "standalone"} & {*launch.options}:
        return
    hint = f"use framework: {row.framework}"
    if launched.spec.name == "launcher" and job.roles.keys() >= {"worker"}:
        yield launched.problem("all-local", hint=hint)
    elif launched.spec.replicas > 1 and launched.is_of_ranks:
        yield launched.alone(f"{launch.program} and framework: {job.framework}", hint)


def _without_options(launched: Launched) -> Iterator[Problem]:
    """Warn of a launcher that starts one process, without ranks, unless it has options."""
    launch = launched.launch
    alone = launch.launcher.alone_without_options and not launch.options
    if alone and launched.ranked and launched.replicas > 1:
        hint = f"add --{launch.launcher.nodes}={launched.replicas}"
        yield launched.alone(f"{launch.program} without options of torchrun", hint)
    word = next(iter(launch.script), "")
    single = launch.launcher.alone and re.search(launch.launcher.alone, word)
    if single and launched.ranked and launched.replicas > 1:
        yield launched.alone(word, "write a recipe for several GPUs, or replicas: 1")


def _processes_option(spec: RoleSpec, env: Mapping[str, object]) -> Iterator[Problem]:
    """Compare `nprocPerNode` with the GPUs, and with a script that runs in one process."""
    if "PET_RDZV_BACKEND" in env:
        starts = {"python": _lone_script(spec)} | {
            launch.program: " ".join(launch.script[:1])
            for launch in launches_of(spec)
            if launch.launcher.elastic not in ("", *launch.options)
        }
        for program, script in starts.items():
            if script:
                yield problem("elastic-python", spec=spec, script=script, program=program)
    value = str(env.get(PROCESSES, ""))
    processes, count = natural(value) or 0, gpus.per_process(spec)
    if processes in (0, 1) or PROCESSES in spec.env:
        return
    if "WORLD_SIZE" in env and (script := _lone_script(spec)):
        world = env["WORLD_SIZE"]
        yield problem("one-process", spec=spec, script=script, processes=processes, world=world)
    elif 0 < count < processes and not any(
        "nproc_per_node" in launch.options for launch in launches_of(spec)
    ):
        yield problem("option-more-than-gpus", processes=processes, count=count)


def _lone_script(spec: RoleSpec) -> str | None:
    """Return the script that a role runs with python, in one process; None if unknown."""
    words = list(words_of(spec))
    commands = [words]
    if words and is_shell(words[0]):
        text = text_index(words)
        if text is None or text + 1 < len(words) or re.search(SEVERAL, words[text]):
            return None
        commands = simple_commands(words[text])
    scripts = [script for command in commands for script in _scripts(command)]
    return scripts[0] if len(scripts) == 1 and not launches_of(spec) else None


def _scripts(command: list[str]) -> Iterator[str]:
    """Yield the script of a simple command `python script.py`."""
    words = list(dropwhile(lambda word: re.fullmatch(PREFIX, word), command))
    program, *arguments = words or [""]
    if not is_python(program) or any(re.search(SEVERAL, word) for word in arguments):
        return
    script = next((word for word in arguments if not word.startswith("-")), "")
    if script.endswith(".py"):
        yield script


PREFIX = r"(?s)exec|nohup|time|[A-Za-z_]\w*=.*"
"""A word before a program: a wrapper that runs it, or a variable for it."""

LOOPS = r"xargs|parallel|(?<!&)&(?!&)|\b(for|while)\b"
"""A pattern of scripts that may start several processes."""

SEVERAL = rf"nproc|gpu|device|process|spawn|launch|strategy|{LOOPS}"
"""Words of a command line that may start several processes."""


Constants = Mapping[str, tuple[ValuePath, str]]
"""Variables with a literal value: path below the role, and value."""


def _variables(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each constant that replicas of one job cannot share.

    A value in the job file replaces the framework's value. If a rank is a constant, all replicas
    have the same rank, and wait for the others.
    """
    job = topology.job
    ranks = {
        name
        for role in topology.roles
        for name, value in role.env.items()
        if isinstance(value, str) and (INDEX in value or "differs" in VARIABLES.get(name, {}))
    }
    constants = {name: _constants(spec) for name, spec in job.roles.items()}
    for role_name, values in constants.items():
        roles = roles_of(topology, role_name)
        for name, (path, value) in values.items():
            row = VARIABLES.get(name, {})
            same_as = name if name in ranks else row.get("same_as", "")
            size = _sharing(topology, constants, name, same_as, value) if same_as in ranks else 0
            own = _other_size(job.roles[role_name], roles, name, value)
            if not (size or own) or _is_unused(job.roles[role_name], name):
                continue
            rule = "same-variable" if size else "other-size"
            hint = f"write $({same_as})" if "same_as" in row else "remove it: mlgen sets it"
            texts = {"name": name, "size": size, "value": value, "own": own, "hint": hint}
            yield problem(rule, ("roles", role_name, *path), **texts)


def _constants(spec: RoleSpec) -> Constants:
    """Return the literal variables of a role's training container."""
    return {
        name: (path, value)
        for name, (path, value) in variables_of(spec).items()
        if isinstance(value, str) and "$(" not in value
    }


def _sharing(
    topology: Topology,
    constants: Mapping[str, Constants],
    name: str,
    framework_name: str,
    value: str,
) -> int:
    """Return the number of replicas that have this value, if they need different ones; else 0.

    Args:
        topology: the job's topology.
        constants: the constants of each role in the job file.
        name: the variable's name.
        framework_name: the name of the framework's variable with the same meaning.
        value: the constant.
    """
    needed: set[str] = set()
    size = 0
    for role in topology.roles:
        own = role.env.get(framework_name)
        if not isinstance(own, str):
            continue
        only = own.replace(INDEX, str(role.index or 0)) if role.replicas == 1 else own
        # Roles of the job file that are merged have the same fields.
        source = role.merged[0] if role.merged else role.spec.name
        _, constant = constants[source].get(name, ((), only))
        if constant == value:
            size += role.replicas
            needed |= {only} if INDEX not in only else {only, ""}
    return size if len(needed) > 1 else 0


def _other_size(spec: RoleSpec, roles: list[Role], name: str, value: str) -> int | None:
    """Return the framework's number if a constant contradicts it; else None.

    A program may start several processes in each pod, but not a single script run by python.
    """
    counted = VARIABLES.get(name, {}).get("counts")
    own = natural(str(roles[0].env.get(name, ""))) if roles and counted else None
    size, count = natural(value), gpus.count(spec)
    if counted == "gpus":
        return count if size and 0 < count < size else None
    if not own or size is None:
        return None
    several = counted == "processes" or (counted == "ranks" and not _lone_script(spec))
    few = not count or size <= own * count
    fits = size > 0 and size % own == 0 and few if several else value == str(own)
    return None if fits else own


def _is_unused(spec: RoleSpec, name: str) -> bool:
    """Return True if a launcher sets a variable itself, or does not read it."""
    launches = [launch for launch in launches_of(spec) if launch.launcher.in_each_pod]
    if not launches or re.search(rf"\$[({{]?{name}\b", " ".join(words_of(spec))):
        return False
    options = VARIABLES.get(name, {}).get("options")
    return options is None or all(set(options) & set(launch.options) for launch in launches)


def _addresses(launched: Launched) -> Iterator[Problem]:
    """Report an address of rank 0 at which a launcher does not reach it."""
    launch, row = launched.launch, launched.launch.launcher
    topology, spec = launched.topology, launched.spec
    alone = launched.ranked or topology.job.replicas - spec.replicas == 1
    has_head = any(each.script[:1] == ("start",) for each in launches_of(spec))
    if (
        not launched.expects_others
        or (row.reaches and alone)
        or (launch.script[:2] == ("job", "submit") and has_head)
    ):
        return
    is_first = launched.is_static and not (row.reaches or row.meets_anywhere)
    meets = launch.literal("rdzv_backend") in MEETING_BACKENDS
    expected = Expected(alone=not row.reaches, meets=meets, first=is_first)
    for name in row.addresses:
        value = launch.options.get(name, "")
        hosts = [] if re.search(COMPUTED, value) else value.split(",")
        problems = (address_problem(topology, spec, host, expected) for host in hosts)
        found = next(filter(None, problems), None)
        if found:
            rule, values = found
            hint = f"write --{name}={values['address']}"
            hint = f"remove --{name}" if row.reaches else hint
            yield launched.problem(rule, name=f"--{name}", host=values["host"], hint=hint)


def _different(launched: Launched) -> Iterator[Problem]:
    """Report an option that must be the same in all pods, but differs in each."""
    row = launched.launch.launcher
    for name in row.shared if launched.expects_others else ():
        value = launched.launch.options.get(name, "")
        if name not in row.addresses and differs(value):
            flag = f"--{name}={launched.written[name]}"
            hint = f"write --{name}={launched.topology.job.name}"
            yield launched.problem("different-value", flag=flag, hint=hint)


def _hostfile(launched: Launched) -> Iterator[Problem]:
    """Report names of hosts that are not in mlgen's hostfile (deepspeed/launcher/runner.py)."""
    launch, files = launched.launch, launched.topology.files
    lines = files.get("hostfile", "").splitlines()
    hosts = {line.split()[0].partition(".")[0]: line.split()[0] for line in lines}
    own = launch.options.get("hostfile") in HOSTFILES
    for name in launch.launcher.hosts if hosts and own else ():
        value = launch.literal(name) or ""
        for host in (part.partition(":")[0] for part in value.split("@") if part):
            if host not in hosts.values():
                right = hosts.get(host.partition(".")[0])
                fixed = re.sub(r"[^@:]+(?=[:@]|$)", lambda m: hosts.get(m[0], m[0]), value)
                hint = (
                    f"write --{name}={fixed}"
                    if right
                    else f"use a name of the hostfile, such as {min(hosts.values())}"
                )
                yield launched.problem("not-in-hostfile", name=name, host=host, hint=hint)
                break


def _missing(launched: Launched) -> Iterator[Problem]:
    """Report a missing option that the launcher needs for several pods."""
    row, options = launched.launch.launcher, launched.written
    most = (launched.launch.literal(row.nodes) or "1").rpartition(":")[2]
    several = most != "1" and launched.expects_others and launched.is_static
    several = several and not (launched.is_of_ranks and row.reads not in launched.env)
    needs = row.required if several and row.config not in options else ()
    variables = {*launched.env, *variables_of(launched.spec)}
    for name in () if launched.spec.may_have_more_env else needs:
        has_address = name in row.addresses and {*row.addresses} & {*options}
        if not (name in options or has_address or f"PET_{name.upper()}" in variables):
            known = {*launched.env, INDEX_NAME}
            variable = next((each for each in row.required[name] if each in known), "")
            address = first_address(launched.topology, launched.spec, "")
            hint = f"add --{name}={f'$({variable})' if variable else address}"
            unless = ", unless a configuration file in the image has it" if row.config else ""
            values = {"flag": f"--{row.nodes}={options[row.nodes]}", "name": name, "unless": unless}
            yield launched.problem("needs-option", **values, hint=hint)


def _arguments(topology: Topology, spec: RoleSpec, values: Mapping[str, str]) -> Iterator[Problem]:
    """Report arguments and entries of configuration files that contradict the job."""
    job, rows = topology.job, COMMANDS["arguments"]
    settings = {setting.name: setting for setting in settings_of(spec)}
    for name in sorted(settings.keys() & rows.keys()):
        row, setting = rows[name], settings[name]
        if job.framework not in row["frameworks"] or row.get("with", name) not in settings:
            continue
        value = expanded(setting.value, values)
        path = ("roles", spec.name, *setting.path)
        own = job.replicas
        if value in row.get("alone", ()) and spec.replicas > 1:
            flag = f"{setting.text}={value}"
            values_of_rule = {"flag": flag, "replicas": spec.replicas, "hint": row["hint"]}
            yield problem("all-alone", path, **values_of_rule)
        if "same_as" in row and natural(value) is not None and spec.replicas > 1:
            hint = row.get("hint", f"write $({row['same_as']})")
            yield problem("same-variable", path, name=setting.text, size=spec.replicas, hint=hint)
        hosts = value.split(",") if "hosts" in row else [value] if "is_address" in row else []
        if row.get("hosts"):
            own = job.roles[row["hosts"]].replicas if row["hosts"] in job.roles else 0
        size = natural(value) if "counts" in row else len(hosts) if "hosts" in row else own
        count, counted = gpus.count(spec), row.get("counts")
        loops = any(re.search(LOOPS, script.text) for script in scripts_of(spec))
        each = size and not size % own and (not count or size <= own * count)
        if counted == "gpus":
            own = count if size and 0 < count < size else size or 0
        elif (counted == "ranks" and loops) or (counted == "processes" and each):
            own = size or own
        if size not in (own, None) and "$" not in value:
            noun = f"{own} hosts" if "hosts" in row else str(own)
            named = {"name": setting.text, "value": value}
            yield problem(
                "other-size", path, **named, own=noun, hint=row.get("hint", f"write {noun}")
            )
        expected = Expected(alone="hosts" not in row, first="first" in row)
        problems = (address_problem(topology, spec, host, expected) for host in hosts)
        found = next(filter(None, problems), None)
        if found and job.replicas > 1:
            rule, texts = found
            right = _hosts(job, row.get("hosts", ""), hosts) or texts["address"]
            texts["hint"] = row.get("hint", f"write {right}")
            yield problem(rule, path, name=setting.text, **texts)


def _hosts(job: TrainingJob, role: str, hosts: list[str]) -> str:
    """Return the addresses of a role's replicas, with the ports of these hosts; "" for no role."""
    ports = [host.rpartition(":")[2] for host in hosts] * job.replicas
    count = job.roles[role].replicas if role in job.roles else 0
    return ",".join(f"{job.name}-{role}-{i}.{job.subdomain}:{ports[i]}" for i in range(count))


def _address_variables(
    topology: Topology, spec: RoleSpec, values: Mapping[str, str]
) -> Iterator[Problem]:
    """Report a variable with an address of rank 0 at which the role does not reach it."""
    roles, framework = roles_of(topology, spec.name), topology.job.framework
    if topology.job.replicas <= 1 or not roles:
        return
    for name, (path, value) in variables_of(spec).items():
        row = VARIABLES.get(name, {})
        is_set = name in roles[0].env
        if not row.get("is_address") or not (is_set or framework in row.get("frameworks", ())):
            continue
        text = expanded(text_of_value(value), values)
        expected = Expected(meets=is_set, first="first" in row, port="port" in row)
        found = address_problem(topology, spec, text, expected)
        if found:
            rule, texts = found
            texts["hint"] = row.get("hint", "remove it: mlgen sets the address")
            yield problem(rule, ("roles", spec.name, *path), name=name, **texts)


def _shared(topology: Topology) -> Iterator[Problem]:
    """Report a port or an identifier that differs between roles that train together."""
    seen: dict[str, tuple[str, str]] = {}
    for role, spec in topology.job.roles.items():
        roles = roles_of(topology, role)
        if not roles or roles[0].env.keys().isdisjoint(NODES) or topology.job.network.on_host:
            continue
        settings: list[tuple[str, str, ValuePath]] = [
            (f"--{option}", launch.literal(option) or "", launch.place(f"--{option}"))
            for launch in launches_of(spec)
            for option in launch.launcher.shared
        ]
        constants = _constants(spec)
        settings += [
            (name, *reversed(constants.get(name, (("env",), str(roles[0].env[name])))))
            for name, row in VARIABLES.items()
            if "shared" in row and name in roles[0].env and not _is_unused(spec, name)
        ]
        for name, text, path in settings:
            value = text.rpartition(":")[2]
            other, first = seen.setdefault(name, (value, role)) if value else ("", "")
            if value != other:
                texts = {"name": name, "value": value, "other": other, "role": first}
                yield problem("differs-between-roles", ("roles", role, *path), **texts)


IN_EACH_POD: tuple[Callable[[Launched], Iterator[Problem]], ...] = (
    _nodes,
    _node_rank,
    _processes,
    _all_processes,
    _without_options,
    _addresses,
    _different,
    _missing,
    _foreign,
)
"""The rules for a launcher that each pod runs."""

IN_ONE_POD: tuple[Callable[[Launched], Iterator[Problem]], ...] = (
    _reach,
    _ordered,
    _addresses,
    _hostfile,
)
"""The rules for a launcher that one pod runs for all."""
