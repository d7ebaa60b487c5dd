"""JSON Schemas that the custom resources of several operators share."""

from collections.abc import Mapping
from typing import Any

from mlgen import bounds
from mlgen.jobfile.schema import base

TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
PODS: dict[str, Any] = COUNT | {"maximum": bounds.REPLICAS}
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
"""Fields that the API server adds; accepted, so that the output of `kubectl get` can be read."""

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
    """Return the JSON Schema of a list of a definition of the job file's schema.

    Args:
        definition: its name. Each item must have a name.
        lists: lists within an item, and the field that each of their items must have.
    """
    keys = {name: {"items": {"required": [key]}} for name, key in lists.items()}
    required = {"required": ["name"], "properties": keys}
    reference = {"$ref": f"#/definitions/{definition}"}
    return {"type": "array", "items": {"allOf": [reference, required]}}


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
"""The fields of a PodTemplateSpec that dialects read; other checks cover its other fields.

apiVersion and kind are accepted, because the API server drops them if a template has the form of a
Pod.
"""


def mapping(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the JSON Schema of a mapping with these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": dict(properties),
    }


def resource(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a custom resource with this `spec`."""
    fields = {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA, "spec": spec, "status": {}}
    return mapping(fields, "metadata", "spec") | {"definitions": base()["definitions"]}
