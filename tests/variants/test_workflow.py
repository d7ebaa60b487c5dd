"""Which roles of a job an Argo workflow restarts, and what it reports."""

from dataclasses import replace

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import RoleSpec, RunPolicy, TrainingJob
from mlgen.problems import MlgenError, Problem
from mlgen.topology import Role, Success, Topology
from mlgen.variants import workflow


def role(name="worker", *, restart="Never", serves=False, tolerates_failure=False, **spec):
    spec = RoleSpec(name, restart_policy=restart, **spec)
    return Role(name, 1, spec, serves=serves, restart=restart, tolerates_failure=tolerates_failure)


def topology(*roles, **fields):
    job = TrainingJob("job", "generic", {item.name: item.spec for item in roles})
    return Topology(replace(job, run_policy=RunPolicy(**fields)), roles)


def restart_after(item):
    return workflow.with_workflow_restarts(topology(item)).roles[0].restart


def warnings(*roles, **fields):
    return workflow.with_workflow_restarts(topology(*roles, **fields)).warnings


def test_the_workflow_takes_over_cleanup_time_to_live_and_suspend():
    policy = RunPolicy("All", backoff_limit=2, ttl_seconds_after_finished=60, suspend=True)
    job = TrainingJob("job", "generic", {}, run_policy=policy)

    taken_over = workflow.without_policies(job)

    assert taken_over.run_policy == RunPolicy("All", backoff_limit=2)
    assert taken_over.workflow


@pytest.mark.parametrize(("clean", "success"), [("None", None), ("Running", Success(indexes="0"))])
def test_the_cleanup_still_decides_whether_rank_0_ends_the_others(clean, success):
    specs = {name: RoleSpec(name) for name in ("master", "worker")}
    job = TrainingJob("job", "pytorch", specs, run_policy=RunPolicy(clean))

    laid_out = frameworks.get("pytorch").topology(workflow.without_policies(job))

    assert [item.success for item in laid_out.roles] == [success]
    assert (laid_out.supervised, laid_out.warnings) == (False, ())


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

    result = workflow.with_workflow_restarts(topology(worker, backoff_limit=0))

    assert result == topology(replace(worker, restart="Workflow"), backoff_limit=0)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((), ()), (((),), ()), (((3, 4),), (3, 4)), (((), (5,)), (5,)), (((6,), (7,)), (6,))],
)
def test_the_exit_codes_are_those_of_the_first_role_that_has_some(codes, expected):
    assert workflow.exit_codes([role(retryable_exit_codes=item) for item in codes]) == expected


def test_roles_with_different_exit_codes_are_an_error_at_the_first_that_has_some():
    roles = [
        role("chief", restart="ExitCode"),
        role("worker", restart="ExitCode", retryable_exit_codes=(3,)),
    ]

    with pytest.raises(MlgenError) as error:
        workflow.with_workflow_restarts(topology(*roles))

    assert error.value.problems == (
        Problem(
            ("spec", "roles", "worker", "retryableExitCodes"),
            "the roles have different exit codes, but a workflow restarts the whole job",
            "combination",
            "use the same codes in all roles with restartPolicy: ExitCode",
        ),
    )


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_exit_codes_matter_only_with_exit_code(restart):
    roles = [
        role("chief", restart="ExitCode", retryable_exit_codes=(3,)),
        role("worker", restart=restart, retryable_exit_codes=(4,)),
    ]

    assert workflow.with_workflow_restarts(topology(*roles)).roles[0].restart == "Workflow"


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
        "write restartPolicy: ExitCode to let the workflow alone restart the job"
        if field == "restartPolicy"
        else "remove it to let the workflow restart the job, up to runPolicy.backoffLimit times"
    )


def test_a_role_whose_replicas_fail_one_by_one_is_neither_restarted_nor_a_warning():
    item = role(backoff_limit_per_index=0)

    assert restart_after(item) == "Never"
    assert warnings(item) == ()
    assert len(warnings(replace(item, decides=True))) == 1


@pytest.mark.parametrize(
    ("codes", "text"), [((), "128 to 255"), ((143, 42), "42, 143")], ids=["default", "own"]
)
def test_a_role_that_never_restarts_is_warned_of_the_workflow(codes, text):
    (warning,) = warnings(role(retryable_exit_codes=codes), backoff_limit=2)

    assert warning == Problem(
        ("spec", "roles", "worker", "restartPolicy"),
        "the workflow still restarts the whole job, up to 2 times, if worker fails with exit code"
        f" {text}",
        "combination",
        "write runPolicy.backoffLimit: 0 to fail at the first failure",
        warning=True,
    )


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
    jobs = replace(topology(role(restart="OnFailure")), warnings=(earlier,))

    first, second = workflow.with_workflow_restarts(jobs).warnings

    assert first == earlier
    assert second.path == ("spec", "roles", "worker", "restartPolicy")


def test_policies_of_the_supervisor_that_a_workflow_does_not_have_are_warned_about():
    fields = {"backoff_limit": 0, "restart_scope": ("worker",), "metrics_port": 9090}
    several = warnings(role(), **fields)

    assert [("spec", "runPolicy", "restartScope"), ("spec", "runPolicy", "metricsPort")] == [
        problem.path for problem in several
    ]
    assert not warnings(role(), restart_scope="All", backoff_limit=0)
