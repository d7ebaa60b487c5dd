"""Unusual values that nodes, kubelets and programs can use, and that no rule must report."""

import pytest

import mlgen
from mlgen.kubernetes.versions import KubeVersion

JOB = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "ctr"},
    "spec": {
        "framework": "pytorch",
        "image": "example/ctr:1",
        "command": ["torchrun", "run.py"],
        "roles": {"worker": {"replicas": 2}},
    },
}


def job(replicas=2, resources=None, **spec):
    role = {"replicas": replicas} | ({"resources": resources} if resources else {})
    fields = {"roles": {"worker": role}, **spec}
    return JOB | {"spec": JOB["spec"] | fields}


def pod(replicas=2, resources=None, **spec):
    return job(replicas, resources, template={"spec": spec})


def affinity(kind, replicas=2, labels=None, **fields):
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": labels or {"mlgen.dev/job": "ctr"}},
    }
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return job(replicas, affinity={kind: terms}, **fields)


def nodes(*expressions, **fields):
    terms = [{"matchExpressions": [*expressions]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return job(affinity={"nodeAffinity": required}, **fields)


def on(label, value, replicas=1, **resources):
    names = {key.replace("__", "/").replace("_", "."): n for key, n in resources.items()}
    return job(replicas, names, nodeSelector={label: value})


def volume(path, source, command=None, **fields):
    given = {"command": command} if command else {}
    return job(volumes={"v": {"mountPath": path, **source}}, **given, **fields)


def claim(replicas=2, modes=("ReadWriteOnce",), resources=None, extra=None, **fields):
    spec = {"accessModes": [*modes], "resources": {"requests": {"storage": "9Gi"}}, **(extra or {})}
    volumes = {"v": {"mountPath": "/v", "pvc": "c"}}
    return job(replicas, resources, claims={"c": spec}, volumes=volumes, **fields)


def tpu(topology, replicas, chips, kind="tpu-v5-lite-podslice"):
    prefix = "cloud.google.com/gke-tpu"
    selector = {f"{prefix}-accelerator": kind, f"{prefix}-topology": topology}
    fields = {"framework": "jax", "command": ["python", "run.py"], "nodeSelector": selector}
    return job(replicas, {"google.com/tpu": chips}, **fields)


def init(script, **fields):
    command = ["sh", "-c", script] if isinstance(script, str) else script
    return pod(initContainers=[{**INIT, "command": command, **fields}])


def mounted(source):
    mounts = [{"name": "a", "mountPath": "/a"}]
    containers = [{"name": "main", "volumeMounts": mounts}]
    return {"volumes": [{"name": "a", "emptyDir": source}], "containers": containers}


INSTANCE = "node.kubernetes.io/instance-type"
GKE = "cloud.google.com/gke-accelerator"
INIT = {"name": "a", "image": "busybox:1"}

RIGHT = {
    "448 cores": job(resources={"cpu": 448, "memory": "24Ti"}),
    "a fraction of a core": job(resources={"cpu": "4000m"}),
    "a shared GPU": job(resources={"nvidia.com/gpu.shared": 1}),
    "a machine with 16 GPUs": on(
        "node.kubernetes.io/instance-type", "a2-megagpu-16g", nvidia_com__gpu=16
    ),
    "half of a machine": on("node.kubernetes.io/instance-type", "p4d.24xlarge", nvidia_com__gpu=4),
    "one of two machines": nodes(
        {"key": INSTANCE, "operator": "In", "values": ["g5.xlarge", "g5.48xlarge"]},
        resources={"nvidia.com/gpu": 8},
    ),
    "old GPUs on GKE": on(GKE, "nvidia-tesla-t4", nvidia_com__gpu=1),
    "future GPUs on GKE": on(GKE, "nvidia-b300", nvidia_com__gpu=8),
    "data for all": claim(2, ["ReadOnlyMany"], command=["torchrun", "a.py", "--data-dir=/v"]),
    "CPUs": on("node.kubernetes.io/instance-type", "m5.4xlarge", cpu=8),
    "a slice of two hosts": tpu("2x4", 2, 4),
    "huge pages": pod(**mounted({"medium": "HugePages-2Mi"})),
    "ssh settings": volume("/etc/ssh", {"secret": "ssh"}),
    "devices of the host": volume("/dev/infiniband", {"hostPath": "/dev/infiniband"}),
    "a cache": volume("/home/user/.cache", {"pvc": "a"}),
    "a home": volume("/home/ada", {"pvc": "a"}),
    "a claim with two modes": claim(4, ["ReadWriteOnce", "ReadWriteMany"]),
    "a claim of one pod": claim(1),
    "ReadWriteOncePod": claim(1, ["ReadWriteOncePod"]),
    "a claim of pods together": claim(
        2, scheduling={"topology": {"key": "kubernetes.io/hostname"}}
    ),
    "one pod per node": affinity("podAntiAffinity"),
    "near another application": affinity("podAffinity", labels={"app": "cache"}),
    "one pod on a node": pod(1, nodeName="n1", hostNetwork=True),
    "a renamed Volcano": job(scheduling={"gang": "volcano", "schedulerName": "volcano-2"}),
    "coscheduling in Kubernetes' own scheduler": job(
        scheduling={"gang": "coscheduling", "schedulerName": "default-scheduler"}
    ),
    "an init container that ends": pod(
        initContainers=[{**INIT, "command": ["sh", "-c", "until nc -z db 1; do sleep 1; done"]}]
    ),
    "the same name in two lists": pod(**mounted({}), initContainers=[INIT]),
    "a disk of one pod": claim(1, extra={"storageClassName": "gp3"}),
    "code that a script downloads": volume(
        "/app", {"emptyDir": {}}, ["sh", "-c", "git clone /m /app && torchrun /app/run.py"]
    ),
    "code on a claim": volume("/app", {"pvc": "a"}, ["torchrun", "/app/run.py"]),
    "TensorBoard": volume("/logs", {"pvc": "a"}, tensorboard={"logDir": "/logs"}),
}


@pytest.mark.parametrize("document", RIGHT.values(), ids=RIGHT)
def test_values_that_a_cluster_can_use(document):
    assert [str(problem) for problem in problems(document)] == []


@pytest.mark.parametrize(("version", "count"), [((1, 33), 1), ((1, 35), 0)])
def test_the_restart_policy_of_an_init_container(version, count):
    document = init(["ls"], restartPolicy="OnFailure")
    try:
        found = mlgen.validate(document, mlgen.Options(KubeVersion(*version))).warnings
    except mlgen.MlgenError as error:
        found = error.problems

    assert len(found) == count


def problems(document):
    """The errors and warnings of a job."""
    try:
        return mlgen.validate(document).warnings
    except mlgen.MlgenError as error:
        return error.problems
