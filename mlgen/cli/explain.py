"""mlgen explain."""

import click

from mlgen.cli import _complete
from mlgen.reference import pages


@click.command("explain")
@click.argument("topic", required=False, shell_complete=_complete.topics)
@click.option("--recursive", is_flag=True, help="Print all fields in a field, as a tree.")
def command(topic: str | None, *, recursive: bool) -> None:
    """Explain a field, a framework or a problem code.

    Without TOPIC, list the fields of a job file. The path of a field may start below spec, and its
    last name alone is enough: restartPolicy.

    \b
    Examples:
      mlgen explain spec.roles.worker.restartPolicy    # type, default, values, meaning, example
      mlgen explain spec.runPolicy --recursive         # all fields in it
      mlgen explain pytorch                            # roles, variables, ports, options
      mlgen explain no-such-peer                       # what a problem code means
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    try:
        click.echo(pages.page(topic or "", recursive=recursive), nl=False)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from None
