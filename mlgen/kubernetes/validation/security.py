"""Rules for security contexts of pods and containers.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidateSecurityContext,
validatePodSpecSecurityContext, validateHostUsers, validateOS). Options of Windows are not checked.
"""

import re
from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import is_true, items, mapping, number, text, values
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    invalid,
    missing,
    one_of,
    relative,
)
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

ID_MAX = 2**31 - 1
SYSCTL_MAX = 253
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
NET_SYSCTLS = ("net.",)
IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.", "kernel.sem")

_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?\Z"


def container_context(at: ValuePath, container: Object, spec: Object) -> Iterator[Violation]:
    """Return the violations of a container's `securityContext`.

    Args:
        at: the path of the container.
        container: the container.
        spec: the spec of its pod.
    """
    context, path = mapping(container, "securityContext"), (*at, "securityContext")
    if not context:
        return
    yield from _ids(path, context, ("runAsUser", "runAsGroup"))
    yield from one_of(
        (*path, "procMount"), context.get("procMount"), ("Default", "Unmasked"), empty=False
    )
    if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        message = "procMount: Unmasked requires hostUsers: false"
        yield conflict((*path, "procMount"), message, "add hostUsers: false to the pod")
    yield from _profile((*path, "seccompProfile"), context, "seccompProfile")
    yield from _profile((*path, "appArmorProfile"), context, "appArmorProfile")
    if context.get("allowPrivilegeEscalation") is False:
        place = (*path, "allowPrivilegeEscalation")
        if is_true(context, "privileged"):
            message = "privileged: true and allowPrivilegeEscalation: false contradict each other"
            yield conflict(place, message, "remove one of the two")
        if "CAP_SYS_ADMIN" in values(mapping(context, "capabilities"), "add"):
            message = "CAP_SYS_ADMIN and allowPrivilegeEscalation: false contradict each other"
            yield conflict(place, message, "remove one of the two")


def pod_context(at: ValuePath, spec: Object) -> Iterator[Violation]:
    """Return the violations of a pod's `securityContext` and of its use of the node's namespaces.

    Args:
        at: the path of the pod's spec.
        spec: the pod's spec.
    """
    context, path = mapping(spec, "securityContext"), (*at, "securityContext")
    yield from _ids(path, context, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(values(context, "supplementalGroups", 0)):
        if isinstance(group, int):
            yield from between((*path, "supplementalGroups", index), group, 0, ID_MAX)
    for field, allowed in ENUMERATIONS.items():
        yield from one_of((*path, field), context.get(field), allowed, empty=False)
    yield from _profile((*path, "seccompProfile"), context, "seccompProfile")
    yield from _profile((*path, "appArmorProfile"), context, "appArmorProfile")
    yield from _sysctls(path, context, spec)
    if is_true(spec, "shareProcessNamespace") and is_true(spec, "hostPID"):
        message = "shareProcessNamespace and hostPID are mutually exclusive"
        yield conflict((*at, "shareProcessNamespace"), message, "keep one of the two")
    if spec.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if is_true(spec, field):
                message = f"hostUsers: false and {field}: true contradict each other"
                yield conflict((*at, field), message, "remove one of the two")


ENUMERATIONS = {
    "fsGroupChangePolicy": ("OnRootMismatch", "Always"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive", "MountOption"),
}


def _ids(at: ValuePath, context: Object, names: tuple[str, ...]) -> Iterator[Violation]:
    """The rules of IsValidUserID, IsValidGroupID."""
    for name in names:
        yield from between((*at, name), number(context, name), 0, ID_MAX)


def _profile(at: ValuePath, context: Object, field: str) -> Iterator[Violation]:
    """The rules of validateSeccompProfileField, ValidateAppArmorProfileField."""
    if not isinstance(context.get(field), dict):
        return
    profile = context[field]
    kind, local = text(profile, "type"), profile.get("localhostProfile")
    if not kind:
        yield missing(at, "type", f"add one of: {', '.join(PROFILES)}")
    yield from one_of((*at, "type"), kind, PROFILES)
    place = (*at, "localhostProfile")
    if kind == "Localhost" and local is None:
        yield missing(at, "localhostProfile")
    elif kind == "Localhost" and field == "seccompProfile":
        yield from relative(place, str(local))
    elif kind == "Localhost" and (not str(local).strip() or str(local) != str(local).strip()):
        yield invalid(place, local, "profile name", "write the name without spaces around it")
    elif local is not None and kind != "Localhost":
        message = f"localhostProfile has no place in a profile of type {kind}"
        yield conflict(place, message, "remove it, or write type: Localhost")


def _sysctls(at: ValuePath, context: Object, spec: Object) -> Iterator[Violation]:
    """The rules of validateSysctls, ValidateHostSysctl."""
    seen: set[str] = set()
    for index, sysctl in items(context, "sysctls"):
        path, name = (*at, "sysctls", index, "name"), text(sysctl, "name")
        plain = name.replace("/", ".")
        if not name:
            yield missing(path[:-1], "name")
        elif len(name) > SYSCTL_MAX or not re.match(_SYSCTL, name):
            yield invalid(path, name, "sysctl", "write it as in net.core.somaxconn")
        elif name in seen:
            yield conflict(path, f"duplicate sysctl {name}", "remove one of the two")
        if is_true(spec, "hostNetwork") and plain.startswith(NET_SYSCTLS):
            yield conflict(path, f"{name} cannot be set with hostNetwork: true", "remove one")
        if is_true(spec, "hostIPC") and plain.startswith(IPC_SYSCTLS):
            yield conflict(path, f"{name} cannot be set with hostIPC: true", "remove one")
        seen.add(name)
