"""Rules about the devices that the programs of a role need."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import RoleSpec, has_devices
from mlgen.launch.role import NNODES, JobRole, of_all_roles, of_roles
from mlgen.problems import Problem, ValuePath

BACKEND = r"(.*\.)?(\w+_)?backend"
"""The names of arguments and entries that choose a backend."""

CALL = r"init_process_group\(\s*(backend\s*=\s*)?['\"]nccl['\"]\s*[,)]"
"""A call that always uses NCCL. If a program asks for GPUs first, other calls may use another."""

ELSEWHERE = r"(?i)nvidia|gpu|cuda|runtimeClassName|privileged"
"""Signs in a template or a variable of GPUs that a container gets without requesting them."""


def _may_have_gpus(spec: RoleSpec) -> bool:
    """Return True if a role requests a device, or may get GPUs without a request."""
    if spec.gpus or has_devices(spec):
        return True
    return re.search(ELSEWHERE, repr((spec.templates, spec.env))) is not None


@of_roles
def nccl_without_gpus(role: JobRole) -> Iterator[Problem]:
    """Report the backend NCCL in a role without GPUs, where it fails.

    https://github.com/pytorch/pytorch/pull/45642

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes:
          code: {mountPath: /code, files: {train.py: "dist.init_process_group('nccl')"}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {PL_TORCH_DISTRIBUTED_BACKEND: nccl}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        resources: {nvidia.com/gpu: 1}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, gloo]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        env: {NVIDIA_VISIBLE_DEVICES: all}
        roles: {worker: {replicas: 2}}
    """
    spec = role.spec
    if _may_have_gpus(spec) or not role.trains_together:
        return
    lines = role.lines
    named: list[tuple[str, Any, ValuePath]] = [
        *((setting.name, setting.value, setting.path) for setting in role.settings),
        *((name.lower(), value, ("env", name)) for name, value in spec.env.items()),
    ]
    places = [
        path for name, value, path in named if value == "nccl" and re.fullmatch(BACKEND, name)
    ]
    words = zip(lines.words, lines.paths, strict=True)
    for text, path in (*((text, path) for _, text, path in lines.files), *words):
        if re.search(CALL, text) and not re.search("gloo|is_available", text):
            places.append(path)
    for place in dict.fromkeys(places):
        message = f"NCCL works only with GPUs, and {role.name} has none"
        yield role.warning(place, message, "add nvidia.com/gpu to resources, or write gloo")


@of_all_roles
def rank_without_gpus(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a role without GPUs whose replicas train together with those of roles with GPUs.

    All ranks usually run the same program. The master of a PyTorchJob is rank 0, not a launcher:
    pkg/controller.v1/pytorch/envvar.go of kubeflow/training-operator 1.5.

    wrong:
        framework: pytorch
        command: [python, train.py]
        roles:
          master: {}
          worker: {replicas: 2, resources: {nvidia.com/gpu: 1}}
    right:
        framework: pytorch
        command: [python, train.py]
        resources: {nvidia.com/gpu: 1}
        roles: {master: {}, worker: {replicas: 2}}
    right:
        framework: pytorch
        roles:
          master: {command: [python, parameters.py]}
          worker: {replicas: 2, command: [python, train.py], resources: {nvidia.com/gpu: 1}}
    """
    ranks = [role for role in roles if not role.env.keys().isdisjoint(NNODES)]
    with_gpus = [role for role in ranks if role.spec.gpus]
    for role in ranks:
        # A role with another command may be a parameter server, which needs none.
        same = (other.name for other in with_gpus if other.lines.words == role.lines.words)
        other = next(same, None)
        if other and not _may_have_gpus(role.spec):
            message = f"{role.name} has no GPUs, but trains together with {other}, which has"
            hint = f"write the resources of {other} for {role.name}, too"
            yield role.warning((), message, hint, code="combination")
