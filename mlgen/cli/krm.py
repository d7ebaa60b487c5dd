"""mlgen krm."""

import sys
from typing import Any

import click

from mlgen import Options
from mlgen.cli._options import ONLY_JOBS, SUPERVISOR, TARGET, rendering, reporting
from mlgen.cli._report import hint_at_stdin, report, write
from mlgen.documents.files import texts
from mlgen.integrations.kustomize import krm
from mlgen.problems import Collector


@click.command("krm")
@rendering
@SUPERVISOR
@ONLY_JOBS
@TARGET
@reporting
def command(**values: Any) -> None:
    """Run as a KRM function of kustomize or kpt.

    Read a ResourceList from standard input, and print it with every job replaced by its manifests.
    If its functionConfig is a job, add the manifests of that job. A ConfigMap as functionConfig
    sets these options: for, kube-version, namespace, set and supervisor.

    \b
    Examples:
      mlgen krm < resource-list.yaml
      kustomize build overlay --enable-alpha-plugins --enable-exec   # calls mlgen krm
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    hint_at_stdin()
    (text,) = texts(("-",))
    resource_list, problems = krm(text, Options(**values))
    report(problems)
    write("-", resource_list)
    if Collector(problems).has_errors:
        sys.exit(1)
