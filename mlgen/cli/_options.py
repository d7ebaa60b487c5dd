"""The class of commands, and the options that several commands share, as decorators."""

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mlgen.cli._report import note, report
from mlgen.documents import overrides
from mlgen.kubernetes import names, versions
from mlgen.output.terminal import safe
from mlgen.problems import MlgenError, Place, Problem
from mlgen.site import Site, find

if TYPE_CHECKING:
    from mlgen.live.kubectl import Kubectl

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(readable=False)
"""A file that need not exist. Shells complete it."""


SITE = ("kube_version", "supervisor", "only_jobs", "strict")
"""Options with a default that `mlgen.toml` can set."""

FEW = 3
"""A longer section of shared options is described only by `mlgen render --help`."""


class SharedOption(click.Option):
    """An option that several commands share. Their help lists it in its section."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then each section of shared options."""
        sections: dict[str, list[click.Option]] = {"Options": []}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option):
                title = option.section if isinstance(option, SharedOption) else "Options"
                sections.setdefault(title, []).append(option)
        for title, options in sections.items():
            if title == "Options" or self.name == "render" or len(options) <= FEW:
                records = [option.get_help_record(ctx) for option in options]
                with formatter.section(title):
                    formatter.write_dl([record for record in records if record])
            else:
                with formatter.section(f"{title}, described by mlgen render --help"):
                    names = ", ".join(max(option.opts, key=len) for option in options)
                    for line in wrap(names, formatter.width - 2, break_on_hyphens=False):
                        formatter.write(f"  {line}\n")


def site() -> Site | None:
    """Return the site's defaults for a command that does not render jobs."""
    found: Site | None = click.get_current_context().meta.get("mlgen.site")
    return found


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


