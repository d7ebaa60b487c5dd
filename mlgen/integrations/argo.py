"""Render jobs for Argo Workflows: a Workflow that calls the template `mlgen-train` in `argo/`.

The template's step runs the program in the ConfigMap of the job, which applies the manifests in it.
They are not a parameter, because Argo expands `{{ }}` in parameters and copies them into the status
of every node of the Workflow.

The user applies two kinds of objects together with the ConfigMap: those that the step has no right
to apply (https://kubernetes.io/docs/reference/access-authn-authz/rbac/, "Privilege escalation
prevention and bootstrapping"), and TensorBoard, which keeps running after the workflow.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlgen import checks, pipeline
from mlgen.documents.files import Text
from mlgen.kubernetes.objects import Key, keys
from mlgen.objects import supervisor
from mlgen.objects.labels import JOB, labels, metadata, status_name
from mlgen.objects.skeleton import filled
from mlgen.output.summary import heading
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.problems import Collector, Problem
from mlgen.result import Foreign, Options, Rendered
from mlgen.variants import workflow

TEMPLATE = {"name": "mlgen-train", "template": "train"}
SERVICE_ACCOUNT = "mlgen-train"

FILE = "manifests.yaml"
"""The key of the ConfigMap that holds the manifests; `mlgen/runtime/step.py` reads it."""

KINDS_OF_USER = ("PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Deployment")
"""The kinds that the user applies, not the step; the Deployment is TensorBoard's."""

CRON_WORKFLOW_MAX = 52
"""The maximum length of a CronWorkflow's name.

Argo appends a timestamp to it to name each Workflow (workflow/validate/validate.go).
"""

SIZE_HINT = "mount large files from a ConfigMap or volume of your own, or use fewer replicas"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How the template is called.

    Attributes:
        schedule: cron schedule of a CronWorkflow; None for a Workflow.
        step: return only the step, for a Workflow of the user's own.
        workflow: False returns no Workflow, so that nothing starts.
        backoff_seconds: the time before the second attempt, doubled before each further one; None
            for the default of the template.
        retry_oom: retry after a container exceeded its memory limit.
    """

    schedule: str | None = None
    step: bool = False
    workflow: bool = True
    backoff_seconds: int | None = None
    retry_oom: bool = False


def argo(texts: Iterable[Text], options: Options, form: Form) -> tuple[str, tuple[Problem, ...]]:
    """Return the manifests that run the jobs in Argo Workflows, as YAML, and all warnings.

    Raises:
        MlgenError: with every problem and its place.
    """
    result = pipeline.render(texts, options)
    collector = Collector(result.warnings)
    taken: set[Key] = set()
    manifests = []
    for part in result.parts:
        if isinstance(part, Foreign):
            taken.update(keys([part.document.data]))
            manifests.append(verbatim(part.document.text, part.document.data))
            continue
        objects = list(_objects(part, form))
        in_cluster = [*objects, *filter(_is_applied_by_step, part.objects), _status(part)]
        problems = [*_problems(part, form, objects), *checks.collisions(in_cluster, taken)]
        collector.extend(map(part.document.located, problems))
        taken.update(keys(in_cluster))
        manifests.append(yaml_text(objects, heading(part)))
    collector.raise_errors()
    if form.step:
        steps = yaml_text([[_step(job, form) for job in result.jobs]])
        return steps.removeprefix("---\n"), collector.problems
    return "".join(manifests), collector.problems


def _objects(job: Rendered, form: Form) -> Iterator[Object]:
    """Return the objects that the user applies; the Workflow comes last, as it starts at once."""
    yield from _objects_of_user(job)
    yield _config(job, form)
    if form.schedule is not None:
        yield _cron_workflow(job, form)
    elif form.workflow and not form.step:
        yield _workflow(job, form)


def _is_applied_by_step(item: Object) -> bool:
    if item["kind"] == "Service":
        return JOB in item["spec"]["selector"]  # the Service of TensorBoard does not select by job
    return item["kind"] not in KINDS_OF_USER


def _objects_of_user(job: Rendered) -> Iterator[Object]:
    """Drop the job's label from the objects that the user applies: the step cleans up by it."""
    for item in job.objects:
        if not _is_applied_by_step(item):
            meta = item["metadata"]
            kept = {name: value for name, value in meta["labels"].items() if name != JOB}
            yield item | {"metadata": meta | {"labels": kept}}


