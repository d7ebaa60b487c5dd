"""`mlgen doctor`: the checks of a job's Kueue queue."""

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
KINDS = ("localqueues", "clusterqueues")
SHARED = "ClusterQueue shared"


def cluster_queue(active="True"):
    condition = {"type": "Active", "status": active, "message": "stopped by its admin"}
    return named("shared", spec={}, status={"conditions": [condition]})


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
        "get ": [],
        "apply --dry-run=server": Outcome(0, "", ""),
    }

    def examine(text=JOB, kept="Queue ", **answers):
        cluster.answers |= {f"get {name}.kueue.x-k8s.io": each for name, each in answers.items()}
        file = tmp_path / "job.yaml"
        file.write_text(text)
        rows = run("doctor", str(file))[1].splitlines()
        return [
            " ".join(row.split())
            for row in rows
            if kept in row and " LocalQueue research  " not in row
        ]

    return examine


def test_a_queue_that_is_active(doctor):
    assert doctor() == [f"ok {SHARED}"]


@pytest.mark.parametrize(
    ("found", "row"),
    [
        ([cluster_queue("False")], f"warning {SHARED} is not active: stopped by its admin"),
        (FORBIDDEN, f"note {SHARED} you do not have permission to read it"),
        ([], f"missing {SHARED} not found; LocalQueue research refers to it"),
    ],
)
def test_a_queue_that_admits_nothing(found, row, doctor):
    assert doctor(clusterqueues=found) == [row]


RAW = "get --raw /apis/visibility.kueue.x-k8s.io/v1beta"


@pytest.mark.parametrize(
    ("answer", "row"),
    [
        (Outcome(0, '{"items": null}', ""), "ok queue position mlgen status shows it"),
        (FORBIDDEN, "note queue position mlgen status cannot show it: you do not have permission"),
        (
            Outcome(1, "", "Error from server (NotFound): the server could not find the resource"),
            "note queue position mlgen status cannot show it: the cluster does not serve",
        ),
    ],
)
def test_the_position_in_a_queue_is_information(answer, row, cluster, doctor):
    cluster.answers = {RAW: answer} | cluster.answers

    [found] = doctor(kept="queue position")
    assert found.startswith(row)


def test_a_version_that_may_not_be_read_is_served(cluster, doctor):
    missing = Outcome(1, "", "Error from server (NotFound): the server could not find the resource")
    cluster.answers = {f"{RAW}2": FORBIDDEN, f"{RAW}1": missing} | cluster.answers

    [found] = doctor(kept="queue position")
    assert "you do not have permission" in found


def test_a_queue_named_default_takes_jobs_away(doctor):
    queues = [local_queue("research"), local_queue("default")]

    assert doctor(localqueues=queues)[0].startswith("missing LocalQueue default it admits the job")
    assert doctor(JOB.replace("chief: {}, ", ""), localqueues=queues) == [f"ok {SHARED}"]


@pytest.mark.parametrize("found", [[], FORBIDDEN])
def test_without_its_queue_there_is_no_row(found, doctor):
    assert doctor(localqueues=found) == []
