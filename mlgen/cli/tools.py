"""The commands that other tools run: helm-post-render, krm, argocd."""

import os
import sys
from typing import Any

import click

from mlgen import Options
from mlgen.cli._options import (
    Command,
    as_jobset,
    for_gitops,
    kube_version,
    matrix,
    namespace,
    no_config,
    only_jobs,
    reporting,
    settings,
    strict,
    supervisor,
)
from mlgen.cli._report import checked, hint_at_stdin, report, with_warnings, write


class _ForHelm(Command):
    """A command that also reports usage errors to Helm 4, which discards stderr."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            self.on_failure(error.format_message())
            raise

    def on_failure(self, message: str) -> None:
        """Report an error to the user of Helm."""
        from mlgen.integrations.helm import report_failure

        report_failure(message, os.environ)


@click.command("helm-post-render", cls=_ForHelm)
@kube_version
@namespace
@settings
@matrix
@no_config
@supervisor
@as_jobset
@only_jobs
@strict
@reporting
def helm_post_render(**values: Any) -> None:
    """Run as a Helm post-renderer.

    Replace every job in the manifests of a chart with its manifests. All other manifests pass
    through byte for byte.

    With Helm 4, install the plugin first: helm plugin install integrations/helm. With Helm 3, add
    the option --post-renderer-args helm-post-render.

    \b
    Examples:
      helm install NAME CHART --post-renderer mlgen
      helm template CHART | mlgen helm-post-render
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.documents.files import standard_input
    from mlgen.integrations.helm import run

    hint_at_stdin()
    options = Options(**values)
    result = with_warnings(lambda: run(standard_input(), options, os.environ))
    sys.stdout.buffer.writelines(result.parts)
    sys.stdout.buffer.flush()


@click.command("krm", cls=Command)
@kube_version
@namespace
@settings
@matrix
@no_config
@supervisor
@as_jobset
@only_jobs
@strict
@for_gitops
@reporting
def krm(**values: Any) -> None:
    """Run as a KRM function for kustomize or kpt.

    Read a ResourceList from stdin, and print it with every job replaced by its manifests. If its
    functionConfig is a job, add the manifests of that job. A ConfigMap as functionConfig sets these
    options: for, kube-version, namespace, only-jobs, set, strict and supervisor.

    \b
    Examples:
      mlgen krm < resource-list.yaml
      kustomize build overlay --enable-alpha-plugins --enable-exec   # calls mlgen krm
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.documents.files import texts
    from mlgen.integrations.kustomize import krm

    hint_at_stdin()
    (text,) = texts(("-",))
    parts, problems = krm(text, Options(**values))
    report(problems)
    write("-", parts)
    if any(not problem.warning for problem in problems):
        sys.exit(1)


@click.group("argocd")
def argocd() -> None:
    """Run as an Argo CD config management plugin.

    Argo CD runs these commands in the folder of an Application, and passes its parameters in the
    environment. integrations/argocd contains the configuration.

    \b
    Examples:
      mlgen argocd init && mlgen argocd generate      # as the sidecar does
      mlgen argocd parameters
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash


@argocd.command("init", cls=Command)
@only_jobs
@strict
@reporting
def init(*, only_jobs: bool, strict: bool) -> None:
    """Check that generate can succeed.

    Check the parameters, the Kubernetes version of the cluster and the file names, but not the
    content of files. On success, the output is empty.
    """
    from mlgen.integrations import argocd

    report(checked(lambda: argocd.init(os.environ, only_jobs=only_jobs, strict=strict)))


@argocd.command("generate", cls=Command)
@only_jobs
@strict
@reporting
def generate(*, only_jobs: bool, strict: bool) -> None:
    """Print the manifests of the folder.

    The output equals mlgen render --for argocd. A folder without a job is an error, because Argo CD
    deletes objects that are missing from the output.
    """
    from mlgen.integrations import argocd

    result = with_warnings(lambda: argocd.generate(os.environ, only_jobs=only_jobs, strict=strict))
    write("-", result.parts)


@argocd.command("parameters")
def argocd_parameters() -> None:
    """Print the parameters for the Argo CD user interface as JSON.

    If the folder contains exactly one job, they include its images and numbers of replicas.
    """
    from mlgen.integrations import argocd

    click.echo(argocd.parameters(os.environ))
