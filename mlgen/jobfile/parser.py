"""Builds a `TrainingJob` from the data of a valid job file."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlgen.documents.flags import ROLES
from mlgen.jobfile.model import (
    MAIN,
    GiveUpAfter,
    Helpers,
    HostPorts,
    Network,
    Placement,
    Progress,
    Rdma,
    Resources,
    RoleSpec,
    RunPolicy,
    Scheduling,
    Security,
    ServerPolicy,
    Slice,
    SuccessPolicy,
    Tensorboard,
    Together,
    TrainingJob,
    WaitFor,
    WaitPolicy,
    containers_of,
    has_gpus,
)
from mlgen.jobfile.validation import AMOUNTS, EXCUSE
from mlgen.kubernetes.values import has, value_at
from mlgen.problems import ValuePath
from mlgen.version import ANNOTATION


def training_job(
    data: Mapping[str, Any],
    namespace: str | None = None,
    *,
    supervisor: bool = True,
    converted: bool = False,
    unwritten: Collection[str] = (),
) -> TrainingJob:
    """Return the job that a job file describes, with defaults for the fields that it omits.

    Args:
        data: the job file, valid against the schema.
        namespace: overrides the namespace in the job file.
        supervisor: False if mlgen must not add a supervisor.
        converted: the job file was converted from an operator's custom resource.
        unwritten: the roles whose restart policy is the default of that operator.
    """
    metadata, spec = data["metadata"], data["spec"]
    roles = {name: _role(name, spec, role) for name, role in spec["roles"].items()}
    parts = {name: value for name, value in _snake(spec).items() if name in JOB_FIELDS}
    return TrainingJob(
        **_model_values(parts)
        | {
            "name": metadata["name"],
            "roles": {name: role for name, role in roles.items() if role.replicas},
            "empty_roles": tuple(name for name, role in roles.items() if not role.replicas),
            "namespace": namespace or metadata.get("namespace"),
            "name_suffix": metadata.get("nameSuffix"),
            "labels": metadata.get("labels", {}),
            "annotations": _object_annotations(metadata.get("annotations", {})),
            "supervisor": supervisor,
            "converted": converted,
            "unwritten": frozenset(unwritten),
        },
    )


JOB_FIELDS = frozenset(TrainingJob.__match_args__)


def _object_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Drop annotations that concern only the job file: of kustomize and kpt, and excuses.

    The version of mlgen, in a JobSet that mlgen has rendered, is also dropped.
    """
    dropped = (*TRACKING_PREFIXES, EXCUSE, ANNOTATION)
    return {
        name: value
        for name, value in annotations.items()
        if not name.startswith(dropped) or name in OBJECT_ANNOTATIONS
    }


TRACKING_PREFIXES = (
    "alpha.config.kubernetes.io/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""Prefixes of annotations with which kustomize and kpt track a resource.

kyaml/kio/kioutil and kustomize's api/internal/utils.
"""

OBJECT_ANNOTATIONS = ("config.kubernetes.io/depends-on",)
"""Annotations with such a prefix that apply to the rendered objects.

`depends-on` orders `kpt live apply`: sigs.k8s.io/cli-utils, pkg/object/dependson.
"""


def _snake(fields_by_name: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the fields of a mapping from camel case to snake case."""
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in fields_by_name.items()
    }


PARTS: Mapping[str, type] = {
    "give_up_after": GiveUpAfter,
    "helpers": Helpers,
    "host_ports": HostPorts,
    "network": Network,
    "network_policy": ServerPolicy,
    "progress": Progress,
    "rdma": Rdma,
    "run_policy": RunPolicy,
    "scheduling": Scheduling,
    "security": Security,
    "slice": Slice,
    "spread": Placement,
    "success_policy": SuccessPolicy,
    "tensorboard": Tensorboard,
    "topology": Together,
    "wait": WaitPolicy,
}
"""The fields that are dataclasses of the model."""


