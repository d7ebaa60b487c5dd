"""mlgen ssh-secret."""

import click

from mlgen.cli._options import read_namespace


@click.command("ssh-secret")
@click.argument("name")
@click.option("-n", "--namespace", callback=read_namespace, help="Set the Secret's namespace.")
def command(name: str, namespace: str | None) -> None:
    """Print a Secret with a new pair of ssh keys, for MPI over ssh.

    \b
    mlgen ssh-secret resnet-ssh | kubectl apply -f -
    """  # noqa: D301 - the character, not the two, tells click not to wrap
    from mlgen.output.ssh_secret import secret

    try:
        click.echo(secret(name, namespace), nl=False)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
