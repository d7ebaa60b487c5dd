"""MPI: a launcher runs mpirun, which starts one process per slot in the workers.

The launcher reaches the workers through `kubectl exec`, as Kubeflow's MPIJob v1 does, or through
ssh, as the MPI operator's v2beta1 does. Variables, paths and the hostfile are those of the two
operators (training-operator pkg/controller.v1/mpi, mpi-operator pkg/controller), so their images
work unchanged.
"""

from dataclasses import replace

from mlgen.frameworks._launch import launches_of, ssh_port, sshd_port, words_of
from mlgen.frameworks._planner import Planner, Viewer
from mlgen.frameworks._slots import per_worker, slot_problems
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import ConfigFiles, Helper, Hosts, Mount, Right, Scratch, SecretFiles

SSH_PORT = 2222
"""The port of sshd in the workers. Unlike 22, it does not require root."""

ATTEMPTS, LONG_ATTEMPTS = "10", "300"
"""Attempts of ssh to connect, one per second: the operator's, and those for a port that only the
image knows. The launcher then does not wait until sshd listens there."""

CONFIG = "/etc/mpi"
"""The folder of the hostfile and the scripts."""

KUBECTL = "/opt/kube"
"""The folder in which the launcher finds kubectl."""


def lay_out(
    planner: Planner,
    extra_files: tuple[str, ...] = (),
    min_workers: int | None = None,
    folders: tuple[str, ...] = (CONFIG,),
) -> None:
    """Add a launcher and workers.

    Args:
        planner: of a job with the roles and options of mpi.
        extra_files: additional files of the launcher, next to the hostfile.
        min_workers: the number of workers that must be running before the launcher starts; by
            default all of them.
        folders: the folders in which the launcher has these files.
    """
    job = planner.job
    ssh = job.options.get("transport") == "ssh"
    planner.ports = _ssh_ports(job) if ssh else {}
    planner.decider("launcher", ["launcher"])
    planner.collector.extend(slot_problems(job))
    planner.files["hostfile"] = _hostfile(planner)
    planner.minimums["worker"] = min_workers or job.roles["worker"].replicas
    files = ("hostfile", *extra_files) if ssh else ("hostfile", "kubexec.sh", *extra_files)
    config = tuple(Mount(ConfigFiles("mpi-config", files), folder) for folder in folders)
    add_roles = _ssh if ssh else _kubectl_exec
    add_roles(planner, config)


def reachable(planner: Planner, role: str, count: int) -> Hosts:
    """Return the names that mpirun uses for replicas: host names for ssh, pod names for kubectl."""
    hosts = planner.hosts(planner.job.roles[role], count)
    return hosts if planner.job.options.get("transport") == "ssh" else replace(hosts, after="")


def _hostfile(planner: Planner) -> str:
    """Return the hostfile, in the format of the MPI implementation."""
    job = planner.job
    names = list(reachable(planner, "worker", job.roles["worker"].replicas))
    if job.options.get("runLauncherAsWorker"):
        names = [*reachable(planner, "launcher", 1), *names]
    separator = " slots=" if _implementation(job) == "OpenMPI" else ":"
    return "".join(f"{name}{separator}{per_worker(job)}\n" for name in names)


def _implementation(job: TrainingJob) -> str:
    return str(job.options.get("implementation", "OpenMPI"))


