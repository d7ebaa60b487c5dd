"""The resources that a queue must cover, and the placement of pods."""

import pytest

pytestmark = pytest.mark.long

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: gemma, namespace: team}
spec:
  framework: jax
  image: example/gemma:1
  roles: {worker: {replicas: 2, resources: {cpu: 1RESOURCES}}}
  scheduling: {gang: kueue, queue: research}
"""
"""A single Job, whose helpers wait for its first replica."""

WIDE = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: dlrm, namespace: team}
spec:
  framework: tensorflow
  image: example/dlrm:1
  roles: {chief: {resources: {cpu: CHIEF}}, worker: {replicas: 2, resources: {cpu: 6}}}
  scheduling: {gang: kueue, queue: research, topology: {key: rack}}
"""


def test_helpers_need_no_quota_of_what_the_job_does_not_request(any_team):
    team = any_team({"cpu": 4, "nvidia.com/gpu": 8})
    job = JOB.replace("RESOURCES", "")
    assert f"ok ClusterQueue {team.name}" in team.doctor(job)

    team.apply(job)

    team.until_running("gemma", 2)
    team.until_reserved(2)
    team.finish("gemma")
    team.until_reserved(0)


def test_a_resource_that_the_queue_does_not_cover(any_team):
    team = any_team({"cpu": 4})

    job = JOB.replace("RESOURCES", ", memory: 1Gi")
    team.apply(job)

    message = "resource memory unavailable in ClusterQueue"
    team.until_waiting("job-gemma", message)
    status = " ".join(team.mlgen("status", job=job).split())
    assert "in the queue research: couldn't assign flavors to pod set main" in status
    assert message in status
    assert not team.pods("gemma")


def test_a_single_job_that_kueue_stops_runs_again(any_team):
    team = any_team({"cpu": 4})
    team.apply(JOB.replace("RESOURCES", ""))
    team.until_running("gemma", 2)
    [workload] = team.listed("workloads")

    for active, pods in ((False, 0), (True, 2)):
        patch = f'{{"spec": {{"active": {str(active).lower()}}}}}'
        name = workload["metadata"]["name"]
        team.kubectl("patch", "workload", name, "--type=merge", "-p", patch)
        team.until(lambda pods=pods: team.phases("gemma") == ["Running"] * pods)
        team.until_reserved(pods)


def test_a_second_apply_changes_nothing(any_team):
    team = any_team({"cpu": 4})
    team.apply(JOB.replace("RESOURCES", ""))
    team.until_running("gemma", 2)
    before = [pod["metadata"]["uid"] for pod in team.pods("gemma")]

    again = team.kubectl(
        "apply", "-f", "-", stdin=team.mlgen("render", job=JOB.replace("RESOURCES", ""))
    )

    assert "job.batch/gemma-worker unchanged" in again
    assert [pod["metadata"]["uid"] for pod in team.pods("gemma")] == before
    team.until_reserved(2)


@pytest.fixture
def racks(with_webhooks, team):
    """A Tenant whose queue uses the racks of the nodes: two racks of four nodes."""
    for index in range(8):
        labels = (f"rack=rack-{index // 4}", "kind=training")
        with_webhooks.kubectl("label", "node", f"node-{index}", *labels, "--overwrite")
    created = team({"cpu": 64}, flavor="racks")
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    created.add("Topology", "racks", spec={"levels": levels})
    spec = {"nodeLabels": {"kind": "training"}, "topologyName": "racks"}
    created.add("ResourceFlavor", "racks", spec=spec)
    return created


def test_two_roles_are_placed_in_one_rack(racks):
    racks.apply(WIDE.replace("CHIEF", "5"))

    racks.until_running("dlrm", 3)
    nodes = {int(pod["spec"]["nodeName"][-1]) // 4 for pod in racks.pods("dlrm")}
    assert len(nodes) == 1


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        ("chief: {}", "Workload no longer fits after processing another workload"),
        ("chief: {}, ps: {resources: {cpu: 1}}", "no TAS flavor assigned"),
    ],
)
def test_a_role_without_requests_cannot_be_placed(roles, text, racks):
    racks.apply(WIDE.replace("chief: {resources: {cpu: CHIEF}}", roles))

    racks.until_waiting("dlrm", text)
    assert "Running" not in racks.phases("dlrm")


