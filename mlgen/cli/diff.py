"""mlgen diff."""

import sys
from typing import Any

import click

from mlgen.cli._options import SUPERVISOR, TARGET, rendering
from mlgen.cli._report import checked, write


@click.command("diff")
@click.argument("sides", nargs=-1, required=True, metavar="OLD NEW")
@click.option(
    "--live", is_flag=True, help="Compare NEW with the objects in the cluster; requires kubectl."
)
@rendering
@SUPERVISOR
@TARGET
def command(sides: tuple[str, ...], *, live: bool, **values: Any) -> None:
    """Preview the effect of applying NEW over OLD.

    Print which fields change, what the API server rejects, which pods restart, and what to do.
    OLD and NEW are each a file, a folder, or - for standard input, with job files, custom resources
    or rendered manifests. The options apply to both. With --live, give NEW alone.

    Exit status: 0 no differences; 3 differences; 1 the input is wrong.
    """
    from mlgen import Options, diff

    if len(sides) != (1 if live else 2):
        raise click.UsageError("expected NEW alone with --live" if live else "expected OLD and NEW")
    if sides.count("-") > 1:
        raise click.UsageError("only one of OLD and NEW can be -")
    options = Options(**values)
    new = sides[-1]
    comparison = checked(
        lambda: diff.cluster(new, options) if live else diff.files(sides[0], new, options),
        lambda comparison: comparison.warnings,
    )
    if comparison.text:
        write("-", comparison.text)
        sys.exit(3)
