"""The lifecycle of a job: its cleanup, and what it loses without a supervisor."""

import pytest

from mlgen.frameworks import _lifecycle
from mlgen.jobfile.model import RoleSpec, RunPolicy, TrainingJob
from mlgen.topology import Role, Topology


def role(name="worker", **fields):
    return Role(name, 1, spec=RoleSpec(name), **fields)


SERVER = role("ps", serves=True)
ENDLESS_JOB = role("ps", endless=True)
WORKERS = (role(decides=True, index=0), role(index=1), role(index=2))


def reported(roles, policy, **fields):
    """Return the path below `spec` and the message of each problem without a supervisor."""
    job = TrainingJob("ctr", "generic", {}, run_policy=policy, **fields)
    topology = Topology(job, roles, supervised=job.supervisor)
    topology = topology._replace(cleanup=_lifecycle.cleanup(topology))
    found = list(_lifecycle.without_supervisor(topology))
    assert all(problem.warning and problem.hint for problem in found)
    return [(".".join(problem.path[1:]), problem.message) for problem in found]


@pytest.mark.parametrize(
    ("policy", "supervisor", "roles", "remaining"),
    [
        ("Running", False, (*WORKERS, SERVER), "worker, ps"),
        ("All", False, (SERVER,), "ps"),
        ("None", False, (SERVER,), None),
        ("All", True, (SERVER,), None),
    ],
)
def test_pods_that_nothing_stops_are_a_warning_with_their_roles(
    policy, supervisor, roles, remaining
):
    message = f"without the supervisor, pods keep running after training ends: {remaining}"

    assert reported(roles, RunPolicy(policy), supervisor=supervisor) == (
        [("runPolicy.cleanPodPolicy", message)] if remaining else []
    )


@pytest.mark.parametrize(
    ("ttl", "policy", "fields", "roles", "is_reported"),
    [
        (None, "None", {"supervisor": False}, (SERVER,), False),
        (0, "Running", {}, (SERVER,), False),
        (0, "None", {"supervisor": False}, (SERVER,), True),
        (0, "None", {"supervisor": False}, (ENDLESS_JOB,), True),
        (0, "None", {"supervisor": False}, WORKERS, False),
        (0, "Running", {"supervisor": False, "workflow": True}, (SERVER,), False),
        (0, "None", {"supervisor": False, "workflow": True}, (SERVER,), True),
    ],
)
def test_without_a_supervisor_a_ttl_deletes_finished_jobs_only(
    ttl, policy, fields, roles, is_reported
):
    run_policy = RunPolicy(policy, ttl_seconds_after_finished=ttl)
    message = "Kubernetes deletes only finished Jobs; the pods of ps keep running"

    assert (
        reported(roles, run_policy, **fields)
        == [("runPolicy.ttlSecondsAfterFinished", message)] * is_reported
    )


@pytest.mark.parametrize(
    ("roles", "policy", "command"),
    [
        ((SERVER,), {}, "kubectl delete statefulsets -l mlgen.dev/job=ctr"),
        (
            (SERVER, ENDLESS_JOB),
            {},
            "kubectl delete statefulsets,jobs -l 'mlgen.dev/job=ctr,mlgen.dev/decides!=true'",
        ),
        (WORKERS, {}, ""),
        ((SERVER,), {"clean_pod_policy": "Running"}, ""),
        ((SERVER,), {"ttl_seconds_after_finished": 5}, ""),
    ],
)
def test_the_command_that_deletes_what_keeps_running(roles, policy, command):
    job = TrainingJob("ctr", "generic", {}, run_policy=RunPolicy(**policy))

    assert _lifecycle.cleanup(Topology(job, roles, supervised=True)) == command


@pytest.mark.parametrize(("policy", "keeps"), [("None", True), ("Running", False)])
def test_a_workflow_cleans_up(policy, keeps):
    job = TrainingJob("ctr", "generic", {}, run_policy=RunPolicy(policy), workflow=True)

    assert bool(_lifecycle.cleanup(Topology(job, (SERVER,)))) is keeps
