"""The supervisor: a Job beside the others that ends what outlives the training.

A Job ends nothing but itself. The supervisor waits for the deciding Job, ends it where another role
has failed, writes down how it went in the ConfigMap `<job>-status`, and frees the rest. Its scripts
are those of the Argo Workflows step, in `argo/`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects import tensorboard
from mlgen.objects.labels import DECIDES, JOB, ROLE, config_name, labels, metadata, status_name
from mlgen.objects.network import MESH
from mlgen.objects.pod import HELPER_RESOURCES, RESTRICTED, RUN, SCRIPTS
from mlgen.objects.skeleton import filled
from mlgen.topology import Topology

NAME = "supervisor"
FILES = ("supervise.sh", "watch.sh")
"""The scripts that it runs: the first, which reads the others."""

RESTARTS = 100
"""A drained node counts as a failure of the supervisor, and training may outlive many."""

GROUPS = {"Job": "batch", "StatefulSet": "apps", "Service": "", "ConfigMap": ""}
"""What it ends or deletes, by kind, and the API groups of these."""

WORKLOADS = ("Job", "StatefulSet")

CACHE = "/tmp"  # noqa: S108 - a mount of the pod's own
"""Where kubectl keeps what the API server can do, so that it does not ask each time."""

Object = dict[str, Any]


def files(topology: Topology) -> tuple[str, ...]:
    """Return the scripts that the job's ConfigMap has for the supervisor, if there is one."""
    return FILES if topology.supervised else ()


def supervision(topology: Topology, objects: Sequence[Object]) -> Iterator[Object]:
    """Return the supervisor with what it needs, if what outlives the training is to end.

    Args:
        topology: the job.
        objects: all others of the job, with the deciding Job among them.
    """
    job = topology.job
    deciding = [o for o in objects if o["metadata"]["labels"].get(DECIDES) and o["kind"] == "Job"]
    if not topology.supervised or len(deciding) != 1:
        return
    name, meta = f"{job.name}-{NAME}", metadata(job, f"{job.name}-{NAME}", NAME)
    # It must outlast all that is found by the job's label. Empty, but then nobody has to make it.
    status = metadata(job, status_name(job.name), "status")
    status["labels"].pop(JOB)
    objects = [item for item in objects if item["kind"] in GROUPS and not _stays(item)]
    yield filled("serviceaccount", metadata=meta)
    yield filled("role", metadata=meta, rules=list(_rules(job, status["name"], objects)))
    yield filled(
        "rolebinding", metadata=meta, role=name, service_account=name, namespace=job.namespace
    )
    yield filled("configmap", metadata=status, data={})
    yield filled(
        "job",
        metadata=meta | {"labels": meta["labels"] | {ROLE: NAME}},
        suspend=job.run_policy.suspend,
        indexed=False,
        replicas=1,
        per_index=None,
        backoff_limit=RESTARTS,
        deadline=None,
        ttl=job.run_policy.ttl_seconds_after_finished,
        success=None,
        failure_rules=[],
        template=_template(job, name, deciding[0], objects),
    )


def _stays(item: Object) -> bool:
    """The Service of a TensorBoard, which people look at when training has ended."""
    component: str = item["metadata"]["labels"]["app.kubernetes.io/component"]
    return item["kind"] == "Service" and component == tensorboard.NAME


def _names(objects: Sequence[Object], *kinds: str) -> list[str]:
    return [item["metadata"]["name"] for item in objects if item["kind"] in kinds]


def _rules(job: TrainingJob, status: str, objects: Sequence[Object]) -> Iterator[Object]:
    """What it may do, to each object by name; of all others it may not even know."""
    delete = ["delete"] if job.run_policy.clean_pod_policy == "All" else []
    for kind, group in GROUPS.items():
        verbs = [*(["get", "patch"] if kind in WORKLOADS else []), *delete]
        if verbs and _names(objects, kind):
            yield _rule(group, kind, _names(objects, kind), verbs)
    yield _rule("", "ConfigMap", [status], ["get", "patch"])


def _rule(group: str, kind: str, names: list[str], verbs: list[str]) -> Object:
    return {
        "apiGroups": [group],
        "resources": [f"{kind.lower()}s"],
        "resourceNames": names,
        "verbs": verbs,
    }


def _template(
    job: TrainingJob, account: str, deciding: Object, objects: Sequence[Object]
) -> Object:
    """Its pod. It is none of the job's, which may have to be where each other are."""
    own = {key: value for key, value in labels(job, NAME).items() if key != JOB} | {ROLE: NAME}
    # It asks the API server alone, so a proxy would be of no use, and keep it from ending.
    mesh, annotations = MESH["none"]
    # What a site demands of every pod; it need not go where the role goes.
    theirs = deciding["spec"]["template"]["spec"]
    site = {key: theirs[key] for key in ("tolerations", "imagePullSecrets") if key in theirs}
    items = [{"key": file, "path": file} for file in FILES]
    config = {"name": config_name(job), "items": items, "defaultMode": RUN}
    return {
        "metadata": {"labels": own | mesh, "annotations": dict(annotations)},
        "spec": {
            "restartPolicy": "OnFailure",
            "serviceAccountName": account,
            **site,
            "containers": [_container(job, deciding, objects)],
            "volumes": [
                {"name": "mlgen-scripts", "configMap": config},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }


def _container(job: TrainingJob, deciding: Object, objects: Sequence[Object]) -> Object:
    policy = job.run_policy.clean_pod_policy
    others = [item for item in objects if item is not deciding]
    env = {
        "MLGEN_JOB": job.name,
        "MLGEN_DECIDES": deciding["metadata"]["name"],
        "MLGEN_WORKLOADS": _listed(item for item in others if item["kind"] in WORKLOADS),
        "MLGEN_CLEAN_POD_POLICY": policy,
    }
    if policy == "All":
        env["MLGEN_OBJECTS"] = _listed(item for item in others if item["kind"] not in WORKLOADS)
    env["HOME"] = CACHE
    return {
        "name": NAME,
        "image": job.helpers.kubectl_image,
        "command": ["sh", f"{SCRIPTS}/{FILES[0]}"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": HELPER_RESOURCES,
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "mlgen-scripts", "mountPath": SCRIPTS, "readOnly": True},
            {"name": "tmp", "mountPath": CACHE},
        ],
    }


def _listed(objects: Iterable[Object]) -> str:
    return " ".join(f"{item['kind'].lower()}/{item['metadata']['name']}" for item in objects)
