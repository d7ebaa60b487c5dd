"""mlgen convert."""

import click

from mlgen.cli._options import FILES, OUTPUT
from mlgen.cli._report import checked, write


@click.command("convert")
@FILES
@OUTPUT
def command(files: tuple[str, ...], output: str) -> None:
    """Print the equivalent job files of the custom resources in FILES.

    Job files and all other objects pass through unchanged. Differences from the behavior of the
    operator are reported on stderr.
    """
    from mlgen import convert

    text, _ = checked(lambda: convert(files), lambda result: result[1])
    write(output, text)
