"""Native sidecars of Jobs."""

import pytest
from objects.samples import role

from mlgen.objects.network import with_dns_policy
from mlgen.objects.pod import with_native_sidecars

MAIN, TAIL = {"name": "main"}, {"name": "tail", "command": ["tail", "-F", "/log"]}
WAIT = {"name": "wait-for-peers"}


def test_an_evident_sidecar_of_a_job_becomes_the_last_init_container():
    spec = {"initContainers": [WAIT], "containers": [MAIN, TAIL, {"name": "upload"}]}

    assert with_native_sidecars(role(), spec) == {
        "initContainers": [WAIT, TAIL | {"restartPolicy": "Always"}],
        "containers": [MAIN, {"name": "upload"}],
    }


@pytest.mark.parametrize(
    ("of", "containers"),
    [
        (role(serves=True), [MAIN, TAIL]),
        (role(), [MAIN]),
        (role(spec={"main_container": "tail"}), [TAIL]),
    ],
)
def test_other_containers_stay(of, containers):
    assert with_native_sidecars(of, {"containers": containers}) == {"containers": containers}


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "None"}, "None"),
        ({}, None),
    ],
)
def test_pods_on_the_host_network_find_their_peers(spec, policy):
    assert with_dns_policy(spec).get("dnsPolicy") == policy
