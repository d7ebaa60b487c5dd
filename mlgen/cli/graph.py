"""mlgen graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli import _complete
from mlgen.cli._options import SUPERVISOR, read_files, rendering, reporting
from mlgen.cli._report import refuse_inputs, rendered, write

if TYPE_CHECKING:
    from mlgen.graph import Format


def _read_file(context: Any, parameter: Any, value: str) -> str:
    read_files(context, parameter, (value,))
    return value


def _format_of(output: str) -> "Format":
    """Return the format for the suffix of a file; mermaid if it has none."""
    from mlgen.graph import SUFFIXES

    ending = Path(output).suffix.lower()
    if ending and ending not in SUFFIXES:
        raise click.UsageError(
            f"unknown file type {ending}; use .mmd, .dot or .svg, or add --format"
        )
    return SUFFIXES.get(ending, "mermaid")


@click.command("graph")
@click.argument("file", metavar="FILE", callback=_read_file, shell_complete=_complete.files)
@rendering
@reporting
@SUPERVISOR
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "dot", "svg"]),
    help="Print a Mermaid flowchart, a graph for Graphviz, or an SVG picture. The default is that"
    " of the ending of --output, or else mermaid. For svg, the program dot of Graphviz must be"
    " installed, whose versions draw the same graph a little differently.",
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    help="Write to FILE instead of standard output. Its ending chooses the format: .mmd, .dot or"
    " .svg.",
)
def command(file: str, form: "Format | None", output: str, **values: Any) -> None:
    """Draw the roles of a job and how they depend on each other.

    A box is a role with its replicas, and an arrow leads to what a role waits for. The picture also
    shows the deciding Job, the headless Service around the roles, the supervisor, and the claims,
    Secrets and ConfigMaps that the roles use. FILE must contain one job.

    \b
    Examples:
      mlgen graph job.yaml                # Mermaid, for a Markdown page
      mlgen graph job.yaml -o job.svg     # through Graphviz
      mlgen graph job.yaml --format dot | dot -Tpng > job.png
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.graph import drawing
    from mlgen.graph.dot import GraphvizError

    refuse_inputs([output], [file])
    chosen = form or _format_of(output)
    jobs = rendered((file,), values, totals=False).jobs
    if len(jobs) != 1:
        raise click.UsageError(f"{file} has {len(jobs) or 'no'} jobs; a picture shows one")
    try:
        text = drawing(jobs[0], chosen)
    except GraphvizError as error:
        raise click.ClickException(f"--format {chosen}: {error}") from None
    write(output, text)
