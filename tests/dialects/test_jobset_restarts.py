"""`failurePolicy` of a JobSet → which roles restart together, after which exit codes, how often."""

import pytest
from dialects.test_jobset import convert, depends, jobset, on_exit, replicated, role

ENDLESS = 2147483647
ALL_CODES = set(range(1, 256))
RESTART, FAIL, ALONE = "RestartJobSet", "FailJobSet", "RestartJob"
UNCOUNTED, UNCOUNTED_ALONE = f"{RESTART}AndIgnoreMaxRestarts", f"{ALONE}AndIgnoreMaxRestarts"
ON_DISRUPTION = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}
ON_CONFIG_ISSUE = {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]}
IGNORED_DISRUPTION = ON_DISRUPTION | {"action": "Ignore"}


def job(name="worker", *, rules=None, pods=2, limit=0, more=None, **fields):
    """A replicated Job that fails with its first pod."""
    spec = {"completions": pods, "parallelism": pods, "backoffLimit": limit}
    policy = {"podFailurePolicy": {"rules": rules}} if rules else {}
    spec = {k: v for k, v in (spec | policy | (more or {})).items() if v is not None}
    return replicated(name, job=spec, **fields)


def per_index(name="worker", **fields):
    return job(name, limit=None, more={"backoffLimitPerIndex": 1}, **fields)


def rule(action, *targets, reasons=(), **fields):
    on = {"targetReplicatedJobs": list(targets), "onJobFailureReasons": list(reasons)}
    return {"action": action} | {k: v for k, v in on.items() if v} | fields


def failing(*jobs, rules=(), restarts=3, **fields):
    policy = {"maxRestarts": restarts} if restarts else {}
    return jobset(*jobs, failurePolicy=policy | ({"rules": list(rules)} if rules else {}), **fields)


def scope(resource):
    """The restart scope and the number of restarts."""
    policy = convert(resource)[0].get("runPolicy", {})
    return policy.get("restartScope"), policy.get("backoffLimit")


def retries(resource, name="worker-0"):
    """The restart policy and the limit of a role, and the exit codes that it does not retry."""
    fields = role(resource, name)
    retried = fields.get("retryableExitCodes")
    permanent = sorted(ALL_CODES - set(retried)) if retried else None
    return fields["restartPolicy"], fields.get("backoffLimit"), permanent


def warnings(resource):
    """The path, without `spec.`, and message of each warning."""
    return [(path.removeprefix("spec."), text) for path, text in convert(resource)[1]]


ONLY_DISRUPTIONS = [rule(UNCOUNTED, reasons=["PodFailurePolicy"])]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(failing(job()), ("All", 3), id="default"),
        pytest.param(failing(job(), rules=[rule(RESTART)]), ("All", 3), id="restart"),
        pytest.param(failing(job(pods=1), job("b", pods=1)), ("All", 3), id="single-pods"),
        pytest.param(failing(job(), job("b", replicas=0)), ("All", 3), id="no-jobs"),
        pytest.param(
            failing(job(), job("b"), rules=[rule(FAIL, "b")]), ("All", 3), id="other-target"
        ),
        pytest.param(
            failing(job(), rules=[rule(FAIL, reasons=["DeadlineExceeded"])]),
            ("All", 3),
            id="other-reason",
        ),
        pytest.param(
            failing(job(), rules=[rule(UNCOUNTED)], restarts=0), ("All", ENDLESS), id="endless"
        ),
        pytest.param(
            failing(job(rules=[ON_DISRUPTION]), rules=ONLY_DISRUPTIONS, restarts=0),
            ("All", 0),
            id="disruptions",
        ),
        pytest.param(failing(job(), job("b", limit=2)), ("All", 3), id="own-retries"),
        pytest.param(
            failing(job(rules=[on_exit("FailJob", 1)], limit=2)), ("All", 11), id="both-retries"
        ),
        pytest.param(
            failing(job(rules=[ON_DISRUPTION], limit=2)), ("All", 0), id="retries-and-disruptions"
        ),
        pytest.param(failing(job(), per_index("b")), (["worker-0"], 3), id="per-index"),
        pytest.param(
            failing(job(replicas=2), per_index("b")),
            (["worker-0", "worker-1"], 3),
            id="two-of-three",
        ),
        pytest.param(failing(job(), rules=[rule(ALONE)]), ("All", 3), id="alone"),
        pytest.param(failing(job(), rules=[rule("RecreateJob")]), ("All", 3), id="recreate"),
        pytest.param(
            failing(job(), job("b"), rules=[rule(ALONE, "worker"), rule(FAIL)]),
            (["worker-0"], 3),
            id="one-alone",
        ),
    ],
)
def test_jobs_restart_together(resource, expected):
    assert scope(resource) == expected


