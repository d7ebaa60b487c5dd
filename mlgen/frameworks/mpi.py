"""MPI: a launcher runs mpirun, which starts a process in each slot of the workers.

The launcher reaches the workers by `kubectl exec` (as Kubeflow's MPIJob v1 does) or by ssh (as the
MPI operator's v2beta1 does). Variables, paths and the hostfile are those of the two operators
(training-operator pkg/controller.v1/mpi, mpi-operator pkg/controller), so images made for them run.
"""

from dataclasses import replace
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner, Viewer
from mlgen.jobfile.model import TrainingJob
from mlgen.topology import ConfigFiles, Helper, Hosts, Mount, Right, Scratch, SecretFiles, Topology

SSH_PORT = 2222
"""Not 22: a user other than root may listen there."""

ROLES = ("launcher", "worker")

CONFIG = "/etc/mpi"
KUBECTL = "/opt/kube"

OPTIONS: dict[str, Any] = {
    "slotsPerWorker": {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "Processes that mpirun may start in each worker.",
        "examples": [4],
    },
    "implementation": {
        "type": "string",
        "enum": ["OpenMPI", "Intel", "MPICH"],
        "default": "OpenMPI",
        "description": "The MPI of the image; each has its own variables and hostfile.",
        "examples": ["Intel"],
    },
    "transport": {
        "type": "string",
        "enum": ["kubectl-exec", "ssh"],
        "default": "kubectl-exec",
        "description": "How mpirun reaches the workers. kubectl-exec needs no ssh in the image,"
        " but a right to run commands in these very pods; ssh needs sshd in the image and a"
        " Secret with keys, which `mlgen ssh-secret` prints.",
        "examples": ["ssh"],
    },
    "sshSecret": {
        "type": "string",
        "minLength": 1,
        "description": "The Secret with ssh-privatekey and ssh-publickey; else <job>-ssh.",
        "examples": ["resnet-ssh"],
    },
    "sshAuthMountPath": {
        "type": "string",
        "pattern": "^/",
        "default": "/root/.ssh",
        "description": "The .ssh folder of the user that the image runs as.",
        "examples": ["/home/mpiuser/.ssh"],
    },
    "runLauncherAsWorker": {
        "type": "boolean",
        "default": False,
        "description": "The launcher has slots too, and its are the first ranks.",
        "examples": [True],
    },
}


def topology(job: TrainingJob) -> Topology:
    """Lay out a launcher and workers."""
    return lay_out(job).topology()


def lay_out(
    job: TrainingJob,
    extra: tuple[str, ...] = (),
    least: int | None = None,
    folders: tuple[str, ...] = (CONFIG,),
) -> Planner:
    """Lay out a launcher and workers.

    Args:
        job: with `ROLES` and `OPTIONS` of this module.
        extra: further files that the launcher sees beside the hostfile.
        least: workers that must be up before the launcher starts; by default all.
        folders: where the launcher sees these files.
    """
    ssh = job.options.get("transport") == "ssh"
    planner = Planner(job, {"worker": SSH_PORT} if ssh else {})
    planner.require("launcher", "worker")
    planner.single("launcher")
    planner.decider("launcher", ["launcher"])
    if planner.collector.problems:
        return planner
    planner.files["hostfile"] = _hostfile(planner)
    files = ("hostfile", *extra) if ssh else ("hostfile", "kubexec.sh", *extra)
    config = tuple(Mount(ConfigFiles("mpi-config", files), folder) for folder in folders)
    (_ssh if ssh else _kubectl_exec)(planner, config, least or job.roles["worker"].replicas)
    return planner


def slots(job: TrainingJob) -> int:
    """Return how many processes a worker takes."""
    return int(job.options.get("slotsPerWorker", 1))


def reachable(planner: Planner, role: str, count: int) -> Hosts:
    """Return the names under which mpirun reaches replicas: pods by kubectl, hosts by ssh."""
    found = planner.hosts(planner.job.roles[role], count)
    return found if planner.job.options.get("transport") == "ssh" else replace(found, after="")


def _hostfile(planner: Planner) -> str:
    job = planner.job
    names = list(reachable(planner, "worker", job.roles["worker"].replicas))
    if job.options.get("runLauncherAsWorker"):
        names = [*reachable(planner, "launcher", 1), *names]
    separator = " slots=" if _implementation(job) == "OpenMPI" else ":"
    return "".join(f"{name}{separator}{slots(job)}\n" for name in names)


def _implementation(job: TrainingJob) -> str:
    return str(job.options.get("implementation", "OpenMPI"))


