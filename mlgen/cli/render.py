"""mlgen render."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._options import FILES, SUPERVISOR, TARGET, rendering
from mlgen.cli._report import checked, refuse_inputs, report_others, write

if TYPE_CHECKING:
    from mlgen.output.manifests import Format
    from mlgen.result import Result


@click.command("render")
@FILES
@rendering
@SUPERVISOR
@TARGET
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE|DIR",
    help="Write to FILE instead of standard output, once everything has succeeded. In an existing"
    " folder, or one whose name ends with /, write one file per object and remove those of earlier"
    " renders.",
)
@click.option(
    "--check",
    metavar="DIR",
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
def command(
    files: tuple[str, ...], output: str, check: str | None, form: "Format", **values: Any
) -> None:
    """Print the manifests of the jobs in FILES.

    A job is a job file, or an existing custom resource of an operator. All other objects pass
    through unchanged. FILE can be a file, a folder of files, or - for standard input.
    """
    from mlgen.output.manifests import text

    if check is not None and output != "-":
        raise click.UsageError("--output and --check are mutually exclusive")
    if check is None and not (output.endswith("/") or (output and Path(output).is_dir())):
        refuse_inputs([output], files)
        result = _result(files, values)
        write(output, text(result.parts, form))
        report_others(result)
        return
    folder = Path(output if check is None else check)
    if form != "yaml":
        raise click.UsageError("a folder is written as YAML files; omit --format")
    if folder.resolve() in [Path(name).resolve() for name in files]:
        raise click.UsageError(
            f"{folder} is both input and output; use another folder for the output"
        )
    _write_folder(folder, _result(files, values), files, check=check is not None)


def _result(files: tuple[str, ...], values: dict[str, Any]) -> "Result":
    from mlgen import Options, validate

    return checked(lambda: validate(files, Options(**values)), lambda result: result.warnings)


def _write_folder(folder: Path, result: "Result", files: tuple[str, ...], *, check: bool) -> None:
    """Update a folder; or print how it would change, and exit with status 3 if it would."""
    from mlgen.output.folder import changes, diff, texts, update

    try:
        change = checked(lambda: changes(folder, texts(result.parts)), lambda _: ())
        if not check:
            refuse_inputs((folder / name for name in change.names), files)
            update(folder, change)
            report_others(result)
            return
    except OSError as error:
        action = "read" if check else "written"
        raise click.ClickException(f"{folder}: cannot be {action}: {error.strerror}") from None
    if change.names:
        write("-", diff(folder, change))
        count = f"{len(change.names)} file{'s' if len(change.names) > 1 else ''}"
        hint = f"to update it, use -o {folder}/ instead of --check"
        click.echo(f"{folder} is stale: {count} would change; {hint}", err=True)
        sys.exit(3)
