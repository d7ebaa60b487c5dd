"""Objects for a tool that brings back, again and again, what stands in Git: Argo CD or Flux.

A Job that is made again is a training that starts anew. So nothing of a job may vanish by itself,
its Jobs are made again only where what runs under them has changed, and then all of them, as the
replicas of one job depend on each other.

- Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/. `Force=true` is
  `kubectl apply --force`, which makes an object again where the API server refuses the change.
  Together with `Replace=true` it is `kubectl replace --force`: that makes a Job again in every
  sync, changed or not. A server-side apply knows no force at all
  (gitops-engine/pkg/sync/sync_context.go, applyObject; kubectl/pkg/cmd/apply/patcher.go).
- Flux: https://fluxcd.io/flux/components/kustomize/kustomizations/, "Controlling the apply
  behavior of resources". Without `ssa: Merge` it undoes whatever kubectl has changed, and kubectl
  is what the supervisor uses. Its `postBuild` would replace `${…}` in scripts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.groups import is_built_in
from mlgen.kubernetes.labels import KUEUE_QUEUE
from mlgen.objects.labels import INSTANCE, config_name, status_name
from mlgen.problems import Problem
from mlgen.topology import Topology
from mlgen.variants.name_hash import digest

Target = Literal["argocd", "flux"]

Object = dict[str, Any]

SET = "mlgen.dev/set"
"""An annotation of a Job's pods: no part of the template of a Job can change, so where this one
does, all Jobs of the set are made again together."""

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
FORCE = ("Force=true", "ServerSideApply=false")
MAY_BE_MISSING = ("SkipDryRunOnMissingResource=true",)
"""Else a sync fails as a whole where the scheduler is installed by a later one."""

FLUX = "kustomize.toolkit.fluxcd.io"


def without_policies(job: TrainingJob) -> TrainingJob:
    """Return a job without the policies by which a part of it vanishes: it would be made again."""
    policy = replace(job.run_policy, ttl_seconds_after_finished=None)
    if policy.clean_pod_policy == "All":
        policy = replace(policy, clean_pod_policy="Running")
    return replace(job, run_policy=policy)


def warnings(asked: TrainingJob, topology: Topology, target: Target) -> Iterator[Problem]:
    """Return what is rendered otherwise than it reads, and what the tool does to it.

    Args:
        asked: the job with all of its policies.
        topology: how it is laid out without those of `without_policies`.
        target: the tool.
    """
    policy, tool = asked.run_policy, TOOLS[target].title
    if policy.ttl_seconds_after_finished is not None:
        message = f"it is left out: {tool} would make a Job that is gone again, and train anew"
        yield _warning("ttlSecondsAfterFinished", message, TAKE_OUT)
    if not topology.supervised:
        return
    if policy.clean_pod_policy == "All":
        message = f"it is rendered as Running: {tool} would make what is gone again, and train anew"
        yield _warning("cleanPodPolicy", message, TAKE_OUT)
    serving = ", ".join(dict.fromkeys(role.name for role in topology.roles if role.serves))
    if serving:
        message = f"what the supervisor scales to 0 at the end, {tool} starts again: {serving}"
        yield _warning("cleanPodPolicy", message, TOOLS[target].scaling_hint)


TAKE_OUT = "take the job out of Git when it is done"


def _warning(field: str, message: str, hint: str) -> Problem:
    return Problem(("spec", "runPolicy", field), message, "combination", hint, warning=True)


def adapted(topology: Topology, objects: Sequence[Object], target: Target) -> list[Object]:
    """Return the objects of a job as the tool should find them in Git.

    Args:
        topology: the job, without the policies of `without_policies`.
        objects: all that is made of it.
        target: the tool.
    """
    job = topology.job
    # With a suffix of its own the whole set has another name where one of its Jobs changes.
    mark = {} if job.part_of else {SET: digest(topology, objects)}
    kept = (_marked(_queued(o, job), mark) if o["kind"] == "Job" else o for o in objects)
    return [TOOLS[target].adapt(topology, item) for item in kept]


def _queued(item: Object, job: TrainingJob) -> Object:
    """A Job that Kueue lets go must not be stopped again by what stands in Git.

    Kueue suspends what has its label when it is made (pkg/controller/jobframework/defaults.go).
    """
    if job.run_policy.suspend or KUEUE_QUEUE not in item["metadata"]["labels"]:
        return item
    return item | {"spec": {key: value for key, value in item["spec"].items() if key != "suspend"}}


def _marked(item: Object, mark: Mapping[str, str]) -> Object:
    template = item["spec"]["template"]
    template = template | {"metadata": _annotated(template["metadata"], mark)}
    return item | {"spec": item["spec"] | {"template": template}}


def _annotated(metadata: Object, annotations: Mapping[str, str]) -> Object:
    """Metadata with annotations of ours; the user's own win."""
    if not annotations:
        return metadata
    theirs = metadata.get("annotations", {})
    ours = {name: text for name, text in annotations.items() if name not in theirs}
    return metadata | {"annotations": theirs | ours}


