"""Fields of pods and Jobs that Kueue needs, except the labels of a group."""

import pytest
from objects.samples import role, topology

from mlgen.jobfile.model import Scheduling, Slice, Together
from mlgen.objects import build
from mlgen.objects.pod import pod_template
from mlgen.objects.workload import workload
from mlgen.topology import Hosts, Wait

KUEUE = Scheduling("kueue", queue="team")
SERVES = {"restart": "Always", "endless": True}
WHOLE = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}


def helper_of(scheduling, resources, *templates):
    """The resources of the helper in a pod with these resources of its containers."""
    waits = (Wait("ps", Hosts("mnist-ps-", 1, ".mnist")),)
    of = role(waits=waits, spec={"resources": resources, "templates": templates})
    [helper] = pod_template(topology(of, scheduling=scheduling), of)["spec"]["initContainers"]
    return helper.get("resources")


@pytest.mark.parametrize(
    ("resources", "kept"),
    [
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, WHOLE),
        ({"limits": {"cpu": "1"}}, {"requests": {"cpu": "50m"}, "limits": {"cpu": "500m"}}),
        ({"limits": {"nvidia.com/gpu": "1"}}, None),
        ({}, None),
    ],
)
def test_a_helper_requests_nothing_that_a_queue_may_not_cover(resources, kept):
    assert helper_of(KUEUE, resources) == kept
    assert helper_of(Scheduling(), resources) == WHOLE


def test_what_the_pod_as_a_whole_requests_is_covered():
    template = {"spec": {"resources": {"requests": {"memory": "4Gi"}}}}

    assert helper_of(KUEUE, {"requests": {"cpu": "1"}}, template) == WHOLE


def test_resources_that_the_user_gives_to_a_helper_stay():
    helper = {"name": "wait-for-peers", "resources": {"limits": {"memory": "1Gi"}}}
    template = {"spec": {"initContainers": [helper]}}

    assert helper_of(KUEUE, {}, template)["limits"] == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(("others", "types"), [((), 1), ((role("ps", **SERVES),), 2)])
def test_a_pod_of_a_group_that_kueue_stops_has_not_failed(others, types):
    of = role()

    manifest = workload(topology(of, *others, scheduling=KUEUE), of)

    [rule] = manifest["spec"]["podFailurePolicy"]["rules"]
    conditions = [each["type"] for each in rule["onPodConditions"]]
    assert conditions == ["DisruptionTarget", "TerminationTarget"][:types]


ENDS = "kueue.x-k8s.io/retriable-in-group"
TOGETHER = "kueue.x-k8s.io/podset-group-name"
POD_SET = "kueue.x-k8s.io/role-hash"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
TOLERANT = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}


def annotations_of(*roles, scheduling=KUEUE):
    """The annotations of the pods of each role, which must be the same except for its name."""
    objects = build(topology(*roles, scheduling=scheduling))
    templates = [item["spec"]["template"]["metadata"] for item in objects if item["kind"] == "Job"]
    all_found = [{**template.get("annotations", {})} for template in templates]
    names = [annotations.pop(POD_SET, None) for annotations in all_found]
    of_group = scheduling is not NONE and len(roles) > 1
    assert names == ([each.name for each in roles] if of_group else [None] * len(roles))
    assert all(found == all_found[0] for found in all_found)
    return all_found[0]


NONE = Scheduling()
RETRIED = {"restart": "ExitCode"}


@pytest.mark.parametrize(
    ("roles", "ended"),
    [
        ((role("chief"), role()), "false"),
        ((role("chief"), role(**RETRIED)), None),
        ((role("chief"), role("ps", **SERVES), role(**RETRIED)), "false"),
        ((role(),), None),
    ],
)
def test_without_a_supervisor_a_group_has_ended_when_no_pod_runs(roles, ended):
    assert annotations_of(*roles).get(ENDS) == ended
    assert ENDS not in annotations_of(*roles, scheduling=NONE)


def rendered(*roles, supervised=True):
    """The Jobs of a job in Kueue by the name of their role."""
    whole = topology(*roles, scheduling=KUEUE)._replace(supervised=supervised)
    jobs = [item for item in build(whole) if item["kind"] == "Job"]
    return {job["metadata"]["labels"]["mlgen.dev/role"]: job for job in jobs}


