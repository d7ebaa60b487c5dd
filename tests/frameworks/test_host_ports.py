"""On the nodes' network each replica has the same port in every render, and no other has it."""

import pytest

from mlgen.frameworks._host_ports import Allocation
from mlgen.jobfile.model import HostPorts, Network, TrainingJob
from mlgen.kubernetes.limits import EPHEMERAL_PORTS, NODE_PORTS


def allocation(name="ctr", namespace="ads", **ports):
    network = Network(host=True, host_ports=HostPorts(**ports))
    return Allocation(TrainingJob(name, "tensorflow", {}, namespace, network=network))


def test_a_port_follows_from_the_names_alone():
    first, second = allocation(), allocation()
    second.port("worker", 7, "peers")

    assert first.port("ps", 0, "peers") == second.port("ps", 0, "peers")
    assert first.port("ps", 0, "peers") == first.port("ps", 0, "peers")


def test_jobs_namespaces_roles_and_indexes_rarely_share_one():
    """Where they do the scheduler keeps them on different nodes."""
    found = [
        allocation(name, namespace).port(role, index, "peers")
        for name in ("a", "b")
        for namespace in ("x", "y", None)
        for role in ("ps", "worker")
        for index in range(4)
    ]

    assert len(set(found)) == len(found)


def test_no_two_replicas_of_a_job_share_one_even_where_there_is_none_to_spare():
    ports = allocation(base=29500, size=40)

    found = [ports.port("worker", index, "peers") for index in range(40)]

    assert sorted(found) == list(range(29500, 29540))
    with pytest.raises(IndexError):
        ports.port("worker", 40, "peers")


def test_by_default_neither_services_nor_linux_take_them():
    default = HostPorts()
    ports = range(default.base, default.base + default.size)

    assert not set(ports) & {*NODE_PORTS, *EPHEMERAL_PORTS}
