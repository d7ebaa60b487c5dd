"""Rules about the start and the end of a job, and about its gang scheduler.

They compare waits, deadlines, success, cleanup, queues and placement. The lists of rules about a
whole job are also here.
"""

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.jobfile.model import written
from mlgen.problems import Problem, ValuePath, did_you_mean, dotted, error, listed, warning
from mlgen.resources import table
from mlgen.rules import Rules
from mlgen.topology import Topology

of_jobs: Rules[Topology, Problem] = Rules("topology")

# Rules about one part of `spec` run only if the job file sets a field of that part.
of_network: Rules[Topology, Problem] = Rules("topology")
of_run_policy: Rules[Topology, Problem] = Rules("topology")
of_scheduling: Rules[Topology, Problem] = Rules("topology")
of_success: Rules[Topology, Problem] = Rules("topology")


def unknown_role(path: ValuePath, name: str, roles: Iterable[str]) -> Problem:
    """Return the error of a name that no role of the job has."""
    known = sorted(set(roles))
    hint = did_you_mean(name, known) or f"the roles are {', '.join(known)}"
    return error(path, f'the job has no role "{name}"', hint)


@of_jobs
def wait_cycle(topology: Topology) -> Iterator[Problem]:
    """Report roles that wait for each other to start or to listen, so none can start.

    A wait for a name ends as soon as the pod has an address, so it blocks no role, unless the
    awaited role gets pods only once another role is complete or ready. A role may also wait for the
    port of its own first replica, which itself waits only for its own name.

    wrong:
        framework: generic
        command: [python, train.py]
        roles:
          learner: {port: 7000, waitFor: [{role: actor, until: port}]}
          actor: {port: 7001, restartPolicy: Always, waitFor: [{role: learner, until: port}]}
    right:
        framework: generic
        command: [python, train.py]
        roles:
          learner: {port: 7000}
          actor: {port: 7001, restartPolicy: Always, waitFor: [{role: learner, until: port}]}
    """
    graph: dict[str, set[str]] = {}
    ordered = {role.name for role in topology.roles if role.orders}
    for role in topology.roles:
        awaited, alone = graph.setdefault(role.name, set()), True
        for order in role.orders:
            awaited.add(order.role)
        for wait in role.waits:
            is_other = wait.role != role.name
            if wait.port is not None or (is_other and (wait.started or wait.role in ordered)):
                awaited.add(wait.role)
            alone = alone and wait.hosts.count == 1
        if alone:
            awaited.discard(role.name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        names = cycle.args[1][::-1]
        message = f"these roles wait for each other to start: {' → '.join(names)}"
        hint = "break the cycle with until: name, or with waitFor: []"
        yield error(("roles", names[0], "waitFor"), message, hint, "wait-cycle")


@of_jobs
def never_starts(topology: Topology) -> Iterator[Problem]:
    """Report a role that waits for a state that another role does not reach.

    Kueue admits a job when all of its pods exist. A role that waits for a state has no pods before.

    wrong:
        framework: generic
        command: [python, train.py]
        roles:
          server: {restartPolicy: Always}
          trainer: {waitFor: [{role: server, until: Complete}]}
    wrong:
        framework: generic
        command: [python, train.py]
        roles:
          trainer: {}
          evaluator: {waitFor: [{role: trainer, until: Complete}]}
        successPolicy: {role: trainer}
    wrong:
        framework: generic
        command: [python, train.py]
        roles:
          server: {restartPolicy: Always}
          trainer: {waitFor: [{role: server, until: Ready}]}
        scheduling: {gang: kueue, queue: research}
    right:
        framework: generic
        command: [python, train.py]
        roles:
          trainer: {}
          evaluator: {waitFor: [{role: trainer, until: Complete}]}
        successPolicy: {roles: [trainer, evaluator]}
    """
    job = topology.job
    for role in topology.roles:
        path = ("roles", role.spec.name, "waitFor")
        for order in role.orders:
            (other, *_) = [each for each in topology.roles if each.name == order.role]
            if job.scheduling.gang == "kueue" and not job.jobset:
                yield error(
                    path,
                    f"until: {order.until} cannot be used with gang: kueue, because Kueue admits"
                    " a job when all of its pods exist",
                    "write until: name or until: port, or render with --as jobset",
                )
            elif not job.watched or order.until != "Complete":
                continue
            elif other.endless:
                message = f"{other.name} runs until it is stopped, so it is never complete"
                yield error(path, message, "write until: Ready")
            elif other.decides and topology.decides == "one":
                yield error(
                    path,
                    f"the job ends when {other.name} is complete, so {role.name} would never start",
                    f"set successPolicy.roles: [{other.name}, {role.name}]",
                )


@of_jobs
def deadline_before_wait(topology: Topology) -> Iterator[Problem]:
    """Report a deadline that ends a job before the wait for peers can report the missing peers.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        wait: {timeoutSeconds: 600}
        runPolicy: {activeDeadlineSeconds: 300}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        wait: {timeoutSeconds: 600}
        runPolicy: {activeDeadlineSeconds: 3600}
    """
    job, timeout = topology.job, topology.job.wait.timeout_seconds
    if timeout is None:
        return
    for role in topology.roles:
        path: ValuePath = ("roles", role.spec.name)
        deadline = role.spec.active_deadline_seconds
        if deadline is None:
            path, deadline = ("runPolicy",), job.run_policy.active_deadline_seconds
        if (role.waits or role.helpers) and deadline is not None and deadline <= timeout:
            yield warning(
                (*path, "activeDeadlineSeconds"),
                f"the deadline, {deadline} s, must be longer than the wait for peers, {timeout} s,"
                " or missing peers are not reported",
                f"write more than {timeout}, or lower wait.timeoutSeconds",
            )


@of_success
def deciding_roles(topology: Topology) -> Iterator[Problem]:
    """Report deciding roles that do not exist, never succeed, or contradict other fields.

    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}, evaluator: {}}
        successPolicy: {role: trainer, roles: [trainer, evaluator]}
    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
        successPolicy: {operator: Any}
    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}, server: {restartPolicy: Always}}
        successPolicy: {roles: [trainer, server]}
    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
        successPolicy: {roles: [trainer, tester]}
    right:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}, evaluator: {}}
        successPolicy: {roles: [trainer, evaluator], operator: Any}
    """
    policy, path = topology.job.success_policy, ("successPolicy", "roles")
    if policy.roles and (policy.role or policy.replicas is not None):
        message = "roles is mutually exclusive with role and replicas"
        yield error(path[:1], message, "remove role and replicas")
    if policy.operator == "Any" and not policy.roles:
        message = "operator has no effect without roles"
        yield warning(path[:1], message, "add roles", "no-effect")
    known = {role.name: role.endless for role in topology.roles} if policy.roles else {}
    for name in policy.roles:
        if name not in known:
            yield unknown_role(path, name, known)
        elif known[name]:
            message = f"{name} runs until it is stopped, so it never succeeds"
            yield error(path, message, f"remove {name}")


@of_success
def replicas_that_succeed(topology: Topology) -> Iterator[Problem]:
    """Report a number of replicas that must succeed, which the deciding Job cannot count.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        successPolicy: {replicas: 3}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 4}}
        network: {host: true}
        successPolicy: {replicas: 2}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 4}}
        successPolicy: {replicas: 2}
    """
    required, path = topology.job.success_policy.replicas, ("successPolicy", "replicas")
    if required in (None, "First", "All"):
        return
    decider = next((role for role in topology.roles if role.decides), None)
    if decider is None:
        return
    replicas = sum(role.replicas for role in topology.roles if role.name == decider.name)
    if decider.host_ports and replicas > 1:
        message = (
            "with host networking, each replica has its own Job, so replicas cannot be a number"
        )
        yield error(path, message, "write All or First")
    if int(required) > replicas:
        message = f"{required} replicas must succeed, but the deciding role has only {replicas}"
        yield error(path, message, f"write at most {replicas}")


@of_run_policy
def nothing_to_stop(topology: Topology) -> Iterator[Problem]:
    """Report cleanPodPolicy All in a job of which no pod keeps running after training ends.

    Running is right without pods to stop: none keeps running.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {cleanPodPolicy: All}
    right:
        framework: tensorflow
        command: [python, train.py]
        roles: {ps: {}, worker: {replicas: 2}}
        runPolicy: {cleanPodPolicy: All}
    """
    job = topology.job
    is_watched = topology.supervised or job.workflow or job.jobset
    if job.run_policy.clean_pod_policy != "All" or job.converted or is_watched:
        return
    for role in topology.roles:
        by_default = role.success and not role.success.needed and not role.tolerates_failure
        stops = role.replicas > 1 and by_default and job.success_policy.replicas is None
        if stops or not role.decides:
            return
    message = "All has no effect: no pod keeps running after training ends"
    yield warning(("runPolicy", "cleanPodPolicy"), message, "remove it", "no-effect")


QUEUES = {"kueue": "LocalQueue", "kai": "KAI queue"}
"""The gang schedulers that start no job without a queue, and what they call one."""


@of_scheduling
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


@of_scheduling
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


@of_scheduling
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


@of_scheduling
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


@of_scheduling
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