def kept(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Keep a value as written in click's context, where other functions look it up."""
    context.meta[f"mlgen.{parameter.name}"] = value
    return value


KEPT: dict[str, Any] = {"callback": kept, "expose_value": False, "is_eager": True}
"""An option that is only kept, before other options are parsed. The command does not get it."""


def parsed(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a callback that parses and keeps a value. A ValueError becomes a usage error."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        kept(context, parameter, value)
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(safe(str(error))) from None

    return callback


def completed(find: Callable[[str, tuple[str, ...]], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a completion for click.

    Args:
        find: returns candidates for an incomplete word and the files on the command line.
    """

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        words = find(incomplete, _named_files(context))
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _named_files(context: click.Context) -> tuple[str, ...]:
    """Return the files on an incomplete command line.

    While click completes the value of an option, it leaves the files in `context.args`.
    """
    for name in ("files", "file", "sides"):
        if value := context.params.get(name):
            return (value,) if isinstance(value, str) else tuple(value)
    return tuple(word for word in context.args if not word.startswith("-"))


def _paths(incomplete: str, files: tuple[str, ...]) -> Iterable[str]:
    """Return completions for --set and --matrix."""
    from mlgen.reference import fields

    return fields.settings(incomplete, files)


def one_stdin(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check that stdin is named at most once, because it can be read only once."""
    if values.count("-") > 1:
        raise ValueError("standard input (-) can be read only once")
    return values


def chosen_kubectl() -> "Kubectl":
    """Return kubectl with the --context and --kubeconfig of the command."""
    from mlgen.live.kubectl import Kubectl

    meta = click.get_current_context().meta
    return Kubectl(meta["mlgen.context"], meta["mlgen.kubeconfig"])


def is_name(word: str) -> bool:
    """Return whether a word is the name of a job, or a namespace and a name, and no file."""
    is_word = bool(re.fullmatch(rf"(?:{names.LABEL}/)?{names.LABEL}", word))
    return is_word and not Path(word).exists()


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


def _target(value: str) -> Any:
    """Parse --for."""
    from mlgen.variants.gitops import tool

    return tool(value)


def duration(value: str) -> float:
    """Return a duration in seconds. It is written as for kubectl: 90s, 30m, 1h30m."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(?<!\d)(\d+)([hms])", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"invalid duration {value!r}; use a value such as 90s, 30m or 8h")
    return sum(int(number) * units[unit] for number, unit in parts)


def schedule(value: str) -> str:
    """Validate the form of a cron schedule.

    Otherwise, an invalid schedule is reported only later, in the status of the CronWorkflow.
    """
    if re.fullmatch(r"@[a-z]+( \S+)?|[^@\s]\S*( \S+){4}", value):
        return value
    raise ValueError(f"invalid schedule {value!r}; use a value such as '0 2 * * 6' or @daily")


def _together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several options. The help lists them in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


files = click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=FILE, callback=parsed(one_stdin)
)
_selection = partial(click.option, cls=SharedOption, section="Selection options")

selector = _selection(
    "-l",
    "--selector",
    default="",
    metavar="SELECTOR",
    help="Select jobs in the cluster by their labels, as for kubectl: team=vision,tier!=test.",
)
all_namespaces = _selection(
    "-A",
    "--all-namespaces",
    "everywhere",
    is_flag=True,
    help="Select jobs of all namespaces of the cluster.",
)
jobs_or_names = _together(
    click.argument(
        "files", nargs=-1, metavar="[FILE|NAME]...", type=FILE, callback=parsed(one_stdin)
    ),
    selector,
    all_namespaces,
)
output = click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    type=FILE,
    help="Write to FILE instead of stdout, after everything has succeeded.",
)

_rendering = partial(click.option, cls=SharedOption, section="Rendering options")

kube_version = _rendering(
    "--kube-version",
    default="1.34",
    show_default=True,
    metavar="VERSION",
    callback=parsed(_kube_version),
    help="Target this Kubernetes version, 1.31 or later.",
)
namespace = _rendering(
    "-n",
    "--namespace",
    callback=parsed(names.namespace),
    help="Set the namespace of every job. Overrides the namespace in the file.",
)
settings = _rendering(
    "--set",
    "settings",
    multiple=True,
    metavar="PATH=VALUE",
    callback=parsed(lambda values: tuple(map(overrides.parse, values))),
    shell_complete=completed(_paths),
    help="Override a value in every job file, or in the equivalent job file of a custom resource:"
    " spec.roles.worker.replicas=8. VALUE is YAML: 'spec.env.LR=\"0.1\"'. 'args.lr=1e-4' sets the"
    " flag --lr in command or args. Escape a dot within a key: 'spec.resources.nvidia\\.com/gpu=8'."
    " Can be repeated.",
)
matrix = _rendering(
    "--matrix",
    multiple=True,
    metavar="PATH=[VALUE, …]",
    callback=parsed(_matrix),
    shell_complete=completed(_paths),
    help="Render every job once for each value: 'args.lr=[1e-4, 1e-5]'. Write PATH as for --set."
    " Repeat the option to render all combinations.",
)
runtimes = _rendering(
    "--runtime",
    "runtimes",
    multiple=True,
    metavar="FILE|VERSION",
    type=FILE,
    **KEPT,
    help="Use the runtimes in FILE for TrainJobs, or those that a VERSION of Kubeflow Trainer"
    " publishes, such as 2.2. Runtimes in the input take precedence. Can be repeated.",
)
no_config = _rendering(
    "--no-config",
    is_flag=True,
    **KEPT,
    help="Ignore the defaults in mlgen.toml, or in [tool.mlgen] of pyproject.toml.",
)
supervisor = _rendering(
    "--supervisor/--no-supervisor",
    default=True,
    show_default=True,
    help="Add a supervisor to each job that needs one: a job of several Jobs or StatefulSets, or"
    " with restartScope, giveUpAfter, progress or metricsPort in its runPolicy. It restarts"
    " replicas together, starts roles in order, ends jobs that cannot continue, and cleans up.",
)
only_jobs = _rendering(
    "--only-jobs",
    is_flag=True,
    help="Reject every object that is not a job, instead of passing it through.",
)
strict = _rendering(
    "--strict",
    is_flag=True,
    help="Reject jobs with warnings. To excuse the problems of one code, annotate the job with"
    " mlgen.dev/allow.CODE: REASON.",
)
as_jobset = _rendering(
    "--as",
    "jobset",
    type=click.Choice(["jobs", "jobset"]),
    default="jobs",
    show_default=True,
    callback=parsed(lambda value: value == "jobset"),
    help="Render Jobs, or one JobSet, whose controller does the work of the supervisor.",
)
for_gitops = _rendering(
    "--for",
    "target",
    metavar="argocd|flux",
    callback=parsed(_target),
    help="Render for a GitOps tool: keep all objects after training, because the tool would"
    " recreate them, and replace a Job only if it has changed.",
)
rendering = _together(kube_version, namespace, settings, matrix, runtimes, no_config)
"""The options of all commands that render the jobs in files."""

_kubectl = partial(click.option, cls=SharedOption, section="kubectl options", default="", **KEPT)

kubectl = _together(
    _kubectl("--context", help="Use this kubeconfig context instead of the current one."),
    _kubectl(
        "--kubeconfig",
        metavar="FILE",
        type=FILE,
        help="Use this kubeconfig file instead of the one that kubectl finds.",
    ),
)
"""The options that select the cluster."""

_reporting = partial(click.option, cls=SharedOption, section="Reporting options", **KEPT)

reporting = _together(
    _reporting(
        "--problems",
        type=click.Choice(["text", "json", "github"]),
        default="text",
        show_default=True,
        help="Print problems as text, JSON or GitHub annotations.",
    ),
    _reporting(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Print problems with colors and source lines. auto: only at a terminal, and without"
        " colors if NO_COLOR is set.",
    ),
    _reporting("-q", "--quiet", is_flag=True, help="Print only errors, no warnings and no totals."),
    _reporting(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print the files that are read, and durations, on stderr.",
    ),
)
"""The options that control how problems are printed. `_report` looks them up."""
