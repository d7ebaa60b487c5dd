"""Contradictions in a job file, for every framework: `Topology` → `Problem`s.

Each check compares one part of the job file with the roles of the finished topology.
"""

import re
from collections.abc import Callable, Iterator
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.frameworks._command_rules import launch_problems, localhost_problems
from mlgen.frameworks._exit_codes import hidden_exit_codes
from mlgen.frameworks._lifecycle import (
    OWN_LIMITS,
    clean_pod_policy,
    gang_bounds,
    no_effect,
    spec_problem,
    ttl,
)
from mlgen.jobfile.model import RoleSpec, containers_of, written
from mlgen.kubernetes.limits import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.sidecars import is_sidecar, may_be_sidecar
from mlgen.problems import Problem, ValuePath, bounded
from mlgen.topology import RESERVED, Role, Topology


def contradictions(topology: Topology) -> list[Problem]:
    """Return every contradiction; as warnings, values that do not have their full effect."""
    every = (problem for check in CHECKS for problem in check(topology))
    return list(bounded(dict.fromkeys(every)))


def _cycles(topology: Topology) -> Iterator[Problem]:
    """Report roles that wait for each other to start or to listen, as none of them ever would.

    A wait for a name ends as soon as the pod has an address, so it blocks nobody, unless the role
    has no pods until another one is complete or ready. A role may also wait for the port of its own
    first replica, which itself waits only for its own name.
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
        path = ("roles", cycle[0], "waitFor")
        message = f"these roles wait for each other to start: {' → '.join(cycle)}"
        hint = "break the cycle with until: name, or with waitFor: []"
        yield spec_problem(path, message, hint, code="wait-cycle")


def _exit_codes(topology: Topology) -> Iterator[Problem]:
    """Exit codes have an effect only with restartPolicy ExitCode.

    Codes that are set for all roles need only one role with that policy.
    """
    roles = topology.roles
    effective = {r.spec.retryable_exit_codes for r in roles if r.restart == "ExitCode"}
    for role in roles:
        codes = role.spec.retryable_exit_codes
        if codes and codes not in effective:
            yield spec_problem(
                ("roles", role.spec.name, "retryableExitCodes"),
                f"exit codes have no effect with restartPolicy: {role.restart}",
                "write restartPolicy: ExitCode",
            )


def _limits(topology: Topology) -> Iterator[Problem]:
    """A role's limits are fields of its Job; a limit per index needs pods that do not restart.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index
    """
    for role in topology.roles:
        spec, path = role.spec, ("roles", role.spec.name)
        if role.serves:
            limits = ("activeDeadlineSeconds", *OWN_LIMITS)
            for name in (name for name in limits if name in written(spec)):
                message = f"{role.name} is rendered as a StatefulSet, which has no {name}"
                hint = "remove it, or use a restartPolicy other than Always"
                yield spec_problem((*path, name), message, hint)
            continue
        if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
            message = "maxFailedIndexes requires backoffLimitPerIndex"
            yield spec_problem((*path, "maxFailedIndexes"), message, "add backoffLimitPerIndex")
        if spec.backoff_limit_per_index is not None:
            if role.restart == "OnFailure" and not role.restarts_together:
                message = "backoffLimitPerIndex cannot be used with restartPolicy: OnFailure"
                hint = "write restartPolicy: ExitCode or restartPolicy: Never"
                yield spec_problem((*path, "backoffLimitPerIndex"), message, hint)
            if role.index is not None:
                message = f"each replica of {spec.name} has its own Job, without indexes"
                hint = "write backoffLimit, which applies to each of these Jobs"
                yield spec_problem((*path, "backoffLimitPerIndex"), message, hint)


def _deadlines(topology: Topology) -> Iterator[Problem]:
    """A deadline must be longer than a limited wait for peers, which reports the missing peers."""
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
            yield spec_problem(
                (*path, "activeDeadlineSeconds"),
                f"the deadline of {deadline} s is not longer than the wait for peers,"
                f" {timeout} s, so missing peers would not be reported",
                f"write more than {timeout}, or lower wait.timeoutSeconds",
            )


def _wait_bound(topology: Topology) -> Iterator[Problem]:
    """A limit of the wait is without effect where nothing waits."""
    roles = topology.roles
    clones = any("git" in volume for role in roles for volume in role.spec.volumes.values())
    waits = clones or any(role.waits or role.helpers for role in roles)
    if topology.job.wait.timeout_seconds is not None and not waits:
        message = "no role waits for its peers before it starts, so the limit has no effect"
        hint = "remove it, or add waitFor to a role"
        yield no_effect(("wait", "timeoutSeconds"), message, hint)


def _managed_by(topology: Topology) -> Iterator[Problem]:
    """The Job controller ignores a Job with another manager, and mlgen has no controller."""
    if topology.job.run_policy.managed_by is not None:
        yield spec_problem(
            ("runPolicy", "managedBy"),
            "Kubernetes does not run a Job that another controller manages",
            "remove it",
        )


def _kueue(topology: Topology) -> Iterator[Problem]:
    """Kueue would lift `suspend` at once, or never.

    Kueue suspends and resumes a Job that it manages as a Job. Plain pods it holds by a scheduling
    gate, and leaves the Jobs of these pods as they are
    (kubernetes-sigs/kueue, pkg/controller/jobs/pod/pod_webhook.go).
    """
    job = topology.job
    if job.run_policy.suspend and job.scheduling.gang == "kueue":
        yield no_effect(("runPolicy", "suspend"), "Kueue alone decides when the job starts")


def _sidecars(topology: Topology) -> Iterator[Problem]:
    """Return a warning for each container of a Job that does not, or may not, end by itself."""
    for spec in _specs_of_jobs(topology):
        beside = _beside(spec)
        paths = _paths(spec) if beside else {}
        for container in beside:
            name = str(container.get("name"))
            path = paths.get(name, ("spec", "roles", spec.name, "template"))
            if is_sidecar(container):
                message = (
                    f"the container {name} does not end by itself, so no pod of the Job would"
                    " complete; it is rendered as a sidecar"
                )
                hint = "write it under initContainers with restartPolicy: Always"
                yield Problem(path, message, "never-ends", hint, warning=True)
            elif may_be_sidecar(container):
                message = f"a pod of the Job completes only when the container {name} has ended too"
                hint = "unless it does, write it under initContainers with restartPolicy: Always"
                yield Problem(path, message, "never-ends", hint, warning=True)


def _specs_of_jobs(topology: Topology) -> Iterator[RoleSpec]:
    """Yield the roles of the job file that are Jobs; also those that are merged into one."""
    serves = {role.spec.name: role.serves for role in topology.roles}
    merged_roles = serves.keys() - topology.job.roles.keys()
    for spec in topology.job.roles.values():
        if not serves.get(spec.name, not merged_roles):
            yield spec


def _paths(spec: RoleSpec) -> dict[str, ValuePath]:
    """Return the path of each container in the role's template, else in that of all roles."""
    paths: dict[str, ValuePath] = {}
    of_role: ValuePath = ("spec", "roles", spec.name, "template")
    for template in reversed(spec.templates):
        holder = of_role if template is spec.templates[-1] else ("spec", "template")
        for index, container in enumerate(containers_of(template)):
            paths.setdefault(str(container.get("name")), (*holder, "spec", "containers", index))
    return paths


