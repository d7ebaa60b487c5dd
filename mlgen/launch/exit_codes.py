"""Rules about a launcher or shell that hides the end, the failure or the exit codes of training.

Kubernetes sees only the exit code of the container's first process.
"""

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from mlgen.jobfile.model import KILLED_EXIT_CODES, PERMANENT_EXIT_CODES
from mlgen.launch.line import COMMANDS, FOREVER, Launch, Line, Script
from mlgen.launch.role import JobRole, of_roles, of_scripts
from mlgen.problems import Code, Problem, ValuePath
from mlgen.shell import program
from mlgen.topology import Role

SIGNALS = frozenset(range(1, 256)) - PERMANENT_EXIT_CODES
"""The exit codes that ExitCode retries by default."""

FIRST_SIGNAL, LAST_SIGNAL = 129, 192

OWN_STATUS = (
    r"\$\?|PIPESTATUS|\b(if|while|until|for|case|function|trap|wait)\b|(^|[\s;&|])[{}]([\s;]|$)"
)
"""Parts of a script that can make its exit status differ from its last command's status."""

OWN_WAIT = r"\btrap\b|\bwait +\S|\bjobs\b"
"""Parts of a script that may see the status of a background process."""


class Hidden(NamedTuple):
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
    hint: str


@of_scripts
def misses_end(role: JobRole) -> Iterator[Problem]:
    """Report a script that ends before its training, or never, because of a command after it.

    wrong:
        framework: pytorch
        command: [bash, -c, nohup python train.py &]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -c, python train.py; sleep infinity]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "python train.py & wait $!"]
        roles: {worker: {}}
    """
    for script in role.lines.scripts if _runs_to_its_end(role) else ():
        waits = ""
        for words, operator in reversed(_commands(script)):
            if _trains(words) and waits and operator in ("&", ";", "&&"):
                yield role.warning(
                    script.path,
                    f"after training, {waits} keeps the container running, so the job never ends",
                    f"remove {waits}",
                    code="never-ends",
                )
            elif _trains(words) and operator == "&" and not waits:
                names = map(program, words)
                name = next(name for name in names if name not in COMMANDS["wrappers"])
                yield role.error(
                    script.path,
                    f"the shell does not wait for {name}, so the container ends with the script",
                    "remove the & after it, or end the script with wait",
                )
            if re.match(FOREVER, " ".join(words)):
                waits = " ".join(words)
            elif not _succeeds(words):
                break


@of_scripts
def hidden_failure(role: JobRole) -> Iterator[Problem]:
    """Warn of a script that succeeds although its training fails.

    wrong:
        framework: pytorch
        command: [bash, -c, python train.py 2>&1 | tee log]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -c, python train.py || true]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -c, python a.py & python b.py & wait]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -o, pipefail, -c, python train.py 2>&1 | tee log]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "pip install -r a.txt || true; python train.py"]
        roles: {worker: {}}
    """
    if _runs_to_its_end(role) and not any(each.restart == "ExitCode" for each in role.roles):
        hidden = next(_by_shell(role), None)
        if hidden and {*hidden.seen} <= {0}:
            message = f"{hidden.why}, so Kubernetes counts a failed training as a success"
            yield role.warning(hidden.path, message, hidden.hint, code="exit-code")


@of_roles
def hidden_exit_codes(role: JobRole) -> Iterator[Problem]:
    """Warn of a restart after some exit codes if a launcher or shell hides all of these.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        restartPolicy: ExitCode
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -c, python train.py; echo done]
        restartPolicy: ExitCode
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [deepspeed, --no_ssh, train.py]
        restartPolicy: ExitCode
        retryableExitCodes: [137, 143]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, set -e; python train.py; echo done]
        restartPolicy: ExitCode
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        restartPolicy: ExitCode
        retryableExitCodes: [1, 137]
        roles: {worker: {}}
    """
    coded = next((each for each in role.roles if each.restart == "ExitCode"), None)
    if coded is None or not _runs_to_its_end(role):
        return
    retryable = frozenset(role.spec.retryable_exit_codes) or SIGNALS
    hidden = next(_hidden(role, coded, retryable), None)
    if hidden is None or retryable & {*hidden.seen}:
        return
    codes = ", ".join(map(str, sorted(retryable))) if retryable != SIGNALS else "128 to 255"
    plural = "s" if len(retryable) > 1 else ""
    message = f"{hidden.why}, which hides the program's exit code{plural} {codes}"
    hint = hidden.hint
    if role.job.converted:
        # The operator of a custom resource may have other fields.
        other = "write a restartPolicy that does not depend on exit codes, such as OnFailure"
        hint = other if 1 in hidden.seen else hint
        message += ", so the operator would never restart a replica"
    code: Code = "differs" if role.job.converted else "exit-code"
    yield role.warning(hidden.path, message, hint, code=code)


