"""Options and arguments that several commands share, and callbacks that parse their values."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from mlgen.cli import _complete
from mlgen.cli._report import checked, note, report
from mlgen.documents.overrides import parse
from mlgen.kubernetes.names import namespace
from mlgen.kubernetes.versions import nearest
from mlgen.output.terminal import safe
from mlgen.problems import MlgenError, Place, Problem
from mlgen.site import find

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion
    from mlgen.site import Site
    from mlgen.variants.gitops import Target

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def read_kube_version(_context: Any, _parameter: Any, value: str) -> "KubeVersion":
    """Parse --kube-version; warn of a version that is newer than all supported ones."""
    version, message = _parsed(nearest, value)
    if message:
        hint = f"rendering for {version} instead"
        place = Place("--kube-version", 0)
        report([Problem((), message, "bad-value", hint, warning=True, place=place)])
    return version


def read_files(_context: Any, _parameter: Any, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check that standard input, which can only be read once, is named at most once."""
    if values.count("-") > 1:
        raise click.BadParameter("standard input (-) can be read only once")
    return values


def read_namespace(_context: Any, _parameter: Any, value: str | None) -> str | None:
    """Validate --namespace."""
    if value is None:
        return None

    return _parsed(namespace, value)


def read_settings(context: Any, _parameter: Any, values: tuple[str, ...]) -> tuple[Any, ...]:
    """Parse every --set."""
    context.meta["mlgen.--set"] = values
    return tuple(_parsed(parse, value) for value in values)


def read_matrix(context: Any, _parameter: Any, values: tuple[str, ...]) -> tuple[Any, ...]:
    """Parse every --matrix; the last of a path replaces the others."""
    context.meta["mlgen.--matrix"] = values
    if not values:
        return ()
    from mlgen.variants.matrix import parse

    return tuple(dict(_parsed(parse, value) for value in values).items())


def read_duration(_context: Any, _parameter: Any, value: str | None) -> float | None:
    """Parse --timeout as seconds, written as kubectl's durations: 90s, 30m, 1h30m."""
    if value is None:
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    parts = re.findall(r"(\d+)([hms])", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise click.BadParameter(f"invalid duration {value!r}; use a value such as 90s, 30m or 8h")
    return sum(int(number) * units[unit] for number, unit in parts)


def read_schedule(_context: Any, _parameter: Any, value: str | None) -> str | None:
    """Validate the form of --cron.

    Otherwise a malformed schedule is reported only later, in the status of the CronWorkflow.
    """
    if value is None or re.fullmatch(r"@[a-z]+( \S+)?|[^@\s]\S*( \S+){4}", value):
        return value
    raise click.BadParameter(
        f"invalid schedule {value!r}; use a value such as '0 2 * * 6' or @daily"
    )


def read_target(_context: Any, _parameter: Any, value: str | None) -> "Target | None":
    """Validate --for."""
    if value is None:
        return None
    from mlgen.variants.gitops import target

    return _parsed(target, value)


def _parsed(parse: Callable[[str], T], value: str) -> T:
    """Return what a function makes of a value; its ValueError is a usage error."""
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(safe(str(error))) from None


FILES = click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    callback=read_files,
    shell_complete=_complete.files,
)

OUTPUT = click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    shell_complete=_complete.files,
    help="Write to FILE instead of standard output, once everything has succeeded.",
)

JOBS = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Use N processes, for many files or documents; 0 is one for each core.",
)

KUBE_VERSION = click.option(
    "--kube-version",
    default="1.34",
    show_default=True,
    callback=read_kube_version,
    metavar="VERSION",
    help="Target this version of Kubernetes, 1.31 or later.",
)

NAMESPACE = click.option(
    "-n",
    "--namespace",
    callback=read_namespace,
    help="Set the namespace of every job, overriding the one in the file.",
)

SETTINGS = click.option(
    "--set",
    "settings",
    multiple=True,
    callback=read_settings,
    metavar="PATH=VALUE",
    shell_complete=_complete.settings,
    help="Override a value in every job file, or in the equivalent job file of a custom resource:"
    " spec.roles.worker.replicas=8. VALUE is read as YAML: 'spec.env.LR=\"0.1\"',"
    " 'spec.args=[a, b]'. 'args.lr=1e-4' sets the flag --lr where it stands in command or args."
    r" Escape a dot within a key: 'spec.resources.nvidia\.com/gpu=8'. Can be"
    " repeated.",
)

