"""Waits: the job file overrides the framework's waits, and cycles are errors."""

import pytest

from mlgen.frameworks._planner import Planner
from mlgen.jobfile.model import Network, RoleSpec, TrainingJob, WaitFor
from mlgen.topology import Hosts, Wait

PS, WORKER = RoleSpec("ps"), RoleSpec("worker", replicas=3)
FOR_PS = Wait("ps", Hosts("ctr-ps-", 1, ".ctr"), 2222)
WORKERS = Hosts("ctr-worker-", 3, ".ctr")
HOST = Network(host=True)


def waiting(name, *peers, until="port", **fields):
    """Return a role with waitFor."""
    return RoleSpec(name, wait_for=tuple(WaitFor(peer, until) for peer in peers), **fields)


def laid_out(*specs, **fields):
    """Lay out roles that wait for ps by default. The last role determines the outcome."""
    job = TrainingJob("ctr", "generic", {spec.name: spec for spec in specs}, **fields)
    planner = Planner(job, {"ps": 2222, "worker": 3333})
    for spec in specs:
        planner.add(spec, decides=spec is specs[-1], waits=(FOR_PS,))
    return planner.topology()


def test_the_job_file_overrides_waits():
    topology = laid_out(
        PS, waiting("a", "worker"), waiting("b", "worker", until="name"), waiting("c"), WORKER
    )

    assert {role.name: role.waits for role in topology.roles} == {
        "ps": (FOR_PS,),
        "a": (Wait("worker", WORKERS, 3333),),
        "b": (Wait("worker", WORKERS, None),),
        "c": (),
        "worker": (FOR_PS,),
    }


def test_a_wait_for_split_replicas_is_for_all_of_them():
    topology = laid_out(waiting("worker", replicas=3), waiting("ps", "worker"), network=HOST)

    (wait,) = topology.roles[-1].waits
    assert list(wait.hosts) == ["ctr-worker-0", "ctr-worker-1", "ctr-worker-2"]


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        (waiting("worker", "pss"), 'the job has no role "pss"', 'did you mean "ps"?'),
        (waiting("worker", "xx"), 'the job has no role "xx"', "the roles are a, ps, worker"),
        (
            waiting("worker", "a"),
            "a has no port to wait for",
            "set a port for a, or write until: name",
        ),
    ],
)
def test_a_wait_that_cannot_be_satisfied(spec, message, hint):
    (problem,) = laid_out(PS, RoleSpec("a"), spec).problems

    assert problem.path == ("spec", "roles", "worker", "waitFor")
    assert (problem.message, problem.hint) == (message, hint)


@pytest.mark.parametrize(
    ("specs", "cycle"),
    [
        ((waiting("ps", "worker"), waiting("worker", "ps")), ["ps", "worker"]),
        ((PS, waiting("worker", "worker", replicas=2)), ["worker"]),
        (
            (waiting("ps", "a"), waiting("a", "worker", port=1), waiting("worker", "ps")),
            ["ps", "a", "worker"],
        ),
    ],
)
def test_roles_that_wait_for_each_others_ports(specs, cycle):
    (problem,) = laid_out(*specs).problems

    assert problem.code == "wait-cycle"
    names = problem.message.partition(": ")[2].split(" → ")
    first = cycle.index(names[0])  # a cycle is reported from any of its roles
    assert names == [*cycle[first:], *cycle[:first], names[0]]
    assert problem.path == ("spec", "roles", names[0], "waitFor")


@pytest.mark.parametrize(
    "specs",
    [
        (waiting("ps", "worker", until="name"), waiting("worker", "ps")),
        (waiting("ps"), waiting("worker", "worker", replicas=1)),
    ],
    ids=["name", "own first replica"],
)
def test_waits_that_are_no_cycle(specs):
    assert len(laid_out(*specs).roles) == 2
