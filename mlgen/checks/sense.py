"""Objects of a job → problems with values that are valid, but probably not intended.

Examples: 64 bytes of memory, a command in one word, a reference to an undefined variable.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from mlgen import flow
from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import Objects, Pods, role_path
from mlgen.kubernetes.quantity import parse
from mlgen.problems import Problem, ValuePath, did_you_mean, from_row
from mlgen.resources import table
from mlgen.shell import OPTION, is_python, is_shell, program, text_index

MIN_BYTES = 1 << 20
"""Container runtimes need a few MiB of memory to start a container."""

NODE_DNS = ("ClusterFirst", "Default")
"""DNS policies with which pods on the host network use the DNS servers of their node:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy."""

Doubts = Iterator[tuple[ValuePath | None, Problem]]
"""Problems of a container, each with the path of the value in the container, or None. A path that
starts with `spec` is a path in the object. The problem's own path is relative to the role."""


def doubtful_values(job: Objects, job_file: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Yield a problem for each value that is probably not intended.

    Args:
        job: the objects of the job.
        job_file: the data of the job file, for the paths; None if there is none.
    """
    together = len(job.pods) > 1 or any(pods.count != 1 for pods in job.pods)
    for pods in job.distinct_pods:
        if together:
            yield from _dns_policy(pods)
        volumes = {item["name"]: (at, item.get("emptyDir") or {}) for at, item in pods.volumes()}
        for number, (path, container) in enumerate(pods.containers()):
            is_main = number == len(pods.template["spec"].get("initContainers") or [])
            doubts = chain(
                _amounts(container),
                _memory_volumes(container, volumes),
                _commands(container),
                _unshelled(container),
                _repeated(container),
                _unreplaced_in_env(container),
                _unreplaced_in_command(container),
            )
            for at, problem in doubts:
                steps = at if at is None or at[0] == "spec" else (*path, *at)
                written = steps and path_in_job_file(job_file or {}, pods.item, steps)
                default = (*role_path(pods.item), *(problem.path if is_main else ("template",)))
                prefix = "" if is_main else f"container {container['name']}: "
                message = f"{prefix}{problem.message}"
                yield replace(problem, path=written or default, message=message)


def _dns_policy(pods: Pods) -> Iterator[Problem]:
    """Report a DNS policy with which pods cannot resolve each other."""
    spec = pods.template["spec"]
    policy = spec.get("dnsPolicy")
    on_host = spec.get("hostNetwork")
    if policy == "Default" or (on_host and policy in NODE_DNS):
        path = (*role_path(pods.item), "template", "spec", "dnsPolicy")
        with_host = "hostNetwork and " if on_host else ""
        message = f"with {with_host}dnsPolicy {policy}, names of other pods do not resolve"
        hint = "remove dnsPolicy"
        if on_host:
            hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
        yield Problem(path, message, "combination", hint, warning=True)


def _amounts(container: dict[str, Any]) -> Doubts:
    """Report memory or storage of a few bytes. With such a limit, no container starts."""
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            values = few_bytes((resources.get(kind) or {}).get(name))
            if values:
                path = ("resources", kind, name)
                few = from_row(FEW_BYTES, path, "bad-value", name=name, **values)
                cpu = str((resources.get(kind) or {}).get("cpu"))
                if name == "memory" and cpu.endswith("i"):
                    few = replace(
                        few, hint=f"swap the amounts: write cpu: {values['text']}, memory: {cpu}"
                    )
                yield path, replace(few, warning=kind == "requests")
                break


FEW_BYTES = {
    "message": "{text} is {amount} of {name}{because}",
    "hint": "write {meant}Gi or {meant}Mi",
}


def few_bytes(text: Any) -> dict[str, str]:
    """Return the values of the message about an amount of a few bytes; {} for other amounts."""
    amount = bytes_of(text)
    if amount is None or not 0 < amount < MIN_BYTES:
        return {}
    return {
        "text": str(text),
        "amount": f"{amount:g} byte{'s' if amount > 1 else ''}",
        "because": ", because m means thousandths" if str(text).endswith("m") else "",
        "meant": str(text).rstrip("munkKi"),
    }


def bytes_of(text: Any) -> float | None:
    """Return a quantity as a number; None if it is missing or invalid."""
    try:
        return None if text is None else float(parse(text))
    except ValueError:
        return None


def _memory_volumes(
    container: dict[str, Any], volumes: Mapping[str, tuple[ValuePath, Mapping[str, Any]]]
) -> Doubts:
    """Report volumes in memory that may hold more than the container's memory limit.

    Their content counts against that limit:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir

    Args:
        container: a container of a pod.
        volumes: the path and the `emptyDir` of each volume of the pod, by name.
    """
    memory = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    limit = bytes_of(memory)
    if limit is None or limit < MIN_BYTES:
        return
    for mount in container.get("volumeMounts") or []:
        at, volume = volumes.get(mount["name"], ((), {}))
        text = volume.get("sizeLimit")
        size = bytes_of(text) if volume.get("medium") == "Memory" else None
        if size is None or size <= limit:
            continue
        path = ("volumes", mount["name"], "emptyDir", "sizeLimit")
        message = f"{text} in memory exceeds the memory limit of the container, {memory}"
        hint = f"write less than {memory}, or raise the limit"
        problem = Problem(path, message, "combination", hint, warning=True)
        if mount["name"] == "mlgen-shm":
            yield None, replace(problem, path=("shmSize",))
        else:
            yield (*at, *path[2:]), problem


WRAPPERS = frozenset(("env", "tini", "dumb-init", "exec", "nohup"))
"""Programs that run the command after their options unchanged."""

PARAMETERS = (
    r"\$[0-9@*#]|\$\{[#!]?[0-9@*#]|\b(shift|getopts)\b|\bset\s+--|\bfor\s+\w+[\s;]*\bdo\b"
    r"|(^|[;&|\n(])[^\S\n]*(source|\.)\s"
)
"""Parts of a shell script that use its parameters, or may use them in a sourced file."""

PLACEHOLDERS = ("--", "-", "_")
"""Words after the script of `sh -c` that only set $0."""


def _commands(container: dict[str, Any]) -> Doubts:
    """Report a program with spaces in its name, shells without a script, and words they ignore.

    The words after the script of `sh -c` are its parameters $0, $1 and so on:
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html
    """
    words = command_words(container)
    texts = [text for _, text in words]
    # Without a command, the entrypoint of the image reads the words.
    unknown = not container.get("command")
    if container.get("command") and re.search(r"\s", texts[0]):
        # The name of a file may have spaces.
        path, word = words[0]
        is_file = word.startswith(("/", ".")) and not re.search(r"\s-|python|\.\w+(\s|$)", word)
        if not is_file:
            message = f'the container would look for a program named "{_shown(word)}"'
            line = flow.words(word, command=True)
            hint = f"write {line}" if word.strip() else "write the name of a program"
            yield path, Problem(path, message, "bad-value", hint)
    start = _start(texts)
    rest = texts[start + 1 :]
    if start < len(texts) and is_shell(texts[start]) and not container.get("stdin"):
        path, word = words[-1]
        joined = next((each for each in rest if re.match(r"-\w*c\s", each)), "")
        if joined:
            path = words[texts.index(joined)][0]
            message = f'"{_shown(joined)}" is one word, which {program(texts[start])} rejects'
            option, script = joined.split(maxsplit=1)
            hint = f"write two words: {option}, {flow.flow(script)}"
            yield path, Problem(path, message, "bad-value", hint, warning=unknown)
        elif not rest or (re.fullmatch(r"-\w*c", rest[-1]) and container.get("command")):
            message = f"{program(texts[start])} has no script to run"
            hint = "write the script as the next word"
            yield path, Problem(path, message, "bad-value", hint, warning=unknown)
    index = text_index(texts, start)
    reads_file = index is None and start < len(texts) and is_shell(texts[start])
    script = next((each for each in rest if reads_file and not re.fullmatch(OPTION, each)), "")
    if re.match(r"[^-]\S*\s", script):
        path, _ = words[texts.index(script)]
        message = f'{program(texts[start])} would look for a file named "{_shown(script)}"'
        yield path, Problem(path, message, "launch", "write -c before it", warning=unknown)
    if index is None or index + 1 >= len(texts) or re.search(PARAMETERS, texts[index]):
        return
    name = texts[index + 1]
    # A lone word after a command line may be $0, the name in messages of the shell.
    is_name = index + 2 == len(texts) and " " in texts[index] and re.fullmatch(r"\w[\w-]*", name)
    is_zero = name in PLACEHOLDERS or is_shell(name) or is_name
    rest_index = index + 2 if is_zero else index + 1
    if rest_index < len(texts):
        path, word = words[rest_index]
        message = f'the shell runs only "{_shown(texts[index])}", and ignores "{_shown(word)}"'
        hint = f'write one string, "{_shown(" ".join([texts[index], *texts[rest_index:]]))}"'
        yield path, Problem(path, message, "no-effect", hint, warning=True)


def _start(texts: Sequence[str]) -> int:
    """Return the index of the program that wrappers run."""
    wraps = (program(word) in WRAPPERS or word.startswith("-") for word in texts)
    return next((number for number, wrap in enumerate(wraps) if not wrap), len(texts))


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


def _unshelled(container: dict[str, Any]) -> Doubts:
    """Report words of a command without a shell that only a shell interprets.

    Without `command`, the image's entrypoint runs the words, which may be a script. So only
    operators are reported, and variables of `env`.
    """
    words = command_words(container)
    texts = [text for _, text in words]
    ends = (at for at, word in enumerate(texts) if is_shell(word) or word in ("-c", "-e"))
    end, start = next(ends, None), _start(texts)
    names = [program(word) for word in (*texts[:1], *texts[start : start + 1])]
    interprets = any(re.fullmatch(INTERPRETERS, name) for name in names)
    if interprets or not texts or re.search(r"\s", texts[0]):
        return
    has_command = bool(container.get("command"))
    first = texts[0]
    line = " ".join(word if _is_syntax(word) else shlex.quote(word) for word in texts)
    several = re.search(r"[|&;<>]", line) or re.fullmatch(SHELL_WORDS, first)
    prefix = "" if several else "exec "
    shell = f"write command: {flow.words(prefix + line, command=True)}"
    assigned = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", first, re.DOTALL)
    if (
        has_command
        and end != 0
        and (assigned or re.fullmatch(SHELL_WORDS, first) or first.startswith("~/"))
    ):
        message = f'the container would look for a program named "{_shown(first)}"'
        rest = f" and command: {flow.flow(texts[1:])}"
        hint = f"write env: {flow.flow({assigned[1]: assigned[2]})}{rest}" if assigned else shell
        yield words[0][0], Problem(words[0][0], message, "bad-value", hint)
        return
    env = {item["name"] for item in container.get("env") or []}
    for number, (path, word) in enumerate(words[:end]):
        before = texts[number - 1] if number else ""
        is_value = before.startswith("-") and "=" not in before
        found = re.search(VARIABLE_IN_WORD, word)
        name = (found[1] or found[2]) if found else ""
        sure = re.fullmatch(SURE_OPERATOR, word)
        if number and (sure or (re.fullmatch(OPERATOR_WORD, word) and not is_value)):
            message = f'no shell runs the command, so "{word}" is an argument of {_shown(first)}'
            yield path, Problem(path, message, "launch", shell, warning=True)
            return
        if name in env or (name and has_command):
            message = f"no shell runs the command, so {found and found[0]} is not replaced"
            known = re.sub(VARIABLE_IN_WORD, lambda match: f"$({match[1] or match[2]})", word)
            hint = f"write {known}" if name in env else shell
            yield path, Problem(path, message, "launch", hint, warning=True)
        elif number and has_command and re.match("~/", word):
            message = "no shell runs the command, so ~ is not replaced"
            yield path, Problem(path, message, "launch", "write the complete path", warning=True)
        elif not is_value and re.fullmatch(r"--[a-zA-Z][\w-]*[ \t][^\n]+", word):
            message = f'"{_shown(word)}" is one argument, not an option and its value'
            hint = f"write separate words: {flow.words(word, command=False)[1:-1]}"
            yield path, Problem(path, message, "launch", hint, warning=True)
        elif not is_value and number and re.fullmatch(r"\S+\.(py|sh)[ \t]+-[^\n]+", word):
            message = f'{_shown(first)} would look for a file named "{_shown(word)}"'
            hint = f"write separate words: {flow.words(word, command=False)[1:-1]}"
            starts = is_python(names[-1]) or names[-1] in table("launch/launchers")["launchers"]
            yield path, Problem(path, message, "launch", hint, warning=not starts)


def _is_syntax(word: str) -> bool:
    """Return True for a word that a shell must interpret, and that needs no quotes."""
    return bool(re.search(rf"^({OPERATOR_WORD}|~/\S*)$|{VARIABLE_IN_WORD}", word))


def _repeated(container: dict[str, Any]) -> Doubts:
    """Report args that repeat the command, although Kubernetes appends them to it."""
    command, args = container.get("command") or [], container.get("args") or []
    name = str(command[0]) if command else ""
    is_program = is_shell(name) or is_python(name) or len(command) > 1
    if is_program and args[: len(command)] == command:
        message = f'args repeats the command, "{_shown(" ".join(map(str, command)))}"'
        rest = [str(word) for word in args[len(command) :]]
        hint = f"write args: {flow.flow(rest)}" if rest else "remove args"
        # A program may ignore the words, a shell fails.
        warning = not is_shell(name)
        yield ("args", 0), Problem(("args", 0), message, "launch", hint, warning=warning)


def command_words(container: Mapping[str, Any]) -> list[tuple[ValuePath, str]]:
    """Return the words of the command line, with their paths in the container."""
    return [
        ((field, number), str(word))
        for field in ("command", "args")
        for number, word in enumerate(container.get(field) or [])
    ]


def _shown(text: str) -> str:
    """Return a text for a message, in one line of at most MAX_SHOWN characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


MAX_SHOWN = 60


REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""A reference, or an escaped dollar sign.

kubernetes/kubernetes, third_party/forked/golang/expansion/expand.go.
"""

VARIABLE = r"[A-Z_][A-Z0-9_]+"
"""Names of variables. Other references, such as `$(hostname)`, are shell commands."""

COMMAND = r"[a-z][\w.-]*( .*)?"

SERVICE = r"(?<=\w)_(SERVICE_(HOST|PORT)|PORT(_\d+_(TCP|UDP)|$))"
"""Variables that Kubernetes sets for the namespace's Services and the API server."""


def _unreplaced_in_env(container: dict[str, Any]) -> Doubts:
    """Yield a warning for each reference in a variable that Kubernetes does not replace."""
    env = container.get("env") or []
    last = {variable["name"]: number for number, variable in enumerate(env)}
    before: set[str] = set()
    for number, variable in enumerate(env):
        path, at = ("env", variable["name"]), ("env", number, "value")
        for name in _references(str(variable.get("value") or "")):
            if name in before:
                continue
            if last.get(name, -1) > number:
                reason = f"env defines {name} only later"
                yield at, _warning(path, name, reason, f"define {name} first")
            elif not container.get("envFrom") and _is_variable(name):
                yield at, _undefined(path, name, last)
        before.add(variable["name"])


def _unreplaced_in_command(container: dict[str, Any]) -> Doubts:
    """Yield a warning for each reference in a command line that Kubernetes does not replace.

    A word with spaces may be code of another language, as in `python -c`.
    """
    names = {variable["name"]: None for variable in container.get("env") or []}
    words = [] if container.get("envFrom") else command_words(container)
    without_shell = container.get("command") and not any(is_shell(word) for _, word in words)
    for path, word in words:
        for name in (name for name in _references(word) if name not in names):
            if _is_variable(name):
                yield path, _undefined(path, name, names)
            elif without_shell and re.fullmatch(COMMAND, name) and not re.search(r"\s", word):
                hint = "write command: [sh, -c, …]"
                yield path, _warning(path, name, "no shell runs the command", hint)


def _is_variable(name: str) -> bool:
    """Return whether a name is a variable that Kubernetes does not set automatically."""
    return bool(re.fullmatch(VARIABLE, name)) and not re.search(SERVICE, name)


def _references(text: str) -> Iterator[str]:
    """Yield the name in each reference of a text."""
    end = text.rfind(")") + 1  # after it, each `$(` would be scanned to the end
    return (match[1] for match in REFERENCE.finditer(text, 0, end) if match[1] is not None)


def _undefined(path: ValuePath, name: str, names: Iterable[str]) -> Problem:
    if path == ("env", name):
        hint = "write the complete value; variables of the image are not available"
        return _warning(path, name, f"no earlier item of env defines {name}", hint)
    hint = (
        did_you_mean(name, names)
        or f"define {name} in env; variables of the image are not available"
    )
    return _warning(path, name, f"env does not define {name}", hint)


def _warning(path: ValuePath, name: str, reason: str, hint: str) -> Problem:
    message = f"Kubernetes does not replace $({name}): {reason}"
    return Problem(path, message, "no-effect", hint, warning=True)
