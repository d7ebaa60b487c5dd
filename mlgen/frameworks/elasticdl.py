"""ElasticDL: a master that creates, watches and replaces the pods of its ps and workers.

The roles ps and worker are not rendered as objects, but as arguments of the master: their replicas,
resources, volumes and image, in ElasticDL's syntax (elasticdl_client/common/{args,k8s_resource,
k8s_volume}.py).
The parameter servers look up the master's pod by a fixed name every 30 seconds, and stop if it does
not exist. The pod of a Job has another name. So `templates/scripts/elasticdl_pods.py`, which the
master loads as its `--cluster_spec`, creates a second pod with the fixed name.
"""

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

from mlgen.frameworks._planner import Planner, variables
from mlgen.jobfile.model import RoleSpec, TrainingJob, written
from mlgen.kubernetes.quantity import parse
from mlgen.launch.line import lines_of
from mlgen.launch.role import contradicted
from mlgen.topology import ConfigFiles, Mount, Right

MAIN = ("python", "-m", "elasticdl.python.master.main")

RIGHTS = (
    Right("pods", ("create", "get", "list", "watch", "delete")),
    Right("services", ("create", "get", "patch")),
)
"""The master's requests to the API server (elasticdl/python/common/{k8s_client,
k8s_tensorboard_client}.py). elasticdl/manifests/elasticdl-rbac.yaml has more, such as pods/exec.

The rules contain no object names, because the master can create pods with any labels anyway.
"""

CLUSTER_SPEC = "elasticdl_pods.py"
CLUSTER_SPECS = Mount(ConfigFiles("mlgen-cluster-spec", (CLUSTER_SPEC,)), "/cluster_spec")
"""The folder in which the master looks for its `--cluster_spec`: ClusterSpecConfig in
elasticdl_client/common/constants.py."""

SUPPORTED = {"name", "replicas", "image", "resources", "volumes", "env", "gpus"}
"""The fields of ps and worker that have an argument of the master."""


COUNTS = {"ps": "num_ps_pods", "worker": "num_workers"}
"""The argument of the master with the number of pods of each role."""


def lay_out(planner: Planner) -> None:
    """Add the master, with arguments for ps and worker."""
    job = planner.job
    planner.decider("master", ["master"])
    for spec in planner.specs("ps", "worker"):
        _check(planner, job.roles["master"], spec)
    arguments = job.options.get("arguments", {})
    if arguments and "model_def" not in arguments and not lines_of(job.roles["master"]).words:
        planner.report(
            ("options", "arguments"),
            "the ElasticDL master requires model_def",
            "add model_def: the path of the model's module and function below model_zoo, such as"
            " mnist.model.custom_model",
            code="missing-field",
        )
    for name, count in COUNTS.items():
        own = str(job.roles[name].replicas) if name in job.roles else ""
        value = str(arguments.get(count, own))
        if own and value != own:
            message = contradicted(count, value, own)
            path, hint = ("options", "arguments", count), "remove it: mlgen sets it"
            planner.report(path, message, hint, code="launch", warn=True)
    if planner.collector.problems:
        return
    workload = f"elasticdl-{job.name}-master"
    _check_cluster_spec(planner, workload)
    planner.add(
        job.roles["master"],
        decides=True,
        workload=workload,
        labels={
            "app": "elasticdl",
            "elasticdl-job-name": job.name,
            "elasticdl-replica-type": "master",
            "elasticdl-replica-index": "0",
        },
        env=variables("elasticdl"),
        command=MAIN,
        args=_arguments(job),
        rights=(
            *RIGHTS,
            Right("pods", ("patch",), (workload,)),
            Right("pods/status", ("patch",), (workload,)),
        ),
        mounts=() if _cluster_spec(job) else (CLUSTER_SPECS,),
    )


def _check(planner: Planner, master: RoleSpec, spec: RoleSpec) -> None:
    """Report fields of ps or worker that have no argument of the master.

    Fields that are set for all roles are not reported, because they apply to the master.
    """
    for_all, path = written(master), ("roles", spec.name)
    for name, value in written(spec).items():
        if name not in SUPPORTED and value != for_all.get(name):
            message = (
                f"the ElasticDL master creates the pods of {spec.name}, and has no argument for"
                f" {name}"
            )
            hint = "use only replicas, image, resources, volumes and env"
            planner.report((*path, name), message, hint)
    for name, volume in spec.volumes.items():
        if not {"pvc", "hostPath"} & set(volume) or volume.get("readOnly"):
            message = "ElasticDL supports only writable volumes with pvc or hostPath"
            hint = "write pvc or hostPath, without readOnly"
            planner.report((*path, "volumes", name), message, hint)
    for name, value in spec.env.items():
        if not isinstance(value, str) or "=" in value:
            planner.report(
                (*path, "env", name),
                "the ElasticDL master cannot pass this variable to its pods, because the value is"
                " not a string without =",
                "change the value, or set the variable in the image",
            )


