"""JobSets in a queue of Kueue: admission, restarts, preemption and topology."""

import pytest

pytestmark = pytest.mark.long

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: NAME, namespace: team, labels: {kueue.x-k8s.io/priority-class: PRIORITY}}
spec:
  framework: tensorflow
  image: example/wide:1
  resources: {cpu: 1}
  roles: {chief: {}, ps: {waitFor: []}, worker: {replicas: 2}}
  runPolicy: {restartScope: All, backoffLimit: 2}
  scheduling: {gang: kueue, queue: research}
"""
SIZE = 4


def named(name, priority="low", job=JOB):
    """Return a job file with a name and a priority."""
    return job.replace("NAME", name).replace("PRIORITY", priority)


@pytest.fixture
def team(queue):
    """A team with a quota for one job, in which some jobs are more urgent."""
    created = queue({"cpu": SIZE}, preemption={"withinClusterQueue": "LowerPriority"})
    for name, value in (("low", 1), ("high", 1000)):
        created.add("WorkloadPriorityClass", name, value=value)
    return created


def test_a_jobset_starts_as_a_whole_when_it_has_quota(team):
    team.apply(named("first"))
    team.until_running("first", SIZE)
    team.apply(named("second"))
    team.until_waiting("jobset-second", "insufficient unused quota for cpu")
    assert not team.pods("second")

    team.finish("first", role="chief")

    team.until(lambda: team.state("first")[0] == "Completed")
    team.until_running("second", SIZE)
    team.until_reserved(SIZE)


def test_a_restart_keeps_the_quota(team):
    team.apply(named("first"))
    team.until_running("first", SIZE)
    team.apply(named("second"))
    before = {pod["metadata"]["uid"] for pod in team.pods("first")}

    team.fail("first", "worker")

    team.until(lambda: team.state("first") == ("", 1))
    team.until_running("first", SIZE)
    assert not before & {pod["metadata"]["uid"] for pod in team.pods("first")}
    assert team.reserved() == SIZE
    assert not team.pods("second")


def test_a_preempted_jobset_runs_again(team):
    team.apply(named("patient"))
    team.until_running("patient", SIZE)

    team.apply(named("urgent", "high"))
    team.until_running("urgent", SIZE)
    team.until(lambda: not team.pods("patient"))
    team.finish("urgent", role="chief")

    team.until_running("patient", SIZE)
    assert team.state("patient") == ("", 0)


def test_a_deleted_jobset_returns_its_quota(team):
    team.apply(named("first"))
    team.until_running("first", SIZE)
    team.kubectl("delete", "jobset", "first")
    team.until_reserved(0)


PLACED = JOB.replace("ps: {waitFor: []}, ", "").replace(
    "queue: research", "queue: research, topology: {key: rack}"
)


def test_roles_are_placed_in_one_rack(queued, queue):
    for index in range(8):
        labels = (f"rack=rack-{index // 4}", "kind=training")
        queued.kubectl("label", "node", f"node-{index}", *labels, "--overwrite")
    team = queue({"cpu": 64}, flavor="racks")
    team.add("WorkloadPriorityClass", "low", value=1)
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    team.add("Topology", "racks", spec={"levels": levels})
    spec = {"nodeLabels": {"kind": "training"}, "topologyName": "racks"}
    team.add("ResourceFlavor", "racks", spec=spec)

    team.apply(named("placed", job=PLACED.replace("{cpu: 1}", "{cpu: 6}")))

    team.until_running("placed", 3)
    nodes = {int(pod["spec"]["nodeName"][-1]) // 4 for pod in team.pods("placed")}
    assert len(nodes) == 1
