"""KubeDL's annotations `kubedl.io/…`, some of which hold a configuration as JSON.

An annotation that has become a part of the TrainingJob is removed from its metadata.
"""

import json
from collections.abc import Mapping

from mlgen.bounds import DEPTH
from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.documents.document import is_too_deep
from mlgen.problems import did_you_mean

NETWORK_MODE = "kubedl.io/network-mode"
ELASTIC_TRAINING = "kubedl.io/enable-elastic-training"

TYPE_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def annotation(builder: Builder, name: str) -> SourceValue:
    """Return an annotation of the custom resource."""
    return builder.resource.get("metadata", "annotations", name)


def on_host_network(builder: Builder) -> bool:
    """Return True if the pods use the network of their nodes."""
    return bool(annotation(builder, NETWORK_MODE).value == "host")


def remove_annotation(builder: Builder, name: str) -> None:
    """Remove an annotation from the TrainingJob."""
    annotations = builder.data["metadata"]["annotations"]
    del annotations[name]
    if not annotations:
        del builder.data["metadata"]["annotations"]


def read_json(builder: Builder, name: str, types: Mapping[str, type], example: str) -> SourceValue:
    """Return the JSON object in an annotation, and remove the annotation from the TrainingJob.

    Args:
        builder: gets a problem for what is not valid.
        name: of the annotation.
        types: the types of the known fields.
        example: a valid object, for hints.

    Returns:
        The object without fields that are null; nothing if there is no annotation or no valid one.
    """
    source = annotation(builder, name)
    if not source:
        return source
    remove_annotation(builder, name)
    hint = f"for example {example}"
    try:
        content = json.loads(source.value)
        json.dumps(content, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        if is_too_deep(content):
            raise RecursionError(f"nested more than {DEPTH} levels deep")
    except (ValueError, RecursionError) as error:
        builder.refuse(source, f"invalid JSON: {error}", hint)
        return SourceValue(None)
    if not isinstance(content, dict):
        builder.refuse(source, "expected a JSON object", hint)
        return SourceValue(None)
    config = SourceValue({k: v for k, v in content.items() if v is not None}, source.path)
    valid = _check_types(builder, config, types, hint)
    _report_unknown_fields(builder, config, types)
    return config if valid else SourceValue(None)


def _check_types(
    builder: Builder, config: SourceValue, types: Mapping[str, type], hint: str
) -> bool:
    """Return True if all known fields have their type; report those that have not."""
    valid = True
    for name, field in config.fields():
        if name in types and not isinstance(field.value, types[name]):
            expected, actual = TYPE_NAMES[types[name]], TYPE_NAMES[type(field.value)]
            builder.refuse(field, f"expected {expected}, got {actual}", hint)
            valid = False
    return valid


def _report_unknown_fields(
    builder: Builder, config: SourceValue, types: Mapping[str, type]
) -> None:
    """Report fields that KubeDL ignores."""
    for name, field in config.fields():
        if name not in types:
            hint = did_you_mean(name, types) or f"use one of: {', '.join(types)}"
            builder.differs(field, f'unknown field "{name}"; KubeDL ignores it too', hint)