def _kubectl_exec(planner: Planner, config: tuple[Mount, ...], least: int) -> None:
    job = planner.job
    worker, launcher = job.roles["worker"], job.roles["launcher"]
    if worker.restart_policy not in (None, "Always"):
        planner.problem(
            ("roles", "worker", "restartPolicy"),
            f"kubectl-exec needs pods of fixed names, so workers cannot be {worker.restart_policy}",
            "write restartPolicy: Always for worker, or options.transport: ssh",
        )
    if planner.job.network.on_host and worker.port:
        message = "on the network of the nodes, workers with a port are no pods of fixed names"
        planner.problem(("roles", "worker", "port"), message, "leave port out")
    agent = ConfigFiles("mpi-config", ("kubexec.sh",))
    pods = tuple(reachable(planner, "worker", _most(job)))
    tools = Scratch("mpi-kubectl")
    delivery = Helper(
        name="kubectl-delivery",
        script="deliver-kubectl.sh",
        image="kubectl",
        env={
            "MLGEN_TARGET": KUBECTL,
            "MLGEN_PODS": str(reachable(planner, "worker", least))
            if launcher.wait_for is None
            else "",
            "MLGEN_CONTAINER": worker.main_container,
            "MLGEN_TIMEOUT": str(job.wait.timeout_seconds),
        },
        mounts=(Mount(tools, KUBECTL, read_only=False),),
    )
    planner.add(
        launcher,
        decides=True,
        bare_name=_is_called_back(job),
        env=_agent_env(job) | _gpu_env(job),
        helpers=(delivery,),
        mounts=(
            Mount(tools, KUBECTL),
            *config,
        ),
        rights=(Right("pods", ("get",), pods), Right("pods/exec", ("create",), pods)),
    )
    # Open MPI looks for its agent in every rank, also where it does not use it.
    planner.add(
        worker, serves=True, command=("sleep",), args=("365d",), mounts=(Mount(agent, CONFIG),)
    )


def _most(job: TrainingJob) -> int:
    """The most workers that there may ever be: an elastic job is scaled up to its maximum."""
    elastic = job.options.get("elastic", {})
    return int(max(elastic.get("maxReplicas", 0), job.roles["worker"].replicas))


def _is_called_back(job: TrainingJob) -> bool:
    """Return whether workers dial the launcher by its bare host name, as Hydra tells them to."""
    return _implementation(job) != "OpenMPI"


def _agent_env(job: TrainingJob) -> dict[str, str]:
    agent, hostfile = f"{CONFIG}/kubexec.sh", f"{CONFIG}/hostfile"
    return {
        "OpenMPI": {
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_orte_default_hostfile": hostfile,
            # Else a worker of more than 64 starts the next ones, and it has no kubectl.
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        },
        "Intel": {
            "I_MPI_HYDRA_BOOTSTRAP": "rsh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
            "I_MPI_HYDRA_HOST_FILE": hostfile,
            "I_MPI_PERHOST": str(slots(job)),
        },
        "MPICH": {
            "HYDRA_LAUNCHER": "rsh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "HYDRA_HOST_FILE": hostfile,
        },
    }[_implementation(job)]


def _ssh(planner: Planner, config: tuple[Mount, ...], least: int) -> None:
    job = planner.job
    folder = job.options.get("sshAuthMountPath", "/root/.ssh")
    keys = Scratch("ssh-auth", memory=True)
    secret = SecretFiles(
        "ssh-secret",
        job.options.get("sshSecret", f"{job.name}-ssh"),
        {"ssh-privatekey": "id_rsa", "ssh-publickey": "id_rsa.pub"},
    )
    worker = job.roles["worker"]
    mounts = (Mount(secret, "/mlgen/ssh"), Mount(keys, folder, read_only=False))

    def setup(viewer: Viewer) -> tuple[Helper, ...]:
        env = {
            "MLGEN_SSH_FOLDER": folder,
            "MLGEN_SSH_PORT": str(planner.port(worker)),
            "MLGEN_SSHD_PORT": str(planner.own_port(worker, viewer)),
        }
        return (Helper("ssh-setup", "setup-ssh.sh", image="main", env=env, mounts=mounts),)

    auth = Mount(keys, folder)
    planner.add(
        job.roles["launcher"],
        decides=True,
        bare_name=_is_called_back(job),
        env=_ssh_env(job) | _gpu_env(job),
        helpers=setup(None),
        mounts=(auth, *config),
        waits=(planner.wait(worker, count=least),),
    )
    planner.add(
        worker,
        serves=True,
        command=("/usr/sbin/sshd", "-De", "-f", f"{folder}/sshd_config"),
        each=lambda viewer: {"helpers": setup(viewer)},
        mounts=(auth,),
    )


def _ssh_env(job: TrainingJob) -> dict[str, str]:
    hostfile, patience = f"{CONFIG}/hostfile", "-o ConnectionAttempts=10"
    return {
        "OpenMPI": {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": hostfile,
            "OMPI_MCA_plm_rsh_args": patience,
            "OMPI_MCA_orte_set_default_slots": str(slots(job)),
        },
        "Intel": {
            "I_MPI_HYDRA_HOST_FILE": hostfile,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": patience,
            "I_MPI_PERHOST": str(slots(job)),
        },
        "MPICH": {"HYDRA_HOST_FILE": hostfile, "HYDRA_LAUNCH_EXTRA_ARGS": patience},
    }[_implementation(job)]


def _gpu_env(job: TrainingJob) -> dict[str, str]:
    """A launcher without GPU must not see those of its node, whose image asks for all of them."""
    if job.roles["launcher"].gpus or job.options.get("runLauncherAsWorker"):
        return {}
    return {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


FRAMEWORK = Framework(
    title="MPI",
    summary="A launcher runs mpirun, which starts a process in each slot of the workers.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
