"""A document → `Job`: what the user asked for, with every default.

The names are those of the job file, which borrows them from the operators and from Kubernetes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Resources = dict[str, dict[str, str]]
"""As in a container: {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One role to wait for, until all of its replicas accept connections or have a name."""

    role: str
    until: Literal["port", "name"] = "port"


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What the user asked for one role; what he gave for all roles is in it.

    Attributes:
        env: texts, or {"valueFrom": …}, by name.
        templates: pod templates to merge in turn: that for all roles, then the role's own.
        wait_for: None where the framework decides.
        gpus: a GPU is among the resources, here or in a template.
    """

    name: str
    replicas: int = 1
    image: str | None = None
    image_pull_policy: str | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=dict)
    service_account_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    main_container: str = "main"
    restart_policy: str | None = None
    retryable_exit_codes: tuple[int, ...] = ()
    wait_for: tuple[WaitFor, ...] | None = None
    templates: tuple[Mapping[str, Any], ...] = ()
    gpus: bool = False


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """What holds for the whole job; times in seconds."""

    clean_pod_policy: str = "None"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False


@dataclass(frozen=True, slots=True)
class SuccessPolicy:
    """When the job has succeeded: All or First of a role's replicas, or that many of them."""

    role: str | None = None
    replicas: str | int | None = None


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How long replicas wait for their peers, in seconds."""

    timeout_seconds: int = 600


@dataclass(frozen=True, slots=True)
class Network:
    """How replicas are addressed."""

    cluster_domain: str | None = None


@dataclass(frozen=True, slots=True)
class Helpers:
    """The images of the containers that mlgen adds."""

    wait_image: str = "busybox:1.36"
    kubectl_image: str = "alpine/kubectl:1.34.2"


@dataclass(frozen=True, slots=True)
class Job:
    """One training job. Roles of 0 replicas are not in it; `options` have no defaults filled in."""

    name: str
    framework: str
    roles: Mapping[str, RoleSpec]
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    run_policy: RunPolicy = field(default_factory=RunPolicy)
    success_policy: SuccessPolicy = field(default_factory=SuccessPolicy)
    wait: WaitPolicy = field(default_factory=WaitPolicy)
    network: Network = field(default_factory=Network)
    helpers: Helpers = field(default_factory=Helpers)


def read(data: Mapping[str, Any], namespace: str | None = None) -> Job:
    """Read a TrainingJob that holds against the schema.

    Args:
        data: the document.
        namespace: takes the place of the one in the document.
    """
    metadata, spec = data["metadata"], data["spec"]
    specs = {name: _role(name, spec, role) for name, role in spec["roles"].items()}
    return Job(
        name=metadata["name"],
        framework=spec["framework"],
        roles={name: role for name, role in specs.items() if role.replicas},
        namespace=namespace or metadata.get("namespace"),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        options=spec.get("options", {}),
        run_policy=RunPolicy(**_snake(spec.get("runPolicy", {}))),
        success_policy=SuccessPolicy(**_snake(spec.get("successPolicy", {}))),
        wait=WaitPolicy(**_snake(spec.get("wait", {}))),
        network=Network(**_snake(spec.get("network", {}))),
        helpers=Helpers(**_snake(spec.get("helpers", {}))),
    )


def _snake(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a mapping under the names of our dataclasses."""
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name): value
        for name, value in given.items()
    }


def _role(name: str, spec: Mapping[str, Any], role: Mapping[str, Any]) -> RoleSpec:
    """A role, with what is given for all roles where it says nothing itself."""
    everyone, own = _snake(spec), _snake(role)
    general = {key: everyone[key] for key in everyone if key in ROLE_FIELDS}
    given = general | own
    given["env"] = general.get("env", {}) | own.get("env", {})
    templates = tuple(words["template"] for words in (everyone, own) if "template" in words)
    given.pop("template", None)
    for key in ("command", "args", "retryable_exit_codes"):
        given[key] = tuple(given.get(key, ()))
    if "wait_for" in given:
        given["wait_for"] = tuple(WaitFor(**wait) for wait in given["wait_for"])
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
