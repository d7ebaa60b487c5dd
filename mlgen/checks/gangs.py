"""The PodGroup of a job → findings: does the scheduler ever have all that it waits for?"""

from collections.abc import Iterator

from mlgen.checks.pods import TEMPLATE, Finding, Objects, Pods, broken, title
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import POD_GROUPS, KubeVersion
from mlgen.problems import Problem, ValuePath

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

NATIVE = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroup."""

GANG: ValuePath = ("spec", "scheduling", "gang")


def findings(job: Objects, kube_version: KubeVersion) -> Iterator[Finding]:
    """Return what keeps the scheduler from starting the pods of a job's PodGroup.

    Args:
        job: its objects.
        kube_version: of the cluster.
    """
    for name, item in job.of_kind("PodGroup").items():
        members = [pods for pods in job.pods if _group(pods) == name]
        total = sum(pods.count or 0 for pods in members)
        is_native = group_of(item["apiVersion"]) == NATIVE
        path, least = _least(item["spec"], is_native=is_native)
        if not members:
            yield broken(item, ("metadata", "name"), f"no pod belongs to {title(item)}")
        elif least > total and all(pods.count is not None for pods in members):
            message = f"{title(item)} requires {least} pods, but the job has {total}"
            hint = f"do not override {path[-1]} or the number of replicas"
            yield broken(item, path, message, hint)
        if is_native and kube_version < POD_GROUPS:
            message = f"Kubernetes {kube_version} has no PodGroup of {item['apiVersion']}"
            hint = f"set --kube-version {POD_GROUPS}, or use another gang scheduler"
            yield Finding(item, ("apiVersion",), Problem(GANG, message, "combination", hint))
        if is_native:
            distinct = [pods for pods in job.distinct_pods if _group(pods) == name]
            yield from _differences(item, distinct)


def _group(pods: Pods) -> str | None:
    """Return the name of the PodGroup that pods belong to."""
    metadata, spec = pods.template["metadata"], pods.template["spec"]
    group: str | None = (
        metadata.get("annotations", {}).get(GROUP_ANNOTATION)
        or metadata["labels"].get(GROUP_LABEL)
        or spec.get("schedulingGroup", {}).get("podGroupName")
    )
    return group


def _least(spec: Object, *, is_native: bool) -> tuple[ValuePath, int]:
    """Return how many pods a PodGroup requires, and the path of the number."""
    if not is_native:
        return ("spec", "minMember"), spec.get("minMember", 0)
    gang = spec.get("schedulingPolicy", {}).get("gang", {})
    return ("spec", "schedulingPolicy", "gang", "minCount"), gang.get("minCount", 0)


def _differences(group: Object, members: list[Pods]) -> Iterator[Finding]:
    """Return the pods that Kubernetes' scheduler does not accept in a group.

    All have the same scheduler, and the priority of the PodGroup (Kubernetes 1.37.0,
    pkg/scheduler/schedule_one_podgroup.go, validatePodGroup).
    """
    for pods in members:
        expected = {
            "schedulerName": members[0].template["spec"].get("schedulerName"),
            "priorityClassName": group["spec"].get("priorityClassName"),
        }
        for field, value in expected.items():
            own = pods.template["spec"].get(field)
            if own != value:
                message = (
                    f"{title(pods.item)} has {field} {own or 'none'}, its gang {value or 'none'}"
                )
                hint = f"write scheduling.{field}, which all pods of a gang have in common"
                path = (*TEMPLATE, "spec", field)
                yield Finding(
                    pods.item, path, Problem(pods.role_path, message, "combination", hint)
                )
