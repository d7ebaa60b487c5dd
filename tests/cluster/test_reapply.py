"""A second `kubectl apply --server-side` keeps the changes of the supervisor and of users."""

import pytest

pytestmark = pytest.mark.cluster

APPLY = ("apply", "--server-side", "-f", "-")


@pytest.fixture(scope="module")
def manifests(shared_namespace, jobs):
    return shared_namespace.render(jobs / "reapply.yaml", *shared_namespace.images)


@pytest.fixture(scope="module")
def namespace(shared_namespace, manifests):
    """A namespace in which all jobs run."""
    shared_namespace.kubectl(*APPLY, stdin=manifests)
    for job in ("order", "servers", "jobs"):
        shared_namespace.recorded(job, is_running)
    return shared_namespace


@pytest.fixture(scope="module")
def applied_while_running(namespace, manifests):
    """The pods of each job before the second apply, and its stderr."""
    namespace.scale("elastic-worker", 3)
    before = {job: pods(namespace, job) for job in ("order", "servers", "jobs")}
    return before, namespace.stdout_and_stderr(*APPLY, stdin=manifests)[1]


@pytest.fixture(scope="module")
def applied_after_training(namespace, manifests, applied_while_running):  # noqa: ARG001 - order
    """The stderr of an apply after training, by which no pod of these jobs is left."""
    for job in ("servers", "jobs"):
        (chief,) = namespace.active(job)["chief"]
        namespace.kubectl("exec", chief["metadata"]["name"], "-c", "main", "--", "touch", "/tmp/go")
        assert namespace.ended(f"{job}-supervisor")["type"] == "Complete"
        namespace.until(f"{job} has stopped", lambda job=job: not namespace.active(job))
    return namespace.stdout_and_stderr(*APPLY, stdin=manifests)[1]


def is_running(record):
    return record.get("Running", "").startswith("True")


def pods(namespace, job):
    active = namespace.active(job)
    return {pod["metadata"]["uid"] for role in active.values() for pod in role}


def test_running_roles_keep_their_pods(namespace, applied_while_running):
    before, stderr = applied_while_running

    assert 'conflicts with "mlgen-supervisor"' in stderr
    assert namespace.get("job", "order-worker")["spec"].get("suspend") is False
    for job, uids in before.items():
        assert uids == pods(namespace, job)
        assert namespace.record(job).get("restarts", "0") == "0"


def test_a_scaled_job_keeps_its_size(namespace, applied_while_running):
    assert ".spec.parallelism" in applied_while_running[1]
    assert namespace.get("job", "elastic-worker")["spec"]["parallelism"] == 3


def test_servers_stay_stopped(namespace, applied_after_training):
    assert '"mlgen-supervisor" with subresource "scale": .spec.replicas' in applied_after_training
    assert namespace.get("statefulset", "servers-ps")["spec"]["replicas"] == 0


def test_servers_that_are_jobs_stay_stopped_even_without_server_side(
    namespace,
    manifests,
    applied_after_training,  # noqa: ARG001 - order
):
    text = "---\n".join(each for each in manifests.split("---\n") if "name: jobs-ps\n" in each)
    namespace.kubectl("apply", "--force-conflicts", "--server-side", "-f", "-", stdin=text)
    namespace.kubectl("apply", "-f", "-", stdin=text)

    assert namespace.get("job", "jobs-ps")["spec"]["suspend"] is True
    assert namespace.active("jobs") == {}
