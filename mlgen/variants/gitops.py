"""Manifests for a GitOps tool, which continuously restores the state in Git: Argo CD or Flux.

A Job that is deleted and recreated trains again. Therefore, no object of the job deletes itself,
and Jobs are recreated only if their pods change. Then all Jobs of the job are recreated, because
its replicas depend on each other.

- Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/. `Force=true` is
  `kubectl apply --force`, which recreates an object if the API server rejects the change. With
  `Replace=true` it is `kubectl replace --force`, which recreates a Job in every sync. Server-side
  apply does not support force
  (gitops-engine/pkg/sync/sync_context.go, applyObject; kubectl/pkg/cmd/apply/patcher.go).
- Flux: https://fluxcd.io/flux/components/kustomize/kustomizations/, "Controlling the apply
  behavior of resources". Its `postBuild` would replace `${…}` in scripts.

The supervisor changes objects that are in Git, as the field manager `mlgen-supervisor`. Both tools
ignore fields that are not in Git, because they have not applied them.

- Not in Git: `suspend` of most Jobs, the data of `<job>-status`, and `replicas` of StatefulSets
  with one replica, the default.
- In Git: `suspend: true` of a role that starts after others, and `replicas` of all other
  StatefulSets. The objects must be created with these values. The user must configure the tool to
  ignore later changes: the summary of the job contains the lines to copy (`settings`).
- `activeDeadlineSeconds` and `parallelism` are changed only to end a Job. When the tool reverts
  them, the Job has ended.

Argo CD ignores fields by manager (`managedFieldsManagers`; util/argo/managedfields). With
`ApplyOutOfSyncOnly=true`, it does not apply objects that differ only in ignored fields. With
`RespectIgnoreDifferences=true` instead, it would recreate a changed Job with the values of the old
one: without `suspend`, or with the deadline that ended it (controller/sync.go,
normalizeTargetResources). Flux ignores fields by path only (`spec.ignore`, since
kustomize-controller 1.9), and recreates a Job as it is in Git (fluxcd/pkg, ssa/manager_apply.go).

`schemas/integrations/gitops.json` contains the annotations and settings of each tool. For Argo CD,
they also have these effects:

- Suspended Jobs are ignored. Otherwise, the Application would not be Healthy after training has
  succeeded (https://argo-cd.readthedocs.io/en/stable/operator-manual/health/).
- A PersistentVolumeClaim and its data are kept when the job is removed from Git or its Application
  is deleted.
- Objects of kinds that are not built in are created without a dry run. Otherwise, the whole sync
  fails if a later sync installs the CustomResourceDefinition.
- The label in which Argo CD may track applied objects is omitted
  (https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.objects import Object, is_built_in
from mlgen.objects.labels import (
    DECIDES,
    ROLE,
    SET,
    config_name,
    workload_name,
)
from mlgen.objects.network import BOARD_LABEL
from mlgen.objects.placement import RELEASE, has_release
from mlgen.objects.supervisor import PLAN, WORKLOADS, plan_text, planned, program_name, read_plan
from mlgen.resources import table
from mlgen.topology import Topology
from mlgen.variants import Target, conflict
from mlgen.variants.name_hash import digest

Tool = Literal["argocd", "flux"]

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
"""Argo CD's annotation with a list of options. The user may already have set some."""

REMOVE_FROM_GIT = "remove the job from Git when it is done"


