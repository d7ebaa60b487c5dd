"""The supervisor starts roles in order, ends jobs as a whole, and records events.

All jobs run at once in one namespace, and do not affect each other.
"""

import json

import pytest

pytestmark = pytest.mark.cluster

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"requests.example.com/quota": "0"}},
}

SUCCEEDED, FAILED = {"Succeeded": "True"}, {"Failed": "True"}


@pytest.fixture(scope="module")
def manifests(shared_namespace, request):
    file = request.path.parent / "jobs/supervised.yaml"
    return shared_namespace.render(file, *shared_namespace.images)


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim, manifests):
    """A namespace in which all jobs have been started, and continue once they run."""
    shared_namespace.kubectl("apply", "-f", "-", stdin=json.dumps(QUOTA))
    shared_namespace.kubectl("apply", "-f", "-", stdin=manifests)
    for job in ("ends", "fails"):
        shared_namespace.recorded(job, lambda record: "Running" in record)
        (claim / job / "go").touch()
    shared_namespace.ended("tolerates-worker")
    (claim / "tolerates/go").touch()
    return shared_namespace


def statuses(namespace, job):
    return {name: state[0] for name, state in namespace.conditions(job).items()}


def supervised(namespace, job):
    """Wait until the supervisor has ended, and return its log."""
    condition = namespace.ended(f"{job}-supervisor")
    log = namespace.kubectl("logs", f"job/{job}-supervisor", check=False)
    assert condition["type"] == "Complete", log
    return log


def failed(namespace, job):
    """Wait until the supervisor of a failed job has ended; return the reason of the failure."""
    supervised(namespace, job)
    conditions = namespace.conditions(job)
    assert conditions["Failed"][0] == "True"
    return conditions["Failed"][2]


def stopped(namespace, job):
    """Wait until the pods that the supervisor stops are deleted."""
    supervised(namespace, job)
    namespace.until("what it ended has gone", lambda: not namespace.active(job))


def test_a_role_starts_when_another_is_complete_or_ready(namespace, claim):
    def roles():
        return {role: len(pods) for role, pods in namespace.active("ordered").items()}

    namespace.until("the first role runs", (claim / "ordered").exists)  # kubelet mounts it
    assert roles() == {"initializer": 1}
    assert namespace.get("job", "ordered-node")["spec"]["suspend"] is True

    (claim / "ordered/complete").touch()
    namespace.until("the second role runs", lambda: roles() == {"node": 2})
    assert namespace.get("job", "ordered-evaluator")["spec"]["suspend"] is True

    (claim / "ordered/ready").touch()
    stopped(namespace, "ordered")
    assert statuses(namespace, "ordered")["Succeeded"] == "True"
    (evaluator,) = namespace.pods("ordered-evaluator")
    assert namespace.log(evaluator) == "evaluated\n"


def test_a_job_fails_when_a_role_that_others_wait_for_fails(namespace):
    assert "disordered-initializer" in failed(namespace, "disordered")
    assert namespace.ended("disordered-node")["type"] == "Failed"
    assert namespace.pods("disordered-node") == []


def test_parameter_servers_are_scaled_to_0_when_the_chief_succeeds(namespace):
    stopped(namespace, "ends")

    conditions, data = namespace.conditions("ends"), namespace.record("ends")
    times = [
        data["startTime"],
        conditions["Created"][1],
        conditions["Running"][1],
        data["completionTime"],
    ]
    assert statuses(namespace, "ends") == {"Created": "True", "Running": "False", **SUCCEEDED}
    assert times == sorted(times)
    assert data["replicas.chief"] == "active 0, succeeded 1, failed 0"
    assert data["replicas.ps"].startswith("active 0")
    assert data["restarts"] == "0"


def test_finished_pods_keep_their_log_and_stopped_workloads_can_be_resumed(namespace):
    stopped(namespace, "ends")

    (chief,) = namespace.pods("ends-chief")
    assert namespace.log(chief) == "trained\n"
    assert namespace.get("job", "ends-worker")["spec"]["suspend"] is True
    assert namespace.get("statefulset", "ends-ps")["spec"]["replicas"] == 0


def test_another_job_keeps_running(namespace):
    stopped(namespace, "ends")

    assert {role: len(pods) for role, pods in namespace.active("ends-not").items()} == {
        "chief": 1,
        "ps": 1,
        "worker": 2,
    }
    assert statuses(namespace, "ends-not") == {"Created": "True", "Running": "True"}


def test_training_fails_when_a_worker_fails(namespace):
    stopped(namespace, "fails")

    chief = namespace.ended("fails-chief")
    assert (chief["type"], chief["reason"]) == ("Failed", "DeadlineExceeded")
    conditions = namespace.conditions("fails")
    assert statuses(namespace, "fails") == {"Created": "True", "Running": "False", **FAILED}
    assert conditions["Created"][1] <= conditions["Running"][1] <= conditions["Failed"][1]
    assert "PodFailurePolicy: fails-worker" in conditions["Failed"][2]
    assert "exit code 42" in conditions["Failed"][2]
    counts = namespace.record("fails")["replicas.worker"]
    assert counts.startswith("active 0, succeeded 0, failed ")
    assert not counts.endswith(" 0")


