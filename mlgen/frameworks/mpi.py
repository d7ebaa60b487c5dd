"""MPI: a launcher runs mpirun, which starts one process per slot in the workers.

The launcher reaches the workers through `kubectl exec`, as in Kubeflow's MPIJob v1, or through ssh,
as in the MPI operator's v2beta1. Variables, paths and the hostfile match the two operators
(training-operator pkg/controller.v1/mpi, mpi-operator pkg/controller), so their images work
unchanged.
"""

from dataclasses import replace
from typing import Any

from mlgen.frameworks._planner import Planner, RoleFields, Viewer, variables
from mlgen.jobfile.model import RoleSpec, TrainingJob, is_below
from mlgen.launch.line import lines_of, ssh_port
from mlgen.launch.mpi import implementation, per_worker
from mlgen.launch.role import users_of
from mlgen.topology import (
    ConfigFiles,
    Helper,
    Hosts,
    Mount,
    PodField,
    Right,
    Scratch,
    SecretFiles,
    Until,
)

SSH_PORT = 2222
"""The port of sshd in the workers. Unlike 22, it does not require root."""

ATTEMPTS, LONG_ATTEMPTS = "10", "300"
"""Attempts of ssh to connect, one per second: the operator's number, and the number for a port that
only the image configures, because the launcher then does not wait until sshd listens."""

CONFIG = "/etc/mpi"
"""The folder of the hostfile and the scripts."""

KUBECTL = "/opt/kube"
"""The folder in which the launcher finds kubectl."""

SSH = "/mlgen/ssh-auth"
"""The folder of the keys and the configuration of ssh and sshd, which every user can enter."""

SSHD_SCRIPTS = ("start-sshd.sh", "ssh-session.sh")
"""The scripts of the workers over ssh: the first is their default command."""

START_SSHD = f"{CONFIG}/{SSHD_SCRIPTS[0]}"

SYSTEM_FILES = {"config": "/etc/ssh/ssh_config", "passwd": "/etc/passwd"}
"""The files of `SSH` that programs read elsewhere. ssh looks for its own configuration in the home
folder in /etc/passwd, not in $HOME, so only the system-wide configuration is at a known path."""


def lay_out(
    planner: Planner,
    extra_files: tuple[str, ...] = (),
    min_workers: int | None = None,
    folders: tuple[str, ...] = (CONFIG,),
) -> None:
    """Add a launcher and workers.

    Args:
        planner: the planner of a job with the roles and options of mpi.
        extra_files: additional files of the launcher, next to the hostfile.
        min_workers: the number of workers that must be running before the launcher starts; by
            default all of them.
        folders: the folders in which the launcher mounts these files.
    """
    job = planner.job
    ssh = job.options.get("transport") == "ssh"
    planner.ports = _ssh_ports(job) if ssh else {}
    planner.decider("launcher", ["launcher"])
    planner.files["hostfile"] = _hostfile(planner)
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    planner.minimums["worker"] = min_workers or worker.replicas
    files = ("hostfile", *extra_files) if ssh else ("hostfile", "kubexec.sh", *extra_files)
    config = tuple(Mount(_config(job, files), folder) for folder in folders)
    most = max(job.options.get("elasticPolicy", {}).get("maxReplicas", 0), worker.replicas)
    of_launcher, of_worker = _ssh(planner) if ssh else _kubectl_exec(planner, most)
    of_launcher["mounts"] += config
    planner.add(
        launcher,
        decides=True,
        # In Hydra, workers connect to the launcher by its host name without a domain.
        aliases={} if implementation(job) == "OpenMPI" else {f"{job.name}-launcher-0": 0},
        **of_launcher,
    )
    planner.add(worker, serves=True, max_replicas=most, **of_worker)


def _config(job: TrainingJob, files: tuple[str, ...]) -> ConfigFiles:
    """Return the volume with the hostfile and the scripts."""
    return ConfigFiles(_volume(job, "mpi-job-config"), files)


def _volume(job: TrainingJob, name: str) -> str:
    """Return the operators' name of a volume, under which containers of a template can mount it.

    If the user has a volume of that name, it is another name.
    """
    pods = [pod.get("spec") or {} for role in job.roles.values() for pod in role.templates]
    used = {each.get("name") for pod in pods for each in pod.get("volumes") or ()}
    used |= {own for role in job.roles.values() for own in role.volumes}
    return f"mlgen-{name}" if name in used else name


