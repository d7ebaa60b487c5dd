"""Manifests for a GitOps tool, which continuously restores the state in Git: Argo CD or Flux.

A Job that is deleted and recreated trains again. Therefore no object of the job deletes itself,
Jobs are recreated only if their pods change, and then all Jobs of the set are, because the replicas
of a job depend on each other.

- Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/. `Force=true` is
  `kubectl apply --force`, which recreates an object if the API server rejects the change. With
  `Replace=true` it is `kubectl replace --force`, which recreates a Job in every sync. Server-side
  apply does not support force
  (gitops-engine/pkg/sync/sync_context.go, applyObject; kubectl/pkg/cmd/apply/patcher.go).
- Flux: https://fluxcd.io/flux/components/kustomize/kustomizations/, "Controlling the apply
  behavior of resources". Without `ssa: Merge` it reverts all changes made with kubectl,
  including those of the supervisor. Its `postBuild` would replace `${…}` in scripts.
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
"""An annotation of the pods of every Job: a hash of the whole set.

A Job's template is immutable, so a change of the hash recreates all Jobs of the set.
"""

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
FORCE = ("Force=true", "ServerSideApply=false")
SKIP_DRY_RUN = ("SkipDryRunOnMissingResource=true",)
"""Without it, the whole sync fails if a later sync installs the CustomResourceDefinition."""

CLAIM = "PersistentVolumeClaim"
KEEP = ("Prune=false", "Delete=false")
"""Keeps a claim, and the data in it, when the job is removed from Git or its Application deleted.

