"""Values that the API server accepts, but that no node, kubelet or program can use."""

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
EMPTY_NODES = {"key": "kubernetes.io/hostname", "operator": "In"}


def job(replicas=2, resources=None, **spec):
    role = {"replicas": replicas} | ({"resources": resources} if resources else {})
    fields = {"roles": {"worker": role}, **spec}
    return JOB | {"spec": JOB["spec"] | fields}


def pod(replicas=2, resources=None, **spec):
    return job(replicas, resources, template={"spec": spec})


def affinity(kind, replicas=2, labels=None, key="kubernetes.io/hostname", **fields):
    term = {
        "topologyKey": key,
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


def env(**values):
    return job(env=values)


def init(script, **fields):
    command = ["sh", "-c", script] if isinstance(script, str) else script
    return pod(initContainers=[{**INIT, "command": command, **fields}])


def main(**fields):
    return pod(containers=[{"name": "main", **fields}])


def mounted(source):
    mounts = [{"name": "a", "mountPath": "/a"}]
    containers = [{"name": "main", "volumeMounts": mounts}]
    return {"volumes": [{"name": "a", "emptyDir": source}], "containers": containers}


INSTANCE = "node.kubernetes.io/instance-type"
GKE = "cloud.google.com/gke-accelerator"
INIT = {"name": "a", "image": "busybox:1"}

WRONG = [
    (job(command=[""]), "command: the container cannot start a program without a name"),
    (job(resources={"cpu": 8000}), "resources.cpu: no node has 8000 of cpu: the largest have 1920"),
    (job(resources={"memory": "99Ti"}), "resources.memory: no node has 99Ti of memory"),
    (
        job(resources={"nvidia.com/gpu": 64}),
        "64 nvidia.com/gpu in one pod: the largest nodes have 16",
    ),
    (job(resources={"nvidia.com/GPU": 1}), "no device plugin offers nvidia.com/GPU"),
    (job(resources={"nvidia.io/gpu": 1}), "no device plugin offers nvidia.io/gpu"),
    (job(resources={"google.com/tpus": 4}), "no device plugin offers google.com/tpus"),
    (job(resources={"habana.ai/gaudis": 8}), "no device plugin offers habana.ai/gaudis"),
    (
        job(resources={"nvidia.com/gpu": 1, "amd.com/gpu": 1}),
        "one pod requests nvidia.com/gpu and amd.com/gpu",
    ),
    (job(shmSize="512m"), "spec.shmSize: 512m is 0.512 byte, because m means thousandths"),
    (claim(1, extra={"resources": {"requests": {"storage": 100}}}), "100 is 100 bytes"),
    (
        on("node.kubernetes.io/instance-type", "p3.2xlarge", nvidia_com__gpu=8),
        "a node of the type p3.2xlarge has 1 nvidia.com/gpu, but a pod requests 8",
    ),
    (
        on("node.kubernetes.io/instance-type", "a2-highgpu-4g", nvidia_com__gpu=8),
        "a node of the type a2-highgpu-4g has 4 nvidia.com/gpu, but a pod requests 8",
    ),
    (
        on("node.kubernetes.io/instance-type", "m5.4xlarge", nvidia_com__gpu=1),
        "a node of the type m5.4xlarge has 0 nvidia.com/gpu, but a pod requests 1",
    ),
    (
        on("beta.kubernetes.io/instance-type", "a2-highgpu-1g", nvidia_com__gpu=4),
        "a node of the type a2-highgpu-1g has 1 nvidia.com/gpu",
    ),
    (on(INSTANCE, "g5.xlarge", memory="64Gi"), "g5.xlarge has 16Gi memory"),
    (on(INSTANCE, "g2-standard-24", cpu=48), "g2-standard-24 has 24 cpu"),
    (
        on(INSTANCE, "p4d.24xlarge", vpc_amazonaws_com__efa=32),
        "p4d.24xlarge has 4 vpc.amazonaws.com/efa",
    ),
    (
        nodes(
            {"key": INSTANCE, "operator": "In", "values": ["g5.xlarge", "g5.12xlarge"]},
            resources={"nvidia.com/gpu": 8},
        ),
        "a node of the type g5.12xlarge or g5.xlarge has 4 nvidia.com/gpu",
    ),
    (on(GKE, "nvidia-a100", nvidia_com__gpu=8), "no node has this label with the value"),
    (on(GKE, "A100", nvidia_com__gpu=8), "no node has this label with the value A100"),
    (on(GKE, "nvidia-l4", cpu=8), "the pods run on nodes with accelerators"),
    (tpu("4x4", 4, 4, "v5litepod-16"), "with the value v5litepod-16"),
    (tpu("4x4", 4, 4, "tpu-v5e"), "with the value tpu-v5e"),
    (tpu("2x2x4", 4, 4), "tpu-v5-lite-podslice has no topology 2x2x4"),
    (tpu("4x4", 4, 4, "tpu-v5p-slice"), "tpu-v5p-slice has no topology 4x4"),
    (tpu("v5e-16", 4, 4), "tpu-v5-lite-podslice has no topology v5e-16"),
    (tpu("2x4", 1, 16), "but a host of tpu-v5-lite-podslice with the topology 2x4 has at most 8"),
    (tpu("4x4", 2, 8), "with the topology 4x4 has at most 4"),
    (tpu("4x4", 2, 4), "2 pods with 4 chips each do not fill slices of the topology 4x4"),
    (tpu("2x2x2", 1, 4, "tpu-v4-podslice"), "1 pod with 4 chips each do not fill slices"),
    (
        job(resources={"nvidia.com/gpu": 4}, env={"CUDA_VISIBLE_DEVICES": "0,1"}),
        "CUDA_VISIBLE_DEVICES=0,1 hides 2 of the 4 nvidia.com/gpu of the container",
    ),
    (
        job(resources={"nvidia.com/gpu": 2}, env={"CUDA_VISIBLE_DEVICES": "-1"}),
        "CUDA_VISIBLE_DEVICES=-1 hides 2 of the 2",
    ),
    (
        job(resources={"amd.com/gpu": 8}, env={"HIP_VISIBLE_DEVICES": "8,9"}),
        "HIP_VISIBLE_DEVICES=8,9 hides 8 of the 8",
    ),
    (
        job(1, {"nvidia.com/gpu": 2}, env={"NVIDIA_VISIBLE_DEVICES": "none"}),
        "NVIDIA_VISIBLE_DEVICES=none hides 2 of the 2",
    ),
    (job(resources={"nvidia.com/mig-1g5gb": 1}), "no device plugin offers nvidia.com/mig-1g5gb"),
    (job(resources={"aws.amazon.com/efa": 4}), "no device plugin offers aws.amazon.com/efa"),
    (job(resources={"cloud.google.com/tpu": 4}), "no device plugin offers cloud.google.com/tpu"),
    (job(resources={"nvidia.com/mig-2g.20gb": 3}), "only one MIG device, but the container has 3"),
    (volume("/data:rw", {"pvc": "a"}), 'mounted at a directory named "/data:rw"'),
    (volume("/srv/data:/data", {"pvc": "a"}), 'directory named "/srv/data:/data"'),
    (volume("/$HOME/data", {"pvc": "a"}), "~ and variables are not expanded"),
    (volume("/data", {"hostPath": "/~/data"}), "~ and variables are not expanded"),
    (volume("/", {"pvc": "a"}), "the volume v replaces / of the image"),
    (volume("/usr/", {"emptyDir": {}}), "the volume v replaces /usr/ of the image"),
    (volume("/tmp", {"configMap": "a"}), "writes to /tmp, but the volume v is mounted read-only"),
    (volume("/app/run.sh", {"configMap": "a"}), "mounted as a directory named run.sh"),
    (volume("/app/a.json", {"secret": "a"}), "mounted as a directory named a.json"),
    (volume("/app/run.py", {"files": {"run.py": ""}}), "mounted as a directory named run.py"),
    (
        volume("/app", {"configMap": "a", "subPath": "run.py"}, ["torchrun", "/app/run.py"]),
        "subPath: run.py makes /app a file, so /app/run.py does not exist",
    ),
    (
        volume("/app", {"files": {"run.py": ""}}, ["torchrun", "/app/rnu.py"]),
        "/app/rnu.py does not exist: the volume v contains only run.py",
    ),
    (
        volume("/app", {"files": {"a.py": ""}}, ["torchrun", "b.py"], workingDir="/app"),
        "/app/b.py does not exist",
    ),
    (
        volume("/o", {"pvc": "a", "readOnly": True}, ["torchrun", "a.py", "--save-dir", "/o/1"]),
        "--save-dir writes to /o/1, but the volume v is mounted read-only",
    ),
    (
        volume("/o", {"configMap": "a"}, ["sh", "-c", "torchrun a.py > /o/log"]),
        "> writes to /o/log",
    ),
    (volume("/o", {"secret": "a"}, env={"WANDB_DIR": "/o"}), "WANDB_DIR writes to /o"),
    (claim(4), "4 pods use the claim c, but with ReadWriteOnce only the pods of one node"),
    (claim(2, ["ReadWriteOncePod"]), "2 pods use the claim c, but ReadWriteOncePod allows one pod"),
    (affinity("podAntiAffinity", nodeSelector={"kubernetes.io/hostname": "n1"}), "matches 1 node"),
    (pod(3, nodeName="n1", hostNetwork=True), "3 pods use the same ports of their node"),
    (
        nodes({"key": "zone", "operator": "In", "values": ["a"]}, nodeSelector={"zone": "b"}),
        "nodeSelector and nodeAffinity allow no common value of the label zone",
    ),
    (
        nodes({"key": "zone", "operator": "NotIn", "values": ["b"]}, nodeSelector={"zone": "b"}),
        "allow no common value of the label zone",
    ),
    (
        affinity("podAffinity", 3, resources={"nvidia.com/gpu": 8}),
        "all 3 pods must be on one node, which would need 24 nvidia.com/gpu",
    ),
    (affinity("podAffinity", labels={"app": "ctr"}), "has the label app: ctr, so the podAffinity"),
    (
        affinity("podAntiAffinity", labels={"training.kubeflow.org/job-name": "x"}),
        "has the label training.kubeflow.org/job-name: x, so the term has no effect",
    ),
    (
        job(scheduling={"gang": "volcano", "schedulerName": "default-scheduler"}),
        "but volcano starts its gang",
    ),
    (pod(priority=7), "the admission plugin Priority rejects a pod with priority 7"),
    (pod(nodeSelector={"kubernetes.io/arch": "x86_64"}), 'unknown value "x86_64"'),
    (pod(nodeSelector={"kubernetes.io/os": "windows"}), "run on Linux, not on windows"),
    (
        pod(
            containers=[{"name": "main", "securityContext": {"runAsNonRoot": True, "runAsUser": 0}}]
        ),
        "mutually exclusive",
    ),
    (pod(securityContext={"runAsNonRoot": True, "runAsUser": 0}), "are mutually exclusive"),
    (
        main(securityContext={"capabilities": {"add": ["CAP_IPC_LOCK"]}}),
        "Kubernetes writes capabilities without CAP_",
    ),
    (volume("/v", {"nfs": {"server": "nfs://a", "path": "/a"}}), '"nfs://a" is not a host name'),
    (volume("/v", {"nfs": {"server": "a:/b", "path": "/"}}), '"a:/b" is not a host name'),
    (pod(dnsPolicy="Default"), "with dnsPolicy Default, names of other pods do not resolve"),
    (init("redis & sleep infinity"), "the init container a does not end"),
    (
        init("until nc -z -w 2 ctr-worker-0.ctr 29500; do sleep 1; done"),
        "waits for a port of ctr-worker-0.ctr, which opens only after",
    ),
    (
        main(readinessProbe={"httpGet": {"port": "health"}}, ports=[{"containerPort": 1}]),
        "the container main has no port health",
    ),
    (
        env(
            CPUS={
                "valueFrom": {"resourceFieldRef": {"containerName": "x", "resource": "limits.cpu"}}
            }
        ),
        "the pod has no container x",
    ),
    (
        volume("/d", {"pvc": "a", "readOnly": True})
        | {
            "spec": volume("/d", {"pvc": "a", "readOnly": True})["spec"]
            | {"initContainers": [{**INIT, "command": ["aws", "s3", "sync", "s3://a", "/d"]}]}
        },
        "aws s3 sync writes to /d, but the volume v is mounted read-only",
    ),
    (
        claim(2, ["ReadOnlyMany"], command=["torchrun", "a.py", "--save-dir=/v"]),
        "--save-dir writes to /v, but the volume v is mounted read-only",
    ),
    (volume("/opt/conda", {"emptyDir": {}}), "the volume v replaces /opt/conda of the image"),
    (volume("/dev/shm", {"emptyDir": {}}), "replaces the shared memory at /dev/shm by a disk"),
    (
        volume(
            "/c",
            {"emptyDir": {}},
            ["torchrun", "a.py", "--checkpoint-dir", "/c/1"],
            runPolicy={"restartScope": "All"},
        ),
        "the checkpoints in /c/1 are lost when the replicas restart in new pods",
    ),
    (pod(volumes=[{"name": "a", "emptyDir": {"medium": "RAM"}}]), 'unknown value "RAM"'),
    (
        pod(initContainers=[{**INIT, "command": ["sleep", "infinity"]}]),
        "the init container a does not end",
    ),
    (pod(volumes=[{"name": "a", "emptyDir": {}}]), "no container mounts the volume a"),
    (pod(containers=[INIT, INIT]), "two containers have the name a"),
    (pod(volumes=[{"name": "a", "emptyDir": {}}] * 2), "two volumes have the name a"),
    (
        on("nvidia.com/gpu.product", "A100", amd_com__gpu=8),
        "nodes with the label nvidia.com/gpu.product have no amd.com/gpu",
    ),
    (claim(2, ["ReadWriteMany"], extra={"storageClassName": "gp3"}), "gp3 is usually a class of"),
    (
        job(
            volumes={
                "a": {"mountPath": "/app", "configMap": "a"},
                "b": {"mountPath": "/app/data.json", "pvc": "b", "subPath": "data.json"},
            }
        ),
        "cannot create /app/data.json, because the volume a around it is read-only",
    ),
    (
        volume("/app", {"emptyDir": {}}, ["torchrun", "/app/run.py"]),
        "/app/run.py does not exist: the empty volume v hides /app of the image",
    ),
    (
        volume("/app", {"emptyDir": {}}, ["sh", "-c", "export A=1; torchrun /app/run.py"]),
        "/app/run.py does not exist: the empty volume v hides /app of the image",
    ),
    (
        volume("/app", {"emptyDir": {}}, ["torchrun", "src/run.py"], workingDir="/app"),
        "/app/src/run.py does not exist",
    ),
    (
        volume("/app/run.py", {"files": {"run.py": ""}, "subPath": "ran.py"}),
        "ran.py does not exist: the volume v contains only run.py",
    ),
    (
        job(
            command=["torchrun", "run.py", "--output_dir=/out"],
            template={
                "spec": {
                    "containers": [
                        {"name": "main", "securityContext": {"readOnlyRootFilesystem": True}}
                    ]
                }
            },
        ),
        "--output_dir writes to /out, which is on no volume",
    ),
    (env(PYTHONPATH="/src:$PYTHONPATH"), "Kubernetes does not replace $PYTHONPATH in env"),
    (env(PATH="/opt/bin:${PATH}"), "the directories of the image are lost"),
    (env(ROOT="/d", DATA="$ROOT/train"), "Kubernetes does not replace $ROOT in env"),
    (env(HF_HOME="$HOME/.cache"), "Kubernetes does not replace $HOME in env"),
    (
        volume("/c", {"git": {"repository": "https://gitlab.com/a/b/-/tree/main"}}),
        "the address of a web page",
    ),
    (volume("/c", {"git": {"repository": "ssh://git@git.lab/a.git"}}), "git needs a key"),
    (volume("/c", {"git": {"repository": "https://me:s3@git.lab/a.git"}}), "password or token"),
]


@pytest.mark.parametrize(("document", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_value_that_no_cluster_can_use(document, message):
    found = [str(problem) for problem in problems(document)]

    assert any(message in text for text in found), found


RIGHT = {
    "a directory in a ConfigMap, which the kubelet creates": job(
        volumes={
            "a": {"mountPath": "/app", "configMap": "a"},
            "b": {"mountPath": "/app/data", "pvc": "b"},
        }
    ),
    "448 cores": job(resources={"cpu": 448, "memory": "24Ti"}),
    "a fraction of a core": job(resources={"cpu": "4000m"}),
    "16 GPUs": job(resources={"nvidia.com/gpu": 16}),
    "one MIG device": job(resources={"nvidia.com/mig-1g.10gb": 1}),
    "a shared GPU": job(resources={"nvidia.com/gpu.shared": 1}),
    "memory of a GPU": job(resources={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}),
    "a virtual GPU": job(resources={"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000}),
    "RDMA": job(resources={"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": 1}),
    "a renamed GPU": job(resources={"nvidia.com/gpu-a100": 1}),
    "an unknown vendor": job(resources={"chips.example/gpus": 1}),
    "EFA": job(resources={"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
    "Neuron cores": job(resources={"aws.amazon.com/neuroncore": 32}),
    "a machine with 16 GPUs": on(
        "node.kubernetes.io/instance-type", "a2-megagpu-16g", nvidia_com__gpu=16
    ),
    "half of a machine": on("node.kubernetes.io/instance-type", "p4d.24xlarge", nvidia_com__gpu=4),
    "a machine's whole memory": on(INSTANCE, "p5.48xlarge", cpu=190, memory="2000Gi"),
    "one of two machines": nodes(
        {"key": INSTANCE, "operator": "In", "values": ["g5.xlarge", "g5.48xlarge"]},
        resources={"nvidia.com/gpu": 8},
    ),
    "one known machine": nodes(
        {"key": INSTANCE, "operator": "In", "values": ["g5.xlarge", "gpu-box"]},
        resources={"nvidia.com/gpu": 8},
    ),
    "GPUs on GKE": on(GKE, "nvidia-h100-80gb", nvidia_com__gpu=8),
    "old GPUs on GKE": on(GKE, "nvidia-tesla-t4", nvidia_com__gpu=1),
    "future GPUs on GKE": on(GKE, "nvidia-b300", nvidia_com__gpu=8),
    "future TPUs": tpu("2x2x1", 1, 4, "tpu8x-slice"),
    "an unknown MIG profile": job(resources={"nvidia.com/mig-1g.11gb": 1}),
    "another port": main(readinessProbe={"httpGet": {"port": 80}}),
    "a named port": main(
        readinessProbe={"httpGet": {"port": "a"}}, ports=[{"name": "a", "containerPort": 1}]
    ),
    "a wait for another service": init("until nc -z ctr-db 5432; do sleep 1; done"),
    "a wait for a name": init("until nslookup ctr-worker-0.ctr; do sleep 1; done"),
    "a server in the background": init("tail -f /log & sleep 5"),
    "a download from a claim": volume("/d", {"pvc": "a", "readOnly": True})
    | {
        "spec": volume("/d", {"pvc": "a", "readOnly": True})["spec"]
        | {"initContainers": [{**INIT, "command": ["aws", "s3", "sync", "/d", "s3://a"]}]}
    },
    "data for all": claim(2, ["ReadOnlyMany"], command=["torchrun", "a.py", "--data-dir=/v"]),
    "an environment on a claim": volume("/opt/conda", {"pvc": "a"}),
    "checkpoints in a pod that restarts in place": volume(
        "/c",
        {"emptyDir": {}},
        ["torchrun", "a.py", "--checkpoint-dir=/c"],
        replicas=1,
        restartPolicy="OnFailure",
    ),
    "an unknown machine": on("node.kubernetes.io/instance-type", "gpu-box", nvidia_com__gpu=8),
    "CPUs": on("node.kubernetes.io/instance-type", "m5.4xlarge", cpu=8),
    "a slice of two hosts": tpu("2x4", 2, 4),
    "a slice of one host": tpu("2x4", 1, 8),
    "two slices": tpu("2x4", 4, 4),
    "a large slice": tpu("4x4x4", 16, 4, "tpu-v5p-slice"),
    "one chip": tpu("1x1", 1, 1),
    "all devices": job(resources={"nvidia.com/gpu": 2}, env={"CUDA_VISIBLE_DEVICES": "0,1"}),
    "devices by UUID": job(
        1, {"nvidia.com/gpu": 1}, env={"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c"}
    ),
    "devices by a variable": job(
        1, {"nvidia.com/gpu": 2}, env={"A": "0", "CUDA_VISIBLE_DEVICES": "$(A)"}
    ),
    "memory volume": pod(**mounted({"medium": "Memory"})),
    "huge pages": pod(**mounted({"medium": "HugePages-2Mi"})),
    "certificates": volume("/etc/ssl/certs", {"configMap": "ca"}),
    "ssh settings": volume("/etc/ssh", {"secret": "ssh"}),
    "a file of /etc": volume("/etc/nccl.conf", {"configMap": "a", "subPath": "nccl.conf"}),
    "a directory with a dot": volume("/etc/job.d", {"configMap": "a"}),
    "a version": volume("/opt/app-1.2", {"pvc": "a"}),
    "devices of the host": volume("/dev/infiniband", {"hostPath": "/dev/infiniband"}),
    "the whole /dev": volume("/dev", {"hostPath": "/dev"}),
    "a file of the host": volume("/etc/a.conf", {"hostPath": "/etc/a.conf"}),
    "a cache": volume("/home/user/.cache", {"pvc": "a"}),
    "/tmp": volume("/tmp", {"emptyDir": {}}),
    "a home": volume("/home/ada", {"pvc": "a"}),
    "a script of a file": volume(
        "/app", {"files": {"run.py": ""}}, ["torchrun", "/app/run.py", "--out=/tmp/x.pt"]
    ),
    "a script of the image": volume(
        "/conf", {"files": {"a.yaml": ""}}, ["torchrun", "run.py", "--config=/conf/a.yaml"]
    ),
    "a script below": volume(
        "/app/run.sh", {"configMap": "a", "subPath": "run.sh"}, ["sh", "/app/run.sh"]
    ),
    "a test for a file": volume(
        "/app",
        {"files": {"a.sh": ""}},
        ["sh", "-c", "if [ -f /app/b.sh ]; then . /app/b.sh; fi; torchrun a.py"],
    ),
    "read-only input": volume(
        "/in",
        {"pvc": "a", "readOnly": True},
        ["torchrun", "a.py", "--data_dir=/in", "--load_dir=/in"],
    ),
    "a program that reads the results of another": volume(
        "/logs", {"pvc": "a", "readOnly": True}, ["python", "plot_loss.py", "--log-dir=/logs"]
    ),
    "a writable directory in a read-only one": job(
        command=["torchrun", "a.py", "--output_dir", "/in/out"],
        volumes={
            "in": {"mountPath": "/in", "pvc": "a", "readOnly": True},
            "out": {"mountPath": "/in/out", "pvc": "b"},
        },
    ),
    "a claim for all": claim(4, ["ReadWriteMany"]),
    "a claim with two modes": claim(4, ["ReadWriteOnce", "ReadWriteMany"]),
    "a claim of one pod": claim(1),
    "a claim of roles in order": claim(
        framework="generic",
        roles={"prepare": {}, "train": {"waitFor": [{"role": "prepare", "until": "Complete"}]}},
        successPolicy={"role": "train"},
    ),
    "ReadWriteOncePod": claim(1, ["ReadWriteOncePod"]),
    "an existing volume": claim(4, extra={"volumeName": "nfs-1", "storageClassName": ""}),
    "a claim on one node": claim(2, nodeSelector={"kubernetes.io/hostname": "n1"}),
    "a claim of pods together": claim(
        2, scheduling={"topology": {"key": "kubernetes.io/hostname"}}
    ),
    "one pod per node": affinity("podAntiAffinity"),
    "several nodes by name": affinity("podAntiAffinity", key="kubernetes.io/hostname")
    | {"spec": nodes({**EMPTY_NODES, "values": ["n1", "n2"]})["spec"]},
    "together": affinity("podAffinity", 2, resources={"nvidia.com/gpu": 8}),
    "near another application": affinity("podAffinity", labels={"app": "cache"}),
    "away from another application": affinity("podAntiAffinity", labels={"app": "cache"}),
    "another zone": nodes(
        {"key": "zone", "operator": "In", "values": ["a", "b"]}, nodeSelector={"zone": "b"}
    ),
    "one pod on a node": pod(1, nodeName="n1", hostNetwork=True),
    "ports by replica": job(network={"host": True}, nodeSelector={"kubernetes.io/hostname": "n1"}),
    "Linux": pod(nodeSelector={"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}),
    "a renamed Volcano": job(scheduling={"gang": "volcano", "schedulerName": "volcano-2"}),
    "coscheduling in Kubernetes' own scheduler": job(
        scheduling={"gang": "coscheduling", "schedulerName": "default-scheduler"}
    ),
    "priority with a class": pod(priority=7, priorityClassName="high"),
    "an init container that ends": pod(
        initContainers=[{**INIT, "command": ["sh", "-c", "until nc -z db 1; do sleep 1; done"]}]
    ),
    "a sidecar": pod(
        initContainers=[{**INIT, "restartPolicy": "Always", "command": ["tail", "-f", "/log"]}]
    ),
    "the same name in two lists": pod(**mounted({}), initContainers=[INIT]),
    "a variable of the map": env(ROOT="/d", DATA="$(ROOT)/train"),
    "a pattern": env(PATTERN="^a$", PRICE="5$", FORMAT="${now:%Y}"),
    "a prompt": env(PROMPT="pay $USD or ${name}"),
    "a sentence": env(NOTE="written to $HOME/out; see the log", RATE="50% of $RATE"),
    "JSON": env(A="1", RAY_RUNTIME_ENV='{"env_vars": {"PATH": "/a:${PATH}", "B": "$A"}}'),
    "eval": job(command=["sh", "-c", 'eval "torchrun $FLAGS run.py"'], env={"FLAGS": "--x $HOME"}),
    "https": volume("/c", {"git": {"repository": "https://git.lab/team/sub/tree.git"}}),
    "a key": volume("/c", {"git": {"repository": "git@git.lab:a/b.git", "secret": "k"}}),
    "a group named tree": volume("/c", {"git": {"repository": "https://git.lab/a/b/tree/c.git"}}),
    "nodes of the vendor": on("nvidia.com/gpu.product", "A100", nvidia_com__gpu=8),
    "nodes without devices": on("nvidia.com/gpu.present", "true", cpu=8),
    "a class of files": claim(2, ["ReadWriteMany"], extra={"storageClassName": "efs-sc"}),
    "a disk of one pod": claim(1, extra={"storageClassName": "gp3"}),
    "code from Git": volume(
        "/app", {"git": {"repository": "https://git.lab/a.git"}}, ["torchrun", "/app/run.py"]
    ),
    "code that a script downloads": volume(
        "/app", {"emptyDir": {}}, ["sh", "-c", "git clone /m /app && torchrun /app/run.py"]
    ),
    "code that a program writes": volume(
        "/app", {"emptyDir": {}}, ["sh", "-c", "make-code /app; torchrun /app/run.py"]
    ),
    "code on a claim": volume("/app", {"pvc": "a"}, ["torchrun", "/app/run.py"]),
    "a command of Git": env(GIT_SSH_COMMAND="ssh -i $HOME/.ssh/id"),
    "redirected to /dev/null": job(
        command=["sh", "-c", "torchrun run.py > /dev/null"],
        volumes={"d": {"mountPath": "/dev", "hostPath": "/dev", "readOnly": True}},
    ),
    "an init container with arguments": pod(
        initContainers=[{"name": "redis", "image": "redis:7", "args": ["redis-cli", "ping"]}]
    ),
    "TensorBoard": volume("/logs", {"pvc": "a"}, tensorboard={"logDir": "/logs"}),
    "a local mirror": volume("/c", {"git": {"repository": "file:///mirror/a.git"}}),
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