def _kubectl_exec(planner: Planner, config: tuple[Mount, ...]) -> None:
    """Add roles of which the launcher starts processes with `kubectl exec`."""
    job = planner.job
    worker, launcher = job.roles["worker"], job.roles["launcher"]
    if worker.restart_policy not in (None, "Always"):
        planner.report("mpi-restart", worker=worker)
    if planner.job.network.on_host and worker.port:
        planner.report("mpi-port")
    agent = ConfigFiles("mpi-config", ("kubexec.sh",))
    pods = tuple(reachable(planner, "worker", _max_workers(job)))
    awaited = str(reachable(planner, "worker", planner.minimums["worker"]))
    tools, timeout = Scratch("mpi-kubectl"), job.wait.timeout_seconds
    bound = {} if timeout is None else {"MLGEN_TIMEOUT": str(timeout)}
    agent_waits = _agent_waits(job)
    delivery = Helper(
        name="kubectl-delivery",
        script="deliver-kubectl.sh",
        image="kubectl",
        env={
            "MLGEN_TARGET": KUBECTL,
            "MLGEN_PODS": "" if agent_waits or launcher.wait_for is not None else awaited,
            "MLGEN_CONTAINER": worker.main_container,
            **bound,
        },
        mounts=(Mount(tools, KUBECTL, read_only=False),),
        last=True,
    )
    planner.add(
        launcher,
        decides=True,
        aliases=_launcher_name(planner),
        env=_agent_env(job)
        | ({"MLGEN_CONTAINER": worker.main_container, **bound} if agent_waits else {})
        | _gpu_env(job),
        helpers=(delivery,),
        mounts=(Mount(tools, KUBECTL), *config),
        rights=(Right("pods", ("get",), pods), Right("pods/exec", ("create",), pods)),
    )
    # Open MPI looks for its launch agent in every rank, even if it does not use it there.
    planner.add(
        worker,
        serves=True,
        command=("sleep",),
        args=("365d",),
        mounts=(Mount(agent, CONFIG),),
        max_replicas=_max_workers(job),
    )


def _agent_waits(job: TrainingJob) -> bool:
    """Return whether kubexec.sh waits for each worker's container, not the launcher for all.

    It does for mpirun of Open MPI, which waits for its agents for as long as it takes. Programs
    that mlgen does not know may look for the workers before, and in other ways.
    """
    launcher = job.roles["launcher"]
    programs = [launch.program for launch in launches_of(launcher)]
    is_open_mpi = _implementation(job) == "OpenMPI"
    return is_open_mpi and programs == ["mpirun"] and launcher.wait_for is None


def _max_workers(job: TrainingJob) -> int:
    """Return the maximum number of workers, up to which an elastic job can be scaled."""
    policy = job.options.get("elasticPolicy", {})
    return int(max(policy.get("maxReplicas", 0), job.roles["worker"].replicas))


def _launcher_name(planner: Planner) -> dict[str, int]:
    """Return the launcher's host name without a domain if workers connect to it, as in Hydra."""
    job = planner.job
    return {} if _implementation(job) == "OpenMPI" else {f"{job.name}-launcher-0": 0}


def _agent_env(job: TrainingJob) -> dict[str, str]:
    """Return the variables with which mpirun starts processes through kubexec.sh."""
    agent, hostfile = f"{CONFIG}/kubexec.sh", f"{CONFIG}/hostfile"
    return {
        "OpenMPI": {
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_orte_default_hostfile": hostfile,
            # Otherwise, with more than 64 workers, some start others, but they have no kubectl.
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        },
        "Intel": {
            "I_MPI_HYDRA_BOOTSTRAP": "rsh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
            "I_MPI_HYDRA_HOST_FILE": hostfile,
            "I_MPI_PERHOST": str(per_worker(job)),
        },
        "MPICH": {
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "HYDRA_HOST_FILE": hostfile,
        },
    }[_implementation(job)]


def _ssh_folder(job: TrainingJob) -> str:
    return str(job.options.get("sshAuthMountPath", "/root/.ssh"))


def _ssh_ports(job: TrainingJob) -> dict[str, int]:
    """Return the port of sshd by role; {} if only the image knows it.

    It is known if the worker's command has it, if ssh in the launcher's command has it, or if sshd
    reads mlgen's configuration, as it does by default. Otherwise both sides of ssh have the port
    from the image: sshd from its sshd_config, and ssh from its ssh_config.
    """
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    words = words_of(worker)
    port = sshd_port(worker) or ssh_port(launcher)
    if not port and (not words or f"{_ssh_folder(job)}/sshd_config" in " ".join(words)):
        port = SSH_PORT
    return {"worker": port} if port else {}


