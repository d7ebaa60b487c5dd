"""`mlgen doctor`: whether Kueue's queue can admit a job."""

import pytest
from live.test_doctor import FORBIDDEN, named, version

from mlgen.live.kubectl import Outcome

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  framework: tensorflow
  image: a
  roles: {chief: {}, worker: {replicas: 2, resources: {cpu: 2, nvidia.com/gpu: 1}}}
  scheduling: {gang: kueue, queue: research}
"""
PLACED = JOB.replace("queue: research", "queue: research, topology: {key: rack}")
KINDS = ("localqueues", "clusterqueues", "resourceflavors", "topologies")
SHARED = "ClusterQueue shared"


def cluster_queue(*, covered=("cpu", "nvidia.com/gpu"), active="True"):
    quotas = [{"name": name, "nominalQuota": 8} for name in covered]
    group = {"coveredResources": covered, "flavors": [{"name": "any", "resources": quotas}]}
    condition = {"type": "Active", "status": active, "message": "stopped by its admin"}
    return named("shared", spec={"resourceGroups": [group]}, status={"conditions": [condition]})


def local_queue(name):
    return named(name, spec={"clusterQueue": "shared"})


@pytest.fixture
def doctor(cluster, run, tmp_path):
    """Function that examines a job in a cluster with Kueue, and returns the queue's rows."""
    served = "\n".join(["jobs.batch", *(f"{kind}.kueue.x-k8s.io" for kind in KINDS)])
    cluster.answers = {
        "version": version(),
        "api-resources": Outcome(0, served, ""),
        "config view": Outcome(0, "team-a", ""),
        "get namespace": [named("team-a")],
        "get localqueues.kueue.x-k8s.io": [local_queue("research")],
        "get clusterqueues.kueue.x-k8s.io": [cluster_queue()],
        "get resourceflavors.kueue.x-k8s.io": [named("any", spec={"topologyName": "racks"})],
        "get topologies.kueue.x-k8s.io": [named("racks", spec={"levels": [{"nodeLabel": "rack"}]})],
        "get ": [],
        "apply --dry-run=server": Outcome(0, "", ""),
    }

    def examine(text=JOB, **answers):
        cluster.answers |= {f"get {name}.kueue.x-k8s.io": each for name, each in answers.items()}
        file = tmp_path / "job.yaml"
        file.write_text(text)
        rows = run("doctor", str(file))[1].splitlines()
        return [
            " ".join(row.split())
            for row in rows
            if "Queue " in row and " LocalQueue research  " not in row
        ]

    return examine


def test_a_queue_that_can_admit_the_job(doctor):
    assert doctor() == [f"ok {SHARED}"]
    assert doctor(PLACED.replace("chief: {}", "chief: {resources: {cpu: 1}}")) == [f"ok {SHARED}"]
    covered = ("cpu", "nvidia.com/gpu", "pods")
    assert doctor(PLACED, clusterqueues=[cluster_queue(covered=covered)]) == [f"ok {SHARED}"]


@pytest.mark.parametrize(
    ("text", "answers", "row"),
    [
        (
            JOB,
            {"clusterqueues": [cluster_queue(covered=("nvidia.com/gpu",))]},
            f"warning {SHARED} does not cover cpu, which worker requests, so",
        ),
        (
            JOB,
            {"clusterqueues": [cluster_queue(active="False")]},
            f"warning {SHARED} is not active: stopped by its admin",
        ),
        (JOB, {"clusterqueues": FORBIDDEN}, f"note {SHARED} cannot be read with your rights"),
        (JOB, {"clusterqueues": []}, f"missing {SHARED} not found; LocalQueue research names it"),
        (
            PLACED,
            {},
            f"missing {SHARED} cannot place chief, which requests none of cpu and nvidia.com/gpu",
        ),
        (
            PLACED,
            {"resourceflavors": [named("any", spec={})]},
            f"missing {SHARED} has no flavor with a topologyName whose Topology has the level rack",
        ),
        (
            PLACED,
            {"topologies": FORBIDDEN},
            f"note {SHARED}'s flavors cannot be read with your rights",
        ),
    ],
)
def test_a_queue_that_cannot(text, answers, row, doctor):
    [found] = doctor(text, **answers)

    assert found.startswith(row)


def test_a_queue_named_default_takes_jobs_away(doctor):
    queues = [local_queue("research"), local_queue("default")]

    assert doctor(localqueues=queues)[0].startswith("missing LocalQueue default it takes the job")
    assert doctor(JOB.replace("chief: {}, ", ""), localqueues=queues) == [f"ok {SHARED}"]


@pytest.mark.parametrize("found", [[], FORBIDDEN])
def test_without_its_queue_nothing_is_compared(found, doctor):
    assert doctor(localqueues=found) == []
