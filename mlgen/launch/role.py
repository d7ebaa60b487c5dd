"""A role of a job as its programs see it, and the launchers that it runs: subjects of rules.

A role has variables, arguments of programs, and entries of configuration files.
`schemas/launch/launchers.json` lists those that have a meaning for a whole job, such as a number of
replicas.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from mlgen.input_limits import NUMBER_DIGITS
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.values import value_at
from mlgen.launch.line import COMMANDS, Launch, Lines, lines_of
from mlgen.problems import Code, Problem, ValuePath, error
from mlgen.rules import Rules
from mlgen.shell import is_python, is_shell
from mlgen.topology import INDEX, INDEX_NAME, PodField, Topology

VARIABLES = COMMANDS["variables"]

NNODES = ("PET_NNODES", "PADDLE_NNODES")
"""The variables with a launcher's number of replicas. Frameworks that set one assign ranks."""

REFERENCE = r"\$(?:\((\w+)\)|\{(\w+)(?::?-([^{}]*))?\}|(\w+))"
"""`$(NAME)`, `${NAME}`, `${NAME:-DEFAULT}` or `$NAME`."""

UNKNOWN = "$()"
"""The value of a variable that is known only at run time. It is not a literal."""

DIFFERENT = (
    rf"\$\({INDEX_NAME}\)|\$\((status\.podIP|metadata\.(name|uid)|spec\.nodeName)"
    r"|\$\$|\$\{?(S?RANDOM|HOSTNAME|BASHPID|EPOCH(SECONDS|REALTIME))\b"
    r"|(\$\(|`)\s*(hostname|uuidgen|shuf|mktemp|cat /proc/sys/kernel/random"
    r"|date\s*[)`]|date[^()`]*%[sNSTMHc])"
)
"""A pattern of values that differ between pods: random numbers, times, and the pod's own name."""

COMPUTED = r"\$\{\w+[^\w}]|[|;]|<<<|(?:\$\(|`)\s*(?!hostname|uuidgen|shuf|mktemp|cat|date|\w+\))"
"""A pattern of values that a shell computes from others, such as `${HOSTNAME%-*}-0`."""

CONDITIONS = r"\b(if|case|for|while|until|test|source|eval|read)\b|^[^\S\n]*\. |\[|\|\|"
"""A pattern of scripts in which an assignment may not be the variable's value."""

LOOPS = r"xargs|parallel|(?<!&)&(?!&)|\b(for|while)\b"
"""A pattern of scripts that may start several processes."""

SEVERAL = rf"nproc|gpu|device|process|spawn|launch|strategy|{LOOPS}"
"""Words of a command line that may start several processes."""

DECLARATIONS = ("export", "declare", "local", "readonly", "typeset")

ENTRY = r"""(?m)^([ \t]*(?:- )?)["']?([\w.-]+)["']?[ \t]*[:=](.*)"""
"""A line with one entry of a file in YAML, in JSON with a line for each entry, or `key = value`."""


CALLS = (
    r"(?m)^[^#\n]*\b(?:distributed\.)?((?<=distributed\.)initialize|init_process_group)"
    r"\(((?:[^()]|\([^()]*\))*)\)"
)
"""A call in a Python program that joins the other processes of a job."""

ARGUMENT = r"""\b(\w+)\s*=\s*(\d+|"[^"\n]*"|'[^'\n]*')(?=\s*(?:,|$))"""


class Setting(NamedTuple):
    """An argument of a program, or an entry of a configuration file.

    Attributes:
        name: without leading dashes, and with `_` for `-`; `outer.inner` for an entry in a mapping.
        text: the name as written.
        value: the value as written.
        path: its path below the role.
    """

    name: str
    text: str
    value: str
    path: ValuePath


