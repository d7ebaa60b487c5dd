"""mlgen frameworks."""

import click

from mlgen.frameworks import get, names


@click.command("frameworks")
def command() -> None:
    """List the frameworks and their roles.

    \b
    Examples:
      mlgen frameworks
      mlgen explain pytorch           # more about one of them
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    width = max(len(name) for name in names())
    for name in names():
        framework = get(name)
        click.echo(f"{name:{width}}  {framework.summary}")
        click.echo(f"{'':{width}}  roles: {', '.join(framework.roles or ('any',))}")
