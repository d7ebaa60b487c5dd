"""Rules about amounts of memory and storage of a container."""

from collections.abc import Iterator
from typing import Any

from mlgen.checks.pods import Container, Located, of_containers, role_path
from mlgen.kubernetes.quantity import parse

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
