"""A role → the template of its pods."""

import re
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.kubernetes.merge import merged
from mlgen.objects import network, placement, security, storage
from mlgen.objects.labels import config_name, index_label, labels, workload_name
from mlgen.objects.skeleton import filled
from mlgen.problems import MlgenError, Problem
from mlgen.topology import (
    INDEX,
    PEERS,
    ConfigFiles,
    Helper,
    Mount,
    PodField,
    Role,
    Scratch,
    Topology,
    Wait,
)

WAIT_SCRIPT = "wait-for-peers.sh"
SCRIPTS = "/mlgen/scripts"

INDEX_NAME = "MLGEN_REPLICA_INDEX"

READ, RUN = 0o444, 0o555

# As PodSecurity's "restricted" demands; 65534 is nobody, in every image.
RESTRICTED: dict[str, Any] = {
    **security.CONFINED,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65534,
    **security.SECCOMP,
}
# Copying kubectl and a shell's few processes: more was never needed, less was (10Mi, in Kubeflow).
HELPER_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}
# Git unpacks a large repository in memory.
GIT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}


def template(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template of a role: ours, the site's patches, and the user's templates."""
    job = topology.job
    helpers = _helpers(job, role)
    files = ConfigFiles("mlgen-scripts", tuple(dict.fromkeys(helper.script for helper in helpers)))
    mounts = [*role.mounts, *(mount for helper in helpers for mount in helper.mounts)]
    if helpers:
        mounts.append(Mount(files, SCRIPTS))
    pod = filled(
        "pod",
        labels=labels(job, role.name, role),
        hostname=None if role.index is None else workload_name(job, role),
        subdomain=job.name,
        restart="Always" if role.serves else _pod_restart(role),
        service_account=service_account(job, role),
        helpers=[_helper(job, role, helper) for helper in helpers],
        main=_main(role),
        volumes=_volumes(job, mounts),
    )
    patches = [
        placement.patch(topology, role),
        network.patch(topology, role),
        security.patch(job, role.spec.main_container),
        storage.patch(job, role.spec.main_container, role.spec.volumes),
    ]
    for theirs in (*patches, *role.spec.templates):
        pod = merged(pod, theirs)
    memory = storage.shared_memory(role, _main_of(role, pod))
    if memory:
        pod = merged(pod, _mounted(job, role, memory))
    return pod | {"spec": _with_index(role, _in_order(pod["spec"]))}


def _mounted(job: TrainingJob, role: Role, mount: Mount) -> dict[str, Any]:
    """A patch that mounts one volume more into the training container."""
    main = {"name": role.spec.main_container, "volumeMounts": [_mount(mount)]}
    return {"spec": {"containers": [main], "volumes": [_volume(job, mount.volume)]}}


def _in_order(spec: dict[str, Any]) -> dict[str, Any]:
    """What is short first: containers and volumes would hide it from a reader."""
    last = ("initContainers", "containers", "volumes")
    return {k: spec[k] for k in spec if k not in last} | {k: spec[k] for k in last if k in spec}


def _with_index(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """The index in the containers that only a template has, where they use it too."""
    lists = {k: spec[k] for k in ("initContainers", "containers") if spec.get(k)}
    return spec | {k: [_indexed(role, item) for item in items] for k, items in lists.items()}


def _indexed(role: Role, container: dict[str, Any]) -> dict[str, Any]:
    env = container.get("env") or []
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    uses = any(INDEX in text for text in (*words, *(item.get("value") or "" for item in env)))
    if not uses or any(item["name"] == INDEX_NAME for item in env):
        return container
    return container | {"env": [_index(role), *env]}


def _main_of(role: Role, pod: dict[str, Any]) -> dict[str, Any]:
    """A template can take containers away, but the training container must stay."""
    name = role.spec.main_container
    for container in pod["spec"].get("containers", []):
        if container.get("name") == name:
            found: dict[str, Any] = container
            return found
    path = ("spec", "roles", role.spec.name, "template")
    message, hint = f"the template takes the container {name} away", f"leave {name} there"
    raise MlgenError([Problem(path, message, "combination", hint)])


def scripts(job: TrainingJob, role: Role) -> set[str]:
    """Return the files of the job's ConfigMap that a role's pods see."""
    found = {helper.script for helper in _helpers(job, role)}
    for mount in role.mounts:
        if isinstance(mount.volume, ConfigFiles):
            found |= set(mount.volume.files)
    return found


def service_account(job: TrainingJob, role: Role) -> str | None:
    """Return the pods' service account: the user's, or our own where the role needs rights."""
    own = workload_name(job, role) if role.rights else None
    return role.spec.service_account_name or own


def _pod_restart(role: Role) -> str:
    """ExitCode is the Job's to judge, and a Job can only judge pods that do not restart."""
    return "OnFailure" if role.restart == "OnFailure" else "Never"


def _index(role: Role) -> dict[str, Any]:
    if role.index is not None:
        return {"name": INDEX_NAME, "value": str(role.index)}
    field = f"metadata.labels['{index_label(role)}']"
    return {"name": INDEX_NAME, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _env(role: Role) -> list[dict[str, Any]]:
    """The index first, as the others may use it; then the framework's, then the user's."""
    theirs = role.spec.env
    ours = {name: value for name, value in role.env.items() if name not in theirs}
    found = [_variable(name, value) for name, value in ours.items()]
    for name, value in theirs.items():
        found.append({"name": name, **(value if isinstance(value, dict) else {"value": value})})
    return [_index(role), *_in_turn(found)]


def _in_turn(env: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Variables behind those that they use, as Kubernetes puts `$(NAME)` in only there.

    The job file has them in a mapping, and kustomize, for one, sorts its keys.
    """
    places = {item["name"]: number for number, item in enumerate(env)}
    uses = {
        name: [
            other
            for other in REFERENCE.findall(env[number].get("value") or "")
            if other in places and other != name
        ]
        for name, number in places.items()
    }
    if all(places[other] < places[name] for name, others in uses.items() for other in others):
        return env
    try:
        return [env[places[name]] for name in TopologicalSorter(uses).static_order()]
    except CycleError:
        return env


REFERENCE = re.compile(r"\$\(([^()]+)\)")
"""https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"""


def _variable(name: str, value: str | PodField) -> dict[str, Any]:
    if isinstance(value, PodField):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, "value": value}


def _ports(role: Role) -> list[dict[str, Any]]:
    """A replica's ports; a port of its node is reserved there, so no two pods clash."""
    constant = ({PEERS: role.port} if role.port else {}) | dict(role.more_ports)
    return [
        {"name": name, "containerPort": role.host_ports[name], "hostPort": role.host_ports[name]}
        if name in role.host_ports
        else {"name": name, "containerPort": port}
        for name, port in constant.items()
    ]


def _main(role: Role) -> dict[str, Any]:
    spec = role.spec
    silent = not spec.command and not spec.args
    main: dict[str, Any] = {
        "name": spec.main_container,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": list(role.command if silent else spec.command),
        "args": list(role.args if silent else spec.args),
        "workingDir": spec.working_dir,
        "env": _env(role),
        "ports": _ports(role),
        "resources": spec.resources,
        "volumeMounts": [_mount(mount) for mount in role.mounts],
    }
    return {name: value for name, value in main.items() if value not in (None, [], {})}


def _helpers(job: TrainingJob, role: Role) -> list[Helper]:
    """The role's helpers, those that fill its volumes, and last the one that waits for peers."""
    helpers = [*role.helpers, *storage.helpers(job, role)]
    if not role.waits:
        return helpers
    wait = Helper(
        name="wait-for-peers",
        script=WAIT_SCRIPT,
        image="wait",
        env={
            "MLGEN_SELF": f"{job.name}-{role.name}-{INDEX}",
            "MLGEN_PEERS": " ".join(_peer(wait) for wait in role.waits),
            "MLGEN_TIMEOUT": str(job.wait.timeout_seconds),
        },
    )
    return [*helpers, wait]


def _peer(wait: Wait) -> str:
    return str(wait.hosts) if wait.port is None else f"{wait.hosts}:{wait.port}"


def _helper(job: TrainingJob, role: Role, helper: Helper) -> dict[str, Any]:
    images = {
        "wait": job.helpers.wait_image,
        "kubectl": job.helpers.kubectl_image,
        "git": job.helpers.git_image,
        "main": role.spec.image,
    }
    uses_index = any(INDEX in value for value in helper.env.values())
    mounts = [*helper.mounts, Mount(ConfigFiles("mlgen-scripts", ()), SCRIPTS)]
    return {
        "name": helper.name,
        "image": images[helper.image],
        "command": ["sh", f"{SCRIPTS}/{helper.script}"],
        "env": [
            *([_index(role)] if uses_index else []),
            *({"name": name, "value": value} for name, value in helper.env.items()),
        ],
        "resources": GIT_RESOURCES if helper.image == "git" else HELPER_RESOURCES,
        "securityContext": _security(role) if helper.image == "main" else RESTRICTED,
        "volumeMounts": [_mount(mount) for mount in mounts],
    }


def _security(role: Role) -> dict[str, Any]:
    """Restricted, but as the user of the training container, who is to own what is written."""
    context = {
        name: value
        for name, value in RESTRICTED.items()
        if name not in ("runAsNonRoot", "runAsUser")
    }
    for theirs in role.spec.templates:
        for container in (theirs.get("spec") or {}).get("containers") or []:
            if container.get("name") == role.spec.main_container:
                given = container.get("securityContext") or {}
                context |= {key: given[key] for key in given if key.startswith("runAs")}
    return context


def _mount(mount: Mount) -> dict[str, Any]:
    found: dict[str, Any] = {"name": mount.volume.name, "mountPath": mount.path}
    return found | ({"readOnly": True} if mount.read_only else {})


def _volumes(job: TrainingJob, mounts: list[Mount]) -> list[dict[str, Any]]:
    volumes = {mount.volume.name: mount.volume for mount in mounts}
    return [_volume(job, volume) for volume in volumes.values()]


def _volume(job: TrainingJob, volume: Any) -> dict[str, Any]:
    if isinstance(volume, Scratch):
        empty: dict[str, Any] = {"medium": "Memory"} if volume.memory else {}
        limit = {"sizeLimit": volume.size} if volume.size else {}
        return {"name": volume.name, "emptyDir": empty | limit}
    if isinstance(volume, ConfigFiles):
        items = [{"key": name, "path": name} for name in volume.files]
        source = {"name": config_name(job), "items": items, "defaultMode": RUN}
        return {"name": volume.name, "configMap": source}
    secret: dict[str, Any] = {"secretName": volume.secret}
    if volume.keys:
        secret["items"] = [{"key": key, "path": path} for key, path in volume.keys.items()]
    return {"name": volume.name, "secret": secret | {"defaultMode": READ}}