def _runs_to_its_end(role: JobRole) -> bool:
    """Return True if the role has own pods, and the job does not end them."""
    return bool(role.roles) and not role.roles[0].serves


def _commands(script: Script) -> list[tuple[list[str], str]]:
    """Return the commands of a script and the operators after them.

    Complex scripts have none, because a wrong warning is worse than none.
    """
    return [] if re.search(OWN_STATUS, script.text) else script.sequence


def _trains(words: list[str]) -> bool:
    return Line(tuple(words)).trains


def _hidden(role: JobRole, coded: Role, retryable: frozenset[int]) -> Iterator[Hidden]:
    """Yield the reasons why a role's exit codes are hidden, the outermost first."""
    yield from _by_shell(role)
    spec = role.spec
    fields = {"restartPolicy": spec.restart_policy, "retryableExitCodes": spec.retryable_exit_codes}
    names = [name for name, value in fields.items() if value] or ["restartPolicy"]
    for launch in role.lines.launches:
        if _exits_with_1(launch):
            why = f"{launch.program} exits with 1 after any failure of its processes"
            # Signals from outside also end the launcher. Own codes may be of another program.
            seen = {1, *(KILLED_EXIT_CODES if retryable - SIGNALS else ())}
            yield Hidden((names[0],), why, seen, _without_codes(role, coded, names))
        elif launch.program == "deepspeed":
            # deepspeed/launcher/launch.py: sys.exit(process.returncode), -n after signal n.
            seen = {
                256 + 128 - code if FIRST_SIGNAL <= code <= LAST_SIGNAL else code
                for code in retryable
            }
            codes = ", ".join(map(str, sorted(seen)))
            why = "after signal n ends a process, deepspeed exits with 256 - n"
            yield Hidden(("retryableExitCodes",), why, seen, f"write [{codes}]")


def _without_codes(role: JobRole, coded: Role, fields: list[str]) -> str:
    """Return a hint that makes a role restart after any exit code, without these fields."""
    remove, job = f"remove {' and '.join(fields)}", role.job
    if coded.restarts_together:
        return f"{remove}: any failure then restarts all replicas"
    is_static = job.replicas > 1 and coded.keeps_rank
    if is_static and job.supervisor and not job.workflow and not coded.gang:
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


def _by_shell(role: JobRole) -> Iterator[Hidden]:
    """Yield the reasons in a role's scripts why exit codes are hidden."""
    lines = role.lines.lines
    last = lines[-1].shell if lines and lines[-1].words == ("wait",) else None
    if last and not re.search(OWN_WAIT, last.text) and any(line.trains for line in lines):
        hint = "end the script with: for pid in $(jobs -p); do wait $pid || exit 1; done"
        yield Hidden(last.path, "wait without arguments succeeds", (0,), hint)
    for script in role.lines.scripts:
        yield from _by_script(script)


def _by_script(script: Script) -> Iterator[Hidden]:
    """Yield the reasons in one script."""
    commands, path = _commands(script), script.path
    settings = (word for words, _ in commands if words[0] == "set" for word in words)
    options = [*script.options, *settings]
    later: set[str] = set()
    for (words, operator), (after, between) in reversed([*pairwise(commands)]):
        later.add(between)
        name = program(after[0])
        if later - {"", operator} or not _trains(words):
            continue
        if operator == "|" and name in COMMANDS["filters"] and "pipefail" not in str(options):
            why = f"the shell exits with the status of the last command of a pipe, {name}"
            yield Hidden(path, why, (), "run the script with bash -o pipefail -c")
        elif operator == "||" and name in (*COMMANDS["trailing"], "exit"):
            code = after[1] if name == "exit" and after[1:] else "0"
            why = f"after a failure, the shell runs {' '.join(after[:2])}"
            if code.isdecimal() and not re.match(FOREVER, " ".join(after)):
                yield Hidden(path, why, (int(code),), f"remove || {' '.join(after)}")
    lists = (index for index, (_, operator) in enumerate(commands, 1) if operator == ";")
    last = [words for words, _ in commands[max(lists, default=0) :]]
    pairs = zip(commands, _exits(commands), strict=True)
    trained = any(_trains(words) and not exits for (words, _), exits in pairs)
    goes_on = any(re.match(FOREVER, " ".join(words)) for words in last) or any(
        _trains(words) and operator == "&" for words, operator in commands
    )
    ends = any(re.fullmatch(r"errexit|-(?=\w*e)\w+", option) for option in options)
    if trained and not (goes_on or ends) and last and all(map(_succeeds, last)):
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
