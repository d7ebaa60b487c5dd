"""The commands that print rendered or converted jobs: render, argo, convert."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen import Options
from mlgen.cli._options import (
    FILE,
    Command,
    as_jobset,
    files,
    for_gitops,
    no_config,
    one_stdin,
    only_jobs,
    output,
    parsed,
    rendering,
    reporting,
    runtimes,
    schedule,
    site,
    strict,
    supervisor,
    written_options,
)
from mlgen.cli._report import (
    checked,
    footer,
    printed,
    read,
    refuse_inputs,
    report,
    with_warnings,
    without_totals,
    write,
    write_page,
)
from mlgen.output.folder import changes, diff, update
from mlgen.output.manifests import joined, next_steps
from mlgen.problems import Place, Problem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mlgen.output.manifests import Format
    from mlgen.printing import Form, Printed


def _folder(_context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell complete a folder."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


@click.command("render", cls=Command)
@files
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE|DIR",
    type=FILE,
    help="Write to FILE instead of stdout, after everything has succeeded. For a folder, or a name"
    " that ends with /, write one file per object, and remove outdated files of earlier renders.",
)
@click.option(
    "--check",
    metavar="DIR",
    shell_complete=_folder,
    help="Print the changes that --output DIR would make. Exit with status 3 if there are any.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Print YAML documents, or a JSON List.",
)
@rendering
@supervisor
@only_jobs
@strict
@as_jobset
@for_gitops
@reporting
def render(
    files: tuple[str, ...], output: str, check: str | None, form: "Format", **values: Any
) -> None:
    """Print the manifests of the jobs in FILES.

    FILE is a file, a folder, or - for stdin. It contains job files, or custom resources of an
    operator. All other objects pass through unchanged.

    \b
    Examples:
      mlgen render job.yaml | kubectl apply -f -
      mlgen render jobs/ -o k8s/                      # one file per object
      mlgen render jobs/ --check k8s/                 # exit 3 if k8s/ is out of date
      mlgen render job.yaml --set spec.roles.worker.replicas=8 -n vision
      mlgen render job.yaml --matrix 'args.lr=[1e-4, 1e-5]'
      mlgen render tfjob.yaml                         # a custom resource
      mlgen render job.yaml --for argocd
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if check is not None and output != "-":
        raise click.UsageError("--output and --check are mutually exclusive")
    if check is None and not (output.endswith("/") or (output and Path(output).is_dir())):
        refuse_inputs([output], files)
        if output != "-" and not Path(output).suffix and not Path(output).exists():
            raise click.UsageError(
                f"--output {output}: write {output}/ for a folder, or {output}.yaml for a file"
            )
        result = _rendered(files, values, form)
        write(output, joined(result.texts(), form))
        _say_what_is_next(result, files, output)
        return
    folder = Path(output if check is None else check)
    if form != "yaml":
        raise click.UsageError("--format has no effect on a folder, which gets YAML files; omit it")
    if folder.resolve() in [Path(name).resolve() for name in files]:
        raise click.UsageError(
            f"{folder} is both input and output; use another folder for the output"
        )
    if check is not None:
        without_totals()
    result = _rendered(files, values, "folder")
    _write_folder(folder, result, files, check=check is not None)


def _rendered(files: tuple[str, ...], values: dict[str, Any], form: "Form") -> "Printed":
    """Render files, and print the problems. Exit with status 1 if one is an error.

    Objects that cannot be written to a folder are reported only if there is no other error.
    """
    result = printed(files, values, form)
    report(result.walk.problems)
    if not result.walk.has_errors:
        report(result.misplaced)
    if result.walk.has_errors or result.misplaced:
        sys.exit(1)
    return result


def _write_folder(folder: Path, result: "Printed", files: tuple[str, ...], *, check: bool) -> None:
    """Update a folder. With check, print its changes instead, and exit with status 3 if any."""
    try:
        change = checked(lambda: changes(folder, result.files(), result.programs))
        if not check:
            refuse_inputs((folder / name for name in change.names), files)
            update(folder, change)
            _say_what_is_next(result, files, str(folder))
            return
    except OSError as error:
        action = "read" if check else "written"
        raise click.ClickException(f"{folder}: cannot be {action}: {error.strerror}") from None
    if change.names:
        # A patch contains every character of the files, so control characters are escaped on a
        # terminal.
        for patch in diff(folder, change):
            write_page(patch) if sys.stdout.isatty() else write("-", patch)
        count = f"{len(change.names)} file{'s' if len(change.names) > 1 else ''}"
        hint = f"to update it, use -o {folder}/ instead of --check"
        click.echo(f"{folder} is stale: {count} would change; {hint}", err=True)
        sys.exit(3)


