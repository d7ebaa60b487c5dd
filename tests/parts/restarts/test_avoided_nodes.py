"""A gang that restarts avoids the nodes on which a replica failed: since Kubernetes 1.36."""

import pytest
import yaml
from parts.plane import plane, play
from parts.programs import kubernetes
from parts.skips import available
from parts.supervisor import Supervisor, kill

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
  restartPolicy: ExitCode
  affinity:
    nodeAffinity:
      REQUIRED:
        nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]
  roles: {worker: {replicas: 4}}
  runPolicy: {restartScope: All}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Gang:
    """Four replicas on two nodes, which KWOK simulates, and their supervisor.

    Attributes:
        plane: their control plane.
        manifests: the job's manifests for Kubernetes 1.37.
        nodes: the nodes of the last attempt's pods.
    """

    def __init__(self, created):
        self.plane, self.known = created, set()
        objects = mlgen.render(JOB.replace("REQUIRED", REQUIRED), mlgen.Options(parse("1.37")))
        self.manifests = yaml.safe_dump_all(objects)
        self.apply()
        Supervisor(created, "ddp", self.manifests).start()
        self.until_all_run()

    def apply(self, *flags):
        self.plane.kubectl("apply", *flags, "-f", "-", stdin=self.manifests)

    def pods(self):
        """Return the running pods that are new since the last time when all ran."""
        pods = self.plane.get(
            "pods", "-l", "mlgen.dev/job=ddp", "--field-selector=status.phase=Running"
        )["items"]
        return [pod for pod in pods if pod["metadata"]["uid"] not in self.known]

    def until_all_run(self):
        self.plane.until(lambda: len(self.pods()) == 4, seconds=120)
        self.last = self.pods()
        self.nodes = {pod["spec"]["nodeName"] for pod in self.last}
        self.known |= {pod["metadata"]["uid"] for pod in self.last}

    def restart(self, node):
        """Fail a pod on a node, and wait for the next attempt."""
        pod = next(pod for pod in self.last if pod["spec"]["nodeName"] == node)
        kill(self.plane, pod["metadata"]["name"])
        self.until_all_run()

    def affinity(self):
        return self.plane.get("job", "ddp-worker")["spec"]["template"]["spec"]["affinity"]

    def restarts(self):
        data = self.plane.get("configmap", "ddp.status")["data"]
        return data["restarts"], data.get("avoidedNodes")


@pytest.fixture
def gang(request):
    available(kubernetes, request.param)
    with plane(request.param) as created:
        play(created, 2)
        yield Gang(created)


@pytest.mark.parametrize("gang", ["1.37"], indirect=True)
def test_all_replicas_start_on_other_nodes_as_long_as_there_are_some(gang):
    assert {"node-0", "node-1"} == gang.nodes

    gang.restart("node-1")

    assert {"node-0"} == gang.nodes
    assert ("1", "node-1") == gang.restarts()
    affinity = gang.affinity()["nodeAffinity"]
    assert {REQUIRED, PREFERRED} == affinity.keys()
    away = {"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}
    assert [{"weight": 100, "preference": {"matchFields": [away]}}] == affinity[PREFERRED]

    gang.apply()
    gang.apply("--server-side", "--force-conflicts")
    gang.restart("node-0")

    assert {"node-0", "node-1"} == gang.nodes
    assert ("2", "node-0 node-1") == gang.restarts()


@pytest.mark.parametrize("gang", ["1.34"], indirect=True)
def test_in_an_older_cluster_than_rendered_for_they_start_anywhere(gang):
    gang.restart("node-1")

    assert {"node-0", "node-1"} == gang.nodes
    assert {REQUIRED} == gang.affinity()["nodeAffinity"].keys()
