"""A JobSet as a dict → the TrainingJob and the reported problems."""

import pytest

import mlgen
from mlgen import dialects
from mlgen.dialects.jobset import exclusive_affinity
from mlgen.documents.document import Document, marked
from mlgen.problems import MlgenError, Place, dotted

PREFIX = "jobset.sigs.k8s.io/"
COMPLETE = {"operator": "In", "values": [1]}


def replicated(name="worker", job=None, pod=None, container=None, **fields):
    """A replicated Job with one container."""
    main = {"name": "main", "image": "example/main:1"} | (container or {})
    template = {"spec": {"restartPolicy": "Never", "containers": [main]} | (pod or {})}
    return {"name": name, "template": {"spec": {"template": template} | (job or {})}} | fields


def jobset(*replicated_jobs, version="v1alpha2", metadata=None, **spec):
    return {
        "apiVersion": f"jobset.x-k8s.io/{version}",
        "kind": "JobSet",
        "metadata": {"name": "llm"} | (metadata or {}),
        "spec": {"replicatedJobs": list(replicated_jobs)} | spec,
    }


def convert(resource):
    """The `spec` of the TrainingJob, and the path and message of each warning."""
    document, warnings = dialects.native(Document(resource, marked({(): Place("jobset.yaml")})))
    return document.data["spec"], [(dotted(w.path), w.message) for w in warnings]


def problems(resource):
    """The path, without `spec.`, and message of each error. Warnings are omitted."""
    with pytest.raises(MlgenError) as raised:
        dialects.native(Document(resource, marked({(): Place("jobset.yaml")})))
    errors = [problem for problem in raised.value.problems if not problem.warning]
    assert {error.code for error in errors} == {"refused"}
    assert all(error.hint for error in errors)
    return [(dotted(error.path).removeprefix("spec."), error.message) for error in errors]


def messages(resource):
    return [message for _, message in convert(resource)[1]]


def role(resource, name="worker-0"):
    """A role with the fields that all roles share."""
    spec, _ = convert(resource)
    return spec | spec["roles"][name]


def test_each_job_becomes_a_role_with_the_labels_of_jobset():
    document, warnings = dialects.native(
        Document(jobset(replicated()), marked({(): Place("jobset.yaml")}))
    )

    assert warnings == []
    assert document.data == {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "llm"},
        "spec": {
            "framework": "generic",
            "options": {"addresses": False},
            "roles": {
                "worker-0": {
                    "restartPolicy": "Never",
                    "backoffLimit": 6,
                    "mainContainer": "main",
                    "image": "example/main:1",
                    "template": {
                        "metadata": {
                            "labels": {
                                f"{PREFIX}jobset-name": "llm",
                                f"{PREFIX}replicatedjob-name": "worker",
                                f"{PREFIX}replicatedjob-replicas": "1",
                                f"{PREFIX}global-replicas": "1",
                                f"{PREFIX}job-index": "0",
                                f"{PREFIX}job-global-index": "0",
                            }
                        }
                    },
                }
            },
        },
    }


def pod_labels(resource, name, kind="labels"):
    spec, _ = convert(resource)
    metadata = spec["roles"][name]["template"]["metadata"].get(kind, {})
    shared = spec.get("template", {}).get("metadata", {}).get(kind, {})
    return {key.removeprefix(PREFIX): value for key, value in (shared | metadata).items()}


def test_jobs_are_numbered_in_their_replicated_job_in_the_set_and_in_their_group():
    every = ["group-name", "group-replicas", "job-group-index", "restart-attempt", "job-key"]
    refer = [
        {
            "name": f"A{i}",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{PREFIX}{n}']"}},
        }
        for i, n in enumerate(every)
    ]
    resource = jobset(
        replicated("a", groupName="g", replicas=2),
        replicated("b"),
        replicated("c", groupName="g", replicas=3, container={"env": refer}),
        metadata={"namespace": "nlp"},
    )

    assert pod_labels(resource, "c-1") == {
        "jobset-name": "llm",
        "replicatedjob-name": "c",
        "replicatedjob-replicas": "3",
        "global-replicas": "6",
        "job-index": "1",
        "job-global-index": "4",
        "group-name": "g",
        "group-replicas": "5",
        "job-group-index": "3",
        "restart-attempt": "0",
        "job-key": "ffb0874de49547561f6d1c641f19a5f78c10e3bb",  # sha1 of nlp/llm-c-1
    }


