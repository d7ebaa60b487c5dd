"""Rules about launchers that one pod runs, and that start processes in the slots of the workers."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mlgen.jobfile.model import RoleSpec, TrainingJob, containers_of, gpu_count, process_devices
from mlgen.launch.line import FOREVER, HOSTFILES, Launch, Line, lines_of
from mlgen.launch.role import JobRole, Launched, of_remote, of_roles, users_of
from mlgen.problems import Problem, error, warning
from mlgen.rules import Rules
from mlgen.shell import is_python


def implementation(job: TrainingJob) -> str:
    """Return the MPI implementation of a job: `OpenMPI`, `MPICH` or `Intel`."""
    return str(job.options.get("implementation", "OpenMPI"))


def per_worker(job: TrainingJob) -> int:
    """Return the number of slots of each worker.

    By default, it is the number of its GPUs. Without GPUs, it is the number with which the hosts
    have room for the processes that the launcher's command starts.
    """
    launcher, worker = job.roles.get("launcher"), job.roles.get("worker")
    slots = job.options.get("slotsPerWorker", gpu_count(worker) if worker else 0)
    if slots or not launcher or not worker or "elasticPolicy" in job.options:
        return int(slots or 1)
    counts = (_processes(job, launch) or 1 for launch in lines_of(launcher).launches)
    return -(-max(counts, default=1) // max(worker.replicas + _working_launchers(job), 1))


def _working_launchers(job: TrainingJob) -> int:
    """Return the number of launchers that also have slots, 0 or 1."""
    return 1 if job.options.get("runLauncherAsWorker") else 0


class Slots(NamedTuple):
    """A launcher of the role `launcher`, and the slots of the hosts in which it starts processes.

    Attributes:
        launched: the launcher.
        each: the number of slots per host.
        hosts: the number of workers, plus the launcher if it runs processes.
        most_hosts: the number of hosts after scaling up to the maximum.
        gpus: the GPUs of each worker; 0 if there are none or they cannot be counted.
    """

    launched: Launched
    each: int
    hosts: int
    most_hosts: int
    gpus: int

    @property
    def job(self) -> TrainingJob:
        """The job."""
        return self.launched.job

    @property
    def launch(self) -> Launch:
        """The launcher and its options as written."""
        return self.launched.raw


of_slots: Rules[Slots, Problem] = Rules("slots")


def slots_of(launched: Launched) -> Slots | None:
    """Return the slots of the hosts of a launcher; None for commands that use no hostfile."""
    job = launched.job
    if launched.role.name != "launcher" or "hostfile" not in launched.topology.files:
        return None
    worker, own = job.roles["worker"], _working_launchers(job)
    most = max(worker.replicas, job.options.get("elasticPolicy", {}).get("maxReplicas", 0))
    hosts, gpus_of_each = worker.replicas + own, process_devices(worker)
    return Slots(launched, per_worker(job), hosts, most + own, gpus_of_each)


def counted(number: int, noun: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


@of_slots
def all_in_launcher(slots: Slots) -> Iterator[Problem]:
    """Report a launcher that starts all processes in its own pod, not in the workers.

    localhost is horovodrun's default (horovod/runner/launch.py, _run).

    wrong:
        framework: horovod
        roles:
          launcher: {command: [horovodrun, -np, "2", python, train.py]}
          worker: {replicas: 2}
    wrong:
        framework: mpi
        roles:
          launcher: {command: [mpirun, -np, "2", -H, "localhost:2", ./train]}
          worker: {replicas: 2}
    right:
        framework: horovod
        roles:
          launcher:
            command: [horovodrun, -np, "2", --hostfile, /etc/mpi/hostfile, python, train.py]
          worker: {replicas: 2}
    """
    launch, launched = slots.launch, slots.launched
    if len(launched.role.lines.launches) == 1 and _is_local(launch):
        script = "--host-discovery-script /etc/mpi/discover_hosts.sh"
        elastic = "elasticPolicy" in slots.job.options and launch.program == "horovodrun"
        option = script if elastic else "--hostfile /etc/mpi/hostfile"
        yield launched.all_local(f"pass {option} instead of localhost")


@of_slots
def undiscovered(slots: Slots) -> Iterator[Problem]:
    """Report more slots than horovodrun can discover, for which it waits until its timeout.

    wrong:
        framework: horovod
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}, slotsPerWorker: 1}
        roles:
          launcher:
            command: [horovodrun, -np, "4", --host-discovery-script, /etc/mpi/discover_hosts.sh,
                      python, train.py]
          worker: {replicas: 2}
    right:
        framework: horovod
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}, slotsPerWorker: 1}
        roles:
          launcher:
            command: [horovodrun, -np, "2", --host-discovery-script, /etc/mpi/discover_hosts.sh,
                      python, train.py]
          worker: {replicas: 2}
    """
    launch, most = slots.launch, slots.most_hosts * slots.each
    least = launch.number("min_np") or launch.number("np") or 0
    discovers = launch.program == "horovodrun" and "host_discovery_script" in launch.options
    if discovers and least > most:
        yield slots.launched.warning(
            f"horovodrun waits for {least} slots, but discovers at most {most},"
            f" {slots.each} on each of {counted(slots.most_hosts, 'host')}",
            f"write at most {most}, or change maxReplicas or slotsPerWorker",
        )


@of_slots
def other_workers(slots: Slots) -> Iterator[Problem]:
    """Report a number of pods or of GPUs that the workers do not have.

    wrong:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, --num_nodes=4, train.py]}
          worker: {replicas: 2}
    wrong:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, --num_gpus=8, train.py]}
          worker: {replicas: 2, resources: {limits: {nvidia.com/gpu: 4}}}
    right:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, --num_nodes=2, train.py]}
          worker: {replicas: 2}
    """
    launch, row = slots.launch, slots.launch.launcher
    if row.in_each_pod:
        return
    nodes, devices = launch.number(row.nodes), launch.number(row.processes)
    if nodes and nodes != slots.hosts and launch.options.get("hostfile") in HOSTFILES:
        hint = f"remove --{row.nodes} to start processes in all workers, or change replicas"
        message = f"--{row.nodes}={nodes}, but the job has {counted(slots.hosts, 'worker')}"
        yield slots.launched.warning(message, hint)
    if devices and 0 < slots.gpus < devices:
        has = counted(slots.gpus, "GPU")
        message = f"--{row.processes}={devices}, but each worker has {has}"
        yield slots.launched.warning(message, f"write --{row.processes}={slots.gpus}")


@of_slots
def needs_ssh(slots: Slots) -> Iterator[Problem]:
    """Report a launcher that starts processes in other pods with ssh, without sshd in them.

    Of the launchers, horovodrun uses `kubectl exec` if it is Open MPI's agent
    (horovod/runner/util/remote.py, get_remote_command), and pdsh never does
    (deepspeed/launcher/runner.py, PDSHRunner).

    wrong:
        framework: deepspeed
        options: {transport: kubectl-exec}
        roles:
          launcher: {command: [deepspeed, train.py]}
          worker: {replicas: 2}
    right:
        framework: deepspeed
        roles:
          launcher: {command: [deepspeed, train.py]}
          worker: {replicas: 2}
    """
    launch, job = slots.launch, slots.job
    if launch.program == "horovodrun":
        is_open_mpi = implementation(job) == "OpenMPI"
        needs = not is_open_mpi and not _is_local(launch) and "np" in launch.options
    elif re.search(r"(ssh|rsh)$", launch.options.get("mca_plm_rsh_agent", "")):
        needs = True
    else:
        needs = launch.program == "deepspeed" and launch.options.get("launcher") in (None, "pdsh")
    # The image of a custom resource may contain its own ssh.
    if needs and job.options.get("transport") != "ssh" and not job.converted:
        message = (
            f"{launch.program} connects to the workers over ssh, but transport is kubectl-exec"
        )
        yield slots.launched.warning(message, "write options.transport: ssh, or use mpirun")


@of_slots
def several_launchers(slots: Slots) -> Iterator[Problem]:
    """Report several launchers per host, each of which starts all processes of its host.

    wrong:
        framework: mpi
        roles:
          launcher: {command: [mpirun, -np, "16", torchrun, --nproc_per_node=8, train.py]}
          worker: {replicas: 2, resources: {limits: {nvidia.com/gpu: 8}}}
    right:
        framework: mpi
        roles:
          launcher:
            command: [mpirun, -np, "2", --map-by, "ppr:1:node",
                      torchrun, --nproc_per_node=8, train.py]
          worker: {replicas: 2, resources: {limits: {nvidia.com/gpu: 8}}}
    """
    inner = Line(slots.launch.script).launch
    processes = _processes(slots.job, slots.launch) if inner else None
    if inner and processes and processes > slots.hosts:
        row = inner.launcher
        if row.in_each_pod and inner.literal(row.processes) not in (None, "1"):
            message = (
                f"mpirun would start {inner.program} {processes} times,"
                " and each of them all processes of its host"
            )
            yield slots.launched.warning(message, f"write -np {slots.hosts} --map-by ppr:1:node")


@of_slots
def other_hosts(slots: Slots) -> Iterator[Problem]:
    """Report a hostfile in the job's files, or a list of hosts, that does not name the workers.

    wrong:
        framework: mpi
        roles:
          launcher:
            command: [mpirun, --hostfile, /conf/hosts, ./train]
            volumes: {conf: {mountPath: /conf, files: {hosts: "node-1 slots=8"}}}
          worker: {replicas: 2}
    wrong:
        framework: mpi
        roles:
          launcher:
            command: [mpirun, --hostfile, /conf/hosts, ./train]
            volumes: {conf: {mountPath: /conf, files: {hosts: "example-worker-0 slots=8"}}}
          worker: {replicas: 2}
    wrong:
        framework: mpi
        roles:
          launcher:
            command: [mpirun, --hostfile, /conf/hosts, ./train]
            volumes: {conf: {mountPath: /conf, files: {hosts: "localhost slots=2"}}}
          worker: {replicas: 2}
    wrong:
        framework: horovod
        roles:
          launcher: {command: [horovodrun, -np, "8", -H, "server1:4,server2:4", python, train.py]}
          worker: {replicas: 2}
    right:
        framework: mpi
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {replicas: 2}
    """
    job, launch, launched = slots.job, slots.launch, slots.launched
    workers, hint = job.roles["worker"].replicas, "mlgen's own hostfile lists the workers"
    own = {f"{job.written_name}-{role}-{i}" for role in job.roles for i in range(job.replicas)}
    option = next((name for name in ("host", "hosts") if name in launch.options), "")
    for host in (each.partition(":")[0] for each in (launch.literal(option) or "").split(",")):
        # A name with dots may be a machine outside of the cluster.
        if re.fullmatch(r"[\w-]+", host) and host not in {*own, "localhost"}:
            flag = launch.written[option]
            message = f"{flag} contains {host}, which is not a replica of this job"
            yield launched.warning(message, f"write --hostfile /etc/mpi/hostfile instead: {hint}")
            return
    file = None if job.converted else launch.literal("hostfile")
    for text in [each.text for each in launched.role.lines.files if each.file == file]:
        lines = (re.sub("#.*", "", line).strip() for line in text.splitlines())
        hosts = [re.split(r"[\s:.]", line)[0] for line in lines if line]
        others = [host for host in hosts if re.search(r"-\d+$", host) and host not in own]
        if hosts and {*hosts} <= {"localhost", "127"}:
            yield launched.all_local("remove --hostfile")
        elif others:
            message = (
                f"the hostfile {file} contains {others[0]}, which is not a replica of this job"
            )
            yield launched.warning(message, f"remove --hostfile: {hint}")
        elif hosts and len({*hosts} & own) == len({*hosts}) < workers:
            message = f"the hostfile {file} contains only {len(hosts)} of the {workers} workers"
            yield launched.warning(message, f"remove --hostfile: {hint}")


@of_slots
def other_processes(slots: Slots) -> Iterator[Problem]:
    """Report a number of processes that does not fit the slots of the workers.

    Open MPI and horovodrun refuse to start more processes than there are slots
    (orte/mca/rmaps/round_robin/rmaps_rr.c; horovod/runner/common/util/hosts.py). Hydra starts again
    with the first host. All of them fill one host before they use the next.

    wrong:
        framework: mpi
        options: {slotsPerWorker: 2}
        roles:
          launcher: {command: [mpirun, -np, "8", ./train]}
          worker: {replicas: 2}
    wrong:
        framework: mpi
        options: {slotsPerWorker: 4}
        roles:
          launcher: {command: [mpirun, -np, "4", ./train]}
          worker: {replicas: 2}
    wrong:
        framework: horovod
        options: {slotsPerWorker: 8}
        roles:
          launcher:
            command: [horovodrun, -np, "16", --hostfile, /etc/mpi/hostfile, python, train.py]
          worker: {replicas: 2, resources: {limits: {nvidia.com/gpu: 4}}}
    right:
        framework: mpi
        options: {slotsPerWorker: 4}
        roles:
          launcher: {command: [mpirun, -np, "8", ./train]}
          worker: {replicas: 2}
    """
    launch, job, launched = slots.launch, slots.job, slots.launched
    processes, per_host = _processes(job, launch), _each(launch)
    each, launches = per_host or slots.each, launched.role.lines.launches
    available, used = each * slots.hosts, -(-(processes or 0) // each)
    option = "the number per host" if per_host else "slotsPerWorker"
    hint = f"write -np {available}, or change {option} or replicas"
    # Another order, such as one process per host, can use hosts that would be idle.
    alone = len(launches) == 1 and launch.launcher.orders.keys().isdisjoint(launch.options)
    if used > slots.hosts and implementation(job) == "OpenMPI":
        # An MPIJob of v1 does not specify which MPI implementation its image contains.
        is_certain = not job.converted or {"implementation", "transport"} & {*job.options}
        room = f"room for {available}" if per_host else counted(available, "slot")
        message = (
            f"{launch.program} refuses to start {processes} processes: the job has {room},"
            f" {each} on each of {counted(slots.hosts, 'host')}"
        )
        yield launched.error(message, hint, warn=not is_certain)
    elif processes and used < slots.hosts and alone:
        idle = counted(slots.hosts - used, "worker")
        message = (
            f"{idle} of {slots.hosts} would stay idle: {processes} processes fill only the other"
            f" workers, with {each} slots each"
        )
        yield launched.warning(message, hint)
    # In training, each process needs its own GPU. MPI programs share GPUs.
    runs_python = any(map(is_python, launch.script[:1]))
    uses_gpus = launch.program in ("horovodrun", "deepspeed") or runs_python
    if uses_gpus and 0 < slots.gpus < slots.each:
        hint = f"write slotsPerWorker: {slots.gpus}, or remove it"
        message = f"each worker has {slots.each} slots, but only {counted(slots.gpus, 'GPU')}"
        yield warning(("options", "slotsPerWorker"), message, hint, "launch")


def _is_local(launch: Launch) -> bool:
    """Return True if the only host is localhost."""
    hosts = launch.options.get("host", launch.options.get("hosts"))
    if hosts is None:
        others = {"hostfile", "host_discovery_script"} & {*launch.options}
        return launch.program == "horovodrun" and "np" in launch.options and not others
    return {host.partition(":")[0] for host in hosts.split(",")} <= {"localhost", "127.0.0.1"}


def _processes(job: TrainingJob, launch: Launch) -> int | None:
    """Return the number of processes that mlgen's hostfile places; None if unknown."""
    if launch.program == "mpirun":
        placed = ":" in launch.script or _is_placed(job.roles["launcher"], launch)
    else:
        own = launch.options.get("hostfile") in HOSTFILES[1:] and "hosts" not in launch.options
        placed = launch.program != "horovodrun" or not own
    return None if placed else launch.number(launch.launcher.all_processes)