class GitOps(Target):
    """A tool that applies the objects from Git.

    Args:
        tool: the tool.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tools()[tool]

    def job(self, job: TrainingJob) -> TrainingJob:
        """Return the job without policies that delete objects, which the tool would recreate."""
        policy = job.run_policy._replace(ttl_seconds_after_finished=None)
        if policy.clean_pod_policy == "All":
            policy = policy._replace(clean_pod_policy="Running")
        return job._replace(run_policy=policy)

    def topology(self, topology: Topology, job: TrainingJob, spec: Mapping[str, Any]) -> Topology:
        """Return the topology, with warnings about policies that are not rendered as written."""
        policy = job.run_policy
        because = f"because {self._tool['title']} would recreate the deleted Jobs and train again"
        problems = [*topology.problems]
        if policy.ttl_seconds_after_finished is not None:
            path = ("runPolicy", "ttlSecondsAfterFinished")
            problems.append(conflict(path, f"omitted, {because}", REMOVE_FROM_GIT))
        if topology.supervised and policy.clean_pod_policy == "All":
            path = ("runPolicy", "cleanPodPolicy")
            problems.append(conflict(path, f"rendered as Running, {because}", REMOVE_FROM_GIT))
        return topology._replace(problems=tuple(problems))

    def objects(self, topology: Topology, objects: Sequence[Object]) -> list[Object]:
        """Return the objects of a job for Git, with the tool's annotations."""
        # A Job's template is immutable, so a change of the hash recreates all Jobs, and replaces
        # the pods of StatefulSets. With a hash in its name, a changed job consists of new objects
        # anyway.
        set_hash = {} if topology.job.hashed else {SET: digest(topology, objects)}
        return [self._adapted(topology, item, set_hash) for item in objects]

    def _adapted(self, topology: Topology, item: Object, set_hash: Mapping[str, str]) -> Object:
        """Return an object with the hash of the job, and with the annotations for the tool.

        Fields that controllers change, and labels that the tool uses itself, are omitted. The pods
        of TensorBoard have no hash, because they need not restart with the job.
        """
        kind, metadata, spec = item["kind"], dict(item["metadata"]), dict(item.get("spec", {}))
        adapted = item | {"metadata": metadata} | ({"spec": spec} if spec else {})
        labeled = [metadata]
        if "template" in spec:
            of_pods = dict(spec["template"]["metadata"])
            spec["template"] = spec["template"] | {"metadata": of_pods}
            labeled.append(of_pods)
            if kind in WORKLOADS:
                of_pods["labels"] = of_pods["labels"] | set_hash
        for each in labeled:
            labels = each["labels"].items()
            each["labels"] = {k: v for k, v in labels if k not in self._tool["removed"]}
        added: dict[str, str] = {}
        for row in _kinds(topology, item):
            added |= self._tool["annotations"].get(row, {})
        if added:
            metadata["annotations"] = _annotations(metadata.get("annotations", {}), added)
        if kind == "StatefulSet" and topology.supervised and spec["replicas"] == 1:
            del spec["replicas"]  # so that the supervisor can scale it
        if kind == "Service" and BOARD_LABEL not in spec["selector"]:
            spec["selector"] = spec["selector"] | set_hash
        own_plan = planned(item)
        if set_hash and own_plan:
            # The tool recreates Jobs one after the other. The supervisor must ignore the old Jobs.
            plan = read_plan(own_plan)._replace(set=set_hash[SET])
            adapted["data"] = {**item["data"], PLAN: plan_text(plan)}
        return adapted

    def settings(self, topology: Topology, objects: Sequence[Object]) -> list[str]:
        """Return the settings that make the tool keep the supervisor's changes, as lines of YAML.

        Returns:
            An introduction and the lines; [] if the supervisor changes no field in Git.
        """
        changed = _changed_in_git(topology, objects) if topology.supervised else {}
        if not changed:
            return []
        tool = self._tool
        keeps = f"so that {tool['title']} keeps the supervisor's changes"
        # Only these roles are listed, so that other Jobs can still be suspended in Git.
        roles = ", ".join(dict.fromkeys(changed.get("Job", ())))
        lines = [line for kind, line in tool["settings"] if kind in ("any", *changed)]
        replaced = (f"  {line.replace('ROLES', roles)}" for line in lines)
        return [f"add to the {tool['config']}, {keeps}:", *replaced]


def _changed_in_git(topology: Topology, manifests: Sequence[Object]) -> dict[str, list[str]]:
    """Return the roles with fields in Git that the supervisor changes, by kind of workload."""
    specs = {item["metadata"]["name"]: item.get("spec", {}) for item in manifests}
    stops = topology.job.run_policy.clean_pod_policy == "Running"
    changed: dict[str, list[str]] = {}
    for role in topology.roles:
        kind, field = ("StatefulSet", "replicas") if role.serves else ("Job", "suspend")
        is_changed = role.orders or (role.serves and (role.gang or stops))
        if is_changed and field in specs[workload_name(topology.job, role)]:
            changed.setdefault(kind, []).append(role.name)
    if has_release(topology):
        changed.setdefault("Job", []).append(RELEASE)
    return changed


def _annotations(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of the user, and those of a tool that the user has not set."""
    merged = {**own, **added, **own}
    if SYNC_OPTIONS in added and SYNC_OPTIONS in own:
        merged[SYNC_OPTIONS] = _options(own[SYNC_OPTIONS], added[SYNC_OPTIONS])
    return merged


def _options(own: str, added: str) -> str:
    """Return the sync options that the user has set, and the added options that are missing."""
    listed = [option.strip() for option in own.split(",") if option]
    names = {option.partition("=")[0] for option in listed}
    more = [option for option in added.split(",") if option.partition("=")[0] not in names]
    return ",".join([*listed, *more]) if more else own


def _kinds(topology: Topology, manifest: Object) -> Iterator[str]:
    """Yield the keys of a manifest in the tools' table of annotations."""
    job, kind, metadata = topology.job, manifest["kind"], manifest["metadata"]
    if kind == "Job" and topology.supervised:
        stops = job.run_policy.clean_pod_policy == "Running"
        role, roles = metadata["labels"].get(ROLE), {role.name for role in topology.roles}
        if role == RELEASE or (stops and role in roles and DECIDES not in metadata["labels"]):
            yield "suspended"  # if it still runs when training has ended
    if kind == "ConfigMap" and metadata["name"] in (config_name(job.name), program_name(job)):
        yield "own"
    yield kind if is_built_in(manifest["apiVersion"]) else "custom"


@cache
def tools() -> dict[Tool, dict[str, Any]]:
    """Return each tool's title, the kind that configures it, its annotations and settings."""
    rows = table("integrations/gitops").items()
    return {name: tool for name, tool in rows if name != "$comment"}


def tool(text: str) -> Tool:
    """Return the name of a tool.

    Raises:
        ValueError: the tool is unknown. The message lists all tools.
    """
    if text not in tools():
        raise ValueError(f'unknown tool "{text}"; expected one of: {", ".join(tools())}')
    return text