def _say_what_is_next(result: "Printed", files: tuple[str, ...], output: str) -> None:
    """Print the next commands at a terminal, without `kubectl apply` if a GitOps tool applies."""

    def text() -> str:
        target = click.get_current_context().params["target"]
        by_hand = output if output != "-" and target is None else None
        walk = result.walk
        return next_steps(walk.jobs, files, written_options(), by_hand, walk.problems)

    footer(text)


@click.command("argo", cls=Command)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=FILE, callback=parsed(one_stdin))
@output
@click.option(
    "--template",
    is_flag=True,
    help="Print the WorkflowTemplate mlgen-train and the permissions of its step, without FILES.",
)
@click.option(
    "--cron",
    metavar="SCHEDULE",
    callback=parsed(schedule),
    help="Print a CronWorkflow that runs the jobs on this schedule, such as '0 2 * * 6'.",
)
@click.option("--step", is_flag=True, help="Print only the step, for your own Workflow.")
@click.option("--no-workflow", is_flag=True, help="Omit the Workflow, so that no job starts.")
@click.option(
    "--backoff-seconds",
    type=click.IntRange(min=0),
    metavar="N",
    help="Wait N seconds before the second attempt. The delay doubles before each further attempt,"
    " up to 300 seconds.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N combinations of a matrix at the same time. Default: all.",
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Start no further combinations of a matrix after one has failed.",
)
@rendering
@only_jobs
@strict
@reporting
def argo(
    files: tuple[str, ...],
    output: str,
    *,
    template: bool,
    cron: str | None,
    no_workflow: bool,
    **values: Any,
) -> None:
    """Render the jobs in FILES for Argo Workflows.

    Print two objects for each job: a ConfigMap with its manifests, its policies and the program
    that applies them, and a Workflow that calls the WorkflowTemplate mlgen-train. Before
    them, print the objects that the workflow is not allowed to create. One Workflow runs all
    combinations of a matrix. All other objects in FILES pass through unchanged.

    \b
    Examples:
      mlgen argo --template -n vision | kubectl apply --server-side -f -  # once per namespace
      mlgen argo job.yaml -n vision | kubectl apply --server-side -f -
      mlgen argo job.yaml --cron '0 2 * * 6'          # Saturdays at 2:00
      mlgen argo job.yaml --step                      # a step for your own Workflow
      mlgen argo job.yaml --backoff-seconds 30
      mlgen argo job.yaml --matrix 'args.lr=[1e-4, 1e-5, 1e-6]' --parallelism 2
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.integrations.argo import Form, argo, installation

    step = values.pop("step")
    if sum((template, cron is not None, step, no_workflow)) > 1:
        forms = "--template, --cron, --step and --no-workflow"
        raise click.UsageError(f"{forms} are mutually exclusive")
    steps = ("backoff_seconds", "parallelism", "fail_fast")
    more = {name: values.pop(name) for name in steps}
    if not files:
        if not template:
            raise click.UsageError("Missing argument 'FILE...'.")
        if any(value is not None and value is not False for value in more.values()):
            raise click.UsageError("--template has no other options than --namespace and --output")
        config = site()
        write(output, installation(values["namespace"] or (config and config.namespace)))
        return
    if template:
        message, place = "its old name --template is deprecated", Place("--step", 0)
        report([Problem((), message, "deprecated", "write --step", warning=True, place=place)])
    if (step or template or no_workflow) and (more["parallelism"] or more["fail_fast"]):
        raise click.UsageError(
            "--parallelism and --fail-fast apply to a Workflow, which --step and --no-workflow omit"
        )
    form = Form(schedule=cron, step=step or template, workflow=not no_workflow, **more)
    refuse_inputs([output], files)
    options = Options(**values, workflow=True)
    write(output, with_warnings(lambda: argo(read(files), options, form)).parts)


@click.command("convert", cls=Command)
@files
@output
@runtimes
@no_config
@only_jobs
@strict
@reporting
def convert(files: tuple[str, ...], output: str, **values: Any) -> None:
    """Print the equivalent job files of the custom resources in FILES.

    Job files and all other objects pass through unchanged. Differences from the operator's behavior
    are reported on stderr.

    \b
    Examples:
      mlgen convert tfjob.yaml -o job.yaml
      kubectl get mpijob cfd -o yaml | mlgen convert -
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.conversion import convert

    refuse_inputs([output], files)
    options = Options(**values, site=site())
    write(output, with_warnings(lambda: convert(read(files), options)).text)
