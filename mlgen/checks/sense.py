"""Objects of a job → problems with values that are valid for Kubernetes, but hardly meant so.

Such as 64 bytes of memory, a command in one word, or a reference to a variable that is not defined.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mlgen.checks import expansion, shell_words
from mlgen.checks.job_file import path_in_job_file
from mlgen.checks.pods import POD, Objects, Pods
from mlgen.kubernetes.quantity import parse
from mlgen.problems import Problem, ValuePath

MIN_BYTES = 1 << 20
"""Container runtimes start no container with less memory than a few MiB."""

BYTES = ("memory", "ephemeral-storage")

NODE_DNS = ("ClusterFirst", "Default")
"""DNS policies by which pods on the host network use the DNS servers of their node:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy."""


def problems(job: Objects, job_file: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Return a problem for each value that is hardly meant as it is written.

    Args:
        job: its objects.
        job_file: its data, in which the values are found.
    """
    together = len(job.pods) > 1 or any(pods.count != 1 for pods in job.pods)
    for pods in job.distinct_pods:
        if together:
            yield from _dns_policy(pods)
        volumes = {volume["name"]: volume.get("emptyDir") or {} for _, volume in pods.volumes()}
        for number, (path, container) in enumerate(pods.containers()):
            is_main = number == len(pods.template["spec"].get("initContainers") or [])
            for problem in _of_container(pods, container, volumes):
                default = problem.path if is_main else (*pods.role_path, "template")
                steps = _in_object(pods, path, container, problem.path[len(pods.role_path) :])
                written = steps and path_in_job_file(job_file or {}, pods.item, steps)
                prefix = "" if is_main else f"container {container['name']}: "
                message = f"{prefix}{problem.message}"
                yield replace(problem, path=written or default, message=message)


def _in_object(
    pods: Pods, path: ValuePath, container: dict[str, Any], field: ValuePath
) -> ValuePath | None:
    """Return the path in the object of a container's field, or of a volume; None for others."""
    steps: ValuePath | None = (*path, *field)
    if field[0] == "volumes":
        names = [volume["name"] for _, volume in pods.volumes()]
        steps = (*POD, "volumes", names.index(field[1]), *field[2:])
    elif field[0] == "env":
        names = [variable["name"] for variable in container["env"]]
        steps = (*path, "env", names.index(field[1]), "value")
    elif field[0] == "shmSize":
        steps = None
    return steps


def _of_container(
    pods: Pods, container: dict[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Return the problems of a container, with their paths in a role of the job file.

    Args:
        pods: have the container.
        container: one of theirs.
        volumes: the `emptyDir` of each of their volumes, by name; {} for other volumes.
    """
    yield from _amounts(pods, container)
    yield from _memory_volumes(pods, container, volumes)
    yield from shell_words.problems(pods.role_path, container)
    yield from expansion.problems(pods.role_path, container)


def _dns_policy(pods: Pods) -> Iterator[Problem]:
    """Report a DNS policy with which pods on the host network do not find each other."""
    spec = pods.template["spec"]
    policy = spec.get("dnsPolicy")
    if spec.get("hostNetwork") and policy in NODE_DNS:
        path = (*pods.role_path, "template", "spec", "dnsPolicy")
        message = f"with hostNetwork and dnsPolicy {policy}, names of other pods do not resolve"
        hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
        yield Problem(path, message, "combination", hint, warning=True)


def _amounts(pods: Pods, container: dict[str, Any]) -> Iterator[Problem]:
    """Report memory or storage of a few bytes. With such a limit, no container starts."""
    resources = container.get("resources") or {}
    for name in BYTES:
        for kind in ("limits", "requests"):
            text = (resources.get(kind) or {}).get(name)
            amount = _bytes(text)
            if amount is None or not 0 < amount < MIN_BYTES:
                continue
            path = (*pods.role_path, "resources", kind, name)
            message, hint = _too_small(name, str(text), amount)
            yield Problem(path, message, "bad-value", hint, warning=kind == "requests")
            break


def _too_small(name: str, text: str, amount: float) -> tuple[str, str]:
    """Return what is wrong with a tiny amount, and what was probably meant."""
    number = text.rstrip("munkKi")
    message = f"{text} is {amount:g} byte{'s' if amount > 1 else ''} of {name}"
    if text.endswith("m"):
        message += ", as m means thousandths"
    return message, f"write {number}Gi or {number}Mi"


def _bytes(text: Any) -> float | None:
    """Return an amount as a number; None if there is none, or if it is not an amount."""
    try:
        return None if text is None else float(parse(text))
    except ValueError:
        return None


def _memory_volumes(
    pods: Pods, container: dict[str, Any], volumes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Report volumes in memory that may hold more than the container's memory limit.

    What is written to them counts against that limit:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    limit = _bytes(((container.get("resources") or {}).get("limits") or {}).get("memory"))
    if limit is None or limit < MIN_BYTES:
        return
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"], {})
        size = _bytes(volume.get("sizeLimit")) if volume.get("medium") == "Memory" else None
        if size is None or size <= limit:
            continue
        text, memory = volume["sizeLimit"], container["resources"]["limits"]["memory"]
        is_shm = mount["name"] == "mlgen-shm"
        path = ("shmSize",) if is_shm else ("volumes", mount["name"], "emptyDir", "sizeLimit")
        message = f"{text} in memory exceeds the memory limit, {memory}, against which it counts"
        hint = f"write less than {memory}, or raise the limit"
        yield Problem((*pods.role_path, *path), message, "combination", hint, warning=True)
