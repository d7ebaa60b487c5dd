"""Custom resources of training operators train unchanged in a cluster without operators.

All run at once in one namespace. Resources whose conversion is the same job as one of another test
are not here: the goldens of the conversions show that they are the same.
"""

import json
from pathlib import Path

import pytest
from cluster.conftest import PASSWD, skip_without

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"

SSHD = {
    "passwd": PASSWD,
    "ssh_config": "Host *\n  Port 2200\n  StrictHostKeyChecking no\n"
    "  UserKnownHostsFile /dev/null\n",
    "sshd_config": "Port 2200\nHostKey /home/mpiuser/.ssh/id_rsa\nPidFile none\nStrictModes no\n"
    "UsePAM no\nAuthorizedKeysFile /home/mpiuser/.ssh/authorized_keys\n",
}
"""Files of an image with sshd, such as the images of Trainer's runtimes for MPI."""


@pytest.fixture(scope="module")
def volume(shared_namespace, tmp_path_factory):
    """The name of a PersistentVolume that a JobSet claims."""
    namespace, name = shared_namespace, f"{shared_namespace.name}-data"
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "capacity": {"storage": "1Mi"},
        "hostPath": {"path": str(tmp_path_factory.mktemp("data"))},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(volume | {"spec": spec}))
    yield name
    namespace.kubectl("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture(scope="module")
def namespace(shared_namespace, volume, tmp_path_factory):
    """The namespace of all resources, with the SSH keys that operators would create."""
    namespace = shared_namespace
    rules, code = RESOURCES / "jobset-rules.yaml", 'spec.roles.node-0.env.CODE="3"'
    namespace.start(rules)
    namespace.start(rules, "metadata.name=bug", code)
    policies = RESOURCES / "volcano-policies.yaml"
    for name, code, seconds in (("restarted", 7, 300), ("aborted", 3, 300), ("completed", 0, 3)):
        settings = (f'worker.env.CODE="{code}"', f'master.env.TIME="{seconds}"')
        own = (f"spec.roles.{setting}" for setting in settings)
        namespace.start(policies, f"metadata.name={name}", *own)
    claim = tmp_path_factory.mktemp("jobs") / "jobset.yaml"
    claim.write_text((RESOURCES / "jobset-claim.yaml").read_text().replace("VOLUME", volume))
    namespace.start(claim)
    namespace.start(RESOURCES / "jobset-steps.yaml")
    namespace.start(RESOURCES / "pytorchjob-names.yaml")
    namespace.start(RESOURCES / "trainjob-steps.yaml")
    namespace.start(RESOURCES / "volcano-tensorflow.yaml")
    namespace.start(RESOURCES / "pytorchjob-rendezvous.yaml")
    namespace.start(RESOURCES / "pytorchjob-lenient.yaml")
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={PASSWD}")
    files = [f"--from-literal={name}={text}" for name, text in SSHD.items()]
    namespace.kubectl("create", "configmap", "image", *files)
    for secret in ("pi-ssh", "tau-mpi-ssh-auth"):
        namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", secret))
    namespace.start(RESOURCES / "mpijob-v2beta1.yaml")
    namespace.start(RESOURCES / "trainjob-mpi.yaml")
    return namespace


def lines_with(printed, words):
    return [line for lines in printed for line in lines if line.startswith(words)]


def test_an_mpijob_v2beta1_trains(namespace):
    printed = namespace.completed("pi-launcher")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 uid 1000" for rank in range(4)
    ]


def test_a_volcano_job_trains(namespace):
    printed = lines_with(namespace.completed("ctr-worker"), "total")

    hosts = "ctr-worker-0.ctr,ctr-worker-1.ctr"
    assert sorted(printed) == [f"total 20.0 index {index} of {hosts}" for index in range(2)]


def test_a_trainjob_trains_after_its_initializer(namespace):
    skip_without("mlgen.test/torch:2", "torch2", namespace.environment)

    printed = namespace.completed("bert-node-0")

    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} of 4 sum 10.0" for rank in range(4)
    ]
    assert namespace.completed("bert-dataset-initializer-0") == [["from hf://example/data"]]


