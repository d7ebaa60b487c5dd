"""Paths of fields in an object."""

import pytest

from mlgen.kubernetes.changes import at, dotted


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            ("spec", "template", "spec", "containers", "[main]", "image"),
            "spec.template.spec.containers[main].image",
        ),
        (("metadata", "labels", "[example.com/a]"), "metadata.labels[example.com/a]"),
        (("roleRef",), "roleRef"),
    ],
)
def test_a_path_as_it_is_printed(path, text):
    assert text == dotted(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("a", "b"), 0),
        (("a",), {"b": 0}),
        ((), {"a": {"b": 0}, "c": [1]}),
        (("a", "x"), None),
        (("a", "b", "x"), None),
        (("c", "0"), None),
    ],
)
def test_the_value_at_a_path(path, value):
    assert value == at({"a": {"b": 0}, "c": [1]}, path)
