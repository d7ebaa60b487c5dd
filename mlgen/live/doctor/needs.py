"""What a job needs of the cluster: rights, and what it names and does not bring.

The latter is the list of `mlgen.checks.prerequisites`: Secrets and their keys, claims, classes,
queues, schedulers. All rights are asked in one request of kubectl, as SelfSubjectAccessReviews,
which the API server does not store: see `kubectl auth can-i`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlgen.checks.prerequisites import (
    CLUSTER_SCOPED,
    GATE,
    GATES,
    SCHEDULER,
    Prerequisite,
    git_volumes,
)
from mlgen.kubernetes import pod_resources, references
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.objects import Object
from mlgen.live.doctor.report import Level, Patient, Row, allowed, pod_templates
from mlgen.live.kubectl import Kubectl, listed
from mlgen.output.columns import counted, named, some
from mlgen.result import Rendered

DEFINITION = "CustomResourceDefinition"

RESOURCES = {"NetworkAttachmentDefinition": "network-attachment-definitions"}
"""Plurals that do not follow from the kind."""

MAX_USERS = 4

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


def rights(patient: Patient) -> Iterator[Row]:
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
        yield Row("warning", "rights to look at it", text, "ask for the right")
    if granted and not answers[escalation[0]]:
        yield from _escalating(granted, answers)


def _applying(needed: Iterable[Access], answers: dict[Access, bool]) -> Iterator[Row]:
    denied: dict[str, list[str]] = {}
    for each in needed:
        if not answers[each]:
            denied.setdefault(each.full, []).append(each.verb)
    for resource, verbs in denied.items():
        text = f"you may not {', '.join(verbs)} {resource}"
        yield Row("missing", f"rights on {resource}", text, "ask for the right")
    if not denied:
        resources = dict.fromkeys(each.full for each in needed)
        yield Row("ok", "rights", f"you may apply {', '.join(resources)}")


def _escalating(granted: Sequence[Access], answers: dict[Access, bool]) -> Iterator[Row]:
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
        hint = "you cannot grant what you do not have; ask for it, or render with --no-supervisor"
        yield Row("missing", "rights to grant", text, hint)
    if not missing:
        yield Row("ok", "rights to grant", "you have all that the job's Role grants")


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


def needs(patient: Patient) -> Iterator[Row]:
    """Yield whether each prerequisite of a job is in the cluster."""
    by_kind: dict[str, list[Prerequisite]] = {}
    for item in patient.rendered.prerequisites:
        by_kind.setdefault(item.kind, []).append(item)
    keys = _keys(patient)
    for kind, items in by_kind.items():
        if kind == SCHEDULER:
            yield from _schedulers(patient, items)
        elif kind == DEFINITION:
            yield from (_defined(patient, item) for item in items)
        elif kind == GATE:
            yield from (_enabled(patient, item) for item in items)
        else:
            yield from _of_kind(patient, kind, items, keys)


def _users(item: Prerequisite) -> str:
    """Return what uses it: `for worker, launcher`."""
    return f"for {some(item.used_by, MAX_USERS)}"


def _row(level: Level, item: Prerequisite, text: str = "", hint: str = "") -> Row:
    """Return the row of a prerequisite, with what uses it."""
    return Row(level, str(item), ", ".join(filter(None, (text, _users(item)))), hint)


def _of_kind(
    patient: Patient,
    kind: str,
    items: list[Prerequisite],
    keys: dict[tuple[str, str], set[str]],
) -> Iterator[Row]:
    """Yield whether objects of a kind exist, by one request."""
    group = items[0].group
    resource = RESOURCES.get(kind, plural(kind)) + (f".{group}" if group else "")
    if resource not in patient.served:
        hint = f"install what serves {resource}"
        yield from (_row("missing", item, "no such kind", hint) for item in items)
        return
    if kind not in CLUSTER_SCOPED and not patient.exists:
        yield from (_row("missing", item, "not found", item.command) for item in items)
        return
    # No object has a name that kubectl would take for an option.
    names = [item.name for item in items if not item.name.startswith("-")]
    words = ("get", resource, *names, "--ignore-not-found")
    space = _namespace(patient, items[0])
    found = allowed(patient.kubectl, *words, namespace=space) if names else []
    for item in items:
        if found is None:
            yield _row("note", item, "cannot be read with your rights")
            continue
        live = next((each for each in found if each["metadata"]["name"] == item.name), None)
        row = _state(item, live, keys.get((kind, item.name), set()))
        unchecked = row.level == "ok" and kind == "Secret" and _trusts_any_host(patient, live)
        yield _row("warning", item, *UNCHECKED) if unchecked else row


UNCHECKED = (
    "has no known_hosts, so the host key of the Git server is not checked",
    "add the key known_hosts to it, with what your Git server publishes as its host keys",
)


def _trusts_any_host(patient: Patient, live: Object | None) -> bool:
    """Return whether a Secret has a key for Git over ssh, but not the host keys of the server."""
    data = (live or {}).get("data") or {}
    name = live and live["metadata"]["name"]
    return "ssh-privatekey" in data and "known_hosts" not in data and name in _git_secrets(patient)


def _git_secrets(patient: Patient) -> set[str]:
    """Return the names of the Secrets with keys for Git."""
    return {
        reference.name
        for _, template in pod_templates(patient.rendered)
        for reference in references.of_pod(template)
        if reference.volume in set(git_volumes(template["spec"]))
    }


def _namespace(patient: Patient, item: Prerequisite) -> str | None:
    if item.kind in CLUSTER_SCOPED:
        return None
    return item.namespace or patient.namespace


def _state(item: Prerequisite, live: Object | None, keys: set[str]) -> Row:
    """Return whether an object exists, has all keys, and is ready to use."""
    if live is None:
        return _row("missing", item, "not found", item.command)
    present = {*(live.get("data") or {}), *(live.get("binaryData") or {})}
    absent = sorted(keys - present)
    if absent:
        text = f"has no key {', '.join(absent)}"
        return _row("missing", item, text, _with_keys(item))
    phase = (live.get("status") or {}).get("phase", "")
    if item.kind == "PersistentVolumeClaim" and phase != "Bound":
        hint = "see kubectl describe; a class that waits for the first pod is fine"
        return _row("warning", item, f"is {phase or 'not bound'}", hint)
    return _row("ok", item)


def _with_keys(item: Prerequisite) -> str:
    return f"to replace it: {item.command}" if item.command else ""


def _keys(patient: Patient) -> dict[tuple[str, str], set[str]]:
    """Return the keys of each Secret and ConfigMap that the pods of a job name."""
    keys: dict[tuple[str, str], set[str]] = {}
    for _, template in pod_templates(patient.rendered):
        for reference in references.of_pod(template):
            keys.setdefault((reference.kind, reference.name), set()).update(reference.keys)
    return keys


def _defined(patient: Patient, item: Prerequisite) -> Row:
    if item.name in patient.served:
        return _row("ok", item)
    return _row("missing", item, "not in the cluster", "install what serves this kind")


def _enabled(patient: Patient, item: Prerequisite) -> Row:
    """Return whether the API server has a feature gate, by the kinds that it serves with it."""
    kinds = [
        f"{plural(kind)}.{group}" for (group, kind), gate in GATES.items() if gate == item.name
    ]
    if patient.served.issuperset(kinds):
        return _row("ok", item, "on in the API server; the scheduler must have it too")
    hint = (
        f"--feature-gates={item.name}=true for the API server, controller manager and scheduler, "
        "and --runtime-config=scheduling.k8s.io/v1beta1=true for the API server"
    )
    return _row("missing", item, f"the cluster does not serve {', '.join(kinds)}", hint)


def _schedulers(patient: Patient, items: Iterable[Prerequisite]) -> Iterator[Row]:
    """Yield whether a scheduler was seen: by a Lease of its name, or by pods that it has placed.

    A scheduler is a program that claims a name; no object of the API lists it.
    """
    leases = allowed(patient.kubectl, "get", "leases.coordination.k8s.io", "-A")
    events = allowed(patient.kubectl, "get", "events", "-A", "--field-selector=reason=Scheduled")
    seen = {each["metadata"]["name"] for each in leases or ()}
    seen |= {str(each.get("reportingComponent")) for each in events or ()}
    for item in items:
        if item.name in seen:
            yield _row("ok", item)
        else:
            text = "was not seen; if it does not run, the pods stay Pending"
            yield _row("warning", item, text, "install it, or remove schedulerName")


def devices(patient: Patient) -> Iterator[Row]:
    """Yield whether nodes have the devices that the pods of a job request."""
    users: dict[str, dict[str, None]] = {}
    for workload, template in pod_templates(patient.rendered):
        for name in pod_resources.requests(template["spec"]):
            if "/" in name:
                users.setdefault(name, {})[workload] = None
    nodes = allowed(patient.kubectl, "get", "nodes") if users else []
    if nodes is None:
        yield Row("note", named(users), "nodes cannot be listed with your rights")
        return
    for name, workloads in users.items():
        having = [
            node for node in nodes if node["status"].get("allocatable", {}).get(name, "0") != "0"
        ]
        if having:
            yield Row("ok", name, f"on {len(having)} of {counted(len(nodes), 'node')}")
        else:
            text = f"no node has it, for {some(list(workloads), MAX_USERS)}"
            hint = "install the vendor's device plugin; an autoscaler may still add nodes with it"
            yield Row("warning", name, text, hint)
