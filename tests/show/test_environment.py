"""Variables of a container, expanded like by the kubelet."""

import pytest

from mlgen.show.replica import (
    Running,
    environment,
    expanded,
    mounts,
    volume_words,
    with_job_index,
    words,
)

POD = Running(
    "job-w-1",
    None,
    {"index": "1"},
    {"note": "x"},
    "default",
    {"settings": {"LR": "1e-5", "STEPS": "10"}},
)


def variables(container):
    return [(item.name, item.value, item.source) for item in environment(container, POD)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(MISSING) $(A", "$(MISSING) $(A"),
        ("$A ${A}", "$A ${A}"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text, value):
    assert expanded(text, {"A": "1", "B": "2"}) == value


def test_variables_that_double_do_not_use_up_the_memory():
    """Linux runs no program with a variable of more than 128 KiB."""
    env = [{"name": "V0", "value": "x" * 1000}]
    env += [{"name": f"V{i}", "value": f"$(V{i - 1})$(V{i - 1})"} for i in range(1, 60)]

    values = {name: value for name, value, _ in variables({"env": env})}

    assert values["V7"] == "x" * 128_000
    assert values["V8"] == "x" * 128_000 + "$(V7)"
    assert sum(map(len, values.values())) <= 4 << 20
    assert sum(map(len, words(["$(V7)"] * 100, environment({"env": env[:8]}, POD)))) <= 4 << 20


def test_a_reference_to_a_later_variable_remains():
    env = [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "2"}, {"name": "C"}]

    assert variables({"env": env}) == [("A", "$(B)", ""), ("B", "2", ""), ("C", "", "")]


@pytest.mark.parametrize(
    ("origin", "value", "where"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "job-w-1", "metadata.name of the pod"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "<namespace>", ""),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "<IP of the pod>", ""),
        ({"fieldRef": {"fieldPath": "status.other"}}, "<status.other>", ""),
        ({"fieldRef": {"fieldPath": "metadata.labels['index']"}}, "1", "label index of the pod"),
        (
            {"fieldRef": {"fieldPath": "metadata.annotations['note']"}},
            "x",
            "annotation note of the pod",
        ),
        ({"configMapKeyRef": {"name": "settings", "key": "LR"}}, "1e-5", "ConfigMap settings"),
        ({"configMapKeyRef": {"name": "other", "key": "LR"}}, "<LR of ConfigMap other>", ""),
        ({"secretKeyRef": {"name": "hub", "key": "token"}}, "<token of Secret hub>", ""),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "1", "limits.cpu of the container"),
        (
            {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Ki"}},
            "4096",
            "limits.memory of the container",
        ),
        (
            {"resourceFieldRef": {"resource": "limits.storage"}},
            "<limits.storage of the node>",
            "",
        ),
        ({"fileKeyRef": {}}, "<unknown>", ""),
    ],
)
def test_sources_of_a_value(origin, value, where):
    container = {
        "resources": {"limits": {"cpu": "10m", "memory": "4Mi"}},
        "env": [{"name": "A", "valueFrom": origin}],
    }

    assert variables(container) == [("A", value, where)]


def test_a_pod_of_an_indexed_job_has_its_index():
    """Observed in pods of a real cluster, like all variables in this file."""
    added = with_job_index({"env": [{"name": "A", "value": "x"}]})

    assert [item["name"] for item in added["env"]] == ["A", "JOB_COMPLETION_INDEX"]
    assert with_job_index(added) == added


def test_all_keys_of_an_object():
    container = {
        "envFrom": [
            {"configMapRef": {"name": "settings"}, "prefix": "P_"},
            {"secretRef": {"name": "hub"}},
            {"other": {}},
        ],
        "env": [{"name": "A", "value": "$(P_LR)"}],
    }

    assert variables(container) == [
        ("P_LR", "1e-5", "ConfigMap settings"),
        ("P_STEPS", "10", "ConfigMap settings"),
        ("…", "<each key>", "Secret hub"),
        ("A", "1e-5", ""),
    ]
    assert words(["--lr", "$(P_LR)"], environment(container, POD)) == ["--lr", "1e-5"]


def test_volumes_in_words():
    pod = {"volumes": [{"name": "a", "csi": {"driver": "s3.example"}}]}
    container = {"volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "b"}]}

    assert mounts(pod, container) == [("/a", "CSI driver s3.example, path b")]
    assert volume_words({"name": "x", "projected": {}}) == "projected"
    assert volume_words({}) == "(no such volume)"
