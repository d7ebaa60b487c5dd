"""The pod templates of the roles, with what Volcano's plugins and volumes add to them.

Source: volcano-sh/volcano, pkg/controllers/job/plugins.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.plugins import PLUGINS, Plugins
from mlgen.dialects.volcano.tasks import Task
from mlgen.topology import INDEX

HOST_FILES = "/etc/volcano"
"""Where the plugin svc mounts the files with host names."""

SSH = ".ssh"

SSH_KEYS = (
    ("ssh-privatekey", "id_rsa"),
    ("ssh-publickey", "id_rsa.pub"),
    ("ssh-publickey", "authorized_keys"),
)
"""The keys of the Secret, and the files that the plugin ssh mounts from them."""


@dataclass(frozen=True)
class PodAdditions:
    """What plugins and volumes add to the containers of the job.

    Attributes:
        hosts: by task, the host names of its replicas.
        env: variables of all containers.
        env_of_task: by task, more variables of its containers.
        mounts: of all containers.
        claim_mounts: of all containers except init containers.
        volumes: those of `mounts` that a job file can define in a pod template only.
    """

    hosts: Mapping[str, Sequence[str]]
    env: dict[str, str] = field(default_factory=dict)
    env_of_task: dict[str, dict[str, str]] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    claim_mounts: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)


def write_additions(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> PodAdditions:
    """Write what every training container gets.

    Returns:
        The same, for the containers beside the training containers.
    """
    additions = PodAdditions({task.name: _hosts(builder, task) for task in tasks})
    _write_claims(builder, additions)
    if "svc" in plugins:
        _write_svc(builder, plugins, additions)
    if "env" in plugins:
        additions.env.update({"VK_TASK_INDEX": INDEX, "VC_TASK_INDEX": INDEX})
    if "ssh" in plugins:
        _write_ssh(builder, plugins, additions)
    if "mpi" in plugins:
        master, worker = (plugins.argument("mpi", name) for name in ("master", "worker"))
        additions.env_of_task[master] = {"MPI_HOST": ",".join(additions.hosts[worker])}
    if "hcclrank" in plugins:
        message = "Volcano annotates each pod with its rank, hccl/rankIndex; mlgen does not"
        hint = f"use the variable RANK, or write {INDEX} in the command"
        builder.differs(plugins.sources["hcclrank"], message, hint)
    source = builder.spec.get("plugins")
    builder.put(("spec", "env"), source, additions.env)
    labels = _label("job-name", builder.name)
    builder.put(("spec", "template", "metadata", "labels"), builder.resource.get("kind"), labels)
    builder.put(("spec", "template", "spec", "volumes"), source, additions.volumes)
    return additions


def _label(name: str, value: str) -> dict[str, str]:
    """Return a label that Volcano sets on pods, for selectors outside of the job."""
    return {f"volcano.sh/{name}": value}


def _hosts(builder: Builder, task: Task) -> list[str]:
    return [f"{builder.name}-{task.role}-{i}.{builder.name}" for i in range(task.replicas)]


def _write_claims(builder: Builder, additions: PodAdditions) -> None:
    """Write the volumes of the job, and the claims that Volcano would create under random names."""
    for i, volume in enumerate(builder.spec.get("volumes").items()):
        path, name = volume.value["mountPath"], f"claim-{i}"
        claim, claim_name = volume.get("volumeClaim"), volume.value.get("volumeClaimName")
        if not claim_name:
            claim_name = f"{builder.name}-{name}"
            builder.put(("spec", "claims", claim_name), claim)
            ttl = builder.spec.get("ttlSecondsAfterFinished")
            if ttl:
                message = f"Volcano deletes the claim {ttl.value} s after the end; here it is kept"
                builder.differs(claim, message, f"run kubectl delete pvc {quote(claim_name)}")
        short_form = {"mountPath": path, "pvc": claim_name}
        builder.put(("spec", "volumes", name), volume, short_form)
        additions.claim_mounts.append({"name": name, "mountPath": path})


def _write_svc(builder: Builder, plugins: Plugins, additions: PodAdditions) -> None:
    """Write the host names of all tasks, as variables and as files."""
    variables, files = {}, {}
    for task, hosts in additions.hosts.items():
        name = task.replace("-", "_")
        variables[f"VC_{name.upper()}_HOSTS"] = ",".join(hosts)
        variables[f"VC_{name.upper()}_NUM"] = str(len(hosts))
        files[f"{name}.host"] = "\n".join(hosts)
    if plugins.argument("svc", "inject-hosts-env"):
        additions.env.update(variables)
    volume = {"mountPath": HOST_FILES, "files": files | variables}
    builder.put(("spec", "volumes", "svc"), plugins.sources["svc"], volume)
    additions.mounts.append({"name": "svc", "mountPath": HOST_FILES})


def _write_ssh(builder: Builder, plugins: Plugins, additions: PodAdditions) -> None:
    """Write a volume with the keys of the Secret `<job>-ssh` and a client configuration."""
    folder, port = (plugins.argument("ssh", name) for name in ("ssh-key-file-path", "ssh-port"))
    source, secret = plugins.sources["ssh"], f"{builder.name}-ssh"
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    for host in (host for hosts in additions.hosts.values() for host in hosts):
        config += f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port {port}\n"
    # A volume in a job file needs a mount. This one must not hide the folder with the keys.
    volume = {"mountPath": "/mlgen/ssh-config", "files": {"config": config}}
    builder.put(("spec", "volumes", "ssh-config"), source, volume)
    projected = [
        {"secret": {"name": secret, "items": _items(*SSH_KEYS)}},
        {"configMap": {"name": f"{secret}-config", "items": _items(("config", "config"))}},
    ]
    mode = 0o600 if folder == PLUGINS["ssh"]["ssh-key-file-path"] else 0o644
    additions.volumes.append(
        {"name": "ssh-keys", "projected": {"sources": projected, "defaultMode": mode}}
    )
    additions.mounts.append({"name": "ssh-keys", "mountPath": folder, "subPath": SSH})
    _report_keys(builder, plugins, secret)


def _items(*files: tuple[str, str]) -> list[dict[str, str]]:
    """Return the items of a projected volume: keys, and their files in `SSH`."""
    return [{"key": key, "path": f"{SSH}/{file}"} for key, file in files]


def _report_keys(builder: Builder, plugins: Plugins, secret: str) -> None:
    """Warn that the user must create the Secret, because mlgen renders no private key."""
    namespace = builder.data["metadata"].get("namespace")
    option = f" -n {quote(str(namespace))}" if namespace else ""
    keys = [plugins.arguments["ssh"][f"ssh-{name}-key"] for name in ("private", "public")]
    written = next((key for key in keys if key.value), None)
    if written is None:
        message = f"Volcano creates the Secret {secret} with SSH keys; mlgen does not"
        hint = f"run mlgen ssh-secret{option} {quote(secret)} | kubectl apply -f -"
        builder.differs(plugins.sources["ssh"], message, hint)
    else:
        message = f"mlgen renders no SSH keys; the pods use those of the Secret {secret}"
        files = " ".join(f"--from-file=ssh-{name}key=…" for name in ("private", "public"))
        hint = f"run kubectl create secret generic{option} {quote(secret)} {files}"
        builder.differs(written, message, hint)


def write_role(builder: Builder, plugins: Plugins, task: Task, additions: PodAdditions) -> None:
    """Write the role of a task: its pod template, command, variables and port."""
    path, main = ("spec", "roles", task.role), main_container(plugins, task)
    template = _template(plugins, task, additions, main)
    builder.role(task.role, template, template.get("spec", "containers", main))
    for name, value in additions.env_of_task.get(task.name, {}).items():
        builder.put((*path, "env", name), plugins.sources["mpi"], value)
    if task.name == plugins.argument("mpi", "worker"):
        builder.put((*path, "port"), plugins.arguments["mpi"]["port"])
    if _runs_ray(plugins, task):
        head = task.name == plugins.argument("ray", "head")
        command = _ray_command(plugins, additions, head=head)
        builder.put((*path, "command"), plugins.sources["ray"], command)
        if head:
            builder.put((*path, "port"), plugins.arguments["ray"]["port"])
    source = task.source.get("replicas") or task.source
    builder.put((*path, "replicas"), source, task.replicas)


def _template(plugins: Plugins, task: Task, additions: PodAdditions, main: int) -> SourceValue:
    """Return the pod template of a task with all that job files cannot say outside of it.

    Containers beside the training container get their variables and mounts here; the training
    container gets most of them from `spec.env` and `spec.volumes`.
    """
    source = task.source.get("template")
    template = deepcopy(source.value)
    metadata, pod = template.setdefault("metadata", {}), template["spec"]
    metadata["labels"] = metadata.get("labels", {}) | _label("task-spec", task.name)
    if pod.get("hostNetwork"):
        pod.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    training = pod["containers"][main]
    volumes = [volume["name"] for volume in additions.volumes]
    _extend(training, {}, [mount for mount in additions.mounts if mount["name"] in volumes])
    if _runs_ray(plugins, task) and task.name == plugins.argument("ray", "head"):
        training["ports"] = [*training.get("ports", []), *_ray_ports(plugins, training)]
    env = additions.env | additions.env_of_task.get(task.name, {})
    for container in (item for item in pod["containers"] if item is not training):
        _extend(container, env, [*additions.mounts, *additions.claim_mounts])
    for container in pod.get("initContainers", []):
        _extend(container, env, additions.mounts)
    return SourceValue(template, source.path)


def _extend(
    container: dict[str, Any], env: Mapping[str, str], mounts: Sequence[Mapping[str, str]]
) -> None:
    """Append variables and mounts to a container, in place."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    for key, added in (("env", variables), ("volumeMounts", [dict(mount) for mount in mounts])):
        if added:
            container[key] = [*container.get(key, []), *added]


