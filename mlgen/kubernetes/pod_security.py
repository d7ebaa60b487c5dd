"""Pod template → the Pod Security Standard that it meets, and its violations of stricter ones.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ as
implemented in k8s.io/pod-security-admission v0.37, policy/check_*.go, where each rule names the
versions of Kubernetes that it applies to.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlgen.kubernetes.versions import DEFAULT, KubeVersion

Level = Literal["privileged", "baseline", "restricted"]
EnforcedLevel = Literal["baseline", "restricted"]

LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
"""From the most permissive to the strictest."""

CONTAINERS = ("spec.initContainers[]", "spec.containers[]", "spec.ephemeralContainers[]")
CONTAINER_CONTEXTS = tuple(f"{container}.securityContext" for container in CONTAINERS)
CONTEXTS = ("spec.securityContext", *CONTAINER_CONTEXTS)
HANDLERS = (
    *("livenessProbe", "readinessProbe", "startupProbe"),
    *("lifecycle.postStart", "lifecycle.preStop"),
)
"""Paths for `_at`; those of handlers start at their container."""

OFF = (None, False)
UNSET = (None, "", 0)
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
"""The types that are allowed; container_engine_t since Kubernetes 1.31."""

CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
)
SYSCTLS = {
    "kernel.shm_rmid_forced": (1, 0),
    "net.ipv4.ip_local_port_range": (1, 0),
    "net.ipv4.ip_unprivileged_port_start": (1, 0),
    "net.ipv4.ping_group_range": (1, 0),
    "net.ipv4.tcp_syncookies": (1, 0),
    "net.ipv4.ip_local_reserved_ports": (1, 27),
    "net.ipv4.tcp_fin_timeout": (1, 29),
    "net.ipv4.tcp_keepalive_intvl": (1, 29),
    "net.ipv4.tcp_keepalive_probes": (1, 29),
    "net.ipv4.tcp_keepalive_time": (1, 29),
    "net.ipv4.tcp_rmem": (1, 32),
    "net.ipv4.tcp_wmem": (1, 32),
    "net.ipv4.tcp_notsent_lowat": (1, 37),
    "net.ipv4.tcp_slow_start_after_idle": (1, 37),
}
"""The sysctls that are safe, with the version of Kubernetes since which they are."""

PROBE_HOSTS = (1, 34)
"""Since then, probes and lifecycle hooks may only connect to the pod itself."""

USER_NAMESPACES = (1, 35)
"""Since then, rules are relaxed for a pod in a user namespace, whose root is not the node's."""

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The prefix of the annotation that preceded the field appArmorProfile of a container."""


@dataclass(frozen=True)
class Violation:
    """A violation of one rule.

    Attributes:
        level: the least strict level with the rule.
        field: the field at fault, such as `spec.containers[main].securityContext.privileged`.
        message: what the level requires of the field, in one line.
    """

    level: EnforcedLevel
    field: str
    message: str


def violations(template: Any, kube_version: KubeVersion = DEFAULT) -> list[Violation]:
    """Return all violations of the level `restricted` by a pod template.

    A value of a wrong type counts as missing or forbidden; the API server rejects it anyway.

    Args:
        template: the metadata and spec of a pod, as in a Job.
        kube_version: the version of the cluster.
    """
    has_user_namespace = (
        kube_version >= USER_NAMESPACES and _value(template, "spec.hostUsers") is False
    )
    broken = [
        *_host(template),
        *_probes(template, kube_version),
        *_profiles(template),
        *_sysctls(template, kube_version),
        *_proc_mounts(template, "restricted" if has_user_namespace else "baseline"),
        *_capabilities(template),
        *_volumes(template),
    ]
    if not has_user_namespace:
        broken += _users(template)
    # A pod for Windows cannot set these fields.
    if _value(template, "spec.os.name") != "windows":
        broken += _confined(template)
    return broken


def level(all_violations: Iterable[Violation]) -> Level:
    """Return the strictest level that a pod meets, given all of its violations."""
    broken = {violation.level for violation in all_violations}
    if "baseline" in broken:
        return "privileged"
    return "baseline" if broken else "restricted"


def _host(template: Any) -> Iterator[Violation]:
    """Return violations by access to the node: its namespaces, ports and privileges."""
    for path in ("spec.hostNetwork", "spec.hostPID", "spec.hostIPC"):
        yield from _only(template, path, OFF, "must not be true")
    for context in CONTEXTS:
        yield from _only(template, f"{context}.windowsOptions.hostProcess", OFF, "must not be true")
    for context in CONTAINER_CONTEXTS:
        yield from _only(template, f"{context}.privileged", OFF, "must not be true")
    for container in CONTAINERS:
        yield from _only(template, f"{container}.ports[].hostPort", UNSET, "must not be set")


def _probes(template: Any, kube_version: KubeVersion) -> Iterator[Violation]:
    """Return violations by probes and lifecycle hooks that connect to another host."""
    if kube_version < PROBE_HOSTS:
        return
    for container in CONTAINERS:
        for handler in HANDLERS:
            for kind in ("httpGet", "tcpSocket"):
                path = f"{container}.{handler}.{kind}.host"
                yield from _only(template, path, UNSET, "must not be set")


def _profiles(template: Any) -> Iterator[Violation]:
    """Return violations by AppArmor, seccomp and SELinux settings."""
    message = "must be RuntimeDefault or Localhost"
    types = f"must be one of {', '.join(SELINUX_TYPES)}"
    for context in CONTEXTS:
        for name in ("appArmorProfile", "seccompProfile"):
            for field, profile in _at(template, f"{context}.{name}"):
                if profile is not None and _mapping(profile).get("type") not in PROFILES:
                    yield Violation("baseline", f"{field}.type", message)
        se_linux = f"{context}.seLinuxOptions"
        yield from _only(template, f"{se_linux}.type", (*UNSET, *SELINUX_TYPES), types)
        yield from _only(template, f"{se_linux}.user", UNSET, "must not be set")
        yield from _only(template, f"{se_linux}.role", UNSET, "must not be set")
    for name, value in _mapping(_value(template, "metadata.annotations")).items():
        allowed = value in (*UNSET, "runtime/default") or str(value).startswith("localhost/")
        if str(name).startswith(APPARMOR) and not allowed:
            field = f"metadata.annotations[{name}]"
            yield Violation("baseline", field, "must be runtime/default or localhost/<profile>")


def _sysctls(template: Any, kube_version: KubeVersion) -> Iterator[Violation]:
    """Return violations by sysctls that are not safe in a version of Kubernetes."""
    safe = [name for name, since in SYSCTLS.items() if since <= kube_version]
    path = "spec.securityContext.sysctls[].name"
    return _only(template, path, safe, "must be a safe sysctl")


def _proc_mounts(template: Any, level: EnforcedLevel) -> Iterator[Violation]:
    """Return violations by containers with an unmasked /proc."""
    for context in CONTAINER_CONTEXTS:
        path = f"{context}.procMount"
        yield from _only(template, path, (None, "Default"), "must be Default", level)


def _capabilities(template: Any) -> Iterator[Violation]:
    """Return violations by containers that add capabilities beyond the container runtime's."""
    for context in CONTAINER_CONTEXTS:
        for field, names in _at(template, f"{context}.capabilities.add"):
            forbidden = [str(name) for name in _list(names) if name not in CAPABILITIES]
            if forbidden:
                yield Violation("baseline", field, f"must not add {', '.join(forbidden)}")


