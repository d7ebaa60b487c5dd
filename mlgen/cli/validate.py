"""mlgen validate."""

import sys
from typing import Any

import click

from mlgen.cli._options import FILES, JOBS, ONLY_JOBS, SUPERVISOR, TARGET, rendering, reporting
from mlgen.cli._report import findings, gathered, report


@click.command("validate")
@FILES
@rendering
@SUPERVISOR
@ONLY_JOBS
@TARGET
@JOBS
@reporting
def command(files: tuple[str, ...], jobs: int, **values: Any) -> None:
    """Check the jobs in FILES as render does.

    Print one line per valid job, and every problem of the others, on stdout. To see what a
    job consists of, use mlgen show.

    \b
    Examples:
      mlgen validate job.yaml
      mlgen validate jobs/ --problems github          # in a pull request
      mlgen validate jobs/ --kube-version 1.31        # before a cluster's upgrade
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    result = gathered(files, values, "verdict", jobs)
    findings(result.texts())
    report(result.problems)
    if result.has_errors:
        sys.exit(1)
