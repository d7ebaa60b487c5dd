"""mlgen render."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli import _complete
from mlgen.cli._options import (
    FILES,
    JOBS,
    ONLY_JOBS,
    SUPERVISOR,
    TARGET,
    rendering,
    reporting,
    written_options,
)
from mlgen.cli._report import (
    checked,
    footer,
    gathered,
    refuse_inputs,
    report,
    without_totals,
    write,
    write_page,
)
from mlgen.output.folder import changes, diff, update
from mlgen.output.manifests import joined
from mlgen.output.next_steps import next_steps

if TYPE_CHECKING:
    from mlgen.bulk import Form, Gathered
    from mlgen.output.manifests import Format


@click.command("render")
@FILES
@rendering
@SUPERVISOR
@ONLY_JOBS
@TARGET
@JOBS
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE|DIR",
    shell_complete=_complete.files,
    help="Write to FILE instead of standard output, once everything has succeeded. In an existing"
    " folder, or one whose name ends with /, write one file per object and remove those of earlier"
    " renders.",
)
@click.option(
    "--check",
    metavar="DIR",
    shell_complete=_complete.folders,
    help="Print how --output DIR would change DIR, and exit with status 3 if it would.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Print YAML documents, or a List as JSON.",
)
@reporting
def command(
    files: tuple[str, ...], output: str, check: str | None, form: "Format", jobs: int, **values: Any
) -> None:
    """Print the manifests of the jobs in FILES.

    A job is a job file, or an existing custom resource of an operator. All other objects pass
    through unchanged. FILE can be a file, a folder of files, or - for standard input.

    \b
    Examples:
      mlgen render job.yaml | kubectl apply -f -
      mlgen render jobs/ -o k8s/                      # one file per object
      mlgen render jobs/ --check k8s/                 # is k8s/ up to date?
      mlgen render jobs/ -o k8s/ --jobs 0             # on all cores
      mlgen render job.yaml --set spec.roles.worker.replicas=8 -n vision
      mlgen render job.yaml --matrix 'args.lr=[1e-4, 1e-5]'
      mlgen render tfjob.yaml                         # an operator's resource
      mlgen render job.yaml --for argocd
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if check is not None and output != "-":
        raise click.UsageError("--output and --check are mutually exclusive")
    if check is None and not (output.endswith("/") or (output and Path(output).is_dir())):
        refuse_inputs([output], files)
        result = _rendered(files, values, form, jobs)
        write(output, joined(result.texts(), form))
        _say_what_is_next(result, files, output)
        return
    folder = Path(output if check is None else check)
    if form != "yaml":
        raise click.UsageError("a folder is written as YAML files; omit --format")
    if folder.resolve() in [Path(name).resolve() for name in files]:
        raise click.UsageError(
            f"{folder} is both input and output; use another folder for the output"
        )
    if check is not None:
        without_totals()
    result = _rendered(files, values, "folder", jobs)
    _write_folder(folder, result, files, check=check is not None)


def _rendered(
    files: tuple[str, ...], values: dict[str, Any], form: "Form", jobs: int
) -> "Gathered":
    """Return what files render to, and print the problems; exit with status 1 if one is an error.

    Objects that cannot be written to a folder are reported if there is nothing else.
    """
    result = gathered(files, values, form, jobs)
    report(result.problems)
    if not result.has_errors:
        report(result.misplaced)
    if result.has_errors or result.misplaced:
        sys.exit(1)
    return result


def _write_folder(folder: Path, result: "Gathered", files: tuple[str, ...], *, check: bool) -> None:
    """Update a folder; or print how it would change, and exit with status 3 if it would."""
    try:
        change = checked(lambda: changes(folder, result.files()))
        if not check:
            refuse_inputs((folder / name for name in change.names), files)
            update(folder, change)
            _say_what_is_next(result, files, str(folder))
            return
    except OSError as error:
        action = "read" if check else "written"
        raise click.ClickException(f"{folder}: cannot be {action}: {error.strerror}") from None
    if change.names:
        # A patch keeps every character, but a terminal must not obey those of a file.
        patch = diff(folder, change)
        write_page(patch) if sys.stdout.isatty() else write("-", patch)
        count = f"{len(change.names)} file{'s' if len(change.names) > 1 else ''}"
        hint = f"to update it, use -o {folder}/ instead of --check"
        click.echo(f"{folder} is stale: {count} would change; {hint}", err=True)
        sys.exit(3)


def _say_what_is_next(result: "Gathered", files: tuple[str, ...], output: str) -> None:
    """Name the next commands to a person at a terminal; a GitOps tool applies what is for it."""

    def text() -> str:

        target = click.get_current_context().params["target"]
        by_hand = output if output != "-" and target is None else None
        return next_steps(result.jobs, files, written_options(), by_hand, result.problems)

    footer(text)
