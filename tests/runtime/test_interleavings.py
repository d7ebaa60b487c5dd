"""One restart, with a supervisor that dies or falls behind at each of its requests in turn."""

from random import Random

import pytest
from runtime.world import EPOCH, Killed, World

from mlgen.runtime import status
from mlgen.runtime.clock import Clock
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.supervise import Supervisor

PLAN = Plan(
    job="mnist",
    run="r",
    deciding=("mnist-worker",),
    workloads=(
        Workload("Job", "mnist-worker", "worker", replicas=2, retryable=">=128"),
        Workload("StatefulSet", "mnist-ps", "ps", retryable="any"),
    ),
    restart_scope="All",
    backoff_limit=1,
    clean_pod_policy="Running",
)
REQUESTS = 150
"""More requests than a supervisor makes in the scene."""


class Client:
    """Calls `interrupt` before, or after, one of its requests."""

    def __init__(self, world, at=None, interrupt=None, *, after=False):
        self.world, self.at, self.interrupt, self.after = world, at, interrupt, after
        self.calls = 0
        self.clock = Clock(lambda: world.now - EPOCH, lambda: world.now)

    namespace = "team"
    answered = True

    def __getattr__(self, name):
        def call(*arguments, **selectors):
            self.calls += 1
            now = self.calls == self.at
            if now and not self.after:
                self.interrupt()
            result = getattr(self.world, name)(*arguments, **selectors)
            if now and self.after:
                self.interrupt()
            return result

        return call


class Scene:
    """A gang whose first worker is killed once. Later, both succeed."""

    def __init__(self):
        self.world = world = World(Random(3))
        labels = {"labels": {"mlgen.dev/job": "mnist"}}
        job = {"completions": 2, "parallelism": 2, "backoffLimit": 2**31 - 1}
        world.put("ConfigMap", "mnist.status")
        world.put("Job", "mnist-worker", metadata=dict(labels), spec=job)
        world.put("StatefulSet", "mnist-ps", metadata=dict(labels), spec={"replicas": 1})
        self.kills = 1
        world.on_pod_running = self.pod_running

    def pod_running(self, _):
        pods = [p for p in self.world.all("Pod") if self.world.is_running(p)]
        if len(pods) < 3 or any(p.get("trained") for p in pods):
            return  # a replaced pod alone cannot join
        for pod in pods:
            pod["trained"] = True
        workers = [p for p in pods if "worker" in p["metadata"]["name"]]
        code = 137 if self.kills else 0
        self.kills = 0
        for each in workers[:1] if code else workers:
            self.world.after(1.5, self.world.end_pod, each, code)

    def supervisor(self, client):
        return Supervisor(PLAN, client, lambda _: None)

    def play(self, supervisor, seconds):
        """Run one supervisor for a while. It polls at least every five seconds."""
        end = self.world.now + seconds
        while supervisor.exit_code is None and self.world.now < end:
            delay = supervisor.step()
            self.world.advance(self.world.now + min(delay, 5.0))

    def end(self):
        """Return the end of the scene, as the facts of END."""
        data = self.world.get("ConfigMap", "mnist.status")["data"]
        state = status.load(data, "r")
        starts = sum(
            verb == "patch" and name == "mnist-worker" and body["spec"].get("suspend") is False
            for verb, _, name, body in self.world.writes
        )
        return {
            "state": (state.phase, state.code, state.restarts, state.disruptions),
            "starts": starts,
            "servers": self.world.get("StatefulSet", "mnist-ps")["spec"]["replicas"],
            "in time": self.world.now < EPOCH + 600,
        }


END = {"state": ("Ended", 0, 1, 0), "starts": 1, "servers": 0, "in time": True}

requests = pytest.mark.parametrize(
    "requests",
    [
        pytest.param(range(1, REQUESTS, 17), id="some"),
        pytest.param(range(1, REQUESTS), id="all", marks=pytest.mark.slow),
    ],
)


@requests
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_supervisor_that_dies_at_a_request_is_replaced(requests, after):
    def die():
        raise Killed

    def end(at):
        scene = Scene()
        try:
            scene.play(scene.supervisor(Client(scene.world, at, die, after=after)), 300)
        except Killed:
            scene.world.advance(scene.world.now + 3)
            scene.play(scene.supervisor(Client(scene.world)), 300)
        return scene.end()

    assert dict.fromkeys(requests, END) == {at: end(at) for at in requests}


@requests
@pytest.mark.parametrize("seconds", [15, 45])
def test_a_supervisor_that_falls_behind_at_a_request_changes_nothing(requests, seconds):
    def end(at):
        scene = Scene()
        other = scene.supervisor(Client(scene.world))
        slow = scene.supervisor(Client(scene.world, at, lambda: scene.play(other, seconds)))
        scene.play(slow, 400)
        scene.play(other, 400)
        return scene.end() | {"exits": {slow.exit_code, other.exit_code}}

    assert dict.fromkeys(requests, END | {"exits": {0}}) == {at: end(at) for at in requests}


def test_every_request_of_the_scene_is_interrupted():
    scene = Scene()
    client = Client(scene.world)
    scene.play(scene.supervisor(client), 400)

    assert END == scene.end()
    assert client.calls < REQUESTS
