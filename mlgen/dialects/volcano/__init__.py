"""Volcano's Job, batch.volcano.sh/v1alpha1 → a TrainingJob document.

Here are the pods, the gang and the order of the roles. `tasks` reads and checks the job, and
`lifecycle` says how roles restart and end. Source: volcano-sh/volcano,
staging/src/volcano.sh/apis/pkg/apis/batch for the fields; pkg/controllers/job for the behaviour:
plugins, job_controller_actions.go (the PodGroup) and job_controller_util.go (createJobPod).
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder, Dialect, SourceValue
from mlgen.dialects.volcano.lifecycle import (
    gang_of,
    report_differences,
    write_bounds,
    write_cleanup,
    write_restarts,
    write_success,
)
from mlgen.dialects.volcano.tasks import (
    FRAMEWORK_ROLES,
    PLUGINS,
    Plugins,
    Task,
    as_job,
    assign_roles,
    deciding_tasks,
    min_available,
    parse_plugins,
    parse_tasks,
    validate,
    write_framework,
)
from mlgen.topology import INDEX

VOLCANO, DEFAULT = "volcano", "default-scheduler"

INHERITED = {
    "labels": ("volcano.sh/preemptable", "volcano.sh/cooldown-time"),
    "annotations": (
        "volcano.sh/preemptable",
        "volcano.sh/cooldown-time",
        "volcano.sh/revocable-zone",
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    ),
}
"""The labels and annotations that Volcano copies from the job to its pods."""

NUMA_POLICY = "volcano.sh/numa-topology-policy"
"""The annotation of pods with the `topologyPolicy` of their task."""


def write_scheduling(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the gang, if the resource names a scheduler or a queue.

    Volcano's scheduler is the operator's default, but in a cluster without it the pods would stay
    pending.

    Args:
        builder: is written to.
        tasks: those with replicas.
    """
    spec = builder.spec
    queue = _non_empty(spec.get("queue"))
    priority = _non_empty(spec.get("priorityClassName"))
    builder.put(("spec", "scheduling", "priorityClassName"), priority)
    scheduler = _scheduler(spec, tasks)
    least, pods = min_available(spec, tasks), sum(task.replicas for task in tasks)
    is_gang = scheduler.value != DEFAULT and bool(scheduler or queue)
    if is_gang:
        _write_gang(builder, scheduler, queue)
        if least < pods:
            source = spec.get("minAvailable") or spec
            builder.put(("spec", "scheduling", "minMember"), source, max(1, least))
    elif queue:
        message = f"Volcano holds the job until its queue has room; {DEFAULT} ignores the queue"
        builder.differs(queue, message)
    elif not scheduler and pods > 1:
        source = spec.get("minAvailable") or spec.get("tasks")
        count = f"all {pods}" if least == pods else f"{least} of the {pods}"
        message = f"Volcano starts {count} pods together or none"
        hint = "if Volcano is installed, pass --set spec.scheduling.gang=volcano"
        builder.differs(source, f"{message}; Kubernetes starts each pod as soon as it fits", hint)
    _report_placement(builder, tasks, is_gang=is_gang)


def _non_empty(name: SourceValue) -> SourceValue:
    """Return a name; an empty one as missing."""
    return name if name.value else SourceValue(None, name.path)


def _scheduler(spec: SourceValue, tasks: Sequence[Task]) -> SourceValue:
    """Return the first schedulerName, of the job or else of a pod template."""
    names = [
        spec.get("schedulerName"),
        *(task.source.get("template", "spec", "schedulerName") for task in tasks),
    ]
    return next(filter(None, map(_non_empty, names)), SourceValue(None))


def _write_gang(builder: Builder, scheduler: SourceValue, queue: SourceValue) -> None:
    spec, source = builder.spec, scheduler or queue
    name = scheduler.value or VOLCANO
    builder.put(("spec", "scheduling", "gang"), source, VOLCANO)
    builder.put(("spec", "scheduling", "queue"), queue)
    if name != VOLCANO:
        builder.put(("spec", "scheduling", "schedulerName"), scheduler)
    priority = spec.get("priorityClassName").value
    keep_priority = f", priorityClassName: {priority}" if priority else ""
    message = f"the pods stay pending unless the scheduler {name} is installed"
    hint = f"if it is not, pass --set 'spec.scheduling={{gang: none{keep_priority}}}'"
    builder.differs(source, message, hint)


