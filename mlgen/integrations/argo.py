"""Render jobs for Argo Workflows: a Workflow that calls the template `mlgen-train` in `argo/`.

The template's step runs the program in the job's ConfigMap, which applies the manifests in the same
ConfigMap. The manifests are not a parameter, because Argo expands `{{ }}` in parameters and copies
them into the status of every node of the Workflow.

The user applies two groups of objects together with the ConfigMap: objects that the step has no
permission to apply (https://kubernetes.io/docs/reference/access-authn-authz/rbac/, "Privilege
escalation prevention and bootstrapping"), and TensorBoard, which keeps running after the workflow.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mlgen import checks
from mlgen.checks.pods import NAME
from mlgen.documents.files import Text
from mlgen.integrations import Manifests
from mlgen.jobfile.model import TrainingJob, written
from mlgen.kubernetes.objects import Identities, Object, keys
from mlgen.objects import notes, security, supervisor
from mlgen.objects.labels import JOB, config_name, labels, metadata, status_name
from mlgen.objects.security import RESTRICTED
from mlgen.objects.skeleton import filled
from mlgen.output.manifests import headed
from mlgen.output.yaml import START, yaml_text
from mlgen.pipeline import Walk
from mlgen.printing import Printed
from mlgen.problems import Collector, Problem
from mlgen.resources import folder
from mlgen.result import Options, Rendered
from mlgen.variants import matrix

TEMPLATE = {"name": "mlgen-train", "template": "train"}
SERVICE_ACCOUNT = "mlgen-train"

INSTALLED = ("rbac.yaml", "workflow-template.yaml")
"""The files in `argo/` with objects that are installed once per namespace."""

FILE = "manifests.yaml"
"""The ConfigMap's key with the manifests. `mlgen/runtime/step.py` reads it."""

KINDS_OF_USER = ("PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Deployment")
"""The kinds that the user applies, not the step. The Deployment is TensorBoard."""

CRON_WORKFLOW_MAX = 52
"""The maximum length of a CronWorkflow's name.

Argo appends a timestamp to it to name each Workflow (workflow/validate/validate.go).
"""

SIZE_HINT = "mount large files from a ConfigMap or volume of your own, or use fewer replicas"
WORKFLOW_HINT = "set less in spec.helpers, or use fewer combinations of a matrix"


class Form(NamedTuple):
    """The form of the output.

    Attributes:
        schedule: cron schedule of a CronWorkflow; None for a Workflow.
        step: True returns only the step, for the user's own Workflow.
        workflow: False returns no Workflow, so that no job starts.
        backoff_seconds: the time before the second attempt, doubled before each further attempt;
            None for the default of the template.
        parallelism: the number of combinations of a matrix that run at the same time; None for all.
        fail_fast: True to start no further combination after one has failed.
    """

    schedule: str | None = None
    step: bool = False
    workflow: bool = True
    backoff_seconds: int | None = None
    parallelism: int | None = None
    fail_fast: bool = False


def argo(texts: Iterable[Text], options: Options, form: Form) -> Manifests:
    """Return the manifests that run the jobs in Argo Workflows.

    Raises:
        MlgenError: there are errors; lists all problems with their locations.
    """
    walk = Walk(options)
    printed = Printed(walk, "yaml")
    taken, steps, has_matrix = Identities(), list[Object](), False
    for outcome in walk.outcomes(texts):
        run = [part for part in outcome.parts if isinstance(part, Rendered)]
        if not run:
            taken.update(keys(part.document.data for part in outcome.parts))
            printed.add(outcome)
            continue
        objects = [[*_objects_of_user(job), _config(job)] for job in run]
        if form.schedule is not None or (form.workflow and not form.step):
            objects[-1].append(_workflow(run, form))  # it is last, because it starts at once
        problems = _problems(run, form, objects, taken)
        walk.report(outcome, map(run[0].document.located, problems))
        has_matrix |= bool(run[0].combination)
        steps.append(_step(run, form))
        for job, its_objects in zip(run, objects, strict=True):
            printed.write(outcome, job, headed(job, its_objects))
    walk.finish()
    if (form.parallelism is not None or form.fail_fast) and not has_matrix:
        message = "--parallelism and --fail-fast have no effect, because no job has a matrix"
        hint = "omit them, or add --matrix"
        walk.problems.append(Problem((), message, "no-effect", hint, warning=True))
    Collector(walk.problems).raise_errors()
    output = iter([yaml_text([steps]).removeprefix(START)]) if form.step else printed.texts()
    return Manifests(output, tuple(walk.problems))