def test_a_pod_has_the_annotations_of_jobset_that_its_template_refers_to():
    env = [
        {
            "name": "A",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PREFIX}group-name']"}},
        }
    ]

    assert pod_labels(jobset(replicated(container={"env": env})), "worker-0", "annotations") == {
        "group-name": "default"
    }


@pytest.mark.parametrize(
    ("indexes", "host"),
    [({}, "llm-worker-0-0.llm"), ({"jobIndex": 1, "podIndex": 1}, "llm-worker-1-1.llm")],
)
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_the_address_of_the_coordinator_is_a_label_and_an_annotation(indexes, host, kind):
    resource = jobset(
        replicated(replicas=2, job={"completions": 2, "parallelism": 2}),
        coordinator={"replicatedJob": "worker"} | indexes,
    )

    assert pod_labels(resource, "worker-0", kind)["coordinator"] == host


def test_exclusive_placement_attracts_the_own_job_and_repels_others():
    term = {
        "topologyKey": "zone",
        "labelSelector": {
            "matchExpressions": [{"key": f"{PREFIX}jobset-name", "operator": "Exists"}]
        },
        "namespaceSelector": {},
    }
    rules = "requiredDuringSchedulingIgnoredDuringExecution"
    own = {"podAffinity": {rules: ["mine"], "other": 1}, "nodeAffinity": {}}

    assert exclusive_affinity(own, "zone") == {
        "podAffinity": {
            rules: ["mine", term | {"matchLabelKeys": [f"{PREFIX}job-key"]}],
            "other": 1,
        },
        "podAntiAffinity": {rules: [term | {"mismatchLabelKeys": [f"{PREFIX}job-key"]}]},
        "nodeAffinity": {},
    }
    assert own == {"podAffinity": {rules: ["mine"], "other": 1}, "nodeAffinity": {}}


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


@pytest.mark.parametrize(
    ("of_the_set", "of_the_job", "key"),
    [({EXCLUSIVE: "zone"}, {}, "zone"), ({EXCLUSIVE: "zone"}, {EXCLUSIVE: "rack"}, "rack")],
)
def test_the_annotation_for_exclusive_placement_becomes_an_affinity(of_the_set, of_the_job, key):
    resource = jobset(replicated(), metadata={"annotations": of_the_set | {"a": "1"}})
    resource["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": of_the_job}

    document, warnings = dialects.native(Document(resource, marked({(): Place("jobset.yaml")})))

    terms = document.data["spec"]["roles"]["worker-0"]["affinity"]["podAffinity"]
    assert [term["topologyKey"] for (term,) in terms.values()] == [key]
    assert document.data["metadata"] == {"name": "llm", "annotations": {"a": "1"}}
    assert warnings == []


@pytest.mark.parametrize(
    ("job", "replicas"),
    [
        ({"completions": 3, "parallelism": 3}, 3),
        ({"completions": 0}, 0),
        ({"completionMode": "NonIndexed", "parallelism": 1}, 1),
    ],
)
def test_the_number_of_pods_is_the_number_of_replicas(job, replicas):
    other = replicated("other")

    spec, warnings = convert(jobset(replicated(job=job), other))

    assert spec["roles"]["worker-0"]["replicas"] == replicas
    assert [message for path, message in warnings if "replicatedJobs[0]" in path] == []


@pytest.mark.parametrize(
    ("job", "path", "message"),
    [
        (
            {"completions": 4, "parallelism": 3},
            "parallelism",
            "JobSet runs 3 of 4 pods at a time; mlgen runs all at the same time",
        ),
        (
            {"completions": 2},
            "completions",
            "JobSet runs 1 of 2 pods at a time; mlgen runs all at the same time",
        ),
        (
            {"completionMode": "NonIndexed", "parallelism": 2},
            "parallelism",
            (
                "without completions, JobSet requires one successful pod;"
                " mlgen requires all pods to succeed"
            ),
        ),
        (
            {"podReplacementPolicy": "TerminatingOrFailed"},
            "podReplacementPolicy",
            "mlgen replaces a pod only after it has terminated",
        ),
    ],
)
def test_a_field_of_a_job_that_works_differently_is_a_warning(job, path, message):
    _, warnings = convert(jobset(replicated(job=job)))

    assert warnings == [(f"spec.replicatedJobs[0].template.spec.{path}", message)]


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_the_podreplacementpolicy_of_the_rendered_job_is_accepted(restart):
    policy = "Failed" if restart == "Never" else "TerminatingOrFailed"
    resource = jobset(
        replicated(job={"podReplacementPolicy": policy}, pod={"restartPolicy": restart})
    )

    assert messages(resource) == []


