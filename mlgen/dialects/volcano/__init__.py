"""Volcano: converts Jobs of batch.volcano.sh/v1alpha1 to a TrainingJob.

This module writes the pods, the gang and the startup order of the roles. `job` reads and checks the
job, and `lifecycle` writes how roles restart and end. Source: volcano-sh/volcano,
staging/src/volcano.sh/apis/pkg/apis/batch for fields, pkg/controllers/job for behavior: plugins,
job_controller_actions.go (the PodGroup) and job_controller_util.go (createJobPod).
"""

import re
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Dialect, Field
from mlgen.dialects.volcano.job import (
    PLUGINS,
    TABLES,
    Job,
    Task,
    assign_roles,
    choose_deciders,
    restart_as_jobs,
)
from mlgen.dialects.volcano.lifecycle import write_lifecycle
from mlgen.kubernetes.quantity import GPU
from mlgen.launch.line import Lines, container_lines
from mlgen.topology import INDEX

VOLCANO, DEFAULT = "volcano", "default-scheduler"

HOSTFILE_FOLDER = "/etc/mpi"
"""The folder of the hostfile that the plugin mpi adds to all pods."""

PASSED_HOSTS = r"\s(?:-H|--?hosts?)[\s=]+[\"']?\$\{?MPI_HOST\b"
"""The variable MPI_HOST as mpirun's list of hosts."""

NUMA_POLICY = "volcano.sh/numa-topology-policy"
"""The pods' annotation with the `topologyPolicy` of their task."""


def write_scheduling(job: Job) -> None:
    """Write the gang, if the resource names a scheduler or a queue.

    The operator's default is Volcano's scheduler. In a cluster without it, pods would stay pending.
    """
    spec = job.spec
    queue, priority = spec.get("queue").or_unset(), spec.get("priorityClassName").or_unset()
    job.put(("scheduling", "priorityClassName"), priority)
    names = [task.pod.get("schedulerName") for task in job.running]
    named = (name.or_unset() for name in (spec.get("schedulerName"), *names))
    scheduler = next(filter(None, named), Field(None))
    least, pods = job.min_available, sum(task.replicas for task in job.tasks)
    if scheduler.value != DEFAULT and (scheduler or queue):
        source, name = scheduler or queue, scheduler.value or VOLCANO
        job.put(("scheduling", "gang"), source, VOLCANO)
        job.put(("scheduling", "queue"), queue)
        if name != VOLCANO:
            job.put(("scheduling", "schedulerName"), scheduler)
        keep = f", priorityClassName: {priority.value}" if priority else ""
        job.warn(
            source,
            f"without the scheduler {name}, the pods stay Pending",
            f"if it is not installed, pass --set 'spec.scheduling={{gang: none{keep}}}'",
        )
        if least < pods:
            source = spec.get("minAvailable") or spec
            job.put(("scheduling", "minMember"), source, max(1, least))
    elif queue:
        job.warn(
            queue,
            f"Volcano holds the job until its queue has capacity; {DEFAULT} ignores the queue",
        )
    elif not scheduler and pods > 1:
        source = spec.get("minAvailable") or spec.get("tasks")
        count = f"all {pods}" if least == pods else f"{least} of the {pods}"
        job.warn(
            source,
            f"Volcano starts {count} pods together or none; "
            "Kubernetes starts each pod as soon as it fits",
            "if Volcano is installed, pass --set spec.scheduling.gang=volcano",
        )
    _write_placement(job)


def _write_placement(job: Job) -> None:
    """Write the tier of the HyperNodes, and warn about placement rules that are not rendered.

    The number of a tier takes precedence over its name (volcano-sh/volcano v1.15.0,
    pkg/controllers/job/job_controller_actions.go).
    """
    network, is_gang = job.spec.get("networkTopology"), job.gang == VOLCANO
    if network:
        tier = network.get("highestTierAllowed")
        tier = tier if tier.value is not None else network.get("highestTierName").or_unset()
        mode = "preferred" if network.get("mode").value == "soft" else "required"
        if is_gang and tier.value is not None:
            job.put(("scheduling", "topology", "tier"), tier)
            job.put(("scheduling", "topology", "mode"), network.get("mode"), mode)
        else:
            job.warn(
                network,
                "Volcano places all pods under one HyperNode; mlgen does not",
                "pass the node label of your racks, as in --set "
                f"'spec.scheduling.topology={{key: topology.kubernetes.io/zone, mode: {mode}}}'",
            )
    for task in job.running:
        partitions, numa = task.source.get("partitionPolicy"), task.source.get("topologyPolicy")
        least = task.source.get("minAvailable")
        if partitions:
            job.warn(
                partitions,
                f"Volcano places {partitions.value['totalPartitions']} partitions of "
                f"{partitions.value['partitionSize']} pods each; mlgen ignores partitions",
            )
        if numa.value not in (None, "none") and not is_gang:
            job.warn(
                numa,
                "only Volcano's scheduler considers NUMA nodes when it places pods",
                "use the kubelet's Topology Manager",
            )
        if is_gang and len(job.running) > 1 and least and least.value < task.replicas:
            job.warn(
                least,
                f"Volcano needs {least.value} pods of {task.role} to start; "
                "mlgen's minMember counts pods of all tasks",
            )


