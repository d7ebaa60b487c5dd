"""A TensorBoard beside the job: a Deployment and a Service, which stay until they are deleted."""

from collections.abc import Iterator
from typing import Any

from mlgen.jobfile.model import Tensorboard
from mlgen.kubernetes.merge import merged
from mlgen.objects import security, storage
from mlgen.objects.labels import JOB, ROLE, TENSORBOARD, labels, metadata
from mlgen.objects.skeleton import filled
from mlgen.topology import Topology

NAME = "tensorboard"

RESOURCES = {
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}

SHARED = {"pvc", "nfs", "hostPath"}
"""What replicas share with others, so that what they write can be read elsewhere."""


def board_service(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return the Service, if the job asks for a TensorBoard."""
    asked = topology.job.tensorboard
    if asked:
        ports = [{"name": "http", "port": asked.port, "targetPort": "http"}]
        yield filled("service", metadata=_meta(topology), selector=_own(topology), ports=ports)


def board(topology: Topology) -> Iterator[dict[str, Any]]:
    """Return the Deployment, if the job asks for a TensorBoard."""
    job, asked = topology.job, topology.job.tensorboard
    if not asked:
        return
    own = _own(topology)
    pod: dict[str, Any] = {
        "metadata": {"labels": {k: v for k, v in labels(job, NAME).items() if k != JOB} | own},
        "spec": {"containers": [_container(topology, asked)]},
    }
    shared = {n: {**v, "readOnly": True} for n, v in job.volumes.items() if SHARED & set(v)}
    for patch in (security.patch(job, NAME), storage.patch(job, NAME, shared)):
        pod = merged(pod, patch)
    yield filled("deployment", metadata=_meta(topology), selector=own, template=pod)


def _meta(topology: Topology) -> dict[str, Any]:
    return metadata(topology.job, f"{topology.job.name}-{NAME}", NAME)


def _own(topology: Topology) -> dict[str, str]:
    """What selects its pod. It is none of the job's, which may have to be where each other are."""
    return {TENSORBOARD: topology.job.name, ROLE: NAME}


def _container(topology: Topology, asked: Tensorboard) -> dict[str, Any]:
    images = (role.spec.image for role in topology.roles if role.spec.image)
    return {
        "name": NAME,
        "image": asked.image or next(images, None),
        "command": [NAME, "--logdir", asked.log_dir, "--bind_all", "--port", str(asked.port)],
        "ports": [{"name": "http", "containerPort": asked.port}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
        "resources": asked.resources or RESOURCES,
        "securityContext": {**security.CONFINED, **security.SECCOMP},
    }
