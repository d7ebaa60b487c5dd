"""Rules about the command line of a container: shells, words for a shell, and references.

The API server accepts any words. Without a shell, each is passed to the program as written, except
for references such as `$(NAME)`, which Kubernetes replaces.
"""

import re
import shlex
from collections.abc import Iterator

from mlgen.checks.pods import Container, Located, of_containers
from mlgen.launch.line import LAUNCHERS
from mlgen.problems import Code, ValuePath, did_you_mean
from mlgen.shell import OPTION, flow, flow_words, is_python, is_shell, program, text_index


@of_containers
def several_words(container: Container) -> Iterator[Located]:
    """Report a command line in one word, as `docker run` has it. No program has such a name.

    wrong:
        framework: pytorch
        command: ["python train.py"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [python, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: ["/opt/my app/run"]
        roles: {worker: {}}
    """
    word = container.lines.words[0] if container.data.get("command") else ""
    # The name of a file may have spaces.
    is_file = word.startswith(("/", ".")) and not re.search(r"\s-|python|\.\w+(\s|$)", word)
    if re.search(r"\s", word) and not is_file:
        message = f'the container would look for a program named "{_shown(word)}"'
        line = flow_words(word, command=True)
        hint = f"write {line}" if word.strip() else "write the name of a program"
        yield container.error(("command", 0), message, hint, "bad-value")


@of_containers
def shell_without_script(container: Container) -> Iterator[Located]:
    """Report a shell that has no script to run, or takes a command line for the name of one.

    wrong:
        framework: pytorch
        command: [sh, "-c torchrun train.py"]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, "torchrun train.py"]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -c]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -euo, pipefail, -c, torchrun train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, train.sh]
        roles: {worker: {}}
    """
    line, has_command = container.line, bool(container.data.get("command"))
    if line.start is None or not is_shell(line.program) or container.data.get("stdin"):
        return
    if text_index(line.words, line.start) is not None:
        return
    rest = line.arguments
    code: Code = "bad-value"
    first = next((word for word in rest if not re.fullmatch(OPTION, word)), "")
    at = line.paths[line.words.index(first) if first else -1]
    if re.match(r"-\w*c\s", first):
        message = f'"{_shown(first)}" is one word, which {line.program} rejects'
        option, script = first.split(maxsplit=1)
        hint = f"write two words: {option}, {flow(script)}"
    elif re.match(r"[^-]\S*\s", first):
        message = f'{line.program} would look for a file named "{_shown(first)}"'
        hint, code = "write -c before it", "launch"
    elif not rest or (re.fullmatch(r"-\w*c", rest[-1]) and has_command):
        message, at = f"{line.program} has no script to run", line.paths[-1]
        hint = "write the script as the next word"
    else:
        return
    # Without a command, the entrypoint of the image reads the words.
    yield container.error(at, message, hint, code).as_warning(unless=has_command)


PARAMETERS = (
    r"\$[0-9@*#]|\$\{[#!]?[0-9@*#]|\b(shift|getopts)\b|\bset\s+--|\bfor\s+\w+[\s;]*\bdo\b"
    r"|(^|[;&|\n(])[^\S\n]*(source|\.)\s"
)
"""Parts of a shell script that use its parameters, or may use them in a sourced file."""

PLACEHOLDERS = ("--", "-", "_")
"""Words after the script of `sh -c` that only set $0."""


@of_containers
def ignored_words(container: Container) -> Iterator[Located]:
    """Report words after the script of `sh -c`. They are its parameters $0, $1 and so on.

    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html

    wrong:
        framework: pytorch
        command: [sh, -c, python, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [bash, -euo, pipefail, -c, python train.py]
        args: [--lr, "1"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [sh, -c, 'exec "$0" "$@"', python, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, python train.py, trainer-0]
        roles: {worker: {}}
    """
    line = container.line
    index = None if line.start is None else text_index(line.words, line.start)
    if index is None or re.search(PARAMETERS, line.words[index]):
        return
    script, *rest = line.words[index:]
    # A lone word after a command line may be $0, the name in messages of the shell.
    is_name = len(rest) == 1 and " " in script and re.fullmatch(r"\w[\w-]*", rest[0])
    if rest and (rest[0] in PLACEHOLDERS or is_shell(rest[0]) or is_name):
        del rest[0]
    if rest:
        message = f'the shell runs only "{_shown(script)}", and ignores "{_shown(rest[0])}"'
        hint = f'write one string, "{_shown(" ".join([script, *rest]))}"'
        found = container.error(line.paths[-len(rest)], message, hint, "no-effect")
        # Without its script, python ends at once, and a launcher fails.
        starts = is_python(script) or script in LAUNCHERS
        yield found.as_warning(unless=starts and rest[0].endswith(".py"))


OPERATOR_WORD = r"&&|\|\|?|;|&|\d?>>?|\d?>&\d|&>>?|<|\d?&?>>?(/\S*|[\w.-]+\.(log|txt|out|err))"
"""A word that only a shell interprets. After an option, it may be a value."""

