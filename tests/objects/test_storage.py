"""Volumes in short form, Git repositories and shared memory."""

import pytest
from objects.samples import job, one, role, topology

from mlgen.jobfile.model import WaitPolicy
from mlgen.launch.line import Lines
from mlgen.objects.storage import claims, config_maps, patch, shared_memory, sync_helpers
from mlgen.problems import MlgenError
from mlgen.topology import Helper, Mount, Scratch, SecretFiles

GIT = {"mountPath": "/code", "git": {"repository": "https://example.com/code.git"}}


def test_a_short_form_is_a_volume_and_a_mount():
    rows = [
        ({"pvc": "data"}, {"persistentVolumeClaim": {"claimName": "data"}}),
        ({"configMap": "conf"}, {"configMap": {"name": "conf"}}),
        ({"files": {"a": "b"}}, {"configMap": {"name": "mnist.files.vol"}}),
        ({"secret": "keys"}, {"secret": {"secretName": "keys"}}),
        ({"hostPath": "/data"}, {"hostPath": {"path": "/data"}}),
        ({"nfs": {"server": "s", "path": "/"}}, {"nfs": {"server": "s", "path": "/"}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
    ]

    assert [
        patch(job(), "train", {"vol": {"mountPath": "/v", **short_form}}) for short_form, _ in rows
    ] == [
        (
            {
                "spec": {
                    "containers": [
                        {"name": "train", "volumeMounts": [{"name": "vol", "mountPath": "/v"}]}
                    ],
                    "volumes": [{"name": "vol", **volume}],
                }
            }
        )
        for _, volume in rows
    ]


@pytest.mark.parametrize(
    ("short_form", "command", "mode"),
    [
        ({"files": {"a": "#!/bin/sh"}}, ["sh", "/v/a"], 0o555),
        ({"files": {"a": "echo"}}, ["sh", "/v/a"], None),
        ({"files": {"a": "#!/bin/sh"}, "defaultMode": 0o444}, ["/v/a"], 0o444),
        ({"configMap": "c"}, ["/v/a"], 0o555),
        ({"configMap": "c"}, ["sh", "-c", "cd /; exec /v/a"], 0o555),
        ({"configMap": "c"}, ["sh", "-c", "cd /; /v/a"], 0o555),
        ({"configMap": "c"}, ["mpirun", "-np", "2", "/v/a.sh"], 0o555),
        ({"configMap": "c"}, ["torchrun", "/v/a.py"], None),
        ({"configMap": "c"}, ["bash", "/v/a.sh"], None),
        ({"configMap": {"name": "c"}}, ["/v/a"], 0o555),
        ({"configMap": {"name": "c", "defaultMode": 0o500}}, ["/v/a"], 0o500),
        ({"secret": "s"}, ["/v/a"], 0o555),
        ({"projected": {"sources": []}}, ["/v/a"], 0o555),
        ({"projected": {"sources": [{"files": {"a": "#!"}}]}}, [], 0o555),
    ],
)
def test_files_that_a_command_runs_are_executable(short_form, command, mode):
    volumes = {"vol": {"mountPath": "/v", **short_form}}

    [volume] = patch(job(), "main", volumes, Lines(command).lines)["spec"]["volumes"]

    [source] = (value for name, value in volume.items() if name != "name")
    assert source.get("defaultMode") == mode


@pytest.mark.parametrize("path", ["/v/a", "/w/a"])
def test_a_folder_of_the_node_runs_its_own_programs(path):
    volumes = {"vol": {"mountPath": "/v", "hostPath": {"path": "/v", "type": "Directory"}}}

    [volume] = patch(job(), "main", volumes, [path])["spec"]["volumes"]

    assert volume == {"name": "vol", "hostPath": {"path": "/v", "type": "Directory"}}


def test_a_mount_has_its_sub_path_and_mode():
    volume = {"pvc": "data", "mountPath": "/v", "subPath": "mnist", "readOnly": False}

    spec = patch(job(), "main", {"data": volume})["spec"]

    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "data", "mountPath": "/v", "subPath": "mnist", "readOnly": False}
    ]


def test_without_volumes_nothing_is_patched():
    assert patch(job(), "main", {}) == {}


def test_a_git_volume_is_mounted_but_defined_by_its_helper():
    spec = patch(job(), "main", {"code": GIT, "data": {"pvc": "d", "mountPath": "/d"}})["spec"]

    assert [mount["name"] for mount in spec["containers"][0]["volumeMounts"]] == ["code", "data"]
    assert [volume["name"] for volume in spec["volumes"]] == ["data"]