def _each(launch: Launch) -> int | None:
    """Return the number of processes per host in an option; None if the hostfile sets it."""
    found = re.fullmatch(r"ppr:(\d{1,4}):node", launch.literal("map_by") or "")
    return int(found[1]) if found else launch.number("npernode")


def _is_placed(launcher: RoleSpec, launch: Launch) -> bool:
    """Return True if the user's options or variables place the processes on the hosts."""
    row = launch.launcher
    options = {
        name for name, value in launch.options.items() if value not in row.orders.get(name, ())
    }
    options -= {"map_by", "npernode"} if _each(launch) else set()
    return (
        not options.isdisjoint(row.placement)
        or any(name.startswith(("mca_rmaps", "mca_orte", "prtemca_")) for name in options)
        or launch.options.get("hostfile") not in HOSTFILES
        or any(part in name.upper() for name in launcher.env for part in row.placement_variables)
        or any("env" in patch for patch in launcher.container_patches)
    )


@of_remote
def training_in_worker(launched: Launched) -> Iterator[Problem]:
    """Report workers that run the launcher or its program themselves, instead of waiting for it.

    It is a warning if the launcher uses `kubectl exec`, which also starts processes in a worker
    that runs another program.

    wrong:
        framework: mpi
        command: [mpirun, ./train]
        runPolicy: {cleanPodPolicy: Running}
        roles: {launcher: {}, worker: {}}
    wrong:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [./train]}
    right:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {}
    """
    raw, job = launched.raw, launched.job
    if "launcher" not in job.roles:
        return
    reached = job.options.get("transport") != "ssh"
    hint = "write the command only in roles.launcher"
    lines = lines_of(job.roles["launcher"])
    if launched.role.name == "worker":
        same = any(each.program == raw.program for each in lines.launches)
        if same or re.match(FOREVER, lines.text):
            message = f"each worker runs {raw.program}, too, instead of waiting for the launcher"
            yield launched.error(message, hint, warn=reached)
    elif launched.role.name == "launcher" and "worker" in job.roles:
        worker = lines_of(job.roles["worker"])
        if worker.words and worker.words == raw.script:
            message = f"each worker runs {worker.text} itself, instead of waiting for the launcher"
            report = warning if reached else error
            yield report(("roles", "worker", "command"), message, hint, "launch")


