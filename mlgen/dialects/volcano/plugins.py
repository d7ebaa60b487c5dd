"""The plugins of a Volcano job and their arguments, parsed.

`spec.plugins` maps the name of a plugin to its arguments, written as on a command line. Source:
volcano-sh/volcano, pkg/controllers/job/plugins for arguments and defaults, and
pkg/webhooks/admission/jobs/mutate for the plugins that the webhook adds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.kubernetes.quantity import natural
from mlgen.problems import did_you_mean

Argument = bool | int | str

PLUGINS: dict[str, dict[str, Argument]] = {
    "env": {},
    "svc": {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    },
    "ssh": {
        "ssh-key-file-path": "/root/.ssh",
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": 22,
    },
    "tensorflow": {
        "chief": "chief",
        "ps": "ps",
        "worker": "worker",
        "evaluator": "evaluator",
        "port": 2222,
    },
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    },
    "mpi": {"master": "master", "worker": "worker", "port": 22},
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
"""By plugin: its arguments, with their defaults."""

IMPLIED = {"svc": ("tensorflow", "pytorch", "mpi", "ray"), "ssh": ("mpi",)}
"""By plugin: those for which the webhook adds it, with its defaults."""


@dataclass(frozen=True)
class Plugins:
    """The plugins of a job.

    Attributes:
        sources: by plugin, where it is written; for one that the webhook adds, where the plugin
            that implies it is written.
        arguments: by plugin and name, all arguments, written or by default.
    """

    sources: dict[str, SourceValue] = field(default_factory=dict)
    arguments: dict[str, dict[str, SourceValue]] = field(default_factory=dict)

    def __contains__(self, plugin: str) -> bool:
        return plugin in self.sources

    def argument(self, plugin: str, name: str) -> Any:
        """Return the value of an argument, or None if the job does not have the plugin."""
        return self.arguments[plugin][name].value if plugin in self else None


def parse_plugins(builder: Builder) -> Plugins:
    """Return the plugins of the job, including those that the webhook adds.

    Unknown plugins and arguments are reported as errors.
    """
    plugins = Plugins()
    for name, source in builder.spec.get("plugins").fields():
        if name in PLUGINS:
            plugins.sources[name] = source
            plugins.arguments[name] = _arguments(builder, source, name)
        else:
            hint = did_you_mean(name, PLUGINS) or f"expected one of: {', '.join(PLUGINS)}"
            builder.refuse(source, f'unknown plugin "{name}"', hint)
    for implied, causes in IMPLIED.items():
        for cause in (name for name in causes if name in plugins and implied not in plugins):
            source = plugins.sources[cause]
            plugins.sources[implied] = source
            plugins.arguments[implied] = _defaults(implied, source)
    return plugins


def _defaults(plugin: str, source: SourceValue) -> dict[str, SourceValue]:
    return {name: SourceValue(value, source.path) for name, value in PLUGINS[plugin].items()}


def _arguments(builder: Builder, source: SourceValue, plugin: str) -> dict[str, SourceValue]:
    """Parse arguments as Go's `flag` does: `--a=b`, `--a b`, or `--a` for true.

    https://pkg.go.dev/flag#hdr-Command_line_flag_syntax
    """
    defaults = PLUGINS[plugin]
    arguments = _defaults(plugin, source)
    items = source.items()
    for item in items:
        name, equals, text = item.value.lstrip("-").partition("=")
        if name not in defaults or not item.value.startswith("-"):
            message = f"unknown argument {item.value}: {plugin} ignores it and all after it"
            builder.refuse(item, message, _known_arguments(name, plugin))
            continue
        default = defaults[name]
        if not equals:
            text = "true" if isinstance(default, bool) else _next_text(items)
        value = _value(text, default)
        if value is None:
            wanted = "true or false" if isinstance(default, bool) else "a non-negative integer"
            message = f'expected {wanted} for {name}, got "{text}"'
            builder.refuse(item, message, f"for example --{name}={str(default).lower()}")
        arguments[name] = SourceValue(value, item.path)
    return arguments


def _known_arguments(name: str, plugin: str) -> str:
    """Return a hint for an unknown argument."""
    options = [f"--{option}" for option in PLUGINS[plugin]]
    if not options:
        return "remove it: this plugin has no arguments"
    return did_you_mean(f"--{name}", options) or f"expected one of: {', '.join(options)}"


def _next_text(items: Iterator[SourceValue]) -> str:
    """Return the next item, which is the value of an argument without `=`; "" at the end."""
    return str(next(items, SourceValue("")).value)


def _value(text: str, default: Argument) -> Argument | None:
    """Return a text as the type of the default, or None if it cannot be parsed."""
    if isinstance(default, bool):
        words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
        return words.get(text.lower())
    if isinstance(default, int):
        return natural(text)
    return text
