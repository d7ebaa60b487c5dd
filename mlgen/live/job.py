"""A job of the commands that read the cluster: from a job file, or by name from its objects.

The objects in the cluster say what these commands need. Labels name the job and the role of each
workload, the supervisor's ConfigMap has the plan, and pod templates have the ranks and the peers.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from mlgen.jobfile.model import RoleSpec, Scheduling, TrainingJob
from mlgen.kubernetes.names import KUEUE_QUEUE
from mlgen.kubernetes.objects import Object, group_of
from mlgen.live.kubectl import ClusterError, Kubectl
from mlgen.live.reasons import WAIT
from mlgen.objects import placement, supervisor
from mlgen.objects.labels import (
    DECIDES,
    INSTANCE,
    JOB,
    MANAGED_BY,
    REPLICA_INDEX,
    ROLE,
    SUPERVISES,
    part_of,
    status_name,
)
from mlgen.problems import MlgenError, Problem
from mlgen.result import Rendered
from mlgen.runtime import status
from mlgen.runtime.cluster import SIDECAR
from mlgen.runtime.plan import Plan, Workload
from mlgen.topology import INDEX_NAME, RESERVED, Hosts, Role, Topology, Wait

KINDS = "jobs.batch,statefulsets.apps,pods"
"""The kinds with the label JOB that show the state of a job. Its ConfigMaps have SUPERVISES."""

OWNED = (
    *("deployments.apps", "jobs.batch", "jobsets.jobset.x-k8s.io", "statefulsets.apps"),
    *("configmaps", "services", "serviceaccounts", "networkpolicies.networking.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io"),
    *(f"podgroups.{group_of(version)}" for version in placement.API_VERSIONS.values()),
)
"""The resources of a job's objects with the label JOB."""

MANY = 100
"""Up to this number, jobs are selected by name. Otherwise, the URL could become too long."""

PEER = re.compile(r"(.+-)(?:\[(\d+)-(\d+)\]|(\d+))(\.[^:]*)?(?::(\d+))?")
"""An address in MLGEN_PEERS: `mnist-ps-[0-1].mnist:2222`, or the bare name of one replica."""


class LiveJob(NamedTuple):
    """A job that may be in the cluster.

    Attributes:
        name: of the job.
        namespace: None for the namespace of kubectl's context.
        topology: its roles. For a job by name, only what its objects show.
        objects: as rendered, or as read from the cluster.
        plan: the supervisor's instructions, also without a supervisor.
        file: the name of the job file; "" for a job by name.
    """

    name: str
    namespace: str | None
    topology: Topology
    objects: Sequence[Object]
    plan: Plan
    file: str = ""


def of_file(rendered: Rendered) -> LiveJob:
    """Return a job of a job file."""
    job, topology, objects = rendered.job, rendered.topology, rendered.objects
    plan = supervisor.plan(topology, objects, rendered.kube_version)
    return LiveJob(job.name, job.namespace, topology, objects, plan, rendered.file)


def named(kubectl: Kubectl, words: Sequence[str], namespace: str | None) -> list[LiveJob]:
    """Return jobs in the cluster by name.

    Args:
        kubectl: reads the cluster.
        words: names, or `<namespace>/<name>`.
        namespace: of names without one; None for the namespace of kubectl's context.

    Raises:
        ClusterError: kubectl is not installed, or fails.
        MlgenError: the cluster has no such job.
    """
    pairs = [(space or namespace, name) for space, _, name in (w.rpartition("/") for w in words)]
    spaces = dict.fromkeys(space for space, _ in pairs)
    found = {
        space: find(kubectl, [name for each, name in pairs if each == space], space)
        for space in spaces
    }
    missing = [_missing(space, name) for space, name in pairs if name not in found[space]]
    if missing:
        raise MlgenError(missing)
    return [found[space][name] for space, name in pairs]


