"""Detect sidecars, which run until they are stopped: proxies, log shippers.

A pod of a Job completes when all of its containers have ended. Only native sidecars (init
containers with `restartPolicy: Always`) are stopped by Kubernetes when the others have ended:
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/

`schemas/launch/sidecars.json` lists programs that serve or ship data until they are stopped.
The names match commands, containers and images.
"""

import re
from collections.abc import Mapping
from typing import Any

from mlgen.launch.line import container_lines
from mlgen.resources import table
from mlgen.shell import program

ONE_SHOT = re.compile(r"--?(once|one-time|oneshot|version|help)\b")
"""Options that make a known program exit by itself."""

ENDLESS = re.compile(r"\bsleep\s+(infinity|inf\b|\d{3,}d)|\bwhile\s+(true|:|\[\s*1\s*\])\s*(;|\n)")
"""Parts of a command that run forever, unless another part (ENDS) stops them. See also FOLLOWS."""

COMMAND, TAIL = re.compile(r"[^;|&\n]+"), re.compile(r"\btail(?=\s)")
FOLLOWS = re.compile(r"\s(-[a-zA-Z]*[fF]|--follow)\b")
"""An option with which `tail` runs forever."""

ENDS = re.compile(r"\b(break|exit|return|kill|pkill|timeout|trap)\b|--pid\b")

BACKGROUND = re.compile(r"&\s*(\n|$|\w)")
"""The end of a command that runs in the background."""

ROLES = re.compile(
    r"(^|[-_])(agent|collector|daemon|dashboard|exporter|forwarder|log|logger|logging|logs|metrics"
    r"|monitor|monitoring|proxy|server|shipper|sidecar|watcher|ui)([-_]|$)"
)
"""Words in the name of a container that probably runs until it is stopped."""


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether a container clearly runs forever, judged by its program or command."""
    text = container_lines(container).text
    endless = ENDLESS.search(text) or _follows(text)
    if endless:
        return not (ENDS.search(text) or BACKGROUND.search(text, endless.end()))
    return _is_known(container) and not ONE_SHOT.search(text)


def _follows(text: str) -> re.Match[str] | None:
    """Return the option of the first `tail` that runs forever."""
    for command in COMMAND.finditer(text) if "tail" in text else ():
        tail = TAIL.search(text, command.start(), command.end())
        if tail and (found := FOLLOWS.search(text, tail.end(), command.end())):
            return found
    return None


def may_be_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether a container may run forever, judged by its name, ports and probes."""
    if ONE_SHOT.search(container_lines(container).text):
        return False
    serves = any(container.get(name) for name in ("ports", "livenessProbe", "readinessProbe"))
    return serves or any(ROLES.search(name) for name in _names(container))


def _is_known(container: Mapping[str, Any]) -> bool:
    command = container.get("command") or []
    # A command, such as a shell, may use the image for another purpose.
    names = [program(str(command[0]))] if command else _names(container)
    return any(name in table("launch/sidecars") for name in names)


def _names(container: Mapping[str, Any]) -> list[str]:
    """Return the name of a container, and of its image without registry, tag and digest."""
    image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2]
    return [str(container.get("name") or ""), image.partition(":")[0]]
