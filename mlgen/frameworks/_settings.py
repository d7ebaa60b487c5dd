"""The settings of a role: variables, arguments of programs, and entries of configuration files.

`schemas/frameworks/commands.json` lists the settings that have a meaning for a whole job, such as
a number of replicas. The options of launchers are in `_launch`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen.frameworks._launch import Files, Placed, commands_of, files_of, scripts_of
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import ValuePath
from mlgen.shell import once
from mlgen.topology import INDEX, INDEX_NAME, PodField, Role, Topology

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

DECLARATIONS = ("export", "declare", "local", "readonly", "typeset")

ENTRY = r"""(?m)^([ \t]*(?:- )?)["']?([\w.-]+)["']?[ \t]*[:=](.*)"""
"""A line with one entry of a file in YAML, in JSON with a line for each entry, or `key = value`."""


CALLS = (
    r"(?m)^[^#\n]*\b(?:distributed\.)?((?<=distributed\.)initialize|init_process_group)"
    r"\(((?:[^()]|\([^()]*\))*)\)"
)
"""A call in a Python program that joins the other processes of a job."""

ARGUMENT = r"""\b(\w+)\s*=\s*(\d+|"[^"\n]*"|'[^'\n]*')(?=\s*(?:,|$))"""


@dataclass(frozen=True)
class Setting:
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


def settings_of(spec: RoleSpec) -> tuple[Setting, ...]:
    """Return the entries of a role's inline files, then the arguments of its commands."""
    return _settings(files_of(spec), commands_of(spec))


@once
def _settings(files: Files, commands: Sequence[Placed]) -> Iterator[Setting]:
    for _, text, path in files:
        for name, value in (*entries(text), *_arguments(text)):
            yield Setting(name.replace("-", "_"), name, value, path)
    for words in commands:
        for index, (word, path) in enumerate(words):
            text, equals, value = word.partition("=")
            name = text.lstrip("-")
            if not equals and text.startswith("-") and index + 1 < len(words):
                value = words[index + 1][0]
            if value and re.fullmatch(r"[\w.-]+", name):
                yield Setting(name.replace("-", "_"), text, value, path)


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


def values_of(spec: RoleSpec, roles: Sequence[Role], same_as: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each variable in a role's command lines, for `expanded`.

    A value that differs between pods contains `INDEX`, or matches `DIFFERENT`. A variable of the
    framework has the framework's value, because other rules check the job file's value.

    Args:
        spec: the role in the job file.
        roles: the topology's roles for it.
        same_as: the framework's variable with the same meaning, for names of other variables.
    """
    values: dict[str, str] = {}
    for name in roles[0].env if roles else ():
        each = {role.env.get(name) for role in roles}
        values[name] = text_of_value(each.pop()) if len(each) == 1 else INDEX
    for name, (_, value) in variables_of(spec).items():
        if name not in values:
            values[name] = UNKNOWN if same_as.get(name) in values else text_of_value(value)
    assigned: dict[str, list[str]] = {}
    for name, text in _assignments(commands_of(spec)):
        assigned.setdefault(name, []).append(text)
    texts = [script.text for script in scripts_of(spec)]
    certain = not any(re.search(CONDITIONS, text, re.MULTILINE) for text in texts)
    for name, found in assigned.items():
        values[name] = expanded(found[0], values) if certain and len(found) == 1 else UNKNOWN
    return values


@once
def _assignments(commands: Sequence[Placed]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of variables that commands only set."""
    for words in commands:
        texts = [word for word, _ in words]
        if texts[0] in DECLARATIONS:
            texts = [word for word in texts[1:] if not word.startswith("-")]
        if all(re.match(r"[A-Za-z_]\w*=", word) for word in texts):
            for word in texts:
                yield word.partition("=")[0], word.partition("=")[2]


def text_of_value(value: object) -> str:
    """Return a variable's value; a field of the pod as `$(status.podIP)`."""
    if isinstance(value, str):
        return value
    if isinstance(value, PodField):
        return f"$({value.path})"
    source = value.get("valueFrom") if isinstance(value, Mapping) else None
    field = source.get("fieldRef") if isinstance(source, Mapping) else None
    return f"$({field.get('fieldPath')})" if isinstance(field, Mapping) else UNKNOWN


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


def missing_in(text: str, values: Mapping[str, str]) -> list[str]:
    """Return the names of variables in a text that have no value and no default."""
    matches = re.finditer(REFERENCE, text)
    names = [match[1] or match[2] or match[4] for match in matches if match[3] is None]
    return [name for name in names if name not in values]


def roles_of(topology: Topology, name: str) -> list[Role]:
    """Return the topology's roles for a role of the job file; none for pods that others create."""
    return [role for role in topology.roles if name in (role.spec.name, *role.merged)]


def env_of(topology: Topology, name: str) -> Mapping[str, Any]:
    """Return the variables of the first of the topology's roles for a role of the job file."""
    return next((role.env for role in roles_of(topology, name)), {})


def users_of(job: TrainingJob, spec: RoleSpec) -> list[int | None]:
    """Return the users that the job file sets for a role; None where it sets none."""
    pods = [template.get("spec") or {} for template in spec.templates]
    contexts = [each.get("securityContext") or {} for each in (*pods, *spec.container_patches)]
    return [job.security.run_as_user, *(context.get("runAsUser") for context in contexts)]