def find(kubectl: Kubectl, names: Sequence[str], namespace: str | None) -> dict[str, LiveJob]:
    """Return the jobs with these names that a namespace has, by name.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    objects: dict[str, list[Object]] = {}
    for item in read(kubectl, names, namespace):
        objects.setdefault(name_of(item), []).append(item)
    jobs = (by_name(name, objects[name]) for name in dict.fromkeys(names) if name in objects)
    return {job.name: job for job in jobs if job}


def place(namespace: str | None) -> str:
    """Return where jobs of a namespace are, for messages. Without one, kubectl chooses it."""
    return f"namespace {namespace}" if namespace else "the namespace of kubectl's context"


def _missing(namespace: str | None, name: str) -> Problem:
    message = f'"{name}" is no file, and no job in {place(namespace)}'
    hint = f"mlgen list{f' -n {namespace}' if namespace else ''} lists the jobs"
    return Problem((), message, "unknown-value", hint)


def read(kubectl: Kubectl, names: Sequence[str], namespace: str | None) -> list[Object]:
    """Return the workloads, pods, plans and records of jobs in a namespace.

    The pod of a supervisor is read only if it is not ready.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """

    def selected(kinds: str, label: str, values: Sequence[str]) -> list[Object]:
        selector = f"{label} in ({', '.join(values)})" if len(values) <= MANY else label
        return kubectl.objects("get", kinds, "-l", selector, namespace=namespace)

    found = selected(KINDS, JOB, names)
    found += selected("configmaps", SUPERVISES, names)
    parts = {(name_of(each), part_of(each)) for each in found}
    supervised = {name_of(each): each for each in found if is_supervisor(each)}
    # Before mlgen 0.3, some had only recommended labels, and the plan did not have SUPERVISES.
    old = [name for name in supervised if not {(name, "supervisor"), (name, "status")} <= parts]
    if old:
        for item in selected("pods,configmaps", INSTANCE, old):
            labels = _labels(item)
            if part_of(item) == supervisor.NAME or not {JOB, SUPERVISES} & labels.keys():
                own = {**labels, SUPERVISES: labels[INSTANCE]}
                found.append({**item, "metadata": {**item["metadata"], "labels": own}})
    waiting = [name for name in supervised if not _runs(supervised[name])]
    return found + (selected("pods", SUPERVISES, waiting) if waiting else [])


def owned(kubectl: Kubectl, job: LiveJob) -> list[Object]:
    """Return all objects of a job that the user may list, also its claims.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    # It also fails if one aggregated API does not respond.
    served = kubectl.outcome("api-resources", "-o", "name").stdout.split()
    kinds = ",".join(kind for kind in OWNED if kind in served)
    claims = f"{INSTANCE}={job.name},{MANAGED_BY}=mlgen"
    found: list[Object] = []
    for kind, selector in (
        (kinds, f"{JOB}={job.name}"),
        ("configmaps", f"{SUPERVISES}={job.name},!{JOB}"),
        ("persistentvolumeclaims", claims),
    ):
        found += kubectl.permitted("get", kind, "-l", selector, namespace=job.namespace)
    return [item for item in found if not item["metadata"].get("ownerReferences")]


def is_supervisor(item: Object) -> bool:
    """Return whether an object is the Job of a supervisor."""
    return item["kind"] == "Job" and _labels(item).get(ROLE) == supervisor.NAME


def _runs(job: Object) -> bool:
    """Return whether the pod of a Job is ready, or has ended."""
    status = job.get("status") or {}
    return bool(status.get("ready") or status.get("conditions"))


def name_of(item: Object) -> str:
    """Return the name of the job to which an object belongs, or ""."""
    labels = _labels(item)
    return labels.get(JOB) or labels.get(SUPERVISES) or ""


def by_name(name: str, own: Sequence[Object]) -> LiveJob | None:
    """Return a job from its objects in the cluster; None if they are only pods or other objects.

    Without the plan of its supervisor, only the workloads that exist are known. A StatefulSet that
    is scaled to 0 does not show its replicas. If several Jobs decide together, all Jobs count.

    Raises:
        ClusterError: the plan of the supervisor cannot be read.
    """
    plan = next(filter(None, map(_plan, own)), None)
    live = {
        item["metadata"]["name"]: item
        for item in own
        if item["kind"] in supervisor.WORKLOADS and _labels(item).get(ROLE) not in (None, *RESERVED)
    }
    if not live and not plan:
        return _remaining(name, own)
    supervised = bool(plan) or any(map(is_supervisor, own))
    workloads = plan.workloads if plan else tuple(map(_workload, live.values()))
    counts = Counter(item.role for item in workloads)
    hosts = {f"{name}-{role}-": role for role in counts}
    hosts |= {f"{item.name}-": item.role for item in workloads}
    labelled = [each for each in live if DECIDES in _labels(live[each])]
    # If several workloads decide together, only the supervisor's Job has the label.
    ending = [each for each in live if live[each]["kind"] == "Job"]
    deciding = plan.deciding if plan else labelled or ending or [*live]
    decides: Literal["one", "all"] = "all" if supervised and not labelled else "one"
    roles = [
        replace(
            _role(name, item, live.get(item.name), counts, hosts), decides=item.name in deciding
        )
        for item in workloads
    ]
    some = next(iter(live.values()), own[0])
    queued = (each for item in live.values() for each in (item, item["spec"]["template"]))
    queue = next(filter(None, (_labels(each).get(KUEUE_QUEUE) for each in queued)), None)
    job = TrainingJob(
        name,
        _labels(some).get("app.kubernetes.io/name", ""),
        {role.name: role.spec for role in roles},
        namespace=some["metadata"].get("namespace"),
        scheduling=Scheduling(gang="kueue", queue=queue) if queue else Scheduling(),
    )
    topology = Topology(job, tuple(roles), supervised=supervised, decides=decides)
    return LiveJob(name, job.namespace, topology, own, plan or supervisor.plan(topology, own))


