"""Build a `TrainingJob` from the data of a job file that is valid against the schema."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mlgen.jobfile.gpus import has_gpus
from mlgen.jobfile.model import (
    GiveUpAfter,
    Helpers,
    HostPorts,
    Network,
    Placement,
    Rdma,
    Resources,
    RoleSpec,
    RunPolicy,
    Scheduling,
    Security,
    SuccessPolicy,
    Tensorboard,
    TrainingJob,
    WaitFor,
    WaitPolicy,
)


def training_job(
    data: Mapping[str, Any],
    namespace: str | None = None,
    *,
    supervisor: bool = True,
    converted: bool = False,
) -> TrainingJob:
    """Return the job that a job file describes, with defaults for the fields that it omits.

    Args:
        data: the job file, valid against the schema.
        namespace: overrides the namespace in the job file.
        supervisor: False if mlgen must not add a supervisor.
        converted: the job file was converted from an operator's custom resource.
    """
    metadata, spec = data["metadata"], data["spec"]
    roles = {name: _role(name, spec, role) for name, role in spec["roles"].items()}
    return TrainingJob(
        name=metadata["name"],
        framework=spec["framework"],
        roles={name: role for name, role in roles.items() if role.replicas},
        namespace=namespace or metadata.get("namespace"),
        name_suffix=metadata.get("nameSuffix"),
        labels=metadata.get("labels", {}),
        annotations=_object_annotations(metadata.get("annotations", {})),
        options=spec.get("options", {}),
        run_policy=_run_policy(spec.get("runPolicy", {})),
        success_policy=_success_policy(spec.get("successPolicy", {})),
        wait=WaitPolicy(**_snake(spec.get("wait", {}))),
        network=_network(spec.get("network", {})),
        scheduling=_scheduling(spec.get("scheduling", {})),
        security=Security(**_snake(spec.get("security", {}))),
        tensorboard=_tensorboard(spec["tensorboard"]) if "tensorboard" in spec else None,
        volumes=spec.get("volumes", {}),
        claims=spec.get("claims", {}),
        helpers=Helpers(**_snake(spec.get("helpers", {}))),
        supervisor=supervisor,
        converted=converted,
    )


def _object_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Drop annotations by which kustomize and kpt track the job file itself."""
    return {
        name: value
        for name, value in annotations.items()
        if not name.startswith(TRACKING_PREFIXES) or name in OBJECT_ANNOTATIONS
    }


TRACKING_PREFIXES = (
    "alpha.config.kubernetes.io/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""Prefixes of annotations by which kustomize and kpt track a resource.

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


def _run_policy(policy: Mapping[str, Any]) -> RunPolicy:
    values = _snake(policy)
    if isinstance(values.get("restart_scope"), list):
        values["restart_scope"] = tuple(values["restart_scope"])
    if "give_up_after" in values:
        values["give_up_after"] = GiveUpAfter(**_snake(values["give_up_after"]))
    return RunPolicy(**values)


def _success_policy(policy: Mapping[str, Any]) -> SuccessPolicy:
    values = _snake(policy)
    return SuccessPolicy(**values | {"roles": tuple(values.get("roles", ()))})


def _network(network: Mapping[str, Any]) -> Network:
    values = _snake(network)
    if "host_ports" in values:
        values["host_ports"] = HostPorts(**_snake(values["host_ports"]))
    rdma = _snake(values.pop("rdma", {}))
    networks = tuple(rdma.pop("networks", ()))
    return Network(**values, rdma=Rdma(**rdma, networks=networks))


def _scheduling(scheduling: Mapping[str, Any]) -> Scheduling:
    values = _snake(scheduling)
    values |= {key: Placement(**values[key]) for key in ("topology", "spread") if key in values}
    if "min_resources" in values:
        values["min_resources"] = _quantities(values["min_resources"])
    return Scheduling(**values)


def _tensorboard(tensorboard: Mapping[str, Any]) -> Tensorboard:
    values = _snake(tensorboard)
    return Tensorboard(**values | {"resources": _resources(values.get("resources", {}))})


def _role(name: str, spec: Mapping[str, Any], role: Mapping[str, Any]) -> RoleSpec:
    """Merge the fields of a role with those of `spec` that apply to all roles."""
    spec_values, role_values = _snake(spec), _snake(role)
    shared = {key: spec_values[key] for key in spec_values if key in ROLE_FIELDS}
    merged = shared | role_values
    for key in ("env", "volumes"):
        merged[key] = shared.get(key, {}) | role_values.get(key, {})
    merged.pop("template", None)
    templates = tuple(v["template"] for v in (spec_values, role_values) if "template" in v)
    for key in ("command", "args", "retryable_exit_codes", "tolerations"):
        merged[key] = tuple(merged.get(key, ()))
    if "wait_for" in merged:
        merged["wait_for"] = tuple(WaitFor(**wait) for wait in merged["wait_for"])
    if "shm_size" in merged:
        merged["shm_size"] = str(merged["shm_size"])
    resources = _resources(merged.pop("resources", {}))
    return RoleSpec(
        name=name,
        resources=resources,
        templates=templates,
        gpus=has_gpus(resources, templates),
        own_resources="resources" in role,
        **merged,
    )


ROLE_FIELDS = frozenset(field.name for field in fields(RoleSpec))


def _resources(resources: Mapping[str, Any]) -> Resources:
    """Move amounts outside of `requests` and `limits` into the limits, the default of requests."""
    shared = {name: amount for name, amount in resources.items() if name not in RESOURCE_KINDS}
    requests, limits = (resources.get(kind, {}) for kind in RESOURCE_KINDS)
    merged = {"requests": _quantities(requests), "limits": _quantities(shared | limits)}
    return {kind: amounts for kind, amounts in merged.items() if amounts}


RESOURCE_KINDS = ("requests", "limits")


def _quantities(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Return amounts as strings: a job file may have numbers."""
    return {name: str(amount) for name, amount in amounts.items()}
