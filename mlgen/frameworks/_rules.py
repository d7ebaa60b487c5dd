"""Contradictions in a job file, for all frameworks: `Topology` → `Problem`s.

Each check compares one part of the job file with the roles of the finished topology.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.launch import launch_problems
from mlgen.frameworks._exit_codes import hidden_exit_codes
from mlgen.frameworks._lifecycle import (
    OWN_LIMITS,
    clean_pod_policy,
    force_delete,
    gang_bounds,
    server_policy,
    ttl,
)
from mlgen.launch.scripts import command_problems
from mlgen.frameworks._tables import problem
from mlgen.jobfile.model import RoleSpec, containers_of, own_files, written
from mlgen.kubernetes.limits import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.sidecars import is_sidecar, may_be_sidecar
from mlgen.problems import Problem, ValuePath, bounded, listed
from mlgen.resources import table
from mlgen.topology import RESERVED, Role, Topology


def contradictions(topology: Topology) -> list[Problem]:
    """Return all contradictions. Values without their full effect are warnings."""
    every = (contradiction for check in CHECKS for contradiction in check(topology))
    return list(bounded(dict.fromkeys(every)))


def _cycles(topology: Topology) -> Iterator[Problem]:
    """Report roles that wait for each other to start or to listen, so none can start.

    A wait for a name ends as soon as the pod has an address, so it blocks no role, unless the
    awaited role gets pods only once another role is complete or ready. A role may also wait for the
    port of its own first replica, which itself waits only for its own name.
    """
    graph: dict[str, set[str]] = {}
    ordered = {role.name for role in topology.roles if role.orders}
    for role in topology.roles:
        awaited = {wait.role for wait in role.waits if wait.port is not None}
        awaited |= {wait.role for wait in role.waits if wait.role in ordered} - {role.name}
        awaited |= {order.role for order in role.orders}
        awaited |= {wait.role for wait in role.waits if wait.started} - {role.name}
        if role.name in awaited and all(wait.hosts.count == 1 for wait in role.waits):
            awaited.discard(role.name)
        graph.setdefault(role.name, set()).update(awaited)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        yield problem("wait-cycle", cycle=cycle, text=" → ".join(cycle))


def _exit_codes(topology: Topology) -> Iterator[Problem]:
    """Report retryable exit codes without restartPolicy ExitCode, which have no effect.

    Codes that are set for all roles need only one role with that policy.
    """
    roles = topology.roles
    effective = {r.spec.retryable_exit_codes for r in roles if r.restart == "ExitCode"}
    for role in roles:
        codes = role.spec.retryable_exit_codes
        if codes and codes not in effective:
            yield problem("exit-codes-unused", role=role)


def _limits(topology: Topology) -> Iterator[Problem]:
    """Report limits that the role's workload does not support.

    Limits are fields of a Job. A limit per index needs restartPolicy Never.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index
    """
    for role in topology.roles:
        spec = role.spec
        if role.serves:
            limits = ("activeDeadlineSeconds", *OWN_LIMITS)
            for name in (name for name in limits if name in written(spec)):
                yield problem("limit-of-server", role=role, name=name)
            continue
        if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
            yield problem("max-failed-alone", spec=spec)
        if spec.backoff_limit_per_index is not None:
            if role.restart == "OnFailure" and not role.restarts_together:
                yield problem("index-limit-on-failure", spec=spec)
            if role.index is not None:
                yield problem("index-limit-of-own-jobs", spec=spec)


def _deadlines(topology: Topology) -> Iterator[Problem]:
    """Report deadlines that end a job before the wait for peers can report the missing peers."""
    job = topology.job
    timeout = job.wait.timeout_seconds
    if timeout is None:
        return
    for role in (role for role in topology.roles if role.waits or role.helpers):
        deadline = role.spec.active_deadline_seconds
        path: tuple[str, ...] = ("roles", role.spec.name)
        if deadline is None:
            deadline, path = job.run_policy.active_deadline_seconds, ("runPolicy",)
        if deadline is not None and deadline <= timeout:
            path = (*path, "activeDeadlineSeconds")
            yield problem("deadline-before-wait", path, deadline=deadline, timeout=timeout)


def _wait_bound(topology: Topology) -> Iterator[Problem]:
    """Report a limit of the wait in a job without waits."""
    roles = topology.roles
    clones = any("git" in volume for role in roles for volume in role.spec.volumes.values())
    waits = clones or any(role.waits or role.helpers for role in roles)
    if topology.job.wait.timeout_seconds is not None and not waits:
        yield problem("wait-bound-unused")


def _fields(topology: Topology) -> Iterator[Problem]:
    """Report fields that contradict each other in any job, independent of its roles.

    The Job controller ignores a Job with another manager, and mlgen has no controller.

    Kueue would clear `suspend` at once, or never. It suspends and resumes a Job that it manages as
    a Job. It holds plain pods with a scheduling gate, and does not change the Jobs of these pods
    (kubernetes-sigs/kueue, pkg/controller/jobs/pod/pod_webhook.go).

    An address that contains the cluster's domain also contains the namespace. A service mesh does
    not redirect the traffic of pods with host networking.
    """
    job, network = topology.job, topology.job.network
    if job.run_policy.managed_by is not None and not job.jobset:
        yield problem("managed-by")
    if job.run_policy.suspend and job.scheduling.gang == "kueue":
        yield problem("suspend-with-kueue")
    if network.cluster_domain and not job.namespace:
        yield problem("domain-without-namespace")
    _, services, domain = f".{network.cluster_domain}".partition(".svc.")
    if services:
        yield problem("domain-of-services", domain=domain)
    if network.mesh == "native" and network.on_host:
        yield problem("mesh-on-host")


def _sidecars(topology: Topology) -> Iterator[Problem]:
    """Warn of each container of a Job that does not end by itself, or may not."""
    for spec in _specs_of_jobs(topology):
        others = _other_containers(spec)
        paths = _paths(spec) if others else {}
        for container in others:
            name = str(container.get("name"))
            path = paths.get(name, ("roles", spec.name, "template"))
            if is_sidecar(container):
                yield problem("sidecar", path, name=name)
            elif may_be_sidecar(container):
                yield problem("maybe-sidecar", path, name=name)


def _specs_of_jobs(topology: Topology) -> Iterator[RoleSpec]:
    """Yield the roles of the job file that become Jobs, including roles merged into one Job."""
    serves = {role.spec.name: role.serves for role in topology.roles}
    merged_roles = serves.keys() - topology.job.roles.keys()
    for spec in topology.job.roles.values():
        if not serves.get(spec.name, not merged_roles):
            yield spec


def _paths(spec: RoleSpec) -> dict[str, ValuePath]:
    """Return each container's path in the role's template, else in the template of all roles."""
    paths: dict[str, ValuePath] = {}
    of_role: ValuePath = ("roles", spec.name, "template")
    for template in reversed(spec.templates):
        holder = of_role if template is spec.templates[-1] else ("template",)
        for index, container in enumerate(containers_of(template)):
            paths.setdefault(str(container.get("name")), (*holder, "spec", "containers", index))
    return paths


def _other_containers(spec: RoleSpec) -> list[dict[str, Any]]:
    """Return the containers of the templates, merged, without the training container."""
    if not spec.templates:
        return []
    template: Any = reduce(merged, spec.templates, {})
    return [item for item in containers_of(template) if item.get("name") != spec.main_container]


def _host_ports(topology: Topology) -> Iterator[Problem]:
    """Report host ports without host networking, above the maximum, or in reserved ranges."""
    network = topology.job.network
    ports = network.host_ports
    if ports is None:
        return
    if not network.on_host:
        yield problem("host-ports-without-host")
        return
    last = ports.base + ports.size - 1
    if last > PORT_MAX:
        yield problem("host-ports-too-high", ports=ports, last=last, most=PORT_MAX)
        return
    for purpose, reserved in (
        ("NodePorts of Services", NODE_PORTS),
        ("outgoing connections of Linux", EPHEMERAL_PORTS),
    ):
        overlap = ports.base < reserved.stop and last >= reserved.start
        if overlap and not ports.allow_reserved:
            first, end = reserved.start, reserved.stop - 1
            values = {"ports": ports, "last": last, "first": first, "end": end}
            yield problem("host-ports-reserved", **values, purpose=purpose)


def _rdma(topology: Topology) -> Iterator[Problem]:
    """Report fields that the RDMA mode lacks or ignores, and networks on which it cannot work.

    `schemas/frameworks/fields.json` lists the fields of each mode.
    """
    job = topology.job
    rdma = job.network.rdma
    values, fields = written(rdma), table("frameworks/fields")["rdma"][rdma.mode]
    for name in (name for name in fields["required"] if not values.get(name)):
        yield problem("rdma-requires", rdma=rdma, name=name)
    for name in (name for name in fields["unused"] if values.get(name)):
        yield problem("rdma-unused", rdma=rdma, name=name)
    if rdma.mode == "host" and job.network.host is False:
        yield problem("rdma-needs-host")
    if rdma.mode in ("sriov", "shared") and job.network.host:
        yield problem("rdma-excludes-host", rdma=rdma)
    if rdma.mode == "host" and not rdma.resource and job.security.profile != "privileged":
        yield problem("rdma-needs-privilege")


QUEUES = {"kueue": "LocalQueue", "kai": "KAI queue"}
"""The gang schedulers that start no job without a queue, and what they call one."""


def _scheduling(topology: Topology) -> Iterator[Problem]:
    """Report fields that the gang scheduler ignores, and a minimum above the number of pods.

    `schemas/frameworks/fields.json` lists the fields of each scheduler. Kueue always admits all
    pods of a group together. It places only complete slices (kubernetes-sigs/kueue v0.19.2,
    pkg/controller/tas/topology_ungater.go, readRanksIfAvailable).
    """
    scheduling = topology.job.scheduling
    fields = table("frameworks/fields")["gang"]
    together, spread = scheduling.topology, scheduling.spread
    of_topology = (f"topology.{name}" for name in written(together)) if together else ()
    for name in (*written(scheduling), *of_topology):
        gangs = [f"gang: {gang}" for gang, names in fields.items() if name in names]
        if gangs and name not in fields[scheduling.gang]:
            values = {"scheduling": scheduling, "name": name, "gangs": listed(gangs, "or")}
            yield problem("gang-field-unused", ("scheduling", *name.split(".")), **values)
    if scheduling.gang in QUEUES and not scheduling.queue:
        kind = QUEUES[scheduling.gang]
        yield problem("gang-without-queue", scheduling=scheduling, kind=kind)
    if together and not (together.key or together.slice) and together.tier is None:
        yield problem("topology-without-key")
    if together and together.slice:
        size = together.slice.size
        for role in topology.roles:
            if role.replicas > size and role.replicas % size:
                yield problem("slice-size", role=role, size=size)
    pods = sum(role.replicas for role in topology.roles if not role.orders)
    if scheduling.min_member is not None and scheduling.min_member > pods:
        in_order = any(role.orders for role in topology.roles)
        rule = "min-member-in-order" if in_order else "min-member"
        yield problem(rule, least=scheduling.min_member, pods=pods)
    if together and spread and together.key == spread.key:
        yield problem("same-key", spread=spread)


def _queues(topology: Topology) -> Iterator[Problem]:
    """Report a label or annotation with another queue than `scheduling.queue`, or than the first.

    `schedulerName` may name the scheduler of a second kind of queue: Kueue admits a job, for
    example, and KAI places its pods.
    """
    job = topology.job
    scheduling, rows = job.scheduling, table("frameworks/fields")["queues"]
    found: dict[ValuePath, tuple[str, str]] = {}
    if scheduling.queue:
        found["spec", "scheduling", "queue"] = scheduling.gang, scheduling.queue
    # The template of all roles is one mapping. It is reported once.
    templates = {id(each): (role, each) for role in job.roles.values() for each in role.templates}
    pods = (template.get("spec") or {} for _, template in templates.values())
    several = scheduling.scheduler_name or any(pod.get("schedulerName") for pod in pods)
    for name, (gang, *fields) in rows.items():
        marks: list[tuple[ValuePath, Any]] = [((*fields, name), getattr(job, fields[-1]).get(name))]
        for role, template in templates.values():
            place = ("spec", "roles", role.name, "template", *fields, name)
            inner: Any = reduce(lambda part, step: part.get(step) or {}, fields, template)
            marks.append((place, inner.get(name)))
        for path, value in marks:
            others = ((at, own) for at, own in found.items() if not several or own[0] == gang)
            at, (_, queue) = next(others, ((), ("", value)))
            if value and queue != value:
                values = {"value": value, "other": ".".join(map(str, at)), "queue": queue}
                yield replace(problem("two-queues", **values), path=path)
            if value:
                found[path] = gang, value


def _tensorboard(topology: Topology) -> Iterator[Problem]:
    """Report a log folder that TensorBoard and the replicas do not share through a volume."""
    job = topology.job
    tensorboard = job.tensorboard
    if tensorboard is None or "://" in tensorboard.log_dir:
        return
    log_volumes = [
        volume
        for volume in job.volumes.values()
        if f"{tensorboard.log_dir}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    ]
    if not any({"pvc", "nfs", "hostPath"} & set(volume) for volume in log_volumes):
        yield problem("logs-not-shared", tensorboard=tensorboard)


def _mounts(topology: Topology) -> Iterator[Problem]:
    """Report two volumes at one path, which the API server rejects, and modes without files."""
    for role in topology.roles:
        volume_at: dict[str, str] = {}
        for name, volume in role.spec.volumes.items():
            other = volume_at.setdefault(volume["mountPath"].rstrip("/"), name)
            if other != name:
                yield problem("same-mount", role=role, name=name, other=other, volume=volume)
            if "defaultMode" in volume and not WITH_MODE & volume.keys():
                yield problem("mode-unused", role=role, name=name)


WITH_MODE = {"configMap", "secret", "projected", "files"}
"""The kinds of volumes whose files have a mode."""


def _role_names(topology: Topology) -> Iterator[Problem]:
    """Report roles with a name that mlgen reserves for its own objects."""
    for name in {role.spec.name: None for role in topology.roles}:
        if name in RESERVED:
            yield problem("reserved-role", job=topology.job, name=name)


def _files(topology: Topology) -> Iterator[Problem]:
    """Report volumes of the same name with different files: both would be one ConfigMap."""
    definitions: dict[str, tuple[str, Any]] = {}
    for role in topology.roles:
        for name, volume in role.spec.volumes.items():
            own = [files for _, files in own_files(volume)]
            other, files = definitions.setdefault(name, (role.spec.name, own)) if own else ("", own)
            if files != own:
                yield problem("other-files", role=role, name=name, other=other)


CONFIDENTIAL = (
    r"(^|_)(?<!(?:BOS|EOS|PAD|UNK|SEP|CLS)_)(?<!(?:MASK|STOP)_)(TOKEN|SECRET|PASSWORD|PASSWD"
    r"|CREDENTIALS?|(API|ACCESS|PRIVATE|SIGNING)_?KEY)(?!_(\w+_)?"
    r"(NAME|FILE|PATH|DIR|TYPE|URL|ENDPOINT|SOURCE|PROVIDER|BACKEND|STORE|MODE|POLICY|METHOD|STRATEGY"
    r"|FIELD|COLUMN|LIMIT|COUNT)$)(_|$)"
)
"""Names of secrets. A special token of a tokenizer, and the name of a Secret or file, are none."""

HARMLESS = (
    r"|[\d.]+|(?i:true|false|yes|no|none|null|empty|dummy|fake|unused|x{3,})"
    r"|/.*|(?s:.*\$\(.*)|<.*>|\[.*\]"
)
"""Values that are not secrets: a number, a switch, a path, a reference to another variable, a
special token or a placeholder."""


def _secrets(topology: Topology) -> Iterator[Problem]:
    """Report secret values in variables, because more people can read manifests than Secrets.

    The message does not repeat the value.
    """
    for role in topology.roles:
        for path, name, value in _literal_env(role):
            if re.search(CONFIDENTIAL, name.upper()) and not re.fullmatch(HARMLESS, value):
                yield problem("secret", ("roles", role.spec.name, *path), name=name)


def _literal_env(role: Role) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield each variable with a literal value in the job file: path in the role, name, value."""
    for name, value in role.spec.env.items():
        if isinstance(value, str):
            yield ("env", name), name, value
    for template in role.spec.templates:
        for container in containers_of(template):
            for variable in container.get("env") or []:
                if variable.get("value"):
                    yield ("template",), variable["name"], variable["value"]


def _idle_gpus(topology: Topology) -> Iterator[Problem]:
    """Warn of GPUs in a role that does not compute, if the roles that compute have none."""
    from mlgen import frameworks  # imported late, because it imports this module

    job = topology.job
    idle = frameworks.get(job.framework).idle_roles(job)
    computing = [spec for name, spec in job.roles.items() if name not in idle]
    for spec in (spec for name, spec in job.roles.items() if name in idle and spec.gpus):
        if computing and not any(other.gpus for other in computing):
            yield problem("idle-gpus", spec=spec, other=computing[-1])


CHECKS: tuple[Callable[[Topology], Iterator[Problem]], ...] = (
    _cycles,
    launch_problems,
    command_problems,
    _exit_codes,
    hidden_exit_codes,
    _limits,
    _deadlines,
    _wait_bound,
    force_delete,
    gang_bounds,
    server_policy,
    clean_pod_policy,
    ttl,
    _sidecars,
    _fields,
    _host_ports,
    _rdma,
    _scheduling,
    _queues,
    _tensorboard,
    _mounts,
    _role_names,
    _files,
    _secrets,
    _idle_gpus,
)
