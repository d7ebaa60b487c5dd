"""The PodGroup of a gang scheduler."""

import pytest
from objects.samples import LATER, one, role, topology

from mlgen.jobfile.model import Scheduling, Together
from mlgen.objects.placement import pod_group
from mlgen.problems import MlgenError


def container(**requests):
    return {"name": "main", "resources": {"requests": requests}}


def workload(*containers, init=()):
    """A Job or StatefulSet in which only the containers matter."""
    spec = {"containers": list(containers)}
    if init:
        spec["initContainers"] = list(init)
    return {"spec": {"template": {"spec": spec}}}


def spec_of(*workloads, gang="volcano", **scheduling):
    roles = [of for of, _ in workloads]
    laid_out = topology(*roles, scheduling=Scheduling(gang, **scheduling))
    return one(pod_group(laid_out, workloads))["spec"]


def pod_requests(*containers, init=()):
    of = role(replicas=1)
    return spec_of((of, workload(*containers, init=init))).get("minResources")


@pytest.mark.parametrize("gang", ["none", "kueue"])
def test_only_gang_schedulers_with_pod_groups_have_one(gang):
    workloads = [(role(), workload(container()))]

    assert [] == list(pod_group(topology(role(), scheduling=Scheduling(gang)), workloads))


@pytest.mark.parametrize(
    ("gang", "api_version", "own"),
    [
        (
            "volcano",
            "scheduling.volcano.sh/v1beta1",
            {"queue": "team", "priorityClassName": "high"},
        ),
        ("coscheduling", "scheduling.x-k8s.io/v1alpha1", {"scheduleTimeoutSeconds": 60}),
    ],
)
def test_the_pod_group_has_only_fields_of_its_scheduler(gang, api_version, own):
    scheduling = Scheduling(
        gang, queue="team", priority_class_name="high", schedule_timeout_seconds=60
    )
    workloads = [(role(), workload(container(cpu="500m")))]

    group = one(pod_group(topology(role(), scheduling=scheduling), workloads))

    assert api_version == group["apiVersion"]
    assert group["kind"] == "PodGroup"
    assert group["metadata"]["name"] == "mnist"
    assert group["metadata"]["labels"]["app.kubernetes.io/component"] == "gang"
    assert group["spec"] == {"minMember": 2, "minResources": {"cpu": "1"}, **own}


def test_the_pod_group_of_kubernetes():
    workloads = [(role(replicas=3), workload(container(cpu="1"))), (LATER, workload(container()))]
    scheduling = {"gang": "kubernetes", "priority_class_name": "high"}

    spec = spec_of(*workloads, **scheduling)

    assert spec == {"schedulingPolicy": {"gang": {"minCount": 3}}, "priorityClassName": "high"}
    fewer = spec_of(*workloads, **scheduling, min_member=2)
    assert fewer["schedulingPolicy"] == {"gang": {"minCount": 2}}


