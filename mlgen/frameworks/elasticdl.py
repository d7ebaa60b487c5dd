"""ElasticDL: a master that itself makes, watches and replaces the pods of its ps and workers.

The roles ps and worker are no objects here but arguments of the master: their replicas, resources,
volumes and image, in ElasticDL's own forms (elasticdl_client/common/{args,k8s_resource,
k8s_volume}.py). What the master may do is what elasticdl/manifests/elasticdl-rbac.yaml lets it do.
It looks for itself by the name of a pod, which a Job's has not, so the pods that it makes belong to
nobody: `kubectl delete pods -l elasticdl-job-name=<job>` removes them with the job.
"""

from collections.abc import Mapping
from dataclasses import fields
from math import ceil
from typing import Any

from mlgen.frameworks._framework import Framework
from mlgen.frameworks._planner import Planner
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.quantity import parse
from mlgen.topology import POD_IP, POD_NAMESPACE, Right, Topology

ROLES = ("master", "ps", "worker")

MAIN = ("python", "-m", "elasticdl.python.master.main")

VERBS = ("create", "get", "list", "watch", "update", "patch", "delete")

CARRIED = {"name", "replicas", "image", "resources", "volumes", "env", "gpus"}
"""What of ps and worker the master can be told; the rest it decides."""

OPTIONS: dict[str, Any] = {
    "distributionStrategy": {
        "type": "string",
        "enum": ["Local", "ParameterServerStrategy", "AllreduceStrategy", "CustomStrategy"],
        "description": "How workers agree on a model.",
        "examples": ["ParameterServerStrategy"],
    },
    "podPriority": {
        "type": "object",
        "description": "PriorityClasses of the pods that the master makes; for workers also the"
        " share of them that is high, the rest being low.",
        "additionalProperties": False,
        "examples": [{"ps": "high", "worker": "high=0.5"}],
        "properties": {
            "ps": {
                "type": "string",
                "minLength": 1,
                "description": "Of parameter servers.",
                "examples": ["high"],
            },
            "worker": {
                "type": "string",
                "minLength": 1,
                "description": "Of workers.",
                "examples": ["high=0.5"],
            },
        },
    },
    "arguments": {
        "type": "object",
        "description": "Further arguments of the master by name, as `elasticdl train --help`"
        " lists them.",
        "examples": [{"model_zoo": "/model_zoo", "num_epochs": 2, "use_async": True}],
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    },
}


def topology(job: TrainingJob) -> Topology:
    """Lay out the master alone."""
    planner = Planner(job)
    planner.require("master")
    planner.single("master")
    planner.decider("master", ["master"])
    for name in (name for name in ("ps", "worker") if name in job.roles):
        _check(planner, job.roles.get("master"), job.roles[name])
    if planner.collector.problems:
        return planner.topology()
    planner.add(
        job.roles["master"],
        decides=True,
        workload=f"elasticdl-{job.name}-master",
        labels={
            "app": "elasticdl",
            "elasticdl-job-name": job.name,
            "elasticdl-replica-type": "master",
            "elasticdl-replica-index": "0",
        },
        env={"MY_POD_IP": POD_IP, "MY_POD_NAMESPACE": POD_NAMESPACE},
        command=MAIN,
        args=_arguments(job),
        rights=tuple(Right(name, VERBS) for name in ("pods", "pods/exec", "services")),
    )
    return planner.topology()


def _check(planner: Planner, master: RoleSpec | None, spec: RoleSpec) -> None:
    """Refuse what ElasticDL has no words for."""
    unsaid = RoleSpec(spec.name)
    for name in (field.name for field in fields(RoleSpec) if field.name not in CARRIED):
        value = getattr(spec, name)
        if value not in (getattr(unsaid, name), getattr(master, name, value)):
            first, *rest = name.split("_")
            word = "".join([first, *(part.capitalize() for part in rest)])
            message = f"the master makes the pods of {spec.name}, and cannot be told {word}"
            hint = "known are replicas, image, resources, volumes and env"
            planner.problem(("roles", spec.name, word), message, hint)
    for name, volume in spec.volumes.items():
        if not {"pvc", "hostPath"} & set(volume) or volume.get("readOnly"):
            message = "ElasticDL only knows volumes of a pvc or hostPath that can be written to"
            planner.problem(("roles", spec.name, "volumes", name), message, "take one of these")
    for name, value in spec.env.items():
        if not isinstance(value, str) or "=" in value:
            message = "ElasticDL hands on texts without = alone"
            planner.problem(("roles", spec.name, "env", name), message, "put it into the image")


def _arguments(job: TrainingJob) -> tuple[str, ...]:
    """What follows the command: job, namespace and pods first, then what the user adds."""
    options = job.options
    found: dict[str, Any] = {"job_name": job.name, "namespace": "$(MY_POD_NAMESPACE)"}
    if "distributionStrategy" in options:
        found["distribution_strategy"] = options["distributionStrategy"]
    for name, count in (("ps", "num_ps_pods"), ("worker", "num_workers")):
        if name in job.roles:
            found |= _pods(job.roles[name], count)
        if name in options.get("podPriority", {}):
            found[f"{name}_pod_priority"] = options["podPriority"][name]
    specs = [job.roles[name] for name in ("ps", "worker") if name in job.roles]
    volumes = {n: v for spec in specs for n, v in spec.volumes.items()}
    env = {n: v for spec in specs for n, v in spec.env.items()}
    if volumes:
        found["volume"] = ";".join(map(_volume, volumes.values()))
    if env:
        found["envs"] = ",".join(f"{name}={value}" for name, value in env.items())
    found |= options.get("arguments", {})
    return tuple(word for name, value in found.items() for word in (f"--{name}", str(value)))


def _pods(spec: RoleSpec, count: str) -> dict[str, str]:
    found = {count: str(spec.replicas)}
    if spec.image:
        found[f"{spec.name}_image"] = spec.image
    for kind, name in (("requests", "request"), ("limits", "limit")):
        if kind in spec.resources:
            found[f"{spec.name}_resource_{name}"] = _resources(spec.resources[kind])
    return found


def _resources(amounts: Mapping[str, str]) -> str:
    """`cpu=1,memory=1024Mi,gpu=1`; the master takes any memory for one in Mi."""
    names = {"nvidia.com/gpu": "gpu"}
    words = []
    for name, amount in amounts.items():
        mebibytes = name in ("memory", "ephemeral-storage")
        text = f"{ceil(parse(amount) / (1 << 20))}Mi" if mebibytes else amount
        words.append(f"{names.get(name, name)}={text}")
    return ",".join(words)


def _volume(given: Mapping[str, Any]) -> str:
    """`claim_name=c,mount_path=/data` or `host_path=/d,mount_path=/data`."""
    source = f"claim_name={given['pvc']}" if "pvc" in given else f"host_path={given['hostPath']}"
    words = [source, f"mount_path={given['mountPath']}"]
    if "subPath" in given:
        words.append(f"sub_path={given['subPath']}")
    return ",".join(words)


FRAMEWORK = Framework(
    title="ElasticDL",
    summary="A master that itself makes, watches and replaces the pods of its ps and workers.",
    roles=ROLES,
    options=OPTIONS,
    topology=topology,
)
