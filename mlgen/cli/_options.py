"""Options and arguments that several commands share, and callbacks that parse their values."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion
    from mlgen.variants.gitops import Target

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def read_kube_version(_context: Any, _parameter: Any, value: str) -> "KubeVersion":
    """Parse --kube-version."""
    from mlgen.kubernetes.versions import parse

    return _parsed(parse, value)


def read_namespace(_context: Any, _parameter: Any, value: str | None) -> str | None:
    """Validate --namespace."""
    if value is None:
        return None
    from mlgen.kubernetes.names import namespace

    return _parsed(namespace, value)


def read_settings(_context: Any, _parameter: Any, values: tuple[str, ...]) -> tuple[Any, ...]:
    """Parse every --set."""
    from mlgen.documents.overrides import parse

    return tuple(_parsed(parse, value) for value in values)


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
        raise click.BadParameter(str(error)) from None


FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...")

OUTPUT = click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="Write to FILE instead of standard output, once everything has succeeded.",
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
    help="Override a value in every job file, or in the equivalent job file of a custom resource:"
    " spec.roles.worker.replicas=8. VALUE is read as YAML: 'spec.env.LR=\"0.1\"',"
    r" 'spec.args=[a, b]'. Escape a dot within a key: 'spec.resources.nvidia\.com/gpu=8'. Can be"
    " repeated.",
)

SUPERVISOR = click.option(
    "--supervisor/--no-supervisor",
    default=True,
    show_default=True,
    help="Add a supervisor to jobs with cleanPodPolicy All or Running, which cleans up after"
    " training.",
)

TARGET = click.option(
    "--for",
    "target",
    callback=read_target,
    metavar="argocd|flux",
    help="Render for a GitOps tool, which restores the state in Git: delete nothing after training,"
    " and replace a Job only if it has changed.",
)


def rendering(function: F) -> F:
    """Decorate a command that renders jobs with the options that all of these have."""
    for option in (SETTINGS, NAMESPACE, KUBE_VERSION):
        function = option(function)
    return function
