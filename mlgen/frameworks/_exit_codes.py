"""Check whether a launcher or a shell hides the end, the failure or the exit codes of training.

Kubernetes sees only the exit code of the container's first process.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from mlgen.launch._old import FOREVER, Launch, Script, launches_of, scripts_of, trains
from mlgen.frameworks._lifecycle import needs_gang
from mlgen.launch._old import roles_of
from mlgen.frameworks._tables import problem
from mlgen.launch.line import COMMANDS
from mlgen.jobfile.model import KILLED_EXIT_CODES, PERMANENT_EXIT_CODES, RoleSpec, TrainingJob
from mlgen.problems import Problem, ValuePath
from mlgen.shell import once, program, sequence, simple_commands
from mlgen.topology import Role, Topology

SIGNALS = frozenset(range(1, 256)) - PERMANENT_EXIT_CODES
"""The exit codes that ExitCode retries by default."""

FIRST_SIGNAL, LAST_SIGNAL = 129, 192

OWN_STATUS = (
    r"\$\?|PIPESTATUS|\b(if|while|until|for|case|function|trap|wait)\b|(^|[\s;&|])[{}]([\s;]|$)"
)
"""Parts of a script that can make its exit status differ from its last command's status."""

OWN_WAIT = r"\btrap\b|\bwait +\S|\bjobs\b"
"""Parts of a script that may see the status of a background process."""

WAIT_HINT = "end the script with: for pid in $(jobs -p); do wait $pid || exit 1; done"

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
    """Report scripts that do not end with their training, and hide its failure or exit codes.

    Retryable exit codes are reported only if all of them are hidden.
    """
    for name, spec in topology.job.roles.items():
        roles = roles_of(topology, name)
        if not roles or roles[0].serves:
            continue
        for script in scripts_of(spec):
            for row, values in _endless(script):
                yield problem(row, ("roles", name, *script.path), **values)
        coded = next((role for role in roles if role.restart == "ExitCode"), None)
        retryable = frozenset(spec.retryable_exit_codes) or SIGNALS
        reasons = _hidden(topology.job, coded, retryable) if coded else _by_shell(spec)
        hidden = next(reasons, None)
        if hidden is None:
            continue
        path, hint = ("roles", name, *hidden.path), hidden.hint
        if not coded and {*hidden.seen} <= {0}:
            yield problem("hidden-failure", path, why=hidden.why, hint=hint)
        elif coded and not retryable & set(hidden.seen):
            codes = ", ".join(map(str, sorted(retryable))) if retryable != SIGNALS else "128 to 255"
            values = {"why": hidden.why, "codes": f"{'s' if len(retryable) > 1 else ''} {codes}"}
            if topology.job.converted:
                hint = OTHERWISE if 1 in hidden.seen else hint
                yield problem("hidden-from-operator", path, hint=hint, **values)
            else:
                yield problem("hidden-exit-codes", path, hint=hint, **values)


@once
def _endless(script: Script) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a row of `problems.json` and its values if a script ends before its training, or never.

    After training, it runs only commands that succeed, and at most one that never ends.
    """
    commands = [] if re.search(OWN_STATUS, script.text) else sequence(script.text) or []
    waits: list[str] = []
    for words, operator in reversed(commands):
        if trains(words):
            if waits and operator in ("&", ";", "&&"):
                yield "never-done", {"command": " ".join(waits)}
            elif operator == "&":
                names = (word for word in map(program, words) if word not in COMMANDS["wrappers"])
                hint = "remove the & after it, or end the script with wait"
                yield "not-awaited", {"command": next(names), "hint": hint}
        if re.match(FOREVER, " ".join(words)):
            if waits and not _succeeds(waits):
                return
            waits = words
        elif not _succeeds(words):
            return


def _hidden(job: TrainingJob, role: Role, retryable: frozenset[int]) -> Iterator[Hidden]:
    """Yield the reasons why a role's exit codes are hidden, the outermost first."""
    spec = role.spec
    yield from _by_shell(spec)
    for launch in launches_of(spec):
        if _exits_with_1(launch):
            why = f"{launch.program} exits with 1 after any failure of its processes"
            # Signals from outside also end the launcher. Own codes may be of another program.
            seen = {1, *(KILLED_EXIT_CODES if retryable - SIGNALS else ())}
            yield Hidden((_fields(spec)[0],), why, seen, _without_codes(job, role))
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


