"""Jobs with several workloads, whose pods Kueue admits as one group of plain pods."""

import json

import pytest

pytestmark = pytest.mark.long

HEAD = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: NAME, namespace: team, labels: {kueue.x-k8s.io/priority-class: PRIORITY}}
spec:
  framework: tensorflow
  image: example/dlrm:1
  resources: {cpu: 1}
  scheduling: {gang: kueue, queue: research}
"""

WITH_PS = HEAD + "  roles: {chief: {}, ps: {}, worker: {replicas: 2}}\n"
"""Four pods, one of which never ends."""

ALONE = HEAD + "  roles: {chief: {}, worker: {replicas: 2}}\n"
"""Three pods, none of which is replaced."""

RETRIED = ALONE + "  restartPolicy: ExitCode\n"


@pytest.fixture
def teams(team):
    """Function that returns a Tenant with a quota of CPUs, in which some jobs are more urgent."""

    def of(cpus):
        created = team({"cpu": cpus}, preemption={"withinClusterQueue": "LowerPriority"})
        for name, value in (("low", 1), ("high", 1000)):
            created.add("WorkloadPriorityClass", name, value=value)
        return created

    return of


def named(job, name, priority="low"):
    """Return a job file with a name and a priority."""
    return job.replace("NAME", name).replace("PRIORITY", priority)


def end(team, job):
    """End a job as its programs and its supervisor do: the StatefulSet is scaled to 0."""
    team.finish(job)
    if team.listed("statefulsets", "-l", f"mlgen.dev/job={job}"):
        team.kubectl("scale", "statefulset", f"{job}-ps", "--replicas=0")


def test_a_gang_starts_as_a_whole_or_not_at_all(teams):
    team = teams(4)
    team.apply(named(WITH_PS, "first"))
    team.until_running("first", 4)
    team.apply(named(WITH_PS, "second"))
    team.until_waiting("second", "insufficient unused quota for cpu")

    assert team.phases("second") == ["Pending"] * 4
    end(team, "first")
    team.until_running("second", 4)
    assert team.phases("first") == ["Succeeded"] * 3
    assert ("Finished", "True") in team.conditions("first")
    end(team, "second")
    team.until_reserved(0)


def test_the_quota_of_a_failed_job_returns(teams):
    team = teams(4)
    team.apply(named(ALONE, "job"))
    team.until_running("job", 3)

    team.finish("job", "Failed", 1, role="chief")
    team.kubectl("patch", "job", "job-worker", "-p", json.dumps({"spec": {"suspend": True}}))

    team.until_reserved(0)
    assert team.phases("job") == ["Failed"]


@pytest.mark.parametrize("job", [WITH_PS, ALONE])
def test_manifests_that_are_deleted_in_the_middle_leave_nothing(teams, job):
    team = teams(4)
    manifests = team.apply(named(job, "job"))
    team.until_reserved(4 if "ps" in job else 3)
    team.until(lambda: "Pending" not in team.phases("job"))

    team.kubectl("delete", "-f", "-", stdin=manifests)

    team.until_reserved(0)
    team.until(lambda: not team.listed("pods") and not team.listed("workloads"))


def test_pods_that_are_retried_keep_their_quota(teams):
    team = teams(4)
    team.apply(named(RETRIED, "job"))
    team.until_running("job", 3)

    team.finish("job", "Failed", 137)

    team.until(lambda: team.phases("job") == ["Failed"] * 3 + ["Running"] * 3)
    assert team.reserved() == 3
    assert "workload.kueue.x-k8s.io/job deleted" in team.mlgen(
        "delete", "--yes", job=named(RETRIED, "job")
    )
    team.until_reserved(0)
    assert not team.listed("pods")


@pytest.mark.parametrize("job", [WITH_PS, ALONE, RETRIED])
def test_a_gang_that_is_preempted_runs_again(teams, job):
    team, size = teams(4), 4 if "ps" in job else 3
    team.apply(named(job, "patient"))
    team.until_running("patient", size)

    team.apply(named(job, "urgent", "high"))
    team.until_running("urgent", size)
    team.until(lambda: team.phases("patient") == ["Pending"] * size)

    end(team, "urgent")
    # docs/guides/scheduling.md: Kueue may treat a job with a StatefulSet as finished.
    if "ps" in job and ("Finished", "True") in team.conditions("patient"):
        team.kubectl("delete", "workload", "patient")
    team.until_running("patient", size)
    end(team, "patient")
    team.until_reserved(0)


def test_a_server_that_is_evicted_starts_again_with_the_job(teams):
    team = teams(4)
    team.apply(named(WITH_PS, "job"))
    team.until_running("job", 4)
    team.kubectl("delete", "pod", "job-ps-0", "--wait=false")
    team.until(lambda: ("WaitingForReplacementPods", "True") in team.conditions("job"))

    team.kubectl("delete", "workload", "job")

    team.until_running("job", 4)
    team.until_reserved(4)


def test_two_gangs_never_block_each_other(teams):
    team = teams(4)
    for index in range(50):
        names = [f"a-{index}", f"b-{index}"]
        for name, job in zip(names, (ALONE, WITH_PS), strict=True):
            team.apply(named(job, name))
        team.until(lambda names=names: any(map(runs(team), names)))
        first = next(name for name in names if runs(team)(name))
        [second] = {*names} - {first}
        assert set(team.phases(second)) <= {"Pending"}
        end(team, first)
        team.until(lambda second=second: runs(team)(second))
        end(team, second)
        team.until_reserved(0)
        for name in names:
            team.kubectl("delete", "jobs,statefulsets", "-l", f"mlgen.dev/job={name}")


def runs(team):
    """Return a function that is True if all pods of a job run."""
    return lambda job: team.phases(job) == ["Running"] * (4 if job.startswith("b") else 3)


def test_the_webhook_for_stateful_sets_leaves_those_of_a_group_alone(teams):
    team = teams(4)
    team.apply(named(WITH_PS, "job"))

    [item] = team.listed("statefulsets")
    assert "kueue.x-k8s.io/queue-name" not in item["metadata"]["labels"]
    annotations = item["spec"]["template"]["metadata"]["annotations"]
    assert "kueue.x-k8s.io/pod-suspending-parent" not in annotations
    team.until_running("job", 4)


def test_a_queue_named_default_takes_the_jobs_one_by_one(teams):
    team = teams(4)
    team.add("LocalQueue", "default", team.name, spec={"clusterQueue": team.name})
    team.until(lambda: "missing LocalQueue default" in team.doctor(named(ALONE, "job")))

    team.apply(named(ALONE, "job"))

    team.until(lambda: len(team.listed("workloads")) == 3)
    queues = {item["spec"]["queueName"] for item in team.listed("workloads")}
    assert queues == {"default"}