def test_a_failed_pod_is_replaced_alone():
    rows = [
        jobset(job()),
        failing(job(), restarts=0),
        failing(job(), rules=[rule(RESTART)], restarts=0),
        failing(job(), rules=[rule(FAIL), rule(RESTART)]),
        failing(job(pods=1)),
        failing(job(pods=1), job("b", pods=1), rules=[rule(ALONE)]),
        failing(job(), job("b"), rules=[rule(ALONE)]),
        failing(job(limit=1), job("b", limit=None)),
        failing(per_index()),
    ]

    assert [scope(resource) for resource in rows] == [(None, None) for resource in rows]


@pytest.mark.parametrize(
    ("rules", "policy", "expected"),
    [
        ([], [], ("OnFailure", None, None)),
        ([], [rule(UNCOUNTED)], ("OnFailure", None, None)),
        ([], [rule(FAIL, "worker")], ("Never", None, None)),
        ([on_exit("FailJob", 1)], [], ("OnFailure", None, None)),
        (
            [on_exit("FailJob", 1, 2)],
            [rule(FAIL, reasons=["PodFailurePolicy"])],
            ("ExitCode", None, [1, 2]),
        ),
        (
            [on_exit("FailJob", *range(1, 128))],
            [rule(FAIL, reasons=["PodFailurePolicy"])],
            ("ExitCode", None, None),
        ),
        (
            [on_exit("FailJob", 143)],
            [rule(FAIL, reasons=["BackoffLimitExceeded"])],
            ("ExitCode", None, sorted(ALL_CODES - {143})),
        ),
    ],
    ids=["any", "uncounted", "target", "any-reason", "codes", "default-codes", "other-codes"],
)
def test_exit_codes_restart_all_jobs_or_fail_the_set(rules, policy, expected):
    resource = failing(job(rules=rules), job("b"), rules=policy)

    assert retries(resource) == expected
    assert scope(resource)[0] == "All"


@pytest.mark.parametrize(
    ("codes", "more"), [((1,), ""), ((1, 143), "143"), ((137, 143), "137 or 143")]
)
def test_pods_that_the_system_ends_restart_all_jobs_whatever_the_rules(codes, more):
    fails = [rule(FAIL, reasons=["PodFailurePolicy"])]
    resource = failing(job(rules=[on_exit("FailJob", *codes)]), job("b"), rules=fails)

    text = f"does not restart all pods after exit code {more}; mlgen does"
    assert [text in message for _, message in warnings(resource)] == [True] * bool(more)


def test_a_pod_is_replaced_as_often_as_in_all_restarts_of_jobset():
    rows = [
        (failing(job(pods=1)), ("Never", 3, None)),
        (failing(job(pods=1, limit=None)), ("Never", 27, None)),
        (failing(job(pods=1), rules=[rule(UNCOUNTED)], restarts=0), ("Never", ENDLESS, None)),
        (
            failing(
                job(pods=1, rules=[on_exit("FailJob", 143, operator="NotIn")]),
                rules=[rule(FAIL, reasons=["PodFailurePolicy"])],
            ),
            ("ExitCode", 3, sorted(ALL_CODES - {143})),
        ),
        (
            failing(
                job(pods=1, rules=[on_exit("FailJob", 143)]), rules=ONLY_DISRUPTIONS, restarts=0
            ),
            ("ExitCode", ENDLESS, sorted(ALL_CODES - {143})),
        ),
        (failing(job(), job("b"), rules=[rule(ALONE)]), ("Never", 3, None)),
        (failing(job(limit=1), job("b", limit=2)), ("Never", 7, None)),
        (failing(job(), restarts=0), ("Never", 0, None)),
        (failing(job(limit=2), job("b"), rules=[rule(FAIL, "worker")]), ("Never", 2, None)),
        (failing(job(limit=None), job("b"), rules=[rule(FAIL, "worker")]), ("Never", 6, None)),
    ]

    assert [retries(resource) for resource, _ in rows] == [expected for _, expected in rows]


def test_a_job_with_retries_keeps_them_among_others_that_restart_together():
    resource = failing(job(), job("b", limit=2), job("c", limit=2), rules=[rule(FAIL, "c")])

    roles = convert(resource)[0]["roles"]

    assert {name: fields.get("restartScope") for name, fields in roles.items()} == {
        "worker-0": None,
        "b-0": "Replica",
        "c-0": "Replica",
    }
    assert roles["b-0"]["backoffLimit"] == 11
    assert roles["c-0"]["backoffLimit"] == 2
    assert warnings(resource) == [
        (
            "replicatedJobs[1].template.spec.backoffLimit",
            (
                "JobSet restarts all Jobs when more than 2 pods of b have failed;"
                " mlgen replaces up to 11 one by one"
            ),
        )
    ]


