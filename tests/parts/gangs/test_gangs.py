"""Rendered gangs start together or not at all, under each gang scheduler."""

import pytest
from parts.supervisor import kill

pytestmark = pytest.mark.long

TWO_ROLES = {"chief": {}, "worker": {"replicas": 3}}
THREE_PODS = {"chief": {}, "worker": {"replicas": 2}}
FIVE_PODS = {"chief": {}, "worker": {"replicas": 4}}
ROUNDS = 50


def test_a_gang_that_fits_starts_at_once(gangs):
    gangs.submit("a", TWO_ROLES)

    gangs.until_running("a", 4)


def test_a_gang_that_does_not_fit_starts_nothing_until_a_node_is_added(gangs):
    gangs.submit("a", FIVE_PODS, supervisor=True)
    gangs.until_refused("a")

    # The supervisor is not in the gang, and other pods use the GPUs meanwhile.
    supervisor = ("get", "job", "a-supervisor", "-o", "jsonpath={.status.ready}")
    gangs.plane.until(lambda: gangs.plane.kubectl(*supervisor) == "1", seconds=60)
    gangs.submit("b", {"worker": {}}, lasts="1s", scheduling={"gang": "none"})
    gangs.until_complete("b")
    assert gangs.bound("a") == 0

    gangs.add_node()
    gangs.until_running("a", 5)


def test_room_returns_at_the_end(gangs):
    gangs.submit("a", TWO_ROLES, lasts="2s")
    gangs.until_running("a", 4)
    gangs.submit("b", TWO_ROLES)

    gangs.until_running("b", 4)
    assert gangs.is_complete("a")


def test_all_start_again_together_in_their_own_room(gangs):
    policy = {"restartScope": "All"}
    gangs.submit("a", TWO_ROLES, supervisor=True, runPolicy=policy, restartPolicy="OnFailure")
    gangs.until_running("a", 4)
    first = gangs.running("a")

    kill(gangs.plane, next(iter(first.values())))
    gangs.plane.until(lambda: len(gangs.running("a").keys() - first) == 4, seconds=120)


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other(gangs):
    for number in range(ROUNDS):
        names = [f"a{number}", f"b{number}"]
        for name in names:
            gangs.submit(name, THREE_PODS, lasts="500ms")
        gangs.until_complete(*names)
        gangs.clean()


def test_a_gang_may_start_with_fewer_pods_than_it_has(gangs):
    gangs.submit("a", FIVE_PODS, scheduling={"minMember": 3})

    gangs.until_running("a", 4)
    gangs.add_node()
    gangs.until_running("a", 5)


def test_roles_in_order_are_not_in_the_gang(gangs):
    workers = {"replicas": 4, "waitFor": [{"role": "prepare", "until": "Complete"}]}
    prepare = {"template": {"metadata": {"annotations": {"test/lasts": "2s"}}}}
    roles = {"worker": workers, "prepare": {"replicas": 2, **prepare}}
    gangs.submit("a", roles, supervisor=True)

    gangs.plane.until(lambda: gangs.phases("a") == ["Running"] * 4 + ["Succeeded"] * 2, seconds=120)


def test_a_drained_pod_comes_back_to_its_gang(gangs):
    gangs.submit("a", TWO_ROLES, restartPolicy="OnFailure")
    gangs.until_running("a", 4)

    first = gangs.running("a")
    gangs.plane.kubectl("delete", "pod", next(iter(first.values())), "--wait=false")
    gangs.plane.until(lambda: gangs.running("a").keys() - first, seconds=60)
    gangs.until_running("a", 4)


def test_a_pod_waits_if_others_of_the_gang_have_succeeded(gangs):
    ends = {"template": {"metadata": {"annotations": {"test/lasts": "1s"}}}}
    roles = {"chief": {}, "worker": {"replicas": 2}, "evaluator": ends}
    gangs.submit("a", roles, restartPolicy="OnFailure")
    gangs.plane.until(lambda: gangs.phases("a") == ["Running"] * 3 + ["Succeeded"], seconds=60)

    pod = next(name for name in gangs.running("a").values() if name.startswith("a-worker-0"))
    gangs.plane.kubectl("delete", "pod", pod, "--wait=false")
    gangs.plane.until(
        lambda: gangs.phases("a") == ["Pending", *["Running"] * 2, "Succeeded"], seconds=60
    )

    # A node with enough resources is free.
    gangs.submit("b", {"worker": {}}, lasts="1s", scheduling={"gang": "none"})
    gangs.until_complete("b")
    assert gangs.bound("a") == 3


def test_an_elastic_gang_goes_on_with_its_minimum(gangs):
    elastic = {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}
    fields = {"framework": "pytorch", "options": elastic, "scheduling": {"minMember": 2}}
    gangs.submit("a", {"worker": {"replicas": 4}}, restartPolicy="OnFailure", **fields)
    gangs.until_running("a", 4)

    scaled = '{"spec": {"completions": 2, "parallelism": 2}}'
    gangs.plane.kubectl("patch", "job", "a-worker", "-p", scaled)
    gangs.until_running("a", 2)
    first = gangs.running("a")
    gangs.plane.kubectl("delete", "pod", next(iter(first.values())), "--wait=false")
    gangs.plane.until(lambda: gangs.running("a").keys() - first, seconds=60)
    gangs.until_running("a", 2)
