"""Requests of replicas to the supervisor, for progress and restarts in place.

They need variables, volumes and a sidecar in the pods.
"""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlgen.launch._old import variables_of
from mlgen.frameworks._tables import problem
from mlgen.jobfile.model import Progress, RoleSpec, TrainingJob, is_below
from mlgen.problems import Problem
from mlgen.topology import Helper, Mount, PodField, PodFiles, Role, Scratch, Topology

POD = "/mlgen/pod"
"""The folder with the pod's UID, with which the supervisor identifies the sender of a request."""

RUN = "/mlgen/run"
"""The folder in which the sidecar keeps the number of the attempt while containers restart."""

TOKEN = f"{POD}/uid"
POD_MOUNT = Mount(PodFiles("mlgen-pod", {"uid": PodField("metadata.uid")}), POD)

URL, TOKEN_PATH = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
"""The variables in which programs look for the server, and for the path of their token.

https://github.com/kubeflow/trainer/tree/master/docs/proposals/2779-trainjob-progress
"""


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
    own = {URL: f"{_server(job)}/progress", TOKEN_PATH: TOKEN}
    mounts = (*role.mounts, POD_MOUNT)
    return replace(role, env={**role.env, **own}, mounts=mounts, helpers=helpers)


def _file(progress: Progress | None, role: Role) -> str:
    """Return `progress.file` if a volume of a role's training container contains it, else ""."""
    file = (progress and progress.file) or ""
    paths = role.spec.mount_paths
    return file if any(is_below(posixpath.normpath(file), path) for path in paths) else ""


def _host(job: TrainingJob) -> str:
    """Return the host name of the supervisor."""
    domain = job.network.cluster_domain
    return f"{job.name}-supervisor" + (f".{job.namespace}.svc.{domain}" if domain else "")


def _server(job: TrainingJob) -> str:
    """Return the URL of the supervisor."""
    return f"http://{_host(job)}:{job.run_policy.port}"


def progress_problems(job: TrainingJob, roles: Sequence[Role]) -> Iterator[Problem]:
    """Yield the problems of `runPolicy.progress` and `runPolicy.restartMode`."""
    policy = job.run_policy
    # Without a supervisor, there is no gang, and the fields have no effect, with a warning.
    is_ignored = job.workflow or not job.supervisor
    has_gang = is_ignored or any(role.gang for role in roles)
    progress = policy.progress
    if progress and progress.on_stall == "Restart":
        if not has_gang:
            yield problem("restart-without-gang")
        if progress.start_seconds is None and progress.stalled_seconds is None:
            yield problem("restart-without-limit")
    if progress and progress.file and not any(_file(progress, role) for role in roles):
        yield problem("file-outside-volume", file=progress.file)
    if progress and not progress.file and not is_ignored:
        for spec in {role.spec.name: role.spec for role in roles}.values():
            yield from _proxies(spec, _host(job))
    if policy.restart_mode == "InPlace" and not has_gang:
        yield problem("in-place-without-gang")


def _proxies(spec: RoleSpec, host: str) -> Iterator[Problem]:
    """Yield a problem if the programs of a role may send requests for a host to a proxy.

    `requests` and Python's urllib read the variables in both cases, curl only in lower case.
    """
    variables = variables_of(spec)
    texts = [variables[each][1] for each in ("no_proxy", "NO_PROXY") if each in variables]
    # Values from elsewhere, such as ConfigMaps, are unknown.
    if spec.may_have_more_env or not all(isinstance(each, str) for each in texts):
        return
    if any(_is_exception(host, each) for each in texts):
        return
    for name, exceptions in (("http_proxy", "no_proxy"), ("HTTP_PROXY", "NO_PROXY")):
        path, proxy = variables.get(name, ((), ""))
        if proxy:
            path = ("roles", spec.name, *path)
            yield problem("reports-to-proxy", path, variable=name, host=host, exceptions=exceptions)
            return


def _is_exception(host: str, no_proxy: str) -> bool:
    """Return whether `NO_PROXY` excludes a host: by its name, a domain, or "*"."""
    names = [name.strip().lstrip(".") for name in no_proxy.split(",")]
    return "*" in names or any(host == name or host.endswith(f".{name}") for name in names)
