"""Containers and pods → problems with amounts of resources, and with the accelerators they use.

`schemas/checks/nodes.json` has the facts about nodes and devices: see `NODES`.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from mlgen.checks.pods import POD, Container, Located, Pods, of_containers, of_pods, role_path
from mlgen.kubernetes.quantity import natural, parse, requests
from mlgen.problems import similar
from mlgen.resources import table

MIN_BYTES = 1 << 20
"""Container runtimes need a few MiB of memory to start a container."""


@of_containers
def few_bytes_of_memory(container: Container) -> Iterator[Located]:
    """Report memory or storage of a few bytes. With such a limit, no container starts.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {memory: 64}
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {cpu: 96Gi, memory: 12}
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {cpu: 500m, memory: "68719476736"}
        roles: {worker: {}}
    """
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            amounts = container.amounts(kind)
            if few := few_bytes(amounts.get(name), f" of {name}"):
                message, hint = few
                cpu = str(amounts.get("cpu"))
                if name == "memory" and cpu.endswith("i"):
                    hint = f"swap the amounts: write cpu: {amounts[name]}, memory: {cpu}"
                found = container.error(("resources", kind, name), message, hint, "bad-value")
                yield found.as_warning(unless=kind == "limits")
                break


def few_bytes(text: Any, of: str = "") -> tuple[str, str] | None:
    """Return the message and the hint about an amount of a few bytes; None for other amounts."""
    amount, meant = bytes_of(text), str(text).rstrip("munkKi")
    if amount is None or not 0 < amount < MIN_BYTES:
        return None
    because = ", because m means thousandths" if str(text).endswith("m") else ""
    message = f"{text} is {amount:g} byte{'s' if amount > 1 else ''}{of}{because}"
    return message, f"write {meant}Gi or {meant}Mi"


def bytes_of(text: Any) -> float | None:
    """Return a quantity as a number; None if it is missing or invalid."""
    try:
        return None if text is None else float(parse(text))
    except ValueError:
        return None


@of_containers
def memory_volume(container: Container) -> Iterator[Located]:
    """Report volumes in memory that may hold more than the container's memory limit.

    Their content counts against that limit:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {memory: 64Gi}
        shmSize: 128Gi
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {memory: 64Gi}
        shmSize: 32Gi
        roles: {worker: {}}
    """
    memory = container.amounts("limits").get("memory")
    limit, pods = bytes_of(memory), container.pods
    if limit is None or limit < MIN_BYTES:
        return
    mounted = {mount["name"] for mount in container.data.get("volumeMounts") or ()}
    for path, volume in pods.volumes():
        empty = volume.get("emptyDir") or {}
        text = empty.get("sizeLimit")
        size = bytes_of(text) if empty.get("medium") == "Memory" else None
        if volume["name"] in mounted and size is not None and size > limit:
            message = f"{text} in memory exceeds the memory limit of the container, {memory}"
            hint = f"write less than {memory}, or raise the limit"
            role, steps = role_path(pods.item), ("emptyDir", "sizeLimit")
            found = pods.warning((*path, *steps), message, hint)
            is_default = volume["name"] == "mlgen-shm"
            field = ("shmSize",) if is_default else ("volumes", volume["name"], *steps)
            yield found.or_at((*role, *field))


NODES: Any = table("checks/nodes")
"""Facts about nodes and devices:

    amounts: the largest amount of each resource on one node.
    devices: the device resources of each vendor.
    misplaced: patterns of device resources, each with the right one.
    accelerators: a pattern of resources, of which a node has those of one vendor.
    visible: variables that select devices, each with the resource.
    vendors: patterns of labels of nodes, each with the start of their resources.
    instances, tpu: what machine types and TPU hosts have.
    disks: a pattern of storage classes of disks, which only one node can use.
