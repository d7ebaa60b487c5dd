"""Values within plain data."""

import pytest

from mlgen.kubernetes.values import items, mapping, number, sequence, text, value_at

DATA = {"a": {"b": 0}, "c": [1, None, {"d": "e"}], "f": None, "g": True}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), DATA),
        (("a",), {"b": 0}),
        (("a", "b"), 0),
        (("a", "x"), None),
        (("a", "b", "x"), None),
        (("a", 0), None),
        (("c", 0), 1),
        (("c", "0"), None),
        (("c", 3), None),
        (("c", 2, "d"), "e"),
        (("f", "x"), None),
    ],
)
def test_the_value_at_a_path(path, value):
    assert value_at(DATA, path) == value


def test_a_value_of_another_type_counts_as_missing():
    assert mapping(DATA, "a") == {"b": 0}
    assert mapping(DATA, "c") == {}
    assert sequence(DATA, "c") == DATA["c"]
    assert sequence(DATA, "a") == []
    assert text(DATA, "c", 2, "d") == "e"
    assert text(DATA, "f") == ""
    assert number(DATA, "a", "b") == 0
    assert number(DATA, "g") is None


def test_the_mappings_in_a_list():
    assert list(items(DATA, "c")) == [(1, {}), (2, {"d": "e"})]
