"""The training container, and the helpers that run before it."""

import pytest
from objects.samples import job, role

from mlgen.jobfile.model import Helpers, WaitPolicy
from mlgen.objects.pod import (
    helper_container,
    helpers_of,
    scripts,
    training_container,
    with_index_variable,
)
from mlgen.objects.security import RESTRICTED
from mlgen.topology import ConfigFiles, Helper, Hosts, Mount, Scratch, Wait

INDEX = {"name": "MLGEN_REPLICA_INDEX", "value": "0"}
GIT_VOLUME = {"mountPath": "/code", "git": {"repository": "https://example.com/code.git"}}
SCRIPTS_MOUNT = {"name": "mlgen-scripts", "mountPath": "/mlgen/scripts"}


def test_fields_that_nobody_sets_are_omitted():
    assert training_container(role(index=0)) == {"name": "main", "env": [INDEX]}


def test_the_training_container_has_the_fields_of_the_user():
    spec = {
        "main_container": "train",
        "image": "example/mnist:1",
        "image_pull_policy": "Always",
        "command": ("python", "train.py"),
        "args": ("--lr", "1"),
        "working_dir": "/src",
        "resources": {"limits": {"cpu": "1"}},
    }
    mounts = (Mount(Scratch("tmp"), "/tmp", read_only=False),)

    assert training_container(role(index=0, port=2222, mounts=mounts, spec=spec)) == {
        "name": "train",
        "image": "example/mnist:1",
        "imagePullPolicy": "Always",
        "command": ["python", "train.py"],
        "args": ["--lr", "1"],
        "workingDir": "/src",
        "env": [INDEX],
        "ports": [{"name": "peers", "containerPort": 2222}],
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


@pytest.mark.parametrize(
    ("spec", "command", "args"),
    [
        ({}, ["sshd"], ["-D"]),
        ({"command": ("sleep",)}, ["sleep"], None),
        ({"args": ("1d",)}, None, ["1d"]),
    ],
)
def test_the_command_of_the_framework_yields_to_command_or_args_of_the_user(spec, command, args):
    container = training_container(role(command=("sshd",), args=("-D",), spec=spec))

    assert (command, args) == (container.get("command"), container.get("args"))


@pytest.mark.parametrize(
    ("fields", "ports"),
    [
        ({"more_ports": {"http": 80}}, [{"name": "http", "containerPort": 80}]),
        (
            {"port": 2222, "more_ports": {"http": 80}, "host_ports": {"peers": 20001}},
            [
                {"name": "peers", "containerPort": 20001, "hostPort": 20001},
                {"name": "http", "containerPort": 80},
            ],
        ),
    ],
)
def test_a_port_of_the_node_replaces_the_constant_port(fields, ports):
    assert ports == training_container(role(**fields))["ports"]


def test_helpers_run_before_git_and_git_before_the_wait():
    waits = (
        Wait("ps", Hosts("mnist-ps-", 2, ".mnist"), 2222),
        Wait("chief", Hosts("mnist-chief-", 1, ".mnist")),
    )
    copy = Helper("copy", "copy.sh", "kubectl")
    of = role(helpers=(copy,), waits=waits, spec={"volumes": {"code": GIT_VOLUME}})

    first, git, wait = helpers_of(job(wait=WaitPolicy(60)), of)

    assert first == copy
    assert git.name == "sync-code"
    assert wait == Helper(
        name="wait-for-peers",
        script="wait-for-peers.sh",
        image="wait",
        env={
            "MLGEN_PEERS": "mnist-ps-[0-1].mnist:2222 mnist-chief-0.mnist",
            "MLGEN_TIMEOUT": "60",
        },
        last=True,
    )
    assert "MLGEN_TIMEOUT" not in helpers_of(job(), of)[-1].env


@pytest.mark.parametrize(
    ("role_name", "port", "own"),
    [
        ("worker", 2222, "mnist-worker-$(MLGEN_REPLICA_INDEX)"),
        ("worker", None, None),
        ("ps", 1, None),
    ],
)
def test_a_replica_knows_its_own_name_if_it_is_among_the_ports_it_waits_for(role_name, port, own):
    waits = (Wait(role_name, Hosts(f"mnist-{role_name}-", 2, ".mnist"), port),)

    (wait,) = helpers_of(job(), role(waits=waits))

    assert own == wait.env.get("MLGEN_SELF")


def test_a_role_that_waits_for_nobody_has_no_helper():
    assert helpers_of(job(), role()) == []


def test_the_config_map_has_the_scripts_of_helpers_and_the_files_of_mounts():
    of = role(
        helpers=(Helper("copy", "copy.sh", "kubectl"),),
        mounts=(
            Mount(ConfigFiles("hosts", ("hostfile", "copy.sh")), "/etc/mpi"),
            Mount(Scratch("tmp"), "/tmp"),
        ),
    )

    assert scripts(job(), of) == {"copy.sh", "hostfile"}
    assert scripts(job(), role()) == set()


def test_the_init_container_of_a_helper():
    mounts = (Mount(Scratch("bin"), "/bin2", read_only=False),)
    helper = Helper("copy", "copy.sh", "kubectl", {"TARGET": "/bin2"}, mounts)

    assert helper_container(job(), role(), helper) == {
        "name": "copy",
        "image": Helpers().kubectl_image,
        "command": ["sh", "/mlgen/scripts/copy.sh"],
        "env": [{"name": "TARGET", "value": "/bin2"}],
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "bin", "mountPath": "/bin2"}, SCRIPTS_MOUNT],
    }


