"""The headless Service of a job, and those of single replicas."""

import pytest
from objects.samples import job, one, role

from mlgen.objects.services import job_service, replica_services


def test_the_headless_service_of_a_job_selects_all_its_pods():
    service = job_service(job())

    assert service["metadata"]["name"] == "mnist"
    assert service["metadata"]["labels"]["app.kubernetes.io/component"] == "rendezvous"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"mlgen.dev/job": "mnist"},
    }


def test_a_replica_of_the_pod_network_has_no_service_of_its_own():
    assert [] == list(replica_services(job(), role(port=2222, more_ports={"http": 80})))


def test_a_host_port_is_reached_by_the_constant_port_and_by_its_own_number():
    on_host = role(
        index=1,
        port=2222,
        more_ports={"http": 8080},
        host_ports={"peers": 20001, "http": 20002},
        bare_name=True,
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
def test_a_bare_name_resolves_to_the_first_replica(serves, index_label):
    service = one(replica_services(job(), role(bare_name=True, serves=serves)))

    assert service["metadata"]["name"] == "mnist-worker-0"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"mlgen.dev/job": "mnist", "mlgen.dev/role": "worker", index_label: "0"},
    }
