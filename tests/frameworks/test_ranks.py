"""Ranks: two roles in the order of their ranks, merged if their fields are the same."""

from dataclasses import replace

import pytest

from mlgen import MlgenError
from mlgen.frameworks._planner import Planner
from mlgen.frameworks.pytorch import RANK, Member, members, ranked
from mlgen.jobfile.model import (
    Network,
    RoleSpec,
    RunPolicy,
    SuccessPolicy,
    TrainingJob,
    WaitFor,
)
from mlgen.topology import INDEX, Success

LEADER, FOLLOWER = RoleSpec("master"), RoleSpec("worker", 2)
OTHER = RoleSpec("worker", 2, image="other:1")


def job(*specs, **fields):
    return TrainingJob("bert", "pytorch", {spec.name: spec for spec in specs}, **fields)


def numbered(*specs):
    return members(job(*specs))


def test_roles_with_the_same_fields_are_merged():
    assert numbered(LEADER, FOLLOWER) == [Member(RoleSpec(RANK, 3), 3, INDEX)]


def test_each_follower_with_other_fields_has_its_own_rank():
    assert numbered(LEADER, OTHER) == [
        Member(LEADER, 1, INDEX),
        Member(OTHER, 1, "1", 0),
        Member(OTHER, 1, "2", 1),
    ]


def test_ranks_of_followers_start_after_all_leaders():
    leader = RoleSpec("master", 3)

    assert [m.rank for m in numbered(leader, OTHER)] == [INDEX, "3", "4"]


@pytest.mark.parametrize("spec", [LEADER, FOLLOWER])
def test_a_single_role_keeps_its_name(spec):
    assert numbered(spec) == [Member(spec, spec.replicas, INDEX)]


def test_merged_roles_wait_for_the_merged_role_once():
    waits = (WaitFor("worker"), WaitFor("db"), WaitFor("master"))
    specs = [RoleSpec(name, wait_for=waits) for name in ("master", "worker")]

    (member,) = numbered(*specs)

    assert member.spec.wait_for == (WaitFor(RANK), WaitFor("db"))


def env(rank, hosts, leader_port, port):
    return {"RANK": rank, "HOSTS": ",".join(hosts), "PORTS": f"{leader_port} {port}"}


def planned(*specs, **fields):
    planner = Planner(job(*specs, **fields), {"master": 1, "worker": 2})
    ranked(planner, env)
    return planner


def test_merged_roles_share_one_template():
    (role,) = planned(LEADER, FOLLOWER).roles

    hosts = "bert-rank-0.bert,bert-rank-1.bert,bert-rank-2.bert"
    assert role.env == {"RANK": INDEX, "HOSTS": hosts, "PORTS": "1 1"}
    assert (role.name, role.replicas, role.decides, role.success) == (RANK, 3, True, None)
    assert [str(wait.hosts) for wait in role.waits] == ["bert-rank-[0-2].bert", "bert-rank-0"]


def test_rank_0_ends_the_others_if_the_job_is_cleaned_up():
    (role,) = planned(LEADER, FOLLOWER, run_policy=RunPolicy("Running")).roles

    assert role.success == Success(indexes="0")


def test_a_leader_decides_and_followers_have_literal_ranks():
    roles = planned(LEADER, OTHER).roles

    hosts = "bert-master-0.bert,bert-worker-0.bert,bert-worker-1.bert"
    assert [role.env for role in roles] == [
        {"RANK": rank, "HOSTS": hosts, "PORTS": "1 2"} for rank in (INDEX, "1", "2")
    ]
    assert [(r.name, r.index, r.decides) for r in roles] == [
        ("master", None, True),
        ("worker", 0, False),
        ("worker", 1, False),
    ]
    names = ["bert-master-0.bert", "bert-worker-[0-1].bert"]
    followed = [*names, "bert-master-0"]
    assert [[str(w.hosts) for w in role.waits] for role in roles] == [names, followed, followed]
    assert {w.port for role in roles for w in role.waits} == {None}


@pytest.mark.parametrize(
    ("wait_for", "network", "ready"),
    [
        (None, Network(), [{"bert-master-0": 0}, {}, {}]),
        (None, Network(cluster_domain="x"), [{"bert-master-0": 0}, {}, {}]),
        (None, Network(host=True), [{}, {}, {}]),
        ((WaitFor("master"),), Network(), [{}, {}, {}]),
    ],
)
def test_followers_wait_for_the_start_of_rank_0(wait_for, network, ready):
    follower = replace(OTHER, wait_for=wait_for)

    roles = planned(LEADER, follower, network=network, namespace="x").topology().roles

    assert [role.ready for role in roles] == ready
    started = [any(wait.started for wait in role.waits) for role in roles]
    assert started == [False, *[any(ready)] * 2]


