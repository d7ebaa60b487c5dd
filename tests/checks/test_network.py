"""Addresses of peers in variables and files: recognized addresses, and wrong ones."""

import pytest

from mlgen.checks.network import unknown_peer
from mlgen.checks.pods import Objects
from mlgen.topology import INDEX_NAME

LABELS = {"mlgen.dev/job": "a", "mlgen.dev/role": "worker"}


def job(value, namespace=None, parallelism=3, data=None):
    """A job with three workers that listen on port 80, and a variable."""
    metadata = {"name": "a-worker", "labels": LABELS, "namespace": namespace}
    env = [{"name": "PEERS", "value": value}]
    container = {"name": "main", "env": env, "ports": [{"containerPort": 80}]}
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"subdomain": "a", "containers": [container]},
    }
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": parallelism}
    service = {
        "spec": {"selector": {"mlgen.dev/job": "a"}},
        "metadata": {"name": "a", "labels": {}},
    }
    config = {"kind": "ConfigMap", "metadata": {"name": "c", "labels": {}}, "data": data or {}}
    workload = {"kind": "Job", "metadata": metadata, "spec": {**spec, "template": template}}
    return Objects("a", [workload, {"kind": "Service", **service}, config])


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a-worker-0.a",
        "a-worker-2.a:80",
        "a-worker-[0-2].a:80",
        "a-worker-0.a:81",
        "http://a-worker-2.a:80/path",
        "/data/a-worker-9",
        "b-worker-9.b",
        "a-worker-9.example.com",
        f"a-worker-$({INDEX_NAME}).a",
    ],
)
def test_correct_addresses_and_other_texts_are_accepted(value):
    assert [] == list(unknown_peer(job(value)))


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (
            "a-worker-3.a",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-3", but this pod does not exist',
        ),
        (
            "a-worker-[0-3].a",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-3", but this pod does not',
        ),
        (
            "a-worker-3",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-3", but this pod does not exist',
        ),
        (
            "a-server-0.a",
            "no-such-peer",
            'PEERS refers to the peer "a-server-0", but this pod does not exist',
        ),
        (
            "a-worker-0:80",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-0", but a Service with this',
        ),
        (
            "a-worker-0",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-0", but a Service with this name does not exist',
        ),
        (
            "a-worker-0.y.svc:80",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-0.y.svc", but a Service with this',
        ),
        (
            "a-master-0:80",
            "no-such-peer",
            'PEERS refers to the peer "a-master-0", but this pod does not exist',
        ),
        (
            "a-worker-0.a.x.svc",
            "namespace",
            'PEERS refers to "a-worker-0" in the namespace x, but the job is in y',
        ),
        (
            "a-worker-3.a a-worker-4.a a-worker-4.a",
            "no-such-peer",
            'PEERS refers to the peer "a-worker-3" (and 1 more), but this pod does not exist',
        ),
    ],
)
def test_wrong_addresses_are_reported_once_per_role(value, code, message):
    (each,) = unknown_peer(job(value, namespace="y"))

    assert (code, True) == (each.problem.code, each.problem.message.startswith(message))
    assert ("spec", "roles", "worker") == each.problem.path
    assert each.path[-4:] == (0, "env", 0, "value")


def test_a_name_that_is_listed_before_it_is_dialled_is_reported():
    workers = job("a-worker-0")
    env = workers.items[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    env.insert(0, {"name": "MLGEN_PEERS", "value": "a-worker-0"})

    assert ["no-such-peer"] == [each.problem.code for each in unknown_peer(workers)]


@pytest.mark.parametrize(("parallelism", "count"), [(2, 1), (3, 0), (0, 0)])
def test_all_peers_must_run_at_the_same_time_unless_the_job_is_suspended(parallelism, count):
    assert count == len(list(unknown_peer(job("a-worker-2.a", parallelism=parallelism))))


SERVICE = {
    "kind": "Service",
    "metadata": {"name": "a-worker-1", "labels": {}},
    "spec": {"selector": LABELS | {"batch.kubernetes.io/job-completion-index": "1"}},
}
FORWARDING = {**SERVICE, "spec": {**SERVICE["spec"], "ports": [{"port": 80}]}}
ALIAS = {**SERVICE, "metadata": {"name": "a-master-0", "labels": {}}}


@pytest.mark.parametrize(
    ("value", "service", "codes"),
    [
        ("a-worker-1:81", SERVICE, []),
        ("a-worker-1.y.svc.cluster.local:81", SERVICE, []),
        ("a-worker-1.x.svc:81", SERVICE, ["namespace"]),
        ("a-worker-1:80", FORWARDING, []),
        ("a-worker-1:81", FORWARDING, ["port"]),
        ("a-worker-1.a:81", FORWARDING, []),
        ("a-master-0.y.svc:81", ALIAS, []),
        ("a-master-1.y.svc:81", ALIAS, ["no-such-peer"]),
    ],
)
def test_a_service_of_the_name_leads_to_a_replica(value, service, codes):
    workers = job(value, namespace="y")
    reported = unknown_peer(Objects("a", [*workers.items, service]))

    assert codes == [each.problem.code for each in reported]


@pytest.mark.parametrize(("limit", "count"), [("5", 0), ("4", 1), ("", 1), ("x", 1)])
def test_replicas_that_an_elastic_job_can_have_exist(limit, count):
    workers = job("a-worker-4.a")
    workers.items[0]["metadata"]["annotations"] = {"mlgen.dev/max-replicas": limit}

    assert count == len(list(unknown_peer(workers)))


@pytest.mark.parametrize(
    ("key", "text", "count"),
    [
        ("hostfile", "a-worker-9 slots=1\n", 1),
        ("hostfile", "a-worker-2:4\n", 0),
        ("hosts.txt", "a-worker-9.a\n", 1),
        ("run.sh", "ping a-worker-9.a\n", 0),
        ("elastic-hosts", "a-worker-9\n", 0),
    ],
)
def test_files_are_checked_except_scripts_and_the_hosts_of_elastic_jobs(key, text, count):
    reported = list(unknown_peer(job("", data={key: text})))

    assert [("data", key)] * count == [each.path for each in reported]
