"""mlgen ssh-secret."""

import click

from mlgen.cli._options import read_namespace
from mlgen.output.ssh_secret import secret


@click.command("ssh-secret")
@click.argument("name")
@click.option("-n", "--namespace", callback=read_namespace, help="Set the namespace of the Secret.")
def command(name: str, namespace: str | None) -> None:
    """Print a Secret with a new pair of ssh keys.

    Jobs that use MPI over ssh need it; the keys are different each time.

    \b
    Examples:
      mlgen ssh-secret resnet-ssh | kubectl apply -f -
      mlgen ssh-secret resnet-ssh -n vision > secret.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    try:
        click.echo(secret(name, namespace), nl=False)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from None
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
