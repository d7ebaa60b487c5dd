"""Kubernetes' own scheduler chooses the rack of a gang, and preempts its pods together."""

import json

import pytest
from parts.gangs.cluster import HERE, ROOM, Cluster, native
from parts.kueue.server import STAGES
from parts.plane import node, plane, play
from parts.skips import available

pytestmark = pytest.mark.long

GATE = "TopologyAwareWorkloadScheduling"
RACK = "example.com/rack"
RACKS = {"small": 2, "large": 3}
"""The nodes of each rack, with a GPU each."""

ROOMY = ROOM | {"cpu": "800"}
"""The scheduler prefers these nodes. They are in the rack that is too small."""

WORKERS = {"worker": {"replicas": 3}}
IN_A_RACK = {"topology": {"key": RACK}}


@pytest.fixture(scope="module", params=[(), (GATE,)], ids=["affinity", "scheduler"])
def racks(request):
    """A Cluster with two racks, with and without the feature gate."""
    context = plane("1.37", **native(*request.param))
    created = available(context.__enter__)
    play(created, 0, stages=(*STAGES, HERE / "stages.yaml"))
    rooms = [("small", ROOMY)] * RACKS["small"] + [("large", ROOM)] * RACKS["large"]
    nodes = [node(index, room) for index, (_, room) in enumerate(rooms)]
    for item, (rack, _) in zip(nodes, rooms, strict=True):
        item["metadata"]["labels"][RACK] = rack
    created.create("/api/v1/nodes", nodes)
    for name, value in (("low", 1), ("high", 2)):
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        item = head | {"metadata": {"name": name}, "value": value}
        created.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    yield Cluster(created, "kubernetes"), bool(request.param)
    context.__exit__(None, None, None)


@pytest.fixture
def cluster(racks):
    """The Cluster without jobs, and whether its scheduler considers topology."""
    yield racks
    racks[0].clean()


def racks_of(gangs, name):
    """Return the racks of a job's pods that have a node."""
    nodes = {item["metadata"]["name"]: item for item in gangs.plane.get("nodes")["items"]}
    names = [pod["spec"]["nodeName"] for pod in gangs.pods(name) if "nodeName" in pod["spec"]]
    return [nodes[each]["metadata"]["labels"][RACK] for each in names]


def group_of(gangs, name):
    """Return the spec of a job's PodGroup."""
    return gangs.plane.get("podgroups.scheduling.k8s.io", name)["spec"]


def test_a_gang_runs_in_the_only_rack_with_enough_room(cluster):
    gangs, chooses = cluster

    gangs.submit("a", WORKERS, scheduling=IN_A_RACK)

    if chooses:
        gangs.until_running("a", 3)
        assert racks_of(gangs, "a") == ["large"] * 3
        assert group_of(gangs, "a")["schedulingConstraints"] == {"topology": [{"key": RACK}]}
    else:  # the API server drops the field, and the pods follow the first one
        gangs.until_refused("a")
        assert not gangs.running("a")
        assert "schedulingConstraints" not in group_of(gangs, "a")


def test_a_role_in_order_follows_the_gang_into_its_rack(cluster):
    gangs, _ = cluster
    roles = {
        "worker": {"replicas": 2},
        "later": {"waitFor": [{"role": "worker", "until": "Ready"}]},
    }

    gangs.submit("a", roles, supervisor=True, scheduling=IN_A_RACK)

    # The gang is in the small rack, which has no room for a third pod.
    gangs.until_running("a", 2)
    gangs.until_refused("a")
    assert racks_of(gangs, "a") == ["small"] * 2


@pytest.mark.parametrize(("disruption", "left"), [("Pod", 2), ("All", 0)])
def test_a_gang_is_preempted_pod_by_pod_or_as_a_whole(disruption, left, cluster):
    gangs, _ = cluster
    low = {"priorityClassName": "low", "minMember": 1, "disruption": disruption}
    gangs.submit("a", {"worker": {"replicas": 4}}, scheduling=low)
    gangs.until_running("a", 4)
    first = gangs.running("a").keys()

    # Two pods, which the scheduler moves to the two nodes that it prefers.
    gangs.submit("b", {"worker": {"replicas": 2}}, scheduling={"priorityClassName": "high"})
    gangs.until_running("b", 2)

    gangs.plane.until(lambda: len(gangs.running("a").keys() & first) == left, seconds=60)