def test_rank_0_of_a_merged_role_resolves_while_it_is_ready():
    (role,) = planned(LEADER, FOLLOWER).topology().roles

    assert role.ready == {"bert-rank-0": 0}


def test_rank_0_cannot_wait_until_a_follower_listens_that_waits_for_its_start():
    (problem,) = planned(replace(LEADER, wait_for=(WaitFor("worker"),)), OTHER).topology().problems

    assert problem.code == "wait-cycle"


def test_followers_alone_decide_when_all_have_succeeded():
    (role,) = planned(FOLLOWER).roles

    assert (role.decides, role.success) == (True, None)
    assert role.env["PORTS"] == "2 2"


def test_a_single_replica_waits_for_nobody():
    (role,) = planned(LEADER).roles

    assert (role.waits, role.success) == ((), None)
    assert role.env == {"RANK": INDEX, "HOSTS": "bert-master-0.bert", "PORTS": "1 None"}


def test_with_host_networking_rank_0_sees_its_port_on_the_node():
    planner = planned(LEADER, FOLLOWER, network=Network(host=True))

    own = planner.host_ports.port(RANK, 0, "peers")
    assert [role.env["PORTS"] for role in planner.roles] == [f"{own} 1", "1 1", "1 1"]


@pytest.mark.parametrize(
    ("specs", "role", "is_valid"),
    [
        ((LEADER, FOLLOWER), "master", True),
        ((LEADER, FOLLOWER), RANK, True),
        ((LEADER, FOLLOWER), "worker", False),
        ((LEADER, OTHER), "master", True),
        ((LEADER, OTHER), "worker", False),
        ((FOLLOWER,), "worker", True),
        ((FOLLOWER,), "master", False),
    ],
)
def test_the_role_of_rank_0_is_the_deciding_role(specs, role, is_valid):
    planner = planned(*specs, success_policy=SuccessPolicy(role))

    assert (planner.collector.problems == ()) is is_valid


def test_no_replicas_are_added_after_a_variable_that_is_too_large():
    planner = Planner(job(LEADER, OTHER), {"master": 1, "worker": 2})
    with pytest.raises(MlgenError, match="X has 131072 bytes"):
        ranked(planner, lambda **_: {"X": "x" * (128 << 10)})

    assert not planner.roles


def test_no_replicas_are_added_if_each_would_need_one_object_too_many():
    many = replace(FOLLOWER, image="other", replicas=25_000)
    planner = Planner(job(LEADER, many), {"master": 1, "worker": 2})
    with pytest.raises(MlgenError, match="25,000 replicas needs its own objects, a Job;") as caught:
        ranked(planner, lambda **_: {})

    assert not planner.roles
    assert [problem.code for problem in caught.value.problems] == ["too-large"]


@pytest.mark.parametrize(
    ("policies", "is_merged"),
    [
        ({"success_policy": SuccessPolicy(roles=("master", "worker"))}, True),
        ({"run_policy": RunPolicy(restart_scope=("worker", "master"))}, True),
        ({"run_policy": RunPolicy(restart_scope="All")}, True),
        ({"run_policy": RunPolicy(restart_scope=("worker",))}, False),
    ],
)
def test_roles_are_merged_only_if_the_policies_name_both_or_neither(policies, is_merged):
    found = members(job(LEADER, FOLLOWER, **policies))

    assert (found[0].spec.name == RANK) == is_merged


@pytest.mark.parametrize("names", [("worker", "master"), "All"])
def test_merged_roles_restart_and_decide_under_their_new_name(names):
    planner = Planner(
        job(
            LEADER,
            FOLLOWER,
            run_policy=RunPolicy(restart_scope=names),
            success_policy=SuccessPolicy(roles=("master", "worker")),
        ),
        {"rank": 1, "master": 1, "worker": 1},
    )
    ranked(planner, lambda rank, **_: {"RANK": rank})

    topology = planner.topology()

    (role,) = topology.roles
    assert (role.name, role.gang, role.decides, role.success) == (RANK, True, True, None)
    assert topology.decides == "one"
