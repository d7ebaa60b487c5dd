"""mlgen verify."""

from typing import TYPE_CHECKING

import click

from mlgen.cli._options import FILES, KUBE_VERSION
from mlgen.cli._report import checked

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion


@click.command("verify")
@FILES
@KUBE_VERSION
def command(files: tuple[str, ...], kube_version: "KubeVersion") -> None:
    """Check the rendered manifests in FILES after other tools have changed them.

    For each job, check that the names, labels, addresses and permissions in its objects still match
    each other, for example after a kustomize overlay.

    \b
    kustomize build overlay | mlgen verify -
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.checks.verify import verify
    from mlgen.documents.files import texts

    for job in checked(lambda: verify(texts(files), kube_version), lambda _: ()):
        click.echo(f"{job}")
