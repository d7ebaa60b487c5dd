"""Finds the GPUs in the resources and templates of a role."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlgen.jobfile.model import Resources, RoleSpec, containers_of
from mlgen.kubernetes.quantity import natural

Templates = tuple[Mapping[str, Any], ...]


def is_gpu(resource: str) -> bool:
    """Return True for a GPU of any vendor, a part of a GPU, or any resource of nvidia.com."""
    return "gpu" in resource.rpartition("/")[2] or "nvidia.com/" in resource


def has_gpus(resources: Resources, templates: Templates) -> bool:
    """Return True if `resources` or a container of a template has a limit for GPUs."""
    limits = set(resources.get("limits", {}))
    for template in templates:
        for container in containers_of(template):
            limits |= set(_limits(container))
    return any(map(is_gpu, limits))


def has_devices(spec: RoleSpec) -> bool:
    """Return True if a container of a role requests a device of any kind.

    Devices are extended resources, such as `aliyun.com/gpu-mem`, and resource claims.
    """
    pods: list[Mapping[str, Any]] = [template.get("spec") or {} for template in spec.templates]
    containers = [container for template in spec.templates for container in containers_of(template)]
    resources = [spec.resources, *(container.get("resources") or {} for container in containers)]
    claims = any(each.get("claims") for each in resources) or any(
        pod.get("resourceClaims") for pod in pods
    )
    amounts = [each.get(kind) or {} for each in resources for kind in ("limits", "requests")]
    return claims or any("/" in name for by_name in amounts for name in by_name)


def count(spec: RoleSpec) -> int:
    """Return the number of GPUs of the training container; 0 for none, or for parts of GPUs.

    Only whole GPUs count, such as `nvidia.com/gpu`. The number of processes per
    `aliyun.com/gpu-mem` depends on the device plugin.
    """
    return _sum(spec, WHOLE)


WHOLE = r"(.*/)?gpu"

DEVICES = (
    rf"{WHOLE}|nvidia\.com/mig-\d+g\.\d+gb(\.me)?|huawei\.com/Ascend\w+|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/neuroncore"
)
"""Resources of which two processes cannot share one: GPUs, MIG slices, NPUs and chips of TPUs.

https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, and "one process per device" in
https://docs.pytorch.org/xla/release/r2.7/_sources/learn/pjrt.md.txt.
"""


def per_process(spec: RoleSpec) -> int:
    """Return the number of `DEVICES` of the training container, each for one process.

    0 for none, for parts of GPUs, and if processes share them by MPS:
    https://docs.nvidia.com/deploy/mps/
    """
    return 0 if re.search("nvidia-cuda-mps-control|CUDA_MPS_", repr(spec)) else _sum(spec, DEVICES)


def _sum(spec: RoleSpec, pattern: str) -> int:
    """Return the sum of a container's resources with these names; 0 if it has parts of GPUs."""
    limits: dict[str, Any] = dict(spec.resources.get("limits", {}))
    for container in spec.container_patches:
        limits |= _limits(container)
    names = [name for name in limits if is_gpu(name) or re.fullmatch(pattern, name)]
    whole = all(re.fullmatch(pattern, name) for name in names)
    return sum(natural(str(limits[name])) or 0 for name in names) if whole else 0


def without_gpus(spec: RoleSpec) -> RoleSpec:
    """Return a role without the GPUs in its `resources`. GPUs in its templates remain."""
    amounts = {kind: dict(by_name) for kind, by_name in spec.resources.items()}
    kept = {
        kind: {name: amount for name, amount in by_name.items() if not is_gpu(name)}
        for kind, by_name in amounts.items()
    }
    if kept == amounts:
        return spec
    resources = {kind: by_name for kind, by_name in kept.items() if by_name}
    gpus = has_gpus(resources, spec.templates)
    return replace(spec, resources=resources, gpus=gpus, without_gpus=True)


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the limits of a container."""
    return (container.get("resources") or {}).get("limits") or {}
