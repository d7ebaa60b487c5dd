"""What a job file must not say together, whatever its framework.

Each function holds one declaration against the roles that a framework made of the job.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from mlgen.kubernetes.limits import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX
from mlgen.problems import Problem
from mlgen.topology import SEEN, Role, Topology


def problems(topology: Topology) -> list[Problem]:
    """Return every contradiction, and as warnings what may surprise."""
    found = [problem for check in CHECKS for problem in check(topology)]
    return list(dict.fromkeys(found))


def _wrong(*path: str, message: str, hint: str, warning: bool = False) -> Problem:
    return Problem(("spec", *path), message, "combination", hint, warning)


def _exit_codes(topology: Topology) -> Iterator[Problem]:
    """Codes may be given for all roles, but then one of them must heed them."""
    roles = topology.roles
    heeded = {r.spec.retryable_exit_codes for r in roles if r.restart == "ExitCode"}
    for role in roles:
        codes = role.spec.retryable_exit_codes
        if codes and codes not in heeded:
            yield _wrong(
                "roles",
                role.spec.name,
                "retryableExitCodes",
                message=f"exit codes do not count under restartPolicy {role.restart}",
                hint="write restartPolicy: ExitCode",
            )


def _limits(topology: Topology) -> Iterator[Problem]:
    """The limits of a role are those of a Job, and those of an index need pods that stay down."""
    roles = topology.roles
    for role in roles:
        spec, path = role.spec, ("roles", role.spec.name)
        given = {
            "activeDeadlineSeconds": spec.active_deadline_seconds,
            "backoffLimit": spec.backoff_limit,
            "backoffLimitPerIndex": spec.backoff_limit_per_index,
            "maxFailedIndexes": spec.max_failed_indexes,
        }
        for name in (name for name, value in given.items() if value is not None and role.serves):
            message = f"{role.name} serves until it is deleted, so nothing limits it"
            hint = "leave it out, or write another restartPolicy than Always"
            yield _wrong(*path, name, message=message, hint=hint)
        if role.serves:
            continue
        if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
            message = "failed indexes are only counted with a limit for each of them"
            hint = "write backoffLimitPerIndex too"
            yield _wrong(*path, "maxFailedIndexes", message=message, hint=hint)
        if spec.backoff_limit_per_index is not None:
            if role.restart == "OnFailure":
                message = "a replica that starts again in its pod has no count of its own"
                hint = "write restartPolicy: ExitCode, or Never"
                yield _wrong(*path, "backoffLimitPerIndex", message=message, hint=hint)
            if role.index is not None:
                message = f"each {spec.name} is a Job of its own, so it has no indexes"
                yield _wrong(*path, "backoffLimitPerIndex", message=message, hint=BACKOFF_HINT)


BACKOFF_HINT = "write backoffLimit, which then holds for each of them"


def _deadlines(topology: Topology) -> Iterator[Problem]:
    """A deadline that is over before waiting is would hide what was missing."""
    job, roles = topology.job, topology.roles
    timeout = job.wait.timeout_seconds
    for role in (role for role in roles if role.waits or role.helpers):
        own = role.spec.active_deadline_seconds
        whole = job.run_policy.active_deadline_seconds
        path = ("roles", role.spec.name) if own is not None else ("runPolicy",)
        deadline = whole if own is None else own
        if deadline is not None and deadline <= timeout:
            yield _wrong(
                *path,
                "activeDeadlineSeconds",
                message=f"the deadline of {deadline} s ends the job before waiting for peers"
                f" ({timeout} s) can say what is missing",
                hint=f"write more than {timeout}, or less for wait.timeoutSeconds",
            )


def _run_policy(topology: Topology) -> Iterator[Problem]:
    job, roles = topology.job, topology.roles
    policy = job.run_policy
    if policy.managed_by is not None:
        yield _wrong(
            "runPolicy",
            "managedBy",
            message="no controller would run the job: Kubernetes leaves a Job alone that names"
            " another manager, and there is no operator",
            hint="leave it out",
        )
    supervisor = topology.supervised
    staying = [role.name for role in roles if not role.decides]
    if policy.clean_pod_policy != "None" and staying and not supervisor:
        yield _wrong(
            "runPolicy",
            "cleanPodPolicy",
            message=f"nothing in the cluster stops {_names(staying)} at the end",
            hint="then run: kubectl delete statefulsets,jobs"
            f" -l 'mlgen.dev/job={job.name},mlgen.dev/decides!=true'",
            warning=True,
        )
    ttl = policy.ttl_seconds_after_finished
    if supervisor and ttl is not None and ttl < SEEN:
        yield _wrong(
            "runPolicy",
            "ttlSecondsAfterFinished",
            message=f"the supervisor may not see the end of a Job that goes after {ttl} s",
            hint=f"it is rendered as {SEEN}",
            warning=True,
        )
    serving = [role.name for role in roles if role.serves]
    if ttl is not None and serving and not (supervisor and policy.clean_pod_policy == "All"):
        yield _wrong(
            "runPolicy",
            "ttlSecondsAfterFinished",
            message=f"Kubernetes deletes Jobs by it, not what serves: {_names(serving)} stay",
            hint=f"then run: kubectl delete statefulsets -l mlgen.dev/job={job.name}",
            warning=True,
        )


def _names(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _addresses(topology: Topology) -> Iterator[Problem]:
    job = topology.job
    if job.network.cluster_domain and not job.namespace:
        yield _wrong(
            "network",
            "clusterDomain",
            message="an address with the cluster's domain needs the namespace",
            hint="write metadata.namespace, or give --namespace",
        )


def _host_ports(topology: Topology) -> Iterator[Problem]:
    job = topology.job
    given, path = job.network.host_ports, ("network", "hostPorts")
    if given is None:
        return
    if not job.network.on_host:
        message = "replicas only have ports of their nodes on the nodes' network"
        yield _wrong(*path, message=message, hint="write network.host: true, or leave it out")
        return
    last = given.base + given.size - 1
    if last > PORT_MAX:
        message = f"the ports {given.base} to {last} go beyond {PORT_MAX}"
        yield _wrong(*path, message=message, hint="take a lower base or a smaller size")
        return
    for what, reserved in (
        ("NodePorts of Services", NODE_PORTS),
        ("connections that Linux opens", EPHEMERAL_PORTS),
    ):
        overlap = given.base < reserved.stop and last >= reserved.start
        if overlap and not given.allow_reserved:
            first, end = reserved.start, reserved.stop - 1
            message = f"the ports {given.base} to {last} overlap with {first} to {end}, of {what}"
            hint = "take others, or write allowReserved: true if your nodes have other ranges"
            yield _wrong(*path, message=message, hint=hint)


def _mesh(topology: Topology) -> Iterator[Problem]:
    job = topology.job
    if job.network.mesh == "native" and job.network.on_host:
        message = "a mesh does not take in pods on the network of their nodes"
        yield _wrong("network", "mesh", message=message, hint="leave mesh or host out")


def _rdma(topology: Topology) -> Iterator[Problem]:
    """Each mode has its own way to the hardware; what belongs to another one is refused."""
    job = topology.job
    rdma, path = job.network.rdma, ("network", "rdma")
    given = {
        name: value
        for name, value in (
            ("resource", rdma.resource),
            ("networks", rdma.networks),
            ("interface", rdma.interface),
            ("hca", rdma.hca),
        )
        if value
    }
    needed, foreign = RDMA_FIELDS[rdma.mode]
    for name in (name for name in needed if name not in given):
        message = f"{rdma.mode} needs {name}"
        yield _wrong(*path, message=message, hint="the cluster's administrator knows it")
    for name in (name for name in foreign if name in given):
        message = f"{name} is of no use where mode is {rdma.mode}"
        yield _wrong(*path, name, message=message, hint="leave it out, or take another mode")
    if rdma.mode == "host" and job.network.host is False:
        message = "host is the hardware of the node, on the network of the node"
        yield _wrong("network", "host", message=message, hint="leave host out, or take sriov")
    if rdma.mode in ("sriov", "shared") and job.network.host:
        message = f"{rdma.mode} gives pods their own way to the hardware, beside their own network"
        yield _wrong("network", "host", message=message, hint="leave host out, or take mode: host")
    if rdma.mode == "host" and not rdma.resource and job.security.profile != "privileged":
        yield _wrong(
            *path,
            message="without a device plugin's resource only a privileged pod may use the hardware",
            hint="give resource, or write security.profile: privileged",
        )


RDMA_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "none": ((), ("resource", "networks", "interface", "hca")),
    "host": ((), ("networks",)),
    "sriov": (("resource", "networks"), ()),
    "shared": (("resource",), ()),
}
"""By mode: the fields that it needs, and those that are not for it."""


def _scheduling(topology: Topology) -> Iterator[Problem]:
    """What is said of a gang must be of use to the scheduler that is asked for."""
    job, roles = topology.job, topology.roles
    asked, path = job.scheduling, ("scheduling",)
    given = {
        "queue": asked.queue,
        "minMember": asked.min_member,
        "minResources": asked.min_resources,
        "scheduleTimeoutSeconds": asked.schedule_timeout_seconds,
    }
    for name in (name for name, value in given.items() if value is not None):
        if name not in GANG_FIELDS[asked.gang]:
            able = [gang for gang, names in GANG_FIELDS.items() if name in names]
            message = f"{name} is of no use where gang is {asked.gang}"
            yield _wrong(*path, name, message=message, hint=f"it is for {' and '.join(able)}")
    if asked.gang == "kueue" and not asked.queue:
        message = "Kueue only admits what names a queue"
        yield _wrong(*path, message=message, hint="write queue: with the name of a LocalQueue")
    pods = sum(role.replicas for role in roles)
    if asked.min_member is not None and asked.min_member > pods:
        message = f"{asked.min_member} pods cannot start together where there are {pods}"
        yield _wrong(*path, "minMember", message=message, hint=f"write at most {pods}")
    if asked.topology and asked.spread and asked.topology.key == asked.spread.key:
        message = f"pods cannot be together and apart by {asked.spread.key}"
        yield _wrong(*path, "spread", message=message, hint="take another key, or one of the two")


GANG_FIELDS: dict[str, tuple[str, ...]] = {
    "none": (),
    "volcano": ("queue", "minMember", "minResources"),
    "coscheduling": ("minMember", "minResources", "scheduleTimeoutSeconds"),
    "kueue": ("queue",),
}
"""By flavour: what it can be told. Kueue admits a group as a whole or not at all."""


def _tensorboard(topology: Topology) -> Iterator[Problem]:
    """TensorBoard reads files that replicas write, so both must see the same volume."""
    job = topology.job
    board = job.tensorboard
    if board is None or "://" in board.log_dir:
        return
    above = [
        volume
        for volume in job.volumes.values()
        if f"{board.log_dir}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    ]
    if not any("pvc" in volume or "nfs" in volume or "hostPath" in volume for volume in above):
        yield _wrong(
            "tensorboard",
            "logDir",
            message=f"no volume that all pods share is mounted over {board.log_dir}",
            hint="mount a pvc or nfs for all roles, in spec.volumes, or name a bucket",
        )


def _mounts(topology: Topology) -> Iterator[Problem]:
    """Of two volumes in one folder a container would only see one."""
    roles = topology.roles
    for role in roles:
        seen: dict[str, str] = {}
        for name, volume in role.spec.volumes.items():
            other = seen.setdefault(volume["mountPath"].rstrip("/"), name)
            if other != name:
                message = f"{other} and {name} are both mounted at {volume['mountPath']}"
                path = ("roles", role.spec.name, "volumes", name)
                yield _wrong(*path, message=message, hint="give one of them another mountPath")


def _files(topology: Topology) -> Iterator[Problem]:
    """A volume of files is one ConfigMap, `<job>-<volume>`, whichever roles have it."""
    job, roles = topology.job, topology.roles
    seen: dict[str, tuple[str, Any]] = {}
    for role in roles:
        for name, volume in role.spec.volumes.items():
            if "files" not in volume:
                continue
            path = ("roles", role.spec.name, "volumes", name)
            if name == "config":
                message = f"the ConfigMap {job.name}-config holds mlgen's own files"
                yield _wrong(*path, message=message, hint="give the volume another name")
            other, texts = seen.setdefault(name, (role.spec.name, volume["files"]))
            if texts != volume["files"]:
                message = f"{other} has other texts in the files of its volume {name}"
                yield _wrong(*path, message=message, hint="give one of the two another name")


SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(API|ACCESS|PRIVATE|SIGNING)_?KEY)(_|$)"
)
HARMLESS = re.compile(r"|[\d.]+|(?i:true|false|none)|/.*|.*\$\(.*")
"""Texts that are no secret: a number, a switch, a path, a reference to another variable."""


def _secrets(topology: Topology) -> Iterator[Problem]:
    """A manifest is read by more people than a Secret; the texts themselves are not repeated."""
    roles = topology.roles
    for role in roles:
        for path, name, value in _texts(role):
            if SECRET.search(name.upper()) and not HARMLESS.fullmatch(value):
                yield Problem(
                    ("spec", "roles", role.spec.name, *path),
                    f"{name} looks like a secret, and everybody who reads the manifests sees it",
                    "secret-in-env",
                    f"write {name}: {{valueFrom: {{secretKeyRef: {{name: …, key: …}}}}}}",
                    warning=True,
                )


def _texts(role: Role) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The variables that the user gave as texts: where, name and value."""
    for name, value in role.spec.env.items():
        if isinstance(value, str):
            yield ("env", name), name, value
    for template in role.spec.templates:
        for container in (template.get("spec") or {}).get("containers") or []:
            for item in container.get("env") or []:
                if item.get("value"):
                    yield ("template",), item["name"], item["value"]


CHECKS: tuple[Callable[[Topology], Iterator[Problem]], ...] = (
    _exit_codes,
    _limits,
    _deadlines,
    _run_policy,
    _addresses,
    _host_ports,
    _mesh,
    _rdma,
    _scheduling,
    _tensorboard,
    _mounts,
    _files,
    _secrets,
)
