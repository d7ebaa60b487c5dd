"""mlgen argocd."""

import os

import click

from mlgen.cli._options import ONLY_JOBS, reporting
from mlgen.cli._report import checked, write
from mlgen.integrations import argocd


@click.group("argocd")
def command() -> None:
    """Run as an Argo CD config management plugin.

    Argo CD runs these commands in the folder of an Application, as integrations/argocd configures
    it, and passes everything else in the environment.

    \b
    Examples:
      mlgen argocd init && mlgen argocd generate      # as the sidecar does
      mlgen argocd parameters
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash


@command.command("init")
@ONLY_JOBS
@reporting
def init(*, only_jobs: bool) -> None:
    """Fail if generate cannot succeed.

    Check the parameters, the version of the cluster and the names of the files. Do not read the
    files, and print nothing on success.
    """
    checked(lambda: argocd.init(os.environ, only_jobs=only_jobs), lambda warnings: warnings)


@command.command("generate")
@ONLY_JOBS
@reporting
def generate(*, only_jobs: bool) -> None:
    """Print the manifests of the folder.

    They are those of render --for argocd. A folder without a job is an error, because Argo CD
    deletes objects that are missing from the output.
    """
    text, _ = checked(
        lambda: argocd.generate(os.environ, only_jobs=only_jobs), lambda result: result[1]
    )
    write("-", text)


@command.command("parameters")
def parameters() -> None:
    """Print the parameters for the user interface as JSON.

    If the folder holds exactly one job, they include its images and numbers of replicas.
    """
    click.echo(argocd.parameters(os.environ))