def main_container(plugins: Plugins, task: Task) -> int:
    """Return the index of the training container: that of Ray's arguments, else the first."""
    names = [c["name"] for c in task.source.get("template", "spec", "containers").value]
    ray_container = _ray_container(plugins, task)
    return names.index(ray_container) if ray_container in names else 0


def _ray_container(plugins: Plugins, task: Task) -> str | None:
    """Return the container that the plugin ray starts Ray in; None for other tasks."""
    for argument in ("head", "worker"):
        if plugins.argument("ray", argument) == task.name:
            return str(plugins.argument("ray", f"{argument}Container"))
    return None


def _runs_ray(plugins: Plugins, task: Task) -> bool:
    containers = task.source.get("template", "spec", "containers")
    name = containers.get(main_container(plugins, task), "name").value
    return bool(name == _ray_container(plugins, task))


def _ray_command(plugins: Plugins, additions: PodAdditions, *, head: bool) -> list[str]:
    names = ("head", "port", "dashboardPort", "clientPort")
    task, port, dashboard, client = (plugins.argument("ray", name) for name in names)
    if not head:
        return ["sh", "-c", f"ray start --block --address={additions.hosts[task][0]}:{port}"]
    listen = f"--dashboard-host=0.0.0.0 --port={port} --dashboard-port={dashboard}"
    return ["sh", "-c", f"ray start --head --block {listen} --ray-client-server-port={client}"]


def _ray_ports(plugins: Plugins, container: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the dashboard's and the client's port, unless the container declares them."""
    declared = [port.get("containerPort") for port in container.get("ports", [])]
    for name, argument in (("dashboard", "dashboardPort"), ("client-server", "clientPort")):
        if plugins.argument("ray", argument) not in declared:
            yield {"name": name, "containerPort": plugins.argument("ray", argument)}
