"""Argo Workflows: the Workflow that runs a job by `mlgen-train`, the template in `argo/`.

The template's step applies what it reads in a ConfigMap: Argo replaces `{{ }}` in parameters, and
keeps a copy of each in every node of the Workflow, and does neither to a volume. What the step has
no right to apply (https://kubernetes.io/docs/reference/access-authn-authz/rbac/, "Privilege
escalation prevention"), and TensorBoard, which stays, are applied with the ConfigMap.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlgen import checks, pipeline
from mlgen.documents.files import Text
from mlgen.kubernetes.objects import Key, keys
from mlgen.objects.labels import JOB, labels, metadata, status_name
from mlgen.objects.skeleton import filled
from mlgen.output.summary import summary
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.problems import Collector, Problem
from mlgen.result import Foreign, Options, Rendered
from mlgen.variants import workflow

TEMPLATE = {"name": "mlgen-train", "template": "train"}
SERVICE_ACCOUNT = "mlgen-train"

FILE = "manifests.yaml"
"""The key of the ConfigMap under which the step finds the objects."""

BESIDE = ("ServiceAccount", "Role", "RoleBinding", "Deployment")
"""The kinds that the step does not apply; TensorBoard is the Deployment."""

CRON_WORKFLOW_MAX = 52
"""Argo adds a time to it, for the name of each Workflow (workflow/validate/validate.go)."""

HINT = "mount what is large as a ConfigMap or volume of your own, or use fewer replicas"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """What calls the template.

    Attributes:
        schedule: a CronWorkflow does, at these times; None: a Workflow, once.
        step: only the step is printed, for a Workflow of the user's own.
        workflow: False: nothing calls it yet.
        backoff_seconds: the time before the second attempt, which doubles each time; None: the
            template's own.
        retry_oom: a container that the kernel killed for its memory is started again.
    """

    schedule: str | None = None
    step: bool = False
    workflow: bool = True
    backoff_seconds: int | None = None
    retry_oom: bool = False


def argo(texts: Iterable[Text], options: Options, form: Form) -> tuple[str, tuple[Problem, ...]]:
    """Return what runs every job of every text by the template, and what the user should know.

    Raises:
        MlgenError: with every problem, each with its place.
    """
    result = pipeline.render(texts, options)
    collector = Collector(result.warnings)
    taken: set[Key] = set()
    written = []
    for part in result.parts:
        if isinstance(part, Foreign):
            taken.update(keys([part.document.data]))
            written.append(verbatim(part.document.text, part.document.data))
            continue
        made = _objects(part, form)
        known = [*made, *filter(_is_applied_by_step, part.objects), _status(part)]
        found = [*_problems(part, form, made), *checks.collisions(known, taken)]
        collector.extend(map(part.document.located, found))
        taken.update(keys(known))
        written.append(yaml_text(made, summary(part.topology)))
    collector.raise_errors()
    if form.step:
        steps = yaml_text([[_step(job, form) for job in result.jobs]])
        return steps.removeprefix("---\n"), collector.problems
    return "".join(written), collector.problems


def _objects(job: Rendered, form: Form) -> list[Object]:
    """What is applied for one job, in this order: a Workflow starts at once."""
    found = [*_beside(job), _config(job)]
    if form.schedule is not None:
        found.append(_cron_workflow(job, form))
    elif form.workflow and not form.step:
        found.append(_workflow(job, form))
    return found


def _is_applied_by_step(item: Object) -> bool:
    if item["kind"] == "Service":
        return JOB in item["spec"]["selector"]  # TensorBoard is no pod of the job
    return item["kind"] not in BESIDE


def _beside(job: Rendered) -> Iterator[Object]:
    """What is not the step's; it cleans up by the job's label, and must not find these."""
    for item in job.objects:
        if not _is_applied_by_step(item):
            found = item["metadata"]
            kept = {name: value for name, value in found["labels"].items() if name != JOB}
            yield item | {"metadata": found | {"labels": kept}}


def _config(job: Rendered) -> Object:
    meta = metadata(job.job, _config_name(job), "manifests")
    meta["labels"].pop(JOB)
    text = yaml_text([item for item in job.objects if _is_applied_by_step(item)])
    return filled("configmap", metadata=meta, data={FILE: text})


def _config_name(job: Rendered) -> str:
    return f"{job.job.name}-manifests"


def _status(job: Rendered) -> Object:
    """The ConfigMap that the step makes: only its name counts."""
    name = metadata(job.job, status_name(job.job.name), "status")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name}


def _step(job: Rendered, form: Form) -> Object:
    """The step that calls the template, with the job's own policies."""
    policy, codes = job.job.run_policy, workflow.exit_codes(job.topology.roles)
    parameters = {
        "job": job.job.name,
        "manifests": _config_name(job),
        "backoff-limit": str(policy.backoff_limit),
        **({} if form.backoff_seconds is None else {"backoff-seconds": str(form.backoff_seconds)}),
        "clean-pod-policy": policy.clean_pod_policy,
        **({"retryable": " ".join(map(str, sorted(codes)))} if codes else {}),
        **({"retry-oom": "true"} if form.retry_oom else {}),
        "image": job.job.helpers.kubectl_image,
    }
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "name": job.job.name,
        "templateRef": TEMPLATE,
        "arguments": {"parameters": given},
    }


def _workflow(job: Rendered, form: Form) -> Object:
    """The Workflow; a schedule that is suspended starts none, so none of them waits too."""
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
        yield from checks.sizes(item, HINT)
    yield from _name(job, form)
    yield from _lost(job, form)


def _name(job: Rendered, form: Form) -> Iterator[Problem]:
    cut = len(job.job.name) - CRON_WORKFLOW_MAX
    if form.schedule is not None and cut > 0:
        message = f"the name of a CronWorkflow is too long: {len(job.job.name)} characters"
        hint = f"cut {cut} character{'s' if cut > 1 else ''}"
        yield Problem(checks.NAME, message, "name-too-long", hint)


def _lost(job: Rendered, form: Form) -> Iterator[Problem]:
    """What a Workflow has and one step of it has not."""
    if form.workflow and not form.step:
        return
    policy = job.job.run_policy
    given = {
        "suspend": (policy.suspend, "write suspend: true there"),
        "ttlSecondsAfterFinished": (
            policy.ttl_seconds_after_finished is not None,
            "write ttlStrategy.secondsAfterCompletion there",
        ),
    }
    for name, (is_given, hint) in given.items():
        if is_given:
            message = "it is a matter of the Workflow that calls the step"
            yield Problem(("spec", "runPolicy", name), message, "combination", hint, warning=True)