def _report_placement(builder: Builder, tasks: Sequence[Task], *, is_gang: bool) -> None:
    """Warn about rules for the placement of pods that are not rendered."""
    network = builder.spec.get("networkTopology")
    if network:
        mode = "preferred" if network.value.get("mode") == "soft" else "required"
        message = "Volcano places all pods under one HyperNode; mlgen does not"
        value = f"{{key: topology.kubernetes.io/zone, mode: {mode}}}"
        hint = f"pass the node label of your racks, as in --set 'spec.scheduling.topology={value}'"
        builder.differs(network, message, hint)
    for task in tasks:
        partitions, numa = task.source.get("partitionPolicy"), task.source.get("topologyPolicy")
        least = task.source.get("minAvailable")
        if partitions:
            count, size = partitions.value["totalPartitions"], partitions.value["partitionSize"]
            message = f"Volcano places {count} partitions of {size} pods each"
            builder.differs(partitions, f"{message}; mlgen ignores partitions")
        if numa.value not in (None, "none") and not is_gang:
            message = "only Volcano's scheduler considers NUMA nodes when it places pods"
            builder.differs(numa, message, "use the kubelet's Topology Manager")
        if is_gang and len(tasks) > 1 and least and least.value < task.replicas:
            message = f"Volcano needs {least.value} pods of {task.role} to start"
            builder.differs(least, f"{message}; mlgen's minMember counts pods of all tasks")


def write_scheduler_metadata(builder: Builder, tasks: Sequence[Task]) -> None:
    """Write the labels and annotations that Volcano's scheduler reads, into written roles.

    Removes each role's schedulerName if it is the one of the gang.
    """
    spec = builder.data["spec"]
    if "gang" not in spec.get("scheduling", {}):
        return
    for kind, keys in INHERITED.items():
        values = builder.resource.get("metadata", kind).value or {}
        inherited = {key: values[key] for key in keys if key in values}
        metadata = spec.setdefault("template", {}).setdefault("metadata", {})
        if inherited:
            metadata[kind] = metadata.get(kind, {}) | inherited
    gang_scheduler = spec["scheduling"].get("schedulerName", VOLCANO)
    for task in tasks:
        template = builder.roles[task.role].get("template", {})
        if template.get("spec", {}).get("schedulerName") == gang_scheduler:
            del template["spec"]["schedulerName"]
            if not template["spec"]:
                del template["spec"]
        numa = task.source.get("topologyPolicy").value
        if numa:
            metadata = template.setdefault("metadata", {})
            metadata["annotations"] = metadata.get("annotations", {}) | {NUMA_POLICY: numa}


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


PLUGIN_DEPENDENCIES = {"mpi": ("master", "worker"), "ray": ("worker", "head")}
"""By plugin: a task that fails without another one, as its arguments name the two.

Volcano starts both at once and restarts the first until it succeeds.
"""


def write_waits(builder: Builder, plugins: Plugins, framework: str, tasks: Sequence[Task]) -> None:
    """Write `waitFor` of each role.

    Volcano creates the pods of a task when the pods it depends on are ready. So does mlgen if a
    readiness probe says when that is. Otherwise the pods wait for a port if the other role declares
    one, else until its names resolve. The port of a framework's plugin is a variable, and its
    programs also listen at other ports.

    Args:
        builder: has the roles.
        plugins: of the job.
        framework: of the job.
        tasks: those with replicas.
    """
    running = {task.name: task for task in tasks}
    for task in tasks:
        depends_on = task.source.get("dependsOn")
        names = [name.value for name in task.dependencies]
        ready = [name for name in names if name in running and _is_probed(builder, running[name])]
        if depends_on.get("iteration").value == "any" and len(names) > 1:
            message = "Volcano waits for any one of these tasks; mlgen waits for all of them"
            builder.differs(depends_on.get("iteration"), message, "keep the one that starts first")
        names += _plugin_dependencies(plugins, running, task)
        waits = []
        for name in (name for name in dict.fromkeys(names) if name in running):
            wait, other = {"role": running[name].role}, running[name]
            if name in ready:
                wait["until"] = "Ready"
            elif not _has_port(builder, plugins, framework, other):
                wait["until"] = "name"
            waits.append(wait)
        builder.put(("spec", "roles", task.role, "waitFor"), depends_on or task.source, waits)


