"""mlgen render."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli._options import FILES, SUPERVISOR, TARGET, rendering
from mlgen.cli._report import checked, write

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
    help="Write nothing; print how DIR would change, and exit with status 3 if it would.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Print YAML documents, or one List in JSON.",
)
def command(
    files: tuple[str, ...], output: str, check: str | None, form: "Format", **given: Any
) -> None:
    """Print the manifests of the jobs in FILES.

    A job is a job file, or a custom resource of an operator, unchanged. All other objects pass
    through unchanged. A FILE can be a file, a folder of files, or - for standard input.
    """
    from mlgen.output.manifests import text

    if check is not None and output != "-":
        raise click.UsageError("--output and --check are mutually exclusive")
    if check is None and not (output.endswith("/") or (output and Path(output).is_dir())):
        write(output, text(_result(files, given).parts, form))
        return
    folder = Path(output if check is None else check)
    if form != "yaml":
        raise click.UsageError("a folder holds YAML files only; leave --format out")
    if folder.resolve() in [Path(name).resolve() for name in files]:
        raise click.UsageError(f"{folder} is both input and output")
    _folder(folder, _result(files, given), check=check is not None)


def _result(files: tuple[str, ...], given: dict[str, Any]) -> "Result":
    from mlgen import Options, validate

    return checked(lambda: validate(files, Options(**given)), lambda result: result.warnings)


def _folder(folder: Path, result: "Result", *, check: bool) -> None:
    """Bring a folder up to date, or print what would change."""
    from mlgen.output.folder import changes, diff, texts, update

    try:
        change = checked(lambda: changes(folder, texts(result.parts)), lambda _: ())
        if not check:
            update(folder, change)
            return
    except OSError as error:
        done = "read" if check else "written"
        raise click.ClickException(f"{folder}: cannot be {done}: {error.strerror}") from None
    if change.names:
        write("-", diff(folder, change))
        count = f"{len(change.names)} file{'s' if len(change.names) > 1 else ''}"
        hint = f"update it with -o {folder}/ in place of --check"
        click.echo(f"{folder} is stale: {count} would change; {hint}", err=True)
        sys.exit(3)