def test_the_supervisor_ends_a_group():
    chief = role("chief", decides=True, spec={"templates": (TOLERANT,)})

    jobs = rendered(chief, role("ps", **SERVES))

    pods = {name: job["spec"]["template"] for name, job in jobs.items()}
    assert not any(ENDS in pods[name]["metadata"]["annotations"] for name in ("chief", "ps"))
    assert pods["kueue"]["metadata"]["annotations"] == {TOTAL: "4", POD_SET: "chief", ENDS: "false"}
    own, of_chief = pods["kueue"]["metadata"]["labels"], pods["chief"]["metadata"]["labels"]
    group = [name for name in of_chief if name.startswith("kueue")]
    assert {name: own.get(name) for name in group} == {name: of_chief[name] for name in group}
    assert jobs["kueue"]["spec"]["suspend"]
    assert pods["kueue"]["spec"]["tolerations"] == pods["chief"]["spec"]["tolerations"]
    assert "kueue" not in rendered(chief, role(), supervised=False)
    assert "kueue" not in rendered(role(decides=True))


def test_a_role_that_serves_is_a_job_that_restarts_its_pods():
    jobs = rendered(role("chief", decides=True), role("ps", **SERVES))

    assert jobs["ps"]["spec"]["backoffLimit"] == 2**31 - 1
    assert jobs["ps"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    # Kueue deletes pods that are more than the group has.
    assert {jobs[name]["spec"]["podReplacementPolicy"] for name in ("chief", "ps")} == {"Failed"}


def test_what_the_user_says_of_a_group_stays():
    template = {"metadata": {"annotations": {ENDS: "true"}}}
    roles = [role(name, spec={"templates": (template,)}) for name in ("chief", "worker")]

    assert annotations_of(*roles)[ENDS] == "true"


@pytest.mark.parametrize(
    ("roles", "together"),
    [
        ((role("chief", replicas=1), role()), "mnist"),
        ((role("chief"), role()), None),
        ((role("chief", replicas=1), role(), role("ps")), None),
    ],
)
def test_kueue_places_two_roles_together_if_one_has_a_single_pod(roles, together):
    scheduling = Scheduling("kueue", queue="team", topology=Together("rack"))

    assert annotations_of(*roles, scheduling=scheduling).get(TOGETHER) == together
    assert TOGETHER not in annotations_of(*roles)


SLICES = "kueue.x-k8s.io/podset-slice-required-topology"
SIZE = "kueue.x-k8s.io/podset-slice-size"
INDEX = "kueue.x-k8s.io/pod-group-pod-index-label"


@pytest.mark.parametrize(
    ("of", "others", "size", "index"),
    [
        (role(replicas=8), (), "4", None),
        (role(replicas=2), (), "2", None),
        (role(replicas=8), (role("chief"),), "4", "batch.kubernetes.io/job-completion-index"),
    ],
)
def test_kueue_places_consecutive_replicas_together(of, others, size, index):
    placement = Together(slice=Slice("rack", 4))
    laid_out = topology(of, *others, scheduling=Scheduling("kueue", "team", topology=placement))

    annotations = pod_template(laid_out, of)["metadata"]["annotations"]

    assert annotations[SLICES] == "rack"
    assert annotations[SIZE] == size
    assert annotations.get(INDEX) == index
    assert annotations.get("kueue.x-k8s.io/role-hash") == (index and of.name)
    assert not any("podset-required" in name for name in annotations)


@pytest.mark.parametrize(
    ("most", "others", "fields", "annotations", "elastic"),
    [
        (4, (), {}, {}, "true"),
        (4, (), {}, {"kueue.x-k8s.io/elastic-job": "false"}, "false"),
        (4, (), {}, {"kueue.x-k8s.io/job-min-parallelism": "1"}, None),
        (4, (), {"topology": Together("rack")}, {}, None),
        (4, (role("chief"),), {}, {}, None),
        (None, (), {}, {}, None),
    ],
)
def test_kueue_scales_an_elastic_job(most, others, fields, annotations, elastic):
    of = role(max_replicas=most)
    scheduling = Scheduling("kueue", "team", **fields)
    laid_out = topology(of, *others, annotations=annotations, scheduling=scheduling)

    found = workload(laid_out, of)["metadata"].get("annotations", {})

    assert found.get("kueue.x-k8s.io/elastic-job") == elastic


def test_roles_with_slices_are_not_placed_together():
    placement = Together("block", slice=Slice("rack", 4))
    roles = (role("chief", replicas=1), role(replicas=8))
    objects = build(topology(*roles, scheduling=Scheduling("kueue", "team", topology=placement)))

    annotations = [
        item["spec"]["template"]["metadata"]["annotations"]
        for item in objects
        if item["kind"] == "Job"
    ]
    assert [each[SIZE] for each in annotations] == ["1", "4"]
    assert not any(TOGETHER in each for each in annotations)
