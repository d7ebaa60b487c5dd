"""The roles that must have one replica, and the roles that `successPolicy.role` accepts."""

import pytest

from mlgen import MlgenError, frameworks
from mlgen.jobfile.model import Network, RoleSpec, SuccessPolicy, TrainingJob

TRAIN = ("python", "train.py")

JOBS = {
    "elasticdl": {"master": 1},
    "horovod": {"launcher": 1, "worker": 2},
    "jax": {"worker": 2},
    "mpi": {"launcher": 1, "worker": 2},
    "mxnet": {"scheduler": 1, "server": 2, "worker": 2},
    "paddle": {"worker": 2},
    "pytorch": {"master": 1, "worker": 2},
    "ray": {"head": 1, "worker": 2, "submitter": 1},
    "tensorflow": {"chief": 1, "ps": 1, "worker": 2, "evaluator": 1},
    "xdl": {"scheduler": 1, "ps": 1, "worker": 2},
    "xgboost": {"master": 1, "worker": 2},
}
"""A small job for each framework: the number of replicas by role."""

OPTIONS = {"xdl": {"zkAddr": "zfs://zk:2181/xdl"}}

SINGLE = [
    ("elasticdl", "master"),
    ("horovod", "launcher"),
    ("mpi", "launcher"),
    ("mxnet", "scheduler"),
    ("pytorch", "master"),
    ("ray", "head"),
    ("ray", "submitter"),
    ("tensorflow", "chief"),
    ("tensorflow", "evaluator"),
    ("xdl", "scheduler"),
    ("xgboost", "master"),
]

CANDIDATES = {
    "elasticdl": {"master"},
    "horovod": {"launcher"},
    "jax": {"worker"},
    "mpi": {"launcher"},
    "mxnet": {"scheduler", "server", "worker"},
    "ray": {"submitter"},
    "tensorflow": {"chief", "worker", "evaluator"},
}
"""The roles that `successPolicy.role` can name."""


def job(framework, **replicas):
    roles = {
        name: RoleSpec(name, count, command=TRAIN)
        for name, count in (JOBS[framework] | replicas).items()
    }
    return TrainingJob("ctr", framework, roles, options=OPTIONS.get(framework, {}))


def problems(training_job):
    """Return the paths of the errors of a job; empty if the job is valid."""
    try:
        found = frameworks.get(training_job.framework).topology(training_job).problems
    except MlgenError as error:
        found = error.problems
    return [problem.path for problem in found if not problem.warning]


def test_the_small_job_is_accepted():
    for framework in JOBS:
        assert [] == problems(job(framework))


def test_a_role_can_have_one_replica_only():
    for framework, role in SINGLE:
        assert ("spec", "roles", role, "replicas") in problems(job(framework, **{role: 2}))


def test_success_policy_can_name_a_role_that_runs_to_completion():
    for framework, role in [(name, role) for name in CANDIDATES for role in JOBS[name]]:
        named = job(framework)._replace(success_policy=SuccessPolicy(role=role))

        refused = ("spec", "successPolicy", "role") in problems(named)

        assert refused == (role not in CANDIDATES[framework])


@pytest.mark.parametrize(
    ("framework", "role", "variable"),
    [("jax", "worker", "COORDINATOR_PORT"), ("pytorch", "rank", "MASTER_PORT")],
)
def test_only_the_first_replica_sees_its_own_port_on_the_node(framework, role, variable):
    on_host = job(framework)._replace(network=Network(host=True))
    roles = frameworks.get(framework).topology(on_host).roles
    ports = {(one.name, one.index): int(one.env[variable]) for one in roles}
    (first,) = [one for one in roles if (one.name, one.index) == (role, 0)]

    assert ports.pop((role, 0)) == first.host_ports["peers"]
    assert set(ports.values()) == {first.port}


def test_the_head_of_ray_listens_on_the_ports_of_its_node():
    on_host = job("ray")._replace(network=Network(host=True))
    (head,) = [one for one in frameworks.get("ray").topology(on_host).roles if one.name == "head"]
    words = " ".join(head.command)

    assert all(str(port) in words for port in head.host_ports.values())