def _beside(spec: RoleSpec) -> list[dict[str, Any]]:
    """Return the containers of the templates, merged, without the training container."""
    if not spec.templates:
        return []
    template: Any = reduce(merged, spec.templates, {})
    return [item for item in containers_of(template) if item.get("name") != spec.main_container]


def _cluster_domain(topology: Topology) -> Iterator[Problem]:
    """An address that contains the cluster's domain also contains the namespace."""
    job = topology.job
    if job.network.cluster_domain and not job.namespace:
        yield spec_problem(
            ("network", "clusterDomain"),
            "addresses with the cluster's domain require a namespace",
            "set metadata.namespace, or pass --namespace",
        )


def _host_ports(topology: Topology) -> Iterator[Problem]:
    """The ports of the nodes must exist, and nothing else on the nodes may use them."""
    network, path = topology.job.network, ("network", "hostPorts")
    ports = network.host_ports
    if ports is None:
        return
    if not network.on_host:
        message = "hostPorts has no effect without host networking"
        yield spec_problem(path, message, "write network.host: true, or remove hostPorts")
        return
    last = ports.base + ports.size - 1
    if last > PORT_MAX:
        message = f"the range {ports.base} to {last} exceeds the highest port, {PORT_MAX}"
        yield spec_problem(path, message, "use a lower base or a smaller size")
        return
    for purpose, reserved in (
        ("NodePorts of Services", NODE_PORTS),
        ("outgoing connections of Linux", EPHEMERAL_PORTS),
    ):
        overlap = ports.base < reserved.stop and last >= reserved.start
        if overlap and not ports.allow_reserved:
            other = f"{reserved.start} to {reserved.stop - 1}, used for {purpose}"
            message = f"the range {ports.base} to {last} overlaps with {other}"
            hint = "use another range, or write allowReserved: true if your nodes differ"
            yield spec_problem(path, message, hint)