def test_a_trainjob_with_mpi_trains(namespace):
    printed = namespace.completed("tau-launcher-0")

    hosts = ("tau-launcher-0-0", "tau-node-0-0")
    assert sorted(lines_with(printed, "rank")) == [
        f"rank {rank} sum 10 on {hosts[rank // 2]} uid 1000" for rank in range(4)
    ]


def test_the_jobs_of_a_jobset_start_in_order(namespace):
    namespace.completed("steps-supervisor")

    found = namespace.get("pods", "-l", "mlgen.dev/job=steps")["items"]
    pods = {pod["metadata"]["name"].removeprefix("steps-")[:-6]: pod for pod in found}
    created = {name: pod["metadata"]["creationTimestamp"] for name, pod in pods.items()}
    ended = {name: finished_at(pod) for name, pod in pods.items()}
    nodes = ["node-0-0", "node-0-1"]
    assert ended["initializer-0-0"] <= min(created[node] for node in nodes)
    assert max(created[node] for node in nodes) <= created["watcher-0-0"]
    assert created["watcher-0-0"] <= min(ended[node] for node in nodes)
    assert max(ended[node] for node in nodes) <= created["evaluator-0-0"]


def finished_at(pod):
    """Return the time at which the first container ended."""
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]


@pytest.mark.parametrize(("name", "restarts", "code"), [("flaky", "1", 1), ("bug", "0", 3)])
def test_a_jobset_restarts_or_fails_by_its_failure_policy(namespace, name, restarts, code):
    assert namespace.ended(f"{name}-supervisor")["type"] == "Failed"
    assert namespace.record(name)["restarts"] == restarts
    _, _, message = namespace.conditions(name)["Failed"]
    assert f"exited with code {code}" in message
    assert not namespace.active(name)


@pytest.mark.parametrize(("name", "restarts", "code"), [("restarted", "1", 7), ("aborted", "0", 3)])
def test_a_volcano_job_restarts_or_aborts_by_its_policies(namespace, name, restarts, code):
    assert namespace.ended(f"{name}-master")["type"] == "Failed"
    namespace.completed(f"{name}-supervisor")

    assert namespace.record(name)["restarts"] == restarts
    _, _, message = namespace.conditions(name)["Failed"]
    assert f"{name}-worker-1" in message
    assert f"exited with code {code}" in message
    assert not namespace.active(name)


def test_a_volcano_job_is_complete_when_a_task_is(namespace):
    namespace.completed("completed-supervisor")

    assert namespace.get("job", "completed-master")["status"]["succeeded"] == 1
    assert "Succeeded" in namespace.conditions("completed")
    assert not namespace.active("completed")


def test_names_of_the_operator_lead_to_replicas_of_merged_roles(namespace):
    """The name with and without namespace and domain, and a probe that uses the port's name."""
    for printed in namespace.completed("ddp-rank"):
        assert printed == [
            f"ddp-master-0.{namespace.name}.svc.cluster.local is ddp-rank-0",
            "ddp-worker-0 is ddp-rank-1",
            "ddp-rank-0 is ddp-rank-0",
        ]
    for pod in namespace.pods("ddp-rank"):
        (status,) = pod["status"]["containerStatuses"]
        assert status["restartCount"] == 0


def test_torch_hosts_the_rendezvous_that_has_its_own_host_name(namespace):
    """torch before 2.0 compares names. A merged replica would have another one."""
    for job in ("gpt-master", "gpt-worker-0"):
        (printed,) = namespace.completed(job)
        assert "world 2 sum 3.0" in printed


def test_an_elastic_pytorchjob_with_a_master_trains(namespace):
    """It lacks fields that plain Kubernetes requires, and has others twice."""
    for job in ("vit-master", "vit-worker"):
        ((line,),) = [[line for line in log if "world" in line] for log in namespace.completed(job)]
        assert line == "world 2 sum 3.0"


def test_the_claim_of_a_jobset_is_created_with_it_and_outlives_it(namespace):
    assert namespace.completed("tune-trainer-0") == [["42"]]
    namespace.kubectl("delete", "jobs,services", "-l", "mlgen.dev/job=tune")
    claim = namespace.get("persistentvolumeclaim", "data-tune")
    assert claim["status"]["phase"] == "Bound"
    assert "deletionTimestamp" not in claim["metadata"]
