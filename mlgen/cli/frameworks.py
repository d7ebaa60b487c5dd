"""mlgen frameworks."""

import click


@click.command("frameworks")
def command() -> None:
    """List the frameworks and their roles."""
    from mlgen.frameworks import get, names

    width = max(len(name) for name in names())
    for name in names():
        framework = get(name)
        click.echo(f"{name:{width}}  {framework.summary}")
        click.echo(f"{'':{width}}  roles: {', '.join(framework.roles or ('any',))}")
