"""The Job or StatefulSet of a role."""

import pytest
from objects.samples import role, topology

from mlgen.jobfile.model import RunPolicy, Scheduling
from mlgen.objects.pod import pod_template
from mlgen.objects.workload import workload
from mlgen.topology import Success

IGNORE_DISRUPTION = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def built(of=None, *others, supervised=False, **fields):
    of = of or role()
    return workload(topology(of, *others, supervised=supervised, **fields), of)


def spec_of(of=None, **fields):
    """The spec of a Job without its template."""
    return {key: value for key, value in built(of, **fields)["spec"].items() if key != "template"}


def test_a_role_that_serves_is_a_stateful_set_that_starts_all_pods_at_once():
    of = role("ps", serves=True, replicas=3)

    assert built(of) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "mnist-ps", "labels": built(of)["metadata"]["labels"]},
        "spec": {
            "serviceName": "mnist",
            "podManagementPolicy": "Parallel",
            "replicas": 3,
            "selector": {"matchLabels": {"mlgen.dev/job": "mnist", "mlgen.dev/role": "ps"}},
            "template": pod_template(topology(of), of),
        },
    }
    assert built(of)["metadata"]["labels"]["mlgen.dev/role"] == "ps"


def test_a_suspended_stateful_set_has_no_replicas():
    of = role(serves=True, replicas=3)

    assert built(of, run_policy=RunPolicy(suspend=True))["spec"]["replicas"] == 0


def test_any_other_role_is_an_indexed_job():
    of = role(decides=True)

    manifest = built(of)

    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
    assert manifest["metadata"]["name"] == "mnist-worker"
    assert manifest["metadata"]["labels"]["mlgen.dev/decides"] == "true"
    assert manifest["spec"] == {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [IGNORE_DISRUPTION]},
        "template": pod_template(topology(of), of),
    }


def test_a_replica_with_a_job_of_its_own_is_not_indexed():
    manifest = built(role(index=1, replicas=1))

    assert manifest["metadata"]["name"] == "mnist-worker-1"
    assert "completionMode" not in manifest["spec"]
    assert "completions" not in manifest["spec"]


@pytest.mark.parametrize("suspend", [True, False])
def test_a_job_is_suspended_by_the_run_policy(suspend):
    assert suspend == ("suspend" in spec_of(run_policy=RunPolicy(suspend=suspend)))


KUEUE = Scheduling("kueue", queue="team")


@pytest.mark.parametrize("suspend", [True, False])
def test_only_kueue_suspends_a_single_job_of_its_queue(suspend):
    """Otherwise, a second kubectl apply would stop it."""
    manifest = built(scheduling=KUEUE, run_policy=RunPolicy(suspend=suspend))

    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "suspend" not in manifest["spec"]


@pytest.mark.parametrize(
    ("others", "scheduling"),
    [([role("ps")], KUEUE), ([], Scheduling("volcano", queue="team"))],
)
def test_no_other_job_waits_for_kueue(others, scheduling):
    """Kueue holds the pods of a group, and does not resume its Jobs."""
    policy = RunPolicy(suspend=scheduling is KUEUE)
    manifest = built(role(), *others, scheduling=scheduling, run_policy=policy)

    assert "kueue.x-k8s.io/queue-name" not in manifest["metadata"]["labels"]
    assert "suspend" not in manifest["spec"]


@pytest.mark.parametrize(
    ("of_role", "of_job", "deadline"),
    [(None, None, None), (None, 60, 60), (30, None, 30), (30, 60, 30), (90, 60, 90)],
)
def test_the_deadline_of_a_role_overrides_that_of_the_job(of_role, of_job, deadline):
    spec = spec_of(
        role(spec={"active_deadline_seconds": of_role}),
        run_policy=RunPolicy(active_deadline_seconds=of_job),
    )

    assert deadline == spec.get("activeDeadlineSeconds")


@pytest.mark.parametrize(
    ("ttl", "supervised", "expected"),
    [
        (None, False, None),
        (0, False, 0),
        (599, False, 599),
        (599, True, None),
    ],
)
def test_a_supervised_job_is_deleted_with_the_whole_set(ttl, supervised, expected):
    spec = spec_of(supervised=supervised, run_policy=RunPolicy(ttl_seconds_after_finished=ttl))

    assert expected == spec.get("ttlSecondsAfterFinished")


@pytest.mark.parametrize(
    ("replicas", "success", "rules"),
    [
        (2, None, None),
        (2, Success(indexes="0"), [{"succeededIndexes": "0"}]),
        (2, Success(count=1), [{"succeededCount": 1}]),
        (3, Success("0-1", 2), [{"succeededIndexes": "0-1", "succeededCount": 2}]),
        (1, Success(indexes="0"), None),
    ],
)
def test_one_replica_needs_no_success_policy(replicas, success, rules):
    spec = spec_of(role(replicas=replicas, success=success))

    assert rules == spec.get("successPolicy", {}).get("rules")


