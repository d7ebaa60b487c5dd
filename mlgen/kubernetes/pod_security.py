"""Pod template → the Pod Security Standard that it meets, and what keeps it from a stricter one.

The rules are those of https://kubernetes.io/docs/concepts/security/pod-security-standards/ as the
API server applies them: k8s.io/pod-security-admission v0.37, policy/check_*.go, where each rule
says since which version of Kubernetes it holds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlgen.kubernetes.versions import DEFAULT, KubeVersion

Level = Literal["privileged", "baseline", "restricted"]
Broken = Literal["baseline", "restricted"]

LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
"""From the one that allows everything to the strictest."""

CONTAINERS = ("spec.initContainers[]", "spec.containers[]", "spec.ephemeralContainers[]")
OWN = tuple(f"{container}.securityContext" for container in CONTAINERS)
CONTEXTS = ("spec.securityContext", *OWN)
HANDLERS = (
    *("livenessProbe", "readinessProbe", "startupProbe"),
    *("lifecycle.postStart", "lifecycle.preStop"),
)
"""Ways to fields, as `_at` reads them; a handler's begins at its container."""

OFF = (None, False)
UNSET = (None, "", 0)
PROFILES = ("RuntimeDefault", "Localhost")
SELINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t", "container_engine_t")
"""The last of them since Kubernetes 1.31."""

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
"""What is safe to be set, and since when."""

HOSTS_OF_PROBES = (1, 34)
"""From here on a probe or hook may only ask the pod itself."""

