"""Check whether a launcher or a shell hides the exit codes that restartPolicy ExitCode retries.

Kubernetes sees only the exit code of the container's first process.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from mlgen.frameworks._command_rules import roles_of
from mlgen.frameworks._launch import Launch, launches_of, text_of, trains
from mlgen.frameworks._tables import COMMANDS, problem
from mlgen.jobfile.model import PERMANENT_EXIT_CODES, RoleSpec
from mlgen.problems import Problem, ValuePath
from mlgen.shell import program, sequence
from mlgen.topology import Role, Topology

SIGNALS = frozenset(range(1, 256)) - PERMANENT_EXIT_CODES
"""The exit codes that ExitCode retries by default."""

FIRST_SIGNAL, LAST_SIGNAL = 129, 192

OWN_STATUS = (
    r"\$\?|PIPESTATUS|\b(if|while|until|for|case|function|trap|wait)\b|(^|[\s;&|])[{}]([\s;]|$)"
)
"""Parts of a script that can make its exit status differ from its last command's status."""

OTHERWISE = "write a restartPolicy that does not depend on exit codes, such as OnFailure"
"""The fix in a custom resource, whose operator may have other fields."""


@dataclass(frozen=True)
class Hidden:
    """A reason why Kubernetes does not see a program's exit codes.

    Attributes:
        path: the field of the job file to change, below the role.
        why: the cause.
        seen: the exit codes that Kubernetes sees instead.
        hint: the change that fixes it.
    """

    path: ValuePath
    why: str
    seen: Collection[int]
    hint: str = ""


def hidden_exit_codes(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each role whose retryable exit codes are all hidden."""
    for name, spec in topology.job.roles.items():
        roles = [role for role in roles_of(topology, name) if role.restart == "ExitCode"]
        if not roles or roles[0].serves:
            continue
        retryable = frozenset(spec.retryable_exit_codes) or SIGNALS
        hidden = next(_hidden(spec, roles[0], retryable), None)
        if hidden and not retryable & set(hidden.seen):
            codes = ", ".join(map(str, sorted(retryable))) if retryable != SIGNALS else "128 to 255"
            path, hint = ("roles", name, *hidden.path), hidden.hint
            values = {"why": hidden.why, "codes": f"{'s' if len(retryable) > 1 else ''} {codes}"}
            if topology.job.converted:
                hint = OTHERWISE if 1 in hidden.seen else hint
                yield problem("hidden-from-operator", path, hint=hint, **values)
            else:
                yield problem("hidden-exit-codes", path, hint=hint, **values)


def _hidden(spec: RoleSpec, role: Role, retryable: frozenset[int]) -> Iterator[Hidden]:
    """Yield the reasons why a role's exit codes are hidden, the outermost first."""
    yield from _by_shell(spec)
    for launch in launches_of(spec):
        if _exits_with_1(launch):
            why = f"{launch.program} exits with 1 after any failure of its processes"
            yield Hidden((_fields(spec)[0],), why, (1,), _without_codes(spec, role))
        elif launch.program == "deepspeed":
            # deepspeed/launcher/launch.py: sys.exit(process.returncode), -n after signal n.
            seen = {_as_negative(code) for code in retryable}
            codes = ", ".join(map(str, sorted(seen)))
            why = "after signal n ends a process, deepspeed exits with 256 - n"
            yield Hidden(("retryableExitCodes",), why, seen, f"write [{codes}]")


def _fields(spec: RoleSpec) -> list[str]:
    """Return the fields of the job file that make a role restart after some exit codes."""
    fields = {"restartPolicy": spec.restart_policy, "retryableExitCodes": spec.retryable_exit_codes}
    return [name for name, value in fields.items() if value] or ["restartPolicy"]


def _without_codes(spec: RoleSpec, role: Role) -> str:
    """Return a hint that makes a role restart after any exit code."""
    if role.restarts_together:
        return f"remove {' and '.join(_fields(spec))}: any failure then restarts all replicas"
    others = " and remove retryableExitCodes" if spec.retryable_exit_codes else ""
    return f"write restartPolicy: OnFailure{others}"


def _exits_with_1(launch: Launch) -> bool:
    row = launch.launcher.exits_with_1
    if row is None:
        return False
    needed, arguments = row.get("options"), row.get("arguments", [])
    begins = [*launch.script][: len(arguments)] == arguments
    return begins and (needed is None or any(option in launch.options for option in needed))


def _as_negative(code: int) -> int:
    """Return the exit code of a Python program that exits with -n after signal n = code - 128."""
    return 256 + 128 - code if FIRST_SIGNAL <= code <= LAST_SIGNAL else code


def _by_shell(spec: RoleSpec) -> Iterator[Hidden]:
    """Yield the reasons in a shell script why exit codes are hidden.

    Complex scripts are skipped, because a wrong warning is worse than none.
    """
    script = text_of(spec)
    if not script or re.search(OWN_STATUS, script[0]):
        return
    text, options, path = script
    commands = sequence(text) or []
    settings = [*options, *(word for words, _ in commands if words[0] == "set" for word in words)]
    pipes = any("pipefail" in word for word in settings)
    ends = "errexit" in settings or any(re.fullmatch(r"-\w*e\w*", word) for word in settings)
    for index, ((words, operator), (after, _)) in enumerate(pairwise(commands), 1):
        name, later = program(after[0]), {between for _, between in commands[index:]}
        if not trains(words) or later - {"", operator}:
            continue
        if operator == "|" and name in COMMANDS["filters"] and not pipes:
            why = f"the shell exits with the status of the last command of a pipe, {name}"
            hint = "run the script with bash -o pipefail -c"
            yield Hidden(path, why, (), hint)
        elif operator == "||" and name in (*COMMANDS["trailing"], "exit"):
            code = after[1] if name == "exit" and after[1:] else "0"
            why = f"after a failure, the shell runs {' '.join(after[:2])}"
            if code.isdecimal():
                yield Hidden(path, why, (int(code),), f"remove || {' '.join(after)}")
    lists = (index for index, (_, operator) in enumerate(commands, 1) if operator == ";")
    last = [words for words, _ in commands[max(lists, default=0) :]]
    trained = any(trains(words) for words, _ in commands)
    if trained and not ends and last and all(map(_succeeds, last)):
        why = f"the shell exits with the status of its last command, {program(last[-1][0])}"
        yield Hidden(path, why, (), "start the script with set -e")


def _succeeds(words: list[str]) -> bool:
    return program(words[0]) in COMMANDS["trailing"] or words == ["exit", "0"]
