"""Pod template → the Pod Security Standard that it meets, and its violations of stricter ones.

The rules are from https://kubernetes.io/docs/concepts/security/pod-security-standards/ as
implemented in k8s.io/pod-security-admission v0.37, policy/check_*.go, where each rule lists the
versions of Kubernetes that it applies to. They are rows of `schemas/kubernetes/pod_security.json`,
grouped by `in`: the spec, every container, or every securityContext, including the pod's.

- `at`: fields, separated by spaces. `[]` is every item of a list.
- `allowed`, `forbidden`: values of the field.
- `items`, `fields`: the only allowed items or fields. `not_items`: forbidden items.
- `includes`: a required item. `type`: the allowed types, if the field is set.
- `or_in`: the field may be omitted if every container sets this field.
- `message`: the requirement of the level. `{names}` are the forbidden items, or the containers that
  lack a field.
- `level`: default baseline.
- `since`, `until`: the first and the last version of Kubernetes with the rule.
- `when`, `unless`: a condition of the pod: `in a user namespace` or `for Windows`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from mlgen.kubernetes.values import mapping, sequence, value_at
from mlgen.kubernetes.versions import DEFAULT, SUPPORTED, KubeVersion, parse
from mlgen.resources import table

Level = Literal["privileged", "baseline", "restricted"]
EnforcedLevel = Literal["baseline", "restricted"]

LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
"""From the most permissive to the strictest."""

CONTAINERS = ("spec.initContainers[]", "spec.containers[]", "spec.ephemeralContainers[]")
HOLDERS = {
    "spec": ("spec",),
    "CONTAINER": CONTAINERS,
    "CONTEXT": ("spec.securityContext", *(f"{each}.securityContext" for each in CONTAINERS)),
}

FIRST, LAST = str(SUPPORTED[0]), str(SUPPORTED[-1])

USER_NAMESPACES = KubeVersion(1, 35)
"""Since then, rules are relaxed for pods in a user namespace, where root is not the node's root."""

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The prefix of the annotation that preceded the field appArmorProfile of a container."""


class Violation(NamedTuple):
    """A violation of one rule.

    Attributes:
        level: the least strict level with the rule.
        field: the invalid field, such as `spec.containers[main].securityContext.privileged`.
        message: the requirement of the level, in one line.
    """

    level: EnforcedLevel
    field: str
    message: str


def violations(template: Any, kube_version: KubeVersion = DEFAULT) -> list[Violation]:
    """Return all violations of the level `restricted` by a pod template.

    A value of a wrong type counts as missing or forbidden. The API server rejects it anyway.

    Args:
        template: the metadata and spec of a pod, as in a Job.
        kube_version: the version of the cluster.
    """
    spec = mapping(template, "spec")
    is_own_user = kube_version >= USER_NAMESPACES and spec.get("hostUsers") is False
    facts = {
        None: True,
        "in a user namespace": is_own_user,
        "for Windows": value_at(spec, ("os", "name")) == "windows",
    }
    return [
        Violation(rule.get("level", "baseline"), field, rule["message"].replace("{names}", names))
        for group in table("kubernetes/pod_security")
        for holder in HOLDERS[group["in"]]
        for rule in group["rules"]
        if _is_in_version(rule.get("since", FIRST), rule.get("until", LAST), kube_version)
        if facts[rule.get("when")] and not ("unless" in rule and facts[rule["unless"]])
        for path in rule["at"].split()
        for at, value in _at(template, f"{holder}.{path}")
        for field, names in _faults(rule, at, value, template)
    ] + list(_annotations(template))


def level(all_violations: Iterable[Violation]) -> Level:
    """Return the strictest level that a pod meets, given all of its violations."""
    broken = {violation.level for violation in all_violations}
    if "baseline" in broken:
        return "privileged"
    return "baseline" if broken else "restricted"


@cache
def _is_in_version(since: str, until: str, version: KubeVersion) -> bool:
    """Return whether a version is within a rule's range."""
    return parse(since) <= version <= parse(until)


def _faults(
    rule: Mapping[str, Any], field: str, value: Any, template: Any
) -> Iterator[tuple[str, str]]:
    """Yield each field at or below a path that violates a rule, with the names for the message."""
    names: list[str] = []
    if "items" in rule:
        names = [str(item) for item in sequence(value) if item not in rule["items"]]
    if "or_in" in rule and value is None:
        paths = [f"{container}.{rule['or_in']}" for container in CONTAINERS]
        others = [each for path in paths for each in _at(template, path)]
        holders = [at.partition(".securityContext")[0] for at, found in others if found is None]
        names = [holder.removeprefix("spec.") for holder in holders]
    if (
        names
        or ("allowed" in rule and value not in rule["allowed"])
        or ("forbidden" in rule and value in rule["forbidden"])
        or any(item in rule.get("not_items", ()) for item in sequence(value))
        or ("includes" in rule and rule["includes"] not in sequence(value))
    ):
        yield field, ", ".join(names)
    if "type" in rule and value is not None and value_at(value, ("type",)) not in rule["type"]:
        yield f"{field}.type", ""
    for name, inner in mapping(value).items() if "fields" in rule else ():
        if inner is not None and name not in rule["fields"]:
            yield f"{field}.{name}", ""


def _annotations(template: Any) -> Iterator[Violation]:
    """Yield violations in the annotations that preceded appArmorProfile."""
    for name, value in mapping(template, "metadata", "annotations").items():
        allowed = value in (None, "", 0, "runtime/default") or str(value).startswith("localhost/")
        if str(name).startswith(APPARMOR) and not allowed:
            field = f"metadata.annotations[{name}]"
            yield Violation("baseline", field, "must be runtime/default or localhost/<profile>")


def _at(template: Any, path: str) -> list[tuple[str, Any]]:
    """Return each field at a path with its value. `[]` in the path is every item of a list.

    A missing value is None. An item is identified by its name, or else by its index.
    """
    fields = [("", template)]
    for step in path.split("."):
        name = step.removesuffix("[]")
        fields = [
            (f"{field}.{name}".removeprefix("."), value_at(value, (name,)))
            for field, value in fields
        ]
        if name != step:
            fields = [
                (f"{field}[{value_at(item, ('name',)) or index}]", item)
                for field, items in fields
                for index, item in enumerate(sequence(items))
            ]
    return fields