def installation(namespace: str | None) -> str:
    """Return the objects in `argo/`, in a namespace if it is not None."""
    text = "---\n".join((folder("argo") / name).read_text(encoding="utf-8") for name in INSTALLED)
    if namespace is None:
        return text
    return re.sub("^metadata:$", f'metadata:\n  namespace: "{namespace}"', text, flags=re.MULTILINE)


def _is_applied_by_step(item: Object) -> bool:
    if item["kind"] == "Service":
        return JOB in item["spec"]["selector"]  # the Service of TensorBoard does not select by job
    return item["kind"] not in KINDS_OF_USER


def _objects_of_user(job: Rendered) -> Iterator[Object]:
    """Yield the objects that the user applies, without the label by which the step cleans up."""
    for item in job.objects:
        if not _is_applied_by_step(item):
            meta = item["metadata"]
            kept = {name: value for name, value in meta["labels"].items() if name != JOB}
            yield item | {"metadata": meta | {"labels": kept}}


def _config(job: Rendered) -> Object:
    """Return the ConfigMap with the step's manifests, plan and program."""
    meta = metadata(job.job, _manifests(job.job.name), "manifests")
    meta["labels"].pop(JOB)
    objects = list(filter(_is_applied_by_step, job.objects))
    job_plan = supervisor.plan(job.topology, objects)
    data = {FILE: yaml_text(objects, notes=notes(job.topology))}
    return supervisor.config_map(job.job.helpers, meta, data, job_plan, step=True)


def _manifests(job: str) -> str:
    """Return the name of the ConfigMap with the manifests of the job of this name."""
    return config_name(job, "manifests")


def _status(job: Rendered) -> Object:
    """Return the ConfigMap that the step creates. Only its name is used, to detect collisions."""
    meta = metadata(job.job, status_name(job.job.name), "status")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _whole(run: Sequence[Rendered]) -> TrainingJob:
    """Return the job that gives the Workflow its name."""
    return matrix.whole([job.job for job in run]) if run[0].combination else run[0].job


def _step(run: Sequence[Rendered], form: Form) -> Object:
    """Return the step that calls the template for a job or for each combination of a matrix."""
    each = [_parameters(job, form) for job in run]
    parameters = each[0]
    items: dict[str, Any] = {}
    if run[0].combination:
        differing = [name for name in parameters if len({one[name] for one in each}) > 1]
        named = {"job": "{{item}}", "manifests": _manifests("{{item}}")}
        if set(differing) <= named.keys():
            items = {"withItems": [one["job"] for one in each]}
        else:
            items = {"withItems": [{name: one[name] for name in differing} for one in each]}
            named = {name: f"{{{{item.{name}}}}}" for name in differing}
        parameters = parameters | named
    arguments = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "name": _whole(run).name,
        "templateRef": TEMPLATE,
        "arguments": {"parameters": arguments},
        **items,
    }


def _parameters(job: Rendered, form: Form) -> dict[str, str]:
    """Return a job's parameters for the template."""
    return {
        "job": job.job.name,
        "manifests": _manifests(job.job.name),
        "backoff-limit": str(job.job.run_policy.retries),
        **({} if form.backoff_seconds is None else {"backoff-seconds": str(form.backoff_seconds)}),
        "image": supervisor.image(job.job.helpers),
    }


def _workflow(run: Sequence[Rendered], form: Form) -> Object:
    """Return the Workflow, or the CronWorkflow, which is suspended instead of its Workflow."""
    job, suspended = _whole(run), _whole(run).run_policy.suspend or None
    has_matrix = bool(run[0].combination)
    workflow = filled(
        "workflow",
        metadata=metadata(job, job.name, "workflow"),
        service_account=SERVICE_ACCOUNT,
        suspend=suspended if form.schedule is None else None,
        **_pod_fields(run),
        ttl=job.run_policy.ttl_seconds_after_finished,
        parallelism=form.parallelism if has_matrix else None,
        fail_fast=(form.fail_fast and has_matrix) or None,
        step=_step(run, form),
    )
    if form.schedule is None:
        return workflow
    return filled(
        "cronworkflow",
        metadata=workflow["metadata"],
        schedule=form.schedule,
        suspend=suspended,
        labels=labels(job, "workflow"),
        workflow=workflow["spec"],
    )