def test_the_pod_group_of_kai():
    workloads = [(role(replicas=3), workload(container(cpu="1"))), (LATER, workload(container()))]
    scheduling = Scheduling("kai", queue="team", priority_class_name="high")

    group = one(pod_group(topology(role(replicas=3), LATER, scheduling=scheduling), workloads))

    assert group["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert group["spec"] == {"minMember": 3, "queue": "team", "priorityClassName": "high"}


LEVEL = {"requiredTopologyLevel": "rack", "topology": "racks"}


@pytest.mark.parametrize(
    ("gang", "placement", "field", "constraint"),
    [
        ("kubernetes", Together("rack"), "schedulingConstraints", {"topology": [{"key": "rack"}]}),
        ("kubernetes", Together("rack", "preferred"), "schedulingConstraints", None),
        (
            "volcano",
            Together(tier=2),
            "networkTopology",
            {"mode": "hard", "highestTierAllowed": 2},
        ),
        (
            "volcano",
            Together(tier="rack", mode="preferred"),
            "networkTopology",
            {"mode": "soft", "highestTierName": "rack"},
        ),
        ("volcano", Together("rack"), "networkTopology", None),
        ("kai", Together("rack", name="racks"), "topologyConstraint", LEVEL),
        (
            "kai",
            Together("rack", "preferred", name="racks"),
            "topologyConstraint",
            {"preferredTopologyLevel": "rack", "topology": "racks"},
        ),
        ("kai", Together("rack"), "topologyConstraint", None),
        ("coscheduling", Together("rack"), "schedulingConstraints", None),
    ],
)
def test_the_scheduler_chooses_the_domain(gang, placement, field, constraint):
    spec = spec_of((role(), workload(container())), gang=gang, queue="q", topology=placement)

    assert spec.get(field) == constraint


@pytest.mark.parametrize(("disruption", "mode"), [("Pod", None), ("All", {"all": {}})])
def test_all_pods_are_preempted_together_if_the_user_requests_it(disruption, mode):
    spec = spec_of((role(), workload(container())), gang="kubernetes", disruption=disruption)

    assert spec.get("disruptionMode") == mode


def test_roles_in_order_do_not_count():
    workloads = [(role(), workload(container(cpu="1"))), (LATER, workload(container(cpu="9")))]

    assert spec_of(*workloads) == {"minMember": 2, "minResources": {"cpu": "2"}}


def test_unset_fields_are_omitted():
    assert spec_of((role(), workload({"name": "main"}))) == {"minMember": 2}


def test_by_default_all_pods_of_all_roles_are_members():
    workloads = [
        (role(replicas=3), workload(container(cpu="2", memory="1Gi"))),
        (role("ps", replicas=2), workload(container(cpu="1"))),
    ]

    assert spec_of(*workloads) == {
        "minMember": 5,
        "minResources": {"cpu": "8", "memory": "3Gi"},
    }


@pytest.mark.parametrize(
    ("min_member", "cpu"),
    [(0, None), (1, "8"), (2, "9"), (4, "11"), (5, "111"), (6, "211"), (7, "211")],
)
def test_of_a_minimum_the_deciding_role_counts_first(min_member, cpu):
    workloads = [
        (role("worker", replicas=3), workload(container(cpu="1"))),
        (role("ps", replicas=2), workload(container(cpu="100"))),
        (role("chief", replicas=1, decides=True), workload(container(cpu="8"))),
    ]

    spec = spec_of(*workloads, min_member=min_member)

    assert spec["minMember"] == min_member
    assert cpu == spec.get("minResources", {}).get("cpu")


def test_the_resources_of_the_user_replace_the_sum():
    spec = spec_of((role(), workload(container(cpu="1"))), min_resources={"cpu": "7"})

    assert spec["minResources"] == {"cpu": "7"}


def test_containers_of_a_pod_add_up():
    assert pod_requests(container(cpu="1", memory="1Gi"), container(cpu="500m")) == {
        "cpu": "1500m",
        "memory": "1Gi",
    }


def test_a_resource_without_a_request_counts_by_its_limit():
    resources = {"limits": {"cpu": 4, "nvidia.com/gpu": 8}, "requests": {"cpu": 2}}

    assert pod_requests({"name": "main", "resources": resources}) == {
        "cpu": "2",
        "nvidia.com/gpu": "8",
    }


@pytest.mark.parametrize(("init_cpu", "cpu"), [("1", "2"), ("2", "2"), ("2001m", "2001m")])
def test_an_init_container_counts_if_it_needs_more_than_all_containers(init_cpu, cpu):
    main = (container(cpu="1"), container(cpu="1"))

    assert pod_requests(*main, init=[container(cpu=init_cpu)]) == {"cpu": cpu}


def test_init_containers_run_one_after_the_other():
    init = [container(cpu="3", memory="1Gi"), container(cpu="4"), container(cpu="2")]

    assert pod_requests(container(cpu="1"), init=init) == {"cpu": "4", "memory": "1Gi"}


def test_a_sidecar_counts_with_the_containers():
    sidecar = container(cpu="3") | {"restartPolicy": "Always"}

    assert pod_requests(container(cpu="2"), init=[container(cpu="4"), sidecar]) == {"cpu": "5"}


def test_a_sidecar_counts_with_the_init_containers_after_it():
    sidecar = container(cpu="3") | {"restartPolicy": "Always"}

    assert pod_requests(container(cpu="2"), init=[sidecar, container(cpu="4")]) == {"cpu": "7"}


@pytest.mark.parametrize(
    "of_pod",
    [
        workload(container(cpu="2 cores")),
        workload(container(cpu="1"), init=[container(memory="2 cores")]),
        workload(container(cpu="1"), init=[container(cpu="2 cores")]),
    ],
)
def test_a_request_that_is_not_an_amount_is_an_error_of_the_template(of_pod):
    with pytest.raises(MlgenError) as error:
        spec_of((role(index=0), of_pod))

    problem = one(error.value.problems)
    assert problem.path == ("spec", "roles", "worker", "template")
    assert problem.code == "bad-value"
    assert "2 cores" in problem.message