https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/
"""

FLUX = "kustomize.toolkit.fluxcd.io"

REMOVE_FROM_GIT = "remove the job from Git when it is done"


def without_policies(job: TrainingJob) -> TrainingJob:
    """Return the job without policies that delete objects, which the tool would recreate."""
    policy = replace(job.run_policy, ttl_seconds_after_finished=None)
    if policy.clean_pod_policy == "All":
        policy = replace(policy, clean_pod_policy="Running")
    return replace(job, run_policy=policy)


def warnings(job: TrainingJob, topology: Topology, target: Target) -> Iterator[Problem]:
    """Return warnings about policies that are not rendered as written, or that the tool undoes.

    Args:
        job: with all its policies.
        topology: of the job as returned by `without_policies`.
        target: the tool.
    """
    policy, tool = job.run_policy, TOOLS[target].title
    if policy.ttl_seconds_after_finished is not None:
        message = f"omitted, because {tool} would recreate the deleted Jobs and train again"
        yield _warning("ttlSecondsAfterFinished", message, REMOVE_FROM_GIT)
    if not topology.supervised:
        return
    if policy.clean_pod_policy == "All":
        message = (
            f"rendered as Running, because {tool} would recreate the deleted Jobs and train again"
        )
        yield _warning("cleanPodPolicy", message, REMOVE_FROM_GIT)
    serving = ", ".join(dict.fromkeys(role.name for role in topology.roles if role.serves))
    if serving:
        message = (
            f"{tool} scales these roles up again after the supervisor has scaled them to 0:"
            f" {serving}"
        )
        yield _warning("cleanPodPolicy", message, TOOLS[target].scaling_hint)


def _warning(field: str, message: str, hint: str) -> Problem:
    return Problem(("spec", "runPolicy", field), message, "combination", hint, warning=True)


def adapted(topology: Topology, manifests: Sequence[Object], target: Target) -> list[Object]:
    """Return the manifests of a job with the tool's annotations, as they should be kept in Git.

    Args:
        topology: of the job as returned by `without_policies`.
        manifests: all objects of that topology.
        target: the tool.
    """
    job = topology.job
    # With a hash in its name, a changed job is a new set of objects anyway.
    set_hash = {} if job.part_of else {SET: digest(topology, manifests)}
    prepared = (
        _with_pod_annotations(_without_suspend(manifest), set_hash)
        if manifest["kind"] == "Job"
        else manifest
        for manifest in manifests
    )
    return [TOOLS[target].adapt(topology, manifest) for manifest in prepared]


def _without_suspend(manifest: Object) -> Object:
    """Return a Job without `suspend` if Kueue sets it, so that a sync does not suspend it again.

    Kueue suspends Jobs with its label when they are created
    (kubernetes-sigs/kueue, pkg/controller/jobframework/defaults.go).
    """
    if KUEUE_QUEUE not in manifest["metadata"]["labels"]:
        return manifest
    spec = {field: value for field, value in manifest["spec"].items() if field != "suspend"}
    return manifest | {"spec": spec}


def _with_pod_annotations(manifest: Object, annotations: Mapping[str, str]) -> Object:
    template = manifest["spec"]["template"]
    return _with_template_metadata(manifest, _annotated(template["metadata"], annotations))


def _with_template_metadata(manifest: Object, metadata: Object) -> Object:
    template = manifest["spec"]["template"] | {"metadata": metadata}
    return manifest | {"spec": manifest["spec"] | {"template": template}}


def _annotated(metadata: Object, annotations: Mapping[str, str]) -> Object:
    """Return metadata with these annotations, unless the user has set them."""
    if not annotations:
        return metadata
    user_annotations = metadata.get("annotations", {})
    added = {name: value for name, value in annotations.items() if name not in user_annotations}
    return metadata | {"annotations": user_annotations | added}


def _adapt_for_argocd(_topology: Topology, manifest: Object) -> Object:
    options: Sequence[str] = FORCE if manifest["kind"] == "Job" else ()
    if manifest["kind"] == CLAIM:
        options = KEEP
    if not is_built_in(manifest["apiVersion"]):
        options = SKIP_DRY_RUN
    manifest = _without_instance(manifest)
    return manifest | {"metadata": _with_options(manifest["metadata"], options)}


def _with_options(metadata: Object, options: Sequence[str]) -> Object:
    """Return metadata with these sync options, except those that the user has set."""
    annotations = metadata.get("annotations", {})
    user_options = [
        option.strip() for option in annotations.get(SYNC_OPTIONS, "").split(",") if option
    ]
    names = {option.partition("=")[0] for option in user_options}
    added = [option for option in options if option.partition("=")[0] not in names]
    if not added:
        return metadata
    value = ",".join([*user_options, *added])
    return metadata | {"annotations": annotations | {SYNC_OPTIONS: value}}


def _without_instance(manifest: Object) -> Object:
    """Return a manifest without the label in which Argo CD may track what it has applied.

    https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/
    """
    manifest = manifest | {"metadata": _without_instance_label(manifest["metadata"])}
    template = manifest.get("spec", {}).get("template")
    if template is None:
        return manifest
    return _with_template_metadata(manifest, _without_instance_label(template["metadata"]))


def _without_instance_label(metadata: Object) -> Object:
    labels = {name: value for name, value in metadata["labels"].items() if name != INSTANCE}
    return metadata | {"labels": labels}


def _adapt_for_flux(topology: Topology, manifest: Object) -> Object:
    job, kind, name = topology.job, manifest["kind"], manifest["metadata"]["name"]
    merge = {f"{FLUX}/ssa": "Merge"} if topology.supervised else {}
    annotations: dict[str, str] = {}
    if kind == "Job":
        annotations = {f"{FLUX}/force": "enabled"} | merge
    elif kind == CLAIM:
        annotations = {f"{FLUX}/prune": "disabled"}
    elif (kind, name) == ("ConfigMap", status_name(job.name)):
        annotations = merge
    elif (kind, name) == ("ConfigMap", config_name(job)):
        annotations = {f"{FLUX}/substitute": "disabled"}
    return manifest | {"metadata": _annotated(manifest["metadata"], annotations)}


@dataclass(frozen=True, slots=True)
class GitOpsTool:
    """A GitOps tool.

    Attributes:
        title: its name in messages.
        scaling_hint: how to keep it from scaling up StatefulSets that the supervisor scaled to 0.
        force: the annotation that lets it recreate an object if the change is rejected, and the
            option in its value.
        adapt: returns a manifest of a topology with what the tool needs.
    """

    title: str
    scaling_hint: str
    force: tuple[str, str]
    adapt: Callable[[Topology, Object], Object]


TOOLS: dict[Target, GitOpsTool] = {
    "argocd": GitOpsTool(
        title="Argo CD",
        scaling_hint="configure the Application to ignore spec.replicas of StatefulSets",
        force=(SYNC_OPTIONS, FORCE[0]),
        adapt=_adapt_for_argocd,
    ),
    "flux": GitOpsTool(
        title="Flux",
        scaling_hint=REMOVE_FROM_GIT,
        force=(f"{FLUX}/force", "enabled"),
        adapt=_adapt_for_flux,
    ),
}


def target(text: str) -> Target:
    """Return the name of a tool.

    Raises:
        ValueError: the tool is unknown; the message lists all tools.
    """
    for name in TOOLS:
        if text == name:
            return name
    raise ValueError(f'unknown tool "{text}"; expected one of: {", ".join(TOOLS)}')