"""

TPU, TPU_TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
"""Labels of nodes on GKE."""


@of_containers
def too_much(container: Container) -> Iterator[Located]:
    """Report an amount of a resource that no node has, so that the pod stays Pending.

    The largest nodes are in `schemas/checks/nodes.json`. CPUs are often meant as thousandths.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {cpu: 8000}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {memory: 99Ti}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 64}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {cpu: 8000m, memory: 24Ti, nvidia.com/gpu: 16}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {cpu: 448, nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}
        roles: {worker: {replicas: 2}}
    """
    for kind in ("limits", "requests"):
        for name, amount in container.amounts(kind).items():
            most = NODES["amounts"].get(name)
            if not most or (bytes_of(amount) or 0) <= parse(most):
                continue
            if "/" in name:
                message = f"{amount} {name} in one pod: the largest nodes have {most}"
                hint = f"write the number of devices of one pod, at most {most}"
            else:
                message = f"no node has {amount} of {name}: the largest have {most}"
                is_plain = name == "cpu" and str(amount).isdigit()
                hint = f"write {amount}m" if is_plain else "write less"
            yield container.warning(("resources", kind, name), message, hint, "bad-value")


@of_containers
def unknown_device(container: Container) -> Iterator[Located]:
    """Report a device that no device plugin offers, so that the pod stays Pending.

    Plugins can rename resources, so only names that differ in case, punctuation, a plural or the
    domain of a known vendor are reported.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/GPU: 1}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.io/gpu: 1}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/mig-1g5gb: 1}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {aws.amazon.com/efa: 4}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py]
        resources: {google.com/tpus: 4}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 8, rdma/hca_shared_devices_a: 1}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu-a100: 1}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/mig-1g.11gb: 1}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {chips.example/gpus: 1, aws.amazon.com/neuroncore: 32}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 3000}
        roles: {worker: {replicas: 2}}
    """
    for kind in ("limits", "requests"):
        for name in container.amounts(kind):
            if "/" in name and (meant := _meant(name)):
                message = f"no device plugin offers {name}"
                at = ("resources", kind, name)
                yield container.warning(at, message, f"write {meant}", "unknown-value")


def _meant(name: str) -> str:
    """Return the device resource of which a name is a typo; "" if there is none."""
    domain, _, device = name.partition("/")
    vendors = NODES["devices"]
    if device in vendors.get(domain, ()):
        return ""
    for pattern, meant in NODES["misplaced"].items():
        if re.fullmatch(pattern, name):
            return str(meant)
    start = f"{domain.partition('.')[0]}."
    same = (each for each in vendors if start != "." and each.startswith(start))
    vendor = domain if domain in vendors else similar(domain, vendors, 0.9) or next(same, "")

    def plain(text: str) -> str:
        return re.sub("[^a-z0-9]", "", text.lower()).removesuffix("s")

    known = (each for each in vendors.get(vendor, ()) if plain(each) == plain(device))
    return next((f"{vendor}/{each}" for each in known), "")


def requested(pods: Pods) -> Mapping[str, str]:
    """Return the amounts that a pod requests; {} if one is not valid, which is reported."""
    try:
        return requests(pods.spec)
    except ValueError:
        return {}


def devices_of(pods: Pods) -> dict[str, int]:
    """Return the number of accelerators that a pod requests, by resource."""
    counts = {name: natural(text) or 0 for name, text in requested(pods).items()}
    return {
        name: count
        for name, count in counts.items()
        if count and re.match(NODES["accelerators"], name)
    }


@of_pods.when("node_selector")
def tpu_topology(pods: Pods) -> Iterator[Located]:
    """Report chips that do not fit the TPU slice that the pods select.

    The autoscaler makes nodes only for whole slices:
    https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus

    wrong:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 2x2x4
        roles: {worker: {replicas: 4, resources: {google.com/tpu: 4}}}
    wrong:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: v5e-16
        roles: {worker: {replicas: 4, resources: {google.com/tpu: 4}}}
    wrong:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 4x4
        roles: {worker: {replicas: 2, resources: {google.com/tpu: 8}}}
    wrong:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 4x4
        roles: {worker: {replicas: 2, resources: {google.com/tpu: 4}}}
    right:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 2x4
        roles: {worker: {replicas: 4, resources: {google.com/tpu: 4}}}
    right:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 2x4
        roles: {worker: {resources: {google.com/tpu: 8}}}
    right:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5p-slice
          cloud.google.com/gke-tpu-topology: 4x4x4
        roles: {worker: {replicas: 16, resources: {google.com/tpu: 4}}}
    right:
        framework: jax
        command: [python, train.py]
        nodeSelector:
          cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice
          cloud.google.com/gke-tpu-topology: 1x1
        roles: {worker: {resources: {google.com/tpu: 1}}}
    """
    selector = pods.node_selector
    topology = str(selector.get(TPU_TOPOLOGY, ""))
    accelerator = selector.get(TPU, "")
    count = devices_of(pods).get("google.com/tpu", 0)
    each, example = NODES["tpu"].get(accelerator, (0, ""))
    if not (count and topology and each):
        return
    at = (*POD, "nodeSelector", TPU_TOPOLOGY)
    chips = prod(natural(size) or 0 for size in topology.split("x"))
    if not chips or topology.count("x") != example.count("x"):
        message = f"{accelerator} has no topology {topology}"
        yield pods.error(at, message, f"write one such as {example}", "bad-value")
        return
    most = min(each if chips <= each else 4, chips)
    if count > most:
        message = (
            f"a pod requests {count} chips, but a host of {accelerator} with the topology "
            f"{topology} has at most {most}"
        )
        hint = f"write google.com/tpu: {most}, or a larger topology and more replicas"
        yield pods.error(at, message, hint)
    elif pods.count and (pods.count * count) % chips:
        several = f"{pods.count} pod{'s' * (pods.count > 1)} with {count} chips each"
        message = (
            f"{several} do not fill slices of the topology {topology}, which have {chips} chips"
        )
        hint = f"write {chips // most} replicas of {most} chips, or another topology"
        yield pods.warning(at, message, hint)


NO_DEVICES = ("", "-1", "none", "NoDevFiles")
"""Values that hide all devices."""


@of_containers
def hidden_devices(container: Container) -> Iterator[Located]:
    """Report a variable that hides devices of the container, which then idle.

    A container has only its own devices, with indexes from 0:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 4}
        env: {CUDA_VISIBLE_DEVICES: "0,1"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {amd.com/gpu: 8}
        env: {HIP_VISIBLE_DEVICES: "8,9"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 2}
        env: {NVIDIA_VISIBLE_DEVICES: none}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 2}
        env: {CUDA_VISIBLE_DEVICES: "0,1"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 1}
        env: {CUDA_VISIBLE_DEVICES: GPU-8932f937-d72c}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/gpu: 2}
        env: {FIRST: "0", CUDA_VISIBLE_DEVICES: $(FIRST)}
        roles: {worker: {replicas: 2}}
    """
    for number, item in enumerate(container.data.get("env") or ()):
        name, value = item["name"], str(item.get("value") or "")
        device = NODES["visible"].get(name, "")
        count = natural(str(container.amounts("limits").get(device, ""))) or 0
        valid = 0
        for each in map(str.strip, value.split(",")):
            # The devices of the node, not of the container, have the indexes of this variable.
            index = None if name == "NVIDIA_VISIBLE_DEVICES" else natural(each)
            if each in NO_DEVICES or (index is not None and index >= count):
                break
            valid += 1
        # With void, the kubelet injects the devices: NVIDIA's container toolkit, CDI mode.
        if valid < count and "$(" not in value and value not in ("all", "void"):
            hidden = f"{count - valid} of the {count} {device} of the container"
            message = f"{name}={value} hides {hidden}"
            yield container.warning(("env", number, "value"), message, f"remove {name}")


@of_containers
def several_mig(container: Container) -> Iterator[Located]:
    """Report several MIG devices of a container, of which a CUDA process can use only one.

    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#cuda-visible-devices

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/mig-2g.20gb: 3}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        resources: {nvidia.com/mig-1g.10gb: 1}
        roles: {worker: {replicas: 2}}
    """
    limits = container.amounts("limits").items()
    parts = {name: natural(str(n)) or 0 for name, n in limits if "/mig-" in name}
    count = sum(parts.values())
    if count > 1 and "CUDA_VISIBLE_DEVICES" not in f"{container.env} {container.lines.text}":
        name = next(iter(parts))
        message = f"a CUDA process can use only one MIG device, but the container has {count}"
        hint = f"write {name}: 1 and more replicas"
        yield container.warning(("resources", "limits", name), message, hint)
