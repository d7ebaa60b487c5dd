"""Rules about the gang scheduler of a job: its fields, queues and placement."""

from collections.abc import Iterator
from typing import Any

from mlgen.contradictions._registry import of_jobs
from mlgen.jobfile.model import written
from mlgen.problems import Problem, ValuePath, dotted, error, listed, warning
from mlgen.resources import table
from mlgen.topology import Topology

QUEUES = {"kueue": "LocalQueue", "kai": "KAI queue"}
"""The gang schedulers that start no job without a queue, and what they call one."""


@of_jobs
def unused_by_scheduler(topology: Topology) -> Iterator[Problem]:
    """Report fields that the gang scheduler ignores.

    `schemas/frameworks/fields.json` lists the fields of each scheduler. Kueue always admits all
    pods of a group together. It would clear `suspend` at once, or never: it suspends and resumes
    a Job that it manages as a Job. It holds plain pods with a scheduling gate, and does not change
    the Jobs of these pods (kubernetes-sigs/kueue, pkg/controller/jobs/pod/pod_webhook.go).

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: volcano, disruption: All}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: kueue, queue: research}
        runPolicy: {suspend: true}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: volcano, queue: research, minMember: 2}
    """
    scheduling, fields = topology.job.scheduling, table("frameworks/fields")["gang"]
    names = [*written(scheduling)]
    if scheduling.topology:
        names += [f"topology.{name}" for name in written(scheduling.topology)]
    for name in names:
        gangs = [f"gang: {gang}" for gang, own in fields.items() if name in own]
        if gangs and name not in fields[scheduling.gang]:
            message = f"{name} has no effect with gang: {scheduling.gang}"
            hint = f"remove it, or write {listed(gangs, 'or')}"
            yield warning(("scheduling", *name.split(".")), message, hint, "no-effect")
    if topology.job.run_policy.suspend and scheduling.gang == "kueue":
        message = "suspend has no effect, because Kueue controls when the job starts"
        yield warning(("runPolicy", "suspend"), message, "remove it", "no-effect")


@of_jobs
def no_queue(topology: Topology) -> Iterator[Problem]:
    """Report a gang scheduler that starts no job without a queue.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: kueue}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: kueue, queue: research}
    """
    scheduling = topology.job.scheduling
    if scheduling.gang in QUEUES and not scheduling.queue:
        hint = f"set queue to the name of a {QUEUES[scheduling.gang]}"
        yield error(("scheduling",), f"gang: {scheduling.gang} requires queue", hint)


@of_jobs
def two_queues(topology: Topology) -> Iterator[Problem]:
    """Report a label or annotation with another queue than `scheduling.queue`, or than the first.

    `schedulerName` may name the scheduler of a second kind of queue: Kueue admits a job, for
    example, and KAI places its pods.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: kueue, queue: research}
        template: {metadata: {labels: {kai.scheduler/queue: ads}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: kueue, queue: research, schedulerName: kai-scheduler}
        template: {metadata: {labels: {kai.scheduler/queue: ads}}}
    """
    job, scheduling = topology.job, topology.job.scheduling
    several = bool(scheduling.scheduler_name)
    own = {"labels": job.labels, "annotations": job.annotations}
    holders: dict[int, tuple[ValuePath, Any]] = {0: (("metadata",), own)}
    for role in job.roles.values():
        for template in role.templates:
            # The template of all roles is one mapping. It is reported once.
            place: ValuePath = ("spec", "roles", role.name, "template", "metadata")
            holders[id(template)] = place, template.get("metadata") or {}
            several = several or bool((template.get("spec") or {}).get("schedulerName"))
    found: dict[ValuePath, tuple[str, str]] = {}
    if scheduling.queue:
        found["spec", "scheduling", "queue"] = scheduling.gang, scheduling.queue
    for name, (gang, kind) in table("frameworks/fields")["queues"].items():
        for place, metadata in holders.values():
            value, path = (metadata.get(kind) or {}).get(name), (*place, kind, name)
            if not value:
                continue
            for at, (other, queue) in found.items():
                if not several or other == gang:
                    if queue != value:
                        message = f"the queue {value} contradicts {dotted(at)}: {queue}"
                        hint = "keep one of them"
                        yield Problem(path, message, "combination", hint)
                    break
            found[path] = gang, value


@of_jobs
def placement_key(topology: Topology) -> Iterator[Problem]:
    """Report a placement without a node label, or pods together and apart by the same label.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {topology: {mode: preferred}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling:
          topology: {key: topology.kubernetes.io/zone}
          spread: {key: topology.kubernetes.io/zone}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling:
          topology: {key: topology.kubernetes.io/zone}
          spread: {key: kubernetes.io/hostname}
    """
    together, spread = topology.job.scheduling.topology, topology.job.scheduling.spread
    if not together:
        return
    if not (together.key or together.slice) and together.tier is None:
        hint = "write the node label of the racks or zones, as in key: topology.kubernetes.io/zone"
        yield error(("scheduling", "topology"), "topology requires key", hint)
    if spread and together.key == spread.key:
        message = f"topology and spread have the same key, {spread.key}"
        hint = "change one key, or remove one of them"
        yield error(("scheduling", "spread"), message, hint)


@of_jobs
def slice_size(topology: Topology) -> Iterator[Problem]:
    """Report a role whose last slice is not complete, so that Kueue never places its pods.

    kubernetes-sigs/kueue v0.19.2, pkg/controller/tas/topology_ungater.go, readRanksIfAvailable.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 6}}
        scheduling:
          gang: kueue
          queue: research
          topology: {slice: {key: example.com/rack, size: 4}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 8}}
        scheduling:
          gang: kueue
          queue: research
          topology: {slice: {key: example.com/rack, size: 4}}
    """
    together = topology.job.scheduling.topology
    if not together or not together.slice:
        return
    size = together.slice.size
    for role in topology.roles:
        if role.replicas > size and role.replicas % size:
            yield error(
                ("scheduling", "topology", "slice", "size"),
                f"{role.name} has {role.replicas} replicas, which is not a multiple of {size}",
                "change size or the number of replicas",
            )


@of_jobs
def min_member(topology: Topology) -> Iterator[Problem]:
    """Report a gang with more members than pods, which the scheduler never starts.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        scheduling: {gang: volcano, minMember: 4}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 4}}
        scheduling: {gang: volcano, minMember: 4}
    """
    least = topology.job.scheduling.min_member
    if least is None:
        return
    pods, at_once = 0, ""
    for role in topology.roles:
        if role.orders:
            at_once = " that start at the same time"
        else:
            pods += role.replicas
    if least > pods:
        message = f"minMember: {least} exceeds the number of pods{at_once}, {pods}"
        yield error(("scheduling", "minMember"), message, f"write at most {pods}")
