"""MPI operator: MPIJobs of kubeflow.org, in all versions and for both operators that run them.

The training operator runs v1. The MPI operator runs v2beta1 and, in earlier releases, v1, v1alpha2
and v1alpha1. v2beta1 uses SSH, the other versions use `kubectl exec`. A v1alpha1 MPIJob consists of
one template and a number of GPUs, the others of a Launcher and a Worker.

Read from kubeflow/training-operator 1.9, pkg/webhooks/mpi and pkg/controller.v1/mpi (v1), and from
kubeflow/mpi-operator: 0.8, pkg/apis/kubeflow/validation and pkg/controller (v2beta1); 0.3,
pkg/controllers/v1; 0.2.3, pkg/controllers/v1alpha2 and v1alpha1.
"""

from collections.abc import Iterator
from typing import NamedTuple

from mlgen.dialects._builder import ENDLESS, NOTHING, Field, no_ssh_keys
from mlgen.dialects._kubeflow_common import (
    ReplicatedJob,
    Rules,
    dialect,
    has_gpus,
    with_job_label,
)
from mlgen.dialects._schemas import read
from mlgen.jobfile.model import RunPolicy
from mlgen.kubernetes.quantity import natural
from mlgen.launch.line import Lines, container_lines

FACTS = read("mpi_operator.json")

DISTRIBUTIONS: dict[str, str] = FACTS["distributions"]
"""The job file's `implementation`, by `mpiDistribution`. Older versions use lowercase names."""

DISCOVER_HOSTS = "/etc/mpi/discover_hosts.sh"

VISIBLE_GPUS = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")

OPERATOR_ENV: dict[str, dict[str, list[str]]] = FACTS["overwritten"]
"""The launcher's variables that an operator appends to the user's, by transport and implementation.

The operator's values override the user's.
"""

HYDRA_ENV = {
    "I_MPI_HYDRA_BOOTSTRAP": "rsh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
}
"""Variables for Intel MPI that the training operator also sets, unless the user does."""

SSH_PORTS = (22, 2222)


def _without_fields(source: Field, *names: str) -> Field:
    """Return a mapping without these fields, at the same place."""
    fields = {name: value for name, value in source.value.items() if name not in names}
    return Field(fields, source.path)


INDEX_LABEL = "training.kubeflow.org/replica-index"
"""The label with the index of a worker, from 1 if the launcher is a worker: workerReplicaIndexLabel
in pkg/controller/mpi_job_controller.go."""


def _ssh_ports(main: Field, lines: Lines) -> Iterator[Field]:
    """Yield each indication of the port that sshd listens on, the most reliable first.

    Without one, both sides of ssh use the port configured in the image, as with the operator.
    """
    if lines.sshd_port:
        yield Field(lines.sshd_port, (main.get("args") or main.get("command")).path)
    for port in main.get("ports").items():
        number = port.get("containerPort")
        if "ssh" in port.value.get("name", "") or number.value in SSH_PORTS:
            yield number
    probed = main.get("readinessProbe", "tcpSocket", "port")
    if isinstance(probed.value, int):
        yield probed


UNITS_PER_NODE = {"gpus": 8, "processingUnits": 1}
"""The number of units per node if the resource does not set it, from an option of the operator.

The manifests that installed the operator set 8 GPUs (deploy/3-mpi-operator.yaml, and Kubeflow's
kubeflow/mpi-job/prototypes). They set no number of other units, so the default of 1 applies.
"""


def _unit(spec: Field) -> str:
    """Return the name of the resource that units count."""
    return spec.get("processingResourceType").value or "nvidia.com/gpu"


def _with_units(spec: Field, main: Field, units: Field) -> Field:
    """Return the container with the units of one worker as a limit."""
    if not units:
        return main
    limits = (main.get("resources", "limits").value or {}) | {_unit(spec): units.value}
    requests = dict(main.get("resources", "requests").value or {})
    requests.pop(_unit(spec), None)
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return Field(main.value | {"resources": resources}, main.path)


