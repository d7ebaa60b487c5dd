"""References `$(NAME)` in a container → warnings for those that Kubernetes does not replace.

Kubernetes replaces a reference by a variable that `env` or `envFrom` of the same container defines,
in `env` only by one that is defined before it, and leaves any other text as it is:
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from mlgen.problems import Problem, ValuePath, did_you_mean
from mlgen.shell import is_shell

REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
"""A reference, or an escaped dollar sign.

kubernetes/kubernetes, third_party/forked/golang/expansion/expand.go.
"""

VARIABLE = r"[A-Z_][A-Z0-9_]+"
"""Names of variables. `$(hostname)` and the like are commands of a shell."""

COMMAND = r"[a-z][\w.-]*"

SERVICE = r"\w+_SERVICE_(HOST|PORT)\w*|\w+_PORT(_\d+_(TCP|UDP)\w*)?"
"""Variables of the Services in the namespace, and of the API server."""


def problems(fields: ValuePath, container: dict[str, Any]) -> Iterator[Problem]:
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
