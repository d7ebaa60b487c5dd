"""The supervisor: a Job that cleans up the workloads that keep running after training ends.

A Job stops only its own pods. The supervisor waits for the deciding Job, ends it early if another
role fails, records the job's conditions in the ConfigMap `<job>-status`, and cleans up. Its scripts
are in `argo/`, because the Argo Workflows step shares them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects import rbac, tensorboard
from mlgen.objects.containers import HELPER_RESOURCES, SCRIPTS, script_mount
from mlgen.objects.labels import (
    COMPONENT,
    DECIDES,
    JOB,
    ROLE,
    auxiliary_labels,
    metadata,
    status_name,
)
from mlgen.objects.network import MESH
from mlgen.objects.security import RESTRICTED
from mlgen.objects.skeleton import filled
from mlgen.objects.volumes import pod_volumes, volume_mount
from mlgen.topology import Mount, Scratch, Topology

NAME = "supervisor"
FILES = ("supervise.sh", "watch.sh")
"""The scripts that the supervisor mounts. It runs the first, which sources the other."""

RESTARTS = 100
"""The backoffLimit. Each drained node counts as a failure, and training may outlast many."""

GROUPS = {"Job": "batch", "StatefulSet": "apps", "Service": "", "ConfigMap": ""}
"""The kinds that the supervisor stops or deletes, and their API groups."""

WORKLOADS = ("Job", "StatefulSet")

CACHE = "/tmp"  # noqa: S108 - a volume of the pod
"""The folder in which kubectl caches API discovery."""

MOUNTS = (script_mount(FILES), Mount(Scratch("tmp"), CACHE, read_only=False))

Object = dict[str, Any]


def scripts(topology: Topology) -> tuple[str, ...]:
    """Return the scripts that the supervisor mounts from the job's ConfigMap, if there is one."""
    return FILES if topology.supervised else ()


def supervisor_objects(topology: Topology, objects: Sequence[Object]) -> Iterator[Object]:
    """Return the supervisor's Job and what it needs, if the job is supervised.

    Args:
        topology: the job.
        objects: all other objects of the job. There is no supervisor unless one of them is the
            deciding Job.
    """
    job = topology.job
    deciding = [item for item in objects if _decides(item)]
    if not topology.supervised or len(deciding) != 1:
        return
    name = f"{job.name}-{NAME}"
    job_metadata = metadata(job, name, NAME)
    status = metadata(job, status_name(job.name), "status")
    # Without the label, the ConfigMap remains when objects are deleted by the job's label.
    status["labels"].pop(JOB)
    cleaned = [item for item in objects if item["kind"] in GROUPS and not _is_kept(item)]
    yield from rbac.access(job, job_metadata, name, list(_rules(job, status["name"], cleaned)))
    # It is rendered empty, so that the supervisor does not need the right to create it.
    yield filled("configmap", metadata=status, data={})
    yield filled(
        "job",
        metadata=job_metadata | {"labels": job_metadata["labels"] | {ROLE: NAME}},
        suspend=job.run_policy.suspend,
        indexed=False,
        replicas=1,
        per_index=None,
        backoff_limit=RESTARTS,
        deadline=None,
        ttl=job.run_policy.ttl_seconds_after_finished,
        success=None,
        failure_rules=[],
        template=_pod_template(job, name, deciding[0], cleaned),
    )


def _decides(manifest: Object) -> bool:
    return manifest["kind"] == "Job" and bool(manifest["metadata"]["labels"].get(DECIDES))


def _is_kept(manifest: Object) -> bool:
    """True for TensorBoard's Service, which people use after training ends."""
    component: str = manifest["metadata"]["labels"][COMPONENT]
    return manifest["kind"] == "Service" and component == tensorboard.NAME


def _names(objects: Sequence[Object], kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in objects if item["kind"] == kind]


def _rules(job: TrainingJob, status: str, objects: Sequence[Object]) -> Iterator[Object]:
    """Return the rules of the supervisor's Role, which allow access to the objects by name only."""
    delete = ["delete"] if job.run_policy.clean_pod_policy == "All" else []
    for kind, group in GROUPS.items():
        verbs = [*(["get", "patch"] if kind in WORKLOADS else []), *delete]
        names = _names(objects, kind)
        if verbs and names:
            yield _rule(group, kind, verbs, names)
    yield _rule("", "ConfigMap", ["get", "patch"], [status])


def _rule(group: str, kind: str, verbs: list[str], names: list[str]) -> Object:
    return rbac.policy_rule(group, [f"{kind.lower()}s"], verbs, names)


def _pod_template(
    job: TrainingJob, account: str, deciding: Object, objects: Sequence[Object]
) -> Object:
    """Return the supervisor's pod template.

    It copies what a site may require of every pod from the deciding Job, but not the scheduling of
    that role.
    """
    # The supervisor talks only to the API server; a mesh proxy could keep its pod from completing.
    mesh_labels, mesh_annotations = MESH["none"]
    deciding_spec = deciding["spec"]["template"]["spec"]
    site_fields = {
        key: deciding_spec[key]
        for key in ("tolerations", "imagePullSecrets")
        if key in deciding_spec
    }
    return {
        "metadata": {
            "labels": auxiliary_labels(job, NAME) | {ROLE: NAME} | mesh_labels,
            "annotations": dict(mesh_annotations),
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "serviceAccountName": account,
            **site_fields,
            "containers": [_container(job, deciding, objects)],
            "volumes": pod_volumes(job, MOUNTS),
        },
    }


def _container(job: TrainingJob, deciding: Object, objects: Sequence[Object]) -> Object:
    env = _env(job, deciding, objects)
    return {
        "name": NAME,
        "image": job.helpers.kubectl_image,
        "command": ["sh", f"{SCRIPTS}/{FILES[0]}"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": HELPER_RESOURCES,
        "securityContext": RESTRICTED,
        "volumeMounts": [volume_mount(mount) for mount in MOUNTS],
    }


def _env(job: TrainingJob, deciding: Object, objects: Sequence[Object]) -> dict[str, str]:
    """Return the variables that `argo/watch.sh` documents."""
    policy = job.run_policy.clean_pod_policy
    others = [item for item in objects if item is not deciding]
    env = {
        "MLGEN_JOB": job.name,
        "MLGEN_DECIDES": deciding["metadata"]["name"],
        "MLGEN_WORKLOADS": _resource_names(item for item in others if item["kind"] in WORKLOADS),
        "MLGEN_CLEAN_POD_POLICY": policy,
    }
    if policy == "All":
        rest = (item for item in others if item["kind"] not in WORKLOADS)
        env["MLGEN_OBJECTS"] = _resource_names(rest)
    return env | {"HOME": CACHE}


def _resource_names(objects: Iterable[Object]) -> str:
    """Return objects as arguments of kubectl: `job/mnist-worker statefulset/mnist-ps`."""
    return " ".join(f"{item['kind'].lower()}/{item['metadata']['name']}" for item in objects)