def _pod_fields(run: Sequence[Rendered]) -> dict[str, Any]:
    """Return the fields of a Workflow for the pods of the step, as values of the template."""
    first = run[0]
    fields = security.helper_fields(first.topology, first.objects)
    fields["annotations"] |= security.KEEP[first.job.scheduling.safe_to_evict]
    container = _container_patch(first.job)
    # The patch is strategic: null removes a field of the template `mlgen-train`.
    patch = {"containers": [{"name": "main", **container}]} if container else {}
    own = {name: fields[name] or None for name in ("labels", "annotations")}
    return fields | own | {"pod_patch": json.dumps(patch) if patch else None}


STEP_MEMORY = "64Mi"
"""The memory that the template `mlgen-train` requests."""


def _container_patch(job: TrainingJob) -> dict[str, Any]:
    """Return the fields of the step's container that differ from the template `mlgen-train`."""
    own, patch = security.helper_context(job), dict[str, Any]()
    users = {name: own.get(name) for name in ("runAsUser", "runAsGroup")}
    if users != {name: RESTRICTED[name] for name in users}:
        patch["securityContext"] = users
    names = sorted(security.helper_resource_names(job))
    if names:
        amounts = security.helper_resources(job, {"requests": {"memory": STEP_MEMORY}})
        kinds = ("requests", "limits")
        patch["resources"] = {
            kind: {name: amounts.get(kind, {}).get(name) for name in names} for kind in kinds
        }
    return patch


def _problems(
    run: Sequence[Rendered], form: Form, objects: Iterable[Sequence[Object]], taken: Identities
) -> Iterator[Problem]:
    """Yield the errors and warnings of the jobs of one Workflow.

    Args:
        run: the jobs.
        form: the form of the output.
        objects: what the user applies for each job.
        taken: the identities of earlier objects. Those of the jobs are added.
    """
    applied = [item for items in objects for item in items]
    for item in applied:
        yield from checks.sizes(item, SIZE_HINT if item["kind"] == "ConfigMap" else WORKFLOW_HINT)
    yield from _other_problems(run, form)
    by_step = [
        item for job in run for item in [*filter(_is_applied_by_step, job.objects), _status(job)]
    ]
    in_cluster = keys([*applied, *by_step])
    yield from checks.collisions(in_cluster, taken)
    taken.update(in_cluster)


def _other_problems(run: Sequence[Rendered], form: Form) -> Iterator[Problem]:
    """Yield the problems with names and policies."""
    job = _whole(run)
    cut = len(job.name) - CRON_WORKFLOW_MAX
    if form.schedule is not None and cut > 0:
        limit = f"has at most {CRON_WORKFLOW_MAX} characters, got {len(job.name)}"
        hint = f"shorten the name by {cut} character{'s' if cut > 1 else ''}"
        yield Problem(NAME, f"the name of a CronWorkflow {limit}", "name-too-long", hint)
    policies = [each.job.run_policy for each in run]
    times = {policy.ttl_seconds_after_finished for policy in policies}
    if len({policy.suspend for policy in policies}) > 1:
        yield _policy("suspend", DIFFERS, "remove it from the matrix")
    if len(times) > 1:
        yield _policy("ttlSecondsAfterFinished", DIFFERS, "remove it from the matrix")
    if form.workflow and not form.step:
        return
    if job.run_policy.suspend:
        hint = "set suspend: true in that Workflow"
        yield _policy("suspend", IGNORED, hint, warning=True)
    if job.run_policy.ttl_seconds_after_finished is not None:
        hint = "set ttlStrategy.secondsAfterCompletion in that Workflow"
        yield _policy("ttlSecondsAfterFinished", IGNORED, hint, warning=True)
    for name in (name for name in POD_FIELDS if name in written(job.helpers)):
        hint = f"set {POD_FIELDS[name]} in that Workflow"
        yield Problem(("spec", "helpers", name), NOT_STEP, "combination", hint, warning=True)


POD_FIELDS = {
    "runAsUser": "podSpecPatch",
    "runAsGroup": "podSpecPatch",
    "labels": "podMetadata.labels",
    "annotations": "podMetadata.annotations",
    "nodeSelector": "nodeSelector",
    "tolerations": "tolerations",
    "priorityClassName": "podPriorityClassName",
    "resources": "podSpecPatch",
}
"""The fields of a Workflow with which it sets the fields of `helpers` for the pods of the step."""

NOT_STEP = "does not apply to the pods of the step, which your Workflow configures"
DIFFERS = "this field differs between combinations, but one Workflow runs all of them"
IGNORED = "ignored, because it applies to the Workflow that calls the step"


def _policy(name: str, message: str, hint: str, *, warning: bool = False) -> Problem:
    """Return a problem with a policy that applies to the whole Workflow."""
    return Problem(("spec", "runPolicy", name), message, "combination", hint, warning)