HOST_FILES = "/etc/volcano"
"""The folder in which the plugin svc mounts the files with host names."""


@dataclass
class PodAdditions:
    """Variables and mounts that plugins and the job's volumes add to containers.

    Attributes:
        env: variables of all containers.
        mounts: of all containers.
        claim_mounts: of all containers except init containers.
    """

    env: dict[str, str] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    claim_mounts: list[dict[str, Any]] = field(default_factory=list)


def write_additions(job: Job) -> PodAdditions:
    """Write the additions to all training containers.

    Returns:
        The same additions, for the other containers.
    """
    additions = PodAdditions()
    _write_claims(job, additions)
    if "svc" in job.sources:
        _write_svc(job, additions)
    if "env" in job.sources:
        additions.env.update({"VK_TASK_INDEX": INDEX, "VC_TASK_INDEX": INDEX})
    if "ssh" in job.sources:
        _write_ssh(job, additions)
    if "mpi" in job.sources:
        _write_hostfile(job, additions)
    if "hcclrank" in job.sources:
        job.warn(
            job.sources["hcclrank"],
            "Volcano annotates each pod with its rank, hccl/rankIndex; mlgen does not",
            f"use the variable RANK, or write {INDEX} in the command",
        )
    source = job.spec.get("plugins")
    job.put(("env",), source, additions.env)
    # Selectors outside of the job may use the labels that Volcano sets on pods.
    labels = {"volcano.sh/job-name": job.name}
    job.put(("template", "metadata", "labels"), job.kind, labels)
    # Volcano's scheduler reads these annotations from the pods.
    metadata = job.data["spec"]["template"]["metadata"]
    for kind, keys in TABLES["inherited"].items() if job.gang else ():
        values = job.resource.get("metadata", kind).value or {}
        inherited = {key: values[key] for key in keys if key in values}
        if inherited:
            metadata[kind] = metadata.get(kind, {}) | inherited
    return additions


def _write_claims(job: Job, additions: PodAdditions) -> None:
    """Write the volumes of the job, and the claims that Volcano creates with random names."""
    ttl = job.spec.get("ttlSecondsAfterFinished")
    for i, volume in enumerate(job.spec.get("volumes").items()):
        mount = {"name": f"claim-{i}", "mountPath": volume.value["mountPath"]}
        claim, claim_name = volume.get("volumeClaim"), volume.value.get("volumeClaimName")
        if not claim_name:
            claim_name = f"{job.name}-claim-{i}"
            job.put(("claims", claim_name), claim)
            if ttl:
                job.warn(
                    claim,
                    f"Volcano deletes the PersistentVolumeClaim {ttl.value} s after the job ends; "
                    "mlgen keeps it",
                    f"to delete it, run kubectl delete pvc {quote(claim_name)}",
                )
        short_form = {"mountPath": mount["mountPath"], "pvc": claim_name}
        job.put(("volumes", mount["name"]), volume, short_form)
        additions.claim_mounts.append(mount)


def _write_svc(job: Job, additions: PodAdditions) -> None:
    """Write the host names of all tasks, as variables and as files."""
    variables, files = {}, {}
    for task in job.tasks:
        hosts, name = job.hosts(task), task.name.replace("-", "_")
        variables[f"VC_{name.upper()}_HOSTS"] = ",".join(hosts)
        variables[f"VC_{name.upper()}_NUM"] = str(len(hosts))
        files[f"{name}.host"] = "\n".join(hosts)
    if job.argument("svc", "inject-hosts-env").value:
        additions.env.update(variables)
    volume = {"mountPath": HOST_FILES, "files": files | variables}
    job.put(("volumes", "svc"), job.sources["svc"], volume)
    additions.mounts.append({"name": "svc", "mountPath": HOST_FILES})


