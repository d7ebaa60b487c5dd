"""Environment variables: the index, the order of definitions and references."""

import pytest
from objects.samples import role

from mlgen.objects.pod import index_variable, main_env, with_index_variable
from mlgen.topology import POD_IP

INDEX = {"name": "MLGEN_REPLICA_INDEX", "value": "3"}
USE = "$(MLGEN_REPLICA_INDEX)"


def names(env):
    """The order of variables, without the index."""
    return [variable["name"] for variable in env][1:]


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({"index": 0}, {"value": "0"}),
        ({"index": 3, "serves": True}, {"value": "3"}),
        ({}, "metadata.labels['batch.kubernetes.io/job-completion-index']"),
        ({"serves": True}, "metadata.labels['apps.kubernetes.io/pod-index']"),
    ],
)
def test_the_index_is_a_literal_or_the_label_of_the_pod(fields, source):
    if isinstance(source, str):
        source = {"valueFrom": {"fieldRef": {"fieldPath": source}}}

    assert index_variable(role(**fields)) == {"name": "MLGEN_REPLICA_INDEX", **source}


def test_variables_of_the_framework_follow_the_index_and_precede_those_of_the_user():
    secret = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    of = role(
        index=3,
        env={"RANK": USE, "ADDRESS": POD_IP, "LEVEL": "1"},
        spec={"env": {"TOKEN": secret, "LEVEL": "2"}},
    )

    assert main_env(of) == [
        INDEX,
        {"name": "RANK", "value": USE},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TOKEN", **secret},
        {"name": "LEVEL", "value": "2"},
    ]


def test_a_variable_follows_those_that_it_refers_to():
    rows = [
        ({"B": "b", "A": "a"}, ["B", "A"]),
        ({"B": "b", "A": "$(B)"}, ["B", "A"]),
        ({"A": "$(B)", "B": "b"}, ["B", "A"]),
        ({"A": "$(B)/$(C)", "B": "$(C)", "C": "c"}, ["C", "B", "A"]),
        ({"A": "$(A):/bin", "B": "b"}, ["A", "B"]),
        ({"A": "$(OTHER)", "B": "b"}, ["A", "B"]),
        ({"A": "B $B ${B} (B)", "B": "b"}, ["A", "B"]),
    ]

    assert [order for _, order in rows] == [
        names(main_env(role(spec={"env": env}))) for env, _ in rows
    ]


def test_variables_that_refer_to_each_other_keep_their_order():
    env = {"C": "$(A)", "A": "$(B)", "B": "$(A)"}

    assert ["C", "A", "B"] == names(main_env(role(spec={"env": env})))


def test_a_variable_of_the_framework_may_refer_to_one_of_the_user():
    of = role(env={"URL": "$(HOST):80"}, spec={"env": {"HOST": "h"}})

    assert ["HOST", "URL"] == names(main_env(of))


@pytest.mark.parametrize("field", ["initContainers", "containers"])
@pytest.mark.parametrize(
    "uses",
    [
        {"command": ["run", f"--rank={USE}"]},
        {"args": [USE]},
        {"env": [{"name": "X"}, {"name": "RANK", "value": USE}]},
    ],
)
def test_a_container_of_a_template_gets_the_index_that_it_refers_to(field, uses):
    container = {"name": "logs", **uses}

    spec = with_index_variable(role(index=3), {"hostname": "h", field: [container]})

    assert spec == {
        "hostname": "h",
        field: [container | {"env": [INDEX, *uses.get("env", [])]}],
    }


@pytest.mark.parametrize(
    "container",
    [
        {"name": "logs"},
        {"name": "logs", "command": None, "args": None, "env": None},
        {"name": "logs", "args": ["MLGEN_REPLICA_INDEX"], "env": [{"name": "A", "value": "b"}]},
        {"name": "logs", "args": [USE], "env": [{"name": "A"}, INDEX | {"value": "7"}]},
    ],
)
def test_other_containers_are_unchanged(container):
    spec = {"containers": [container], "initContainers": []}

    assert spec == with_index_variable(role(index=3), spec)
