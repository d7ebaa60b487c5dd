"""What the plugins of Kubeflow Trainer add to a JobSet, by the ML policy of the runtime.

Sources, in kubeflow/trainer v2.3.0: pkg/runtime/framework/plugins/torch, with torchtune.go, mpi,
jax, xgboost and plainml, and pkg/runtime/runtime.go for the number of GPUs.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from mlgen.dialects._schemas import read
from mlgen.dialects.trainer.merge import Written
from mlgen.kubernetes.quantity import parse

PORT = 29500
"""The port of the first node."""

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
"""The source of a variable that contains the index of the pod."""

TUNE = ["tune", "run"]
"""The command of a TrainJob to which Trainer appends the arguments of torchtune."""


def gpus(resources: Mapping[str, Any]) -> int:
    """Return the number of GPUs in resources: of the first resource with "gpu" in its name."""
    for kind in ("requests", "limits"):
        for name, amount in (resources.get(kind) or {}).items():
            if "gpu" in name.lower() and parse(amount):
                return int(parse(amount))
    return 0


def cpus(resources: Mapping[str, Any]) -> int:
    """Return the number of CPUs in resources, rounded up; 0 if they contain none."""
    for kind in ("requests", "limits"):
        amount = (resources.get(kind) or {}).get("cpu")
        if amount is not None and parse(amount):
            return ceil(parse(amount))
    return 0


def torch_processes(wanted: Any, resources: Mapping[str, Any]) -> int | str:
    """Return the number of processes per node that Trainer passes to torchrun.

    Args:
        wanted: `numProcPerNode`.
        resources: of a node.
    """
    if wanted == "cpu" or (wanted == "auto" and not gpus(resources)):
        return max(1, cpus(resources))
    count: int | str = wanted
    return count


def variables(policy: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the variables of a policy.

    Args:
        policy: of the runtime, such as `torch`.
        values: the values of the placeholders.
    """
    return [
        {"name": name, "value": None, "valueFrom": INDEX}
        if text is None
        else {"name": name, "value": text.format(**values), "valueFrom": None}
        for name, text in read("trainer")["variables"].get(policy, {}).items()
    ]


def torchtune_model(runtime: str) -> str:
    """Return the model of a torchtune runtime from its name; "" if the name contains none."""
    _, *model = runtime.split("-")
    return f"{model[0].replace('.', '_')}/{model[1].upper()}" if len(model) == 2 else ""


def is_set(arguments: Iterable[str], name: str) -> bool:
    """Return True if a torchtune argument is true, such as `model.quantize_base=True`."""
    pairs = (argument.partition("=") for argument in arguments)
    return any(name in key and value.strip().lower() == "true" for key, _, value in pairs)


def torchtune(
    runtime: str, nodes: int, processes: int | str, gpu_count: int, trainer: Written, leader: str
) -> list[str]:
    """Return the arguments that Trainer appends to `tune run`, without the runtime's own.

    Args:
        runtime: the name of the runtime, which contains the name of the model.
        nodes: the number of nodes.
        processes: the number of processes per node, or `auto`.
        gpu_count: the number of GPUs per node.
        trainer: of the TrainJob.
        leader: the address of the first node.
    """
    given = trainer.get("args").value or []
    quantized = is_set(given, "model.quantize_base") and not is_set(given, "model.use_dora")
    lora = quantized or any("model.lora_attn_modules" in argument for argument in given)
    single = nodes == 1 and (processes == 1 or gpu_count == 1)
    several = nodes > 1 or (processes > 1 if isinstance(processes, int) else gpu_count > 1)
    kind = "lora" if lora and nodes == 1 else "full"
    suffix = "qlora" if quantized and nodes == 1 else kind
    suffix += "_single_device" if single else "_multinode" if nodes > 1 else ""
    recipe = f"{kind}_finetune_{'single_device' if single else 'distributed'}"
    endpoint = [f"--rdzv_endpoint={leader}:{PORT}"] if several else []
    return [*endpoint, recipe, "--config", f"{torchtune_model(runtime)}_{suffix}"]
