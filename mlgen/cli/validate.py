"""mlgen validate."""

from typing import Any

import click

from mlgen.cli._options import FILES, SUPERVISOR, TARGET, rendering
from mlgen.cli._report import checked


@click.command("validate")
@FILES
@rendering
@SUPERVISOR
@TARGET
def command(files: tuple[str, ...], **values: Any) -> None:
    """Check the jobs in FILES as render does.

    For each job, print its roles, the PodSecurity level that its pods meet, and what violates the
    next stricter level.
    """
    from mlgen import Options, validate
    from mlgen.output.summary import pod_security, summary

    result = checked(lambda: validate(files, Options(**values)), lambda result: result.warnings)
    for rendered in result.jobs:
        click.echo(f"{rendered.file}: valid")
        click.echo(summary(rendered.topology))
        click.echo(pod_security(rendered))
