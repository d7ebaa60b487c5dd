"""A role → its training container, and the helpers that run before it.

A probe or a Service may refer to a port by the name that the user gave it. So where a user and
mlgen declare the same number, the user's port counts.
"""

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.jobfile.model import TrainingJob, containers_of
from mlgen.objects import storage
from mlgen.objects.labels import index_label
from mlgen.objects.security import RESTRICTED
from mlgen.objects.storage import volume_mount
from mlgen.topology import (
    INDEX,
    INDEX_NAME,
    PEERS,
    ConfigFiles,
    Helper,
    Mount,
    PodField,
    Role,
    Wait,
)

WAIT_SCRIPT = "wait-for-peers.sh"
SCRIPTS = "/mlgen/scripts"
"""The folder in which helpers mount their scripts."""

SCRIPTS_VOLUME = "mlgen-scripts"

HELPER_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}
"""Enough to copy kubectl and to run a shell script. Kubeflow's 10Mi was too little."""

GIT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
"""Git unpacks a large repository in memory."""

RESOURCES = (HELPER_RESOURCES, GIT_RESOURCES)


def training_container(role: Role) -> dict[str, Any]:
    """Return the training container, without the fields that are empty.

    The framework's command and args apply only if the user sets neither.
    """
    spec = role.spec
    use_default = not spec.command and not spec.args
    container: dict[str, Any] = {
        "name": spec.main_container,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": list(role.command if use_default else spec.command),
        "args": list(role.args if use_default else spec.args),
        "workingDir": spec.working_dir,
        "env": main_env(role),
        "ports": container_ports(role),
        "resources": spec.resources,
        "volumeMounts": [volume_mount(mount) for mount in role.mounts],
    }
    return {name: value for name, value in container.items() if value not in (None, [], {})}


def helpers_of(job: TrainingJob, role: Role) -> list[Helper]:
    """Return a role's helpers in running order; the one that waits for peers comes last."""
    helpers = [*role.helpers, *storage.sync_helpers(job, role)]
    return [*helpers, _wait_helper(job, role)] if role.waits else helpers


def _wait_helper(job: TrainingJob, role: Role) -> Helper:
    """Return the helper that waits for peers; without a time limit unless the user sets one."""
    timeout, own = job.wait.timeout_seconds, f"{job.name}-{role.name}-"
    listens = any(wait.port and wait.hosts.before == own for wait in role.waits)
    return Helper(
        name="wait-for-peers",
        script=WAIT_SCRIPT,
        image="wait",
        env={
            **({"MLGEN_SELF": f"{own}{INDEX}"} if listens else {}),
            "MLGEN_PEERS": " ".join(_peer(wait) for wait in role.waits),
            **({} if timeout is None else {"MLGEN_TIMEOUT": str(timeout)}),
        },
        last=True,
    )


def _peer(wait: Wait) -> str:
    """Return the hosts of a wait as the script reads them: `mnist-ps-[0-1].mnist:2222`."""
    return str(wait.hosts) if wait.port is None else f"{wait.hosts}:{wait.port}"


def scripts(job: TrainingJob, role: Role) -> set[str]:
    """Return the names of the files in the job's ConfigMap that a role's pods mount."""
    names = {helper.script for helper in helpers_of(job, role)}
    for mount in role.mounts:
        if isinstance(mount.volume, ConfigFiles):
            names |= set(mount.volume.files)
    return names


SCRIPT_MOUNT = Mount(ConfigFiles(SCRIPTS_VOLUME), SCRIPTS)
"""The mount of the volume with the scripts of helpers."""


def helper_container(job: TrainingJob, role: Role, helper: Helper) -> dict[str, Any]:
    """Return the init container that runs a helper's script."""
    images = {
        "wait": job.helpers.wait_image,
        "kubectl": job.helpers.kubectl_image,
        "git": job.helpers.git_image,
        "main": role.spec.image,
    }
    uses_index = any(INDEX in value for value in helper.env.values())
    mounts = [*helper.mounts, SCRIPT_MOUNT]
    return {
        "name": helper.name,
        "image": images[helper.image],
        "command": ["sh", f"{SCRIPTS}/{helper.script}"],
        "env": [
            *([index_variable(role)] if uses_index else []),
            *({"name": name, "value": value} for name, value in helper.env.items()),
        ],
        "resources": GIT_RESOURCES if helper.image == "git" else HELPER_RESOURCES,
        "securityContext": _training_user_context(role) if helper.image == "main" else RESTRICTED,
        "volumeMounts": [volume_mount(mount) for mount in mounts],
    }


