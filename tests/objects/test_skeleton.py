"""Values in the slots of a skeleton are never parsed or escaped."""

import pytest

from mlgen.objects.skeleton import filled

HOSTILE = [
    "",
    "a: b",
    "- a",
    "yes",
    "0x1f",
    "null",
    "# comment",
    'quote " and \\n',
    "line\nbreak: [",
    "{{ metadata }}",
    "{% if x %}",
    "!slot metadata",
    "&anchor *alias !!python/object",
    "\u2028 é 🚂",
]


def test_hostile_text_arrives_unchanged():
    for text in HOSTILE:
        metadata = {"name": text, text: [text, {"nested": text}]}

        assert filled("configmap", metadata=metadata, data={text: text}) == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {text: text},
        }


def test_values_keep_their_type():
    for value in [0, 1.5, True, "", [], {}, {"a": None}]:
        for template in ["configmap", "serviceaccount"]:
            manifest = filled(template, metadata=value, data=value)

            assert manifest["metadata"] is value
            assert manifest.get("data", value) is value


def test_each_slot_gets_its_value():
    values = {
        "metadata": "m",
        "suspend": True,
        "completion_mode": "Indexed",
        "replicas": 2,
        "backoff_limit_per_index": 3,
        "max_failed_indexes": 4,
        "backoff_limit": 5,
        "deadline": 6,
        "ttl": 7,
        "succeeded_indexes": "0-7",
        "succeeded_count": 8,
        "failure_rules": [9],
        "template": "t",
    }

    assert filled("job", **values) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": "m",
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimitPerIndex": 3,
            "maxFailedIndexes": 4,
            "backoffLimit": 5,
            "activeDeadlineSeconds": 6,
            "ttlSecondsAfterFinished": 7,
            "successPolicy": {"rules": [{"succeededIndexes": "0-7", "succeededCount": 8}]},
            "podFailurePolicy": {"rules": [9]},
            "template": "t",
        },
    }


def test_optional_values_are_left_out_with_what_is_around_them():
    assert filled("job", metadata="m", template="t", backoff_limit=0, ttl=None) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": "m",
        "spec": {"backoffLimit": 0, "template": "t"},
    }


@pytest.mark.parametrize("values", [{}, {"metadata": None}])
def test_a_value_that_the_template_needs_is_an_error(values):
    with pytest.raises(ValueError, match="needs a value of metadata"):
        filled("configmap", data={}, **values)


def test_objects_share_nothing():
    first, second = (filled("service", metadata={}, selector={}) for _ in range(2))
    first["spec"]["clusterIP"] = "10.0.0.1"

    assert "clusterIP" not in second["spec"]
