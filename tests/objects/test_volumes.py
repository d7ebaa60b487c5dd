"""The volumes of a topology as volumes and mounts of a pod."""

import pytest
from objects.samples import job

from mlgen.objects.storage import pod_volumes, volume_mount
from mlgen.topology import ConfigFiles, Mount, Scratch, SecretFiles


def test_a_volume_of_a_pod():
    rows = [
        (Scratch("v"), {"emptyDir": {}}),
        (Scratch("v", memory=True), {"emptyDir": {"medium": "Memory"}}),
        (Scratch("v", size="1Gi"), {"emptyDir": {"sizeLimit": "1Gi"}}),
        (
            ConfigFiles("v", ("a.sh", "b")),
            {
                "configMap": {
                    "name": "mnist.config",
                    "items": [
                        {"key": "a.sh", "path": "a.sh"},
                        {"key": "b", "path": "b", "mode": 0o444},
                    ],
                    "defaultMode": 0o555,
                }
            },
        ),
        (
            ConfigFiles("v", ("b",)),
            {
                "configMap": {
                    "name": "mnist.config",
                    "items": [{"key": "b", "path": "b"}],
                    "defaultMode": 0o444,
                }
            },
        ),
        (ConfigFiles("v"), {"configMap": {"name": "mnist.config"}}),
        (SecretFiles("v", "keys", {}), {"secret": {"secretName": "keys"}}),
        (
            SecretFiles("v", "keys", {"ssh-publickey": "key.pub"}),
            {
                "secret": {
                    "secretName": "keys",
                    "items": [{"key": "ssh-publickey", "path": "key.pub"}],
                }
            },
        ),
    ]

    assert [pod_volumes(job(), [Mount(volume, "/v")]) for volume, _ in rows] == [
        [{"name": "v", **source}] for _, source in rows
    ]


def test_a_volume_that_is_mounted_twice_is_defined_once_by_its_last_mount():
    mounts = [
        Mount(ConfigFiles("scripts", ()), "/a"),
        Mount(Scratch("tmp"), "/t"),
        Mount(ConfigFiles("scripts", ("x",)), "/b"),
    ]

    scripts, tmp = pod_volumes(job(), mounts)

    assert scripts["configMap"]["items"] == [{"key": "x", "path": "x"}]
    assert tmp["name"] == "tmp"


@pytest.mark.parametrize(("read_only", "mode"), [(True, {"readOnly": True}), (False, {})])
def test_a_mount_of_a_container(read_only, mode):
    mount = Mount(Scratch("tmp"), "/t", read_only)

    assert volume_mount(mount) == {"name": "tmp", "mountPath": "/t", **mode}