def test_pods_restart_on_failure_by_default():
    resource = jobset(replicated(job={"podReplacementPolicy": "Failed"}))
    del resource["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "restartPolicy"
    ]

    assert role(resource)["restartPolicy"] == "OnFailure"
    assert "backoffLimit" not in role(resource)
    assert messages(resource) == ["mlgen replaces a pod as soon as its deletion starts"]


def test_limits_of_a_job_are_limits_of_its_role():
    limits = {"backoffLimit": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 0}

    fields = role(jobset(replicated(job=limits | {"activeDeadlineSeconds": 9})))

    assert {key: fields[key] for key in limits} == limits
    assert fields["activeDeadlineSeconds"] == 9


def test_a_limit_per_index_replaces_the_default_limit():
    assert "backoffLimit" not in role(jobset(replicated(job={"backoffLimitPerIndex": 1})))


def on_exit(action, *codes, operator="In", **fields):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)} | fields}


ALL_CODES = set(range(1, 256))


@pytest.mark.parametrize(
    ("rules", "retried"),
    [
        ([on_exit("FailJob", *range(1, 128))], None),
        ([on_exit("FailIndex", 1, 2)], ALL_CODES - {1, 2}),
        ([on_exit("FailJob", 42, operator="NotIn")], {42}),
        ([on_exit("Count", 1), on_exit("FailJob", 1, 2)], ALL_CODES - {2}),
        ([on_exit("FailJob", 1), on_exit("Count", 1, 2)], ALL_CODES - {1}),
        ([on_exit("FailJob", 255, 256, containerName="main")], ALL_CODES - {255}),
    ],
    ids=["as-exit-code", "fail-index", "not-in", "first-counts", "first-fails", "highest"],
)
def test_exit_codes_that_fail_the_job_are_not_retried(rules, retried):
    resource = jobset(replicated(job={"podFailurePolicy": {"rules": rules}}))

    assert role(resource)["restartPolicy"] == "ExitCode"
    assert role(resource).get("retryableExitCodes") == (retried and sorted(retried))
    assert messages(resource) == []


@pytest.mark.parametrize("limit", ["backoffLimit", "backoffLimitPerIndex"])
def test_a_policy_that_fails_on_every_exit_code_is_a_limit_of_zero(limit):
    policy = {"rules": [on_exit("FailIndex", 0, operator="NotIn")]}

    fields = role(jobset(replicated(job={"podFailurePolicy": policy, limit: 3})))

    assert (fields["restartPolicy"], fields[limit]) == ("Never", 0)


@pytest.mark.parametrize(
    "job",
    [
        {"podFailurePolicy": {"rules": [on_exit("FailJob", 1)]}, "backoffLimit": 0},
        {"podFailurePolicy": {"rules": [on_exit("Count", 1)]}},
        {"podFailurePolicy": {"rules": []}},
    ],
    ids=["no-retries", "count", "no-rules"],
)
def test_a_policy_that_makes_no_exit_code_permanent_keeps_the_restart_policy(job):
    assert role(jobset(replicated(job=job)))["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        (
            on_exit("Ignore", 1),
            ".action",
            "JobSet does not count these failures; with mlgen, they count against backoffLimit",
        ),
        (
            on_exit("FailJob", 1, containerName="sidecar"),
            ".onExitCodes",
            "mlgen considers only exit codes of the container main",
        ),
        (
            {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ".onPodConditions[0]",
            "mlgen replaces a drained or preempted pod, and does not count it as a failure",
        ),
        (
            {"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue"}]},
            ".onPodConditions[0]",
            (
                "mlgen ignores the pod condition ConfigIssue, so these failures count"
                " against backoffLimit"
            ),
        ),
    ],
)
def test_a_rule_that_cannot_be_rendered_is_a_warning(rule, field, message):
    _, warnings = convert(jobset(replicated(job={"podFailurePolicy": {"rules": [rule]}})))

    at = "spec.replicatedJobs[0].template.spec.podFailurePolicy.rules[0]"
    assert warnings == [(f"{at}{field}", message)]


