"""The Pod Security level that a pod meets, and its violations of stricter levels."""

import copy
import re
from itertools import pairwise

import pytest

from mlgen.kubernetes.pod_security import LEVELS, Violation, level, violations
from mlgen.kubernetes.versions import SUPPORTED

OWN = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

TEMPLATE = {
    "metadata": {"annotations": {"example.com/team": "vision"}},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [{"name": "wait", "securityContext": copy.deepcopy(OWN)}],
        "containers": [{"name": "main", "securityContext": copy.deepcopy(OWN)}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
"""A pod template that meets the strictest level."""

POD = "spec.securityContext"
MAIN = "spec.containers[main]"
WAIT = "spec.initContainers[wait]"
CONTEXT = f"{MAIN}.securityContext"
WAIT_CONTEXT = f"{WAIT}.securityContext"

NOT_TRUE = "must not be true"
NOT_SET = "must not be set"
PROFILE = "must be RuntimeDefault or Localhost"
SELINUX = "must be one of container_t, container_init_t, container_kvm_t, container_engine_t"
BOTH = "initContainers[wait], containers[main]"

FIELDS = [
    # field, a value that violates the rule, a value that meets it, level, message
    ("spec.hostNetwork", True, False, "baseline", NOT_TRUE),
    ("spec.hostPID", True, False, "baseline", NOT_TRUE),
    ("spec.hostIPC", True, None, "baseline", NOT_TRUE),
    (f"{POD}.windowsOptions.hostProcess", True, False, "baseline", NOT_TRUE),
    (f"{CONTEXT}.windowsOptions.hostProcess", True, None, "baseline", NOT_TRUE),
    (f"{CONTEXT}.privileged", True, False, "baseline", NOT_TRUE),
    (f"{WAIT_CONTEXT}.privileged", True, None, "baseline", NOT_TRUE),
    (f"{MAIN}.ports[web].hostPort", 80, 0, "baseline", NOT_SET),
    (f"{WAIT}.ports[web].hostPort", 80, None, "baseline", NOT_SET),
    (f"{MAIN}.livenessProbe.httpGet.host", "example.com", "", "baseline", NOT_SET),
    (f"{MAIN}.readinessProbe.tcpSocket.host", "127.0.0.1", None, "baseline", NOT_SET),
    (f"{MAIN}.startupProbe.httpGet.host", "example.com", None, "baseline", NOT_SET),
    (f"{MAIN}.lifecycle.postStart.httpGet.host", "example.com", "", "baseline", NOT_SET),
    (f"{MAIN}.lifecycle.preStop.tcpSocket.host", "example.com", None, "baseline", NOT_SET),
    (f"{WAIT}.livenessProbe.tcpSocket.host", "example.com", "", "baseline", NOT_SET),
    (f"{POD}.appArmorProfile.type", "Unconfined", "RuntimeDefault", "baseline", PROFILE),
    (f"{CONTEXT}.appArmorProfile.type", "Unconfined", "Localhost", "baseline", PROFILE),
    (f"{POD}.seccompProfile.type", "Unconfined", "Localhost", "baseline", PROFILE),
    (f"{CONTEXT}.seccompProfile.type", "Unconfined", "RuntimeDefault", "baseline", PROFILE),
    (f"{WAIT_CONTEXT}.seccompProfile.type", None, "Localhost", "baseline", PROFILE),
    (f"{POD}.seLinuxOptions.type", "spc_t", "container_t", "baseline", SELINUX),
    (f"{CONTEXT}.seLinuxOptions.type", "spc_t", "container_engine_t", "baseline", SELINUX),
    (f"{CONTEXT}.seLinuxOptions.user", "system_u", "", "baseline", NOT_SET),
    (f"{POD}.seLinuxOptions.role", "system_r", None, "baseline", NOT_SET),
    (f"{CONTEXT}.procMount", "Unmasked", "Default", "baseline", "must be Default"),
    (
        *(f"{CONTEXT}.capabilities.add", ["IPC_LOCK", "NET_RAW"], ["SYS_CHROOT"]),
        *("baseline", "must not add IPC_LOCK, NET_RAW"),
    ),
    (
        *(f"{WAIT_CONTEXT}.capabilities.add", ["CAP_CHOWN"], ["CHOWN", "MKNOD", "SETPCAP"]),
        *("baseline", "must not add CAP_CHOWN"),
    ),
    (
        *(f"{CONTEXT}.capabilities.add", ["NET_BIND_SERVICE", "CHOWN"], ["NET_BIND_SERVICE"]),
        *("restricted", "must only add NET_BIND_SERVICE"),
    ),
    (f"{CONTEXT}.capabilities.drop", ["NET_RAW"], ["ALL"], "restricted", "must include ALL"),
    (f"{CONTEXT}.capabilities.drop", ["all"], ["KILL", "ALL"], "restricted", "must include ALL"),
    (f"{WAIT_CONTEXT}.capabilities.drop", None, ["ALL"], "restricted", "must include ALL"),
    (f"{CONTEXT}.allowPrivilegeEscalation", True, False, "restricted", "must be false"),
    (f"{WAIT_CONTEXT}.allowPrivilegeEscalation", None, False, "restricted", "must be false"),
    (f"{POD}.runAsNonRoot", False, True, "restricted", "must be true"),
    (f"{POD}.runAsNonRoot", None, True, "restricted", f"must be true, here or in {BOTH}"),
    (f"{CONTEXT}.runAsNonRoot", False, None, "restricted", "must be true"),
    (f"{POD}.runAsUser", 0, 1000, "restricted", "must not be 0"),
    (f"{WAIT_CONTEXT}.runAsUser", 0, None, "restricted", "must not be 0"),
]


def changed(*changes):
    """Return TEMPLATE with other values, by field paths as in a violation."""
    template = copy.deepcopy(TEMPLATE)
    for field, value in changes:
        steps = re.findall(r"[^.\[\]]+\]?", field)
        here = template
        for step, following in pairwise(steps):
            new = [] if following.endswith("]") else {}
            here = item(here, step[:-1]) if step.endswith("]") else here.setdefault(step, new)
        here[steps[-1]] = value
    return template


def item(items, name):
    """Return the item with a name. Adds it if it is missing."""
    if all(other["name"] != name for other in items):
        items.append({"name": name})
    return next(other for other in items if other["name"] == name)


def test_a_pod_that_breaks_no_rule_is_restricted():
    assert [] == violations(TEMPLATE)
    assert "restricted" == level([])


def test_a_field_violates_a_level_by_its_value():
    for field, bad, good, broken, message in FIELDS:
        assert [Violation(broken, field, message)] == violations(changed((field, bad)))

        allowed = violations(changed((field, good)))

        assert LEVELS.index(level(allowed)) >= LEVELS.index(broken)


def test_a_pod_without_security_settings_is_baseline():
    broken = violations({"spec": {"containers": [{"name": "main"}]}})

    assert "baseline" == level(broken)
    assert [
        (f"{POD}.runAsNonRoot", "must be true, here or in containers[main]"),
        (f"{POD}.seccompProfile.type", f"{PROFILE}, here or in containers[main]"),
        (f"{CONTEXT}.allowPrivilegeEscalation", "must be false"),
        (f"{CONTEXT}.capabilities.drop", "must include ALL"),
    ] == [(violation.field, violation.message) for violation in broken]


def test_a_violation_of_baseline_makes_a_pod_privileged():
    assert "privileged" == level(
        violations(changed(("spec.hostIPC", True), (f"{POD}.runAsUser", 0)))
    )


def test_containers_can_have_the_settings_that_the_pod_lacks():
    own = {**OWN, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    opened = [(f"{POD}.runAsNonRoot", None), (f"{POD}.seccompProfile", None)]

    assert [] == violations(changed(*opened, (CONTEXT, own), (WAIT_CONTEXT, own)))
    assert {
        "must be true, here or in initContainers[wait]",
        f"{PROFILE}, here or in initContainers[wait]",
    } == {violation.message for violation in violations(changed(*opened, (CONTEXT, own)))}


def test_a_setting_of_a_container_does_not_excuse_the_pod():
    changes = [(f"{POD}.runAsNonRoot", False), (f"{CONTEXT}.runAsNonRoot", True)]

    assert [f"{POD}.runAsNonRoot"] == [v.field for v in violations(changed(*changes))]


def volume(**source):
    return violations(changed(("spec.volumes", [{"name": "data", **source}])))


def test_volumes_that_do_not_expose_the_node_are_allowed():
    rows = [
        *({"configMap": {"name": "a"}}, {"csi": {"driver": "a"}}, {"downwardAPI": {}}),
        *({"emptyDir": {"medium": "Memory"}}, {"ephemeral": {"volumeClaimTemplate": {}}}),
        *({"image": {"reference": "a"}}, {"persistentVolumeClaim": {"claimName": "a"}}),
        *({"projected": {"sources": []}}, {"secret": {"secretName": "a"}}),
        *({}, {"emptyDir": None}, {"nfs": None, "emptyDir": {}}),
    ]

    assert [[] for source in rows] == [volume(**source) for source in rows]


def test_a_host_path_is_privileged_and_a_network_volume_is_baseline():
    message = (
        "must be one of configMap, csi, downwardAPI, emptyDir, ephemeral, image, "
        "persistentVolumeClaim, projected, secret"
    )
    here, there = {"hostPath": {"path": "/"}}, {"nfs": {"server": "a", "path": "/"}}

    assert [Violation("baseline", "spec.volumes[data].hostPath", "must not be mounted")] == volume(
        **here
    )
    assert [Violation("restricted", "spec.volumes[data].nfs", message)] == volume(**there)


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("runtime/default", True),
        ("localhost/mine", True),
        ("", True),
        ("unconfined", False),
        ("localhost", False),
    ],
)
def test_the_apparmor_annotation_has_the_same_rule_as_the_field(value, allowed):
    name = "container.apparmor.security.beta.kubernetes.io/main"
    actual = violations(changed(("metadata.annotations", {name: value, "a": "unconfined"})))

    message = "must be runtime/default or localhost/<profile>"
    broken = [Violation("baseline", f"metadata.annotations[{name}]", message)]
    assert ([] if allowed else broken) == actual


def test_the_seccomp_annotation_is_ignored():
    name = "seccomp.security.alpha.kubernetes.io/pod"

    assert [] == violations(changed(("metadata.annotations", {name: "unconfined"})))


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("net.ipv4.ip_local_port_range", 31),
        ("net.ipv4.tcp_keepalive_time", 31),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_notsent_lowat", 37),
        ("net.core.somaxconn", None),
    ],
)
def test_sysctls_become_safe_with_a_version(name, since):
    template = changed((f"{POD}.sysctls", [{"name": name, "value": "1"}]))

    message = "must be a safe sysctl"
    broken = [Violation("baseline", f"{POD}.sysctls[{name}].name", message)]
    for version in SUPPORTED:
        safe = since is not None and version.minor >= since
        assert ([] if safe else broken) == violations(template, version)


