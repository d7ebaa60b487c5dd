"""Objects of a job → problems with values that are valid for Kubernetes, but hardly meant so.

Such as 64 bytes of memory, a command in one word, or a reference to a variable that is not defined.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlgen import flow
from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import POD, Objects, Pods
from mlgen.kubernetes.quantity import parse
from mlgen.problems import Problem, ValuePath, did_you_mean
from mlgen.shell import is_shell, program, text_index

MIN_BYTES = 1 << 20
"""Container runtimes start no container with less memory than a few MiB."""

BYTES = ("memory", "ephemeral-storage")

NODE_DNS = ("ClusterFirst", "Default")
"""DNS policies by which pods on the host network use the DNS servers of their node:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy."""


def doubtful_values(job: Objects, job_file: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Return a problem for each value that is hardly meant as it is written.

    Args:
        job: its objects.
        job_file: its data, in which the values are found.
    """
    together = len(job.pods) > 1 or any(pods.count != 1 for pods in job.pods)
    for pods in job.distinct_pods:
        if together:
            yield from _dns_policy(pods)
        volumes = {volume["name"]: volume.get("emptyDir") or {} for _, volume in pods.volumes()}
        for number, (path, container) in enumerate(pods.containers()):
            is_main = number == len(pods.template["spec"].get("initContainers") or [])
            for problem in _of_container(pods, container, volumes):
                default = problem.path if is_main else (*pods.role_path, "template")
                steps = _in_object(pods, path, container, problem.path[len(pods.role_path) :])
                written = steps and path_in_job_file(job_file or {}, pods.item, steps)
                prefix = "" if is_main else f"container {container['name']}: "
                message = f"{prefix}{problem.message}"
                yield replace(problem, path=written or default, message=message)


def _in_object(
    pods: Pods, path: ValuePath, container: dict[str, Any], field: ValuePath
) -> ValuePath | None:
    """Return the path in the object of a container's field, or of a volume; None for others."""
    steps: ValuePath | None = (*path, *field)
    if field[0] == "volumes":
        names = [volume["name"] for _, volume in pods.volumes()]
        steps = (*POD, "volumes", names.index(field[1]), *field[2:])
    elif field[0] == "env":
        names = [variable["name"] for variable in container["env"]]
        steps = (*path, "env", names.index(field[1]), "value")
    elif field[0] == "shmSize":
        steps = None
    return steps


