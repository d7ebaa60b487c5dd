"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

Read off the operator's own sources, release 1.9: pkg/apis/kubeflow.org/v1 for fields and defaults,
pkg/webhooks for what it refuses, pkg/controller.v1 for what it does.
"""

from typing import Any

from mlgen.draft import COUNT, SWITCH, TEXT, Draft, Given, Kind, mapping
from mlgen.kubeflow_common import POLICIES, REPLICAS, Rules, replicas, run_policy

GROUPS: tuple[str, ...] = ()

MANAGER = "kubeflow.org/training-operator"

TF = Rules(
    framework="tensorflow",
    field="tfReplicaSpecs",
    roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
    container="tensorflow",
    port="tfjob-port",
)
PYTORCH = Rules(
    framework="pytorch",
    field="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    container="pytorch",
    port="pytorchjob-port",
    restart="OnFailure",
)


def _tfjob(draft: Draft, clean: str = "") -> None:
    found = replicas(draft, TF)
    leaders = [name for name in ("chief", "master") if name in found]
    if len(leaders) > 1:
        message = "there can be a Chief or a Master, not both"
        draft.refuse(found["master"], message, "keep one of the two")
    policy = draft.spec.get("successPolicy")
    if policy.value == "AllWorkers" and not leaders and "worker" in found:
        draft.put("spec.successPolicy.role", policy, "worker")
        draft.put("spec.successPolicy.replicas", policy, "All")
    draft.put("spec.options.enableDynamicWorker", draft.spec.get("enableDynamicWorker"))
    run_policy(draft, found, MANAGER, clean)


def _pytorchjob(draft: Draft) -> None:
    found = replicas(draft, PYTORCH)
    spec, elastic = draft.spec, draft.spec.get("elasticPolicy")
    master = found.get("master")
    if master and master.get("replicas").value != 1:
        message = "a PyTorchJob has one Master, and must say so"
        draft.refuse(master, message, "write replicas: 1")
    processes = spec.get("nprocPerNode")
    if elastic:
        processes = _elastic(draft, elastic, found) or processes
    if processes:
        count = str(processes.value)
        value = int(count) if count.isdecimal() else count
        draft.put("spec.options.nprocPerNode", processes, value)
    run_policy(draft, found, MANAGER)


def _elastic(draft: Draft, elastic: Given, found: dict[str, Given]) -> Given | None:
    """Write what torchrun meets by; return the processes of each replica, if they stand here."""
    if "worker" not in found:
        draft.refuse(elastic, "an elasticPolicy needs a Worker", "add one, or leave it out")
        return None
    processes = elastic.get("nProcPerNode")
    if processes and draft.spec.get("nprocPerNode"):
        message = "nProcPerNode and spec.nprocPerNode are the same"
        draft.refuse(processes, message, "keep spec.nprocPerNode")
    for name in ("minReplicas", "maxReplicas", "maxRestarts", "rdzvId"):
        draft.put(f"spec.options.elasticPolicy.{name}", elastic.get(name))
    pairs = {item.value["key"]: item.value["value"] for item in elastic.get("rdzvConf").items()}
    draft.put("spec.options.elasticPolicy.rdzvConf", elastic.get("rdzvConf"), pairs)
    if not draft.data["spec"].get("options"):
        draft.put(
            "spec.options.elasticPolicy.maxReplicas",
            elastic,
            draft.roles["worker"].get("replicas", 1),
        )
    if elastic.get("metrics"):
        message = "the operator adds a HorizontalPodAutoscaler; a Job has no such scale"
        draft.differs(elastic.get("metrics"), message, "scale it as the README says")
    return processes or None


def _kind(rules: Rules, convert: Any, **fields: Any) -> Kind:
    return Kind(mapping(POLICIES | {rules.field: REPLICAS} | fields, rules.field), convert)


TFJOB = {
    "successPolicy": {"enum": ["", "AllWorkers"]},
    "enableDynamicWorker": SWITCH,
}

PAIR = mapping({"key": TEXT, "value": TEXT}, "key", "value")
ELASTIC = mapping(
    {
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "rdzvBackend": TEXT,
        "rdzvHost": TEXT,
        "rdzvPort": COUNT,
        "rdzvId": TEXT,
        "rdzvConf": {"type": "array", "items": PAIR},
        "standalone": SWITCH,
        "nProcPerNode": COUNT,
        "maxRestarts": COUNT,
        "metrics": {"type": "array"},
    }
)
PYTORCHJOB = {"elasticPolicy": ELASTIC, "nprocPerNode": {"type": ["string", "integer"]}}

KINDS = {
    ("kubeflow.org/v1", "TFJob"): _kind(TF, _tfjob, **TFJOB),
    ("kubeflow.org/v1", "PyTorchJob"): _kind(PYTORCH, _pytorchjob, **PYTORCHJOB),
}