def _training_user_context(role: Role) -> dict[str, Any]:
    """Return the helpers' security context, but with the user of the training container.

    The training container must own the files that the helper writes.
    """
    context = {
        name: value
        for name, value in RESTRICTED.items()
        if name not in ("runAsNonRoot", "runAsUser", "runAsGroup")
    }
    for container in role.spec.container_patches:
        user_context = container.get("securityContext") or {}
        context |= {name: value for name, value in user_context.items() if name.startswith("runAs")}
    return context


REFERENCE = re.compile(r"\$\(([^()]+)\)")
"""https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"""


def main_env(role: Role) -> list[dict[str, Any]]:
    """Return the variables of the training container; a user's value replaces the framework's.

    The index comes first, because the others may refer to it.
    """
    user_env = role.spec.env
    env = [_variable(name, value) for name, value in role.env.items() if name not in user_env]
    for name, value in user_env.items():
        env.append({"name": name, **(value if isinstance(value, dict) else {"value": value})})
    return [index_variable(role), *_in_dependency_order(env)]


def index_variable(role: Role) -> dict[str, Any]:
    """Return the variable that holds a replica's index: a literal, or from the pod's label."""
    if role.index is not None:
        return {"name": INDEX_NAME, "value": str(role.index)}
    field = f"metadata.labels['{index_label(role)}']"
    return {"name": INDEX_NAME, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def with_index_variable(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which every container that refers to the index defines it.

    Containers that mlgen renders define it already; those that only a template has do not.
    """
    lists = {key: spec[key] for key in ("initContainers", "containers") if spec.get(key)}
    return spec | {
        key: [_define_index(role, container) for container in containers]
        for key, containers in lists.items()
    }


def _define_index(role: Role, container: dict[str, Any]) -> dict[str, Any]:
    """Return a container with the index variable, if it refers to it and lacks a definition."""
    env = container.get("env") or []
    texts = [*(container.get("command") or []), *(container.get("args") or [])]
    texts += [variable.get("value") or "" for variable in env]
    refers = any(INDEX in text for text in texts)
    if not refers or any(variable["name"] == INDEX_NAME for variable in env):
        return container
    return container | {"env": [index_variable(role), *env]}


def _in_dependency_order(env: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variables in an order in which each one follows those that it refers to.

    Kubernetes expands `$(NAME)` only if NAME is defined earlier in the list. The job file has a
    mapping instead, whose keys tools such as kustomize sort. Variables that are in order, or refer
    to each other in a cycle, are returned unchanged.
    """
    positions = {variable["name"]: position for position, variable in enumerate(env)}
    references = {
        name: [
            reference
            for reference in REFERENCE.findall(env[position].get("value") or "")
            if reference in positions and reference != name
        ]
        for name, position in positions.items()
    }
    if all(
        positions[reference] < positions[name]
        for name, names in references.items()
        for reference in names
    ):
        return env
    try:
        return [env[positions[name]] for name in TopologicalSorter(references).static_order()]
    except CycleError:
        return env


def _variable(name: str, value: str | PodField) -> dict[str, Any]:
    if isinstance(value, PodField):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, "value": value}


def container_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports that peers use. A hostPort keeps two pods with the same port off one node.

    A name of a port of the user, which must be unique in a container, is not used again.
    """
    user_names = {port.get("name") for port in _user_ports(role)}
    ports = []
    for name, port in _constant_ports(role).items():
        number = role.host_ports.get(name, port)
        fields: dict[str, Any] = {} if name in user_names else {"name": name}
        fields["containerPort"] = number
        ports.append(fields | ({"hostPort": number} if name in role.host_ports else {}))
    return ports


def with_host_ports(role: Role, template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a user's template in which a port that peers use has the replica's port on the node.

    With host networking, each replica listens on a port of its own there.
    """
    containers = containers_of(template)
    if not role.host_ports or not containers:
        return template
    on_node = {
        port: role.host_ports[name]
        for name, port in _constant_ports(role).items()
        if name in role.host_ports
    }
    changed = [
        container | {"ports": [_on_node(port, on_node) for port in container["ports"]]}
        if container.get("name") == role.spec.main_container and container.get("ports")
        else container
        for container in containers
    ]
    return {**template, "spec": {**template["spec"], "containers": changed}}


def _on_node(port: dict[str, Any], on_node: Mapping[int, int]) -> dict[str, Any]:
    """Return a port with the number on the node, if there is one for its number."""
    number = on_node.get(port.get("containerPort", 0))
    return port | {"containerPort": number, "hostPort": number} if number else port


def _constant_ports(role: Role) -> dict[str, int]:
    """Return the ports by which peers reach a replica, by name."""
    return ({PEERS: role.port} if role.port else {}) | dict(role.more_ports)


def _user_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports that templates of the user declare for the training container."""
    return [port for patch in role.spec.container_patches for port in patch.get("ports") or []]
