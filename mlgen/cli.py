"""The command line: options in, one call, text out."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlgen import __version__

if TYPE_CHECKING:
    from mlgen.problems import Problem
    from mlgen.render import Result

T = TypeVar("T")

FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...")
OUTPUT = click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="Write there instead of to standard output; only once all is done.",
)
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=HELP)
@click.version_option(__version__, prog_name="mlgen")
def main() -> None:
    """Render distributed training jobs to plain Kubernetes manifests.

    \b
    mlgen render job.yaml | kubectl apply -f -

    Exit status: 0 done; 1 the input is wrong; 2 the command line is wrong; 3 something differs.
    """  # noqa: D301 - the character, not the two, tells click not to wrap


def _kube_version(_context: Any, _parameter: Any, value: str) -> tuple[int, int]:
    from mlgen.render import kube_version

    try:
        return kube_version(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _namespace(_context: Any, _parameter: Any, value: str | None) -> str | None:
    if value is None:
        return None
    from mlgen.checks import namespace

    try:
        return namespace(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _settings(_context: Any, _parameter: Any, values: tuple[str, ...]) -> tuple[Any, ...]:
    from mlgen.overrides import parse

    try:
        return tuple(parse(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _cron(_context: Any, _parameter: Any, value: str | None) -> str | None:
    """What is not even of the form of a schedule would only be seen by Argo's controller."""
    if value is None or re.fullmatch(r"@[a-z]+( \S+)?|[^@\s]\S*( \S+){4}", value):
        return value
    raise click.BadParameter(f"{value!r} is not a schedule such as '0 2 * * 6' or @daily")


KUBE_VERSION = click.option(
    "--kube-version",
    default="1.34",
    show_default=True,
    callback=_kube_version,
    metavar="VERSION",
    help="The cluster's version of Kubernetes, 1.31 or later.",
)


def _rendering(function: Any) -> Any:
    """Add what all that render files share: these, and what may be said besides them."""
    return FILES(_options(function))