def _mesh(topology: Topology) -> Iterator[Problem]:
    """A service mesh does not redirect the traffic of pods with host networking."""
    network = topology.job.network
    if network.mesh == "native" and network.on_host:
        message = "pods with host networking cannot be part of a service mesh"
        yield spec_problem(("network", "mesh"), message, "remove mesh or host")


def _rdma(topology: Topology) -> Iterator[Problem]:
    """Each mode requires some fields, has no use for others, and works on one kind of network."""
    job = topology.job
    rdma, path = job.network.rdma, ("network", "rdma")
    values, (required, unused) = written(rdma), RDMA_FIELDS[rdma.mode]
    for name in (name for name in required if not values.get(name)):
        message = f"mode: {rdma.mode} requires {name}"
        yield spec_problem(path, message, "ask the administrator of the cluster for it")
    for name in (name for name in unused if values.get(name)):
        message = f"{name} has no effect with mode: {rdma.mode}"
        yield spec_problem((*path, name), message, "remove it, or use another mode")
    if rdma.mode == "host" and job.network.host is False:
        message = "rdma.mode: host requires host networking"
        yield spec_problem(("network", "host"), message, "remove host, or use mode: sriov")
    if rdma.mode in ("sriov", "shared") and job.network.host:
        message = f"host networking and rdma.mode: {rdma.mode} are mutually exclusive"
        yield spec_problem(("network", "host"), message, "remove host, or use mode: host")
    if rdma.mode == "host" and not rdma.resource and job.security.profile != "privileged":
        yield spec_problem(
            path,
            "mode: host requires privileged pods or the resource of a device plugin",
            "set resource, or write security.profile: privileged",
        )


RDMA_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "none": ((), ("resource", "networks", "interface", "hca")),
    "host": ((), ("networks",)),
    "sriov": (("resource", "networks"), ()),
    "shared": (("resource",), ()),
}
"""By mode: the required fields, and the fields that have no effect."""


def _scheduling(topology: Topology) -> Iterator[Problem]:
    """Each gang scheduler has its own fields, and a gang has no more members than pods exist."""
    scheduling, path = topology.job.scheduling, ("scheduling",)
    for name in written(scheduling):
        gangs = [f"gang: {gang}" for gang, names in GANG_FIELDS.items() if name in names]
        if gangs and name not in GANG_FIELDS[scheduling.gang]:
            message = f"{name} has no effect with gang: {scheduling.gang}"
            yield spec_problem((*path, name), message, f"use it with {' or '.join(gangs)}")
    if scheduling.gang == "kueue" and not scheduling.queue:
        message = "gang: kueue requires queue"
        yield spec_problem(path, message, "set queue to the name of a LocalQueue")
    pods = sum(role.replicas for role in topology.roles if not role.orders)
    if scheduling.min_member is not None and scheduling.min_member > pods:
        in_order = any(role.orders for role in topology.roles)
        which = (
            f"only {pods} of the pods start at once"
            if in_order
            else f"the job has only {pods} pods"
        )
        message = f"minMember is {scheduling.min_member}, but {which}"
        yield spec_problem((*path, "minMember"), message, f"write at most {pods}")
    together, spread = scheduling.topology, scheduling.spread
    if together and spread and together.key == spread.key:
        message = f"topology and spread have the same key, {spread.key}"
        yield spec_problem((*path, "spread"), message, "change one key, or remove one of them")


