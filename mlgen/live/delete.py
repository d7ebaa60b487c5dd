"""Delete the objects of rendered jobs, and no others."""

from collections.abc import Sequence
from time import sleep
from typing import NamedTuple

from mlgen.checks.pods import WORKLOADS
from mlgen.kubernetes.objects import Object, is_built_in
from mlgen.live import reasons
from mlgen.live.job import LiveJob, owned
from mlgen.live.kubectl import ClusterError, Kubectl, identity, listed
from mlgen.live.watch import Tell
from mlgen.objects.labels import (
    INSTANCE,
    JOB,
    MANAGED_BY,
    SUPERVISES,
    metadata,
    status_name,
)
from mlgen.objects.placement import is_group
from mlgen.objects.supervisor import own_name

CLAIM = "PersistentVolumeClaim"

GROUP = "kueue.x-k8s.io/is-group-workload"
"""The annotation of Kueue's Workload for a group of pods."""

PAUSE = 1.0

SHOWN = 20.0
"""Seconds between two lines that name the remaining pods."""


class Deletion(NamedTuple):
    """The objects to delete, and the objects with the job's names that are kept.

    Attributes:
        objects: to delete, in this order, as read from the cluster.
        claims: the job's PersistentVolumeClaims, if they are kept.
        foreign: objects with the same names that do not belong to the job. They are kept.
    """

    objects: tuple[Object, ...]
    claims: tuple[Object, ...] = ()
    foreign: tuple[Object, ...] = ()


def deletion(kubectl: Kubectl, jobs: Sequence[LiveJob], *, claims: bool) -> Deletion:
    """Return the objects of the jobs that exist in the cluster.

    Args:
        kubectl: reads the cluster.
        jobs: by name, or rendered with the same options as when they were applied.
        claims: True to delete their PersistentVolumeClaims and data as well.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    own: list[Object] = []
    foreign: list[Object] = []
    # A job without a namespace is in the namespace of kubectl's context.
    for namespace in dict.fromkeys(job.namespace for job in jobs):
        members = [job for job in jobs if job.namespace == namespace]
        expected = {_key(item): item for job in members if job.file for item in _expected(job)}
        for live in _live(kubectl, list(expected.values()), namespace) if expected else ():
            item = expected.get(_key(live))
            if item:
                (own if _is_own(live, item) else foreign).append(live)
    own += [item for job in jobs if not job.file for item in owned(kubectl, job)]
    own += [item for job in jobs for item in _kueue_workloads(kubectl, job)]
    names = {own_name(job.topology.job) for job in jobs}
    kept = [] if claims else [item for item in own if item["kind"] == CLAIM]
    rest = [item for item in own if item not in kept]
    return Deletion(
        tuple(sorted(rest, key=lambda item: _order(item, names))), tuple(kept), tuple(foreign)
    )


def _expected(job: LiveJob) -> list[Object]:
    """Return the objects of a job and its status ConfigMap, which a workflow may have written."""
    topology_job = job.topology.job
    status = metadata(topology_job, status_name(topology_job.name), "status")
    return [*job.objects, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": status}]


def _key(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _order(item: Object, supervisors: set[str]) -> int:
    """Return the position of an object: the supervisor first, which would react to the rest."""
    if item["kind"] in WORKLOADS:
        return 0 if item["metadata"]["name"] in supervisors else 1
    return 2


def _is_own(live: Object, item: Object) -> bool:
    """Return whether an object in the cluster belongs to the job, by its labels.

    Some objects lack the job's own label, so that a cleanup by that label keeps them. Other tools
    may overwrite the recommended labels of the rest.
    """
    labels, own = live["metadata"].get("labels") or {}, item["metadata"]["labels"]
    names = next(([name] for name in (JOB, SUPERVISES) if name in labels), (INSTANCE, MANAGED_BY))
    job = own.get(JOB) or own.get(SUPERVISES)
    return all(labels.get(name) == (own.get(name) or job) for name in names)


def _live(kubectl: Kubectl, items: Sequence[Object], namespace: str | None) -> list[Object]:
    """Return the objects that exist in the cluster.

    Custom resources are read one by one, because kubectl fails as a whole if one kind has no
    definition.
    """
    built_in = [identity(item) for item in items if is_built_in(item["apiVersion"])]
    words = ("get", "-f", "-", "--ignore-not-found")
    found = kubectl.objects(*words, namespace=namespace, stdin=listed(built_in))
    for item in items:
        if not is_built_in(item["apiVersion"]):
            try:
                one = listed([identity(item)])
                found += kubectl.objects(*words, namespace=namespace, stdin=one)
            except ClusterError as error:
                if "no matches for kind" not in error.message:
                    raise
    return found


def _kueue_workloads(kubectl: Kubectl, job: LiveJob) -> list[Object]:
    """Return the Workload that Kueue created for the pods of a job, if they are a group.

    Kueue keeps deleted pods, and their quota, until they are replaced or the Workload is deleted
    (https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_pods/).
    """
    if not is_group(job.topology):
        return []
    words = ("get", reasons.WORKLOADS, job.name, "--ignore-not-found")
    try:
        found = kubectl.readable(*words, namespace=job.namespace) or ()
    except ClusterError as error:
        if "have a resource type" in error.message:
            return []
        raise
    return [item for item in found if GROUP in (item["metadata"].get("annotations") or {})]


def named(item: Object) -> str:
    """Return how kubectl prints the name of an object: `job.batch/mnist-worker`."""
    group = item["apiVersion"].rpartition("/")[0]
    return f"{item['kind'].lower()}{'.' * bool(group)}{group}/{item['metadata']['name']}"


def delete(kubectl: Kubectl, objects: Sequence[Object], tell: Tell) -> None:
    """Delete objects in order, and wait until the pods of their jobs are gone.

    Raises:
        ClusterError: kubectl fails.
    """
    words = ("delete", "-f", "-", "--ignore-not-found", "--wait=false")
    kubectl.text(*words, stdin=listed(map(identity, objects)))
    metadata_of = [each["metadata"] for each in objects]
    pairs = {
        (each.get("namespace"), name, str(each["labels"][JOB]))
        for each in metadata_of
        if JOB in (each.get("labels") or {})
        for name in (JOB, SUPERVISES)
    }
    for namespace, name, job in sorted(pairs):
        _wait(kubectl, namespace, f"{name}={job}", tell)


def _wait(kubectl: Kubectl, namespace: str, selector: str, tell: Tell) -> None:
    """Wait until the pods of a job are gone, because the next run's pods reuse their addresses."""
    shown, waited = 0.0, 0.0
    while True:
        words = ("get", "pods", "-l", selector, "-o", "name")
        pods = kubectl.text(*words, namespace=namespace).split()
        if not pods:
            return
        if waited >= shown:
            more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
            tell(f"waiting for {pods[0]}{more} to terminate")
            shown = waited + SHOWN
        sleep(PAUSE)
        waited += PAUSE
