"""Volcano's Job, batch.volcano.sh/v1alpha1 → a TrainingJob document.

Source: volcano-sh/volcano, staging/src/volcano.sh/apis/pkg/apis/batch for the fields,
pkg/webhooks/admission/jobs for defaults and checks, pkg/controllers/job for the behaviour.
"""

from dataclasses import replace
from shlex import quote

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects.volcano.admission import validate
from mlgen.dialects.volcano.differences import report_differences
from mlgen.dialects.volcano.gang import gang_of
from mlgen.dialects.volcano.lifecycle import (
    write_bounds,
    write_cleanup,
    write_restarts,
    write_success,
)
from mlgen.dialects.volcano.plugins import Plugins, parse_plugins
from mlgen.dialects.volcano.pods import write_additions, write_role
from mlgen.dialects.volcano.roles import as_job, assign_roles, deciding_tasks, write_framework
from mlgen.dialects.volcano.scheduling import write_scheduler_metadata, write_scheduling
from mlgen.dialects.volcano.schema import SPEC
from mlgen.dialects.volcano.tasks import Task, parse_tasks
from mlgen.dialects.volcano.waits import write_waits


def _convert(builder: Builder) -> None:
    """Write the TrainingJob, unless there are errors."""
    plugins = parse_plugins(builder)
    tasks = list(parse_tasks(builder))
    validate(builder, plugins, tasks)
    if builder.collector.has_errors:
        return
    framework, tasks = assign_roles(builder, plugins, tasks)
    if not builder.collector.has_errors:
        _write(builder, plugins, framework, tasks)


def _write(builder: Builder, plugins: Plugins, framework: str, tasks: list[Task]) -> None:
    """Write the TrainingJob from valid tasks."""
    deciders = deciding_tasks(builder, plugins, framework, [t for t in tasks if t.replicas])
    tasks = [as_job(builder, framework, task, deciders) for task in tasks]
    running = [task for task in tasks if task.replicas]
    by_role = {task.role: task for task in running}
    deciders = replace(deciders, tasks=tuple(by_role[role] for role in deciders.roles))
    write_scheduling(builder, running)
    additions = write_additions(builder, plugins, tasks)
    for task in tasks:
        write_role(builder, plugins, task, additions)
    write_scheduler_metadata(builder, tasks)
    write_framework(builder, plugins, framework)
    if "ray" in plugins:
        _report_ray_service(builder, plugins, running)
    write_waits(builder, plugins, framework, running)
    gang = gang_of(builder, running)
    write_restarts(builder, running, gang)
    write_success(builder, framework, running, deciders)
    write_bounds(builder, running)
    write_cleanup(builder, running, deciders)
    report_differences(builder, running, deciders, gang)


def _report_ray_service(builder: Builder, plugins: Plugins, running: list[Task]) -> None:
    """Warn that clients of the Ray head need another way to reach it than Volcano's Service."""
    head = plugins.argument("ray", "head")
    restarts_always = any(task.name == head and task.restart == "Always" for task in running)
    workload = f"{'statefulset' if restarts_always else 'job'}/{builder.name}-{head}"
    message = f"Volcano creates the Service {builder.name}-{head}-svc for the head; mlgen does not"
    port = plugins.argument("ray", "dashboardPort")
    hint = f"to reach the dashboard, run kubectl port-forward {quote(workload)} {quote(str(port))}"
    builder.differs(plugins.sources["ray"], message, hint)


DIALECT = Dialect(
    groups=(
        "batch.volcano.sh",
        "bus.volcano.sh",
        "flow.volcano.sh",
        "training.volcano.sh",
    ),
    kinds={("batch.volcano.sh/v1alpha1", "Job"): Kind(SPEC, _convert)},
)
