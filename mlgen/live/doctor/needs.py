"""What a job names and does not bring: Secrets and their keys, claims, classes, queues, schedulers.

The list is that of `mlgen.checks.prerequisites`.
"""

from collections.abc import Iterable, Iterator

from mlgen.checks.prerequisites import (
    CLUSTER_SCOPED,
    GATE,
    GATES,
    SCHEDULER,
    Prerequisite,
    git_volumes,
)
from mlgen.kubernetes import references
from mlgen.kubernetes.objects import Object
from mlgen.live.doctor.findings import Finding, Level, Patient, allowed, pod_templates
from mlgen.live.doctor.rights import plural
from mlgen.output.columns import some

DEFINITION = "CustomResourceDefinition"

RESOURCES = {"NetworkAttachmentDefinition": "network-attachment-definitions"}
"""Plurals that do not follow from the kind."""

MAX_USERS = 4


def needs(patient: Patient) -> Iterator[Finding]:
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


def _row(level: Level, item: Prerequisite, text: str = "", cure: str = "") -> Finding:
    """Return the row of a prerequisite, with what uses it."""
    return Finding(level, str(item), ", ".join(filter(None, (text, _users(item)))), cure)


def _of_kind(
    patient: Patient,
    kind: str,
    items: list[Prerequisite],
    keys: dict[tuple[str, str], set[str]],
) -> Iterator[Finding]:
    """Yield whether objects of a kind exist, by one request."""
    group = items[0].group
    resource = RESOURCES.get(kind, plural(kind)) + (f".{group}" if group else "")
    if resource not in patient.served:
        cure = f"install what serves {resource}"
        yield from (_row("missing", item, "no such kind", cure) for item in items)
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


def _state(item: Prerequisite, live: Object | None, keys: set[str]) -> Finding:
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
        cure = "see kubectl describe; a class that waits for the first pod is fine"
        return _row("warning", item, f"is {phase or 'not bound'}", cure)
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


def _defined(patient: Patient, item: Prerequisite) -> Finding:
    if item.name in patient.served:
        return _row("ok", item)
    return _row("missing", item, "not in the cluster", "install what serves this kind")


def _enabled(patient: Patient, item: Prerequisite) -> Finding:
    """Return whether the API server has a feature gate, by the kinds that it serves with it."""
    kinds = [
        f"{plural(kind)}.{group}" for (group, kind), gate in GATES.items() if gate == item.name
    ]
    if patient.served.issuperset(kinds):
        return _row("ok", item, "on in the API server; the scheduler must have it too")
    cure = (
        f"--feature-gates={item.name}=true for the API server, controller manager and scheduler, "
        "and --runtime-config=scheduling.k8s.io/v1beta1=true for the API server"
    )
    return _row("missing", item, f"the cluster does not serve {', '.join(kinds)}", cure)


def _schedulers(patient: Patient, items: Iterable[Prerequisite]) -> Iterator[Finding]:
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
