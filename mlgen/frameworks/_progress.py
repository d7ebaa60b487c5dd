"""Requests of replicas to the supervisor, for progress and restarts in place.

They need variables, volumes and a sidecar in the pods.
"""

import posixpath
from dataclasses import replace

from mlgen.contradictions.pods import SERVER_TOKEN, SERVER_URL
from mlgen.jobfile.model import Progress, TrainingJob, is_below
from mlgen.topology import Helper, Mount, PodField, PodFiles, Role, Scratch, Topology

POD = "/mlgen/pod"
"""The folder with the pod's UID, with which the supervisor identifies the sender of a request."""

RUN = "/mlgen/run"
"""The folder in which the sidecar keeps the number of the attempt while containers restart."""

TOKEN = f"{POD}/uid"
POD_MOUNT = Mount(PodFiles("mlgen-pod", {"uid": PodField("metadata.uid")}), POD)


def with_requests(topology: Topology) -> Topology:
    """Return the topology with the variables, volumes and sidecars for requests, if needed."""
    if not topology.supervised or not topology.job.run_policy.has_requests:
        return topology
    return replace(topology, roles=tuple(_role(topology.job, role) for role in topology.roles))


def _role(job: TrainingJob, role: Role) -> Role:
    progress, helpers = job.run_policy.progress, role.helpers
    role = replace(role, in_place=role.gang and job.run_policy.restart_mode == "InPlace")
    file = _file(progress, role)
    watched = {"MLGEN_FILE": file} if file else {}
    run = [Mount(Scratch("mlgen-run"), RUN, read_only=False)] if role.in_place else []
    if watched or run:
        env = {"MLGEN_SUPERVISOR": _server(job)} | watched
        mounts = (POD_MOUNT, *run)
        sidecar = Helper("supervised", "supervised.sh", "wait", env, mounts, sidecar=True)
        helpers = (sidecar, *role.helpers)
    if not progress:
        return replace(role, helpers=helpers)
    own = {SERVER_URL: f"{_server(job)}/progress", SERVER_TOKEN: TOKEN}
    mounts = (*role.mounts, POD_MOUNT)
    return replace(role, env={**role.env, **own}, mounts=mounts, helpers=helpers)


def _file(progress: Progress | None, role: Role) -> str:
    """Return `progress.file` if a volume of a role's training container contains it, else ""."""
    file = (progress and progress.file) or ""
    paths = role.spec.mount_paths
    return file if any(is_below(posixpath.normpath(file), path) for path in paths) else ""


def _server(job: TrainingJob) -> str:
    """Return the URL of the supervisor."""
    domain = job.network.cluster_domain
    suffix = f".{job.namespace}.svc.{domain}" if domain else ""
    return f"http://{job.name}-supervisor{suffix}:{job.run_policy.port}"