@of_remote
def root_refused(launched: Launched) -> Iterator[Problem]:
    """Warn of mpirun of Open MPI as root, which it refuses without `--allow-run-as-root`.

    wrong:
        framework: mpi
        security: {runAsUser: 0}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {}
    right:
        framework: mpi
        security: {runAsUser: 0}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, --allow-run-as-root, ./train]}
          worker: {}
    """
    raw, spec, job = launched.raw, launched.spec, launched.job
    if raw.program != "mpirun" or spec.name != "launcher" or implementation(job) != "OpenMPI":
        return
    allowed = "allow_run_as_root" in raw.options or "ALLOW_RUN_AS_ROOT" in repr(spec)
    if 0 in users_of(job, spec) and not (allowed or spec.may_have_more_env):
        yield launched.warning(
            "mpirun of Open MPI refuses to run as root, and runAsUser is 0",
            "write mpirun --allow-run-as-root, or another runAsUser",
        )


@of_roles
def no_sshd(role: JobRole) -> Iterator[Problem]:
    """Report workers that only sleep, although the launcher connects to them with ssh.

    wrong:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [sleep, infinity]}
    right:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [bash, -c, service ssh start && sleep infinity]}
    """
    spec, lines = role.spec, role.lines.lines
    by_ssh = role.job.options.get("transport") == "ssh" and spec.name == "worker"
    if not by_ssh or not spec.command or len(lines) != 1:
        return
    # Without a command, the entrypoint of the image may start sshd.
    several = any(containers_of(template) for template in spec.templates)
    command = " ".join(lines[0].words)
    if not several and re.match(FOREVER, command):
        yield role.error(
            ("command",),
            "with transport: ssh, the launcher connects to sshd,"
            f" but the workers only run {command}",
            "remove the command: by default, mlgen starts sshd",
        )
