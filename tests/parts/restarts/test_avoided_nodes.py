"""A gang that restarts avoids the nodes that failed, and replaces servers on lost nodes."""

import pytest
import yaml
from parts.plane import ROOM, STAGES, node, plane, play
from parts.programs import kubernetes
from parts.skips import available
from parts.supervisor import Supervisor, kill, report

import mlgen
from mlgen.kubernetes.versions import parse

pytestmark = pytest.mark.long

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: ddp}
spec:
  framework: pytorch
  image: example/ddp:1
  command: [python3, train.py]
  roles: {worker: {replicas: 4, restartPolicy: ExitCode}}
  runPolicy: {restartScope: All}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
AFFINITY = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}}


class Gang:
    """Replicas on nodes that KWOK simulates, and their supervisor.

    Attributes:
        plane: their control plane.
        manifests: the job's manifests for Kubernetes 1.37.
        last: the pods of the last attempt.
        nodes: the nodes of these pods.
    """

    def __init__(self, created, nodes, policy=(), stages=STAGES, **spec):
        play(created, nodes, ROOM | {"nvidia.com/gpu": "8"}, stages)
        self.plane, self.known = created, set()
        job = yaml.safe_load(JOB)
        job["spec"] |= spec
        job["spec"]["runPolicy"] |= dict(policy)
        self.replicas = sum(role["replicas"] for role in job["spec"]["roles"].values())
        objects = mlgen.render(yaml.safe_dump(job), mlgen.Options(parse("1.37")))
        self.manifests = yaml.safe_dump_all(objects)
        self.apply()
        Supervisor(created, "ddp", self.manifests).start()
        self.until_all_run()

    def apply(self, *flags):
        self.plane.kubectl("apply", *flags, "-f", "-", stdin=self.manifests)

    def pods(self, phase="Running"):
        """Return the pods in a phase that are new since the last time when all ran."""
        phase = f"--field-selector=status.phase={phase}"
        pods = self.plane.get("pods", "-l", "mlgen.dev/job=ddp", phase)["items"]
        return [pod for pod in pods if pod["metadata"]["uid"] not in self.known]

    def until_all_run(self):
        self.plane.until(lambda: len(self.pods()) == self.replicas, seconds=240)
        self.last = self.pods()
        self.nodes = {pod["spec"]["nodeName"] for pod in self.last}
        self.known |= {pod["metadata"]["uid"] for pod in self.last}

    def names(self):
        return [pod["metadata"]["name"] for pod in self.last]

    def on(self, node):
        """Return the name of a pod on a node."""
        pods = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in self.last}
        return pods[node]

    def restart(self, node):
        """Fail a pod on a node, and wait for the next attempt."""
        kill(self.plane, self.on(node))
        self.until_all_run()

    def affinity(self):
        return self.plane.get("job", "ddp-worker")["spec"]["template"]["spec"]["affinity"]

    def causes(self):
        """Return the messages of the restarts."""
        events = self.plane.get("events", "--field-selector=reason=JobRestarting")["items"]
        return [event["message"] for event in events]

    def restarts(self):
        data = self.plane.get("configmap", "ddp.status")["data"]
        return data["restarts"], data["disruptions"], data.get("avoidedNodes")


@pytest.fixture
def created(request):
    version = getattr(request, "param", "1.37")
    available(kubernetes, version)
    with plane(version) as created:
        yield created


def fields(*nodes):
    return [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]


def test_all_replicas_start_on_other_nodes_as_long_as_there_are_some(created):
    gang = Gang(created, 2, **AFFINITY)
    assert {"node-0", "node-1"} == gang.nodes

    gang.restart("node-1")

    assert {"node-0"} == gang.nodes
    assert ("1", "0", "node-1") == gang.restarts()
    affinity = gang.affinity()["nodeAffinity"]
    assert {REQUIRED, PREFERRED} == affinity.keys()
    away = {"matchFields": fields("node-1")}
    assert [{"weight": 100, "preference": away}] == affinity[PREFERRED]

    gang.apply()
    gang.apply("--server-side", "--force-conflicts")
    gang.restart("node-0")

    assert {"node-0", "node-1"} == gang.nodes
    assert ("2", "0", "node-0 node-1") == gang.restarts()


