"""The resources of a pod: its containers together, or an init container with its sidecars."""

import pytest

from mlgen.kubernetes import quantity


def container(*, sidecar=False, limits=(), **requests):
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return policy | {"resources": {"requests": requests, "limits": dict(limits)}}


def pod(*containers, init=(), **fields):
    return {"containers": list(containers), "initContainers": list(init), **fields}


SIDECAR = container(sidecar=True, cpu="3")


def test_the_scheduler_reserves_the_largest_amount_at_any_time():
    rows = [
        (pod(container(cpu="1", memory="1Gi"), container(cpu=1)), {"cpu": "2", "memory": "1Gi"}),
        (pod(container(cpu="1"), init=[container(cpu="2"), container(cpu="2")]), {"cpu": "2"}),
        (pod(container(cpu="2"), init=[container(cpu="4"), SIDECAR]), {"cpu": "5"}),
        (pod(container(cpu="2"), init=[SIDECAR, container(cpu="4")]), {"cpu": "7"}),
        (pod(container(limits={"cpu": "2"}), container(cpu="1", limits={"cpu": 9})), {"cpu": "3"}),
        (
            pod(container(cpu="1", memory="1"), resources={"requests": {"cpu": "8"}}),
            {"cpu": "8", "memory": "1"},
        ),
        ({"containers": [{"name": "main"}], "initContainers": None}, {}),
    ]

    assert [requests for _, requests in rows] == [quantity.requests(spec) for spec, _ in rows]


def test_a_container_without_a_limit_may_use_all_of_the_node():
    rows = [
        (pod(container(limits={"cpu": 1}), container(limits={"cpu": 2})), {"cpu": "3"}),
        (pod(container(limits={"cpu": 1, "a/gpu": 8}), container()), {"a/gpu": "8"}),
        (pod(container(limits={"cpu": 1}), init=[SIDECAR]), {}),
        (pod(container(limits={"cpu": 1}), init=[container()]), {"cpu": "1"}),
        (pod(container(), resources={"limits": {"cpu": "8"}}), {"cpu": "8"}),
    ]

    assert [limits for _, limits in rows] == [quantity.limits(spec) for spec, _ in rows]


def test_init_containers_do_not_run_while_the_pod_does():
    spec = pod(container(cpu=1), init=[container(memory=1), container(sidecar=True, disk=1)])

    assert {"cpu", "disk"} == quantity.lasting(spec, "requests").keys()


def test_an_amount_that_is_none_is_an_error():
    with pytest.raises(ValueError, match='"2 cores" is not a quantity'):
        quantity.requests(pod(container(cpu="2 cores"), container(cpu="1")))