USER_NAMESPACES = (1, 35)
"""From here on more is allowed where the pod has users of its own: root is not the node's."""

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Begins an annotation on one container, which does what the field appArmorProfile does."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that is broken.

    Attributes:
        level: the least strict level that has the rule.
        field: what breaks it, as in `spec.containers[main].securityContext.privileged`.
        message: what the level wants of the field, in one line.
    """

    level: Broken
    field: str
    message: str


def violations(template: Any, kube_version: KubeVersion = DEFAULT) -> list[Violation]:
    """Return what keeps a pod template from the strictest level.

    What is not of its type counts as missing or as forbidden; the API server refuses it anyway.

    Args:
        template: with metadata and spec, as in a Job.
        kube_version: of the cluster.
    """
    own_users = kube_version >= USER_NAMESPACES and _value(template, "spec.hostUsers") is False
    found = [
        *_host(template),
        *_probes(template, kube_version),
        *_profiles(template),
        *_sysctls(template, kube_version),
        *_proc_mounts(template, "restricted" if own_users else "baseline"),
        *_capabilities(template),
        *_volumes(template),
    ]
    if not own_users:
        found += _users(template)
    # A pod for Windows cannot have these.
    if _value(template, "spec.os.name") != "windows":
        found += _confined(template)
    return found


def level(found: Iterable[Violation]) -> Level:
    """Return the strictest level that is met where these are all violations."""
    broken = {violation.level for violation in found}
    if "baseline" in broken:
        return "privileged"
    return "baseline" if broken else "restricted"


def _host(template: Any) -> Iterator[Violation]:
    for path in ("spec.hostNetwork", "spec.hostPID", "spec.hostIPC"):
        yield from _only(template, path, OFF, "must not be true")
    for context in CONTEXTS:
        yield from _only(template, f"{context}.windowsOptions.hostProcess", OFF, "must not be true")
    for context in OWN:
        yield from _only(template, f"{context}.privileged", OFF, "must not be true")
    for container in CONTAINERS:
        yield from _only(template, f"{container}.ports[].hostPort", UNSET, "must not be set")


def _probes(template: Any, kube_version: KubeVersion) -> Iterator[Violation]:
    if kube_version < HOSTS_OF_PROBES:
        return
    for container in CONTAINERS:
        for handler in HANDLERS:
            for kind in ("httpGet", "tcpSocket"):
                path = f"{container}.{handler}.{kind}.host"
                yield from _only(template, path, UNSET, "must not be set")


def _profiles(template: Any) -> Iterator[Violation]:
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
    safe = [name for name, since in SYSCTLS.items() if since <= kube_version]
    path = "spec.securityContext.sysctls[].name"
    return _only(template, path, safe, "must be that of a safe sysctl")


def _proc_mounts(template: Any, level: Broken) -> Iterator[Violation]:
    for context in OWN:
        path = f"{context}.procMount"
        yield from _only(template, path, (None, "Default"), "must be Default", level)


def _capabilities(template: Any) -> Iterator[Violation]:
    for context in OWN:
        for field, names in _at(template, f"{context}.capabilities.add"):
            beyond = [str(name) for name in _list(names) if name not in CAPABILITIES]
            if beyond:
                yield Violation("baseline", field, f"may not add {', '.join(beyond)}")


def _volumes(template: Any) -> Iterator[Violation]:
    """A volume of no type at all is an emptyDir to the API server."""
    message = f"must be one of {', '.join(VOLUMES)}"
    for field, volume in _at(template, "spec.volumes[]"):
        for name, value in _mapping(volume).items():
            if name == "hostPath" and value is not None:
                yield Violation("baseline", f"{field}.hostPath", "must not be mounted")
            elif name not in ("name", *VOLUMES) and value is not None:
                yield Violation("restricted", f"{field}.{name}", message)


def _users(template: Any) -> Iterator[Violation]:
    yield from _required(template, "runAsNonRoot", "must be true")
    for context in CONTEXTS:
        path = f"{context}.runAsNonRoot"
        yield from _only(template, path, (None, True), "must be true", "restricted")
        for field, user in _at(template, f"{context}.runAsUser"):
            if user == 0:
                yield Violation("restricted", field, "must not be 0")


def _confined(template: Any) -> Iterator[Violation]:
    yield from _required(template, "seccompProfile.type", "must be RuntimeDefault or Localhost")
    for context in OWN:
        path = f"{context}.allowPrivilegeEscalation"
        yield from _only(template, path, (False,), "must be false", "restricted")
        for field, names in _at(template, f"{context}.capabilities.drop"):
            if "ALL" not in _list(names):
                yield Violation("restricted", field, "must have ALL")
        for field, names in _at(template, f"{context}.capabilities.add"):
            if any(name in CAPABILITIES and name != "NET_BIND_SERVICE" for name in _list(names)):
                yield Violation("restricted", field, "may only add NET_BIND_SERVICE")


def _only(
    template: Any, path: str, allowed: Collection[Any], message: str, level: Broken = "baseline"
) -> Iterator[Violation]:
    for field, value in _at(template, path):
        if value not in allowed:
            yield Violation(level, field, message)


def _required(template: Any, name: str, message: str) -> Iterator[Violation]:
    """The pod must have it for all of its containers, or each of them for itself."""
    path = f"spec.securityContext.{name}"
    lacking = [
        field.removesuffix(f".securityContext.{name}").removeprefix("spec.")
        for context in OWN
        for field, value in _at(template, f"{context}.{name}")
        if value is None
    ]
    if lacking and _value(template, path) is None:
        yield Violation("restricted", path, f"{message}, here or for {', '.join(lacking)}")


def _at(template: Any, path: str) -> list[tuple[str, Any]]:
    """Return each field at a path, where `[]` stands for the items of a list, and its value.

    A value that is not there is None; an item is shown by its name if it has one.
    """
    found = [("", template)]
    for step in path.split("."):
        name = step.removesuffix("[]")
        found = [
            (f"{field}.{name}".removeprefix("."), _mapping(value).get(name))
            for field, value in found
        ]
        if name != step:
            found = [
                (f"{field}[{_mapping(item).get('name') or index}]", item)
                for field, items in found
                for index, item in enumerate(_list(items))
            ]
    return found


def _value(template: Any, path: str) -> Any:
    return _at(template, path)[0][1]


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