def _remaining(name: str, own: Sequence[Object]) -> LiveJob | None:
    """Return a job whose workloads were deleted, if its supervisor or a record of its end remains.

    None for other objects.
    """
    record = next((each for each in own if each["metadata"]["name"] == status_name(name)), {})
    is_over = status.stored(record.get("data") or {}).get("phase") == "Ended"
    some = next(filter(is_supervisor, own), record if is_over else None)
    if not some:
        return None
    framework = _labels(some).get("app.kubernetes.io/name", "")
    job = TrainingJob(name, framework, {}, namespace=some["metadata"].get("namespace"))
    plan = Plan(name, (supervisor.own_name(job),))
    return LiveJob(name, job.namespace, Topology(job, (), supervised=True), own, plan)


def _labels(item: Object) -> dict[str, str]:
    return (item.get("metadata") or {}).get("labels") or {}


def _plan(item: Object) -> Plan | None:
    """Return the plan in the supervisor's ConfigMap; None for any other object."""
    text = supervisor.planned(item)
    if text is None:
        return None
    try:
        return supervisor.read_plan(text)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        message = f"ConfigMap {item['metadata']['name']} contains no plan of mlgen: {error}"
        raise ClusterError(message, "other") from None


def _workload(item: Object) -> Workload:
    """Return a workload of a job without a supervisor."""
    spec = item["spec"]
    count = spec.get("replicas" if item["kind"] == "StatefulSet" else "completions")
    replicas = spec.get("parallelism", 1) if count is None else count
    name = item["metadata"]["name"]
    return Workload(item["kind"], name, _labels(item)[ROLE], replicas, _main(_pod(item))["name"])


def _pod(item: Object | None) -> Object:
    pod: Object = item["spec"]["template"]["spec"] if item else {}
    return pod


def _main(pod: Object) -> Object:
    """Return the training container: the one that knows its replica, `main`, or the first."""
    containers: list[Object] = pod["containers"]
    indexed = [each for each in containers if INDEX_NAME in _env(each)]
    named = [each for each in containers if each["name"] == "main"]
    return (indexed or named or containers)[0]


def _env(container: Object) -> dict[str, str]:
    """Return the environment variables of a container with a value, and "" for others."""
    return {each["name"]: each.get("value", "") for each in container.get("env") or ()}


def _role(
    job: str,
    item: Workload,
    live: Object | None,
    counts: Mapping[str, int],
    hosts: Mapping[str, str],
) -> Role:
    """Return the role of a workload.

    Args:
        job: the name of the job.
        item: the workload in the plan.
        live: the workload in the cluster, if it exists.
        counts: the number of workloads by role.
        hosts: roles by the part of their host names before the index.
    """
    labels = _labels(live) if live else {}
    suffix = item.name.removeprefix(f"{job}-{item.role}-")
    number = labels.get(REPLICA_INDEX) or (suffix if counts[item.role] > 1 else "")
    pod = _pod(live)
    main: Object = next(
        (each for each in pod.get("containers", ()) if each["name"] == item.container), {}
    )
    return Role(
        item.role,
        item.replicas,
        RoleSpec(item.role, item.replicas, main_container=item.container),
        serves=item.kind == "StatefulSet",
        index=int(number) if number.isdecimal() else None,
        env={name: value for name, value in _env(main).items() if value},
        waits=tuple(_peers(pod, hosts)),
        workload=item.name,
    )


def _peers(pod: Object, roles: Mapping[str, str]) -> Iterator[Wait]:
    """Yield the conditions for the start of a pod, from MLGEN_PEERS of its helper."""
    helpers = (each for each in pod.get("initContainers") or () if each["name"] in (WAIT, SIDECAR))
    for text in (word for each in helpers for word in _env(each).get("MLGEN_PEERS", "").split()):
        if found := PEER.fullmatch(text):
            before, first, last, only, after, port = found.groups()
            start, end = (int(first), int(last)) if first else (int(only), int(only))
            hosts = Hosts(before, end - start + 1, after or "", start)
            yield Wait(roles.get(before, before), hosts, int(port) if port else None)
