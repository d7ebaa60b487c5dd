"""mlgen argo."""

from typing import Any

import click

from mlgen import Options
from mlgen.cli._options import FILES, OUTPUT, read_schedule, rendering, reporting
from mlgen.cli._report import checked, read, refuse_inputs, write
from mlgen.integrations.argo import Form, argo


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
    help="Wait N seconds before the second attempt, and twice as long before each further one, up"
    " to 300.",
)
@click.option(
    "--retry-oom",
    is_flag=True,
    help="Ignore this deprecated option: exceeding the memory limit always restarts the job.",
)
@click.option(
    "--parallelism",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N combinations of a matrix at the same time; by default all.",
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Start no further combination of a matrix after one has failed.",
)
@reporting
def command(files: tuple[str, ...], output: str, **values: Any) -> None:
    """Render the jobs in FILES for Argo Workflows.

    Print a ConfigMap with the manifests and policies of each job and the program that applies them,
    and a Workflow that calls the WorkflowTemplate mlgen-train. Objects that the workflow has no
    right to create come before them. All other objects in FILES pass through unchanged. One
    Workflow runs all combinations of a matrix.

    \b
    Examples:
      mlgen argo job.yaml | kubectl create -f -
      mlgen argo job.yaml --cron '0 2 * * 6'          # every Saturday at two
      mlgen argo job.yaml --template                  # a step of your own Workflow
      mlgen argo job.yaml --backoff-seconds 30
      mlgen argo job.yaml --matrix 'args.lr=[1e-4, 1e-5, 1e-6]' --parallelism 2
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    cron, template, no_workflow = (values.pop(name) for name in ("cron", "template", "no_workflow"))
    if sum((cron is not None, template, no_workflow)) > 1:
        raise click.UsageError("--cron, --template and --no-workflow are mutually exclusive")
    steps = ("backoff_seconds", "retry_oom", "parallelism", "fail_fast")
    more = {name: values.pop(name) for name in steps}
    if (template or no_workflow) and (more["parallelism"] or more["fail_fast"]):
        raise click.UsageError(
            "--parallelism and --fail-fast apply to a Workflow,"
            " which --template and --no-workflow omit"
        )
    form = Form(schedule=cron, step=template, workflow=not no_workflow, **more)
    refuse_inputs([output], files)
    options = Options(**values, workflow=True)
    text, _ = checked(lambda: argo(read(files), options, form), lambda result: result[1])
    write(output, text)