class MPIJob(ReplicatedJob):
    """An MPIJob with a Launcher and a Worker."""

    def write(self) -> None:
        """Write the job."""
        version = self.resource.get("apiVersion").value.rpartition("/")[2]
        self._write_roles()
        launcher, worker = self.replica_types["launcher"], self.replica_types.get("worker")
        restart = launcher.get("restartPolicy")
        launcher_works = self.spec.get("runLauncherAsWorker")
        if version == "v1":
            policy = restart.value or "Never"
            self.put(("roles", "launcher", "restartPolicy"), restart, policy)
            if worker:
                self.warn_of_worker_restarts(worker.get("restartPolicy"))
            launcher_works = Field(has_gpus(launcher), launcher.path)
        else:
            self._write_launcher_restarts(restart)
            worker_restart = worker.get("restartPolicy") if worker else NOTHING
            if self.rules.transport != "ssh" and worker_restart.value in ("Never", "ExitCode"):
                self.warn(
                    worker_restart,
                    "a failed worker restarts, because mpirun needs all workers",
                    "write restartPolicy: OnFailure. The launcher determines the outcome of the "
                    "job",
                )
        self._warn_of_templates(version)
        for name in ("mpiDistribution", "mpiImplementation"):
            source = self.spec.get(name)
            implementation = DISTRIBUTIONS.get(source.value, source.value)
            self.put(("options", "implementation"), source, implementation)
        self._write_framework(launcher_works)
        for name, value in HYDRA_ENV.items() if version == "v1" and worker else ():
            if name not in self.roles["launcher"].get("env", {}):
                self.put(("roles", "launcher", "env", name), launcher, value)
        if self.rules.transport == "ssh":
            self._write_ssh()
        self.write_run_policy()
        has_queue = "queue" in self.data["spec"].get("scheduling", {})
        if version == "v2beta1" and self.gang == "volcano" and not has_queue:
            queue = self.annotation("scheduling.volcano.sh/queue-name")
            self.put(("scheduling", "queue"), queue)

    def _warn_of_templates(self, version: str) -> None:
        """Report restart policies in pod templates, which the operator overwrites."""
        for role, replica_type in self.replica_types.items():
            default = "OnFailure" if role == "launcher" and version != "v1" else "Never"
            policy = replica_type.get("restartPolicy").value or default
            self.warn_of_template(replica_type.get("template"), policy)

    def _write_launcher_restarts(self, restart: Field) -> None:
        """Write the restart policy of a launcher that the operator also runs as a Job.

        With Never, such a Job still creates new pods, up to `backoffLimit` times.
        """
        never = restart.value == "Never"
        policy = "Never" if never else "OnFailure"
        self.put(("roles", "launcher", "restartPolicy"), restart, policy)
        if never:
            limit = self.policy("backoffLimit")
            retries = RunPolicy().retries if limit.value is None else limit.value
            self.put(("roles", "launcher", "backoffLimit"), limit or restart, retries)

    def _write_roles(self) -> None:
        """Write the roles, without a Worker that has 0 replicas."""
        specs = self.spec.get("mpiReplicaSpecs")
        self.replica_types = {"launcher": specs.get("Launcher")}
        worker, replicas = specs.get("Worker"), specs.get("Worker", "replicas")
        self.require_one(self.replica_types["launcher"], "Launcher")
        if replicas.value:
            self.replica_types["worker"] = worker
        elif self.rules.transport == "ssh":
            self.refuse(
                replicas or worker,
                "the Worker requires replicas, at least 1",
                "set replicas, or remove the Worker",
            )
        for role, replica_type in self.replica_types.items():
            template = with_job_label(replica_type.get("template"))
            main = self._main_container(role, template)
            if main.get("command").value and not any(main.get("command").value):
                # The operator's example leaves the worker's command empty in this way.
                main = _without_fields(main, "command")
            command, args = main.get("command"), main.get("args")
            runs_sleep = role == "worker" and self.rules.transport != "ssh" and not command.value
            if runs_sleep and args.value:
                self.warn(
                    args,
                    "the operator runs sleep in a worker without a command, and ignores its args",
                    "remove args, or set command",
                )
                main = _without_fields(main, "args")
            self.role(role, template, main)
        if replicas.value:
            self.put(("roles", "worker", "replicas"), replicas)

    def _main_container(self, role: str, template: Field) -> Field:
        """Return the container that `mainContainer` names, or the first."""
        containers, name = template.get("spec", "containers"), self.spec.get("mainContainer")
        for container in containers.items():
            if not container.get("image").value:
                self.refuse(container, "the container has no image", "set image")
        for container in containers.items():
            if name and container.value["name"] == name.value:
                return container
        if name.value and role == "worker" and len(containers.value) == 1:
            self.warn_of_container(containers.get(0), name.value)
        elif name.value and role == "worker":
            self.refuse(
                name,
                f'no container of the Worker has the name "{name.value}"',
                "name the container in which mpirun starts processes",
            )
        return containers.get(0)

    def _write_framework(self, works: Field = NOTHING) -> None:
        """Write the framework and its options, when all roles are written.

        Args:
            works: whether mpirun also starts processes in the launcher.
        """
        spec, is_ssh = self.spec, self.rules.transport == "ssh"
        launcher, worker = self.replica_types["launcher"], self.replica_types.get("worker")
        slots = spec.get("slotsPerWorker")
        self._write_launcher_env(hide_gpus=not works.value and not has_gpus(launcher))
        if not worker:
            # Without workers, mpirun starts all processes in its own pod, which is an ordinary Job.
            self.data["spec"].pop("options", None)
            self.put_framework("generic")
            if works.value and slots:
                path = ("roles", "launcher", "env", "OMPI_MCA_orte_set_default_slots")
                self.put(path, slots, str(slots.value))
            return
        is_elastic = DISCOVER_HOSTS in container_lines(self.roles["launcher"]).text
        self.put_framework("horovod" if is_elastic else self.rules.framework)
        if is_ssh:
            self.put(("options", "transport"), self.kind, "ssh")
        if slots or not spec.get("template"):  # v1alpha1's default is the number of units
            self.write_slots()
        if works.value:
            self.put(("options", "runLauncherAsWorker"), works)
            if is_ssh and INDEX_LABEL in str(worker.value):
                self.warn(
                    worker.get("template"),
                    "with runLauncherAsWorker, the label replica-index of the operator's workers "
                    "begins at 1, but here at 0",
                    "add 1 to it in the program",
                )
        if is_elastic:
            self._write_elastic(launcher, int(bool(works.value)))

    def _write_launcher_env(self, *, hide_gpus: bool) -> None:
        """Remove the user's values of variables that the operator overwrites.

        Args:
            hide_gpus: True to hide the node's GPUs from the launcher.
        """
        implementation = self.data["spec"].get("options", {}).get("implementation", "OpenMPI")
        launcher = self.roles["launcher"]
        env = launcher.pop("env", {})
        overwritten = OPERATOR_ENV[self.rules.transport][implementation]
        kept = {name: value for name, value in env.items() if name not in overwritten}
        if hide_gpus:
            kept |= {name: "" for name in VISIBLE_GPUS if name in env}
        if kept:
            launcher["env"] = kept

    def _write_elastic(self, launcher: Field, working_launchers: int) -> None:
        """Write the range of workers, from the numbers of processes in horovodrun's arguments.

        Args:
            launcher: the replica type.
            working_launchers: the number of launchers that also have slots, 0 or 1.
        """
        launches = container_lines(self.roles["launcher"]).launches
        slots = self.spec.get("slotsPerWorker").value or 1
        replicas = self.roles["worker"]["replicas"]
        least, most = (
            max((launch.number(bound) or 0 for launch in launches), default=0)
            for bound in ("min_np", "max_np")
        )
        lower = -(-least // slots) - working_launchers
        upper = most // slots - working_launchers
        path = ("options", "elasticPolicy")
        self.put((*path, "minReplicas"), launcher, min(max(lower, 1), replicas))
        self.put((*path, "maxReplicas"), launcher, max(upper, replicas))

    def _write_ssh(self) -> None:
        """Write the fields for SSH, and warn that the user must create the keys."""
        for role, replica_type in self.replica_types.items():
            path = ("roles", role)
            self.put((*path, "env", "K_MPI_JOB_ROLE"), replica_type, role)
            if replica_type.get("template", "spec", "hostNetwork").value:
                policy = "ClusterFirstWithHostNet"
                self.put((*path, "template", "spec", "dnsPolicy"), replica_type, policy)
        if "worker" not in self.replica_types:
            return
        worker = self.replica_types["worker"]
        self._write_worker_restarts(worker.get("restartPolicy"))
        self.copy(self.spec, ("options",), "sshAuthMountPath")
        main = worker.get("template", "spec", "containers", 0)
        port = next(_ssh_ports(main, container_lines(self.roles["worker"])), None)
        if port:
            self.put(("roles", "worker", "port"), port)
        keys = no_ssh_keys("the operator", f"{self.name}-ssh", self.namespace_option)
        self.warn(self.spec, *keys)

    def _write_worker_restarts(self, restart: Field) -> None:
        """Write the restart policy of workers, if it is set. In the operator, each worker is a pod.

        With Never, a failed worker is not replaced. The other workers continue, and the launcher
        determines the outcome.
        """
        path = ("roles", "worker")
        self.put((*path, "restartPolicy"), restart)
        if restart.value == "OnFailure":
            self.put((*path, "backoffLimit"), restart, ENDLESS)
        elif restart.value == "Never":
            self.put((*path, "backoffLimitPerIndex"), restart, 0)


class Workers(NamedTuple):
    """The number of workers and the units per worker of v1alpha1, if they are set."""

    replicas: Field = NOTHING
    units: Field = NOTHING


class OneTemplateJob(MPIJob):
    """An MPIJob of v1alpha1: both roles share one template."""

    def write(self) -> None:
        """Write the job."""
        spec = self.spec
        template, main = spec.get("template"), spec.get("template", "spec", "containers", 0)
        self.replica_types = {"launcher": spec}
        workers, units = self._workers(main)
        self.role("launcher", template, _without_fields(main, "resources"))
        self._write_launcher_restarts(template.get("spec", "restartPolicy"))
        if workers:
            self.replica_types["worker"] = spec
            worker_main = _without_fields(_with_units(spec, main, units), "command", "args")
            self.role("worker", template, worker_main)
            self.put(("roles", "worker", "replicas"), workers)
        on_master = spec.get("launcherOnMaster")
        for name, value in FACTS["launcherOnMaster"].items() if on_master.value else ():
            self.put(("roles", "launcher", name), on_master, value)
        self._write_framework()
        if workers and not spec.get("slotsPerWorker"):
            self.put(("options", "slotsPerWorker"), units)
        self.write_run_policy()
        if workers:  # the operator scales them to 0 when the launcher has ended
            self.put(("runPolicy", "cleanPodPolicy"), spec, "Running")

    def _workers(self, main: Field) -> Workers:
        """Return the workers."""
        spec = self.spec
        fields = [spec.get(name) for name in ("gpus", "processingUnits", "replicas")]
        totals = [total for total in fields if total]
        if len(totals) > 1:
            self.refuse(
                totals[1],
                "gpus, processingUnits and replicas are mutually exclusive",
                "keep one of them",
            )
        if len(totals) != 1:
            return Workers()
        (total,) = totals
        field = str(total.path[-1])
        if field == "replicas":
            limit = main.get("resources", "limits", _unit(spec))
            count = natural(str(limit.value))
            return Workers(total, NOTHING if count is None else Field(count, limit.path))
        per_node = spec.get(f"{field}PerNode")
        most = per_node.value or UNITS_PER_NODE[field]
        if total.value > most and total.value % most:
            self.refuse(
                total,
                f"{total.value} is not a multiple of {most}, the number of {field} per node",
                f"write a multiple of {most}, or set {field}PerNode",
            )
        if not per_node:
            self.warn(
                total,
                f"the operator's configuration sets the number of {field} per node; "
                f"mlgen assumes {most}",
                f"set {field}PerNode",
            )
        workers = max(total.value // most, 1)
        return Workers(Field(workers, total.path), Field(min(total.value, most), total.path))


def _job(resource: Field, rules: Rules) -> MPIJob:
    """Return a job, with the class for its version."""
    is_first = resource.get("apiVersion").value == "kubeflow.org/v1alpha1"
    return (OneTemplateJob if is_first else MPIJob)(resource, rules)


DIALECT = dialect("mpi_operator", _job)
