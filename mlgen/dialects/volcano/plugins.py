"""Volcano's plugins: what each of them gives to the pods of a job.

A plugin is a word of `spec.plugins` with arguments as of a command line. Read off
volcano-sh/volcano, pkg/controllers/job/plugins and pkg/webhooks/admission/jobs/mutate.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.volcano.policies import Task
from mlgen.problems import did_you_mean
from mlgen.topology import INDEX

Argument = bool | int | str

PLUGINS: dict[str, dict[str, Argument]] = {
    "env": {},
    "svc": {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    },
    "ssh": {
        "ssh-key-file-path": "/root/.ssh",
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": 22,
    },
    "tensorflow": {
        "chief": "chief",
        "ps": "ps",
        "worker": "worker",
        "evaluator": "evaluator",
        "port": 2222,
    },
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    },
    "mpi": {"master": "master", "worker": "worker", "port": 22},
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
"""By plugin: its arguments, with their defaults."""

NEEDS = {"svc": ("tensorflow", "pytorch", "mpi", "ray"), "ssh": ("mpi",)}
"""By plugin: those to which the webhook adds it."""

HOSTS = "/etc/volcano"
SSH = ".ssh"

KEYS = (
    ("ssh-privatekey", "id_rsa"),
    ("ssh-publickey", "id_rsa.pub"),
    ("ssh-publickey", "authorized_keys"),
)
"""The keys of the Secret, and the files that the plugin makes of them."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of a job.

    Attributes:
        given: by name, where each stands; one that the webhook adds, where that stands for which.
        arguments: by name, those written and all others by default.
    """

    given: dict[str, SourceValue] = field(default_factory=dict)
    arguments: dict[str, dict[str, SourceValue]] = field(default_factory=dict)

    def __contains__(self, plugin: str) -> bool:
        return plugin in self.given

    def value(self, plugin: str, argument: str) -> Any:
        """Return the value of an argument, or None where the job has no such plugin."""
        return self.arguments[plugin][argument].value if plugin in self else None


def read(builder: Builder) -> Plugins:
    """Return the plugins with their arguments, also those that the webhook adds."""
    found = Plugins()
    for name, given in builder.spec.get("plugins").fields():
        if name in PLUGINS:
            found.given[name] = given
            found.arguments[name] = _arguments(builder, given, name)
        else:
            hint = did_you_mean(name, PLUGINS) or f"known are: {', '.join(PLUGINS)}"
            builder.refuse(given, f'there is no plugin "{name}"', hint)
    for added, others in NEEDS.items():
        for other in (name for name in others if name in found and added not in found):
            given = found.given[other]
            found.given[added] = given
            found.arguments[added] = {
                k: SourceValue(v, given.path) for k, v in PLUGINS[added].items()
            }
    return found


def _arguments(builder: Builder, given: SourceValue, plugin: str) -> dict[str, SourceValue]:
    """Read arguments as Go's `flag` does: `--a=b`, `--a b`, or `--a` for true."""
    known = PLUGINS[plugin]
    found = {name: SourceValue(value, given.path) for name, value in known.items()}
    items = given.items()
    for item in items:
        name, equals, text = item.value.lstrip("-").partition("=")
        if name not in known or not item.value.startswith("-"):
            options = [f"--{option}" for option in known]
            hint = (
                did_you_mean(f"--{name}", options) or f"known are: {', '.join(options) or 'none'}"
            )
            message = f"{item.value} is no argument of {plugin}, which reads none after it"
            builder.refuse(item, message, hint)
            continue
        if not equals:
            text = "true" if isinstance(known[name], bool) else next(items, SourceValue("")).value
        value = _value(text, known[name])
        if value is None:
            example = str(known[name]).lower()
            builder.refuse(item, f'"{text}" is no value of {name}', f"for example {example}")
        found[name] = SourceValue(value, item.path)
    return found


def _value(text: str, like: Argument) -> Argument | None:
    if isinstance(like, bool):
        words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
        return words.get(text.lower())
    if isinstance(like, int):
        return int(text) if text.isdecimal() else None
    return text


@dataclass(frozen=True, slots=True)
class Gifts:
    """What pods get beside what the resource writes.

    Attributes:
        hosts: of each task, by its name.
        env: variables of all containers.
        own: those of the containers of one task, by its name.
        mounts: of all containers.
        claims: mounts of all containers that are no init containers.
        long: the volumes among them that have no short form.
    """

    hosts: Mapping[str, Sequence[str]]
    env: dict[str, str] = field(default_factory=dict)
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    long: list[dict[str, Any]] = field(default_factory=list)


