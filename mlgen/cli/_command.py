"""Turn functions into commands, with the arguments and options from `schemas/commands.json`."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mlgen.cli._report import note, report
from mlgen.documents import overrides
from mlgen.kubernetes import names, versions
from mlgen.output.terminal import safe
from mlgen.problems import MlgenError, Place, Problem
from mlgen.resources import table
from mlgen.site import Site, find

SITE = ("kube_version", "supervisor", "only_jobs", "strict")
"""Options with a default that `mlgen.toml` can set."""


class Command(click.Command):
    """A command with the defaults of `mlgen.toml`, unless --no-config is set."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        if ctx.params.get("jobset") and ctx.params.get("target"):
            raise click.UsageError("--as jobset and --for are mutually exclusive")
        if ctx.meta.get("mlgen.no_config") is False:
            self._fill(ctx)
        return super().invoke(ctx)

    def _fill(self, ctx: click.Context) -> None:
        """Set options that the command line omits to the defaults of `mlgen.toml`."""
        try:
            site = find(Path.cwd())
        except MlgenError as error:
            self.on_failure(str(error))
            report(error.problems)
            sys.exit(1)
        ctx.meta["mlgen.site"] = site
        if "settings" in ctx.params:  # the command renders jobs
            ctx.params["site"] = site
        if site is None:
            return
        note(f"using the defaults in {site.file}")
        for name in SITE:
            default = getattr(site, name)
            if name in ctx.params and default is not None and not is_written(ctx, name):
                ctx.params[name] = default

    def on_failure(self, message: str) -> None:
        """Report an error to a calling program that does not read stderr. Default: do nothing."""


def site() -> Site | None:
    """Return the site's defaults for a command that does not render jobs."""
    found: Site | None = click.get_current_context().meta.get("mlgen.site")
    return found


