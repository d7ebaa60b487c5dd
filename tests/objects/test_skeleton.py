"""Values in the slots of a skeleton are never parsed or escaped."""

import jinja2
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
    "slot:0",
    "&anchor *alias !!python/object",
    "\u2028 é 🚂",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_arrives_unchanged(text):
    metadata = {"name": text, text: [text, {"nested": text}]}

    assert filled("configmap", metadata=metadata, data={text: text}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {text: text},
    }


@pytest.mark.parametrize("value", [None, 0, 1.5, True, [], {}, {"a": None}])
def test_values_keep_their_type(value):
    assert filled("serviceaccount", metadata=value)["metadata"] is value


def test_more_than_ten_slots_are_not_confused():
    values = {
        "metadata": "m",
        "replicas": 2,
        "per_index": 3,
        "failed_indexes": 4,
        "backoff_limit": 5,
        "deadline": 6,
        "ttl": 7,
        "success": {"succeededCount": 8},
        "failure_rules": [9],
        "template": "t",
    }

    assert filled("job", suspend=True, indexed=True, **values) == {
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
            "successPolicy": {"rules": [{"succeededCount": 8}]},
            "podFailurePolicy": {"rules": [9]},
            "template": "t",
        },
    }


def test_a_value_that_the_skeleton_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="data"):
        filled("configmap", metadata={})