def test_ignoring_disrupted_pods_is_what_happens_anyway():
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}

    assert messages(jobset(replicated(job={"podFailurePolicy": {"rules": [rule]}}))) == []


def test_failjob_with_a_limit_per_index_is_a_warning():
    policy = {"rules": [on_exit("FailJob", 1)]}
    resource = jobset(replicated(job={"podFailurePolicy": policy, "backoffLimitPerIndex": 1}))

    message = "with backoffLimitPerIndex, JobSet fails the Job; mlgen fails only the index"
    assert messages(resource) == [message]


@pytest.mark.parametrize(
    ("container", "expected"),
    [(None, ["mlgen considers only exit codes of the container main"]), ("sidecar", [])],
)
def test_of_several_containers_a_rule_must_name_the_one_that_counts(container, expected):
    rule = (
        on_exit("FailJob", 1)
        if container is None
        else on_exit("FailJob", 1, containerName=container)
    )
    pod = {"containers": [{"name": name, "image": "a:1"} for name in ("main", "sidecar")]}
    resource = jobset(replicated(job={"podFailurePolicy": {"rules": [rule]}}, pod=pod))

    assert messages(resource) == expected
    assert role(resource)["mainContainer"] == (container or "main")
    assert role(resource)["restartPolicy"] == "ExitCode"


def test_what_the_operator_or_the_api_server_rejects_is_an_error():
    rows = [
        (jobset(replicated("a"), replicated("a")), "replicatedJobs[1].name", 'duplicate name "a"'),
        (
            jobset(replicated("a-")),
            "replicatedJobs[0].name",
            '"a-" cannot be part of the name of a Job',
        ),
        (
            jobset(replicated(job={"parallelism": 2})),
            "replicatedJobs[0].template.spec.parallelism",
            "an Indexed Job requires completions, and a JobSet's Jobs are Indexed by default",
        ),
        (
            jobset(replicated(job={"selector": {}})),
            "replicatedJobs[0].template.spec.selector",
            "the selector of a Job cannot be set: mlgen sets it",
        ),
        (
            jobset(replicated(pod={"restartPolicy": "Always"})),
            "replicatedJobs[0].template.spec.template.spec.restartPolicy",
            "a Job's pods cannot have restartPolicy: Always",
        ),
        (
            jobset(replicated(job={"backoffLimitPerIndex": 0}, pod={"restartPolicy": "OnFailure"})),
            "replicatedJobs[0].template.spec.backoffLimitPerIndex",
            "backoffLimitPerIndex requires restartPolicy: Never, got OnFailure",
        ),
        (jobset(replicated(replicas=0)), "replicatedJobs", "these Jobs have no pods"),
        (
            jobset(replicated(job={"completions": 0})),
            "replicatedJobs",
            "these Jobs have no pods",
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "worker", "jobIndex": 1}),
            "coordinator.jobIndex",
            "expected an index below 1, got 1",
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "worker", "podIndex": 1}),
            "coordinator.podIndex",
            "expected an index below 1, got 1",
        ),
        (
            jobset(replicated(), coordinator={"replicatedJob": "ps"}),
            "coordinator.replicatedJob",
            'there is no replicated Job "ps"',
        ),
        (
            jobset(
                replicated(),
                volumeClaimPolicies=[{"templates": [{"metadata": {"name": "d"}, "spec": {}}]}],
            ),
            "volumeClaimPolicies[0].templates[0]",
            'no container mounts the PersistentVolumeClaim "d"',
        ),
        (
            jobset(
                replicated(), volumeClaimPolicies=[{"templates": [{"metadata": {}, "spec": {}}]}]
            ),
            "volumeClaimPolicies[0].templates[0]",
            "the PersistentVolumeClaim has no name",
        ),
    ]

    assert [problems(resource) for resource, _, _ in rows] == [
        [(path, message)] for _, path, message in rows
    ]