def test_probes_may_connect_to_another_host_before_kubernetes_1_34():
    template = changed((f"{MAIN}.livenessProbe.httpGet.host", "example.com"))

    assert [] == violations(template, (1, 33))
    assert "privileged" == level(violations(template, (1, 34)))


def test_a_user_namespace_allows_root_since_kubernetes_1_35():
    template = changed(
        ("spec.hostUsers", False),
        (f"{POD}.runAsNonRoot", False),
        (f"{POD}.runAsUser", 0),
        (f"{CONTEXT}.procMount", "Unmasked"),
    )

    assert "privileged" == level(violations(template, (1, 34)))
    assert [Violation("restricted", f"{CONTEXT}.procMount", "must be Default")] == violations(
        template, (1, 35)
    )


def test_rules_of_linux_do_not_apply_to_windows_pods():
    template = {
        "spec": {
            "os": {"name": "windows"},
            "securityContext": {"runAsNonRoot": True},
            "containers": [{"name": "main"}],
        }
    }

    assert [] == violations(template)


def test_ephemeral_containers_count_too():
    template = changed(("spec.ephemeralContainers", [{"name": "debug", "securityContext": OWN}]))
    assert [] == violations(template)

    template["spec"]["ephemeralContainers"][0]["securityContext"] = {**OWN, "privileged": True}

    assert ["spec.ephemeralContainers[debug].securityContext.privileged"] == [
        violation.field for violation in violations(template)
    ]


def test_an_item_without_a_name_is_shown_by_its_index():
    template = changed((f"{MAIN}.ports", [{"containerPort": 80}, {"hostPort": 80}]))

    assert [f"{MAIN}.ports[1].hostPort"] == [violation.field for violation in violations(template)]


def odd(value):
    """Return a value, and the same value with each of its parts replaced in turn."""
    yield value
    if isinstance(value, dict):
        yield from ({**value, name: other} for name in value for other in others(value[name]))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in others(item))


def others(value):
    return (None, "text", 1, True, [None], [[1]], {}, {"name": ["x"]}, *odd(value))


@pytest.mark.slow
def test_values_of_wrong_types_never_raise():
    full = changed(
        *((field, bad) for field, bad, *_ in FIELDS),
        ("spec.volumes", [{"name": "data", "nfs": {"server": "a"}}]),
        (f"{POD}.sysctls", [{"name": "net.core.somaxconn", "value": "1"}]),
    )
    templates = list(others(full))

    assert all(level(violations(template)) in LEVELS for template in templates)
    assert len(templates) > 500
