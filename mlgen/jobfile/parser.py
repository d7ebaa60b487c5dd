"""A document that matches the schema → `TrainingJob`, with every default filled in."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mlgen.jobfile.model import (
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
    data: Mapping[str, Any], namespace: str | None = None, *, supervisor: bool = True
) -> TrainingJob:
    """Read a TrainingJob that holds against the schema.

    Args:
        data: the document.
        namespace: takes the place of the one in the document.
        supervisor: whether there may be one.
    """
    metadata, spec = data["metadata"], data["spec"]
    specs = {name: _role(name, spec, role) for name, role in spec["roles"].items()}
    return TrainingJob(
        name=metadata["name"],
        framework=spec["framework"],
        roles={name: role for name, role in specs.items() if role.replicas},
        namespace=namespace or metadata.get("namespace"),
        name_suffix=metadata.get("nameSuffix"),
        labels=metadata.get("labels", {}),
        annotations=_for_objects(metadata.get("annotations", {})),
        options=spec.get("options", {}),
        run_policy=RunPolicy(**_snake(spec.get("runPolicy", {}))),
        success_policy=SuccessPolicy(**_snake(spec.get("successPolicy", {}))),
        wait=WaitPolicy(**_snake(spec.get("wait", {}))),
        network=_network(spec.get("network", {})),
        scheduling=_scheduling(spec.get("scheduling", {})),
        security=Security(**_snake(spec.get("security", {}))),
        tensorboard=_tensorboard(spec["tensorboard"]) if "tensorboard" in spec else None,
        volumes=spec.get("volumes", {}),
        helpers=Helpers(**_snake(spec.get("helpers", {}))),
        supervisor=supervisor,
    )


def _for_objects(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without those that say of the job file alone where a tool has it from."""
    return {
        name: value
        for name, value in annotations.items()
        if not name.startswith(OF_TOOLS) or name in OF_OBJECTS
    }


OF_TOOLS = (
    "alpha.config.kubernetes.io/",
    "config.k8s.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "internal.kpt.dev/",
    "kustomize.config.k8s.io/",
)
"""kustomize and kpt know a resource by these: kyaml/kio/kioutil, kustomize api/internal/utils."""

OF_OBJECTS = ("config.kubernetes.io/depends-on",)
"""An order in which to apply, for `kpt live apply`: sigs.k8s.io/cli-utils, pkg/object/dependson."""


def _snake(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a mapping under the names of our dataclasses."""
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in given.items()
    }


def _network(given: Mapping[str, Any]) -> Network:
    words = _snake(given)
    if "host_ports" in words:
        words["host_ports"] = HostPorts(**_snake(words["host_ports"]))
    rdma = _snake(words.pop("rdma", {}))
    networks = tuple(rdma.pop("networks", ()))
    return Network(**words, rdma=Rdma(**rdma, networks=networks))


def _scheduling(given: Mapping[str, Any]) -> Scheduling:
    words = _snake(given)
    words |= {key: Placement(**words[key]) for key in ("topology", "spread") if key in words}
    if "min_resources" in words:
        words["min_resources"] = {k: str(v) for k, v in words["min_resources"].items()}
    return Scheduling(**words)


def _tensorboard(given: Mapping[str, Any]) -> Tensorboard:
    words = _snake(given)
    return Tensorboard(**words | {"resources": _resources(words.get("resources", {}))})


def _role(name: str, spec: Mapping[str, Any], role: Mapping[str, Any]) -> RoleSpec:
    """A role, with what is given for all roles where it says nothing itself."""
    everyone, own = _snake(spec), _snake(role)
    general = {key: everyone[key] for key in everyone if key in ROLE_FIELDS}
    given = general | own
    for key in ("env", "volumes"):
        given[key] = general.get(key, {}) | own.get(key, {})
    templates = tuple(words["template"] for words in (everyone, own) if "template" in words)
    given.pop("template", None)
    for key in ("command", "args", "retryable_exit_codes", "tolerations"):
        given[key] = tuple(given.get(key, ()))
    if "wait_for" in given:
        given["wait_for"] = tuple(WaitFor(**wait) for wait in given["wait_for"])
    if "shm_size" in given:
        given["shm_size"] = str(given["shm_size"])
    resources = _resources(given.pop("resources", {}))
    gpus = _has_gpu(resources, templates)
    return RoleSpec(name=name, resources=resources, templates=templates, gpus=gpus, **given)


ROLE_FIELDS = frozenset(entry.name for entry in fields(RoleSpec))


def _resources(given: Mapping[str, Any]) -> Resources:
    """Amounts as texts; those outside of requests and limits are both."""
    both = {name: str(a) for name, a in given.items() if name not in ("requests", "limits")}
    found = {
        kind: both | {name: str(amount) for name, amount in given.get(kind, {}).items()}
        for kind in ("requests", "limits")
    }
    return {kind: amounts for kind, amounts in found.items() if amounts}


def _has_gpu(resources: Resources, templates: tuple[Mapping[str, Any], ...]) -> bool:
    named = set(resources.get("limits", {}))
    for template in templates:
        for container in (template.get("spec") or {}).get("containers") or []:
            named |= set((container.get("resources") or {}).get("limits") or {})
    return any("gpu" in name.rpartition("/")[2] or "nvidia.com/" in name for name in named)