def test_claims_outlive_the_job_they_are_created_with():
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    (claim,) = claims(topology(claims={"data": spec}))

    assert (claim["kind"], claim["metadata"]["name"]) == ("PersistentVolumeClaim", "data")
    assert claim["spec"] == spec
    assert claim["metadata"]["labels"]["app.kubernetes.io/component"] == "claim"
    assert "mlgen.dev/job" not in claim["metadata"]["labels"]


def test_files_are_a_config_map_that_roles_share():
    conf = {"mountPath": "/c", "files": {"a.ini": "x = 1\n"}}
    other = {"mountPath": "/o", "files": {"b": ""}}
    worker = role(spec={"volumes": {"conf": conf, "data": {"pvc": "d", "mountPath": "/d"}}})
    chief = role("chief", spec={"volumes": {"conf": conf, "other": other}})

    first, second = config_maps(topology(worker, chief))

    assert first["metadata"]["name"] == "mnist.files.conf"
    assert first["metadata"]["labels"]["app.kubernetes.io/component"] == "config"
    assert first["data"] == {"a.ini": "x = 1\n"}
    assert second["metadata"]["name"] == "mnist.files.other"
    assert second["data"] == {"b": ""}


def test_a_git_volume_is_cloned_by_a_helper():
    volumes = {"data": {"pvc": "d", "mountPath": "/d"}, "code": GIT}
    waiting = job(wait=WaitPolicy(30))

    assert [*sync_helpers(waiting, role(spec={"volumes": volumes}))] == [
        Helper(
            name="sync-code",
            script="sync-code.sh",
            image="git",
            env={
                "MLGEN_REPOSITORY": "https://example.com/code.git",
                "MLGEN_REVISION": "HEAD",
                "MLGEN_FOLDER": "/code",
                "MLGEN_TIMEOUT": "30",
            },
            mounts=(Mount(Scratch("code"), "/code", read_only=False),),
        )
    ]


def test_a_private_repository_is_cloned_with_the_keys_of_a_secret():
    git = {"repository": "git@example.com:code", "revision": "v1.2", "secret": "deploy"}

    helper = one(sync_helpers(job(), role(spec={"volumes": {"code": GIT | {"git": git}}})))

    assert helper.env["MLGEN_REVISION"] == "v1.2"
    assert helper.mounts[1:] == (Mount(SecretFiles("code-secret", "deploy", {}), "/mlgen/git"),)


@pytest.mark.parametrize(
    ("shm_size", "limits", "size"),
    [
        (None, {"memory": "16Gi"}, "8Gi"),
        (None, {"memory": 7}, "3"),
        (None, {"cpu": "1"}, None),
        (None, None, None),
        ("2Gi", {"memory": "16Gi"}, "2Gi"),
        ("2Gi", {}, "2Gi"),
    ],
)
def test_shared_memory_is_the_size_of_the_user_or_half_of_the_limit(shm_size, limits, size):
    mount = shared_memory(role(spec={"shm_size": shm_size}), {"resources": {"limits": limits}})

    assert mount == Mount(Scratch("mlgen-shm", memory=True, size=size), "/dev/shm", read_only=False)


@pytest.mark.parametrize("container", [{}, {"resources": None, "volumeMounts": None}])
def test_a_container_without_resources_has_shared_memory_without_limit(container):
    mount = shared_memory(role(), container)

    assert mount == Mount(Scratch("mlgen-shm", memory=True), "/dev/shm", read_only=False)


def test_size_0_keeps_the_shared_memory_of_the_runtime():
    assert shared_memory(role(spec={"shm_size": "0"}), {}) is None


@pytest.mark.parametrize("shm_size", [None, "2Gi"])
def test_a_volume_of_the_user_at_dev_shm_is_kept(shm_size):
    mounts = [{"name": "x", "mountPath": "/x"}, {"name": "shm", "mountPath": "/dev/shm"}]

    assert shared_memory(role(spec={"shm_size": shm_size}), {"volumeMounts": mounts}) is None
    assert shared_memory(role(spec={"shm_size": shm_size}), {"volumeMounts": mounts[:1]})


def test_a_memory_limit_that_is_not_an_amount_is_an_error_of_the_template():
    with pytest.raises(MlgenError) as error:
        shared_memory(role(index=1), {"resources": {"limits": {"memory": "a lot"}}})

    problem = one(error.value.problems)
    assert problem.path == ("spec", "roles", "worker", "template")
    assert problem.code == "bad-value"
    assert "a lot" in problem.message