def depends(name, status="Ready"):
    return [{"name": name, "status": status}]


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_a_job_starts_when_those_it_depends_on_have_come_so_far(status):
    store = replicated("store", replicas=2, job={"completions": 3, "parallelism": 3})

    spec, warnings = convert(jobset(store, replicated(dependsOn=depends("store", status))))

    waits = [{"role": f"store-{i}", "until": status} for i in (0, 1)]
    assert spec["roles"]["worker-0"]["waitFor"] == waits
    assert "waitFor" not in spec["roles"]["store-0"]
    assert warnings == []


def test_in_order_a_job_starts_when_the_one_before_it_is_ready():
    jobs = [replicated("a"), replicated("b"), replicated("c")]

    spec, warnings = convert(jobset(*jobs, startupPolicy={"startupPolicyOrder": "InOrder"}))

    waits = [spec["roles"][name].get("waitFor") for name in ("a-0", "b-0", "c-0")]
    a, b = ({"role": name, "until": "Ready"} for name in ("a-0", "b-0"))
    assert waits == [None, [a], [b]]
    assert warnings == []


QUEUE = {"labels": {"kueue.x-k8s.io/queue-name": "batch"}}


@pytest.mark.parametrize(
    ("status", "waits", "expected"),
    [
        ("Ready", [{"role": "a-0", "until": "name"}], []),
        (
            "Complete",
            None,
            ["JobSet waits until a has completed; with mlgen, Kueue starts both at the same time"],
        ),
    ],
)
def test_kueue_starts_all_jobs_at_once(status, waits, expected):
    resource = jobset(
        replicated("a"), replicated("b", dependsOn=depends("a", status)), metadata=QUEUE
    )
    resource["metadata"]["name"] = "llm"

    spec, warnings = convert(resource)

    assert spec["roles"]["b-0"].get("waitFor") == waits
    assert spec["successPolicy"] == {"roles": ["a-0", "b-0"]}
    assert [message for _, message in warnings] == expected


def test_a_job_without_pods_is_not_waited_for():
    spec, _ = convert(
        jobset(replicated("store", job={"completions": 0}), replicated(dependsOn=depends("store")))
    )

    assert "waitFor" not in spec["roles"]["worker-0"]


@pytest.mark.parametrize(
    ("resource", "path", "message"),
    [
        (
            jobset(replicated("a", dependsOn=depends("b")), replicated("b")),
            "replicatedJobs[0].dependsOn[0].name",
            "a can depend only on a replicated Job that is listed before it",
        ),
        (
            jobset(
                replicated("a"),
                replicated("b", dependsOn=depends("a")),
                startupPolicy={"startupPolicyOrder": "InOrder"},
            ),
            "replicatedJobs[1].dependsOn[0]",
            "startupPolicyOrder: InOrder and dependsOn are mutually exclusive",
        ),
    ],
)
def test_an_impossible_startup_order_is_an_error(resource, path, message):
    assert problems(resource) == [(path, message)]


ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def policy(operator, *targets):
    return {"successPolicy": {"operator": operator, "targetReplicatedJobs": list(targets)}}


@pytest.mark.parametrize(
    ("resource", "role"),
    [
        (jobset(replicated("a"), replicated("b"), **policy("All", "b")), "b-0"),
        (jobset(replicated("a"), replicated("b"), **policy("Any", "b")), "b-0"),
        (jobset(replicated("a"), replicated("b", dependsOn=depends("a", "Complete"))), "b-0"),
        (jobset(replicated("a", replicas=0), replicated("b"), replicated("c", replicas=0)), None),
        (
            jobset(
                replicated("a"),
                replicated("b"),
                replicated("c", dependsOn=depends("a", "Complete") + depends("b", "Complete")),
            ),
            "c-0",
        ),
    ],
    ids=["all-of-one", "any-of-one", "last", "only", "after-two"],
)
def test_one_job_decides(resource, role):
    spec, warnings = convert(resource)

    assert spec.get("successPolicy") == (role and {"role": role})
    assert warnings == []


