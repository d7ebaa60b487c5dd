"""Check the command line of an MPI launcher against the workers, their slots and their GPUs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mlgen.launch.ranks import at_flag
from mlgen.launch._old import HOSTFILES, Launch, files_of, launches_in, launches_of
from mlgen.frameworks._tables import problem
from mlgen.jobfile import gpus
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import Problem
from mlgen.shell import is_python


@dataclass(frozen=True)
class Slots:
    """The slots for processes in the pods of a job.

    Attributes:
        each: the number of slots per host.
        hosts: the number of workers, plus the launcher if it runs processes.
        most_hosts: the number of hosts after scaling up to the maximum.
        gpus: the GPUs of each worker; 0 if there are none or they cannot be counted.
    """

    each: int
    hosts: int
    most_hosts: int
    gpus: int

    @property
    def available(self) -> int:
        """The number of slots of all hosts."""
        return self.each * self.hosts


def per_worker(job: TrainingJob) -> int:
    """Return the number of slots of each worker.

    By default, it is the number of its GPUs. Without GPUs, it is the number with which the hosts
    have room for the processes that the launcher's command starts.
    """
    worker = job.roles.get("worker")
    default = gpus.count(worker) if worker else 0
    return int(job.options.get("slotsPerWorker", default or _from_command(job)))


def _from_command(job: TrainingJob) -> int:
    """Return the slots per host for the processes in the launcher's command; 1 without a number."""
    launcher, worker = job.roles.get("launcher"), job.roles.get("worker")
    if not launcher or not worker or "elasticPolicy" in job.options:
        return 1
    counts = [_processes(job, launch) or 1 for launch in launches_of(launcher)]
    return -(-max(counts, default=1) // max(worker.replicas + _working_launchers(job), 1))


def _working_launchers(job: TrainingJob) -> int:
    """Return the number of launchers that also have slots, 0 or 1."""
    return 1 if job.options.get("runLauncherAsWorker") else 0


def slot_problems(job: TrainingJob) -> Iterator[Problem]:
    """Return the contradictions between the launcher's command line and the workers.

    Args:
        job: a job with the roles launcher and worker.
    """
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    own = _working_launchers(job)
    maximum = max(worker.replicas, job.options.get("elasticPolicy", {}).get("maxReplicas", 0))
    places = Slots(per_worker(job), worker.replicas + own, maximum + own, gpus.per_process(worker))
    launches = launches_of(launcher)
    if len(launches) == 1 and _is_local(launches[0]):
        script = "--host-discovery-script /etc/mpi/discover_hosts.sh"
        elastic = "elasticPolicy" in job.options and launches[0].program == "horovodrun"
        option = script if elastic else "--hostfile /etc/mpi/hostfile"
        yield _problem("all-local", launches[0], hint=f"pass {option} instead of localhost")
    for launch in launches:
        yield from _discovered(launch, places)
        yield from _nodes_and_gpus(launch, places)
        if _needs_ssh(job, launch) and job.options.get("transport") != "ssh" and not job.converted:
            yield _problem("needs-ssh", launch)
        room = replace(places, each=_each(launch) or places.each)
        processes = _processes(job, launch)
        yield from _inner(launch, processes, places)
        yield from _own_hostfile(job, launch, worker.replicas)
        # Another order, such as one process per host, can use hosts that would be idle.
        alone = len(launches) == 1 and launch.launcher.orders.keys().isdisjoint(launch.options)
        if processes:
            yield from _compared(job, launch, processes, room, alone=alone)
        if _uses_gpus(launch) and 0 < places.gpus < places.each:
            counted = _counted(places.gpus, "GPU")
            yield problem("more-slots-than-gpus", places=places, gpus=counted)


def _counted(number: int, noun: str) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _uses_gpus(launch: Launch) -> bool:
    """Return True if each process needs its own GPU, as in training. MPI programs share GPUs."""
    runs_python = any(map(is_python, launch.script[:1]))
    return launch.program in ("horovodrun", "deepspeed") or runs_python


def _is_local(launch: Launch) -> bool:
    """Return True if the only host is localhost, which is horovodrun's default.

    horovod/runner/launch.py, `_run`.
    """
    hosts = launch.options.get("host", launch.options.get("hosts"))
    if hosts is None:
        others = {"hostfile", "host_discovery_script"} & set(launch.options)
        return launch.program == "horovodrun" and "np" in launch.options and not others
    return {host.partition(":")[0] for host in hosts.split(",")} <= {"localhost", "127.0.0.1"}


def _needs_ssh(job: TrainingJob, launch: Launch) -> bool:
    """Return True if a launcher starts processes in other pods with ssh, not with mpirun.

    horovod/runner/util/remote.py, `get_remote_command`: horovodrun uses kubexec.sh if it is Open
    MPI's agent. deepspeed/launcher/runner.py, `PDSHRunner`. The image of a custom resource may
    contain its own ssh.
    """
    if launch.program == "horovodrun":
        is_open_mpi = job.options.get("implementation", "OpenMPI") == "OpenMPI"
        return not is_open_mpi and not _is_local(launch) and "np" in launch.options
    if re.search(r"(ssh|rsh)$", launch.options.get("mca_plm_rsh_agent", "")):
        return True
    return launch.program == "deepspeed" and launch.options.get("launcher") in (None, "pdsh")


def _processes(job: TrainingJob, launch: Launch) -> int | None:
    """Return the number of processes that mlgen's hostfile places; None if unknown."""
    if launch.program == "mpirun":
        several = ":" in launch.script
        placed = several or _is_placed(job.roles["launcher"], launch)
        return None if placed else launch.number(launch.launcher.all_processes)
    if launch.program == "horovodrun" and "hosts" not in launch.options:
        own_hosts = launch.options.get("hostfile") in HOSTFILES[1:]
        return launch.number(launch.launcher.all_processes) if own_hosts else None
    return None


def _compared(
    job: TrainingJob, launch: Launch, processes: int, places: Slots, *, alone: bool
) -> Iterator[Problem]:
    """Compare -np with the slots of the hostfile.

    Open MPI and horovodrun refuse to start more processes than there are slots
    (orte/mca/rmaps/round_robin/rmaps_rr.c; horovod/runner/common/util/hosts.py). Hydra starts again
    with the first host. All of them fill one host before they use the next.

    Args:
        job: the job.
        launch: mpirun or horovodrun.
        processes: the number of processes.
        places: the slots of the hostfile.
        alone: True if the launcher runs no other launcher that could use the other workers.
    """
    used = -(-processes // places.each)
    per_host = _each(launch)
    option = "the number per host" if per_host else "slotsPerWorker"
    refuses = job.options.get("implementation", "OpenMPI") == "OpenMPI"
    values = {"places": places, "processes": processes, "option": option}
    if used > places.hosts and refuses:
        # An MPIJob of v1 does not specify which MPI implementation its image contains.
        is_certain = not job.converted or bool({"implementation", "transport"} & set(job.options))
        slots, hosts = _counted(places.available, "slot"), _counted(places.hosts, "host")
        slots = f"room for {places.available}" if per_host else slots
        too_many = _problem("too-many-processes", launch, **values, slots=slots, hosts=hosts)
        yield replace(too_many, warning=not is_certain)
    elif used < places.hosts and alone:
        idle = _counted(places.hosts - used, "worker")
        yield _problem("idle-workers", launch, **values, idle=idle)


def _each(launch: Launch) -> int | None:
    """Return the number of processes per host in an option; None if the hostfile sets it."""
    found = re.fullmatch(r"ppr:(\d{1,4}):node", launch.literal("map_by") or "")
    return int(found[1]) if found else launch.number("npernode")


def _inner(launch: Launch, processes: int | None, places: Slots) -> Iterator[Problem]:
    """Report several launchers per host, each of which starts all processes of its host."""
    for inner in launches_in(tuple((word, ()) for word in launch.script)):
        row = inner.launcher
        several = row.in_each_pod and inner.literal(row.processes) not in (None, "1")
        if several and processes and processes > places.hosts:
            yield _problem("several-launchers", launch, inner=inner, count=processes, places=places)


def _own_hostfile(job: TrainingJob, launch: Launch, workers: int) -> Iterator[Problem]:
    """Compare a hostfile in the job's files with the workers."""
    file = launch.literal("hostfile")
    for at, text, _ in files_of(job.roles["launcher"]) if file else ():
        lines = (re.sub("#.*", "", line).strip() for line in text.splitlines())
        hosts = [re.split(r"[\s:.]", line)[0] for line in lines if line]
        own = {f"{job.name}-{role}-{i}" for role in job.roles for i in range(job.replicas)}
        others = [host for host in hosts if re.search(r"-\d+$", host) and host not in own]
        local = {*hosts} <= {"localhost", "127"}
        if at != file or job.converted:
            continue
        if hosts and local:
            yield _problem("all-local", launch, hint="remove --hostfile")
        elif others:
            yield _problem("other-hosts", launch, file=file, host=others[0])
        elif hosts and len({*hosts} & own) == len({*hosts}) < workers:
            yield _problem("short-hostfile", launch, file=file, few=len(hosts), workers=workers)


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


def _discovered(launch: Launch, places: Slots) -> Iterator[Problem]:
    """Compare the slots that horovodrun waits for with the slots that it can discover."""
    least = launch.number("min_np") or launch.number("np") or 0
    most = places.most_hosts * places.each
    discovers = launch.program == "horovodrun" and "host_discovery_script" in launch.options
    if discovers and least > most:
        values = {"least": least, "most": most, "hosts": _counted(places.most_hosts, "host")}
        yield _problem("undiscovered", launch, **values, places=places)


def _nodes_and_gpus(launch: Launch, places: Slots) -> Iterator[Problem]:
    """Compare the numbers of pods and of GPUs with the workers (deepspeed/launcher/runner.py)."""
    row = launch.launcher
    if row.in_each_pod:
        return
    nodes, devices = launch.number(row.nodes), launch.number(row.processes)
    if nodes and nodes != places.hosts and launch.options.get("hostfile") in HOSTFILES:
        workers = _counted(places.hosts, "worker")
        yield _problem("other-nodes", launch, row=row, nodes=nodes, workers=workers)
    if devices and 0 < places.gpus < devices:
        values = {"places": places, "gpus": _counted(places.gpus, "GPU")}
        yield _problem("more-than-gpus-of-worker", launch, row=row, devices=devices, **values)


def _problem(rule: str, launch: Launch, **values: object) -> Problem:
    """Return a problem of the launcher's command line; see `_tables.problem`."""
    return at_flag(launch, rule, "launcher", **values)
