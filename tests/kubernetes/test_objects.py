"""The identity of objects, and null fields."""

from mlgen.kubernetes.objects import keys, without_nulls


def item(metadata, version="batch/v1", kind="Job"):
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def test_an_object_is_identified_by_group_kind_namespace_and_name():
    rows = [
        ({"name": "a"}, ("batch", "Job", "", "a")),
        ({"name": "a", "namespace": "b"}, ("batch", "Job", "b", "a")),
        ({"name": "a", "namespace": None}, ("batch", "Job", "", "a")),
        ({"name": "a", "namespace": 1}, ("batch", "Job", "", "a")),
    ]

    assert [[key] for _, key in rows] == [keys([item(metadata)]) for metadata, _ in rows]


def test_an_object_without_a_name_has_no_identity():
    rows = [None, [], {}, {"name": ""}, {"name": 1}, {"namespace": "a"}]

    assert [[("", "Pod", "", "b")] for metadata in rows] == [
        keys([item(metadata), item({"name": "b"}, "v1", "Pod")]) for metadata in rows
    ]


def test_a_list_has_no_identity():
    assert [] == keys([{"apiVersion": "v1", "kind": "List", "items": []}])


def test_null_fields_are_removed_and_null_items_stay():
    rows = [
        ({"a": None, "b": {"c": None}}, {"b": {}}),
        ({"a": [{"b": None, "c": 0}]}, {"a": [{"c": 0}]}),
        ({"a": ["", 0, False, [], {}]}, {"a": ["", 0, False, [], {}]}),
        ([None, 1], [None, 1]),
        (None, None),
    ]

    assert [expected for _, expected in rows] == [without_nulls(value) for value, _ in rows]


def test_the_original_data_keeps_its_nulls():
    data = {"a": {"b": None}}

    without_nulls(data)

    assert {"a": {"b": None}} == data