def test_a_queue_without_a_topology_places_nothing(team):
    created = team({"cpu": 64})

    created.apply(WIDE.replace("CHIEF", "1"))

    created.until_waiting("dlrm", "does not support TopologyAwareScheduling")


SLICED = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: moe, namespace: team}
spec:
  framework: FRAMEWORK
  image: example/moe:1
  roles: {CHIEFworker: {replicas: 4, resources: {cpu: 5}}}
  scheduling: {gang: kueue, queue: research, topology: {slice: {key: rack, size: 2}}}
"""
"""Replicas 0 and 1 in one rack, and 2 and 3 in one rack."""


@pytest.mark.parametrize(
    ("framework", "chief", "pods"),
    [("jax", "", 4), ("tensorflow", "chief: {resources: {cpu: 5}}, ", 5)],
)
def test_consecutive_replicas_share_a_rack(framework, chief, pods, with_webhooks, racks):
    # Each rack has four nodes, and a pod needs most of a node. One node of each rack is full.
    for node in ("node-0", "node-4"):
        with_webhooks.kubectl("cordon", node)

    racks.apply(SLICED.replace("FRAMEWORK", framework).replace("CHIEF", chief))

    racks.until_running("moe", pods)
    for node in ("node-0", "node-4"):
        with_webhooks.kubectl("uncordon", node)
    workers = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod
        for pod in racks.pods("moe")
        if pod["metadata"]["labels"]["mlgen.dev/role"] == "worker"
    }
    of = [int(workers[index]["spec"]["nodeName"][-1]) // 4 for index in range(4)]
    assert of[0] == of[1]
    assert of[2] == of[3]


ELASTIC = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: vit, namespace: team}
spec:
  framework: pytorch
  image: example/vit:1
  command: [torchrun, train.py]
  options: {elasticPolicy: {minReplicas: 1, maxReplicas: 6}}
  roles: {worker: {replicas: 2, resources: {cpu: 1}}}
  scheduling: {gang: kueue, queue: research}
"""


def test_an_elastic_job_is_scaled_within_its_quota(team):
    team = team({"cpu": 4})
    team.apply(ELASTIC)
    team.until_running("vit", 2)
    team.until_reserved(2)

    for replicas in (4, 3):
        scale(team, replicas)
        team.until_running("vit", replicas)
        team.until_reserved(replicas)

    # Without quota, the running replicas stay, and new ones wait.
    first = running(team)
    scale(team, 6)
    team.until_waiting("job-vit", "insufficient unused quota")
    assert first == running(team)
    team.until_reserved(3)

    scale(team, 4)
    team.until_running("vit", 4)
    team.until_reserved(4)

    # A lost replica is replaced, and a preempted job runs again.
    team.kubectl("delete", "pod", team.pods("vit")[0]["metadata"]["name"], "--wait=false")
    team.until(lambda: len(running(team) - first) == 2)
    [workload] = [item for item in team.listed("workloads") if not is_finished(item)]
    for active, replicas in ((False, 0), (True, 4)):
        patch = f'{{"spec": {{"active": {str(active).lower()}}}}}'
        team.kubectl("patch", "workload", workload["metadata"]["name"], "--type=merge", "-p", patch)
        team.until_running("vit", replicas)
        team.until_reserved(replicas)
    team.finish("vit")
    team.until_reserved(0)


def running(team):
    """Return the UIDs of the running pods of the elastic job."""
    pods = team.pods("vit")
    return {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}


def is_finished(workload):
    """Return whether a Workload has ended, or a larger slice has replaced it."""
    return any(each["type"] == "Finished" for each in workload["status"].get("conditions", ()))


def scale(team, replicas):
    """Scale the workers of the elastic job, as docs/guides/elastic.md describes."""
    patch = f'{{"spec": {{"completions": {replicas}, "parallelism": {replicas}}}}}'
    team.kubectl("patch", "job", "vit-worker", "-p", patch)
