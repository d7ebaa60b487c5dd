"""The shapes of the objects that mlgen renders, without which `mlgen verify` cannot check them."""

from collections.abc import Iterator
from typing import Any

from mlgen.problems import ValuePath


def mismatches(value: Any, shape: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Return the paths at which a value does not have a shape, each with the reason.

    Args:
        value: any data.
        shape: a type; `[shape]`, a list; or a mapping of shapes. A key that ends with `?` is an
            optional field, and `*` stands for all fields.
        path: of the value.
    """
    expected: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        yield path, f"is not {TYPE_NAMES[expected]}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from mismatches(item, shape[0], (*path, number))
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if key == "*":
                for field in value:
                    yield from mismatches(value[field], inner, (*path, field))
            elif name in value:
                yield from mismatches(value[name], inner, (*path, name))
            elif key == name:
                yield (*path, name), "is missing"


TYPE_NAMES = {str: "a string", int: "an integer", dict: "a mapping", list: "a list"}

STRINGS = {"*": str}
METADATA = {"metadata": {"name": str, "labels": STRINGS, "annotations?": STRINGS}}

CONFIG_MAP = {"configMap?": {"name?": str, "items?": [{"key": str}]}}

CONTAINER = {
    "name": str,
    "image?": str,
    "command?": [str],
    "args?": [str],
    "env?": [{"name": str, "value?": str, "valueFrom?": {"configMapKeyRef?": {"name?": str}}}],
    "envFrom?": [{"configMapRef?": {"name?": str}}],
    "ports?": [{"containerPort": int}],
    "volumeMounts?": [{"name": str}],
}

TEMPLATE = {
    "metadata": {"labels": STRINGS, "annotations?": STRINGS},
    "spec": {
        "subdomain?": str,
        "hostname?": str,
        "serviceAccountName?": str,
        "schedulingGroup?": {"podGroupName?": str},
        "initContainers?": [CONTAINER],
        "containers": [CONTAINER],
        "volumes?": [{"name": str, **CONFIG_MAP, "projected?": {"sources?": [CONFIG_MAP]}}],
    },
}

SELECTOR = {"matchLabels": STRINGS}

SHAPES: dict[str, dict[str, Any]] = {
    "ServiceAccount": {},
    "Role": {"rules": [{"resources?": [str], "resourceNames?": [str], "verbs": [str]}]},
    "RoleBinding": {
        "roleRef": {"name": str},
        "subjects?": [{"kind": str, "name": str, "namespace?": str}],
    },
    "ConfigMap": {"data?": STRINGS, "binaryData?": STRINGS},
    "Service": {
        "spec": {"selector": STRINGS, "clusterIP?": str, "ports?": [{"port": int}]},
    },
    "PodGroup": {
        "spec": {"minMember?": int, "schedulingPolicy?": {"gang?": {"minCount?": int}}},
    },
    "Deployment": {"spec": {"replicas?": int, "selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {
        "spec": {"replicas?": int, "serviceName?": str, "selector": SELECTOR, "template": TEMPLATE}
    },
    "Job": {
        "spec": {
            "completions?": int,
            "parallelism?": int,
            "completionMode?": str,
            "template": TEMPLATE,
        }
    },
}
"""The fields that the checks read, for each kind that mlgen renders."""