def test_what_works_differently_is_a_warning():
    rows = [
        (
            failing(job(), rules=[rule(RESTART, onJobFailureMessagePatterns=["a"])]),
            "failurePolicy.rules[0].onJobFailureMessagePatterns",
            "mlgen ignores this rule, because it cannot match the messages of failed Jobs",
        ),
        (
            failing(job(), job("b"), rules=[rule(UNCOUNTED, "b")]),
            "failurePolicy.rules[0]",
            "JobSet limits the restarts after other failures; mlgen does not",
        ),
        (
            failing(job(pods=1, rules=[on_exit("FailJob", 143)]), rules=ONLY_DISRUPTIONS),
            "failurePolicy.rules[0]",
            "JobSet limits the restarts after other failures; mlgen does not",
        ),
        (
            failing(job(more={"activeDeadlineSeconds": 9})),
            "replicatedJobs[0].template.spec.activeDeadlineSeconds",
            "after activeDeadlineSeconds, JobSet restarts all Jobs; with mlgen, the job fails",
        ),
        (
            failing(job(), job("b"), rules=[rule(ALONE, "b")]),
            "failurePolicy.rules[0]",
            "JobSet restarts only the Job that has failed; mlgen restarts all Jobs",
        ),
        (
            failing(job(replicas=2), rules=[rule(ALONE)]),
            "failurePolicy.rules[0]",
            (
                "JobSet recreates all pods of a failed Job;"
                " mlgen replaces up to 3 failed pods of worker one by one"
            ),
        ),
        (
            failing(job(rules=[on_exit("FailJob", 1)], limit=2)),
            "replicatedJobs[0].template.spec.backoffLimit",
            (
                "JobSet first replaces 2 failed pods of worker;"
                " mlgen restarts all Jobs after each failure"
            ),
        ),
        (
            failing(job(limit=None)),
            "replicatedJobs[0].template.spec",
            (
                "JobSet restarts all Jobs when more than 6 pods of worker have failed;"
                " mlgen replaces up to 27 one by one"
            ),
        ),
        (
            failing(job(), per_index("b"), rules=[rule(FAIL, "b")]),
            "failurePolicy.rules[0]",
            "JobSet also restarts b; mlgen does not, because b has backoffLimitPerIndex",
        ),
        (
            failing(per_index("b")),
            "failurePolicy",
            "JobSet also restarts b; mlgen does not, because b has backoffLimitPerIndex",
        ),
        (
            failing(job(rules=[IGNORED_DISRUPTION])),
            "replicatedJobs[0].template.spec.podFailurePolicy.rules[0].onPodConditions[0]",
            "JobSet replaces a drained or preempted pod alone; mlgen restarts all Jobs",
        ),
        (
            failing(job(rules=[ON_DISRUPTION]), rules=[rule(FAIL, reasons=["PodFailurePolicy"])]),
            "replicatedJobs[0].template.spec.podFailurePolicy.rules[0].onPodConditions[0]",
            "mlgen replaces a drained or preempted pod, and does not count it as a failure",
        ),
        (
            failing(job(rules=[ON_CONFIG_ISSUE])),
            "replicatedJobs[0].template.spec.podFailurePolicy.rules[0].onPodConditions[0]",
            "mlgen ignores the pod condition ConfigIssue",
        ),
        (
            failing(job(rules=[on_exit("Ignore", 1)])),
            "replicatedJobs[0].template.spec.podFailurePolicy.rules[0].action",
            "JobSet does not count these failures; mlgen restarts all Jobs",
        ),
    ]

    assert [warnings(resource) for resource, _, _ in rows] == [
        [(path, message)] for _, path, message in rows
    ]


def test_what_jobset_does_too_is_no_warning():
    rows = [
        failing(job()),
        failing(job(rules=[ON_DISRUPTION]), rules=ONLY_DISRUPTIONS, restarts=0),
        failing(job("a"), job("b", dependsOn=depends("a", "Complete"))),
        failing(job(), rules=[rule(ALONE)]),
        failing(job(pods=1, replicas=2), rules=[rule(ALONE)]),
        failing(job(pods=1, limit=None)),
        failing(job(more={"activeDeadlineSeconds": 9}), rules=[rule(FAIL)]),
        failing(job(), rules=[rule(FAIL, reasons=["MaxFailedIndexesExceeded"])]),
        failing(per_index(), rules=[rule(FAIL)]),
        failing(job(more={"podReplacementPolicy": "Failed"})),
    ]

    assert [warnings(resource) for resource in rows] == [[] for resource in rows]


@pytest.mark.parametrize(("strategy", "count"), [("BlockingRecreate", 0), ("InPlaceRestart", 1)])
def test_pods_are_recreated_and_not_restarted_in_place(strategy, count):
    resource = failing(job())
    resource["spec"]["failurePolicy"]["restartStrategy"] = strategy

    message = "JobSet restarts the containers in place; mlgen recreates all pods"
    assert warnings(resource) == [("failurePolicy.restartStrategy", message)] * count


@pytest.mark.parametrize(("restarts", "count"), [(0, 0), (1, 1)])
def test_the_number_of_a_restart_is_not_in_the_labels(restarts, count):
    label = "jobset.sigs.k8s.io/restart-attempt"
    path = {"fieldPath": f"metadata.labels['{label}']"}
    env = {"env": [{"name": "ATTEMPT", "valueFrom": {"fieldRef": path}}]}

    found = warnings(failing(job(container=env), restarts=restarts))

    at = "replicatedJobs[0].template.spec.template"
    assert found == [(at, f"the restart attempt in {label} is always 0 with mlgen")] * count