def _argocd(_topology: Topology, item: Object) -> Object:
    options: Sequence[str] = FORCE if item["kind"] == "Job" else ()
    if not is_built_in(item["apiVersion"]):
        options = MAY_BE_MISSING
    item = _without_instance(item)
    return item | {"metadata": _with_options(item["metadata"], options)}


def _with_options(metadata: Object, options: Sequence[str]) -> Object:
    """Metadata with sync options beside the user's own, of which each wins over ours."""
    annotations = metadata.get("annotations", {})
    theirs = [option.strip() for option in annotations.get(SYNC_OPTIONS, "").split(",") if option]
    names = {option.partition("=")[0] for option in theirs}
    ours = [option for option in options if option.partition("=")[0] not in names]
    if not ours:
        return metadata
    return metadata | {"annotations": annotations | {SYNC_OPTIONS: ",".join([*theirs, *ours])}}


def _without_instance(item: Object) -> Object:
    """An object without the label that Argo CD may have to itself, to know what it has applied.

    https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/
    """
    found = item | {"metadata": _unlabelled(item["metadata"])}
    template = item.get("spec", {}).get("template")
    if template is None:
        return found
    template = template | {"metadata": _unlabelled(template["metadata"])}
    return found | {"spec": item["spec"] | {"template": template}}


def _unlabelled(metadata: Object) -> Object:
    labels = {name: value for name, value in metadata["labels"].items() if name != INSTANCE}
    return metadata | {"labels": labels}


def _flux(topology: Topology, item: Object) -> Object:
    job, kind, name = topology.job, item["kind"], item["metadata"]["name"]
    merge = {f"{FLUX}/ssa": "Merge"} if topology.supervised else {}
    annotations: dict[str, str] = {}
    if kind == "Job":
        annotations = {f"{FLUX}/force": "enabled"} | merge
    elif (kind, name) == ("ConfigMap", status_name(job.name)):
        annotations = merge
    elif (kind, name) == ("ConfigMap", config_name(job)):
        annotations = {f"{FLUX}/substitute": "disabled"}
    return item | {"metadata": _annotated(item["metadata"], annotations)}


@dataclass(frozen=True, slots=True)
class GitOpsTool:
    """A tool that applies what is in Git.

    Attributes:
        title: the name, as people write it.
        scaling_hint: what to do so that it does not scale up what the supervisor has scaled to 0.
        force: the annotation by which it replaces an object whose change is rejected, and the word
            in that.
        adapt: returns an object of a job as the tool should find it.
    """

    title: str
    scaling_hint: str
    force: tuple[str, str]
    adapt: Callable[[Topology, Object], Object]


TOOLS: dict[Target, GitOpsTool] = {
    "argocd": GitOpsTool(
        title="Argo CD",
        scaling_hint="have the Application ignore spec.replicas of StatefulSets",
        force=(SYNC_OPTIONS, FORCE[0]),
        adapt=_argocd,
    ),
    "flux": GitOpsTool(
        title="Flux", scaling_hint=TAKE_OUT, force=(f"{FLUX}/force", "enabled"), adapt=_flux
    ),
}


def target(text: str) -> Target:
    """Return the name of a tool.

    Raises:
        ValueError: the tool is unknown; the message lists those that are known.
    """
    for known in TOOLS:
        if text == known:
            return known
    raise ValueError(f'"{text}" is not known; known are: {", ".join(TOOLS)}')
