"""The source of a value in an object: the last part of the job file that contains its path."""

import pytest
from support import job_file

from mlgen import validate
from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import title
from mlgen.documents.overrides import parse_path
from mlgen.problems import dotted

TEMPLATE = {
    "spec": {
        "dnsPolicy": "Default",
        "initContainers": [{"name": "fetch", "image": "example/fetch:1"}],
        "containers": [
            {"name": "main", "env": [{"name": "SEED", "value": "2"}]},
            {"name": "istio-proxy", "image": "example/proxy:1"},
        ],
    }
}

JOB = job_file(
    "m",
    "pytorch",
    image="example/busybox:1",
    command=["python", "train.py"],
    env={"SEED": "1", "LOG": "info"},
    helpers={"waitImage": "example/busybox:1", "resources": {"cpu": "20m"}},
    tensorboard={"logDir": "/logs", "port": 7000},
    volumes={
        "logs": {"mountPath": "/logs", "pvc": "logs"},
        "code": {"mountPath": "/code", "files": {"a.py": "print()"}},
    },
    claims={
        "logs": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    security={"runAsUser": 1000},
    scheduling={"spread": {"key": "zone"}},
    initContainers=[{"name": "prepare", "command": ["true"]}],
    roles={
        "master": {"env": {"SEED": "3"}},
        "worker": {"replicas": 2, "tolerations": [{"key": "a"}], "template": TEMPLATE},
    },
)


@pytest.fixture(scope="module")
def objects():
    (job,) = validate(JOB).parts
    return {title(item): item for item in job.objects}


@pytest.mark.parametrize(
    ("kind", "path", "source"),
    [
        ("Job m-master", "containers[0].image", "image"),
        ("Job m-master", "containers[0].command[1]", "command[1]"),
        ("Job m-master", "containers[0].resources.limits", None),
        ("Job m-master", "tolerations", None),
        ("Job m-master", "dnsPolicy", None),
        ("Job m-worker-0", "dnsPolicy", "roles.worker.template.spec.dnsPolicy"),
        ("Job m-worker-0", "tolerations[0].key", "roles.worker.tolerations[0].key"),
        ("Job m-worker-0", "securityContext.runAsUser", "security"),
        ("Job m-worker-0", "topologySpreadConstraints[0].topologyKey", "scheduling.spread"),
        ("Deployment m-tensorboard", "containers[0].ports[0].containerPort", "tensorboard.port"),
        ("Deployment m-tensorboard", "containers[0].image", "image"),
        (
            "Deployment m-tensorboard",
            "containers[0].volumeMounts[0].mountPath",
            "volumes.logs.mountPath",
        ),
        ("Deployment m-tensorboard", "containers[0].resources.limits.cpu", "helpers.resources.cpu"),
        ("Deployment m-tensorboard", "dnsPolicy", None),
    ],
)
def test_the_source_of_a_value_of_a_pod(kind, path, source, objects):
    full = ("spec", "template", "spec", *parse_path(path))
    found = path_in_job_file(JOB, objects[kind], full)

    assert source == (dotted(found[1:]) if found else None), [*objects]


def named(objects, kind, name, field):
    """Return an object and the path of the item with a name in a list of its pod."""
    pod = objects[kind]["spec"]["template"]["spec"]
    step, _, inner = field.partition(".")
    number = [item["name"] for item in pod[step]].index(name)
    return objects[kind], ("spec", "template", "spec", step, number, *parse_path(inner))


@pytest.mark.parametrize(
    ("name", "field", "source"),
    [
        ("wait-for-peers", "initContainers.image", "helpers.waitImage"),
        ("wait-for-peers", "initContainers.command[0]", None),
        ("prepare", "initContainers.command[0]", "initContainers[0].command[0]"),
        ("prepare", "initContainers.image", "image"),
        (
            "fetch",
            "initContainers.image",
            "roles.worker.template.spec.initContainers[0].image",
        ),
        ("istio-proxy", "initContainers.image", "roles.worker.template.spec.containers[1].image"),
        ("logs", "volumes.persistentVolumeClaim.claimName", "volumes.logs.pvc"),
    ],
)
def test_the_source_of_a_value_is_found_by_the_name_of_its_item(name, field, source, objects):
    found = path_in_job_file(JOB, *named(objects, "Job m-worker-0", name, field))

    assert source == (dotted(found[1:]) if found else None)


@pytest.mark.parametrize(
    ("kind", "path", "source"),
    [
        ("ConfigMap m.files.code", ("data", "a.py"), "spec.volumes.code.files.a.py"),
        (
            "PersistentVolumeClaim logs",
            ("spec", "accessModes", 0),
            "spec.claims.logs.accessModes[0]",
        ),
        ("Job m-master", ("metadata", "name"), "metadata.name"),
        ("Job m-master", ("metadata", "uid"), None),
    ],
)
def test_the_source_of_a_value_of_another_object(kind, path, source, objects):
    found = path_in_job_file(JOB, objects[kind], path)

    assert source == (dotted(found) if found else None)