def _without_codes(job: TrainingJob, role: Role) -> str:
    """Return a hint that makes a role restart after any exit code."""
    remove = f"remove {' and '.join(_fields(role.spec))}"
    if role.restarts_together:
        return f"{remove}: any failure then restarts all replicas"
    if needs_gang(job, role):
        return f"{remove}, and write runPolicy: {{restartScope: All}}"
    others = " and remove retryableExitCodes" if role.spec.retryable_exit_codes else ""
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
    for script in scripts_of(spec):
        commands = simple_commands(script.text)
        awaits = commands[-1:] == [["wait"]] and not re.search(OWN_WAIT, script.text)
        if awaits and any(map(trains, commands)):
            yield Hidden(script.path, "wait without arguments succeeds", (0,), WAIT_HINT)
        if not re.search(OWN_STATUS, script.text):
            yield from _by_script(script)


@once
def _by_script(script: Script) -> Iterator[Hidden]:
    """Yield the reasons in one script."""
    commands, options, path = sequence(script.text) or [], script.options, script.path
    settings = [*options, *(word for words, _ in commands if words[0] == "set" for word in words)]
    pipes = any("pipefail" in word for word in settings)
    following = ({between} for _, between in reversed(commands))
    later: list[set[str]] = [*accumulate(following, lambda after, own: after | own)][::-1]
    ends = "errexit" in settings or any(
        "e" in word and re.fullmatch(r"-\w+", word) for word in settings
    )
    for index, ((words, operator), (after, _)) in enumerate(pairwise(commands), 1):
        name = program(after[0])
        if later[index] - {"", operator} or not trains(words):
            continue
        if operator == "|" and name in COMMANDS["filters"] and not pipes:
            why = f"the shell exits with the status of the last command of a pipe, {name}"
            hint = "run the script with bash -o pipefail -c"
            yield Hidden(path, why, (), hint)
        elif re.match(FOREVER, " ".join(after)):
            continue
        elif operator == "||" and name in (*COMMANDS["trailing"], "exit"):
            code = after[1] if name == "exit" and after[1:] else "0"
            why = f"after a failure, the shell runs {' '.join(after[:2])}"
            if code.isdecimal():
                yield Hidden(path, why, (int(code),), f"remove || {' '.join(after)}")
    lists = (index for index, (_, operator) in enumerate(commands, 1) if operator == ";")
    last = [words for words, _ in commands[max(lists, default=0) :]]
    pairs = zip(commands, _exits(commands), strict=True)
    trained = any(trains(words) and not exits for (words, _), exits in pairs)
    forever = any(re.match(FOREVER, " ".join(words)) for words in last)
    awaited = not any(trains(words) and operator == "&" for words, operator in commands)
    if trained and awaited and not (ends or forever) and last and all(map(_succeeds, last)):
        why = f"the shell exits with the status of its last command, {program(last[-1][0])}"
        yield Hidden(path, why, (), "start the script with set -e")


def _exits(commands: list[tuple[list[str], str]]) -> list[bool]:
    """Return for each command if the script ends with its failure: `a && b || exit 1`."""
    ends = [False] * len(commands)
    for index in reversed(range(len(commands) - 1)):
        operator, after = commands[index][1], commands[index + 1][0]
        if operator == "||" and after[0] == "exit":
            ends[index] = after[1:] != ["0"]
        elif operator in ("&&", "||"):
            ends[index] = ends[index + 1]
    return ends


def _succeeds(words: list[str]) -> bool:
    return program(words[0]) in COMMANDS["trailing"] or words == ["exit", "0"]
