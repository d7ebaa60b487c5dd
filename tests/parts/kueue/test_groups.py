"""Jobs with several workloads, whose pods Kueue admits as one group of plain pods.

KWOK does not report how pods end. test_kubelet.py tests what happens then.
"""

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
"""Four pods, one of which serves."""

ALONE = HEAD + "  roles: {chief: {}, worker: {replicas: 2}}\n"
"""Three pods."""

RETRIED = ALONE + "  restartPolicy: ExitCode\n"

MPI = HEAD.replace("tensorflow", "mpi") + (
    "  roles: {launcher: {command: [mpirun, ./train]}, worker: {replicas: 2}}\n"
)
"""Three pods, two of which are in a StatefulSet."""


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
    """Delete a job, and wait until its pods are gone."""
    assert "deleted" in team.mlgen("delete", "--yes", job=job)


def test_a_gang_starts_as_a_whole_or_not_at_all(teams):
    team, first, second = teams(4), named(WITH_PS, "first"), named(WITH_PS, "second")
    team.apply(first)
    team.until_running("first", 4)
    team.apply(second)
    team.until_waiting("second", "insufficient unused quota for cpu")

    assert team.phases("second") == ["Pending"] * 4
    end(team, first)
    team.until_running("second", 4)
    end(team, second)
    team.until_reserved(0)
    assert not team.listed("workloads")


def test_each_role_is_a_pod_set(teams):
    team = teams(4)
    team.apply(named(WITH_PS, "job"))
    team.until_running("job", 4)

    [workload] = team.listed("workloads")
    sizes = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    assert sizes == {"chief": 1, "ps": 1, "worker": 2}


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


def test_two_gangs_never_block_each_other(teams):
    team = teams(4)
    for index in range(20):
        jobs = {f"a-{index}": ALONE, f"b-{index}": WITH_PS}
        for name, job in jobs.items():
            team.apply(named(job, name))
        team.until(lambda jobs=jobs: any(map(runs(team), jobs)))
        first = next(name for name in jobs if runs(team)(name))
        [second] = {*jobs} - {first}
        assert set(team.phases(second)) <= {"Pending"}
        end(team, named(jobs[first], first))
        team.until(lambda second=second: runs(team)(second))
        end(team, named(jobs[second], second))
        team.until_reserved(0)


def runs(team):
    """Return a function that is True if all pods of a job run."""
    return lambda job: team.phases(job) == ["Running"] * (4 if job.startswith("b") else 3)


def test_the_webhook_for_stateful_sets_leaves_those_of_a_group_alone(teams):
    team = teams(4)
    team.apply(named(MPI, "job"))

    [item] = team.listed("statefulsets")
    assert "kueue.x-k8s.io/queue-name" not in item["metadata"]["labels"]
    annotations = item["spec"]["template"]["metadata"]["annotations"]
    assert "kueue.x-k8s.io/pod-suspending-parent" not in annotations
    team.until_running("job", 3)


def test_a_queue_named_default_takes_the_jobs_one_by_one(teams):
    team = teams(4)
    team.add("LocalQueue", "default", team.name, spec={"clusterQueue": team.name})
    team.until(lambda: "missing LocalQueue default" in team.doctor(named(ALONE, "job")))

    team.apply(named(ALONE, "job"))

    team.until(lambda: len(team.listed("workloads")) == 4)
    queues = {item["spec"]["queueName"] for item in team.listed("workloads")}
    assert queues == {"default"}
