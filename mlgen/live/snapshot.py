"""The objects of rendered jobs as they are in the cluster, by one `kubectl get` per namespace."""

import dataclasses
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl
from mlgen.objects import supervisor
from mlgen.objects.labels import INSTANCE, status_name
from mlgen.result import Rendered
from mlgen.runtime import plan as plans
from mlgen.runtime.cluster import Seen, counts, is_suspended, pods_of, seconds, unfinished
from mlgen.runtime.plan import Plan, Workload

KINDS = "jobs.batch,statefulsets.apps,pods,configmaps"

STARTING_SECONDS = 10.0
"""A pod whose containers are not created for so long has an event that says why."""


@dataclass(frozen=True)
class Snapshot:
    """A job in the cluster, as far as it is there.

    Attributes:
        rendered: the job.
        plan: its workloads as the supervisor knows them, and the run of its supervisor.
        seen: workloads, pods, and the data of the ConfigMap `<job>-status`.
        supervisor: the supervisor's Job, if it exists.
        supervisor_pods: its pods.
        namespace: of the objects; "" if there are none.
        events: warnings of the namespace, if something cannot start; else ().
        now: the time, in seconds since the epoch.
    """

    rendered: Rendered
    plan: Plan
    seen: Seen
    supervisor: Object | None
    supervisor_pods: tuple[Object, ...]
    namespace: str
    events: tuple[Object, ...]
    now: float

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.rendered.job.name

    @property
    def missing(self) -> list[Workload]:
        """The workloads that do not exist."""
        return [item for item in self.plan.workloads if not self.seen.workloads[item.name]]

    @property
    def pods(self) -> list[tuple[Workload, Object]]:
        """The pods of the workloads that exist."""
        return list(pods_of(self.plan.workloads, self.seen))

    @property
    def exists(self) -> bool:
        """True if something of the job is there: a workload, or the record of its end."""
        return len(self.missing) < len(self.plan.workloads) or bool(self.seen.status.get("state"))


def plan_of(rendered: Rendered) -> Plan:
    """Return what the supervisor of a job knows of it, also if it has none; without its run."""
    plan = supervisor.plan(rendered.topology, rendered.objects, rendered.kube_version)
    return plans.load(json.dumps(plan), "")


def snapshots(kubectl: Kubectl, jobs: Sequence[Rendered]) -> list[Snapshot]:
    """Return each job as it is in the cluster.

    Raises:
        KubectlError: kubectl is not installed, or fails.
    """
    found = {name: _objects(kubectl, name, jobs) for name in _namespaces(jobs)}
    now = time.time()
    taken = [_snapshot(job, found[job.job.namespace], now) for job in jobs]
    return with_events(kubectl, taken)


def _namespaces(jobs: Sequence[Rendered]) -> list[str | None]:
    return list(dict.fromkeys(job.job.namespace for job in jobs))


def _objects(kubectl: Kubectl, namespace: str | None, jobs: Sequence[Rendered]) -> list[Object]:
    """Return the workloads, pods and ConfigMaps of the jobs of a namespace."""
    names = sorted({job.job.name for job in jobs if job.job.namespace == namespace})
    selector = f"{INSTANCE} in ({', '.join(names)})"
    return kubectl.objects("get", KINDS, "-l", selector, namespace=namespace)


def _snapshot(rendered: Rendered, objects: Iterable[Object], now: float) -> Snapshot:
    """Pick the objects of a job."""
    name = rendered.job.name
    own = [each for each in objects if _label(each, INSTANCE) == name]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in own}
    plan = plan_of(rendered)
    job = by_name.get(("Job", supervisor.own_name(rendered.job)))
    uid = job["metadata"]["uid"] if job else ""
    record = by_name.get(("ConfigMap", status_name(name)), {})
    workloads = {item.name: by_name.get((item.kind, item.name)) for item in plan.workloads}
    pods = [each for each in own if each["kind"] == "Pod"]
    seen = Seen(
        {key: {"status": {}, **each} if each else None for key, each in workloads.items()},
        pods,
        record.get("data") or {},
    )
    return Snapshot(
        rendered,
        dataclasses.replace(plan, run=uid),
        seen,
        job,
        tuple(pod for pod in pods if uid and uid in _owners(pod)),
        next((each["metadata"].get("namespace", "") for each in own), ""),
        (),
        now,
    )


def _label(item: Mapping[str, Any], name: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(name, ""))


def _owners(pod: Object) -> list[str]:
    return [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()]


def with_events(kubectl: Kubectl, taken: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots; those in which something cannot start, with the events that say why."""
    namespaces = dict.fromkeys(each.rendered.job.namespace for each in taken if _is_stuck(each))
    if not namespaces:
        return list(taken)
    events = {name: _warnings(kubectl, name) for name in namespaces}
    return [
        replace(each, events=tuple(events.get(each.rendered.job.namespace, ()))) for each in taken
    ]


def _warnings(kubectl: Kubectl, namespace: str | None) -> list[Object]:
    """Return the warnings of a namespace, the latest last; [] if the rights do not allow it."""
    words = ("get", "events", "--field-selector", "type=Warning")
    found = kubectl.readable(*words, namespace=namespace) or ()
    return sorted(found, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime")))


def _is_stuck(taken: Snapshot) -> bool:
    """Return whether a workload has too few pods, or a pod's containers are not created."""
    for _, observed in unfinished(taken.plan.workloads, taken.seen):
        wanted, found, _ = counts(observed)
        age = taken.now - seconds(observed["metadata"]["creationTimestamp"])
        if found < wanted and not is_suspended(observed) and age > STARTING_SECONDS:
            return True
    every = [pod for _, pod in taken.pods] + list(taken.supervisor_pods)
    return any(is_slow(pod, taken.now) for pod in every)


def is_slow(pod: Object, now: float) -> bool:
    """Return whether the containers of a scheduled pod are not created for some time."""
    status = pod["status"]
    every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    waits = [each["state"].get("waiting", {}).get("reason", "") for each in every]
    created = now - seconds(pod["metadata"]["creationTimestamp"]) < STARTING_SECONDS
    started = any(not each["state"].get("waiting") for each in every)
    return bool(every) and not created and not started and waits[0] in STARTING


STARTING = ("ContainerCreating", "PodInitializing")
"""What the kubelet says until a container is created, whatever keeps it."""