def _write_ssh(job: Job, additions: PodAdditions) -> None:
    """Write a volume with the keys of the Secret `<job>-ssh` and a client configuration.

    The user must create the Secret, because mlgen renders no private key.
    """
    folder, port = (job.argument("ssh", name) for name in ("ssh-key-file-path", "ssh-port"))
    source, secret = job.sources["ssh"], f"{job.name}-ssh"
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
    for host in (host for task in job.tasks for host in job.hosts(task)):
        config += f"Host {host.partition('.')[0]}\n  HostName {host}\n  Port {port.value}\n"
    items = TABLES["sshFiles"]
    keys = {"secret": {"name": secret, "items": items["secret"]}}
    client = {"files": {"config": config}, "items": items["files"]}
    mode = 0o600 if folder.value == PLUGINS["ssh"]["ssh-key-file-path"] else 0o644
    projected = {"sources": [keys, client], "defaultMode": mode}
    mount = {"mountPath": folder.value, "subPath": ".ssh"}
    job.put(("volumes", "ssh-keys"), source, {**mount, "projected": projected})
    additions.mounts.append({"name": "ssh-keys", **mount})
    option = job.namespace_option
    written = [job.argument("ssh", f"ssh-{name}-key") for name in ("private", "public")]
    first_key = next((key for key in written if key.value), None)
    if first_key:
        job.warn(
            first_key,
            f"mlgen renders no SSH keys; the pods use the keys in the Secret {secret}",
            f"run kubectl create secret generic{option} {quote(secret)} "
            "--from-file=ssh-privatekey=… --from-file=ssh-publickey=…",
        )
    else:
        job.warn(
            source,
            f"Volcano creates the Secret {secret} with SSH keys; mlgen does not",
            f"run mlgen ssh-secret{option} {quote(secret)} | kubectl apply -f -",
        )


def _write_hostfile(job: Job, additions: PodAdditions) -> None:
    """Write Open MPI's default hostfile with the workers, for mpirun without a list of hosts.

    Released versions of Volcano only set MPI_HOST, for `mpirun -H`. The hostfile is in the design
    of its plugin mpi. The slots are the GPUs of a worker, or else follow from the number of
    processes that the master starts. Without both, Open MPI counts the cores.
    """
    worker = _task_of_mpi(job, "worker")
    containers = [item for task in job.tasks for item in task.pod.get("containers").items()]
    mounts = [mount for item in containers for mount in item.get("volumeMounts").items()]
    if any(mount.value.get("mountPath") == HOSTFILE_FOLDER for mount in mounts):
        return
    limits = worker.pod.get("containers", 0, "resources", "limits").value or {}
    gpus = next((amount for name, amount in limits.items() if name.endswith(GPU)), 0)
    number = gpus or _slots(job)
    slots = f" slots={number}" if number else ""
    text = "".join(f"{host}{slots}\n" for host in job.hosts(worker))
    volume = {"mountPath": HOSTFILE_FOLDER, "files": {"hostfile": text}}
    job.put(("volumes", "mpi-hostfile"), job.sources["mpi"], volume)
    additions.mounts.append({"name": "mpi-hostfile", "mountPath": HOSTFILE_FOLDER})
    additions.env.update(dict.fromkeys(TABLES["hostfileVariables"], f"{HOSTFILE_FOLDER}/hostfile"))


def _task_of_mpi(job: Job, name: str) -> Task:
    """Return the task that an argument of the plugin mpi names: `master` or `worker`."""
    return next(task for task in job.tasks if task.name == job.argument("mpi", name).value)


def _master_lines(job: Job) -> Lines:
    """Return the commands of the plugin mpi's master."""
    return container_lines(_task_of_mpi(job, "master").pod.get("containers", 0).value)


