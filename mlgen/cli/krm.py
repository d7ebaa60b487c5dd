"""mlgen krm."""

import sys
from typing import Any

import click

from mlgen.cli._options import SUPERVISOR, TARGET, rendering
from mlgen.cli._report import report, write


@click.command("krm")
@rendering
@SUPERVISOR
@TARGET
def command(**values: Any) -> None:
    """Run as a KRM function of kustomize or kpt.

    Read a ResourceList from standard input, and print it with every job replaced by its manifests.
    If its functionConfig is a job, add the manifests of that job. A ConfigMap as functionConfig
    sets these options: for, kube-version, namespace, set and supervisor.
    """
    from mlgen import Options
    from mlgen.documents.files import texts
    from mlgen.integrations.kustomize import krm
    from mlgen.problems import Collector

    (text,) = texts(("-",))
    resource_list, problems = krm(text, Options(**values))
    report(problems)
    write("-", resource_list)
    if Collector(problems).has_errors:
        sys.exit(1)
