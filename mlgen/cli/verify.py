"""mlgen verify."""

from typing import TYPE_CHECKING

import click

from mlgen.checks.verify import verify
from mlgen.cli._options import FILES, reporting, versioned
from mlgen.cli._report import checked, findings, reading

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion


@click.command("verify")
@FILES
@versioned
@reporting
def command(files: tuple[str, ...], kube_version: "KubeVersion") -> None:
    """Check the rendered manifests in FILES after other tools have changed them.

    For each job, check that the names, labels, addresses and permissions in its objects still match
    each other, for example after a kustomize overlay.

    \b
    Examples:
      kubectl kustomize overlay | mlgen render - | mlgen verify -
      helm template chart | mlgen render - | mlgen verify -
      mlgen verify k8s/
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    with reading(files) as texts:
        jobs = checked(lambda: verify(texts, kube_version))
    findings(map(str, jobs))