@pytest.mark.parametrize(
    ("kind", "image", "memory"),
    [
        ("wait", "my/busybox", "128Mi"),
        ("kubectl", "my/kubectl", "128Mi"),
        ("git", "my/git", "1Gi"),
        ("main", "my/train", "128Mi"),
    ],
)
def test_the_image_and_memory_of_a_helper(kind, image, memory):
    images = job(helpers=Helpers("my/busybox", "my/kubectl", "my/git"))

    container = helper_container(
        images, role(spec={"image": "my/train"}), Helper("h", "h.sh", kind)
    )

    assert image == container["image"]
    assert memory == container["resources"]["limits"]["memory"]


def test_a_helper_that_refers_to_the_index_defines_it_first():
    helper = Helper("h", "h.sh", "wait", {"A": "a", "SELF": "x-$(MLGEN_REPLICA_INDEX)"})

    container = helper_container(job(), role(index=0), helper)
    spec = with_index_variable(role(index=0), {"initContainers": [container]})

    assert spec["initContainers"][0]["env"] == [
        INDEX,
        {"name": "A", "value": "a"},
        {"name": "SELF", "value": "x-$(MLGEN_REPLICA_INDEX)"},
    ]


CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.parametrize(
    ("template", "user"),
    [
        ({}, {}),
        ({"spec": {"containers": None}}, {}),
        ({"spec": {"containers": [{"name": "main"}]}}, {}),
        ({"spec": {"containers": [{"name": "main", "securityContext": None}]}}, {}),
        (
            {
                "spec": {
                    "containers": [
                        {"name": "logs", "securityContext": {"runAsUser": 1}},
                        {"name": "main", "securityContext": {"runAsUser": 5, "privileged": True}},
                    ]
                }
            },
            {"runAsUser": 5},
        ),
    ],
)
def test_a_helper_in_the_training_image_runs_as_the_training_container(template, user):
    of = role(spec={"templates": (template,)})

    container = helper_container(job(), of, Helper("h", "h.sh", "main"))

    assert container["securityContext"] == CONFINED | user


def test_the_last_template_determines_the_user():
    templates = tuple(
        {"spec": {"containers": [{"name": "main", "securityContext": context}]}}
        for context in ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 3})
    )

    container = helper_container(
        job(), role(spec={"templates": templates}), Helper("h", "h.sh", "main")
    )

    assert container["securityContext"] == CONFINED | {"runAsUser": 3, "runAsGroup": 2}