def reachable(planner: Planner, role: str, count: int) -> Hosts:
    """Return the names that mpirun uses for replicas: host names for ssh, pod names for kubectl.

    The launcher gets its bare host name. Its pod resolves it at once, and the name with the domain
    only when DNS has it.
    """
    job = planner.job
    hosts = planner.hosts(job.roles[role], count)
    is_own = role == "launcher" and not job.network.on_host
    by_name = job.options.get("transport") == "ssh" and not is_own
    return hosts if by_name else replace(hosts, after="")


def _hostfile(planner: Planner) -> str:
    """Return the hostfile, in the format of the MPI implementation."""
    job = planner.job
    names = list(reachable(planner, "worker", job.roles["worker"].replicas))
    if job.options.get("runLauncherAsWorker"):
        names = [*reachable(planner, "launcher", 1), *names]
    separator = " slots=" if implementation(job) == "OpenMPI" else ":"
    slots = per_worker(job)
    return "".join(f"{name}{separator}{slots}\n" for name in names)


def _kubectl_exec(planner: Planner, most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the role fields of launcher and workers for `kubectl exec`.

    Args:
        planner: the planner of the job.
        most: the maximum number of workers of an elastic job.
    """
    job = planner.job
    worker, launcher = job.roles["worker"], job.roles["launcher"]
    if worker.restart_policy not in (None, "Always"):
        planner.report(
            ("roles", "worker", "restartPolicy"),
            f"transport: kubectl-exec cannot be used with restartPolicy: {worker.restart_policy},"
            " because it requires fixed pod names",
            "write restartPolicy: Always, or options.transport: ssh",
        )
    if job.network.on_host and worker.port:
        message = "with host networking, transport: kubectl-exec cannot be used with a port"
        planner.report(("roles", "worker", "port"), message, "remove port")
    pods = tuple(reachable(planner, "worker", most))
    awaited = str(reachable(planner, "worker", planner.minimums["worker"]))
    tools, timeout = Scratch(_volume(job, "mpi-job-kubectl")), job.wait.timeout_seconds
    bound = {"MLGEN_CONTAINER": worker.main_container}
    bound |= {} if timeout is None else {"MLGEN_TIMEOUT": str(timeout)}
    agent_waits = _agent_waits(job)
    no_wait = agent_waits or launcher.wait_for is not None
    delivery = Helper(
        name="kubectl-delivery",
        script="deliver-kubectl.sh",
        image="kubectl",
        env={"MLGEN_TARGET": KUBECTL, "MLGEN_PODS": "" if no_wait else awaited, **bound},
        mounts=(Mount(tools, KUBECTL, read_only=False),),
        last=True,
    )
    # Open MPI looks for its launch agent in every rank, even if it does not use it there.
    agent = Mount(_config(job, ("kubexec.sh",)), CONFIG)
    return {
        "env": _env(job) | (bound if agent_waits else {}),
        "helpers": (delivery,),
        "mounts": (Mount(tools, KUBECTL),),
        "rights": (Right("pods", ("get",), pods), Right("pods/exec", ("create",), pods)),
    }, {"command": ("sleep",), "args": ("365d",), "mounts": (agent,), "named": True}


def _agent_waits(job: TrainingJob) -> bool:
    """Return True if kubexec.sh waits for each worker's container, not the launcher for all.

    This works with Open MPI's mpirun, which waits for its agents without a time limit. Unknown
    programs may look for the workers earlier, or in other ways.
    """
    launcher = job.roles["launcher"]
    programs = [launch.program for launch in lines_of(launcher).launches]
    is_open_mpi = implementation(job) == "OpenMPI"
    return is_open_mpi and programs == ["mpirun"] and launcher.wait_for is None


def _env(job: TrainingJob, attempts: str = "") -> dict[str, str | PodField]:
    """Return mpirun's variables; `attempts` is ssh's number of attempts, "" for kubectl exec."""
    transport = "ssh" if attempts else "kubectl-exec"
    row = f"mpi-{transport}-{implementation(job)}"
    return variables(row, slots=per_worker(job), attempts=attempts)


def _ssh_folder(job: TrainingJob) -> str:
    return str(job.options.get("sshAuthMountPath", "/root/.ssh"))


def _reads_our_configuration(job: TrainingJob) -> bool:
    """Return True if the workers' command starts sshd with mlgen's configuration."""
    words = lines_of(job.roles["worker"]).words
    line = " ".join(words)
    return not words or any(text in line for text in (START_SSHD, *_our_configurations(job)))


def _our_configurations(job: TrainingJob) -> tuple[str, ...]:
    return f"{_ssh_folder(job)}/sshd_config", f"{SSH}/sshd_config"


def _ssh_ports(job: TrainingJob) -> dict[str, int]:
    """Return the port of sshd by role; {} if only the image configures it.

    The port is known if the worker's command or the launcher's ssh options contain it, or if sshd
    reads mlgen's configuration, which is the default. Otherwise, the image configures the port on
    both sides: in its sshd_config and in its ssh_config.
    """
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    port = lines_of(worker).sshd_port or ssh_port(launcher)
    if not port and _reads_our_configuration(job):
        port = SSH_PORT
    return {"worker": port} if port else {}


def _has_our_host_key(job: TrainingJob) -> bool:
    """Return True if the workers' sshd uses the job's key as its host key.

    That is so if sshd reads mlgen's configuration directly, not a copy that the command changes.
    """
    words = lines_of(job.roles["worker"]).words
    starts = (START_SSHD, *(f"-f {file}" for file in _our_configurations(job)))
    return not words or any(start in " ".join(words) for start in starts)


def _check_ssh_ports(planner: Planner) -> None:
    """Report a port of the worker that differs from the port in a command."""
    launcher, worker = planner.job.roles["launcher"], planner.job.roles["worker"]
    own = worker.port or lines_of(worker).sshd_port
    if not own or planner.job.network.on_host:
        return
    ports = {
        "sshd listens on": lines_of(worker).sshd_port,
        "the launcher connects to": ssh_port(launcher),
    }
    for program, port in ports.items():
        if port not in (None, own):
            hint = f"write port: {port}, or change the command" if worker.port else "use one port"
            message = f"in the command, {program} port {port}, not {own}"
            planner.report(("roles", "worker", "port"), message, hint, code="launch", warn=True)


def _ssh(planner: Planner) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the role fields of launcher and workers for ssh."""
    job = planner.job
    _check_ssh_ports(planner)
    keys = Scratch(_volume(job, "ssh-auth"), memory=True)
    secret = SecretFiles(
        "ssh-secret",
        job.options.get("sshSecret", f"{job.name}-ssh"),
        {"ssh-privatekey": "id_rsa", "ssh-publickey": "id_rsa.pub"},
    )
    launcher, worker = job.roles["launcher"], job.roles["worker"]
    auth = Mount(keys, SSH, read_only=False)
    port = planner.peer_port(worker)
    attempts = ATTEMPTS if port else LONG_ATTEMPTS

    def setup(viewer: Viewer) -> RoleFields:
        """Return the helper that writes the keys and configurations of ssh and sshd."""
        env = {"MLGEN_SSH_FOLDER": SSH, "MLGEN_SSH_ATTEMPTS": attempts}
        if port:
            own_port = planner.own_port(worker, viewer)
            env |= {"MLGEN_SSH_PORT": str(port), "MLGEN_SSHD_PORT": str(own_port)}
        if _has_our_host_key(job):
            env["MLGEN_SSH_HOSTS"] = f"{job.name}-worker-*"
        mounts = (Mount(secret, "/mlgen/ssh"), auth)
        helper = Helper("ssh-setup", "setup-ssh.sh", image="main", env=env, mounts=mounts)
        return {"helpers": (helper,)}

    def mounts_of(spec: RoleSpec) -> tuple[Mount, ...]:
        """Return the mounts of a main container. Mounts of the user take precedence."""
        is_assigned = job.helpers.run_as_user == "Cluster" or any(users_of(job, spec))
        names = ("config", "passwd") if is_assigned else ("config",)
        files = {name: SYSTEM_FILES[name] for name in names}
        own = (
            Mount(keys, path, file=name)
            for name, path in files.items()
            if not any(is_below(f"{path}/", other) for other in spec.mount_paths)
        )
        return (auth, Mount(keys, _ssh_folder(job)), *own)

    scripts = Mount(_config(job, SSHD_SCRIPTS), CONFIG)
    # mpirun and pdsh fail if a single worker refuses the connection.
    until: Until = "port" if port else "name"
    waits = [planner.wait(worker, until=until, count=planner.minimums["worker"])]
    if job.network.on_host and job.options.get("runLauncherAsWorker"):
        # With host networking, the launcher's own name also resolves only when DNS has it.
        waits.append(planner.wait(launcher, until="name"))
    return {
        "env": _env(job, attempts),
        **setup(None),
        "mounts": mounts_of(launcher),
        "waits": tuple(waits),
    }, {
        "command": (START_SSHD,),
        "each": setup,
        "mounts": mounts_of(worker) + ((scripts,) if _reads_our_configuration(job) else ()),
    }