SURE_OPERATOR = r"&&|\|\||>>|\d>&\d|&>>?|\d>>?"
"""An operator that is hardly a value."""

SHELL_WORDS = r"cd|source|\.|export|set|ulimit|eval|exec|trap|wait|if|for|while|until|[{(!]|\[\["
"""Commands and keywords that only a shell has."""

VARIABLE_IN_WORD = r"(?:(?<=^)|(?<=[=/:,]))\$(?:([A-Z_][A-Z0-9_]+)\b|\{([A-Z_][A-Z0-9_]+)\})"
"""`$NAME` or `${NAME}`. Other uses of `$` are syntax of programs: `${oc.env:X}`, `^a$`."""

INTERPRETERS = (
    r"[gm]?awk|sed|perl|find|xargs|parallel|[jy]q|e?grep|envsubst|expr|test|\[|ssh|su|watch|script"
    r"|ray|deepspeed|pdsh|make|node|julia|Rscript|pwsh|(?s:.*)(\.sh|entrypoint(?s:.*))"
)
"""Programs that interpret such words themselves, or may pass them to a shell."""


def _plain_words(container: Container) -> tuple[str, ...]:
    """Return the first words of a command line, which no shell and no such program interprets."""
    words = container.lines.words
    if not words or re.search(r"\s", words[0]):
        return ()
    for name in (program(words[0]), program(container.line.program)):
        if re.fullmatch(INTERPRETERS, name):
            return ()
    for at, word in enumerate(words):
        if is_shell(word) or word in ("-c", "-e"):
            return words[:at]
    return words


@of_containers
def no_shell(container: Container) -> Iterator[Located]:
    """Report words that only a shell interprets, in a command line that no shell runs.

    Without `command`, the image's entrypoint runs the words, which may be a script. So only
    operators are reported, and variables of `env`.

    wrong:
        framework: pytorch
        command: [torchrun, train.py, ">", /logs/out.txt]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [cd, /app, "&&", python, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [NCCL_DEBUG=INFO, python, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [python, train.py, --data=$DATA, --out, ~/out]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [python, train.py, --data=$(DATA), "p=${oc.env:X}", --sep, "|", --text, a & b]
        env: {DATA: /data}
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [./entrypoint.sh, python, train.py, "&&", date]
        roles: {worker: {}}
    """
    words, paths, first = _plain_words(container), container.lines.paths, ""
    has_command = bool(container.data.get("command"))
    for number, word in enumerate(words):
        before, first = first and words[number - 1], words[0]
        is_value = before.startswith("-") and "=" not in before
        found = re.search(VARIABLE_IN_WORD, word)
        name = (found[1] or found[2]) if found else ""
        assigned = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        sure = re.fullmatch(SURE_OPERATOR, word)
        is_start = not number and has_command
        if is_start and (assigned or re.fullmatch(SHELL_WORDS, word) or word.startswith("~/")):
            message = f'the container would look for a program named "{_shown(word)}"'
            hint = _in_shell(container)
            if assigned:
                rest = flow([*container.lines.words[1:]])
                hint = f"write env: {flow({assigned[1]: assigned[2]})} and command: {rest}"
            yield container.error(paths[0], message, hint, "bad-value")
            return
        if number and (sure or (re.fullmatch(OPERATOR_WORD, word) and not is_value)):
            message = f'no shell runs the command, so "{word}" is an argument of {_shown(first)}'
            yield container.warning(paths[number], message, _in_shell(container), "launch")
            return
        if name in container.env or (name and has_command):
            message = f"no shell runs the command, so {found and found[0]} is not replaced"
            known = re.sub(VARIABLE_IN_WORD, lambda match: f"$({match[1] or match[2]})", word)
            hint = f"write {known}" if name in container.env else _in_shell(container)
            yield container.warning(paths[number], message, hint, "launch")
        elif number and has_command and re.match("~/", word):
            message = "no shell runs the command, so ~ is not replaced"
            yield container.warning(paths[number], message, "write the complete path", "launch")


def _in_shell(container: Container) -> str:
    """Return the hint to run the command line of a container with a shell."""
    words = container.lines.words
    is_syntax = rf"^({OPERATOR_WORD}|~/\S*)$|{VARIABLE_IN_WORD}"
    line = " ".join(word if re.search(is_syntax, word) else shlex.quote(word) for word in words)
    several = re.search(r"[|&;<>]", line) or re.fullmatch(SHELL_WORDS, words[0])
    return f"write command: {flow_words(line if several else f'exec {line}', command=True)}"


