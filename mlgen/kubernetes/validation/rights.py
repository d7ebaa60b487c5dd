"""Rules for Roles and RoleBindings.

Source: Kubernetes 1.34.4, pkg/apis/rbac/validation/validation.go.
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import items, mapping, text, values
from mlgen.kubernetes.validation.syntax import conflict, missing, one_of, subdomain
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation

GROUP = "rbac.authorization.k8s.io"


def role(item: Object, _version: KubeVersion) -> Iterator[Violation]:
    """The rules of ValidatePolicyRule, for each rule of a Role."""
    for index, rule in items(item, "rules"):
        path = ("rules", index)
        if not values(rule, "verbs"):
            yield missing(path, "verbs")
        if values(rule, "nonResourceURLs"):
            message = "a Role has no rules for nonResourceURLs"
            yield conflict((*path, "nonResourceURLs"), message, "remove it")
            continue
        for field in ("apiGroups", "resources"):
            if not values(rule, field):
                yield missing(path, field)


def role_binding(item: Object, _version: KubeVersion) -> Iterator[Violation]:
    """The rules of ValidateRoleBinding."""
    reference = mapping(item, "roleRef")
    for field in ("kind", "name"):
        if not text(reference, field):
            yield missing(("roleRef",), field)
    yield from one_of(("roleRef", "kind"), reference.get("kind"), ("Role", "ClusterRole"))
    # The API server sets the group if it is omitted (SetDefaults_RoleBinding).
    yield from one_of(("roleRef", "apiGroup"), reference.get("apiGroup"), (GROUP,))
    name = text(reference, "name")
    if name in (".", "..") or {"/", "%"} & set(name):
        yield from subdomain(("roleRef", "name"), name, "name of a Role")
    for index, subject in items(item, "subjects"):
        path, kind = ("subjects", index), text(subject, "kind")
        if not kind:
            yield missing(path, "kind")
        if not text(subject, "name"):
            yield missing(path, "name")
        yield from one_of((*path, "kind"), kind, ("ServiceAccount", "User", "Group"))
        group = text(subject, "apiGroup")
        if kind == "ServiceAccount":
            if text(subject, "name"):
                yield from subdomain((*path, "name"), text(subject, "name"), "ServiceAccount")
            if group:
                yield conflict((*path, "apiGroup"), "a ServiceAccount has no group", "remove it")
        else:
            yield from one_of((*path, "apiGroup"), group, (GROUP,))