MATRIX = click.option(
    "--matrix",
    multiple=True,
    callback=read_matrix,
    metavar="PATH=[VALUE, …]",
    shell_complete=_complete.settings,
    help="Render every job once for each of these values: 'args.lr=[1e-4, 1e-5]' is the flag --lr,"
    " 'spec.env.SEED=[1, 2, 3]' a variable. PATH is as for --set. Can be repeated: all combinations"
    " are rendered, with names made of their values.",
)

SUPERVISOR = click.option(
    "--supervisor/--no-supervisor",
    default=True,
    show_default=True,
    help="Add a supervisor to each job in which some role does not decide: it restarts replicas"
    " together, starts roles in order, ends the job if it cannot go on, and cleans up.",
)

ONLY_JOBS = click.option(
    "--only-jobs",
    is_flag=True,
    help="Refuse all objects but jobs, instead of passing them through: what somebody else writes"
    " then cannot bring a ClusterRoleBinding.",
)

TARGET = click.option(
    "--for",
    "target",
    callback=read_target,
    metavar="argocd|flux",
    help="Render for a GitOps tool, which restores the state in Git: delete nothing after training,"
    " and replace a Job only if it has changed.",
)


def keep(context: click.Context, parameter: click.Parameter, value: T) -> T:
    """Keep the value of an option of `reporting` for `_report`, instead of passing it on."""
    context.meta[f"mlgen.{parameter.name}"] = value
    return value


REPORTING = (
    click.option(
        "--problems",
        type=click.Choice(["text", "json", "sarif", "github"]),
        default="text",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=keep,
        help="Print problems in this format: text, JSON, SARIF 2.1.0, or annotations of GitHub.",
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=keep,
        help="Set when problems have colors and source lines; auto is at a terminal, without colors"
        " if NO_COLOR is set.",
    ),
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=keep,
        help="Print errors only: no warnings, no totals.",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=keep,
        help="Print on stderr what is read, and how long it takes.",
    ),
)


def reporting(function: F) -> F:
    """Decorate a command that reports problems with the options that say how.

    They are not passed to the command; the functions of `_report` look them up.
    """
    for option in reversed(REPORTING):
        function = option(function)
    return function


CONFIG = click.option(
    "--no-config",
    is_flag=True,
    help="Ignore the defaults in mlgen.toml, or in [tool.mlgen] of pyproject.toml.",
)


def rendering(function: F) -> F:
    """Decorate a command that renders jobs with the options that all of these have."""

    @wraps(function)
    def with_site(*args: Any, no_config: bool, **values: Any) -> Any:
        return function(*args, **(values if no_config else _with_site(values)))

    decorated: Any = with_site
    for option in (CONFIG, MATRIX, SETTINGS, NAMESPACE, KUBE_VERSION):
        decorated = option(decorated)
    result: F = decorated
    return result


def versioned(function: F) -> F:
    """Decorate a command that renders no jobs, but depends on the version of Kubernetes."""

    @wraps(function)
    def with_site(*args: Any, no_config: bool, **values: Any) -> Any:
        filled = values if no_config else _with_site(values)
        return function(*args, **{name: filled[name] for name in values})

    decorated: Any = with_site
    for option in (CONFIG, KUBE_VERSION):
        decorated = option(decorated)
    result: F = decorated
    return result


def written_options() -> list[str]:
    """Return the options of `rendering` as written, for another command on the same jobs."""
    context = click.get_current_context()
    repeated = ("--set", "--matrix")
    words = [
        w for name in repeated for value in context.meta[f"mlgen.{name}"] for w in (name, value)
    ]
    for name, option in (("namespace", "--namespace"), ("kube_version", "--kube-version")):
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            words += [option, str(context.params[name])]
    return [*words, *(["--no-config"] if context.params["no_config"] else [])]


def _with_site(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a command's options, with the defaults of the site.

    They replace those of --kube-version, --supervisor and --only-jobs, unless the command line has
    these.
    """
    context = click.get_current_context()

    def of_folder() -> "Site | None":
        try:
            return find(Path.cwd())
        except MlgenError as error:
            getattr(context.command, "on_failure", lambda _: None)(str(error))
            raise

    site = checked(of_folder)
    if site is None:
        return values
    note(f"using the defaults in {site.file}")
    names = ("kube_version", "supervisor", "only_jobs")
    defaults = {name: getattr(site, name) for name in names}
    for name, default in defaults.items():
        written = context.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if name in values and default is not None and not written:
            values[name] = default
    return values | {"site": site}
