"""The jobs of a namespace or of a cluster, from a few list requests: `mlgen list`.

It reads Jobs, StatefulSets and the ConfigMaps with the status, but no pods and no plans. `kubectl
get --raw` passes a list on as it is. Without that, kubectl reads and writes each object.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from time import sleep
from urllib.parse import quote

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import GPU, natural
from mlgen.live import reasons
from mlgen.live.job import LiveJob, by_name, is_supervisor, name_of
from mlgen.live.kubectl import ClusterError, Kubectl, failure, parsed
from mlgen.live.state import ENDED, Phase, snapshot, state
from mlgen.live.watch import PAUSE, Tell, age, patiently, table
from mlgen.objects.labels import COMPONENT, INSTANCE, JOB, OWNER, SUPERVISES, part_of
from mlgen.runtime.times import seconds

WAITING = ("Suspended", "Pending")
"""The phases of a job that may wait in a queue."""

RECORDS = f"{SUPERVISES},!{JOB}"
"""Selects the ConfigMaps with the status. Those with the plan have both labels, and are large."""

OLD_RECORDS = f"{COMPONENT}=status,!{SUPERVISES}"
"""Selects the ConfigMaps with the status that mlgen before 0.3 has rendered."""

KINDS = {
    "Job": ("/apis/batch/v1", "jobs", JOB, ""),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", JOB, "roles that are StatefulSets"),
    "ConfigMap": (
        "/api/v1",
        "configmaps",
        RECORDS,
        "restarts, progress and jobs without workloads",
    ),
}
"""Kinds with their API, resource and label selector, and the parts that they add to the list."""


@dataclass(frozen=True)
class JobSummary:
    """A job in a list.

    Attributes:
        name: of the job.
        namespace: of the job.
        phase: as in JobState. NotFound only while jobs are watched, once after a deletion.
        since: start of this phase, in seconds since the epoch; 0 if unknown.
        created: creation time of the first object that still exists.
        restarts: number of restarts of the whole job by the supervisor.
        progress: percentage of training that is done; None if it is not reported.
        left: estimated time left in seconds; None if it is not reported.
        gpus: number of GPUs that all replicas request.
        queue: the LocalQueue of Kueue, or "".
        position: in the queue, from 1; None if the job does not wait in it, or if it is unknown.
        framework: the name of the framework, or "".
        owner: the annotation `mlgen.dev/owner`, or "".
        ready: ready and existing replicas of each role: `chief 1/1, worker 3/4`.
        message: the reason for the phase, or "".
        code: the exit code of the first failed replica, once the job has failed; else 0.
    """

    name: str
    namespace: str
    phase: Phase
    since: float = 0.0
    created: float = 0.0
    restarts: int = 0
    progress: int | None = None
    left: int | None = None
    gpus: int = 0
    queue: str = ""
    position: int | None = None
    framework: str = ""
    owner: str = ""
    ready: str = ""
    message: str = ""
    code: int = 0

    @property
    def ended(self) -> bool:
        """True once training has ended."""
        return self.phase in ENDED


def jobs(
    kubectl: Kubectl,
    namespace: str | None = None,
    selector: str = "",
    *,
    everywhere: bool = False,
    tell: Tell = lambda _: None,
) -> list[JobSummary]:
    """Return the jobs in the cluster, sorted by namespace and name.

    Args:
        kubectl: reads the cluster.
        namespace: of the jobs; None for the namespace of kubectl's context.
        selector: of labels of the jobs, as for kubectl.
        everywhere: True for the jobs of all namespaces.
        tell: prints a line for each kind of object that the user may not list.

    Raises:
        ClusterError: kubectl is not installed, or fails, or the user may not list Jobs.
    """
    space = "" if everywhere else namespace or kubectl.default_namespace()
    pool = ThreadPoolExecutor()
    try:
        found: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
        for item in _objects(kubectl, pool, space, selector, tell):
            found[_key(item)].append(item)
        now = time.time()
        shown = [summary(name, found[space, name], now) for space, name in sorted(found)]
        return _placed(kubectl, pool, list(filter(None, shown)), found)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after a signal, kubectl may still run


def _key(item: Object) -> tuple[str, str]:
    """Return the namespace and the name of the job of an object."""
    return item["metadata"]["namespace"], name_of(item)


def _objects(
    kubectl: Kubectl, pool: ThreadPoolExecutor, space: str, selector: str, tell: Tell
) -> list[Object]:
    """Return the workloads and records of jobs. The lists are read at the same time."""
    # A record has the name of its job in another label.
    selectors = dict.fromkeys(KINDS, selector) | {"ConfigMap": selector.replace(JOB, SUPERVISES)}

    def read(kind: str, own: str) -> list[Object] | None:
        api, resource, *_ = KINDS[kind]
        labels = quote(",".join(filter(None, (own, selectors[kind]))))
        where = f"/namespaces/{space}" if space else ""
        outcome = kubectl.outcome("get", "--raw", f"{api}{where}/{resource}?labelSelector={labels}")
        if outcome.status and outcome.cause == "forbidden":
            return None
        if outcome.status:
            raise failure(outcome)
        return [{**item, "kind": kind} for item in parsed(outcome.stdout)]

    own = [labels for _, _, labels, _ in KINDS.values()]
    lists = dict(zip(KINDS, pool.map(read, KINDS, own), strict=True))
    for kind, (_, resource, _, lost) in KINDS.items():
        if lists[kind] is None:
            where = f"in namespace {space}" if space else "in all namespaces"
            text = f"no permission to list {resource} {where}"
            if kind == "Job":
                hint = "" if space else "; list those of one: mlgen list -n NAMESPACE"
                raise ClusterError(f"{text}{hint}", "forbidden")
            tell(f"{text}: {lost} are not shown")
    workloads, sets, records = (lists[kind] or [] for kind in KINDS)
    known = {_key(item) for item in records}
    unknown = any(is_supervisor(item) and _key(item) not in known for item in workloads)
    if unknown and lists["ConfigMap"] is not None:
        for item in read("ConfigMap", OLD_RECORDS) or ():
            labels = item["metadata"]["labels"]
            labels[SUPERVISES] = labels.get(INSTANCE, "")
            records.append(item)
    return [*workloads, *sets, *(item for item in records if part_of(item) == "status")]


def summary(name: str, own: Sequence[Object], now: float) -> JobSummary | None:
    """Return a job from its objects; None if they show no job."""
    job = by_name(name, own)
    taken = snapshot(job, own, now) if job else None
    if not job or not taken or not taken.exists:
        return None
    found, scheduling = state(taken), job.topology.job.scheduling
    annotations = (each["metadata"].get("annotations") or {} for each in own)
    created = (seconds(each["metadata"]["creationTimestamp"]) for each in own)
    return JobSummary(
        name,
        found.namespace,
        found.phase,
        found.since,
        found.created or min(created),
        found.restarts,
        found.progress.progress if found.progress else None,
        found.progress.left if found.progress and not found.ended else None,
        _gpus(job),
        scheduling.queue or "",
        framework=job.topology.job.framework,
        owner=next((each[OWNER] for each in annotations if OWNER in each), ""),
        ready=", ".join(f"{role.role} {role.ready}" for role in found.roles),
        message=found.message,
        code=found.code,
    )


def _gpus(job: LiveJob) -> int:
    """Return the number of GPUs that the replicas of a job request together."""
    counts = {(item.kind, item.name): item.replicas for item in job.plan.workloads}
    total = 0
    for item in job.objects:
        count = counts.get((item["kind"], item["metadata"]["name"]), 0)
        pod = item["spec"]["template"]["spec"] if count else {}
        for container in pod.get("containers", ()):
            limits = (container.get("resources") or {}).get("limits") or {}
            gpus = (amount for name, amount in limits.items() if name.endswith(GPU))
            total += count * sum(natural(str(amount)) or 0 for amount in gpus)
    return total


def _placed(
    kubectl: Kubectl,
    pool: ThreadPoolExecutor,
    jobs: Sequence[JobSummary],
    objects: Mapping[tuple[str, str], Sequence[Object]],
) -> list[JobSummary]:
    """Return the jobs with their positions in queues, with one request for each queue."""
    waiting = [job for job in jobs if job.queue and job.phase in WAITING]
    queues = [*dict.fromkeys((job.namespace, job.queue) for job in waiting)]
    read = pool.map(lambda queue: _positions(kubectl, *queue), queues)
    found = dict(zip(queues, read, strict=True))
    placed = {}
    for job in waiting:
        places, own = found[job.namespace, job.queue], objects[job.namespace, job.name]
        names = (job.name, *(item["metadata"]["uid"] for item in own))
        position = next((places[each] for each in names if each in places), None)
        placed[job] = replace(job, position=position)
    return [placed.get(job, job) for job in jobs]


def _positions(kubectl: Kubectl, namespace: str, queue: str) -> dict[str, int]:
    """Return the positions in a queue by the name of a Workload, and by the UIDs of its owners.

    The Workload of a group of pods has the name of the group.
    """
    places: dict[str, int] = {}
    with suppress(ClusterError):
        outcome = reasons.pending(kubectl, namespace, queue)
        for item in (json.loads(outcome.stdout)["items"] or ()) if not outcome.status else ():
            names = {item["metadata"]["name"], *reasons.owners(item)}
            places |= dict.fromkeys(names, item["positionInLocalQueue"] + 1)
    return places


def poll(
    kubectl: Kubectl, read: Callable[[Tell], list[JobSummary]], tell: Tell
) -> Iterator[list[JobSummary]]:
    """Read and yield the jobs again and again. A job that was deleted is NotFound once.

    Args:
        kubectl: with the deadline.
        read: reads the jobs once, and tells what is missing.
        tell: prints a line, for example if the cluster does not respond.
    """
    once = cache(tell)
    before: dict[tuple[str, str], JobSummary] = {}
    while True:
        found = {
            (job.namespace, job.name): job for job in patiently(kubectl, lambda: read(once), tell)
        }
        gone = [
            replace(before[key], phase="NotFound", message="") for key in before if key not in found
        ]
        yield [*found.values(), *gone]
        before = found
        sleep(PAUSE)


def page(found: Sequence[JobSummary], now: float, *, everywhere: bool, wide: bool) -> str:
    """Return the jobs as a table."""
    rows = [_row(job, everywhere=everywhere, wide=wide) for job in found]
    return "\n".join(table(rows, now)) if rows else ""


def _row(job: JobSummary, *, everywhere: bool, wide: bool) -> dict[str, object]:
    """Return the cells of a job. Times are in seconds since the epoch."""
    row: dict[str, object] = {
        "job": job.name,
        **({"namespace": job.namespace} if everywhere else {}),
        "framework": job.framework,
        "state": job.phase,
        "restarts": job.restarts,
        "progress": "" if job.progress is None else f"{job.progress}%",
        "gpus": job.gpus or "",
        "queue": _place(job),
        "age": job.created,
        "owner": job.owner,
    }
    left = "" if job.left is None else age(job.left)
    more = {"for": job.since, "left": left, "ready": job.ready, "message": job.message}
    return {**row, **more} if wide else row


def _place(job: JobSummary) -> str:
    """Return the queue of a job, with its position if it waits there."""
    return f"{job.position} in {job.queue}" if job.position else job.queue


def line(job: JobSummary) -> str:
    """Return a job in one line, without times, so that lines differ only after a change.

    Progress is rounded down to 10 %.
    """
    is_over = job.ended or job.phase == "NotFound"
    done = "" if is_over or job.progress is None else f"{job.progress // 10 * 10}% done"
    queue = _place(job) if job.position else ""
    parts = (f"{job.namespace}/{job.name}: {job.phase}", job.message, queue, done)
    return ", ".join(filter(None, parts))