def _volumes(template: Any) -> Iterator[Violation]:
    """Return violations by types of volumes; a volume without a type is an emptyDir."""
    message = f"must be one of {', '.join(VOLUMES)}"
    for field, volume in _at(template, "spec.volumes[]"):
        for name, value in _mapping(volume).items():
            if name == "hostPath" and value is not None:
                yield Violation("baseline", f"{field}.hostPath", "must not be mounted")
            elif name not in ("name", *VOLUMES) and value is not None:
                yield Violation("restricted", f"{field}.{name}", message)


def _users(template: Any) -> Iterator[Violation]:
    """Return violations by pods and containers that may run as root."""
    yield from _required(template, "runAsNonRoot", "must be true")
    for context in CONTEXTS:
        path = f"{context}.runAsNonRoot"
        yield from _only(template, path, (None, True), "must be true", "restricted")
        for field, user in _at(template, f"{context}.runAsUser"):
            if user == 0:
                yield Violation("restricted", field, "must not be 0")


def _confined(template: Any) -> Iterator[Violation]:
    """Return violations by a lack of seccomp, privilege and capability restrictions."""
    yield from _required(template, "seccompProfile.type", "must be RuntimeDefault or Localhost")
    for context in CONTAINER_CONTEXTS:
        path = f"{context}.allowPrivilegeEscalation"
        yield from _only(template, path, (False,), "must be false", "restricted")
        for field, names in _at(template, f"{context}.capabilities.drop"):
            if "ALL" not in _list(names):
                yield Violation("restricted", field, "must include ALL")
        for field, names in _at(template, f"{context}.capabilities.add"):
            if any(name in CAPABILITIES and name != "NET_BIND_SERVICE" for name in _list(names)):
                yield Violation("restricted", field, "must only add NET_BIND_SERVICE")


def _only(
    template: Any,
    path: str,
    allowed: Collection[Any],
    message: str,
    level: EnforcedLevel = "baseline",
) -> Iterator[Violation]:
    """Return a violation for each field at a path whose value is not among those allowed."""
    for field, value in _at(template, path):
        if value not in allowed:
            yield Violation(level, field, message)


def _required(template: Any, name: str, message: str) -> Iterator[Violation]:
    """Return a violation if a setting is missing from the pod and from any of its containers."""
    path = f"spec.securityContext.{name}"
    without = [
        field.removesuffix(f".securityContext.{name}").removeprefix("spec.")
        for context in CONTAINER_CONTEXTS
        for field, value in _at(template, f"{context}.{name}")
        if value is None
    ]
    if without and _value(template, path) is None:
        yield Violation("restricted", path, f"{message}, here or in {', '.join(without)}")


def _at(template: Any, path: str) -> list[tuple[str, Any]]:
    """Return each field at a path, and its value; `[]` in the path stands for every item of a list.

    A missing value is None. An item is shown by its name, if it has one, else by its index.
    """
    fields = [("", template)]
    for step in path.split("."):
        name = step.removesuffix("[]")
        fields = [
            (f"{field}.{name}".removeprefix("."), _mapping(value).get(name))
            for field, value in fields
        ]
        if name != step:
            fields = [
                (f"{field}[{_mapping(item).get('name') or index}]", item)
                for field, items in fields
                for index, item in enumerate(_list(items))
            ]
    return fields


def _value(template: Any, path: str) -> Any:
    """Return the value at a path without lists, or None."""
    return _at(template, path)[0][1]


def _mapping(value: Any) -> Mapping[Any, Any]:
    """Return a value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