def test_a_failed_worker_ends_the_job_even_if_nothing_is_cleaned_up(namespace):
    assert "keeps-worker" in failed(namespace, "keeps")

    assert namespace.ended("keeps-chief")["type"] == "Failed"
    assert set(namespace.active("keeps")) == {"ps"}
    assert namespace.get("statefulset", "keeps-ps")["spec"]["replicas"] == 1


def test_training_succeeds_despite_a_tolerated_worker_failure(namespace):
    stopped(namespace, "tolerates")

    assert namespace.ended("tolerates-worker")["reason"] == "FailedIndexes"
    assert statuses(namespace, "tolerates")["Succeeded"] == "True"


def test_clean_pod_policy_all_deletes_everything_but_the_claim_and_the_status(namespace, claim):
    supervised(namespace, "all")

    kinds, label = "jobs,statefulsets,services,configmaps,pods", "mlgen.dev/job=all"
    own = "app.kubernetes.io/component!=supervisor"
    others = ("get", kinds, "-l", f"{label},{own}", "-o", "name")
    namespace.until("all is deleted", lambda: not namespace.kubectl(*others))
    assert statuses(namespace, "all")["Succeeded"] == "True"
    is_kept(namespace, claim / "all")


def test_the_whole_job_expires(namespace, claim):
    def objects():
        kinds = "jobs,statefulsets,services,configmaps,pods"
        names = namespace.kubectl("get", kinds, "-o", "name").split()
        return [name for name in names if "/expires" in name]

    namespace.until("all is deleted", lambda: objects() == ["configmap/expires.status"])
    assert statuses(namespace, "expires")["Succeeded"] == "True"
    is_kept(namespace, claim / "expires")


def is_kept(namespace, folder):
    claim = namespace.get("persistentvolumeclaim", "data")
    assert claim["status"]["phase"] == "Bound"
    assert "deletionTimestamp" not in claim["metadata"]
    assert (folder / "model").read_text() == "model\n"


def test_the_deadline_is_that_of_the_whole_job(namespace):
    assert "DeadlineExceeded" in failed(namespace, "late")

    stopped(namespace, "late")
    assert namespace.get("statefulset", "late-ps")["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("job", "reason", "details"),
    [
        ("crashes", "CrashLoopBackOff", "crashes-ps-0"),
        ("image", "", "registry.invalid/missing:1"),
        ("quota", "PodsNotCreated", "quota-worker"),
        ("pending", "Unschedulable", "pending-worker"),
    ],
)
def test_a_job_that_cannot_go_on_fails(namespace, job, reason, details):
    message = failed(namespace, job)

    assert message.startswith(reason)
    assert details in message


@pytest.mark.parametrize(("job", "end"), [("both", "complete"), ("not-both", "failed")])
def test_several_roles_decide_together(namespace, job, end):
    label = f"mlgen.dev/job={job},mlgen.dev/decides=true"
    wait = ("wait", f"--for=condition={end}", "--timeout=180s", "job", "-l", label)

    assert namespace.kubectl(*wait) == f"job.batch/{job}-supervisor condition met\n"
    namespace.until("what it ended has gone", lambda: not namespace.active(job))


def test_any_of_several_roles_decides(namespace):
    wait = ("wait", "--for=condition=complete", "--timeout=180s", "job/any-supervisor")

    assert "condition met" in namespace.kubectl(*wait)
    assert namespace.ended("any-driver")["type"] == "Failed"
    assert statuses(namespace, "any")["Succeeded"] == "True"


def test_conditions_are_events(namespace):
    supervised(namespace, "fails")

    def reasons():
        items = namespace.get("events", "--field-selector=source=mlgen-supervisor")["items"]
        items = [item for item in items if item["involvedObject"]["name"] == "fails-chief"]
        return {item["reason"]: item["type"] for item in items}

    assert reasons() == {
        "JobCreated": "Normal",
        "JobRunning": "Normal",
        "PodFailurePolicy": "Warning",
    }


def test_conditions_and_replicas_are_metrics(namespace):
    (pod,) = namespace.pods("ends-not-supervisor")
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod['metadata']['name']}:9090/proxy/metrics"

    lines = namespace.kubectl("get", "--raw", path).splitlines()

    for line in (
        'mlgen_job_condition{job="ends-not",condition="Running"} 1',
        'mlgen_job_condition{job="ends-not",condition="Failed"} 0',
        'mlgen_job_replicas{job="ends-not",role="worker",state="active"} 2',
        'mlgen_job_restarts_total{job="ends-not"} 0',
    ):
        assert line in lines


def test_a_supervisor_has_no_other_rights(namespace):
    account = f"--as=system:serviceaccount:{namespace.name}:ends-supervisor"

    def can(*words):
        return namespace.kubectl("auth", "can-i", *words, account, check=False).strip()

    for words in (
        ("patch", "jobs/ends-worker"),
        ("patch", "configmaps/ends.status"),
        ("list", "pods"),
    ):
        assert can(*words) == "yes", words
    for words in (
        ("patch", "jobs/ends-not-worker"),
        ("patch", "configmaps/ends.supervisor"),
        ("delete", "jobs/ends-worker"),
        ("list", "jobs"),
        ("create", "configmaps"),
        ("get", "secrets"),
        ("delete", "pods"),
    ):
        assert can(*words) == "no", words


def test_the_manifests_are_verified(namespace, manifests):
    assert namespace.mlgen("verify", "-", stdin=manifests).count(": verified, ") == 17
