"""The objects of rendered jobs as they are in the cluster, by one `kubectl get` per namespace."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.live.reasons import STARTING, reason
from mlgen.objects import supervisor
from mlgen.objects.labels import INSTANCE, status_name, workload_name
from mlgen.result import Rendered
from mlgen.runtime import plan as plans
from mlgen.runtime.cluster import Seen, is_deleted, pods_of, short_of_pods
from mlgen.runtime.plan import Plan, Workload

KINDS = "jobs.batch,statefulsets.apps,pods,configmaps"


class Member(NamedTuple):
    """A pod of a job.

    Attributes:
        workload: that of its replica, or the supervisor's Job.
        number: the index of the replica in its role; None for the supervisor's pod.
        pod: as the API server returns it.
    """

    workload: Workload
    number: int | None
    pod: Object

    @property
    def replica(self) -> str:
        """The role and the index: `worker-3`; or `supervisor`."""
        role = self.workload.role
        return role if self.number is None else f"{role}-{self.number}"


@dataclass(frozen=True)
class Snapshot:
    """A job in the cluster, as far as it is there.

    Attributes:
        rendered: the job.
        plan: its workloads as the supervisor knows them, and the run of its supervisor.
        seen: workloads, pods, and the data of the ConfigMap `<job>-status`.
        supervisor: the supervisor's Job, if it exists.
        pods: those of the workloads and of the supervisor, the newest last.
        namespace: of the objects; "" if there are none.
        now: the time, in seconds since the epoch.
        events: warnings of the namespace, the latest last, if something cannot start; else ().
    """

    rendered: Rendered
    plan: Plan
    seen: Seen
    supervisor: Object | None
    pods: tuple[Member, ...]
    namespace: str
    now: float
    events: Sequence[Object] = ()

    @property
    def missing(self) -> list[Workload]:
        """The workloads that do not exist."""
        return [item for item in self.plan.workloads if not self.seen.workloads[item.name]]

    @property
    def exists(self) -> bool:
        """True if something of the job is there: a workload, or the record of its end."""
        return len(self.missing) < len(self.plan.workloads) or bool(self.seen.status.get("state"))


def snapshots(kubectl: Kubectl, jobs: Sequence[Rendered]) -> list[Snapshot]:
    """Return each job as it is in the cluster.

    Raises:
        KubectlError: kubectl is not installed, or fails.
    """
    found = {}
    for namespace in dict.fromkeys(job.job.namespace for job in jobs):
        names = sorted({job.job.name for job in jobs if job.job.namespace == namespace})
        words = ("get", KINDS, "-l", f"{INSTANCE} in ({', '.join(names)})")
        found[namespace] = kubectl.objects(*words, namespace=namespace)
    now = time.time()
    taken = [snapshot(job, found[job.job.namespace], now) for job in jobs]
    stuck = dict.fromkeys(each.rendered.job.namespace for each in taken if _is_stuck(each))
    events = {namespace: _warnings(kubectl, namespace) for namespace in stuck}
    return [replace(each, events=events.get(each.rendered.job.namespace, ())) for each in taken]


def snapshot(rendered: Rendered, objects: Iterable[Object], now: float) -> Snapshot:
    """Pick the objects of a job."""
    job, topology = rendered.job, rendered.topology
    labelled = [(each, each["metadata"].get("labels") or {}) for each in objects]
    own = [{"status": {}, **each} for each, labels in labelled if labels.get(INSTANCE) == job.name]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in own}
    # What the supervisor of a job knows of it, also if it has none.
    plan = supervisor.plan(topology, rendered.objects, rendered.kube_version)
    helper = Workload("Job", supervisor.own_name(job), "supervisor", container="supervisor")
    present = by_name.get(("Job", helper.name))
    known = plans.load(json.dumps(plan), present["metadata"]["uid"] if present else "")
    items = (helper, *known.workloads)
    seen = Seen(
        {item.name: by_name.get((item.kind, item.name)) for item in items},
        sorted((each for each in own if each["kind"] == "Pod"), key=_age),
        by_name.get(("ConfigMap", status_name(job.name)), {}).get("data") or {},
    )
    indexes = {workload_name(topology.job, role): role.index for role in topology.roles}
    pods = []
    for item, pod in pods_of(items, seen):
        labels = pod["metadata"].get("labels") or {}
        # That of a controller, which gives none to a Job that is not indexed; or the replica's own.
        of_pod = int(labels.get(JOB_INDEX) or labels.get(SET_INDEX) or 0)
        own_index = indexes.get(item.name)
        index = of_pod if own_index is None else own_index
        pods.append(Member(item, None if item is helper else index, pod))
    namespace = next((each["metadata"].get("namespace", "") for each in own), "")
    return Snapshot(rendered, known, seen, present, tuple(pods), namespace, now)


def _age(pod: Object) -> tuple[str, bool]:
    """Return the order of pods; of two of the same second, one that is deleted is the older."""
    return pod["metadata"]["creationTimestamp"], not is_deleted(pod)


def _is_stuck(taken: Snapshot) -> bool:
    """Return whether a workload has too few pods, or a pod's containers are not created."""
    starting = (reason(item, pod).word == STARTING for item, _, pod in taken.pods)
    return bool(short_of_pods(taken.plan, taken.seen, taken.now)) or any(starting)


def _warnings(kubectl: Kubectl, namespace: str | None) -> list[Object]:
    """Return the warnings of a namespace, the latest last; [] if the rights do not allow it."""
    words = ("get", "events", "--field-selector", "type=Warning")
    found = kubectl.readable(*words, namespace=namespace) or ()
    return sorted(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))