@pytest.mark.parametrize("created", ["1.34"], indirect=True)
def test_in_an_older_cluster_than_rendered_for_they_start_anywhere(created):
    gang = Gang(created, 2, **AFFINITY)

    gang.restart("node-1")

    assert {"node-0", "node-1"} == gang.nodes
    assert {REQUIRED} == gang.affinity()["nodeAffinity"].keys()


def test_if_required_they_wait_until_there_is_another_node(created):
    gang = Gang(created, 2, {"avoidNodes": "Required"}, **AFFINITY)

    gang.restart("node-1")
    assert {"node-0"} == gang.nodes
    # kubectl would restore the user's terms, as the warning says.
    with pytest.raises(RuntimeError, match="field is immutable"):
        gang.apply()

    kill(gang.plane, gang.on("node-0"))
    gang.plane.until(lambda: len(gang.pods("Pending")) == 4, seconds=120)

    terms = gang.affinity()["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [{**TERM, "matchFields": fields("node-0", "node-1")}] == terms
    blocked = gang.pods("Pending")[0]["status"]["conditions"][0]
    assert ("PodScheduled", "Unschedulable") == (blocked["type"], blocked["reason"])
    assert "2 node(s) didn't match Pod's node affinity/selector" in blocked["message"]

    gang.plane.create("/api/v1/nodes", [node(2)])
    gang.until_all_run()

    assert {"node-2"} == gang.nodes
    assert ("2", "0", "node-0 node-1") == gang.restarts()


def test_if_required_without_own_terms_the_manifests_can_be_applied_again(created):
    gang = Gang(created, 2, {"avoidNodes": "Required"})

    gang.restart("node-1")
    gang.apply()
    gang.apply("--server-side", "--force-conflicts")

    assert {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields("node-1")}]}} == (
        gang.affinity()["nodeAffinity"]
    )


def test_they_leave_a_node_whose_device_is_unhealthy(created):
    resources = {"nvidia.com/gpu": 2}
    gang = Gang(created, 2, {"avoidNodes": "Required"}, resources=resources)
    name = gang.on("node-0")
    devices = [
        {"resourceID": "GPU-0", "health": "Healthy"},
        {"resourceID": "GPU-1", "health": "Unhealthy"},
    ]
    main = gang.plane.get("pod", name)["status"]["containerStatuses"][0]
    main["allocatedResourcesStatus"] = [{"name": "nvidia.com/gpu", "resources": devices}]

    report(gang.plane, name, {"containerStatuses": [main]})
    gang.until_all_run()

    assert {"node-1"} == gang.nodes
    assert ("0", "1", "node-0") == gang.restarts()
    assert [f"{name} on node-0 has an unhealthy device: nvidia.com/gpu GPU-1"] == gang.causes()


def test_they_leave_the_one_of_five_nodes_on_which_the_preflight_fails(created):
    preflight = {"command": ["check"]}
    gang = Gang(created, 5, roles={"worker": {"replicas": 5, "preflight": preflight}})
    every = {f"node-{number}" for number in range(5)}
    assert every == gang.nodes
    pod = gang.on("node-3")

    kill(gang.plane, pod, code=1, of="initContainerStatuses")
    gang.until_all_run()

    assert every - {"node-3"} == gang.nodes
    assert ("1", "0", "node-3") == gang.restarts()
    assert [f"init container preflight of {pod} exited with code 1"] == gang.causes()


def test_a_server_whose_node_does_not_end_it_is_replaced(created):
    """Without the last stage, deleted pods stay, as on lost nodes."""
    gang = Gang(
        created,
        2,
        {"forceDeleteAfterSeconds": 60},
        STAGES[:-1],
        framework="tensorflow",
        roles={"ps": {"replicas": 1}, "worker": {"replicas": 2}},
        template={"spec": {"terminationGracePeriodSeconds": 1}},
    )
    before = gang.plane.get("pod", "ddp-ps-0")["metadata"]["uid"]

    kill(created, next(name for name in gang.names() if "worker" in name))
    gang.until_all_run()

    assert before != gang.plane.get("pod", "ddp-ps-0")["metadata"]["uid"]
    assert ("0", "1") == gang.restarts()[:2]