GANG_FIELDS: dict[str, tuple[str, ...]] = {
    "none": (),
    "kubernetes": ("minMember",),
    "volcano": ("queue", "minMember", "minResources"),
    "coscheduling": ("minMember", "minResources", "scheduleTimeoutSeconds"),
    "kueue": ("queue",),
}
"""The fields that each gang scheduler reads; Kueue always admits all pods of a group together."""


def _tensorboard(topology: Topology) -> Iterator[Problem]:
    """TensorBoard reads files that replicas write, so all of them must mount the same volume."""
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
        yield spec_problem(
            ("tensorboard", "logDir"),
            f"{tensorboard.log_dir} is not on a volume that all pods share",
            "add a volume with pvc or nfs to spec.volumes, or use the URL of a bucket",
        )


def _mounts(topology: Topology) -> Iterator[Problem]:
    """The API server rejects a container with two volumes at one path."""
    for role in topology.roles:
        volume_at: dict[str, str] = {}
        for name, volume in role.spec.volumes.items():
            other = volume_at.setdefault(volume["mountPath"].rstrip("/"), name)
            if other != name:
                message = f"{other} and {name} are both mounted at {volume['mountPath']}"
                path = ("roles", role.spec.name, "volumes", name)
                yield spec_problem(path, message, "change the mountPath of one of them")


def _role_names(topology: Topology) -> Iterator[Problem]:
    """A role must not have the name of what mlgen adds to a job."""
    for name in {role.spec.name: None for role in topology.roles}:
        if name in RESERVED:
            message = f"the name {topology.job.name}-{name} is reserved for mlgen's own objects"
            yield spec_problem(("roles", name), message, "rename the role")


def _files(topology: Topology) -> Iterator[Problem]:
    """A volume of files is one ConfigMap, `<job>-<volume>`, for all roles that have the volume."""
    job = topology.job
    definitions: dict[str, tuple[str, Any]] = {}
    for role in topology.roles:
        for name, volume in role.spec.volumes.items():
            if "files" not in volume:
                continue
            path = ("roles", role.spec.name, "volumes", name)
            if name in RESERVED:
                message = f"the ConfigMap {job.name}-{name} is reserved for mlgen's own files"
                yield spec_problem(path, message, "rename the volume")
            other, files = definitions.setdefault(name, (role.spec.name, volume["files"]))
            if files != volume["files"]:
                message = f"the volume {name} has other files in the role {other}"
                yield spec_problem(path, message, "rename one of the two volumes")


CONFIDENTIAL = (
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(API|ACCESS|PRIVATE|SIGNING)_?KEY)(_|$)"
)
HARMLESS = r"|[\d.]+|(?i:true|false|none)|/.*|.*\$\(.*"
"""Values that are not secrets: a number, a switch, a path, a reference to another variable."""


def _secrets(topology: Topology) -> Iterator[Problem]:
    """More people can read manifests than Secrets. The message does not repeat the value."""
    for role in topology.roles:
        for path, name, value in _literal_env(role):
            if re.search(CONFIDENTIAL, name.upper()) and not re.fullmatch(HARMLESS, value):
                yield Problem(
                    ("spec", "roles", role.spec.name, *path),
                    f"{name} looks like a secret, and everyone who can read the manifests sees it",
                    "secret-in-env",
                    f"write {name}: {{valueFrom: {{secretKeyRef: {{name: …, key: …}}}}}}",
                    warning=True,
                )


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


CHECKS: tuple[Callable[[Topology], Iterator[Problem]], ...] = (
    _cycles,
    launch_problems,
    _exit_codes,
    hidden_exit_codes,
    _limits,
    _deadlines,
    _wait_bound,
    _managed_by,
    gang_bounds,
    clean_pod_policy,
    ttl,
    _sidecars,
    _kueue,
    localhost_problems,
    _cluster_domain,
    _host_ports,
    _mesh,
    _rdma,
    _scheduling,
    _tensorboard,
    _mounts,
    _role_names,
    _files,
    _secrets,
)
