"""The roles that an Argo workflow restarts, and its warnings."""

from dataclasses import replace

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import Progress, RoleSpec, RunPolicy, TrainingJob
from mlgen.problems import Problem
from mlgen.topology import Role, Success, Topology
from mlgen.variants.workflow import Workflow


def role(name="worker", *, restart="Never", serves=False, tolerates_failure=False, **spec):
    spec = RoleSpec(name, restart_policy=restart, **spec)
    return Role(name, 1, spec, serves=serves, restart=restart, tolerates_failure=tolerates_failure)


def topology(*roles, **fields):
    job = TrainingJob("job", "generic", {item.name: item.spec for item in roles})
    return Topology(job._replace(run_policy=RunPolicy(**fields)), roles)


def of_workflow(topology):
    return Workflow().topology(topology, topology.job, {})


def restart_after(item):
    return of_workflow(topology(item)).roles[0].restart


def warnings(*roles, **fields):
    return of_workflow(topology(*roles, **fields)).problems


def test_the_workflow_takes_over_cleanup_time_to_live_and_suspend():
    policy = RunPolicy("All", backoff_limit=2, ttl_seconds_after_finished=60, suspend=True)
    job = TrainingJob("job", "generic", {}, run_policy=policy)

    taken_over = Workflow().job(job)

    assert taken_over.run_policy == RunPolicy("All", backoff_limit=2)
    assert taken_over.workflow


@pytest.mark.parametrize(("clean", "success"), [("None", None), ("Running", Success(indexes="0"))])
def test_the_cleanup_still_decides_whether_rank_0_ends_the_others(clean, success):
    specs = {name: RoleSpec(name) for name in ("master", "worker")}
    job = TrainingJob("job", "pytorch", specs, run_policy=RunPolicy(clean))

    laid_out = frameworks.get("pytorch").topology(Workflow().job(job))

    assert [item.success for item in laid_out.roles] == [success]
    assert (laid_out.supervised, laid_out.problems) == (False, ())


@pytest.mark.parametrize(
    "fields", [{"restart": "Never"}, {"restart": "ExitCode"}, {"backoff_limit": 0}]
)
def test_the_workflow_restarts_a_role_that_does_not_restart_itself(fields):
    assert restart_after(role(**fields)) == "Workflow"


@pytest.mark.parametrize(
    ("fields", "restart"),
    [
        ({"restart": "OnFailure"}, "OnFailure"),
        ({"restart": "Never", "serves": True}, "Never"),
        ({"restart": "Never", "tolerates_failure": True}, "Never"),
        ({"restart": "ExitCode", "tolerates_failure": True}, "ExitCode"),
        ({"restart": "ExitCode", "backoff_limit": 0}, "ExitCode"),
        ({"restart": "ExitCode", "backoff_limit_per_index": 0}, "ExitCode"),
    ],
)
def test_the_workflow_does_not_restart_a_role_that(fields, restart):
    assert restart_after(role(**fields)) == restart


def test_only_the_restart_policy_of_a_role_changes():
    worker = role(retryable_exit_codes=(42,), restart="ExitCode")

    result = of_workflow(topology(worker, backoff_limit=0))

    assert result.roles == (replace(worker, restart="Workflow"),)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"restart": "OnFailure"}, "restartPolicy"),
        ({"backoff_limit": 1}, "backoffLimit"),
        ({"restart": "ExitCode", "backoff_limit": 0}, "backoffLimit"),
        ({"backoff_limit_per_index": 1}, "backoffLimitPerIndex"),
        ({"backoff_limit": 1, "backoff_limit_per_index": 2}, "backoffLimit"),
        ({"restart": "OnFailure", "backoff_limit": 3}, "backoffLimit"),
    ],
)
def test_a_role_that_restarts_itself_is_a_warning_at(fields, field):
    (warning,) = warnings(role("chief", **fields))

    assert warning.path == ("spec", "roles", "chief", field)
    assert warning.warning
    assert warning.code == "combination"
    assert warning.message == (
        "replicas of chief restart by themselves first; the workflow restarts the whole job only"
        " when their limit is reached"
    )
    assert warning.hint == (
        "remove it to let the workflow restart the job, after any failure"
        if field == "restartPolicy"
        else "remove it to let the workflow restart the job, up to runPolicy.backoffLimit times"
    )


def test_a_role_whose_replicas_fail_one_by_one_is_neither_restarted_nor_a_warning():
    item = role(backoff_limit_per_index=0)

    assert restart_after(item) == "Never"
    assert warnings(item) == ()
    assert len(warnings(replace(item, decides=True))) == 1


def test_a_role_that_never_restarts_is_warned_of_the_workflow():
    (warning,) = warnings(role(), backoff_limit=2)

    assert warning == Problem(
        ("spec", "roles", "worker", "restartPolicy"),
        "the workflow still restarts the whole job, up to 2 times, if a container of worker is"
        " killed",
        "combination",
        "write runPolicy.backoffLimit: 0 to restart it only after disruptions",
        warning=True,
    )


def test_a_framework_that_restarts_its_replicas_has_another_hint():
    item = role(restart="OnFailure")
    (warning,) = warnings(replace(item, spec=replace(item.spec, restart_policy=None)))

    assert "write restartPolicy: ExitCode to let the workflow alone restart" in warning.hint


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"restart": "Never"}, 0),
        ({"restart": "ExitCode"}, 2),
        ({"restart": "OnFailure", "serves": True}, 2),
        ({"restart": "Never", "tolerates_failure": True}, 2),
    ],
)
def test_a_role_that_does_not_contradict_the_workflow_has_no_warning(fields, limit):
    assert warnings(role(**fields), backoff_limit=limit) == ()


def test_the_warnings_of_the_framework_are_kept():
    earlier = Problem(("spec",), "earlier", "combination", warning=True)
    jobs = topology(role(restart="OnFailure"))._replace(problems=(earlier,))

    first, second = of_workflow(jobs).problems

    assert first == earlier
    assert second.path == ("spec", "roles", "worker", "restartPolicy")


def test_policies_of_the_supervisor_that_a_workflow_does_not_have_are_warned_about():
    fields = {"restart_scope": ("worker",), "metrics_port": 9090, "progress": Progress()}
    fields |= {"avoid_nodes": "Required", "force_delete_after_seconds": 60}
    fields |= {"restart_mode": "InPlace"}
    several = warnings(role(), backoff_limit=0, **fields)

    names = ["restartScope", "avoidNodes", "forceDeleteAfterSeconds", "restartMode"]
    names += ["metricsPort", "progress"]
    assert names == [problem.path[2] for problem in several]
    assert not warnings(role(), restart_scope="All", avoid_nodes="Never", backoff_limit=0)