def command(
    name: str, cls: type[Command] = Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that turns a function into a command. Its docstring becomes the help."""
    return click.command(name, cls, params=parameters(name))


def parameters(command: str) -> list[click.Parameter]:
    """Return the arguments and options of a command, in the order of its help."""
    return [_parameter(**row) for row in _rows(table("commands")["commands"].get(command, ()))]


def _rows(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of parameters. An item is a row, the name of a row, or the name of a set."""
    for item in items:
        if isinstance(item, dict):
            yield item
        else:
            every = table("commands")
            yield from _rows(every["sets"].get(item) or [every["shared"][item]])


def _parameter(
    names: list[str],
    choices: list[str] | None = None,
    min: int | None = None,  # noqa: A002 - a key of the rows
    complete: str = "",
    *,
    kept: bool = False,
    **row: Any,
) -> click.Parameter:
    """Return an option, or an argument if its name has no dashes.

    Args:
        names: as click expects them.
        choices: the allowed values.
        min: the minimum of a number.
        complete: the kind of its completions: see `_completer`.
        kept: do not pass it to the command. `_report` and `written_options` look it up.
        row: further arguments for click.
    """
    if choices:
        row["type"] = click.Choice(choices)
    if min is not None:
        row["type"] = click.IntRange(min=min)
    if complete:
        row["shell_complete"] = _completer(complete)
    if kept:
        row |= {"is_eager": True, "expose_value": False}
    kind = click.Option if names[0].startswith("-") else click.Argument
    return kind(names, callback=_read, **row)


def _read(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return a parsed value, and keep the value as written in the context."""
    context.meta[f"mlgen.{parameter.name}"] = value
    read = READERS.get(str(parameter.name))
    if read is None or value is None:
        return value
    try:
        return read(value)
    except ValueError as error:
        raise click.BadParameter(safe(str(error))) from None


def _files(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check that stdin is named at most once, because it can be read only once."""
    if values.count("-") > 1:
        raise ValueError("standard input (-) can be read only once")
    return values


def _kube_version(value: str) -> versions.KubeVersion:
    """Parse --kube-version. Warn if it is newer than all supported versions."""
    version, message = versions.nearest(value)
    if message:
        hint = f"rendering for {version} instead"
        place = Place("--kube-version", 0)
        report([Problem((), message, "bad-value", hint, warning=True, place=place)])
    return version


def _matrix(values: tuple[str, ...]) -> tuple[Any, ...]:
    """Parse every --matrix. For a repeated path, the last one applies."""
    if not values:
        return ()
    from mlgen.variants.matrix import parse

    return tuple(dict(map(parse, values)).items())


def _duration(value: str) -> float:
    """Return --timeout in seconds. Durations are written as for kubectl: 90s, 30m, 1h30m."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(?<!\d)(\d+)([hms])", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"invalid duration {value!r}; use a value such as 90s, 30m or 8h")
    return sum(int(number) * units[unit] for number, unit in parts)


def _schedule(value: str) -> str:
    """Validate the form of --cron.

    Otherwise, an invalid schedule is reported only later, in the status of the CronWorkflow.
    """
    if re.fullmatch(r"@[a-z]+( \S+)?|[^@\s]\S*( \S+){4}", value):
        return value
    raise ValueError(f"invalid schedule {value!r}; use a value such as '0 2 * * 6' or @daily")


def _target(value: str) -> Any:
    """Validate --for."""
    from mlgen.variants.gitops import target

    return target(value)


READERS: dict[str, Callable[[Any], Any]] = {
    "cron": _schedule,
    "files": _files,
    "jobset": lambda value: value == "jobset",
    "kube_version": _kube_version,
    "matrix": _matrix,
    "namespace": names.namespace,
    "settings": lambda values: tuple(map(overrides.parse, values)),
    "target": _target,
    "timeout": _duration,
}
"""Parsers of values, by parameter name. They raise ValueError for a usage error."""


def _completer(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return click's completion callback for a kind: `file`, `dir`, or a key in `_words`."""

    def complete(context: click.Context, _parameter: Any, incomplete: str) -> list[Any]:
        if kind in ("file", "dir"):
            from click.shell_completion import CompletionItem

            return [CompletionItem(incomplete, type=kind)]
        words = _words(kind, incomplete, _named(context))
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _words(kind: str, incomplete: str, files: tuple[str, ...]) -> Iterable[str]:
    """Return the candidates of a kind for completion. The caller filters them by prefix."""
    from mlgen import dialects, frameworks
    from mlgen.cli import COMMANDS
    from mlgen.reference import suggestions

    words: dict[str, Callable[[], Iterable[str]]] = {
        "commands": lambda: COMMANDS,
        "frameworks": frameworks.names,
        "kinds": lambda: sorted({kind for _, kind in dialects.kinds()}),
        "roles": lambda: suggestions.roles(files),
        "settings": lambda: suggestions.settings(incomplete, files),
        "topics": lambda: suggestions.topics(incomplete),
    }
    return words[kind]()


def _named(context: click.Context) -> tuple[str, ...]:
    """Return the files on an incomplete command line.

    While click completes the value of an option, it leaves the files in `context.args`.
    """
    for name in ("files", "file", "sides"):
        if value := context.params.get(name):
            return (value,) if isinstance(value, str) else tuple(value)
    return tuple(word for word in context.args if not word.startswith("-"))


def is_written(context: click.Context, name: str) -> bool:
    """Return whether the command line sets an option."""
    return context.get_parameter_source(name) == ParameterSource.COMMANDLINE


def written_options() -> list[str]:
    """Return the options that affect jobs as written, to suggest another command with them."""
    context = click.get_current_context()
    words = []
    for option, name in (("--set", "settings"), ("--matrix", "matrix"), ("--runtime", "runtimes")):
        words += [
            word for value in context.meta.get(f"mlgen.{name}", ()) for word in (option, value)
        ]
    for option, name in (("--namespace", "namespace"), ("--kube-version", "kube_version")):
        if is_written(context, name):
            words += [option, str(context.params[name])]
    if context.params.get("jobset"):
        words += ["--as", "jobset"]
    return [*words, *(["--no-config"] if context.meta["mlgen.no_config"] else [])]