class JobRole:
    """A role of the job file, with what the framework adds to it.

    Attributes:
        topology: the job's topology.
        job: the job.
        spec: the role in the job file.
        name: its name in the job file.
        roles: the topology's roles for it; none for pods that others create.
        env: the framework's variables, of the first of `roles`.
        lines: the commands that it runs.
        variables: see `variables_of`.
    """

    def __init__(self, topology: Topology, spec: RoleSpec) -> None:
        self.topology, self.job = topology, topology.job
        self.spec, self.name = spec, spec.name
        self.roles = [
            role for role in topology.roles if spec.name in (role.spec.name, *role.merged)
        ]
        self.env: Mapping[str, Any] = self.roles[0].env if self.roles else {}
        self.lines: Lines = lines_of(spec)
        self.variables = variables_of(spec)

    @cached_property
    def values(self) -> dict[str, str]:
        """The value of each variable in the command lines, for `expanded`.

        A value that differs between pods contains `INDEX`, or matches `DIFFERENT`. A variable of
        the framework has the framework's value, because other rules check the job file's value.
        """
        values: dict[str, str] = {}
        for name in self.env:
            each = {role.env.get(name) for role in self.roles}
            values[name] = text_of_value(each.pop()) if len(each) == 1 else INDEX
        for name, (_, value) in self.variables.items():
            if name not in values:
                is_own = VARIABLES.get(name, {}).get("same_as", "") in values
                values[name] = UNKNOWN if is_own else text_of_value(value)
        assigned: dict[str, list[str]] = {}
        for name, text in self._assignments():
            assigned.setdefault(name, []).append(text)
        texts = [script.text for script in self.lines.scripts]
        certain = not any(re.search(CONDITIONS, text, re.MULTILINE) for text in texts)
        for name, found in assigned.items():
            values[name] = expanded(found[0], values) if certain and len(found) == 1 else UNKNOWN
        return values

    def _assignments(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values of variables that commands only set."""
        for line in self.lines.lines:
            texts = [*line.words]
            if texts[0] in DECLARATIONS:
                texts = [word for word in texts[1:] if not word.startswith("-")]
            if all(re.match(r"[A-Za-z_]\w*=", word) for word in texts):
                for word in texts:
                    yield word.partition("=")[0], word.partition("=")[2]

    @cached_property
    def settings(self) -> list[Setting]:
        """The entries of inline files, then the arguments of commands."""
        found: list[Setting] = []
        for _, text, path in self.lines.files:
            for name, value in (*entries(text), *_arguments(text)):
                found.append(Setting(name.replace("-", "_"), name, value, path))
        for line in self.lines.lines:
            for index, word in enumerate(line.words):
                text, equals, value = word.partition("=")
                name = text.lstrip("-+")  # Hydra adds an entry with + or ++
                if not equals and text.startswith("-") and index + 1 < len(line.words):
                    value = line.words[index + 1]
                if value and re.fullmatch(r"[\w.-]+", name):
                    found.append(Setting(name.replace("-", "_"), text, value, line.paths[index]))
        return found

    @cached_property
    def arguments(self) -> list[tuple[Mapping[str, Any], Setting, str]]:
        """The settings that have a row for this framework: row, setting, and value.

        In the value, variables are replaced.
        """
        rows, settings = COMMANDS["arguments"], {each.name: each for each in self.settings}
        return [
            (rows[name], settings[name], expanded(settings[name].value, self.values))
            for name in sorted(settings.keys() & rows.keys())
            if self.job.framework in rows[name]["frameworks"]
            and rows[name].get("with", name) in settings
        ]

    @cached_property
    def constants(self) -> dict[str, tuple[ValuePath, str]]:
        """The variables with a literal value: path below the role, and value."""
        return {
            name: (path, value)
            for name, (path, value) in self.variables.items()
            if isinstance(value, str) and "$(" not in value
        }

    def is_read(self, name: str) -> bool:
        """Return False if a launcher sets a variable itself, or does not read it."""
        launches = [each for each in self.lines.launches if each.launcher.in_each_pod]
        if not launches or re.search(rf"\$[({{]?{name}\b", self.lines.text):
            return True
        options = VARIABLES.get(name, {}).get("options")
        return options is not None and not all({*options} & {*each.options} for each in launches)

    @cached_property
    def lone_script(self) -> str | None:
        """The script that it runs with python, in one process; None if unknown."""
        texts = (self.lines.text, *(script.text for script in self.lines.scripts))
        if self.lines.launches or any(re.search(SEVERAL, text) for text in texts):
            return None
        scripts = []
        for line in self.lines.lines:
            if is_python(line.program):
                first = next((word for word in line.arguments if not word.startswith("-")), "")
                if first.endswith(".py"):
                    scripts.append(first)
        return scripts[0] if len(scripts) == 1 else None

    @cached_property
    def launched(self) -> "list[Launched]":
        """The launchers that it runs."""
        return [Launched(self, launch) for launch in self.lines.launches]

    @property
    def trains_together(self) -> bool:
        """True if the replicas of a role train together, and not each by itself."""
        return self.topology.ranked and "launcher" not in self.job.roles

    def error(
        self, path: ValuePath, message: str, hint: str, *, code: Code = "launch", warn: bool = False
    ) -> Problem:
        """Return an error, which cannot work in any image, at a path below the role.

        Args:
            path: the path of the value.
            message: the problem.
            hint: the fix.
            code: the code of the problem.
            warn: True for a warning, because some image may work.
        """
        found = error(("roles", self.name, *path), message, hint, code)
        return replace(found, warning=warn)

    def warning(
        self, path: ValuePath, message: str, hint: str, *, code: Code = "launch"
    ) -> Problem:
        """Return a warning, for what may work in some image; see `error`."""
        return self.error(path, message, hint, code=code, warn=True)


class Launched:
    """A launcher that the replicas of a role run.

    Attributes:
        role: the role.
        topology: the job's topology.
        job: the job.
        spec: the role in the job file.
        env: the role's variables from the framework.
        raw: the launcher and its options as written.
        launch: the same, with the values of variables, and the options in a configuration file.
        written: the options in `launch` as written, for messages.
    """

    def __init__(self, role: JobRole, raw: Launch) -> None:
        self.role, self.raw = role, raw
        self.topology, self.job = role.topology, role.job
        self.spec, self.env = role.spec, role.env
        launch = self._configured()
        self.written = launch.options
        options = {key: expanded(text, role.values) for key, text in launch.options.items()}
        self.launch = replace(launch, options=options)

    def _configured(self) -> Launch:
        """Return the launcher with the options of its inline configuration file, if it has one."""
        launch, name = self.raw, self.raw.launcher.config
        file = launch.literal(name)
        for at, text, path in self.role.lines.files if file else ():
            if at == file or at.endswith(f"/{file}"):
                options = {**dict(entries(text)), **launch.options}
                del options[name]
                paths = {**dict.fromkeys(options, path), **launch.paths}
                return replace(launch, options=options, paths=paths)
        return launch

    @cached_property
    def nodes(self) -> list[int]:
        """The numbers in the option for the number of pods: one, or a minimum and a maximum."""
        text = self.launch.literal(self.launch.launcher.nodes) or ""
        # A number that is cut off here is still too large.
        return [int(number[:NUMBER_DIGITS]) for number in re.findall(r"\d+", text)]

    def flag(self, name: str) -> str:
        """Return an option as written, with its value."""
        return f"--{name}={self.written[name]}"

    @property
    def ranked(self) -> bool:
        """True if the framework assigns ranks to all replicas of the job."""
        return not self.env.keys().isdisjoint(NNODES)

    @cached_property
    def replicas(self) -> int:
        """The number of replicas that train together.

        Without ranks, these are the replicas of the roles that run the same launcher, or a program
        in the image, which may run it.
        """
        together = 0
        for spec in self.job.roles.values():
            lines = lines_of(spec)
            in_image = not lines.words or (is_shell(lines.words[0]) and not lines.scripts)
            same = any(launch.program == self.raw.program for launch in lines.launches)
            together += spec.replicas if self.ranked or in_image or same else 0
        return together

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
        own = (f"{self.job.written_name}-", "localhost", "127.0.0.1")
        return all(text.rpartition("//")[2].startswith(own) for text in texts if text)

    @property
    def is_static(self) -> bool:
        """True if each launcher needs its rank. Other rendezvous backends assign the ranks."""
        backend = self.launch.options.get("rdzv_backend", self.spec.env.get("PET_RDZV_BACKEND"))
        return backend == "static" or (backend is None and "PET_RDZV_BACKEND" not in self.env)

    def error(
        self, message: str, hint: str, *, code: Code = "launch", warn: bool = False
    ) -> Problem:
        """Return an error of the command line, at the first option that its texts name.

        It is a warning if a script may run another command instead. See `JobRole.error`.
        """
        place = self.launch.place(f"{message} {hint}")
        if place[:1] == ("volumes",):
            # Kubernetes replaces $(NAME) in commands only. Options override a configuration file.
            is_script = place == self.launch.path
            hint = (
                re.sub(r"\$\((\w+)\)", r"$\1", hint) if is_script else hint.replace("write", "pass")
            )
        warn = warn or self.raw.may_be_skipped
        return self.role.error(place, message, hint, code=code, warn=warn)

    def warning(self, message: str, hint: str, *, code: Code = "launch") -> Problem:
        """Return a warning of the command line; see `error`."""
        return self.error(message, hint, code=code, warn=True)

    def all_local(self, hint: str) -> Problem:
        """Return a warning of a launcher that starts no process in the workers."""
        message = f"{self.raw.program} starts all processes in the launcher, not in the workers"
        return self.warning(message, hint)

    def alone(self, flag: str, hint: str = "") -> Problem:
        """Return a warning of replicas that train separately. Default hint: remove the flag."""
        message = f"with {flag}, each of the {self.replicas} replicas trains alone"
        return self.warning(message, hint or f"remove {flag}")


def contradicted(name: str, value: str, own: object) -> str:
    """Return the message about a value of a variable or argument that contradicts the job."""
    return f'{name} is "{value}", but in this job, it must be {own}'


of_roles: Rules[JobRole, Problem] = Rules("role")

of_scripts: Rules[JobRole, Problem] = Rules("role")
"""Rules about roles that run a shell script."""

of_variables: Rules[JobRole, Problem] = Rules("role")
"""Rules about variables in the job file, arguments, and entries of configuration files."""

of_launchers: Rules[Launched, Problem] = Rules("launcher")

of_options: Rules[Launched, Problem] = Rules("launcher")
"""Rules about the options of a launcher."""

of_remote: Rules[Launched, Problem] = Rules("launcher")
"""Rules about launchers that one pod runs, and that start processes in the others."""

of_ray: Rules[Launched, Problem] = Rules("launcher")
"""Rules about the program `ray`."""

of_all_roles: Rules[Sequence[JobRole], Problem] = Rules("job")


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the constant arguments of calls in a Python program; see `CALLS`."""
    for call in re.finditer(CALLS, text):
        for argument in re.finditer(ARGUMENT, call[2]):
            yield f"{call[1]}.{argument[1]}", argument[2].strip("\"'")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a configuration file; see `ENTRY` and `Setting.name`."""
    outer: list[tuple[int, str]] = []
    for match in re.finditer(ENTRY, text):
        value, *comment = re.split(r"[ \t]#", match[3], maxsplit=1)
        value = (value if comment else value.removesuffix(",")).strip(" \t").strip("\"'")
        indent, name = len(match[1]), match[2]
        while outer and outer[-1][0] >= indent:
            outer.pop()
        if value in ("", "{", "["):
            outer.append((indent, name))
        else:
            yield ".".join((*(key for _, key in outer), name)), value


def variables_of(spec: RoleSpec) -> dict[str, tuple[ValuePath, Any]]:
    """Return the variables of a role's training container: path below the role, and value.

    A value is a string, or a mapping with `valueFrom`.
    """
    values: dict[str, tuple[ValuePath, Any]] = {
        name: (("env", name), value) for name, value in spec.env.items()
    }
    for patch in spec.container_patches:
        for item in patch.get("env") or []:
            values[item["name"]] = (("template",), item.get("value", item))
    return values


def text_of_value(value: object) -> str:
    """Return a variable's value; a field of the pod as `$(status.podIP)`."""
    if isinstance(value, str):
        return value
    if isinstance(value, PodField):
        return f"$({value.path})"
    field = value_at(value, ("valueFrom", "fieldRef"))
    return f"$({field.get('fieldPath')})" if isinstance(field, dict) else UNKNOWN


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its variables. Unknown variables and long values remain."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        found = values.get(name, match[3] if match[3] is not None else match[0])
        return found if len(found) <= LONGEST else match[0]

    for _ in range(3 if "$" in text else 0):  # a value can contain other variables
        text = re.sub(REFERENCE, value, text) if len(text) <= LONGEST else text
    return text


LONGEST = 1000
"""Characters of a text or a value with variables that are replaced. Each can contain others often,
and the rules look for numbers and addresses."""


def differs(text: str) -> bool:
    """Return True for a value that differs between pods. False if a shell computes it."""
    return bool(re.search(DIFFERENT, text)) and not re.search(COMPUTED, text)


def users_of(job: TrainingJob, spec: RoleSpec) -> list[int | None]:
    """Return the users that the job file sets for a role; None where it sets none."""
    pods = [template.get("spec") or {} for template in spec.templates]
    contexts = [each.get("securityContext") or {} for each in (*pods, *spec.container_patches)]
    return [job.security.run_as_user, *(context.get("runAsUser") for context in contexts)]
