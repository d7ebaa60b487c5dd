"""KubeDL's MPIJob: a launcher that runs mpirun, and workers.

Source: kubedl-io/kubedl at b93a2b4, controllers/mpi.
"""

from collections.abc import Mapping

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import warn_of_worker_restarts, write_slots
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubedl.annotations import NETWORK_MODE, annotation, on_host_network
from mlgen.dialects.kubedl.kinds import MPI
from mlgen.dialects.kubedl.policies import write_policies
from mlgen.dialects.kubedl.roles import write_roles

V1ALPHA1_FIELDS = ("gpus", "processingUnits", "replicas")
"""Fields of the earliest MPIJobs, from which KubeDL creates the replica types."""


def write_mpijob(builder: Builder) -> None:
    """Write the TrainingJob of an MPIJob; a launcher without workers is a `generic` job."""
    replica_types = write_roles(builder, MPI)
    _refuse_unusable(builder, replica_types)
    worker = replica_types.get("worker")
    if worker:
        write_slots(builder, worker)
        _write_options(builder, replica_types.get("launcher", builder.spec))
        _remove_worker_restarts(builder, worker.get("restartPolicy"))
    else:
        builder.put(("spec", "framework"), builder.resource.get("kind"), "generic")
    write_policies(builder, replica_types, MPI, "Running")


def _refuse_unusable(builder: Builder, replica_types: Mapping[str, SourceValue]) -> None:
    """Report resources from which KubeDL creates no job that runs."""
    spec = builder.spec
    launcher, worker = replica_types.get("launcher"), replica_types.get("worker")
    for name in V1ALPHA1_FIELDS:
        if spec.get(name):
            message = f"with {name}, KubeDL creates workers that run mpirun themselves"
            hint = "write mpiReplicaSpecs and slotsPerWorker instead"
            builder.refuse(spec.get(name), message, hint)
    if not launcher:
        message = "a Launcher is required, because it runs mpirun"
        builder.refuse(spec.get(MPI.field), message, "add a Launcher")
    elif launcher.get("replicas").value not in (None, 1):
        replicas = launcher.get("replicas")
        builder.refuse(replicas, f"expected 1 Launcher, got {replicas.value}", "write replicas: 1")
    if worker and not worker.get("replicas"):
        builder.refuse(worker, "a Worker requires a number of replicas", "write replicas")


def _write_options(builder: Builder, launcher: SourceValue) -> None:
    """Write how mpirun starts processes: by KubeDL's default, in the launcher too."""
    distribution = builder.spec.get("mpiDistribution")
    implementation = "Intel" if distribution.value == "IntelMPI" else distribution.value
    builder.put(("spec", "options", "implementation"), distribution, implementation)
    if on_host_network(builder):
        message = "with host networking, mpirun starts no processes in the launcher"
        hint = "start fewer processes than with KubeDL"
        builder.differs(annotation(builder, NETWORK_MODE), message, hint)
    else:
        builder.put(("spec", "options", "runLauncherAsWorker"), launcher, value=True)


def _remove_worker_restarts(builder: Builder, restart: SourceValue) -> None:
    """Leave the restart policy of workers to the framework."""
    for name in ("restartPolicy", "retryableExitCodes"):
        builder.roles.get("worker", {}).pop(name, None)
    warn_of_worker_restarts(builder, restart)
