"""The published schema: hints for editors that validators ignore."""

import json
import re

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

import mlgen
from mlgen import frameworks, scaffold
from mlgen.kubernetes.versions import DEFAULT

SCHEMA = json.loads(scaffold.editor_schema(DEFAULT))
SNIPPETS = {item["label"]: item for item in SCHEMA["defaultSnippets"]}


@pytest.mark.parametrize(
    "validator",
    [Draft7Validator, pytest.param(Draft202012Validator, marks=pytest.mark.slow)],
)
def test_hints_change_nothing_for_validators(validator):
    validator.check_schema({**SCHEMA, "$schema": validator.META_SCHEMA["$id"]})
    job = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"}}
    spec = {"framework": "pytorch", "roles": {"worker": {"replica": 2}, "workr": {}}}
    plain = frameworks.published_schema(frameworks.names(), DEFAULT)

    def messages(schema):
        return {error.message for error in validator(schema).iter_errors({**job, "spec": spec})}

    assert len(messages(plain)) == 2
    assert messages(plain) <= messages(SCHEMA)


def test_a_snippet_of_every_framework_renders():
    for name in frameworks.names():
        item = SNIPPETS[f"TrainingJob: {name}"]
        text = re.sub(r"\$\{\d:([^}]*)\}", r"\1", item["bodyText"])

        # ElasticDL's master needs its rights.
        assert {"rights"} >= {warning.code for warning in mlgen.validate(f"{text}\n").warnings}
        assert ("train", "example/train:1") == tuple(
            re.findall(r"\$\{\d:([^}]*)\}", item["bodyText"])
        )


def test_every_value_with_a_meaning_has_it():
    policy = SCHEMA["properties"]["spec"]["properties"]["runPolicy"]["properties"]
    restart = SCHEMA["definitions"]["restartPolicy"]

    assert policy["cleanPodPolicy"]["enumDescriptions"][:2] == [
        "Keep everything.",
        "Stop the running pods.",
    ]
    assert len(restart["enumDescriptions"]) == len(restart["enum"])
    assert all(restart["enumDescriptions"])
    assert "enumDescriptions" not in SCHEMA["definitions"]["imagePullPolicy"]


def test_roles_are_listed_for_completion():
    roles = [rule["then"]["properties"]["spec"]["properties"]["roles"] for rule in SCHEMA["allOf"]]

    assert sum("properties" not in role for role in roles) == 1  # names of any kind
    closed = [role for role in roles if "propertyNames" in role]
    assert len(closed) == len(SCHEMA["allOf"]) - 2  # groups of Ray workers have names of any kind
    assert all(list(role["properties"]) == role["propertyNames"]["enum"] for role in closed)
