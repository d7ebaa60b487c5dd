"""The identity of objects, and null fields."""

import pytest

from mlgen.kubernetes.objects import keys, without_nulls


def item(metadata, version="batch/v1", kind="Job"):
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"name": "a"}, ("batch", "Job", "", "a")),
        ({"name": "a", "namespace": "b"}, ("batch", "Job", "b", "a")),
        ({"name": "a", "namespace": None}, ("batch", "Job", "", "a")),
        ({"name": "a", "namespace": 1}, ("batch", "Job", "", "a")),
    ],
)
def test_an_object_is_identified_by_group_kind_namespace_and_name(metadata, key):
    assert [key] == keys([item(metadata)])


@pytest.mark.parametrize("metadata", [None, [], {}, {"name": ""}, {"name": 1}, {"namespace": "a"}])
def test_an_object_without_a_name_has_no_identity(metadata):
    assert [("", "Pod", "", "b")] == keys([item(metadata), item({"name": "b"}, "v1", "Pod")])


def test_a_list_has_no_identity():
    assert [] == keys([{"apiVersion": "v1", "kind": "List", "items": []}])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": None, "b": {"c": None}}, {"b": {}}),
        ({"a": [{"b": None, "c": 0}]}, {"a": [{"c": 0}]}),
        ({"a": ["", 0, False, [], {}]}, {"a": ["", 0, False, [], {}]}),
        ([None, 1], [None, 1]),
        (None, None),
    ],
)
def test_null_fields_are_removed_and_null_items_stay(value, expected):
    assert expected == without_nulls(value)


def test_the_original_data_keeps_its_nulls():
    data = {"a": {"b": None}}

    without_nulls(data)

    assert {"a": {"b": None}} == data
