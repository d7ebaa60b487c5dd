"""A patch is merged into a pod as by `kubectl patch --type=strategic`."""

import copy
import difflib
import json
import subprocess

import pytest

from mlgen.kubernetes.values import merged
from mlgen.output.yaml import yaml_text

POD = {
    "metadata": {"name": "x", "labels": {"a": "1", "b": "2"}},
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"a": "1", "b": "2"},
        "containers": [
            {
                "name": "main",
                "image": "i",
                "command": ["a", "b"],
                "args": ["c"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "ports": [{"name": "peers", "containerPort": 2222}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
            }
        ],
        "initContainers": [{"name": "wait", "image": "w", "env": [{"name": "P", "value": "1"}]}],
        "imagePullSecrets": [{"name": "s"}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "volumes": [
            {"name": "v", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "cm", "items": [{"key": "k", "path": "p"}]}},
        ],
    },
}


def main(**fields):
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def spec(**fields):
    return {"spec": fields}


FIELD = {"fieldRef": {"fieldPath": "metadata.uid"}}

CASES = {
    "a variable is added": main(env=[{"name": "C", "value": "3"}]),
    "a variable changes": main(env=[{"name": "A", "value": "9"}]),
    "a variable gets another source": main(env=[{"name": "A", "value": None, "valueFrom": FIELD}]),
    "a variable goes": main(env=[{"name": "A", "$patch": "delete"}]),
    "a variable that is not there goes": main(env=[{"name": "Z", "$patch": "delete"}]),
    "all variables are replaced": main(env=[{"$patch": "replace"}, {"name": "Z", "value": "1"}]),
    "all variables go": main(env=None),
    "an empty list changes nothing": main(env=[]),
    "a command is replaced as a whole": main(command=["z"]),
    "arguments go": main(args=None),
    "a port is added": main(ports=[{"containerPort": 80}]),
    "a port changes": main(ports=[{"containerPort": 2222, "name": "x"}]),
    "limits merge": main(resources={"limits": {"cpu": None, "nvidia.com/gpu": "1"}}),
    "mounts merge": main(
        volumeMounts=[{"name": "c", "mountPath": "/c"}, {"name": "v", "mountPath": "/v"}]
    ),
    "a new mapping": main(livenessProbe={"exec": {"command": ["a"]}}),
    "a list without keys": main(envFrom=[{"secretRef": {"name": "s"}}]),
    "a container is added": spec(
        containers=[{"name": "side", "image": "s", "env": [{"name": "A"}]}]
    ),
    "a container goes": spec(containers=[{"name": "side"}, {"name": "main", "$patch": "delete"}]),
    "a container with $patch: replace": main(**{"$patch": "replace", "image": "n"}),
    "an init container changes": spec(
        initContainers=[{"name": "wait", "image": "v"}, {"name": "n"}]
    ),
    "tolerations are replaced": spec(tolerations=[{"key": "b"}]),
    "tolerations become none": spec(tolerations=[]),
    "pull secrets merge": spec(imagePullSecrets=[{"name": "t"}]),
    "host aliases are new": spec(hostAliases=[{"ip": "1.1.1.1", "hostnames": ["a"]}]),
    "node labels merge": spec(nodeSelector={"a": None, "c": "3"}),
    "node labels are replaced": spec(nodeSelector={"$patch": "replace", "c": "3"}),
    "node labels are emptied": spec(nodeSelector={"$patch": "delete"}),
    "node labels go": spec(nodeSelector=None),
    "a volume's source merges": spec(volumes=[{"name": "c", "configMap": {"name": "other"}}]),
    "a volume's items are replaced": spec(
        volumes=[{"name": "c", "configMap": {"items": [{"key": "z", "path": "y"}]}}]
    ),
    "a volume gets another source": spec(
        volumes=[{"name": "v", "emptyDir": None, "hostPath": {"path": "/x"}}]
    ),
    "a volume keeps some keys": spec(
        volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]
    ),
    "spread constraints merge": spec(
        topologySpreadConstraints=[{"topologyKey": "z", "maxSkew": 1}]
    ),
    "the spec is replaced": spec(
        **{"$patch": "replace", "containers": [{"name": "q", "image": "q"}]}
    ),
    "labels merge": {"metadata": {"labels": {"a": None, "c": "3"}}},
    "nothing": {},
}


def patched(patch):
    """Return the pod as patched by kubectl."""
    command = ["kubectl", "patch", "--local", "--type=strategic", "-f", "-", "-o", "json"]
    pod = {"apiVersion": "v1", "kind": "Pod", **POD}
    result = subprocess.run(
        [*command, "--patch", json.dumps(patch)],
        input=json.dumps(pod),
        capture_output=True,
        text=True,
        check=True,
    )
    pod = json.loads(result.stdout)
    return {"metadata": pod["metadata"], "spec": pod["spec"]}


def unordered(value):
    """Sort lists of mappings: mlgen appends new items, kubectl puts them first."""
    if isinstance(value, dict):
        return {name: unordered(item) for name, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return sorted(map(unordered, value), key=json.dumps)
    return value


def sorted_keys(value):
    return json.loads(json.dumps(value, sort_keys=True))


@pytest.mark.tools
@pytest.mark.needs("kubectl")
@pytest.mark.parametrize("patch", CASES.values(), ids=CASES)
def test_a_patch_has_the_same_result_as_with_kubectl(patch):
    expected, actual = patched(patch), merged(POD, patch)

    assert unordered(sorted_keys(expected)) == unordered(sorted_keys(actual))


def changes(patch):
    """Return the lines of the pod that a patch removes and adds."""
    before, after = (yaml_text([pod]).splitlines() for pod in (POD, merged(POD, patch)))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return "".join(f"{line}\n" for line in [*lines][2:] if not line.startswith("@@"))


def test_the_effect_of_each_patch(message):
    """The slow test compares it with the effect in kubectl."""
    before = copy.deepcopy((POD, CASES))

    text = "".join(f"{name}\n{changes(patch)}" for name, patch in CASES.items())

    assert before == (POD, CASES)
    assert text == message


def test_new_variables_are_appended_after_those_they_may_use():
    variables = [{"name": "INDEX", "value": "0"}, {"name": "TF_CONFIG", "value": "$(INDEX)"}]

    result = merged(
        variables, [{"name": "NEW", "value": "$(INDEX)"}, {"name": "INDEX", "value": "1"}], "env"
    )

    assert ["INDEX", "TF_CONFIG", "NEW"] == [variable["name"] for variable in result]


def test_null_fields_of_a_new_item_are_dropped():
    assert {"containers": [{"name": "a"}]} == merged(
        {}, {"containers": [{"name": "a", "env": None}]}
    )


def test_values_of_different_types_are_replaced():
    assert {"a": {"b": 1}} == merged({"a": "x"}, {"a": {"b": 1}})
    assert {"env": "x"} == merged({"env": [{"name": "A"}]}, {"env": "x"})


def test_a_second_patch_overrides_the_first():
    first = merged(POD, main(env=[{"name": "A", "value": "all"}, {"name": "C", "value": "all"}]))
    second = merged(first, main(env=[{"name": "C", "value": "role"}]))

    assert ["all", None, "role"] == [v.get("value") for v in second["spec"]["containers"][0]["env"]]
