"""JSON Schemas that the custom resources of several operators share."""

from collections.abc import Mapping
from typing import Any

from mlgen.jobfile.schema import base

TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
SWITCH: dict[str, Any] = {"type": "boolean"}
TEXT: dict[str, Any] = {"type": "string"}

SERVER_WRITTEN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "selfLink",
    "clusterName",
)
"""What `kubectl get -o yaml` prints besides, and `kubectl apply` has no use for."""

METADATA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "examples": ["mnist"]},
        "generateName": {"type": "string", "minLength": 1},
        "namespace": {"type": "string", "minLength": 1},
        "labels": TEXTS,
        "annotations": TEXTS,
    }
    | {name: {} for name in SERVER_WRITTEN},
}


def _named(definition: str, **lists: str) -> dict[str, Any]:
    """A list of what the job file's schema defines, whose items and their items have their keys."""
    keys = {name: {"items": {"required": [key]}} for name, key in lists.items()}
    rule = {"required": ["name"], "properties": keys}
    return {"type": "array", "items": {"allOf": [{"$ref": f"#/definitions/{definition}"}, rule]}}


CONTAINERS = _named("container", env="name", ports="containerPort", volumeMounts="name")

TEMPLATE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["spec"],
    "properties": {
        "apiVersion": {},
        "kind": {},
        "metadata": METADATA,
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": CONTAINERS
                | {"minItems": 1, "examples": [[{"name": "main", "image": "example/mnist:1.4"}]]},
                "initContainers": CONTAINERS,
                "volumes": _named("volume"),
                "schedulerName": TEXT,
                "restartPolicy": TEXT,
                "hostNetwork": SWITCH,
            },
        },
    },
}
"""A PodTemplateSpec, as far as it is read here; the API server knows the rest of its fields.

Some write one as a whole Pod, whose apiVersion and kind the API server takes away.
"""


def mapping(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that has these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": dict(properties),
    }


def resource(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a custom resource with this `spec`."""
    words = {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA, "spec": spec, "status": {}}
    return mapping(words, "metadata", "spec") | {"definitions": base()["definitions"]}
