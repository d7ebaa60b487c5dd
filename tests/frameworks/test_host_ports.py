"""Ports on the nodes: the same in every render, and different for each replica."""

import pytest

from mlgen.frameworks._capacity import HostPortAllocation
from mlgen.jobfile.model import HostPorts, Network, TrainingJob
from mlgen.kubernetes.objects import EPHEMERAL_PORTS, NODE_PORTS


def allocation(name="ctr", namespace="ads", **ports):
    network = Network(host=True, host_ports=HostPorts(**ports))
    return HostPortAllocation(TrainingJob(name, "tensorflow", {}, namespace, network=network))


def test_a_port_depends_only_on_the_names():
    first, second = allocation(), allocation()
    second.port("worker", 7, "peers")

    assert first.port("ps", 0, "peers") == second.port("ps", 0, "peers")
    assert first.port("ps", 0, "peers") == first.port("ps", 0, "peers")


def test_the_job_the_namespace_the_role_and_the_index_change_the_port():
    """If two jobs still have the same port, the scheduler places their pods on different nodes."""
    numbers = [
        allocation(name, namespace).port(role, index, "peers")
        for name in ("a", "b")
        for namespace in ("x", "y", None)
        for role in ("ps", "worker")
        for index in range(4)
    ]

    assert len(set(numbers)) == len(numbers)


def test_each_replica_of_a_job_has_its_own_port_until_none_is_left():
    ports = allocation(base=29500, size=40)

    numbers = [ports.port("worker", index, "peers") for index in range(40)]

    assert sorted(numbers) == list(range(29500, 29540))
    with pytest.raises(IndexError):
        ports.port("worker", 40, "peers")


def test_the_default_range_is_not_used_by_services_or_linux():
    default = HostPorts()
    ports = range(default.base, default.base + default.size)

    assert not set(ports) & {*NODE_PORTS, *EPHEMERAL_PORTS}


def test_each_port_of_a_replica_is_a_different_one():
    ports = allocation()

    assert ports.port("head", 0, "dashboard") != ports.port("head", 0, "client")


def test_a_known_port_is_returned_even_if_none_is_left():
    ports = allocation(base=29500, size=1)

    assert ports.port("worker", 0, "peers") == ports.port("worker", 0, "peers") == 29500