def give(builder: Builder, plugins: Plugins, tasks: Sequence[Task]) -> Gifts:
    """Write what all training containers get, and return it for the containers beside them."""
    gifts = Gifts({task.name: _hosts(builder, task) for task in tasks})
    for i, given in enumerate(builder.spec.get("volumes").items()):
        path, name = given.value["mountPath"], f"claim-{i}"
        volume = {"mountPath": path, "pvc": given.value["volumeClaimName"]}
        builder.put(("spec", "volumes", name), given, volume)
        gifts.claims.append({"name": name, "mountPath": path})
    if "svc" in plugins:
        _svc(builder, plugins, gifts)
    if "env" in plugins:
        gifts.env.update({"VK_TASK_INDEX": INDEX, "VC_TASK_INDEX": INDEX})
    if "ssh" in plugins:
        _ssh(builder, plugins, gifts)
    if "mpi" in plugins:
        master, worker = (plugins.value("mpi", word) for word in ("master", "worker"))
        gifts.own[master] = {"MPI_HOST": ",".join(gifts.hosts[worker])}
    if "hcclrank" in plugins:
        message = "Volcano annotates each pod with its rank, hccl/rankIndex; here none is"
        hint = f"read RANK, or write {INDEX} in a command"
        builder.differs(plugins.given["hcclrank"], message, hint)
    builder.put(("spec", "env"), builder.spec.get("plugins"), gifts.env)
    builder.put(
        ("spec", "template", "metadata", "labels"),
        builder.given.get("kind"),
        _labels("job-name", builder.name),
    )
    builder.put(("spec", "template", "spec", "volumes"), builder.spec.get("plugins"), gifts.long)
    return gifts


def _labels(word: str, value: str) -> dict[str, str]:
    """A label of Volcano's, by which other objects find its pods."""
    return {f"volcano.sh/{word}": value}


def _hosts(builder: Builder, task: Task) -> list[str]:
    return [f"{builder.name}-{task.role}-{i}.{builder.name}" for i in range(task.replicas)]


def _svc(builder: Builder, plugins: Plugins, gifts: Gifts) -> None:
    """The hosts of all tasks, as variables and as the files of a ConfigMap."""
    variables, files = {}, {}
    for task, hosts in gifts.hosts.items():
        name = task.replace("-", "_")
        variables[f"VC_{name.upper()}_HOSTS"] = ",".join(hosts)
        variables[f"VC_{name.upper()}_NUM"] = str(len(hosts))
        files[f"{name}.host"] = "\n".join(hosts)
    if plugins.value("svc", "inject-hosts-env"):
        gifts.env.update(variables)
    volume = {"mountPath": HOSTS, "files": files | variables}
    builder.put(("spec", "volumes", "svc"), plugins.given["svc"], volume)
    gifts.mounts.append({"name": "svc", "mountPath": HOSTS})


def _ssh(builder: Builder, plugins: Plugins, gifts: Gifts) -> None:
    """The keys of a Secret and a client's settings, in one folder."""
    folder, port = (plugins.value("ssh", word) for word in ("ssh-key-file-path", "ssh-port"))
    given, secret = plugins.given["ssh"], f"{builder.name}-ssh"
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    for host in (host for hosts in gifts.hosts.values() for host in hosts):
        config += f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port {port}\n"
    # Mounted in the folder of the keys it would hide them.
    volume = {"mountPath": "/mlgen/ssh-config", "files": {"config": config}}
    builder.put(("spec", "volumes", "ssh-config"), given, volume)
    sources = [
        {"secret": {"name": secret, "items": _paths(*KEYS)}},
        {"configMap": {"name": f"{secret}-config", "items": _paths(("config", "config"))}},
    ]
    mode = 0o600 if folder == PLUGINS["ssh"]["ssh-key-file-path"] else 0o644
    keys = {"name": "ssh-keys", "projected": {"sources": sources, "defaultMode": mode}}
    gifts.long.append(keys)
    gifts.mounts.append({"name": "ssh-keys", "mountPath": folder, "subPath": SSH})
    _explain_keys(builder, plugins, secret)


def _paths(*names: tuple[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "path": f"{SSH}/{name}"} for key, name in names]