@pytest.mark.parametrize(
    ("resource", "roles"),
    [
        (jobset(replicated("a"), replicated("b")), ["a-0", "b-0"]),
        (jobset(replicated("a", replicas=2)), ["a-0", "a-1"]),
        (jobset(replicated("a"), replicated("b"), **ORDER), ["a-0", "b-0"]),
        (
            jobset(
                replicated("a"),
                replicated("b", dependsOn=depends("a", "Complete")),
                replicated("c", dependsOn=depends("b")),
            ),
            ["b-0", "c-0"],
        ),
        (
            jobset(
                replicated("a"),
                replicated("b", replicas=2),
                replicated("c"),
                **policy("All", "b", "a"),
            ),
            ["a-0", "b-0", "b-1"],
        ),
    ],
    ids=["all", "equal", "ordered", "after-the-first", "targets"],
)
def test_several_jobs_decide_together(resource, roles):
    spec, warnings = convert(resource)

    assert spec["successPolicy"] == {"roles": roles}
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running"}
    assert warnings == []


def test_a_job_that_waits_for_the_end_of_the_set_is_an_error():
    resource = jobset(
        replicated("a"), replicated("b", dependsOn=depends("a", "Complete")), **policy("All", "a")
    )

    path, message = "replicatedJobs[1].dependsOn[0]", "the JobSet completes when a completes"
    assert problems(resource) == [(path, f"{message}, so b never starts")]


def test_any_job_decides_but_the_others_may_fail():
    spec, warnings = convert(jobset(replicated("a"), replicated("b"), **policy("Any")))

    assert spec["successPolicy"] == {"roles": ["a-0", "b-0"], "operator": "Any"}
    assert warnings == [
        (
            "spec.successPolicy.operator",
            (
                "the JobSet fails when any of these Jobs fails;"
                " with mlgen, the job fails when all of them have failed"
            ),
        )
    ]


def test_a_single_job_needs_no_success_policy():
    spec, warnings = convert(jobset(replicated()))

    assert "successPolicy" not in spec
    assert "runPolicy" not in spec
    assert warnings == []


@pytest.mark.parametrize(
    ("others", "clean"),
    [
        ([replicated("b")], "Running"),
        ([replicated("b", replicas=0)], None),
    ],
    ids=["running", "none"],
)
def test_other_jobs_are_stopped_when_the_deciding_job_has_completed(others, clean):
    spec, warnings = convert(jobset(replicated("a"), *others, **policy("All", "a")))

    assert spec.get("runPolicy", {}).get("cleanPodPolicy") == clean
    assert warnings == []


def test_jobs_that_have_completed_before_the_deciding_job_are_not_waited_for():
    resource = jobset(
        replicated("fetch"),
        replicated("store", dependsOn=depends("fetch", "Complete")),
        replicated("train", dependsOn=depends("store", "Complete")),
    )

    spec, warnings = convert(resource)

    assert spec["successPolicy"] == {"role": "train-0"}
    assert "runPolicy" not in spec
    assert warnings == []


@pytest.mark.parametrize(
    ("rules", "replicas"),
    [
        ([{"succeededIndexes": "0"}], "First"),
        ([{"succeededIndexes": "0", "succeededCount": 1}], "First"),
        ([{"succeededCount": 2}], 2),
    ],
)
def test_the_success_policy_of_the_deciding_job_is_kept(rules, replicas):
    job = {"completions": 3, "parallelism": 3, "successPolicy": {"rules": rules}}

    spec, warnings = convert(jobset(replicated(job=job)))

    assert spec["successPolicy"] == {"replicas": replicas}
    assert warnings == []


@pytest.mark.parametrize(
    "rules",
    [
        [{"succeededIndexes": "1"}],
        [{"succeededIndexes": "0", "succeededCount": 2}],
        [{"succeededIndexes": "0-1", "succeededCount": 1}],
        [{"succeededCount": 1}, {"succeededIndexes": "0"}],
    ],
)
def test_another_success_policy_of_a_job_is_a_warning(rules):
    job = {"completions": 3, "parallelism": 3, "successPolicy": {"rules": rules}}

    spec, warnings = convert(jobset(replicated(job=job)))

    assert "successPolicy" not in spec
    at = "spec.replicatedJobs[0].template.spec.successPolicy.rules"
    message = "with mlgen, worker completes only when all of its pods have succeeded"
    assert warnings == [(at, message)]


def test_the_success_policy_of_one_of_several_equal_jobs_is_a_warning():
    job = {"completions": 2, "parallelism": 2, "successPolicy": {"rules": [{"succeededCount": 1}]}}

    assert messages(jobset(replicated(job=job, replicas=2)))[0] == (
        "with mlgen, worker completes only when all of its pods have succeeded"
    )