@of_containers
def joined_words(container: Container) -> Iterator[Located]:
    """Report an option with its value, or a file with its arguments, in one word.

    wrong:
        framework: pytorch
        command: [python, train.py, "--lr 1e-5"]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, "train.py --lr 1e-5"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [python, train.py, --lr, "1e-5", --train-args, "--bs 2", "--prompt=a dog"]
        roles: {worker: {}}
    """
    words, line = _plain_words(container), container.line
    for before, word, path in zip(("", *words), words, line.paths, strict=False):
        if before.startswith("-") and "=" not in before:
            continue
        hint = f"write separate words: {flow_words(word, command=False)[1:-1]}"
        if re.fullmatch(r"--[a-zA-Z][\w-]*[ \t][^\n]+", word):
            message = f'"{_shown(word)}" is one argument, not an option and its value'
            yield container.warning(path, message, hint, "launch")
        elif before and re.fullmatch(r"\S+\.(py|sh)[ \t]+-[^\n]+", word):
            message = f'{_shown(words[0])} would look for a file named "{_shown(word)}"'
            starts = is_python(line.program) or line.program in LAUNCHERS
            yield container.error(path, message, hint, "launch").as_warning(unless=starts)


@of_containers
def repeated_command(container: Container) -> Iterator[Located]:
    """Report args that repeat the command, although Kubernetes appends them to it.

    wrong:
        framework: pytorch
        command: [python, train.py]
        args: [python, train.py, --lr, "1e-5"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [python, train.py]
        args: [--lr, "1e-5"]
        roles: {worker: {}}
    """
    command, args = container.data.get("command") or [], container.data.get("args") or []
    name = str(command[0]) if command else ""
    is_program = is_shell(name) or is_python(name) or len(command) > 1
    if is_program and args[: len(command)] == command:
        message = f'args repeats the command, "{_shown(" ".join(map(str, command)))}"'
        rest = [str(word) for word in args[len(command) :]]
        hint = f"write args: {flow(rest)}" if rest else "remove args"
        # A program may ignore the words, a shell fails.
        found = container.error(("args", 0), message, hint, "launch")
        yield found.as_warning(unless=is_shell(name))


def _shown(text: str) -> str:
    """Return a text for a message, in one line of at most MAX_SHOWN characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


MAX_SHOWN = 60


REFERENCE = r"\$(?:\$|\(([^)]*)\))"
"""A reference, or an escaped dollar sign.

kubernetes/kubernetes, third_party/forked/golang/expansion/expand.go.
"""

VARIABLE = r"[A-Z_][A-Z0-9_]+"
"""Names of variables. Other references, such as `$(hostname)`, are shell commands."""

COMMAND = r"[a-z][\w.-]*( .*)?"

SERVICE = r"(?<=\w)_(SERVICE_(HOST|PORT)|PORT(_\d+_(TCP|UDP)|$))"
"""Variables that Kubernetes sets for the namespace's Services and the API server."""

OF_IMAGE = "variables of the image are not available"


@of_containers
def unreplaced_reference(container: Container) -> Iterator[Located]:
    """Report references that Kubernetes does not replace, because env does not define them before.

    A word with spaces may be code of another language, as in `python -c`.
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/

    wrong:
        framework: pytorch
        command: [python, train.py, --world=$(WORLD)]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {PATH: "/opt/bin:$(PATH)"}
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [python, train.py]
        template:
          spec:
            containers: [{name: main, env: [{name: A, value: $(B)}, {name: B, value: b}]}]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, --nproc_per_node=$(nproc), train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [python, train.py, --world=$(WORLD_SIZE), $$(WORLD), --db=$(DB_SERVICE_HOST)]
        env: {B: b, A: $(B), C: $(hostname)}
        roles: {worker: {}}
    """
    names, words = [*container.env], container.lines.words
    first = {name: number for number, name in enumerate(names)}
    texts: list[tuple[ValuePath, str]] = [
        (("env", number, "value"), text) for number, text in enumerate(container.env.values())
    ]
    texts += zip(container.lines.paths, words, strict=True)
    may_be_set = bool(container.data.get("envFrom"))
    runs = container.data.get("command") and not any(map(is_shell, words)) and not may_be_set
    for number, (path, text) in enumerate(texts):
        for name in _references(text):
            at = first.get(name, number)
            if at < number:
                continue
            is_variable = re.fullmatch(VARIABLE, name) and not re.search(SERVICE, name)
            is_command = path[0] != "env" and re.fullmatch(COMMAND, name) and " " not in text
            if at > number:
                reason, hint = f"env defines {name} only later", f"define {name} first"
            elif is_variable and not may_be_set and name in names:
                reason = f"no earlier item of env defines {name}"
                hint = f"write the complete value; {OF_IMAGE}"
            elif is_variable and not may_be_set:
                reason = f"env does not define {name}"
                hint = did_you_mean(name, names) or f"define {name} in env; {OF_IMAGE}"
            elif runs and is_command:
                reason, hint = "no shell runs the command", "write command: [sh, -c, …]"
            else:
                continue
            message = f"Kubernetes does not replace $({name}): {reason}"
            yield container.warning(path, message, hint, "no-effect")


def _references(text: str) -> Iterator[str]:
    """Yield the name in each reference of a text."""
    if "$(" in text:
        end = text.rfind(")") + 1  # after it, each `$(` would be scanned to the end
        matches = re.finditer(REFERENCE, text[:end])
        yield from (match[1] for match in matches if match[1] is not None)
