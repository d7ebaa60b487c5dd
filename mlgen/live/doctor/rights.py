"""What the person who applies a job may do: SelfSubjectAccessReviews, as `kubectl auth can-i`.

All reviews of a job are one request of kubectl. The API server stores none of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlgen.kubernetes.groups import group_of
from mlgen.live.doctor.findings import Finding, Patient
from mlgen.live.kubectl import Kubectl, listed
from mlgen.result import Rendered

RBAC = "rbac.authorization.k8s.io"

APPLY = ("get", "create", "patch")
"""The verbs of `kubectl apply`."""


@dataclass(frozen=True)
class Access:
    """A verb on a resource, of one object or of all.

    Attributes:
        resource: the plural, with a subresource after a slash.
        name: "" for all objects.
    """

    group: str
    resource: str
    verb: str
    name: str = ""

    @property
    def full(self) -> str:
        """The resource as kubectl writes it: `jobs.batch`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def plural(kind: str) -> str:
    """Return the resource of a kind: `jobs`, `networkpolicies`, `priorityclasses`."""
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


def review(kubectl: Kubectl, namespace: str, accesses: Sequence[Access]) -> dict[Access, bool]:
    """Return which accesses the API server allows in a namespace.

    Raises:
        KubectlError: kubectl fails.
    """
    items = []
    for access in accesses:
        resource, _, subresource = access.resource.partition("/")
        attributes = {"namespace": namespace, "verb": access.verb, "group": access.group}
        attributes |= {"resource": resource, "subresource": subresource, "name": access.name}
        items.append(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
            }
        )
    answers = kubectl.objects("create", "-f", "-", stdin=listed(items))
    allowed = [bool(answer["status"].get("allowed")) for answer in answers]
    return dict(zip(accesses, allowed, strict=True))


def rights(patient: Patient) -> Iterator[Finding]:
    """Yield whether the objects of a job may be applied, and its pods and logs read."""
    needed = _to_apply(patient.rendered)
    escalation = [Access(RBAC, "roles", "escalate"), Access(RBAC, "rolebindings", "bind")]
    reads = [Access("", "pods", "list"), Access("", "pods/log", "get")]
    granted = _granted(patient.rendered)
    asked = list(dict.fromkeys([*needed, *reads, *escalation, *granted]))
    answers = review(patient.kubectl, patient.namespace, asked)
    yield from _applying(needed, answers)
    denied = [each for each in reads if not answers[each]]
    for each in denied:
        text = f"you may not {each.verb} {each.full}, which status and logs do"
        yield Finding("warning", "rights to look at it", text, "ask for the right")
    if granted and not answers[escalation[0]]:
        yield from _escalating(granted, answers)


def _applying(needed: Iterable[Access], answers: dict[Access, bool]) -> Iterator[Finding]:
    denied: dict[str, list[str]] = {}
    for each in needed:
        if not answers[each]:
            denied.setdefault(each.full, []).append(each.verb)
    for resource, verbs in denied.items():
        text = f"you may not {', '.join(verbs)} {resource}"
        yield Finding("missing", f"rights on {resource}", text, "ask for the right")
    if not denied:
        resources = dict.fromkeys(each.full for each in needed)
        yield Finding("ok", "rights", f"you may apply {', '.join(resources)}")


def _escalating(granted: Sequence[Access], answers: dict[Access, bool]) -> Iterator[Finding]:
    """Yield whether the rights in the job's Roles may be given.

    Nobody may give rights that they do not have:
    https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-creation-or-update
    """
    missing: dict[str, list[str]] = {}
    for each in granted:
        if not answers[each]:
            missing.setdefault(each.full, []).append(each.verb)
    for resource, verbs in missing.items():
        text = f"the job's Role grants {', '.join(dict.fromkeys(verbs))} on {resource}"
        cure = "you cannot grant what you do not have; ask for it, or render with --no-supervisor"
        yield Finding("missing", "rights to grant", text, cure)
    if not missing:
        yield Finding("ok", "rights to grant", "you have all that the job's Role grants")


def _to_apply(rendered: Rendered) -> list[Access]:
    kinds = dict.fromkeys((group_of(item["apiVersion"]), item["kind"]) for item in rendered.objects)
    return [Access(group, plural(kind), verb) for group, kind in kinds for verb in APPLY]


def _granted(rendered: Rendered) -> list[Access]:
    """Return what the job's Roles grant; of several objects of a rule, the first stands for all."""
    return [
        Access(group, resource, verb, (rule.get("resourceNames") or [""])[0])
        for item in rendered.objects
        if item["kind"] == "Role"
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