def test_policies_of_the_set_are_those_of_the_job():
    policies = {"suspend": True, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 5}
    spec, warnings = convert(
        jobset(
            replicated(
                job={"ttlSecondsAfterFinished": 5, "managedBy": "kubernetes.io/job-controller"}
            ),
            managedBy="jobset.sigs.k8s.io/jobset-controller",
            **policies,
        )
    )

    assert spec["runPolicy"] == policies
    assert warnings == []


@pytest.mark.parametrize(("of_the_set", "seconds"), [(None, 5), (7, 7)])
def test_a_job_with_another_ttl_is_a_warning(of_the_set, seconds):
    fields = {"ttlSecondsAfterFinished": of_the_set} if of_the_set else {}
    resource = jobset(
        replicated("a", job={"ttlSecondsAfterFinished": 5}),
        replicated("b", job={"ttlSecondsAfterFinished": 6}, dependsOn=depends("a", "Complete")),
        **fields,
    )

    spec, warnings = convert(resource)

    assert spec["runPolicy"]["ttlSecondsAfterFinished"] == seconds
    message = f"mlgen deletes all Jobs {seconds} s after the job has finished"
    paths = [path for path, text in warnings if text == message]
    expected = [1] if of_the_set is None else [0, 1]
    at = "spec.replicatedJobs[{}].template.spec.ttlSecondsAfterFinished"
    assert paths == [at.format(i) for i in expected]


@pytest.mark.parametrize("of", ["job", "set"])
def test_another_manager_is_kept_for_the_check_of_the_job_file(of):
    field = {"managedBy": "kueue.x-k8s.io/multikueue"}
    resource = jobset(replicated(job=field)) if of == "job" else jobset(replicated(), **field)

    assert convert(resource)[0]["runPolicy"] == field


def test_a_field_of_the_set_that_is_not_rendered_is_a_warning():
    rows = [
        (
            {"scheduling": {}},
            "spec.scheduling",
            "JobSet creates Kubernetes' own pod groups; mlgen does not",
        ),
        (
            {"network": {"publishNotReadyAddresses": False}},
            "spec.network.publishNotReadyAddresses",
            "with mlgen, the DNS names of pods resolve before the pods are ready",
        ),
        (
            {"metadata": {"annotations": {"alpha.jobset.sigs.k8s.io/node-selector": "true"}}},
            "metadata.annotations.alpha.jobset.sigs.k8s.io/node-selector",
            "JobSet selects nodes that were labelled for each Job; mlgen allows any node",
        ),
    ]

    assert [convert(jobset(replicated(), **fields))[1] for fields, _, _ in rows] == [
        [(path, message)] for _, path, message in rows
    ]


def test_addresses_in_the_form_of_v1alpha2_are_no_difference_in_v1alpha1():
    container = {"args": ["llm-worker-0-0.llm"]}

    assert messages(jobset(replicated(container=container), version="v1alpha1")) == []


def test_the_subdomain_of_the_set_is_no_difference():
    network = {"subdomain": "llm", "publishNotReadyAddresses": True}

    assert messages(jobset(replicated(pod={"subdomain": "llm"}), network=network)) == []


def test_addresses_with_the_subdomain_of_the_set_resolve():
    container = {"args": ["--server=llm-worker-0-0.pods:5000"]}
    resource = jobset(replicated(container=container), network={"subdomain": "pods"})

    items = mlgen.render(resource)

    services = [item["metadata"]["name"] for item in items if item["kind"] == "Service"]
    pods = [item["spec"]["template"]["spec"] for item in items if item["kind"] == "Job"]
    assert services == ["pods"]
    assert [pod["subdomain"] for pod in pods] == ["pods"]


def test_an_address_with_another_subdomain_is_an_error():
    container = {"args": ["--server=llm-worker-0-0.llm:5000"]}
    resource = jobset(replicated(container=container), network={"subdomain": "pods"})

    with pytest.raises(MlgenError, match=r"use the address llm-worker-0-0\.pods"):
        mlgen.render(resource)


