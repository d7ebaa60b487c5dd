"""The TensorBoard of a job."""

import pytest
from objects.samples import role, topology

from mlgen.jobfile.model import Security, Tensorboard
from mlgen.kubernetes.pod_security import violations
from mlgen.objects.network import tensorboard

SELECTOR = {"mlgen.dev/tensorboard": "mnist", "mlgen.dev/role": "tensorboard"}
BOARD = Tensorboard("/logs")


def pod_of(*roles, board=BOARD, **fields):
    _, deployment = tensorboard(topology(*roles, tensorboard=board, **fields), [])
    return deployment["spec"]["template"]


def test_a_job_without_tensorboard_has_neither_service_nor_deployment():
    assert [] == [*tensorboard(topology(role()), [])]


def test_the_service_of_tensorboard():
    manifest, _ = tensorboard(topology(tensorboard=Tensorboard("/logs", port=80)), [])

    assert manifest["metadata"]["name"] == "mnist-tensorboard"
    assert manifest["metadata"]["labels"]["app.kubernetes.io/component"] == "tensorboard"
    assert manifest["spec"] == {
        "publishNotReadyAddresses": True,
        "selector": SELECTOR,
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    }


def test_the_deployment_of_tensorboard():
    board = Tensorboard("s3://logs", port=80)

    _, manifest = tensorboard(topology(role(spec={"image": "train"}), tensorboard=board), [])

    assert manifest["kind"] == "Deployment"
    assert manifest["metadata"]["name"] == "mnist-tensorboard"
    assert manifest["spec"]["replicas"] == 1
    assert manifest["spec"]["selector"] == {"matchLabels": SELECTOR}
    assert manifest["spec"]["template"]["spec"] == {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "tensorboard",
                "image": "train",
                "command": [
                    *("tensorboard", "--logdir", "s3://logs"),
                    *("--bind_all", "--port", "80"),
                ],
                "ports": [{"name": "http", "containerPort": 80}],
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "resources": {
                    "requests": {"cpu": "100m", "memory": "512Mi"},
                    "limits": {"cpu": "1", "memory": "2Gi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }
        ],
    }


def test_its_pod_is_selected_by_its_own_service_but_not_by_that_of_the_job():
    labels = pod_of()["metadata"]["labels"]

    assert SELECTOR.items() <= labels.items()
    assert labels["app.kubernetes.io/component"] == "tensorboard"
    assert "mlgen.dev/job" not in labels


@pytest.mark.parametrize(
    ("board", "images", "image"),
    [
        (None, [], None),
        (None, [None, "second", "third"], "second"),
        ("board", ["first"], "board"),
    ],
)
def test_the_image_defaults_to_the_first_of_the_roles(board, images, image):
    roles = [role(spec={"image": name}) for name in images]

    container = pod_of(*roles, board=Tensorboard("/logs", board))["spec"]["containers"][0]

    assert image == container.get("image")


def test_resources_of_the_user_replace_the_default():
    board = Tensorboard("/logs", resources={"limits": {"cpu": "4"}})

    assert pod_of(board=board)["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "4"}}


def test_volumes_that_other_pods_can_read_are_mounted_read_only():
    volumes = {
        "claim": {"pvc": "c", "mountPath": "/c", "readOnly": False},
        "share": {"nfs": {"server": "s", "path": "/"}, "mountPath": "/n"},
        "node": {"hostPath": "/data", "mountPath": "/h"},
        "scratch": {"emptyDir": {}, "mountPath": "/e"},
        "keys": {"secret": "s", "mountPath": "/s"},
    }

    spec = pod_of(volumes=volumes)["spec"]

    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "claim", "mountPath": "/c", "readOnly": True},
        {"name": "share", "mountPath": "/n", "readOnly": True},
        {"name": "node", "mountPath": "/h", "readOnly": True},
    ]
    assert [volume["name"] for volume in spec["volumes"]] == ["claim", "share", "node"]


def test_under_the_profile_restricted_its_pod_satisfies_the_standard():
    assert [] == violations(pod_of(security=Security("restricted", run_as_user=1000)))
