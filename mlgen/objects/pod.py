"""A role → the template of its pods."""

from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.sidecars import is_sidecar
from mlgen.objects import kueue, network, placement, security, storage
from mlgen.objects.containers import (
    RESOURCES,
    SCRIPT_MOUNT,
    helper_container,
    helpers_of,
    training_container,
    with_host_ports,
    with_index_variable,
)
from mlgen.objects.errors import template_error
from mlgen.objects.labels import labels, workload_name
from mlgen.objects.skeleton import filled
from mlgen.objects.storage import pod_volumes, volume_mount
from mlgen.topology import Helper, Mount, Role, Topology


def pod_template(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template of a role.

    Later patches override earlier ones: scheduling, network, security and storage of the job file,
    then the templates of the user.

    Raises:
        MlgenError: a template removes the training container, or sets a memory limit that is not
            an amount.
    """
    job, container = topology.job, role.spec.main_container
    pod = _plain_pod(job, role)
    patches = [
        placement.patch(topology, role),
        network.patch(topology, role),
        security.patch(job, container),
        storage.patch(job, container, role.spec.volumes),
    ]
    for patch in (*patches, *(with_host_ports(role, item) for item in role.spec.templates)):
        pod = merged(pod, patch)
    memory = storage.shared_memory(role, _training_container_of(role, pod))
    if memory:
        pod = merged(pod, _mount_patch(job, container, memory))
    spec = _waiting_last(helpers_of(job, role), pod["spec"])
    spec = network.with_dns_policy(with_native_sidecars(role, spec))
    spec = security.without_token(with_index_variable(role, spec))
    spec = kueue.with_modest_helpers(topology, spec, RESOURCES)
    return pod | {"spec": _long_fields_last(spec)}


def service_account(job: TrainingJob, role: Role) -> str | None:
    """Return the service account of a role's pods; None is the namespace's default.

    It is the user's, or the role's own if the pods use the Kubernetes API.
    """
    default = workload_name(job, role) if role.rights else None
    return role.spec.service_account_name or default


def _plain_pod(job: TrainingJob, role: Role) -> dict[str, Any]:
    """Return the pod template that the patches are merged into."""
    helpers = helpers_of(job, role)
    mounts = [*role.mounts, *(mount for helper in helpers for mount in helper.mounts)]
    if helpers:
        mounts.append(SCRIPT_MOUNT)
    return filled(
        "pod",
        labels=labels(job, role.name, role),
        hostname=None if role.index is None else workload_name(job, role),
        subdomain=job.name,
        restart_policy=_restart_policy(role),
        service_account=service_account(job, role),
        helpers=[helper_container(job, role, helper) for helper in helpers] or None,
        main=training_container(role),
        volumes=pod_volumes(job, mounts) or None,
    )


def _restart_policy(role: Role) -> str | None:
    """Return the pods' restartPolicy; None is the default, Always.

    ExitCode is implemented by the podFailurePolicy of a Job, which requires Never. A replica of a
    gang is restarted with the others, or not at all.
    """
    if role.serves:
        return None
    return "OnFailure" if role.restart == "OnFailure" and not role.restarts_together else "Never"


def _training_container_of(role: Role, pod: dict[str, Any]) -> dict[str, Any]:
    """Return the training container, which a template of the user may have removed.

    Raises:
        MlgenError: it was removed.
    """
    name = role.spec.main_container
    containers: list[dict[str, Any]] = pod["spec"].get("containers", [])
    for container in containers:
        if container.get("name") == name:
            return container
    raise template_error(
        role,
        f'the template removes the training container "{name}"',
        "combination",
        "keep it, or set mainContainer to the name of another container",
    )


def _mount_patch(job: TrainingJob, container: str, mount: Mount) -> dict[str, Any]:
    """Return the pod template patch that mounts a volume into a container."""
    patch = {"name": container, "volumeMounts": [volume_mount(mount)]}
    return {"spec": {"containers": [patch], "volumes": pod_volumes(job, [mount])}}


def _waiting_last(helpers: list[Helper], spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which the helpers that wait for other pods are the last to run.

    The init containers of the user's templates come before them: no replica waits until another
    one has downloaded its data.
    """
    waiting = {helper.name for helper in helpers if helper.last}
    containers = spec.get("initContainers")
    if not waiting or not containers:
        return spec
    ordered = sorted(containers, key=lambda container: container.get("name") in waiting)
    return spec | {"initContainers": ordered}


def _long_fields_last(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec with its long lists at the end, where they do not hide short fields."""
    long = ("initContainers", "containers", "volumes")
    short_fields = {name: spec[name] for name in spec if name not in long}
    return short_fields | {name: spec[name] for name in long if name in spec}


def with_native_sidecars(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec whose evident sidecars do not keep a Job from completing.

    They become the last init containers, so that they start when the others would have, after
    every init container of the user and of mlgen.
    """
    main = role.spec.main_container
    containers = spec.get("containers") or []
    if role.serves or len(containers) == 1:
        return spec

    moved = [c for c in containers if c.get("name") != main and is_sidecar(c)]
    if not moved:
        return spec
    sidecars = [container | {"restartPolicy": "Always"} for container in moved]
    return spec | {
        "initContainers": [*(spec.get("initContainers") or []), *sidecars],
        "containers": [container for container in containers if container not in moved],
    }
