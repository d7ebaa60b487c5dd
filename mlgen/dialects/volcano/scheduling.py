"""Where Volcano's scheduler is to find room for a job, and what of that is not done without it.

Read off volcano-sh/volcano, pkg/controllers/job/job_controller_actions.go (the PodGroup) and
job_controller_util.go (createJobPod).
"""

from collections.abc import Sequence

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.policies import Task

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
"""What pods have from the job's metadata."""

NUMA = "volcano.sh/numa-topology-policy"


def schedule(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the gang, where the resource itself asks for a scheduler or a queue.

    Volcano's is the operator's default, but pods would wait for it in a cluster that has none.
    """
    spec = builder.spec
    queue, priority = (_named(spec.get(word)) for word in ("queue", "priorityClassName"))
    builder.put(("spec", "scheduling", "priorityClassName"), priority)
    own = [task.given.get("template", "spec", "schedulerName") for task in tasks]
    scheduler = next(
        (n for n in map(_named, (spec.get("schedulerName"), *own)) if n), SourceValue(None)
    )
    least, pods = minimum(spec, tasks), sum(task.replicas for task in tasks)
    gang = scheduler.value != DEFAULT and bool(scheduler or queue)
    if gang:
        _gang(builder, scheduler, queue)
        if least < pods:
            builder.put(
                ("spec", "scheduling", "minMember"), spec.get("minAvailable") or spec, max(1, least)
            )
    elif queue:
        message = "Volcano holds the job back until its queue has room; here nothing does"
        builder.differs(queue, message)
    elif not scheduler and pods > 1:
        given = spec.get("minAvailable") or spec.get("tasks")
        some = f"all {pods}" if least == pods else f"{least} of the {pods}"
        message = f"Volcano starts {some} pods at once or none"
        hint = "where Volcano's scheduler is: --set spec.scheduling.gang=volcano"
        builder.differs(given, f"{message}; here each starts where there is room", hint)
    _explain(builder, tasks, gang=gang)


def _named(given: SourceValue) -> SourceValue:
    """An empty name is none."""
    return given if given.value else SourceValue(None, given.path)


def _gang(builder: Builder, scheduler: SourceValue, queue: SourceValue) -> None:
    spec, source = builder.spec, scheduler or queue
    name = scheduler.value or VOLCANO
    builder.put(("spec", "scheduling", "gang"), source, VOLCANO)
    builder.put(("spec", "scheduling", "queue"), queue)
    if name != VOLCANO:
        builder.put(("spec", "scheduling", "schedulerName"), scheduler)
    priority = spec.get("priorityClassName").value
    also = f", priorityClassName: {priority}" if priority else ""
    message = f"the pods wait for the scheduler {name}, which must be in the cluster"
    hint = f"where it is not: --set 'spec.scheduling={{gang: none{also}}}'"
    builder.differs(source, message, hint)


def minimum(spec: SourceValue, tasks: Sequence[Task]) -> int:
    """Return how many pods must find room: of the job, or where it says 0 or nothing, of tasks."""
    whole: int = spec.get("minAvailable").value or 0
    own = [(task.given.get("minAvailable").value, task.replicas) for task in tasks]
    return whole or sum(replicas if least is None else least for least, replicas in own)


def _explain(builder: Builder, tasks: Sequence[Task], *, gang: bool) -> None:
    """Say what is not done of the places that pods are to have."""
    whole = builder.spec.get("networkTopology")
    if whole:
        mode = "preferred" if whole.value.get("mode") == "soft" else "required"
        message = "Volcano puts all pods below one HyperNode; here they go where there is room"
        value = f"{{key: topology.kubernetes.io/zone, mode: {mode}}}"
        hint = f"name the label of your racks: --set 'spec.scheduling.topology={value}'"
        builder.differs(whole, message, hint)
    for task in tasks:
        parts, numa = task.given.get("partitionPolicy"), task.given.get("topologyPolicy")
        least = task.given.get("minAvailable")
        if parts:
            count, size = parts.value["totalPartitions"], parts.value["partitionSize"]
            message = f"Volcano places {count} partitions of {size} pods each"
            builder.differs(parts, f"{message}; here all pods of {task.role} are alike")
        if numa.value not in (None, "none") and not gang:
            message = "Volcano's scheduler heeds the NUMA nodes of machines; here none does"
            builder.differs(numa, message, "let the kubelet's Topology Manager do it")
        if gang and len(tasks) > 1 and least and least.value < task.replicas:
            message = f"Volcano starts with {least.value} pods of {task.role}"
            builder.differs(least, f"{message}; here minMember counts the pods of all tasks")


def tell(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write what the scheduler reads off pods, into the templates of roles that are there."""
    spec = builder.data["spec"]
    if "gang" not in spec.get("scheduling", {}):
        return
    for word, keys in INHERITED.items():
        given = builder.given.get("metadata", word)
        found = {key: given.value[key] for key in keys if key in (given.value or {})}
        metadata = spec.setdefault("template", {}).setdefault("metadata", {})
        if found:
            metadata[word] = metadata.get(word, {}) | found
    asked = spec["scheduling"].get("schedulerName", VOLCANO)
    for task in tasks:
        template = builder.roles[task.role].get("template", {})
        if template.get("spec", {}).get("schedulerName") == asked:
            del template["spec"]["schedulerName"]
            if not template["spec"]:
                del template["spec"]
        numa = task.given.get("topologyPolicy").value
        if numa:
            metadata = template.setdefault("metadata", {})
            metadata["annotations"] = metadata.get("annotations", {}) | {NUMA: numa}