def _explain_keys(builder: Builder, plugins: Plugins, secret: str) -> None:
    space = builder.data["metadata"].get("namespace")
    where = f" -n {space}" if space else ""
    own = [plugins.arguments["ssh"][f"ssh-{word}-key"] for word in ("private", "public")]
    written = next((given for given in own if given.value), None)
    if written is None:
        message = f"Volcano makes the keys of the Secret {secret}; nothing here does"
        hint = f"mlgen ssh-secret{where} {secret} | kubectl apply -f -"
        builder.differs(plugins.given["ssh"], message, hint)
    else:
        message = f"no key is rendered; here keys are those of the Secret {secret}"
        files = " ".join(f"--from-file=ssh-{word}key=…" for word in ("private", "public"))
        builder.differs(written, message, f"kubectl create secret generic{where} {secret} {files}")


def role(builder: Builder, plugins: Plugins, task: Task, gifts: Gifts) -> None:
    """Write a role, with what its containers get."""
    at, main = ("spec", "roles", task.role), trainer(plugins, task)
    template = _template(plugins, task, gifts, main)
    builder.role(task.role, template, template.get("spec", "containers", main))
    for name, value in gifts.own.get(task.name, {}).items():
        builder.put((*at, "env", name), plugins.given["mpi"], value)
    if task.name == plugins.value("mpi", "worker"):
        builder.put((*at, "port"), plugins.arguments["mpi"]["port"])
    if _runs_ray(plugins, task):
        head = task.name == plugins.value("ray", "head")
        builder.put((*at, "command"), plugins.given["ray"], _ray(plugins, gifts, head=head))
        if head:
            builder.put((*at, "port"), plugins.arguments["ray"]["port"])


def _template(plugins: Plugins, task: Task, gifts: Gifts, main: int) -> SourceValue:
    """The pod template of a task, with all that has no short form."""
    given = task.given.get("template")
    value = deepcopy(given.value)
    metadata, pod = value.setdefault("metadata", {}), value["spec"]
    metadata["labels"] = metadata.get("labels", {}) | _labels("task-spec", task.name)
    if pod.get("hostNetwork"):
        pod.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    trains = pod["containers"][main]
    long = [volume["name"] for volume in gifts.long]
    _equip(trains, {}, [mount for mount in gifts.mounts if mount["name"] in long])
    if _runs_ray(plugins, task) and task.name == plugins.value("ray", "head"):
        trains["ports"] = [*trains.get("ports", []), *_ray_ports(plugins, trains)]
    env = gifts.env | gifts.own.get(task.name, {})
    for container in (item for item in pod["containers"] if item is not trains):
        _equip(container, env, [*gifts.mounts, *gifts.claims])
    for container in pod.get("initContainers", []):
        _equip(container, env, gifts.mounts)
    return SourceValue(value, given.path)


def _equip(
    container: dict[str, Any], env: Mapping[str, str], mounts: Sequence[Mapping[str, str]]
) -> None:
    """Add variables and mounts to a container."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    for word, added in (("env", variables), ("volumeMounts", [dict(mount) for mount in mounts])):
        if added:
            container[word] = [*container.get(word, []), *added]


def trainer(plugins: Plugins, task: Task) -> int:
    """Return which container trains: the first one, or that which Ray's arguments name."""
    names = [c["name"] for c in task.given.get("template", "spec", "containers").value]
    wanted = _ray_container(plugins, task)
    return names.index(wanted) if wanted in names else 0


def _ray_container(plugins: Plugins, task: Task) -> str | None:
    """The name of the container that runs Ray, if the task is one of the two that do."""
    words = [word for word in ("head", "worker") if plugins.value("ray", word) == task.name]
    return plugins.value("ray", f"{words[0]}Container") if words else None


def _runs_ray(plugins: Plugins, task: Task) -> bool:
    containers = task.given.get("template", "spec", "containers")
    name = containers.get(trainer(plugins, task), "name").value
    return bool(name == _ray_container(plugins, task))


def _ray(plugins: Plugins, gifts: Gifts, *, head: bool) -> list[str]:
    """The command of the head, or that of a worker."""
    words = ("head", "port", "dashboardPort", "clientPort")
    name, port, dashboard, client = (plugins.value("ray", word) for word in words)
    if not head:
        return ["sh", "-c", f"ray start --block --address={gifts.hosts[name][0]}:{port}"]
    where = f"--dashboard-host=0.0.0.0 --port={port} --dashboard-port={dashboard}"
    return ["sh", "-c", f"ray start --head --block {where} --ray-client-server-port={client}"]


def _ray_ports(plugins: Plugins, container: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Further ports of the head, where none of that number is there."""
    there = [port.get("containerPort") for port in container.get("ports", [])]
    for name, word in (("dashboard", "dashboardPort"), ("client-server", "clientPort")):
        if plugins.value("ray", word) not in there:
            yield {"name": name, "containerPort": plugins.value("ray", word)}