@pytest.mark.parametrize(
    ("restart", "of_role", "limit"),
    [
        ("Never", None, 4),
        ("Never", 0, 0),
        ("Workflow", None, 0),
        ("OnFailure", None, 4),
        ("ExitCode", None, 4),
        ("Never", 2, 2),
        ("Workflow", 2, 2),
        ("OnFailure", 0, 0),
        ("ExitCode", 0, 0),
    ],
)
def test_the_backoff_limit_of_all_replicas_together(restart, of_role, limit):
    spec = spec_of(
        role(restart=restart, spec={"backoff_limit": of_role}),
        run_policy=RunPolicy(backoff_limit=4),
    )

    assert limit == spec["backoffLimit"]
    assert "backoffLimitPerIndex" not in spec
    assert "maxFailedIndexes" not in spec


def test_the_default_of_the_backoff_limit():
    rows = [("Never", 0), ("Workflow", 0), ("OnFailure", 6), ("ExitCode", 6)]

    assert [spec_of(role(restart=restart))["backoffLimit"] for restart, _ in rows] == [
        limit for _, limit in rows
    ]


def limits(of):
    """The backoff limit per index, the maximum of failed indexes and the common backoff limit."""
    spec = spec_of(of, run_policy=RunPolicy(backoff_limit=4))
    return tuple(
        spec.get(name) for name in ("backoffLimitPerIndex", "maxFailedIndexes", "backoffLimit")
    )


def test_a_role_that_tolerates_failure_counts_each_replica_by_itself():
    rows = [
        ({"restart": "ExitCode"}, {}, (4, 3, None)),
        ({"restart": "Never"}, {}, (4, 3, None)),
        ({"restart": "ExitCode"}, {"backoff_limit": 1}, (1, 3, None)),
        ({"restart": "ExitCode"}, {"max_failed_indexes": 0}, (4, 0, None)),
        ({"restart": "ExitCode"}, {"backoff_limit_per_index": 2}, (2, 3, None)),
        ({"restart": "OnFailure"}, {}, (None, None, 4)),
        ({"restart": "ExitCode", "index": 0}, {}, (None, None, 4)),
    ]

    assert [expected for _, _, expected in rows] == [
        limits(role(replicas=3, tolerates_failure=True, spec=spec, **fields))
        for fields, spec, _ in rows
    ]


def test_the_limits_of_the_user():
    rows = [
        ({"backoff_limit_per_index": 0}, (0, None, None)),
        ({"backoff_limit_per_index": 2}, (2, None, None)),
        ({"backoff_limit_per_index": 2, "backoff_limit": 9}, (2, None, 9)),
        ({"backoff_limit_per_index": 2, "backoff_limit": 0}, (2, None, 0)),
        ({"backoff_limit_per_index": 2, "max_failed_indexes": 1}, (2, 1, None)),
        ({"max_failed_indexes": 1}, (None, None, 4)),
    ]

    assert [expected for _, expected in rows] == [
        limits(role(restart="ExitCode", spec=spec)) for spec, _ in rows
    ]


@pytest.mark.parametrize("restart", ["OnFailure", "Workflow"])
def test_pods_that_restart_and_workflows_have_no_pod_failure_policy(restart):
    assert "podFailurePolicy" not in spec_of(role(restart=restart))


@pytest.mark.parametrize(
    ("spec", "operator", "codes"),
    [
        ({}, "In", list(range(1, 128))),
        ({"retryable_exit_codes": (137, 130)}, "NotIn", [130, 137]),
    ],
)
def test_exit_codes_that_are_not_retried_fail_the_job(spec, operator, codes):
    of = role(restart="ExitCode", spec={"main_container": "train", **spec})

    assert spec_of(of)["podFailurePolicy"]["rules"] == [
        IGNORE_DISRUPTION,
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "train", "operator": operator, "values": codes},
        },
    ]


def test_a_permanent_exit_code_fails_only_its_index_if_each_counts_by_itself():
    of = role(restart="ExitCode", spec={"backoff_limit_per_index": 0})

    assert spec_of(of)["podFailurePolicy"]["rules"][1]["action"] == "FailIndex"


@pytest.mark.parametrize(
    ("maximum", "annotations"), [(3, {"mlgen.dev/max-replicas": "3"}), (2, {})]
)
@pytest.mark.parametrize("serves", [True, False])
def test_a_workload_that_can_grow_says_how_far(serves, maximum, annotations):
    manifest = built(role(serves=serves, max_replicas=maximum))

    assert manifest["metadata"].get("annotations", {}) == annotations
