"""Values that only the pods of an operator have: satisfied with mlgen's own, or reported."""

import pytest
from support import job_file

import mlgen

OF_JOB = "batch.kubernetes.io/job-completion-index"
INDEX = f"metadata.labels['{OF_JOB}']"


def field(key, kind="labels"):
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.{kind}['{key}']"}}}


def container(name, env, **fields):
    variables = [{"name": key, **value} for key, value in env.items()]
    return {"name": name, "image": "i", "command": ["t"], "env": variables, **fields}


def pytorch_job(env=None, *, master=False, pod=None, **fields):
    """A PyTorchJob with two workers, whose only container has these variables."""
    template = {"spec": {"containers": [container("pytorch", env or {}, **fields)], **(pod or {})}}
    roles = {"Master": {"replicas": 1, "template": template}} if master else {}
    roles |= {"Worker": {"replicas": 2, "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "p"},
        "spec": {"pytorchReplicaSpecs": roles},
    }


def volcano_job(env, **spec):
    pod = {"restartPolicy": "Never", "containers": [container("w", env)]}
    tasks = [{"name": "w", "replicas": 2, "template": {"spec": pod}}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v"},
        "spec": {"minAvailable": 2, "tasks": tasks, **spec},
    }


def pods(job):
    """The pod specs of a job, by the names of their workloads."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["spec"]
        for item in mlgen.render(job)
        if item["kind"] in ("Job", "StatefulSet") and "supervisor" not in item["metadata"]["name"]
    }


def value(pod, name, kind="containers"):
    found = {each["name"]: each for each in pod[kind][0]["env"]}[name]
    return found.get("value") or found["valueFrom"]["fieldRef"]["fieldPath"]


def problems(*jobs):
    return mlgen.validate([*jobs]).problems


KUBEFLOW = "training.kubeflow.org/"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (f"{KUBEFLOW}replica-index", INDEX),
        (f"{KUBEFLOW}replica-type", "metadata.labels['mlgen.dev/role']"),
        (f"{KUBEFLOW}job-name", "metadata.labels['mlgen.dev/job']"),
        ("pytorch-replica-index", INDEX),
        ("replica-index", INDEX),
    ],
)
def test_labels_of_kubeflow(key, path):
    job = pytorch_job({"A": field(key)})

    assert value(pods(job)["p-worker"], "A") == path
    assert not problems(job)


def test_labels_in_init_containers_and_volumes():
    items = [{"path": "index", **field(f"{KUBEFLOW}replica-index")["valueFrom"]}]
    volumes = [
        {"name": "a", "downwardAPI": {"items": items}},
        {"name": "b", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ]
    init = [container("init", {"A": field(f"{KUBEFLOW}replica-index")})]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in "ab"]
    job = pytorch_job(pod={"initContainers": init, "volumes": volumes}, volumeMounts=mounts)
    pod = pods(job)["p-worker"]
    by_name = {each["name"]: each for each in pod["volumes"]}
    first, second = by_name["a"], by_name["b"]

    assert value(pod, "A", "initContainers") == INDEX
    assert first["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == INDEX
    (source,) = second["projected"]["sources"]
    assert source["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == INDEX
    assert not problems(job)


def test_roles_that_read_their_index_are_not_merged():
    """In one Job, worker-0 has the index 1."""
    env = {"I": field(f"{KUBEFLOW}replica-index"), "T": field(f"{KUBEFLOW}replica-type")}
    alone = pods(pytorch_job(env, master=True))

    assert [*pods(pytorch_job(master=True))] == ["p-rank"]
    assert [*alone] == ["p-master", "p-worker-0", "p-worker-1"]
    assert value(alone["p-master"], "I") == INDEX
    assert value(alone["p-worker-1"], "I") == "metadata.labels['mlgen.dev/replica-index']"
    assert value(alone["p-worker-1"], "T") == "metadata.labels['mlgen.dev/role']"


def test_roles_that_test_their_name_are_not_merged():
    """In one Job, all host names contain `rank`."""
    script = "if [[ $HOSTNAME == *master* ]]; then python m.py; else python w.py; fi"
    job = pytorch_job(master=True, command=["bash", "-c", script])

    assert [*pods(job)] == ["p-master", "p-worker-0", "p-worker-1"]


def test_a_stateful_set_has_another_label():
    template = {"spec": {"containers": [container("tensorflow", {"A": field("replica-index")})]}}
    roles = {name: {"replicas": 1, "template": template} for name in ("PS", "Worker")}
    roles["PS"]["restartPolicy"] = "Always"
    job = pytorch_job() | {"kind": "TFJob", "spec": {"tfReplicaSpecs": roles}}

    assert value(pods(job)["p-ps"], "A") == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert value(pods(job)["p-worker"], "A") == INDEX


@pytest.mark.parametrize("scheduler", ["volcano", "default-scheduler"])
def test_labels_and_annotations_of_volcano(scheduler):
    env = {
        "INDEX": field("volcano.sh/task-index"),
        "TASK": field("volcano.sh/task-spec", "annotations"),
        "QUEUE": field("volcano.sh/queue-name"),
        "NAMESPACE": field("volcano.sh/job-namespace"),
    }
    pod = pods(volcano_job(env, schedulerName=scheduler))["v-w"]
    gang = scheduler == "volcano"

    assert value(pod, "INDEX") == INDEX
    kind = "annotations" if gang else "labels"
    assert value(pod, "TASK") == f"metadata.{kind}['volcano.sh/task-spec']"
    assert value(pod, "QUEUE") == "default"
    assert value(pod, "NAMESPACE") == "metadata.namespace"
    other = pods(volcano_job(env, schedulerName="volcano", queue="big"))["v-w"]
    assert value(other, "QUEUE") == "big"


def test_other_labels_are_not_checked():
    pod = {"volumes": []}
    job = pytorch_job({"A": field("example.com/team")}, pod=pod)

    assert not problems(job)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"command": ["cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"]}, True),
        ({"command": ["sh", "-c", "cat /run/secrets/kubernetes.io/serviceaccount/token"]}, True),
        ({"command": ["t"], "args": ["kubectl", "get", "pods"]}, True),
        ({"command": ["t"]}, False),
    ],
)
def test_the_token_of_the_service_account(where, expected):
    init = [container("init", {}) | where]
    pod = pods(pytorch_job(pod={"initContainers": init}))["p-worker"]

    assert ("automountServiceAccountToken" not in pod) == expected


def test_the_token_for_a_file():
    files = {"run.sh": "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace"}
    volumes = {"code": {"mountPath": "/code", "files": files}}
    job = job_file(command=["sh", "/code/run.sh"], volumes=volumes)

    assert "automountServiceAccountToken" not in pods(job)["p-worker"]


def test_a_variable_that_a_sourced_file_may_set():
    assert not problems(pytorch_job(command=["bash", "-c", "source /env; t $VK_TASK_INDEX"]))


def service(*, kind="Service", namespace=None, **labels):
    selector = {f"{KUBEFLOW}{key.replace('_', '-')}": text for key, text in labels.items()}
    metadata = {"name": "s"} | ({"namespace": namespace} if namespace else {})
    if kind == "Service":
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": metadata,
            "spec": {"selector": selector},
        }
    spec = {"podSelector" if kind == "NetworkPolicy" else "selector": {"matchLabels": selector}}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        ({"job_name": "p"}, "write mlgen.dev/job: p"),
        (
            {"job_name": "p", "replica_type": "worker"},
            "write mlgen.dev/job: p and mlgen.dev/role: worker",
        ),
        (
            {"job_name": "p", "replica_type": "worker", "replica_index": "1"},
            f'write mlgen.dev/job: p, mlgen.dev/role: worker and {OF_JOB}: "1"',
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Service", "NetworkPolicy", "PodMonitor"])
def test_selectors_of_other_objects(labels, hint, kind):
    (problem,) = problems(service(kind=kind, **labels), pytorch_job())

    assert problem.warning
    assert problem.hint == hint
    assert f"the {kind} selects pods by labels of Kubeflow's operator" in problem.message


def test_a_selector_of_merged_roles():
    job = pytorch_job(master=True)
    (problem,) = problems(job, service(job_name="p", replica_type="master"))

    assert problem.hint == f'write mlgen.dev/job: p, mlgen.dev/role: rank and {OF_JOB}: "0"'


@pytest.mark.parametrize(
    "other",
    [
        service(job_name="q"),
        service(job_name="p", namespace="b"),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": 1}},
    ],
)
def test_selectors_of_other_pods(other):
    job = pytorch_job()
    job["metadata"]["namespace"] = "a"

    assert not problems(job, other)


def test_labels_that_the_pods_have_are_selected():
    """Volcano's names of the job and the task are labels of mlgen's pods, too."""
    selector = {"volcano.sh/job-name": "v", "volcano.sh/task-spec": "w"}
    other = service() | {"spec": {"selector": selector}}

    assert not [each for each in problems(volcano_job({}), other) if each.code == "selector"]


def test_the_name_of_the_job_is_not_the_name_of_its_job():
    """The operators set job-name to the name of the job; a Job, to its own name."""
    job = pytorch_job({"A": field("job-name")})
    native = job_file(command=["t"], env={"A": field("job-name")})

    assert value(pods(job)["p-worker"], "A") == "metadata.labels['mlgen.dev/job']"
    assert value(pods(native)["p-worker"], "A") == "metadata.labels['job-name']"
    assert not problems(job)
    assert not problems(native)


def test_variables_of_mlgen_are_not_reported():
    """The launcher's variables name the hostfile, also in init containers without it."""
    mpi = "training.kubeflow.org/replica-index"
    launcher = {
        "spec": {"initContainers": [container("a", {})], "containers": [container("l", {})]}
    }
    worker = {"spec": {"containers": [container("w", {"I": field(mpi)})]}}
    job = pytorch_job() | {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
    roles = {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": 2, "template": worker},
    }
    job["spec"] = {"mpiReplicaSpecs": roles}
    shifted = job | {"spec": {**job["spec"], "runLauncherAsWorker": True}}
    messages = [each.message for each in problems(shifted)]

    assert not [each for each in problems(job) if each.code == "volume"]
    assert any("replica-index of the operator's workers begins at 1" in each for each in messages)
    assert not any("begins at 1" in each.message for each in problems(job))


def test_a_selector_of_the_head_of_ray():
    group = {"rayStartParams": {}, "template": {"spec": {"containers": [container("h", {})]}}}
    cluster = {"headGroupSpec": group, "workerGroupSpecs": []}
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "r"},
        "spec": {"entrypoint": "python t.py", "rayClusterSpec": cluster},
    }
    head = service() | {"spec": {"selector": {"ray.io/identifier": "r-head"}}}
    found = [each.hint for each in problems(job, head) if each.code == "selector"]

    assert found == ["write mlgen.dev/job: r and mlgen.dev/role: head"]
