"""The headless Service of a job, and Services of single replicas."""

import pytest
from objects.samples import job, one, role, topology

from mlgen.objects.network import job_service, replica_services


def test_the_headless_service_of_a_job_selects_all_its_pods():
    service = job_service(topology())

    assert service["metadata"]["name"] == "mnist"
    assert service["metadata"]["labels"]["app.kubernetes.io/component"] == "rendezvous"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"mlgen.dev/job": "mnist"},
    }


def test_the_service_of_workers_that_are_discovered_has_only_those_that_are_ready():
    service = job_service(topology()._replace(only_ready=True))

    assert "publishNotReadyAddresses" not in service["spec"]


def test_a_replica_of_the_pod_network_has_no_service_of_its_own():
    assert [] == list(replica_services(job(), role(port=2222, more_ports={"http": 80})))


def test_a_host_port_is_reached_by_the_constant_port_and_by_its_own_number():
    on_host = role(
        index=1,
        port=2222,
        more_ports={"http": 8080},
        host_ports={"peers": 20001, "http": 20002},
        aliases={"mnist-worker-1": 1},
    )

    service = one(replica_services(job(), on_host))

    assert service["metadata"]["name"] == "mnist-worker-1"
    assert service["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    assert service["spec"] == {
        "publishNotReadyAddresses": True,
        "selector": {
            "mlgen.dev/job": "mnist",
            "mlgen.dev/role": "worker",
            "mlgen.dev/replica-index": "1",
        },
        "ports": [
            {"name": "peers", "port": 2222, "targetPort": 20001},
            {"name": "peers-on-node", "port": 20001, "targetPort": 20001},
            {"name": "http", "port": 8080, "targetPort": 20002},
            {"name": "http-on-node", "port": 20002, "targetPort": 20002},
        ],
    }


@pytest.mark.parametrize("host_port", [2222, 8080])
def test_a_port_number_is_not_exposed_twice(host_port):
    on_host = role(index=0, port=2222, more_ports={"http": 8080}, host_ports={"peers": host_port})

    service = one(replica_services(job(), on_host))

    assert service["spec"]["ports"] == [{"name": "peers", "port": 2222, "targetPort": host_port}]


@pytest.mark.parametrize(
    ("serves", "index_label"),
    [(True, "apps.kubernetes.io/pod-index"), (False, "batch.kubernetes.io/job-completion-index")],
)
def test_an_alias_resolves_to_one_replica(serves, index_label):
    service = one(replica_services(job(), role(aliases={"mnist-ps-7": 1}, serves=serves)))

    assert service["metadata"]["name"] == "mnist-ps-7"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"mlgen.dev/job": "mnist", "mlgen.dev/role": "worker", index_label: "1"},
    }


def test_a_name_that_resolves_only_while_a_replica_is_ready_replaces_its_alias():
    names = {"mnist-worker-0": 0}

    service = one(replica_services(job(), role(aliases=names, ready=names)))

    assert service["metadata"]["name"] == "mnist-worker-0"
    assert "publishNotReadyAddresses" not in service["spec"]
    assert service["spec"]["selector"]["batch.kubernetes.io/job-completion-index"] == "0"


def test_an_alias_of_a_replica_with_a_job_of_its_own_selects_that_job():
    (service,) = replica_services(job(), role(index=3, replicas=1, aliases={"mnist-worker-3": 3}))

    assert service["spec"]["selector"]["mlgen.dev/replica-index"] == "3"
    assert "batch.kubernetes.io/job-completion-index" not in service["spec"]["selector"]


def test_an_alias_on_the_host_network_has_the_ports_of_the_replica():
    on_host = role(index=0, port=80, host_ports={"peers": 20001}, aliases={"mnist-master-0": 0})

    own, alias = replica_services(job(), on_host)

    assert (own["metadata"]["name"], alias["metadata"]["name"]) == (
        "mnist-worker-0",
        "mnist-master-0",
    )
    assert own["spec"] == alias["spec"]
