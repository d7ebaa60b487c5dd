"""TensorBoard: a Deployment and a Service, which keep running after training ends."""

from collections.abc import Iterator
from typing import Any

from mlgen.jobfile.model import Tensorboard
from mlgen.kubernetes.merge import merged
from mlgen.objects import security, services, storage
from mlgen.objects.labels import ROLE, TENSORBOARD, auxiliary_labels, metadata
from mlgen.objects.skeleton import filled
from mlgen.topology import Topology

NAME = "tensorboard"

RESOURCES = {
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}

SHARED = {"pvc", "nfs", "hostPath"}
"""Volume types that another pod can read; TensorBoard mounts them."""


def service(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return TensorBoard's Service, if the job has a TensorBoard."""
    board = topology.job.tensorboard
    if board:
        ports = [{"name": "http", "port": board.port, "targetPort": "http"}]
        yield services.service(_metadata(topology), _selector(topology), ports)


def deployment(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return TensorBoard's Deployment, if the job has a TensorBoard."""
    job, board = topology.job, topology.job.tensorboard
    if not board:
        return
    selector = _selector(topology)
    pod: dict[str, Any] = {
        "metadata": {"labels": auxiliary_labels(job, NAME) | selector},
        "spec": {security.AUTOMOUNT: False, "containers": [_container(topology, board)]},
    }
    shared = {
        name: {**short_form, "readOnly": True}
        for name, short_form in job.volumes.items()
        if SHARED & set(short_form)
    }
    for patch in (security.patch(job, NAME), storage.patch(job, NAME, shared)):
        pod = merged(pod, patch)
    yield filled("deployment", metadata=_metadata(topology), selector=selector, template=pod)


def _metadata(topology: Topology) -> dict[str, Any]:
    return metadata(topology.job, f"{topology.job.name}-{NAME}", NAME)


def _selector(topology: Topology) -> dict[str, str]:
    return {TENSORBOARD: topology.job.name, ROLE: NAME}


def _container(topology: Topology, board: Tensorboard) -> dict[str, Any]:
    """Return TensorBoard's container; its image defaults to the first training image."""
    images = (role.spec.image for role in topology.roles if role.spec.image)
    return {
        "name": NAME,
        "image": board.image or next(images, None),
        "command": [NAME, "--logdir", board.log_dir, "--bind_all", "--port", str(board.port)],
        "ports": [{"name": "http", "containerPort": board.port}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
        "resources": board.resources or RESOURCES,
        "securityContext": {**security.CONFINED, **security.SECCOMP},
    }