def _options(function: Any) -> Any:
    """Add what may be said besides the jobs."""
    options = [
        KUBE_VERSION,
        click.option(
            "-n",
            "--namespace",
            callback=_namespace,
            help="The namespace of every object that is made, over that of the files.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            callback=_settings,
            metavar="PATH=VALUE",
            help="Replace a value in every job file, or in the one that a custom resource stands"
            r" for: spec.roles.worker.replicas=8. The value is read as YAML; a dot in a key is"
            r" written '\.'. May be given again.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


TARGET = click.option(
    "--for",
    "target",
    type=click.Choice(["argocd", "flux"]),
    help="The tool that will bring back what stands in Git: no Job vanishes by itself, and one is"
    " only made again where it has changed.",
)
SUPERVISOR = click.option(
    "--supervisor/--no-supervisor",
    default=True,
    show_default=True,
    help="Whether cleanPodPolicy All and Running add a Job that ends what outlives the training.",
)


@main.command()
@_rendering
@SUPERVISOR
@TARGET
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE|DIR",
    help="Write there instead of to standard output; only once all is done. A folder, or what ends"
    " with /, gets one file for each object, and loses those that an earlier render made.",
)
@click.option(
    "--check",
    metavar="DIR",
    help="Write nothing, but print how DIR would change if it were written to; exit status 3 if it"
    " would.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="JSON is one List.",
)
def render(files: tuple[str, ...], output: str, check: str | None, form: str, **said: Any) -> None:
    """Print the manifests of the jobs in FILES.

    A job is a job file, or a custom resource of an operator as it is; all other objects are printed
    as they are. A FILE may be a file, a folder of files, or - for standard input.
    """
    from mlgen.render import text

    if check is not None and output != "-":
        raise click.UsageError("of --output and --check there can be one")
    if check is None and not (output.endswith("/") or (output and Path(output).is_dir())):
        _write(output, text(_result(files, said).parts, form))
        return
    folder = Path(output if check is None else check)
    if form != "yaml":
        raise click.UsageError("the files of a folder are YAML")
    if folder.resolve() in [Path(name).resolve() for name in files]:
        raise click.UsageError(f"{folder} is one of FILES, so it would be made of itself")
    _folder(folder, _result(files, said), check=check is not None)


@main.command()
@_rendering
@SUPERVISOR
@TARGET
def validate(files: tuple[str, ...], **said: Any) -> None:
    """Check the jobs in FILES as render does.

    Says of each job what it consists of, which PodSecurity level its pods meet, and what stands in
    the way of the next one.
    """
    from mlgen.render import pod_security, summary

    for rendered in _result(files, said).jobs:
        click.echo(f"{rendered.file}: valid")
        click.echo(summary(rendered.topology))
        click.echo(pod_security(rendered))


@main.command()
@_rendering
@OUTPUT
@click.option(
    "--cron",
    callback=_cron,
    metavar="SCHEDULE",
    help="Print a CronWorkflow, which runs the jobs at these times, such as '0 2 * * 6'.",
)
@click.option("--template", is_flag=True, help="Print only the step, for a Workflow of your own.")
@click.option("--no-workflow", is_flag=True, help="Leave the Workflow out: nothing starts yet.")
@click.option(
    "--backoff-seconds",
    type=click.IntRange(min=0),
    metavar="N",
    help="Wait so long before the second attempt, twice as long before the third, and so on.",
)
@click.option("--retry-oom", is_flag=True, help="Start again after the memory limit was exceeded.")
def argo(files: tuple[str, ...], output: str, **said: Any) -> None:
    """Print what runs the jobs in FILES by Argo Workflows.

    A ConfigMap with the manifests of each job, and a Workflow that calls the WorkflowTemplate
    mlgen-train with the job's own policies. What the workflow must not apply itself stands before
    them, and other objects among FILES as they are.
    """
    from mlgen.hosts import argo as host
    from mlgen.render import Options
    from mlgen.source import texts

    cron, template, none = (said.pop(name) for name in ("cron", "template", "no_workflow"))
    if sum(map(bool, (cron, template, none))) > 1:
        raise click.UsageError("of --cron, --template and --no-workflow there can be one")
    retries = {name: said.pop(name) for name in ("backoff_seconds", "retry_oom")}
    form = host.Form(schedule=cron, step=template, workflow=not none, **retries)
    options = Options(**said, workflow=True)
    made = _checked(lambda: host.argo(texts(files), options, form), lambda result: result[1])
    _write(output, made[0])


@main.command()
@_options
@SUPERVISOR
@TARGET
def krm(**said: Any) -> None:
    """Be a function of kustomize or kpt: a ResourceList in, a ResourceList out.

    Every job among its items, or as its functionConfig, is replaced by its manifests. A ConfigMap
    as functionConfig says for, kube-version, namespace, set and supervisor as these options do.
    """
    from mlgen.hosts.kustomize import krm as function
    from mlgen.render import Options
    from mlgen.source import texts

    (given,) = texts(("-",))
    written, problems = function(given, Options(**said))
    for problem in problems:
        click.echo(str(problem), err=True)
    _write("-", written)
    if any(not problem.warning for problem in problems):
        sys.exit(1)


class _ForHelm(click.Command):
    """A command whose failures are seen although Helm 4 drops its standard error."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        from mlgen.hosts.helm import tell

        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            tell(error.format_message(), os.environ)
            raise


@main.command("helm-post-render", cls=_ForHelm)
@_options
@SUPERVISOR
def helm_post_render(**said: Any) -> None:
    """Replace every job in what a chart renders by its manifests.

    Helm calls this: helm install NAME CHART --post-renderer mlgen, after helm plugin install. For
    Helm 3, which has no such plugins, add --post-renderer-args helm-post-render. All else passes
    byte for byte.
    """
    from mlgen.hosts.helm import run
    from mlgen.render import Options

    lines, options = sys.stdin.buffer, Options(**said)
    written, _ = _checked(lambda: run(lines, options, os.environ), lambda result: result[1])
    shutil.copyfileobj(written, sys.stdout.buffer)


@main.group()
def argocd() -> None:
    """Be a config management plugin of Argo CD.

    Its server runs these commands in the folder of an Application, as integrations/argocd has it,
    and says everything in the environment.
    """


@argocd.command("init")
def argocd_init() -> None:
    """Fail where generate could never work.

    The parameters, the cluster's version and the names of the files are looked at, which is all
    that can be told without reading the files. Prints nothing.
    """
    from mlgen.hosts import argocd as host

    _checked(lambda: host.init(os.environ), lambda warnings: warnings)


@argocd.command("generate")
def argocd_generate() -> None:
    """Print the manifests of the folder, as render --for argocd does.

    A folder without a job is an error, as what is missing here is deleted from the cluster.
    """
    from mlgen.hosts import argocd as host

    _write("-", _checked(lambda: host.generate(os.environ), lambda result: result[1])[0])


@argocd.command("parameters")
def argocd_parameters() -> None:
    """Print what the user interface shows of the parameters, as JSON.

    Where the folder holds exactly one job, with its images and numbers of replicas.
    """
    from mlgen.hosts import argocd as host

    click.echo(host.parameters(os.environ))


@main.command()
@click.argument("sides", nargs=-1, required=True, metavar="OLD NEW")
@click.option("--live", is_flag=True, help="Compare with the cluster, by kubectl.")
@_options
@SUPERVISOR
@TARGET
def diff(sides: tuple[str, ...], *, live: bool, **said: Any) -> None:
    """Say what applying NEW over OLD would come to.

    What differs, what the API server will refuse, what happens to pods, and what to do. OLD and NEW
    are each a file, a folder or - for standard input, with job files, custom resources or rendered
    manifests; the options hold for both. With --live there is no OLD.

    Exit status: 0 nothing differs; 3 something does; 1 an input is wrong.
    """
    from mlgen import diff as room
    from mlgen.render import Options

    if len(sides) != (1 if live else 2):
        raise click.UsageError("it takes NEW with --live, and OLD and NEW without")
    if sides.count("-") > 1:
        raise click.UsageError("of OLD and NEW one can be standard input")
    options = Options(**said)
    new = sides[-1]
    result = _checked(
        lambda: room.cluster(new, options) if live else room.files(sides[0], new, options),
        lambda result: result.warnings,
    )
    if result.text:
        _write("-", result.text)
        sys.exit(3)


@main.command()
@FILES
@KUBE_VERSION
def verify(files: tuple[str, ...], kube_version: tuple[int, int]) -> None:
    """Check the manifests in FILES once nothing will change them any more.

    Of jobs that mlgen rendered and other tools changed, such as the overlays of kustomize: whether
    the objects of each job still know each other, by names, labels, addresses and rights.

    \b
    kustomize build overlay | mlgen verify -
    """  # noqa: D301 - likewise
    from mlgen.source import texts
    from mlgen.verify import verify as verified

    for job in _checked(lambda: verified(texts(files), kube_version), lambda _: ()):
        click.echo(f"{job}")


@main.command()
@FILES
@OUTPUT
def convert(files: tuple[str, ...], output: str) -> None:
    """Print the job files that custom resources of operators stand for.

    Job files and all other objects among FILES are printed as they are. What the operator would
    have done besides is said on standard error.
    """
    from mlgen.convert import convert as converted
    from mlgen.source import texts

    _write(output, _checked(lambda: converted(texts(files)), lambda result: result[1])[0])


@main.command()
def schema() -> None:
    """Print the JSON Schema of the job file.

    Editors and other tools check and complete job files by it.
    """
    import json

    from mlgen.frameworks import names
    from mlgen.schema import merged

    click.echo(json.dumps(merged(names()), indent=2))


@main.command()
def frameworks() -> None:
    """List the frameworks and their roles."""
    from mlgen.frameworks import get, names

    rows = [(name, get(name)) for name in names()]
    width = max(len(name) for name in names())
    for name, framework in rows:
        first = (framework.__doc__ or "").splitlines()[0].partition(": ")[2]
        click.echo(f"{name:{width}}  {first[:1].upper()}{first[1:]}")
        click.echo(f"{'':{width}}  roles: {', '.join(framework.ROLES or ('any',))}")


@main.command("ssh-secret")
@click.argument("name")
@click.option("-n", "--namespace", callback=_namespace, help="The namespace of the Secret.")
def ssh_secret(name: str, namespace: str | None) -> None:
    """Print a Secret with new ssh keys.

    MPI over ssh takes them from there.

    \b
    mlgen ssh-secret resnet-ssh | kubectl apply -f -
    """  # noqa: D301 - likewise
    from mlgen.ssh import secret

    try:
        click.echo(secret(name, namespace), nl=False)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None


def _result(files: tuple[str, ...], said: dict[str, Any]) -> "Result":
    from mlgen.render import Options
    from mlgen.render import render as rendered
    from mlgen.source import texts

    return _checked(lambda: rendered(texts(files), Options(**said)), lambda result: result.warnings)


def _folder(folder: Path, result: "Result", *, check: bool) -> None:
    from mlgen.folder import changes, diff, texts, write

    try:
        change = _checked(lambda: changes(folder, texts(result.parts)), lambda _: ())
        if not check:
            write(folder, change)
            return
    except OSError as error:
        done = "read" if check else "written"
        raise click.ClickException(f"{folder}: cannot be {done}: {error.strerror}") from None
    if change.names:
        _write("-", diff(folder, change))
        count = f"{len(change.names)} file{'s' if len(change.names) > 1 else ''}"
        cure = f"run it with -o {folder}/ in the place of --check"
        click.echo(f"{folder} is stale: {count} would change; {cure}", err=True)
        sys.exit(3)


def _checked(make: Callable[[], T], warnings: Callable[[T], Iterable["Problem"]]) -> T:
    """Print the warnings on standard error; on errors all of them, with exit status 1."""
    from mlgen.problems import MlgenError

    try:
        result = make()
    except MlgenError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        sys.exit(1)
    for problem in warnings(result):
        click.echo(str(problem), err=True)
    return result


def _write(output: str, written: str) -> None:
    if output == "-":
        click.echo(written.encode(), nl=False)  # bytes: the same under every locale
        return
    from mlgen.files import write

    try:
        write(output, written)
    except OSError as error:
        raise click.ClickException(f"{output}: cannot be written: {error.strerror}") from None
