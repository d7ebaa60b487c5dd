"""mlgen convert."""

import click

from mlgen.cli._options import FILES, OUTPUT, reporting
from mlgen.cli._report import checked, read, refuse_inputs, write
from mlgen.conversion import convert


@click.command("convert")
@FILES
@OUTPUT
@reporting
def command(files: tuple[str, ...], output: str) -> None:
    """Print the equivalent job files of the custom resources in FILES.

    Job files and all other objects pass through unchanged. Differences from the behavior of the
    operator are reported on stderr.

    \b
    Examples:
      mlgen convert tfjob.yaml -o job.yaml
      kubectl get mpijob cfd -o yaml | mlgen convert -
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    refuse_inputs([output], files)
    text, _ = checked(lambda: convert(read(files)), lambda result: result[1])
    write(output, text)
