"""Objects of a job → problems with values that are valid, but probably not intended.

Examples: 64 bytes of memory, a command in one word, a reference to an undefined variable.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from mlgen import flow
from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import Objects, Pods, role_path
from mlgen.kubernetes.quantity import parse
from mlgen.problems import Problem, ValuePath, did_you_mean
from mlgen.shell import is_shell, program, text_index

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
    """Report a DNS policy with which pods on the host network cannot resolve each other."""
    spec = pods.template["spec"]
    policy = spec.get("dnsPolicy")
    if spec.get("hostNetwork") and policy in NODE_DNS:
        path = (*role_path(pods.item), "template", "spec", "dnsPolicy")
        message = f"with hostNetwork and dnsPolicy {policy}, names of other pods do not resolve"
        hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
        yield Problem(path, message, "combination", hint, warning=True)


def _amounts(container: dict[str, Any]) -> Doubts:
    """Report memory or storage of a few bytes. With such a limit, no container starts."""
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            text = (resources.get(kind) or {}).get(name)
            amount = _bytes(text)
            if amount is None or not 0 < amount < MIN_BYTES:
                continue
            path = ("resources", kind, name)
            message = f"{text} is {amount:g} byte{'s' if amount > 1 else ''} of {name}"
            if str(text).endswith("m"):
                message += ", because m means thousandths"
            meant = str(text).rstrip("munkKi")
            hint = f"write {meant}Gi or {meant}Mi"
            yield path, Problem(path, message, "bad-value", hint, warning=kind == "requests")
            break


def _bytes(text: Any) -> float | None:
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
    limit = _bytes(memory)
    if limit is None or limit < MIN_BYTES:
        return
    for mount in container.get("volumeMounts") or []:
        at, volume = volumes.get(mount["name"], ((), {}))
        text = volume.get("sizeLimit")
        size = _bytes(text) if volume.get("medium") == "Memory" else None
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
    r"\$[0-9@*#]|\$\{[#!]?[0-9@*#]|\b(shift|getopts)\b|\bset\s+--|\bfor\s+\w+\s*(;|\n)?\s*do\b"
    r"|(^|[;&|\n(])\s*(source|\.)\s"
)
"""Parts of a shell script that use its parameters, or may use them in a sourced file."""

PLACEHOLDERS = ("--", "-", "_")
"""Words after the script of `sh -c` that only set $0."""


def _commands(container: dict[str, Any]) -> Doubts:
    """Report a program with spaces in its name, and words that a shell ignores.

    The words after the script of `sh -c` are its parameters $0, $1 and so on:
    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html
    """
    words = _words(container)
    texts = [text for _, text in words]
    if container.get("command") and re.search(r"\s", texts[0]):
        # The name of a file may have spaces.
        path, word = words[0]
        message = f'the container would look for a program named "{_shown(word)}"'
        line = flow.words(word, command=True)
        hint = f"write {line}" if word.strip() else "write the name of a program"
        is_file = word.startswith(("/", "."))
        yield path, Problem(path, message, "bad-value", hint, warning=is_file)
    wraps = (program(word) in WRAPPERS or word.startswith("-") for word in texts)
    start = next((number for number, wrap in enumerate(wraps) if not wrap), len(texts))
    index = text_index(texts, start)
    if index is None or index + 1 >= len(texts) or re.search(PARAMETERS, texts[index]):
        return
    name = texts[index + 1]
    rest = index + 2 if name in PLACEHOLDERS or is_shell(name) else index + 1
    if rest < len(texts):
        path, word = words[rest]
        message = f'the shell runs only "{_shown(texts[index])}", and ignores "{_shown(word)}"'
        hint = f'write one string, "{_shown(" ".join([texts[index], *texts[rest:]]))}"'
        yield path, Problem(path, message, "no-effect", hint, warning=True)


def _words(container: dict[str, Any]) -> list[tuple[ValuePath, str]]:
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

COMMAND = r"[a-z][\w.-]*"

SERVICE = r"\w+_SERVICE_(HOST|PORT)\w*|\w+_PORT(_\d+_(TCP|UDP)\w*)?"
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
    """Yield a warning for each reference in a command line that Kubernetes does not replace."""
    names = {variable["name"]: None for variable in container.get("env") or []}
    words = [] if container.get("envFrom") else _words(container)
    without_shell = container.get("command") and not any(is_shell(word) for _, word in words)
    for path, word in words:
        for name in (name for name in _references(word) if name not in names):
            if _is_variable(name):
                yield path, _undefined(path, name, names)
            elif without_shell and re.fullmatch(COMMAND, name):
                hint = "write command: [sh, -c, …]"
                yield path, _warning(path, name, "no shell runs the command", hint)


def _is_variable(name: str) -> bool:
    """Return whether a name is a variable that Kubernetes does not set automatically."""
    return bool(re.fullmatch(VARIABLE, name)) and not re.fullmatch(SERVICE, name)


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
