"""The gang and queue of a Volcano job, and what only Volcano's scheduler can do.

Source: volcano-sh/volcano, pkg/controllers/job/job_controller_actions.go (the PodGroup) and
job_controller_util.go (createJobPod).
"""

from collections.abc import Sequence

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.tasks import Task

VOLCANO, DEFAULT = "volcano", "default-scheduler"

INHERITED = {
    "labels": ("volcano.sh/preemptable", "volcano.sh/cooldown-time"),
    "annotations": (
        "volcano.sh/preemptable",
        "volcano.sh/cooldown-time",
        "volcano.sh/revocable-zone",
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    ),
}
"""The labels and annotations that Volcano copies from the job to its pods."""

NUMA_POLICY = "volcano.sh/numa-topology-policy"
"""The annotation of pods with the `topologyPolicy` of their task."""


def write_scheduling(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the gang, if the resource names a scheduler or a queue.

    Volcano's scheduler is the operator's default, but in a cluster without it the pods would stay
    pending.

    Args:
        builder: is written to.
        tasks: those with replicas.
    """
    spec = builder.spec
    queue = _non_empty(spec.get("queue"))
    priority = _non_empty(spec.get("priorityClassName"))
    builder.put(("spec", "scheduling", "priorityClassName"), priority)
    scheduler = _scheduler(spec, tasks)
    least, pods = min_available(spec, tasks), sum(task.replicas for task in tasks)
    is_gang = scheduler.value != DEFAULT and bool(scheduler or queue)
    if is_gang:
        _write_gang(builder, scheduler, queue)
        if least < pods:
            source = spec.get("minAvailable") or spec
            builder.put(("spec", "scheduling", "minMember"), source, max(1, least))
    elif queue:
        message = f"Volcano holds the job until its queue has room; {DEFAULT} ignores the queue"
        builder.differs(queue, message)
    elif not scheduler and pods > 1:
        source = spec.get("minAvailable") or spec.get("tasks")
        count = f"all {pods}" if least == pods else f"{least} of the {pods}"
        message = (
            f"Volcano starts {count} pods together or none; Kubernetes starts each pod as soon as"
            " it fits"
        )
        hint = "if Volcano is installed, pass --set spec.scheduling.gang=volcano"
        builder.differs(source, message, hint)
    _report_placement(builder, tasks, is_gang=is_gang)


def _non_empty(name: SourceValue) -> SourceValue:
    """Return a name; an empty one as missing."""
    return name if name.value else SourceValue(None, name.path)


def _scheduler(spec: SourceValue, tasks: Sequence[Task]) -> SourceValue:
    """Return the first schedulerName, of the job or else of a pod template."""
    names = [
        spec.get("schedulerName"),
        *(task.source.get("template", "spec", "schedulerName") for task in tasks),
    ]
    return next(filter(None, map(_non_empty, names)), SourceValue(None))


def _write_gang(builder: Builder, scheduler: SourceValue, queue: SourceValue) -> None:
    spec, source = builder.spec, scheduler or queue
    name = scheduler.value or VOLCANO
    builder.put(("spec", "scheduling", "gang"), source, VOLCANO)
    builder.put(("spec", "scheduling", "queue"), queue)
    if name != VOLCANO:
        builder.put(("spec", "scheduling", "schedulerName"), scheduler)
    priority = spec.get("priorityClassName").value
    keep_priority = f", priorityClassName: {priority}" if priority else ""
    message = f"the pods stay pending unless the scheduler {name} is installed"
    hint = f"if it is not, pass --set 'spec.scheduling={{gang: none{keep_priority}}}'"
    builder.differs(source, message, hint)


def min_available(spec: SourceValue, tasks: Sequence[Task]) -> int:
    """Return how many pods the gang needs.

    If the job's minAvailable is 0 or missing, that is the sum over all tasks, and each task counts
    with its own minAvailable, by default its replicas.
    """
    of_job: int = spec.get("minAvailable").value or 0
    of_tasks = [(task.source.get("minAvailable").value, task.replicas) for task in tasks]
    return of_job or sum(replicas if least is None else least for least, replicas in of_tasks)


def _report_placement(builder: Builder, tasks: Sequence[Task], *, is_gang: bool) -> None:
    """Warn about rules for the placement of pods that are not rendered."""
    network = builder.spec.get("networkTopology")
    if network:
        mode = "preferred" if network.value.get("mode") == "soft" else "required"
        message = "Volcano places all pods under one HyperNode; mlgen does not"
        value = f"{{key: topology.kubernetes.io/zone, mode: {mode}}}"
        hint = f"pass the node label of your racks, as in --set 'spec.scheduling.topology={value}'"
        builder.differs(network, message, hint)
    for task in tasks:
        partitions, numa = task.source.get("partitionPolicy"), task.source.get("topologyPolicy")
        least = task.source.get("minAvailable")
        if partitions:
            count, size = partitions.value["totalPartitions"], partitions.value["partitionSize"]
            message = f"Volcano places {count} partitions of {size} pods each"
            builder.differs(partitions, f"{message}; mlgen ignores partitions")
        if numa.value not in (None, "none") and not is_gang:
            message = "only Volcano's scheduler considers NUMA nodes when it places pods"
            builder.differs(numa, message, "use the kubelet's Topology Manager")
        if is_gang and len(tasks) > 1 and least and least.value < task.replicas:
            message = (
                f"Volcano needs {least.value} pods of {task.role} to start; mlgen's minMember"
                " counts pods of all tasks"
            )
            builder.differs(least, message)


def write_scheduler_metadata(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the labels and annotations that Volcano's scheduler reads, into written roles.

    Removes each role's schedulerName if it is the one of the gang.
    """
    spec = builder.data["spec"]
    if "gang" not in spec.get("scheduling", {}):
        return
    for field, keys in INHERITED.items():
        values = builder.resource.get("metadata", field).value or {}
        inherited = {key: values[key] for key in keys if key in values}
        metadata = spec.setdefault("template", {}).setdefault("metadata", {})
        if inherited:
            metadata[field] = metadata.get(field, {}) | inherited
    gang_scheduler = spec["scheduling"].get("schedulerName", VOLCANO)
    for task in tasks:
        template = builder.roles[task.role].get("template", {})
        if template.get("spec", {}).get("schedulerName") == gang_scheduler:
            del template["spec"]["schedulerName"]
            if not template["spec"]:
                del template["spec"]
        numa = task.source.get("topologyPolicy").value
        if numa:
            metadata = template.setdefault("metadata", {})
            metadata["annotations"] = metadata.get("annotations", {}) | {NUMA_POLICY: numa}