def _of_container(
    pods: Pods, container: dict[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Return the problems of a container, with their paths in a role of the job file.

    Args:
        pods: have the container.
        container: one of theirs.
        volumes: the `emptyDir` of each of their volumes, by name; {} for other volumes.
    """
    yield from _amounts(pods, container)
    yield from _memory_volumes(pods, container, volumes)
    yield from doubtful_commands(pods.role_path, container)
    yield from unreplaced_references(pods.role_path, container)


def _dns_policy(pods: Pods) -> Iterator[Problem]:
    """Report a DNS policy with which pods on the host network do not find each other."""
    spec = pods.template["spec"]
    policy = spec.get("dnsPolicy")
    if spec.get("hostNetwork") and policy in NODE_DNS:
        path = (*pods.role_path, "template", "spec", "dnsPolicy")
        message = f"with hostNetwork and dnsPolicy {policy}, names of other pods do not resolve"
        hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
        yield Problem(path, message, "combination", hint, warning=True)


def _amounts(pods: Pods, container: dict[str, Any]) -> Iterator[Problem]:
    """Report memory or storage of a few bytes. With such a limit, no container starts."""
    resources = container.get("resources") or {}
    for name in BYTES:
        for kind in ("limits", "requests"):
            text = (resources.get(kind) or {}).get(name)
            amount = _bytes(text)
            if amount is None or not 0 < amount < MIN_BYTES:
                continue
            path = (*pods.role_path, "resources", kind, name)
            message, hint = _too_small(name, str(text), amount)
            yield Problem(path, message, "bad-value", hint, warning=kind == "requests")
            break


def _too_small(name: str, text: str, amount: float) -> tuple[str, str]:
    """Return what is wrong with a tiny amount, and what was probably meant."""
    number = text.rstrip("munkKi")
    message = f"{text} is {amount:g} byte{'s' if amount > 1 else ''} of {name}"
    if text.endswith("m"):
        message += ", as m means thousandths"
    return message, f"write {number}Gi or {number}Mi"


def _bytes(text: Any) -> float | None:
    """Return an amount as a number; None if there is none, or if it is not an amount."""
    try:
        return None if text is None else float(parse(text))
    except ValueError:
        return None


def _memory_volumes(
    pods: Pods, container: dict[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Report volumes in memory that may hold more than the container's memory limit.

    What is written to them counts against that limit:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    limit = _bytes(((container.get("resources") or {}).get("limits") or {}).get("memory"))
    if limit is None or limit < MIN_BYTES:
        return
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        size = _bytes(volume.get("sizeLimit")) if volume.get("medium") == "Memory" else None
        if size is None or size <= limit:
            continue
        text, memory = volume["sizeLimit"], container["resources"]["limits"]["memory"]
        is_shm = mount["name"] == "mlgen-shm"
        path = ("shmSize",) if is_shm else ("volumes", mount["name"], "emptyDir", "sizeLimit")
        message = f"{text} in memory exceeds the memory limit, {memory}, against which it counts"
        hint = f"write less than {memory}, or raise the limit"
        yield Problem((*pods.role_path, *path), message, "combination", hint, warning=True)


WRAPPERS = frozenset(("env", "tini", "dumb-init", "exec", "nohup"))
"""Programs that run the words after their options as they are."""

PARAMETERS = (
    r"\$[0-9@*#]|\$\{[#!]?[0-9@*#]|\b(shift|getopts)\b|\bset\s+--|\bfor\s+\w+\s*(;|\n)?\s*do\b"
    r"|(^|[;&|\n(])\s*(source|\.)\s"
)
"""Parts of a shell's text that use the words after it, or that may do so in another file."""

PLACEHOLDERS = ("--", "-", "_")
"""Words after a shell's text that only fill its $0."""


def doubtful_commands(fields: ValuePath, container: dict[str, Any]) -> Iterator[Problem]:
    """Return problems with the command line of a container.

    Args:
        fields: the path in the job file below which the container's fields are.
        container: of a pod.
    """
    command = [str(word) for word in container.get("command") or []]
    args = [str(word) for word in container.get("args") or []]
    if command and re.search(r"\s", command[0]):
        yield _one_word((*fields, "command", 0), command[0])
    ignored = _ignored_words([*command, *args])
    if ignored:
        text, number = ignored
        words = [*command, *args]
        last = number - len(command)
        path = (*fields, "command", number) if last < 0 else (*fields, "args", last)
        message = f'the shell ignores "{_shown(words[number])}": its command is "{_shown(text)}"'
        meant = _shown(" ".join([text, *words[number:]]))
        yield Problem(path, message, "no-effect", f'write one string, "{meant}"', warning=True)


def _one_word(path: ValuePath, word: str) -> Problem:
    """Return the problem of a program with spaces in its name; the name of a file may have some."""
    message = f'the container would look for a program of the name "{_shown(word)}"'
    line = flow.words(word, command=True)
    hint = f"write {line}" if word.strip() else "write the name of a program"
    return Problem(path, message, "bad-value", hint, warning=word.startswith(("/", ".")))


def _ignored_words(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the text that a shell runs, and the index of the first word that it ignores.

    The words after the text of `sh -c` are its parameters $0, $1 and so on:
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html
    """
    index = text_index(words, _start(words))
    if index is None or index + 1 >= len(words) or re.search(PARAMETERS, words[index]):
        return None
    name = words[index + 1]
    rest = index + 2 if name in PLACEHOLDERS or is_shell(name) else index + 1
    return (words[index], rest) if rest < len(words) else None


def _start(words: Sequence[str]) -> int:
    """Return the index of the first word that is no wrapper, and no option of one."""
    wraps = (program(word) in WRAPPERS or word.startswith("-") for word in words)
    return next((index for index, wrap in enumerate(wraps) if not wrap), len(words))


def _shown(text: str) -> str:
    """Return a text as a message shows it: in one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


MAX_SHOWN = 60


REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""A reference, or an escaped dollar sign.

kubernetes/kubernetes, third_party/forked/golang/expansion/expand.go.
"""

VARIABLE = r"[A-Z_][A-Z0-9_]+"
"""Names of variables. `$(hostname)` and the like are commands of a shell."""

COMMAND = r"[a-z][\w.-]*"

SERVICE = r"\w+_SERVICE_(HOST|PORT)\w*|\w+_PORT(_\d+_(TCP|UDP)\w*)?"
"""Variables of the Services in the namespace, and of the API server."""


def unreplaced_references(fields: ValuePath, container: dict[str, Any]) -> Iterator[Problem]:
    """Return a warning for each reference in a container that is not replaced.

    Args:
        fields: the path in the job file below which the container's fields are.
        container: of a pod.
    """
    env = container.get("env") or []
    names = [variable["name"] for variable in env]
    last = {name: number for number, name in enumerate(names)}
    unknowable = bool(container.get("envFrom"))
    before: set[str] = set()
    for number, variable in enumerate(env):
        for name in _references(str(variable.get("value") or "")):
            path = (*fields, "env", variable["name"])
            if name in before:
                continue
            if last.get(name, -1) > number:
                yield _warning(path, name, f"env defines {name} after it", f"define {name} first")
            elif not unknowable and _is_variable(name):
                yield _undefined(path, name, (other for other in names if other != name))
        before.add(variable["name"])
    if not unknowable:
        yield from _in_command(fields, container, last)


def _in_command(
    fields: ValuePath, container: dict[str, Any], names: Collection[str]
) -> Iterator[Problem]:
    """Return a warning for each reference in command and args to an undefined variable."""
    command, args = ([*map(str, container.get(name) or [])] for name in ("command", "args"))
    without_shell = bool(command) and not any(is_shell(word) for word in (*command, *args))
    for field, words in (("command", command), ("args", args)):
        for number, word in enumerate(words):
            for name in (name for name in _references(word) if name not in names):
                path = (*fields, field, number)
                if _is_variable(name):
                    yield _undefined(path, name, names)
                elif without_shell and re.fullmatch(COMMAND, name):
                    message, hint = "there is no shell", "write command: [sh, -c, …]"
                    yield _warning(path, name, message, hint)


def _is_variable(name: str) -> bool:
    """Return True if a name is that of a variable which Kubernetes does not define by itself."""
    return bool(re.fullmatch(VARIABLE, name)) and not re.fullmatch(SERVICE, name)


def _references(text: str) -> Iterator[str]:
    """Yield the name in each reference of a text."""
    end = text.rfind(")") + 1  # beyond it, each `$(` would be looked at up to the end
    return (match[1] for match in REFERENCE.finditer(text, 0, end) if match[1] is not None)


def _undefined(path: ValuePath, name: str, names: Iterable[str]) -> Problem:
    if path[-2:] == ("env", name):
        hint = "write its whole value; variables of the image do not count"
        return _warning(path, name, f"env does not define {name} before", hint)
    hint = did_you_mean(name, names) or "define it there; variables of the image do not count"
    return _warning(path, name, f"env does not define {name}", hint)


def _warning(path: ValuePath, name: str, reason: str, hint: str) -> Problem:
    message = f"Kubernetes does not replace $({name}): {reason}"
    return Problem(path, message, "no-effect", hint, warning=True)
