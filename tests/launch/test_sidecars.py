"""Containers that do not end by themselves."""

import pytest

from mlgen.launch.line import is_sidecar, may_be_sidecar


def shell(text):
    return {"name": "x", "image": "busybox", "command": ["sh", "-c", text]}


@pytest.mark.parametrize(
    "container",
    [
        {"name": "istio-proxy"},
        {"name": "x", "image": "r.example:5000/fluent/fluent-bit:3.1"},
        {"name": "x", "image": "gcr.io/cloud-sql-proxy@sha256:0"},
        {"name": "x", "image": "example/ml", "command": ["/usr/bin/tensorboard"]},
        {"name": "x", "command": ["sleep", "infinity"]},
        {"name": "x", "command": ["tail"], "args": ["-n", "+1", "-F", "/log"]},
        shell("tail -f /var/log/train.log"),
        shell("while true; do rsync /a /b; sleep 10; done"),
        shell("while :\ndo date\ndone"),
    ],
)
def test_a_sidecar_by_its_program_or_command(container):
    assert is_sidecar(container)


def test_no_sidecar():
    rows = [
        {"name": "upload", "image": "example/upload:1"},
        {"name": "dataset-initializer"},
        {"name": "x", "image": "fluent/fluent-bit", "command": ["sh", "-c", "cp /a /b"]},
        {"name": "filebeat", "args": ["-e", "--once"]},
        shell("while true; do test -e /done && break; sleep 1; done"),
        shell("tail -f /log & train; kill %1"),
        shell("tail --pid=7 -f /log"),
        shell("timeout 60 tail -f /log"),
        shell("until test -e /done; do sleep 1; done; upload"),
        shell("tail -n 5 /log"),
        shell("sleep 10"),
    ]

    for container in rows:
        assert not is_sidecar(container)


@pytest.mark.parametrize(
    ("container", "may_be"),
    [
        ({"name": "metrics"}, True),
        ({"name": "x", "image": "example/log-agent:2"}, True),
        ({"name": "x", "ports": [{"containerPort": 80}]}, True),
        ({"name": "x", "readinessProbe": {}}, False),
        ({"name": "x", "livenessProbe": {"exec": {}}}, True),
        ({"name": "git-server", "args": ["--one-time"]}, False),
        ({"name": "blogger"}, False),
        ({"name": "upload"}, False),
    ],
)
def test_a_container_that_may_be_a_sidecar(container, may_be):
    assert may_be_sidecar(container) is may_be