def _is_probed(builder: Builder, task: Task) -> bool:
    """True if a readiness probe says when the pods of a task are ready.

    Kueue resumes what is suspended, so that nothing else can.
    """
    containers = task.source.get("template", "spec", "containers").items()
    gang = builder.data["spec"].get("scheduling", {}).get("gang")
    return gang != "kueue" and any(container.get("readinessProbe") for container in containers)


def _plugin_dependencies(plugins: Plugins, running: Mapping[str, Task], task: Task) -> list[str]:
    """Return the tasks that a plugin needs before this one, unless they wait for it."""
    names = []
    for plugin, (dependent, needed) in PLUGIN_DEPENDENCIES.items():
        name = plugins.argument(plugin, needed)
        if plugins.argument(plugin, dependent) != task.name or name not in running:
            continue
        if task.name not in _with_dependencies(running, name):
            names.append(name)
    return names


def _with_dependencies(running: Mapping[str, Task], name: str) -> set[str]:
    """Return a task and all tasks that it waits for, directly or not."""
    reached: set[str] = set()
    left = [name]
    while left:
        task = running.get(left.pop())
        if task and task.name not in reached:
            reached.add(task.name)
            left += [dependency.value for dependency in task.dependencies]
    return reached


def _has_port(builder: Builder, plugins: Plugins, framework: str, task: Task) -> bool:
    """True if a role has a port; the first that its training container declares is written."""
    if framework in FRAMEWORK_ROLES:
        return False
    if "port" not in builder.roles[task.role]:
        containers = task.source.get("template", "spec", "containers")
        port = containers.get(main_container(plugins, task), "ports", 0, "containerPort")
        builder.put(("spec", "roles", task.role, "port"), port)
    return "port" in builder.roles[task.role]


def _convert(builder: Builder) -> None:
    """Write the TrainingJob, unless there are errors."""
    plugins = parse_plugins(builder)
    tasks = list(parse_tasks(builder))
    validate(builder, plugins, tasks)
    if builder.collector.has_errors:
        return
    framework, tasks = assign_roles(builder, plugins, tasks)
    if not builder.collector.has_errors:
        _write(builder, plugins, framework, tasks)


def _write(builder: Builder, plugins: Plugins, framework: str, tasks: list[Task]) -> None:
    """Write the TrainingJob from valid tasks."""
    deciders = deciding_tasks(builder, plugins, framework, [t for t in tasks if t.replicas])
    tasks = [as_job(builder, framework, task, deciders) for task in tasks]
    running = [task for task in tasks if task.replicas]
    by_role = {task.role: task for task in running}
    deciders = replace(deciders, tasks=tuple(by_role[role] for role in deciders.roles))
    write_scheduling(builder, running)
    additions = write_additions(builder, plugins, tasks)
    for task in tasks:
        write_role(builder, plugins, task, additions)
    write_scheduler_metadata(builder, tasks)
    write_framework(builder, plugins, framework)
    if "ray" in plugins:
        _report_ray_service(builder, plugins, running)
    write_waits(builder, plugins, framework, running)
    gang = gang_of(builder, running)
    write_restarts(builder, running, gang)
    write_success(builder, framework, running, deciders)
    write_bounds(builder, running)
    write_cleanup(builder, running, deciders)
    report_differences(builder, running, deciders, gang)


def _report_ray_service(builder: Builder, plugins: Plugins, running: list[Task]) -> None:
    """Warn that clients of the Ray head need another way to reach it than Volcano's Service."""
    head = plugins.argument("ray", "head")
    restarts_always = any(task.name == head and task.restart == "Always" for task in running)
    workload = f"{'statefulset' if restarts_always else 'job'}/{builder.name}-{head}"
    message = f"Volcano creates the Service {builder.name}-{head}-svc for the head; mlgen does not"
    port = plugins.argument("ray", "dashboardPort")
    hint = f"to reach the dashboard, run kubectl port-forward {quote(workload)} {quote(str(port))}"
    builder.differs(plugins.sources["ray"], message, hint)


DIALECT = Dialect(
    groups=(
        "batch.volcano.sh",
        "bus.volcano.sh",
        "flow.volcano.sh",
        "training.volcano.sh",
    ),
    kinds={("batch.volcano.sh/v1alpha1", "Job"): _convert},
)
