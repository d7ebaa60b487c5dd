"""mlgen validate."""

from typing import Any

import click

from mlgen.cli._options import FILES, SUPERVISOR, TARGET, rendering
from mlgen.cli._report import checked, report_others


@click.command("validate")
@FILES
@rendering
@SUPERVISOR
@TARGET
def command(files: tuple[str, ...], **values: Any) -> None:
    """Check the jobs in FILES as render does.

    For each job, print its roles, the resources of its pods, and what it needs that is not in
    FILES: Secrets, claims, a scheduler. Also print the PodSecurity level that its pods meet, and
    what violates the next stricter level.
    """
    from mlgen import Options, validate
    from mlgen.output.summary import needs, pod_security, resources, summary

    result = checked(lambda: validate(files, Options(**values)), lambda result: result.warnings)
    for job in result.jobs:
        click.echo(f"{job.file}: valid")
        for part in (summary, resources, needs, pod_security):
            if part(job):
                click.echo(part(job))
    report_others(result)
