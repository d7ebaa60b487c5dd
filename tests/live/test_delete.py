"""`mlgen delete`: exactly the objects of the job."""

from pathlib import Path

import pytest

from mlgen import render
from mlgen.live.kubectl import Outcome

INSTANCE = "app.kubernetes.io/instance"


@pytest.fixture
def applied(cluster):
    """Apply job files: the cluster contains their objects."""

    def applied(*files):
        for item in (item for file in files for item in render(file)):
            own = item["metadata"]
            cluster.objects.append({**item, "metadata": {"namespace": "vision", **own}})

    return applied


@pytest.fixture
def with_claim(tmp_path, cluster):  # noqa: ARG001 - it changes the folder
    file = tmp_path / "claim.yaml"
    text = Path("oom.yaml").read_text().replace("name: mem", "name: claims")
    claim = "{accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}"
    file.write_text(
        f"{text}  claims: {{data: {claim}}}\n  volumes: {{d: {{mountPath: /d, pvc: data}}}}\n"
    )
    return str(file)


def names(objects):
    return [f"{item['kind']}/{item['metadata']['name']}" for item in objects]


def test_the_supervisor_goes_first_and_then_the_workloads(applied, cluster, run):
    applied("ddp.yaml")

    status, stdout, stderr = run("delete", "ddp.yaml", "--yes")

    assert (0, "") == (status, stderr)
    assert ["Job/ddp-supervisor", "Job/ddp-rank"] == names(cluster.deleted)[:2]
    assert {f"{item['kind']}/{item['metadata']['name']}" for item in render("ddp.yaml")} == set(
        names(cluster.deleted)
    )
    assert "job.batch/ddp-rank deleted\n" in stdout
    assert [] == cluster.objects


def test_the_question(applied, cluster, run, monkeypatch):
    applied("oom.yaml")
    monkeypatch.setattr("mlgen.cli.cluster.is_terminal", lambda: True)

    status, stdout, stderr = run("delete", "oom.yaml", stdin="n\n")

    assert 1 == status
    assert "job.batch/mem-rank will be deleted\n" in stdout
    assert "objects? [y/N]" in stdout + stderr
    assert [] == cluster.deleted
    assert 0 == run("delete", "oom.yaml", stdin="y\n")[0]
    assert cluster.deleted


@pytest.mark.parametrize("file", ["oom.yaml", "-"])
def test_nobody_to_ask(run, file):
    status, _, stderr = run("delete", file, stdin="")

    assert 2 == status
    assert "--yes" in stderr


def test_a_dry_run_deletes_nothing(applied, cluster, run):
    applied("oom.yaml")

    status, stdout, _ = run("delete", "oom.yaml", "--dry-run")

    assert 0 == status
    assert "job.batch/mem-rank would be deleted\n" in stdout
    assert [] == cluster.deleted


def test_claims_are_kept_unless_asked_for(applied, cluster, run, with_claim):
    applied(with_claim)

    _, _, stderr = run("delete", with_claim, "--yes")

    assert (
        "persistentvolumeclaim/data is kept; to delete it with its data, use --claims\n" == stderr
    )
    assert ["PersistentVolumeClaim/data"] == names(cluster.objects)
    run("delete", with_claim, "--yes", "--claims")
    assert [] == cluster.objects


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {INSTANCE: "mem", "app.kubernetes.io/managed-by": "Helm"},
        {INSTANCE: "mem-2", "app.kubernetes.io/managed-by": "mlgen"},
    ],
    ids=["no labels", "another tool", "another job"],
)
def test_objects_of_somebody_else_are_kept(applied, cluster, run, labels):
    applied("oom.yaml")
    for item in cluster.objects:
        item["metadata"]["labels"] = labels
    before = list(cluster.objects)

    _, _, stderr = run("delete", "oom.yaml", "--yes")

    assert "service/mem is kept: its labels belong to another job\n" in stderr
    assert len(before) == stderr.count("is kept")
    assert before == cluster.objects


def test_nothing_to_delete(run):
    assert (0, "", "nothing to delete: there are no objects of mem\n") == run(
        "delete", "oom.yaml", "--yes"
    )


def test_it_waits_for_the_pods(applied, cluster, run):
    applied("oom.yaml")

    def pod(name, job, label="job"):
        labels = {INSTANCE: "rel", f"mlgen.dev/{label}": job}  # a tool has set the instance
        return {"kind": "Pod", "metadata": {"name": name, "labels": labels}}

    other = pod("p-2", "mem-2")
    own = pod("s", "mem", "supervises")
    cluster.objects += [other, pod("p-0", "mem"), pod("p-1", "mem"), own]

    def gone():
        cluster.objects = [other, own]

    def all_gone():
        cluster.objects = [other]

    cluster.steps = [lambda: None, gone, all_gone]

    assert [
        "waiting for pod/p-0 and 1 more to terminate",
        "waiting for pod/s to terminate",
    ] == run("delete", "oom.yaml", "--yes")[2].splitlines()


def test_labels_that_a_tool_has_overwritten_do_not_matter(applied, cluster, run):
    applied("ddp.yaml")
    for item in cluster.objects:
        labels = {INSTANCE: "rel", "app.kubernetes.io/managed-by": "Helm"}
        item["metadata"]["labels"] = item["metadata"]["labels"] | labels

    assert (0, "") == run("delete", "ddp.yaml", "--yes")[::2]
    assert [] == cluster.objects


def test_a_kind_without_a_definition_is_not_there(cluster, run, tmp_path):
    text = Path("oom.yaml").read_text() + "  scheduling: {gang: volcano}\n"
    (tmp_path / "gang.yaml").write_text(text)
    error = 'no matches for kind "PodGroup" in version "scheduling.volcano.sh/v1beta1"'
    answers = [[], Outcome(1, "", error)]
    cluster.answers["get -f -"] = lambda: answers.pop(0)

    assert 0 == run("delete", str(tmp_path / "gang.yaml"), "--yes")[0]
    answers += [[], Outcome(1, "", "another error")]
    assert 1 == run("delete", str(tmp_path / "gang.yaml"), "--yes")[0]


QUEUED = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: dlrm}
spec:
  framework: tensorflow
  image: a
  roles: {chief: {}, worker: {}}
  scheduling: {gang: kueue, queue: ads}
"""

GROUP = {"annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}
WORKLOAD = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}


@pytest.fixture
def queued(applied, tmp_path):
    """The file of a job in the cluster that Kueue admits as a group."""
    file = tmp_path / "job.yaml"
    file.write_text(QUEUED)
    applied(str(file))
    return str(file)


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        ([WORKLOAD | {"metadata": {"name": "dlrm", "namespace": "vision", **GROUP}}], True),
        ([WORKLOAD | {"metadata": {"name": "dlrm", "namespace": "vision"}}], False),
        (Outcome(1, "", "Error from server (Forbidden): no"), False),
        (Outcome(1, "", 'error: the server doesn\'t have a resource type "workloads"'), False),
    ],
)
def test_the_workload_of_a_group_of_kueue(answer, deleted, queued, cluster, run):
    cluster.answers["get workloads.kueue.x-k8s.io dlrm"] = answer

    status, stdout, _ = run("delete", queued, "--yes")

    assert status == 0
    assert deleted == ("workload.kueue.x-k8s.io/dlrm deleted\n" in stdout)


def test_kueue_does_not_answer(queued, cluster, run):
    cluster.answers["get workloads.kueue.x-k8s.io"] = Outcome(1, "", "timeout")

    assert run("delete", queued, "--yes")[0] != 0
    assert not cluster.deleted