@pytest.mark.parametrize(
    ("version", "expected"), [("v1alpha1", {"subdomain": "llm-worker"}), ("v1alpha2", None)]
)
def test_the_subdomain_of_addresses_in_the_form_of_v1alpha1_is_kept(version, expected):
    container = {"args": ["llm-worker-0-0.llm-worker"]}

    spec, warnings = convert(jobset(replicated(container=container), version=version))

    assert (spec.get("network"), warnings) == (expected, [])


def test_addresses_of_v1alpha1_with_several_subdomains_are_an_error():
    container = {"args": ["llm-worker-0-0.llm-worker", "llm-worker-0-1.llm"]}

    ((path, message),) = problems(jobset(replicated(container=container), version="v1alpha1"))

    assert path == "replicatedJobs[0].template.spec.template"
    assert message.startswith("the address llm-worker-0-0.llm-worker does not resolve")


def test_the_subdomain_of_the_set_is_kept():
    coordinator = {"replicatedJob": "worker"}

    spec, warnings = convert(
        jobset(replicated(), network={"subdomain": "pods"}, coordinator=coordinator)
    )

    assert (spec["network"], warnings) == ({"subdomain": "pods"}, [])
    metadata = spec["roles"]["worker-0"]["template"]["metadata"]
    assert metadata["labels"]["jobset.sigs.k8s.io/coordinator"] == "llm-worker-0-0.pods"


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_labels_and_annotations_of_a_job_are_a_warning(field):
    resource = jobset(replicated())
    resource["spec"]["replicatedJobs"][0]["template"]["metadata"] = {field: {"a": "1"}}

    at = f"spec.replicatedJobs[0].template.metadata.{field}"
    assert convert(resource)[1] == [
        (at, f"mlgen does not render {field} of a single replicated Job")
    ]


def test_a_pod_group_of_kubernetes_is_a_warning_and_not_in_the_pod():
    resource = jobset(replicated(pod={"schedulingGroup": {"podGroupName": "a"}}))

    spec, warnings = convert(resource)

    at = "spec.replicatedJobs[0].template.spec.template.spec.schedulingGroup"
    assert warnings == [(at, "mlgen does not render Kubernetes' own pod groups")]
    assert "spec" not in spec["roles"]["worker-0"]["template"]


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
KEPT = "deleting the JobSet keeps data-llm; with mlgen, kubectl delete -f deletes it"


@pytest.mark.parametrize(
    ("retention", "ttl", "message"),
    [
        (None, None, KEPT),
        ("Retain", 60, KEPT),
        ("Delete", None, None),
        ("Delete", 60, "JobSet deletes data-llm 60 s after the job ends; mlgen keeps it"),
    ],
)
def test_a_claim_is_created_and_mounted_by_its_name(retention, ttl, message):
    claim = {"metadata": {"name": "data"}, "spec": CLAIM}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    policy = {"retentionPolicy": {"whenDeleted": retention}} if retention else {}

    spec, warnings = convert(
        jobset(
            replicated("a", container=mount),
            replicated("b", dependsOn=depends("a", "Complete")),
            volumeClaimPolicies=[{"templates": [claim], **policy}],
            **({"ttlSecondsAfterFinished": ttl} if ttl else {}),
        )
    )

    assert spec["claims"] == {"data-llm": CLAIM}
    assert spec["roles"]["a-0"]["volumes"] == {"data": {"mountPath": "/data", "pvc": "data-llm"}}
    assert "volumes" not in spec["roles"]["b-0"]
    at = "spec.volumeClaimPolicies[0].templates[0]"
    assert [text for path, text in warnings if path == at] == ([message] if message else [])


def test_labels_of_a_claim_are_reported():
    metadata = {"name": "data", "labels": {"team": "a"}, "annotations": {}}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    claims = [{"templates": [{"metadata": metadata, "spec": CLAIM}]}]

    _, warnings = convert(jobset(replicated("a", container=mount), volumeClaimPolicies=claims))

    at = "spec.volumeClaimPolicies[0].templates[0].metadata.labels"
    assert (at, "mlgen does not set the labels of the PersistentVolumeClaim") in warnings


def test_a_problem_of_a_template_is_reported_once_for_all_jobs():
    env = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    resource = jobset(
        replicated("a", replicas=3, container=env),
        replicated("b"),
        successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]},
    )

    paths = [path for path, _ in convert(resource)[1]]

    assert len([path for path in paths if ".env[" in path]) == 1