def _slots(job: Job) -> int:
    """Return the slots per worker that the processes in the master's command need; 0 if unknown."""
    launches = _master_lines(job).launches
    counts = [launch.number(launch.launcher.all_processes) or 0 for launch in launches]
    return -(-max(counts, default=0) // _task_of_mpi(job, "worker").replicas)


def _hosts_variable(job: Job) -> str:
    """Return MPI_HOST: the workers.

    If the command only passes it on as the list of hosts, with more processes than workers, each
    host also has its slots. Without a number, Open MPI starts one process per host.
    """
    hosts, line, slots = job.hosts_of("mpi", "worker"), _master_lines(job).text, _slots(job)
    passed_on = len(re.findall(PASSED_HOSTS, line)) == line.count("MPI_HOST") > 0
    return ",".join(f"{host}:{slots}" if passed_on and slots > 1 else host for host in hosts)


def write_role(job: Job, task: Task, additions: PodAdditions) -> None:
    """Write the role of a task: its pod template, command, variables and port."""
    path = ("roles", task.role)
    main, ray = _main_container(job, task)
    env = {}
    if task.name == job.argument("mpi", "master").value:
        env["MPI_HOST"] = _hosts_variable(job)
    template = _template(job, task, additions, env)
    job.role(task.role, template, template.get("spec", "containers", main))
    for name, value in env.items():
        job.put((*path, "env", name), job.sources["mpi"], value)
    if task.name == job.argument("mpi", "worker").value:
        job.put((*path, "port"), job.argument("mpi", "port"))
    if ray:
        arguments = {name: job.argument("ray", name).value for name in PLUGINS["ray"]}
        arguments["address"] = job.hosts_of("ray", "head")[0]
        command = TABLES["rayCommands"][ray].format(**arguments)
        job.put((*path, "command"), job.sources["ray"], ["sh", "-c", command])
    if ray == "head":
        job.put((*path, "port"), job.argument("ray", "port"))
    if task.name == job.argument("ray", "head").value:
        # Volcano's Service is not rendered, so clients need another way to reach the head.
        kind = "statefulset" if task.restart == "Always" else "job"
        workload = quote(f"{kind}/{job.name}-{task.name}")
        port = quote(str(job.argument("ray", "dashboardPort").value))
        service = f"{job.name}-{task.name}-svc"
        job.warn(
            job.sources["ray"],
            f"Volcano creates the Service {service} for the head; mlgen does not",
            f"to reach the dashboard, run kubectl port-forward {workload} {port}",
        )
    job.put((*path, "replicas"), task.source.get("replicas") or task.source, task.replicas)


def _main_container(job: Job, task: Task) -> tuple[int, str]:
    """Return the index of the training container, and its role in Ray: head or worker.

    It is the container that the arguments of the plugin ray name, else the first one.
    """
    names = [container.value["name"] for container in task.pod.get("containers").items()]
    for ray in ("head", "worker"):
        if job.argument("ray", ray).value == task.name:
            name = job.argument("ray", f"{ray}Container").value
            return (names.index(name), ray) if name in names else (0, "")
    return 0, ""


def _template(job: Job, task: Task, additions: PodAdditions, env: dict[str, str]) -> Field:
    """Return the pod template of a task with everything that has no field in a job file.

    It includes the variables and mounts of all containers but the training container, which gets
    most of them from `spec.env` and `spec.volumes`.
    """
    source = task.source.get("template")
    template = deepcopy(source.value)
    metadata, pod = template.setdefault("metadata", {}), template["spec"]
    metadata["labels"] = metadata.get("labels", {}) | {"volcano.sh/task-spec": task.name}
    numa = task.source.get("topologyPolicy").value
    if job.gang and numa:
        metadata["annotations"] = metadata.get("annotations", {}) | {NUMA_POLICY: numa}
    # The gang already sets the scheduler of its pods.
    scheduling = job.data["spec"].get("scheduling", {})
    if job.gang and pod.get("schedulerName") == scheduling.get("schedulerName", VOLCANO):
        del pod["schedulerName"]
    if pod.get("hostNetwork"):
        pod.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    main, ray = _main_container(job, task)
    training = pod["containers"][main]
    if ray == "head":
        declared = [port.get("containerPort") for port in training.get("ports", [])]
        ports = {name: job.argument("ray", port).value for name, port in TABLES["rayPorts"].items()}
        new = {name: port for name, port in ports.items() if port not in declared}
        _extend(training, ports=[{"name": name, "containerPort": new[name]} for name in new])
    variables = [{"name": name, "value": value} for name, value in (additions.env | env).items()]
    for container in (item for item in pod["containers"] if item is not training):
        mounts = [*additions.mounts, *additions.claim_mounts]
        _extend(container, env=variables, volumeMounts=mounts)
    for container in pod.get("initContainers", []):
        _extend(container, env=variables, volumeMounts=additions.mounts)
    return Field(template, source.path)


def _extend(container: dict[str, Any], **added: list[dict[str, Any]]) -> None:
    """Append to lists of a container, in place."""
    for field_name, items in added.items():
        if items:
            container[field_name] = [*container.get(field_name, []), *map(dict, items)]


def write_framework(job: Job) -> None:
    """Write the framework, and the fields from its plugin's arguments."""
    kind, framework = job.kind, job.framework
    job.put_framework(framework)
    if framework not in TABLES["frameworks"]:
        job.put(("options", "addresses"), kind, value=False)
        return
    port = job.argument(framework, "port")
    if port.value != PLUGINS[framework]["port"]:
        job.put(("port",), port)
    if job.argument("pytorch", "wait-master-enabled").value:
        job.put(("wait", "timeoutSeconds"), job.argument("pytorch", "wait-master-timeout"))
        job.put(("helpers", "waitImage"), job.argument("pytorch", "wait-master-image"))
    for task in job.tasks:
        containers = task.pod.get("containers")
        if len(containers.value) > 1:
            first = containers.value[0]["name"]
            job.warn(
                containers,
                f"Volcano sets the variables of {framework} in all containers; "
                f"mlgen sets them in {first} only",
            )


def write_waits(job: Job) -> None:
    """Write `waitFor` of each role.

    Volcano creates the pods of a task when the pods that it depends on are ready. mlgen does the
    same if these have a readiness probe. Otherwise, the pods wait for a port if the other role
    declares one, or until its names resolve. The port of a framework's plugin is a variable, and
    its programs also listen on other ports.
    """
    running, dependencies = {task.name: task for task in job.running}, _dependencies(job)
    for task in job.running:
        depends_on = task.source.get("dependsOn")
        written = [name.value for name in task.dependencies]
        iteration = depends_on.get("iteration")
        if iteration.value == "any" and len(written) > 1:
            job.warn(
                iteration,
                "Volcano waits for any one of these tasks; mlgen waits for all of them",
                "list only the task that starts first",
            )
        waits = []
        for name in dict.fromkeys(dependencies[task.name]):
            if name in running:
                wait = {"role": running[name].role}
                if name in written and _is_probed(job, running[name]):
                    wait["until"] = "Ready"
                elif not _has_port(job, running[name]):
                    wait["until"] = "name"
                waits.append(wait)
        path = ("roles", task.role, "waitFor")
        job.put(path, depends_on or task.source, waits)


def _is_probed(job: Job, task: Task) -> bool:
    """True if the pods of a task have a readiness probe, and Kueue does not manage the job.

    Kueue resumes all suspended Jobs itself, so they cannot be resumed one after the other.
    """
    containers = task.pod.get("containers").items()
    probed = any(container.get("readinessProbe") for container in containers)
    return probed and job.gang != "kueue"


def _dependencies(job: Job) -> dict[str, list[str]]:
    """Return the tasks that each running task waits for: its `dependsOn`, and its plugins' tasks.

    A plugin's task is omitted if it waits for the running task, directly or indirectly.
    """
    written = {task.name: [name.value for name in task.dependencies] for task in job.running}
    names = dict(written)
    for plugin, pair in TABLES["dependencies"].items():
        dependent, needed = (job.argument(plugin, name).value for name in pair)
        if dependent in written and needed in written:
            with suppress(CycleError):
                graph = written | {dependent: [*written[dependent], needed]}
                TopologicalSorter(graph).prepare()
                names[dependent] = [*names[dependent], needed]
    return names


def _has_port(job: Job, task: Task) -> bool:
    """True if a role has a port. The first port that its training container declares is written."""
    if job.framework in TABLES["frameworks"]:
        return False
    role = job.roles[task.role]
    if "port" not in role:
        main, _ = _main_container(job, task)
        port = task.pod.get("containers", main, "ports", 0, "containerPort")
        job.put(("roles", task.role, "port"), port)
    return "port" in role


class WrittenJob(Job):
    """A Volcano job that is written as a TrainingJob."""

    def write(self) -> None:
        """Write the TrainingJob, unless there are errors."""
        self.read()
        if not self.collector.has_errors:
            assign_roles(self)
        if self.collector.has_errors:
            return
        choose_deciders(self)
        restart_as_jobs(self)
        write_scheduling(self)
        additions = write_additions(self)
        for task in self.tasks:
            write_role(self, task, additions)
        write_framework(self)
        write_waits(self)
        write_lifecycle(self)


DIALECT = Dialect(
    groups=("batch.volcano.sh", "bus.volcano.sh", "flow.volcano.sh", "training.volcano.sh"),
    kinds={("batch.volcano.sh/v1alpha1", "Job"): WrittenJob},
)