def _cluster_spec(job: TrainingJob) -> object:
    """Return the user's `--cluster_spec`; None or "" (ElasticDL's default) for mlgen's."""
    return job.options.get("arguments", {}).get("cluster_spec")


def _check_cluster_spec(planner: Planner, stand_in: str) -> None:
    """Warn of a master that does not load mlgen's file, so that its parameter servers stop."""
    master, ps = planner.job.roles["master"], "ps" in planner.job.roles
    words = " ".join((*master.command, *master.args))
    message = f"parameter servers stop after 30 seconds if the pod {stand_in} does not exist"
    if _cluster_spec(planner.job) and ps:
        hint = (
            "remove cluster_spec to use mlgen's file, which creates this pod, or create the pod"
            " in your file"
        )
        planner.report(("options", "arguments", "cluster_spec"), message, hint, warn=True)
    elif words and not re.search(r"cluster_spec[ =]+[^\s'\"-]|Local|AllreduceStrategy", words):
        path = ("roles", "master", "args" if master.args else "command")
        hint = f"add --cluster_spec={CLUSTER_SPEC}; this file of mlgen creates the pod"
        planner.report(path, message, hint, warn=True)


def _arguments(job: TrainingJob) -> tuple[str, ...]:
    """Return the arguments of the master: job, namespace and pods, then `options.arguments`."""
    options = job.options
    values: dict[str, Any] = {"job_name": job.name, "namespace": "$(MY_POD_NAMESPACE)"}
    if "distributionStrategy" in options:
        values["distribution_strategy"] = options["distributionStrategy"]
    for name, count in COUNTS.items():
        if name in job.roles:
            values |= _pods(job.roles[name], count)
        elif name in job.empty_roles:
            values[count] = "0"
        if name in options.get("podPriority", {}):
            values[f"{name}_pod_priority"] = options["podPriority"][name]
    specs = [job.roles[name] for name in ("ps", "worker") if name in job.roles]
    volumes = {name: volume for spec in specs for name, volume in spec.volumes.items()}
    env = {name: value for spec in specs for name, value in spec.env.items()}
    if volumes:
        values["volume"] = ";".join(map(_volume, volumes.values()))
    if env:
        values["envs"] = ",".join(f"{name}={value}" for name, value in env.items())
    values |= options.get("arguments", {})
    values["cluster_spec"] = _cluster_spec(job) or CLUSTER_SPEC
    return tuple(word for name, value in values.items() for word in (f"--{name}", str(value)))


def _pods(spec: RoleSpec, count: str) -> dict[str, str]:
    """Return the master's arguments for the pods of a role; `count` names the number of pods."""
    values = {count: str(spec.replicas)}
    if spec.image:
        values[f"{spec.name}_image"] = spec.image
    limits = spec.resources.get("limits", {})
    requests = spec.resources.get("requests", limits)  # the master requires this argument
    for name, amounts in (("request", requests), ("limit", limits)):
        if amounts:
            values[f"{spec.name}_resource_{name}"] = _resources(amounts)
    return values


def _resources(amounts: Mapping[str, str]) -> str:
    """Return `cpu=1,memory=1024Mi,gpu=1`. The master reads every amount of memory as Mi."""
    names = {"nvidia.com/gpu": "gpu"}
    words = []
    for name, amount in amounts.items():
        mebibytes = name in ("memory", "ephemeral-storage")
        text = f"{ceil(parse(amount) / (1 << 20))}Mi" if mebibytes else amount
        words.append(f"{names.get(name, name)}={text}")
    return ",".join(words)


def _volume(volume: Mapping[str, Any]) -> str:
    """Return `claim_name=c,mount_path=/data` or `host_path=/d,mount_path=/data`."""
    path = volume.get("hostPath")
    path = path["path"] if isinstance(path, dict) else path
    source = f"claim_name={volume['pvc']}" if "pvc" in volume else f"host_path={path}"
    words = [source, f"mount_path={volume['mountPath']}"]
    if "subPath" in volume:
        words.append(f"sub_path={volume['subPath']}")
    return ",".join(words)