def _config(job: Rendered, form: Form) -> Object:
    """Return the ConfigMap with the manifests that the step applies, its plan and its program."""
    meta = metadata(job.job, _config_name(job), "manifests")
    meta["labels"].pop(JOB)
    objects = [item for item in job.objects if _is_applied_by_step(item)]
    files = supervisor.files(_plan(job, form, objects), step=True)
    return filled("configmap", metadata=meta, data={FILE: yaml_text(objects), **files})


def _plan(job: Rendered, form: Form, objects: list[Object]) -> Object:
    """Return the plan of the step; in a workflow, all roles have the same retryable exit codes."""
    plan = supervisor.plan(job.topology, objects)
    codes = workflow.exit_codes(job.topology.roles)
    retryable = sorted(codes) or supervisor.SIGNALS
    plan["workloads"] = [item | {"retryable": retryable} for item in plan["workloads"]]
    return plan | ({"retryOom": True} if form.retry_oom else {})


def _config_name(job: Rendered) -> str:
    return f"{job.job.name}-manifests"


def _status(job: Rendered) -> Object:
    """Return the ConfigMap that the step creates; only its name matters, for collisions."""
    meta = metadata(job.job, status_name(job.job.name), "status")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _step(job: Rendered, form: Form) -> Object:
    """Return the step that calls the template for the job."""
    parameters = {
        "job": job.job.name,
        "manifests": _config_name(job),
        "backoff-limit": str(job.job.run_policy.retries),
        **({} if form.backoff_seconds is None else {"backoff-seconds": str(form.backoff_seconds)}),
        "image": job.job.helpers.python_image,
    }
    arguments = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "name": job.job.name,
        "templateRef": TEMPLATE,
        "arguments": {"parameters": arguments},
    }


def _workflow(job: Rendered, form: Form) -> Object:
    """Return the Workflow; under a schedule, only the CronWorkflow is suspended."""
    policy = job.job.run_policy
    return filled(
        "workflow",
        metadata=metadata(job.job, job.job.name, "workflow"),
        service_account=SERVICE_ACCOUNT,
        suspend=policy.suspend and form.schedule is None,
        ttl=policy.ttl_seconds_after_finished,
        step=_step(job, form),
    )


def _cron_workflow(job: Rendered, form: Form) -> Object:
    return filled(
        "cronworkflow",
        metadata=metadata(job.job, job.job.name, "workflow"),
        schedule=form.schedule,
        suspend=job.job.run_policy.suspend,
        labels=labels(job.job, "workflow"),
        workflow=_workflow(job, form)["spec"],
    )


def _problems(job: Rendered, form: Form, objects: list[Object]) -> Iterator[Problem]:
    for item in objects:
        yield from checks.sizes(item, SIZE_HINT)
    yield from _name_problems(job, form)
    yield from _ignored_policies(job, form)


def _name_problems(job: Rendered, form: Form) -> Iterator[Problem]:
    cut = len(job.job.name) - CRON_WORKFLOW_MAX
    if form.schedule is not None and cut > 0:
        message = (
            f"the name of a CronWorkflow has at most {CRON_WORKFLOW_MAX} characters, got"
            f" {len(job.job.name)}"
        )
        hint = f"remove {cut} character{'s' if cut > 1 else ''}"
        yield Problem(checks.NAME, message, "name-too-long", hint)


def _ignored_policies(job: Rendered, form: Form) -> Iterator[Problem]:
    """Warn of policies that apply to a whole Workflow if only a step of it is rendered."""
    if form.workflow and not form.step:
        return
    policy = job.job.run_policy
    hints = {
        "suspend": policy.suspend and "set suspend: true in that Workflow",
        "ttlSecondsAfterFinished": policy.ttl_seconds_after_finished is not None
        and "set ttlStrategy.secondsAfterCompletion in that Workflow",
    }
    for name, hint in hints.items():
        if hint:
            message = "ignored, because it applies to the Workflow that calls the step"
            yield Problem(("spec", "runPolicy", name), message, "combination", hint, warning=True)
