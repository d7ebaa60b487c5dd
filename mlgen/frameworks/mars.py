"""Mars: schedulers, web services and workers with MARS_CLUSTER_DETAIL.

The variables match KubeDL (controllers/mars/mars.go), with two exceptions that Mars needs to run
(mars/resource.py). Amounts that the job file does not set are omitted, because Mars would read 0 as
the available amount. Mars measures the memory of processes, because it looks for the cgroup's
memory at a path of cgroups v1. The workers' variables include the memory and the disks that they
can use.
"""

from functools import partial
from math import ceil
from typing import Any

from mlgen.frameworks._planner import Planner, RoleFields, Viewer, config, variables
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.quantity import parse
from mlgen.topology import INDEX, Env, Mount, Scratch

PLASMA = "/dev/shm"  # noqa: S108 - the default of Mars


def lay_out(planner: Planner) -> None:
    """Add schedulers, which decide, web services and workers."""
    planner.decider("scheduler", ["scheduler"])
    scheduler = planner.job.roles["scheduler"]
    planner.add(scheduler, decides=True, each=partial(_env, planner, scheduler))
    for spec in planner.specs("webservice", "worker"):
        is_worker = spec.name == "worker"
        planner.add(
            spec,
            serves=not is_worker,
            restart="ExitCode" if is_worker else None,
            each=partial(_env, planner, spec),
            mounts=_mounts(planner.job, spec) if is_worker else (),
            waits=(planner.wait(scheduler),),  # its command can change its port
        )


def _env(planner: Planner, spec: RoleSpec, viewer: Viewer) -> RoleFields:
    """Return the variables of one role."""
    detail = _detail(planner, spec, viewer)
    cpus, memory = _amount(spec, "cpu"), _amount(spec, "memory")
    env: dict[str, Any] = {
        **({"MARS_CPU_TOTAL": str(cpus)} if cpus else {}),
        **({"MARS_MEMORY_TOTAL": str(memory)} if memory else {}),
        **variables("mars", port=planner.own_port(spec, viewer), detail=detail),
    }
    if spec.name == "worker":
        env |= _tuning(planner.job, spec)
    return {"env": env}


def _amount(spec: RoleSpec, resource: str) -> int:
    """Return a replica's request, else its limit, else 0, in cores (rounded up) or bytes."""
    for kind in ("requests", "limits"):
        if resource in spec.resources.get(kind, {}):
            return ceil(parse(spec.resources[kind][resource]))
    return 0


def _detail(planner: Planner, spec: RoleSpec, viewer: Viewer) -> str:
    """Return MARS_CLUSTER_DETAIL. It does not list workers, but contains a worker's resources."""
    roles = planner.job.roles
    listed = [name for name in ("scheduler", "webservice") if name in roles]
    task: dict[str, Any] = {"type": spec.name, "index": INDEX}
    if spec.name == "worker":
        task["resources"] = {
            "cpu_procs": _amount(spec, "cpu"),
            "phy_mem": _amount(spec, "memory"),
        }
    cluster = {name: planner.addresses(roles[name], viewer) for name in listed}
    return config({"cluster": cluster, "task": task})


def _tuning(job: TrainingJob, worker: RoleSpec) -> Env:
    """Return the variables for the memory of a worker."""
    policy = job.options.get("workerMemoryTuningPolicy", {})
    env = {}
    if "spillDirs" in policy:
        env["MARS_SPILL_DIRS"] = ",".join(policy["spillDirs"])
    env["MARS_PLASMA_DIRS"] = policy.get("plasmaStore", PLASMA)
    env["MARS_LOCK_FREE_FILEIO"] = "1" if policy.get("lockFreeFileIO", True) else "0"
    if size := _store_size(job, worker):
        env["MARS_CACHE_MEM_SIZE"] = str(size)
    return env


def _store_size(job: TrainingJob, worker: RoleSpec) -> int:
    """Return the size of the Plasma store in bytes; 0 if the job file does not set it."""
    policy = job.options.get("workerMemoryTuningPolicy", {})
    if "workerCacheSize" in policy:
        return int(parse(policy["workerCacheSize"]))
    return _amount(worker, "memory") * int(policy.get("workerCachePercentage", 0)) // 100


def _mounts(job: TrainingJob, worker: RoleSpec) -> tuple[Mount, ...]:
    """Return the volumes of a worker: one per spill folder, and one in memory for the store."""
    policy = job.options.get("workerMemoryTuningPolicy", {})
    spills = [
        Mount(Scratch(f"mars-empty-dir-{number}"), path, read_only=False)
        for number, path in enumerate(policy.get("spillDirs", ()))
    ]
    size = _store_size(job, worker)
    if not size:
        return tuple(spills)
    store = Scratch("mars-shared-cache", memory=True, size=str(size))
    return (*spills, Mount(store, policy.get("plasmaStore", PLASMA), read_only=False))
