"""Scheduler, gang, nodes and affinity as a pod template patch."""

import pytest
from objects.samples import LATER, at, role, topology

from mlgen.jobfile.model import Placement, Scheduling, Together
from mlgen.objects.placement import is_single_job, patch, pod_count

ZONE = "topology.kubernetes.io/zone"
OF_JOB = {"matchLabels": {"mlgen.dev/job": "mnist"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": OF_JOB, "topologyKey": ZONE}


def patched(*others, of=None, **scheduling):
    of = of or role()
    return patch(topology(of, *others, scheduling=Scheduling(**scheduling)), of)


def test_a_single_job_is_one_role_that_runs_to_completion():
    rows = [
        ([role()], True),
        ([role(restart="Always")], False),
        ([role(gang=True)], False),
        ([role(), role("chief")], False),
        ([role(index=0), role(index=1)], False),
    ]

    assert [single for _, single in rows] == [is_single_job(topology(*roles)) for roles, _ in rows]


def test_all_pods_count_except_those_of_roles_in_order():
    roles = [role(replicas=3), role("ps", replicas=2, serves=True), LATER]

    assert pod_count(topology(*roles)) == 5


@pytest.mark.parametrize("gang", ["kubernetes", "volcano", "coscheduling"])
def test_a_role_in_order_is_not_in_the_gang(gang):
    later, gang = patched(role(), of=LATER, gang=gang), patched(gang=gang)

    assert later["metadata"] == {"labels": {}, "annotations": {}}
    assert later["spec"].get("schedulerName") == gang["spec"].get("schedulerName")
    assert "schedulingGroup" not in later["spec"]


def test_kai_finds_the_queue_of_a_role_in_order_by_its_label():
    later = patched(role(), of=LATER, gang="kai", queue="team")

    assert later["metadata"] == {"labels": {"kai.scheduler/queue": "team"}, "annotations": {}}
    assert later["spec"]["schedulerName"] == "kai-scheduler"


def test_a_tier_without_a_node_label_needs_no_affinity():
    assert "affinity" not in patched(gang="volcano", topology=Together(tier=1))["spec"]


def test_a_job_without_scheduling_fields_is_not_patched():
    assert patched() == {"metadata": {"labels": {}, "annotations": {}}, "spec": {}}


def test_node_selector_tolerations_and_affinity_are_those_of_the_role():
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    spec = {
        "node_selector": {"gpu": "a100"},
        "tolerations": (toleration,),
        "affinity": {"nodeAffinity": {"a": 1}},
    }

    result = patched(of=role(spec=spec), priority_class_name="high", scheduler_name="mine")

    assert result["spec"] == {
        "schedulerName": "mine",
        "priorityClassName": "high",
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [toleration],
        "affinity": {"nodeAffinity": {"a": 1}},
    }


def test_a_gang_has_its_own_scheduler():
    rows = [
        ({"gang": "volcano"}, "volcano"),
        ({"gang": "coscheduling"}, "scheduler-plugins-scheduler"),
        ({"gang": "kubernetes"}, None),
        ({"gang": "kueue", "queue": "q"}, None),
        ({"gang": "kai", "queue": "q"}, "kai-scheduler"),
        ({"gang": "volcano", "scheduler_name": "mine"}, "mine"),
    ]

    assert [scheduler for _, scheduler in rows] == [
        patched(**scheduling)["spec"].get("schedulerName") for scheduling, _ in rows
    ]


@pytest.mark.parametrize(
    ("scheduling", "labels", "annotations"),
    [
        (
            {"gang": "volcano"},
            {},
            {"scheduling.k8s.io/group-name": "mnist", "volcano.sh/task-spec": "worker"},
        ),
        ({"gang": "coscheduling"}, {"scheduling.x-k8s.io/pod-group": "mnist"}, {}),
        (
            {"gang": "kai", "queue": "team"},
            {"kai.scheduler/queue": "team"},
            {"pod-group-name": "mnist", "kai.scheduler/skip-podgrouper": "true"},
        ),
        (
            {"gang": "kueue", "queue": "team"},
            {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/pod-group-name": "mnist"},
            {"kueue.x-k8s.io/pod-group-total-count": "4", "kueue.x-k8s.io/role-hash": "worker"},
        ),
        (
            {"gang": "kueue", "queue": "team", "topology": Together("rack", "preferred")},
            {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/pod-group-name": "mnist"},
            {
                "kueue.x-k8s.io/pod-group-total-count": "4",
                "kueue.x-k8s.io/role-hash": "worker",
                "kueue.x-k8s.io/podset-preferred-topology": "rack",
            },
        ),
    ],
)
def test_pods_are_members_of_their_gang(scheduling, labels, annotations):
    metadata = patched(role("ps"), **scheduling)["metadata"]

    assert metadata == {"labels": labels, "annotations": annotations}


def test_pods_of_a_group_have_the_labels_that_kueue_reads():
    labels = {"kueue.x-k8s.io/priority-class": "high", "team": "ads"}
    workers = role()
    group = topology(
        workers, role("ps"), labels=labels, scheduling=Scheduling("kueue", queue="team")
    )

    metadata = patch(group, workers)["metadata"]

    assert metadata["labels"] == {
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/queue-name": "team",
        "kueue.x-k8s.io/pod-group-name": "mnist",
    }


@pytest.mark.parametrize(
    ("placement", "annotations"),
    [
        (None, {}),
        (Together("rack"), {"kueue.x-k8s.io/podset-required-topology": "rack"}),
    ],
)
def test_kueue_needs_no_pod_group_for_a_single_job(placement, annotations):
    metadata = patched(gang="kueue", queue="team", topology=placement)["metadata"]

    assert metadata == {"labels": {}, "annotations": annotations}


@pytest.mark.parametrize(
    ("mode", "field", "term"),
    [
        ("required", REQUIRED, TERM),
        ("preferred", PREFERRED, {"weight": 100, "podAffinityTerm": TERM}),
    ],
)
def test_pods_of_a_job_are_kept_together(mode, field, term):
    affinity = patched(topology=Together(ZONE, mode))["spec"]["affinity"]

    assert affinity == {"podAffinity": {field: [term]}}


def test_the_affinity_of_the_user_is_kept_and_not_changed():
    of_user = {
        "nodeAffinity": {"a": 1},
        "podAffinity": {REQUIRED: [{"topologyKey": "rack"}], PREFERRED: [{"weight": 1}]},
    }

    spec = patched(of=role(spec={"affinity": of_user}), topology=Together(ZONE))["spec"]

    assert spec["affinity"] == {
        "nodeAffinity": {"a": 1},
        "podAffinity": {REQUIRED: [{"topologyKey": "rack"}, TERM], PREFERRED: [{"weight": 1}]},
    }
    assert of_user["podAffinity"][REQUIRED] == [{"topologyKey": "rack"}]


def test_kueue_keeps_pods_together_by_annotation_alone():
    assert patched(gang="kueue", queue="q", topology=Together(ZONE))["spec"] == {}


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        ("required", {"whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}),
        ("preferred", {"whenUnsatisfiable": "ScheduleAnyway"}),
    ],
)
def test_pods_of_a_job_are_spread(mode, fields):
    constraints = at(patched(spread=Placement(ZONE, mode)), "spec", "topologySpreadConstraints")

    assert constraints == [{"maxSkew": 1, "topologyKey": ZONE, "labelSelector": OF_JOB} | fields]