def _has_our_host_key(job: TrainingJob) -> bool:
    """Return whether the workers' sshd has the job's key as its host key.

    It does if it reads mlgen's configuration itself, not one that the command makes of it.
    """
    words = words_of(job.roles["worker"])
    return not words or f"-f {_ssh_folder(job)}/sshd_config" in " ".join(words)


def _check_ssh_ports(planner: Planner) -> None:
    """Report a port of the worker that differs from the one in a command."""
    launcher, worker = planner.job.roles["launcher"], planner.job.roles["worker"]
    if not worker.port or planner.job.network.on_host:
        return
    ports = {"sshd listens on": sshd_port(worker), "the launcher connects to": ssh_port(launcher)}
    for program, port in ports.items():
        if port not in (None, worker.port):
            planner.report("mpi-other-port", program=program, port=port, worker=worker)


def _ssh(planner: Planner, config: tuple[Mount, ...]) -> None:
    """Add roles of which the launcher starts processes through ssh."""
    job = planner.job
    _check_ssh_ports(planner)
    folder = _ssh_folder(job)
    keys = Scratch("ssh-auth", memory=True)
    secret = SecretFiles(
        "ssh-secret",
        job.options.get("sshSecret", f"{job.name}-ssh"),
        {"ssh-privatekey": "id_rsa", "ssh-publickey": "id_rsa.pub"},
    )
    worker = job.roles["worker"]
    mounts = (Mount(secret, "/mlgen/ssh"), Mount(keys, folder, read_only=False))
    port = planner.peer_port(worker)
    attempts = ATTEMPTS if port else LONG_ATTEMPTS

    def setup(viewer: Viewer) -> tuple[Helper, ...]:
        """Return the helper that writes keys and the configurations of ssh and sshd."""
        env = {"MLGEN_SSH_FOLDER": folder, "MLGEN_SSH_ATTEMPTS": attempts}
        if port:
            own_port = planner.own_port(worker, viewer)
            env |= {"MLGEN_SSH_PORT": str(port), "MLGEN_SSHD_PORT": str(own_port)}
        if _has_our_host_key(job):
            env["MLGEN_SSH_HOSTS"] = f"{job.name}-worker-*"
        return (Helper("ssh-setup", "setup-ssh.sh", image="main", env=env, mounts=mounts),)

    auth = Mount(keys, folder)
    planner.add(
        job.roles["launcher"],
        decides=True,
        aliases=_launcher_name(planner),
        env=_ssh_env(job, attempts) | _gpu_env(job),
        helpers=setup(None),
        mounts=(auth, *config),
        # mpirun and pdsh fail if a single worker refuses the connection.
        waits=(
            planner.wait(
                worker, until="port" if port else "name", count=planner.minimums["worker"]
            ),
        ),
    )
    planner.add(
        worker,
        serves=True,
        command=("/usr/sbin/sshd", "-De", "-f", f"{folder}/sshd_config"),
        each=lambda viewer: {"helpers": setup(viewer)},
        mounts=(auth,),
        max_replicas=_max_workers(job),
    )


def _ssh_env(job: TrainingJob, attempts: str) -> dict[str, str]:
    """Return the variables with which mpirun starts processes through ssh."""
    hostfile, retries = f"{CONFIG}/hostfile", f"-o ConnectionAttempts={attempts}"
    return {
        "OpenMPI": {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": hostfile,
            "OMPI_MCA_plm_rsh_args": retries,
            "OMPI_MCA_orte_set_default_slots": str(per_worker(job)),
        },
        "Intel": {
            "I_MPI_HYDRA_HOST_FILE": hostfile,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": retries,
            "I_MPI_PERHOST": str(per_worker(job)),
        },
        "MPICH": {"HYDRA_HOST_FILE": hostfile, "HYDRA_LAUNCH_EXTRA_ARGS": retries},
    }[_implementation(job)]


def _gpu_env(job: TrainingJob) -> dict[str, str]:
    """Return variables that hide the node's GPUs from a launcher that has no GPU of its own.

    NVIDIA's images otherwise make all GPUs of the node visible.
    """
    if job.roles["launcher"].gpus or job.options.get("runLauncherAsWorker"):
        return {}
    return {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
