"""mlgen diff."""

import sys
from typing import Any

import click

from mlgen import Options, diff
from mlgen.cli import _complete
from mlgen.cli._options import SUPERVISOR, TARGET, rendering, reporting
from mlgen.cli._report import checked, reading, write_page


@click.command("diff")
@click.argument("sides", nargs=-1, required=True, metavar="OLD NEW", shell_complete=_complete.files)
@click.option(
    "--live", is_flag=True, help="Compare NEW with the objects in the cluster; requires kubectl."
)
@rendering
@SUPERVISOR
@TARGET
@reporting
def command(sides: tuple[str, ...], *, live: bool, **values: Any) -> None:
    """Preview the effect of applying NEW over OLD.

    Print which fields change, what the API server rejects, which pods restart, and what to do.
    OLD and NEW are each a file, a folder, or - for standard input, with job files, custom resources
    or rendered manifests. The options apply to both. With --live, give NEW alone.

    Exit status: 0 no differences; 3 differences; 1 the input is wrong.

    \b
    Examples:
      mlgen diff old.yaml job.yaml
      mlgen diff --live job.yaml                      # against the cluster
      git show HEAD:job.yaml | mlgen diff - job.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if len(sides) != (1 if live else 2):
        raise click.UsageError("expected NEW alone with --live" if live else "expected OLD and NEW")
    if sides.count("-") > 1:
        raise click.UsageError("only one of OLD and NEW can be -")
    options = Options(**values)
    with reading(sides[:-1]) as old, reading(sides[-1:]) as new:
        comparison = checked(
            lambda: diff.cluster(new, options) if live else diff.files(old, new, options),
            lambda comparison: comparison.warnings,
        )
    if comparison.text:
        write_page(comparison.text)
        sys.exit(3)
