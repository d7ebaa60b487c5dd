"""mlgen argo."""

from typing import Any

import click

from mlgen.cli._options import FILES, OUTPUT, read_schedule, rendering
from mlgen.cli._report import checked, refuse_inputs, write


@click.command("argo")
@FILES
@rendering
@OUTPUT
@click.option(
    "--cron",
    callback=read_schedule,
    metavar="SCHEDULE",
    help="Print a CronWorkflow that runs the jobs at these times, such as '0 2 * * 6'.",
)
@click.option("--template", is_flag=True, help="Print only the step, for a Workflow of your own.")
@click.option("--no-workflow", is_flag=True, help="Omit the Workflow, so that nothing starts.")
@click.option(
    "--backoff-seconds",
    type=click.IntRange(min=0),
    metavar="N",
    help="Wait N seconds before the second attempt, and twice as long before each further one.",
)
@click.option(
    "--retry-oom", is_flag=True, help="Retry after a container exceeded its memory limit."
)
def command(files: tuple[str, ...], output: str, **values: Any) -> None:
    """Render the jobs in FILES for Argo Workflows.

    Print a ConfigMap with the manifests and policies of each job and the program that applies them,
    and a Workflow that calls the WorkflowTemplate mlgen-train. Objects that the workflow has no
    right to create come before them. All other objects in FILES pass through unchanged.
    """
    from mlgen import Options
    from mlgen.documents.files import texts
    from mlgen.integrations.argo import Form, argo

    cron, template, no_workflow = (values.pop(name) for name in ("cron", "template", "no_workflow"))
    if sum((cron is not None, template, no_workflow)) > 1:
        raise click.UsageError("--cron, --template and --no-workflow are mutually exclusive")
    retries = {name: values.pop(name) for name in ("backoff_seconds", "retry_oom")}
    form = Form(schedule=cron, step=template, workflow=not no_workflow, **retries)
    refuse_inputs([output], files)
    options = Options(**values, workflow=True)
    text, _ = checked(lambda: argo(texts(files), options, form), lambda result: result[1])
    write(output, text)