def _model_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of fields in the form of the model, by names in snake case."""
    return {name: _model_value(name, value) for name, value in values.items()}


def _model_value(name: str, value: Any) -> Any:
    """Return the value of a field in the form of the model: a dataclass, a tuple, or unchanged."""
    if name == "scheduling" and "queue" in value and not {"gang", "schedulerName"} & value.keys():
        value = {"gang": "kueue", **value}  # the only queue that a plain Job can be in
    if name in PARTS:
        return PARTS[name](**_model_values(_snake(value)))
    if name == "resources":
        return _resources(value)
    if name == "min_resources":
        return _quantities(value)
    return tuple(value) if isinstance(value, list) else value


def _role(name: str, spec: Mapping[str, Any], role: Mapping[str, Any]) -> RoleSpec:
    """Merge the fields of a role with the fields of `spec` that apply to all roles."""
    spec_values, role_values = _snake(spec), _snake(role)
    merged = {key: spec_values[key] for key in spec_values if key in ROLE_FIELDS} | role_values
    for key in MERGED:
        common, own = spec_values.get(key, {}), role_values.get(key)
        merged[key] = common | own if own else common  # equal roles share one mapping
    templates = tuple(v["template"] for v in (spec_values, role_values) if "template" in v)
    merged.pop("template", None)
    if "main_container" not in merged:
        merged["main_container"] = _main_container(templates, merged)
    if "wait_for" in merged:
        merged["wait_for"] = [WaitFor(**wait) for wait in merged["wait_for"]]
    if "shm_size" in merged:
        merged["shm_size"] = str(merged["shm_size"])
    merged = {"resources": {}} | _model_values(merged)
    return RoleSpec(
        name=name,
        templates=templates,
        gpus=has_gpus(merged["resources"], templates),
        own_resources="resources" in role,
        **merged,
    )


MERGED = ("env", "volumes")
"""The fields of `spec` whose entries a role has in addition to its own."""


def origin(data: Mapping[str, Any], path: ValuePath) -> ValuePath:
    """Return the path in a job file of a value that a role has: its own, or that of all roles.

    Args:
        data: the data of the job file.
        path: the path of a value. Unless it leads into a role, it is returned unchanged. A role
            that is not in the job file was merged from its roles.
    """
    if path[:2] != ROLES or path == ROLES:
        return path
    spec, role, field = data["spec"], data["spec"]["roles"].get(path[2]), path[3:]
    name = field[0] if field else ""
    # The template of a role has only some of the values, and a mapping in MERGED some entries.
    own = field if name == "template" else field[:2] if name in MERGED else field[:1]
    if own and not _contains(role, own) and _contains(spec, own):
        return ("spec", *field)
    return ROLES if role is None else path


def _contains(value: Any, path: ValuePath) -> bool:
    """Return whether a value contains a path, which is not empty."""
    return has(value_at(value, path[:-1]), path[-1])


def _main_container(templates: Sequence[Mapping[str, Any]], role: Mapping[str, Any]) -> str:
    """Return the name of the training container: `main`, or the only one that can be meant.

    The only container of a template is a second one if it and the role have an image, or a command.
    Else, the API server would reject two containers, because one of them has no image.
    """
    containers = [each for template in templates for each in containers_of(template)]
    names = {each.get("name") for each in containers}
    own = ("image", "command")
    has_two = any(role.get(key) and each.get(key) for key in own for each in containers)
    return MAIN if len(names) != 1 or has_two else names.pop() or MAIN


ROLE_FIELDS = frozenset(RoleSpec.__match_args__)


def _resources(resources: Mapping[str, Any]) -> Resources:
    """Move amounts outside of `requests` and `limits` into `limits`, the default of requests."""
    shared = {name: amount for name, amount in resources.items() if name not in AMOUNTS}
    requests, limits = (resources.get(kind, {}) for kind in AMOUNTS)
    merged = {"requests": _quantities(requests), "limits": _quantities(shared | limits)}
    return {kind: amounts for kind, amounts in merged.items() if amounts}


def _quantities(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Return amounts as strings. In a job file, they may be numbers."""
    return {name: str(amount) for name, amount in amounts.items()}
