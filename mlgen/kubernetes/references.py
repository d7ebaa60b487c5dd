"""The objects that a pod refers to, without which it does not start.

`schemas/kubernetes/references.json` lists the fields: `in` is the path of the mappings, starting at
the pod's spec or nested `within` another row. `field` contains the name of the object, `kind` is
its kind, and `use` is how the pod uses it as a whole. The fields are from pkg/api/v1/pod/util.go in
Kubernetes v1.34.0 (VisitPodSecretNames and VisitPodConfigmapNames), and from the PodSpec:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from mlgen.resources import table

Use = Literal["", "image pull", "variables", "files"]
"""How a pod uses a Secret or ConfigMap as a whole; "" if it uses only single keys."""

GROUPS = {
    "Secret": "",
    "ConfigMap": "",
    "PersistentVolumeClaim": "",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
    "ServiceAccount": "",
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
    "StorageClass": "storage.k8s.io",
    "NetworkAttachmentDefinition": "k8s.cni.cncf.io",
}
"""The kinds of the objects that a pod can refer to, and their API groups."""

CLUSTER_SCOPED = frozenset(["PriorityClass", "RuntimeClass", "StorageClass"])

BUILT_IN = {
    ("ConfigMap", "kube-root-ca.crt"),
    ("PriorityClass", "system-cluster-critical"),
    ("PriorityClass", "system-node-critical"),
    ("ServiceAccount", "default"),
}
"""Objects that exist in every cluster or namespace."""

DEFAULT_SCHEDULER = "default-scheduler"

NETWORKS = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")
"""Annotations with the names of Multus networks:
https://github.com/k8snetworkplumbingwg/multus-cni/blob/master/docs/how-to-use.md."""


@dataclass(frozen=True)
class Reference:
    """A reference of a pod to an object.

    Attributes:
        kind: a key of `GROUPS`.
        name: the name of the object.
        namespace: the namespace of the object; None for the pod's own namespace.
        keys: the keys of a Secret or ConfigMap that the pod uses.
        use: how the pod uses a Secret or ConfigMap as a whole.
        volume: the name of the volume with the reference; "" if it is not in a volume.
    """

    kind: str
    name: str
    namespace: str | None = None
    keys: tuple[str, ...] = ()
    use: Use = ""
    volume: str = ""


def of_pod(template: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the references of a pod template, except for optional and built-in objects.

    Repeated references are yielded repeatedly.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    networks = (_networks(annotations.get(annotation, "")) for annotation in NETWORKS)
    for reference in chain(_found(template["spec"], table("kubernetes/references")), *networks):
        if reference.name and (reference.kind, reference.name) not in BUILT_IN:
            yield reference


def scheduler(template: Mapping[str, Any]) -> str | None:
    """Return the name of a pod template's scheduler; None for Kubernetes' own."""
    name = template["spec"].get("schedulerName")
    return None if name == DEFAULT_SCHEDULER else name


def _found(value: Any, rows: Iterable[Mapping[str, Any]], volume: str = "") -> Iterator[Reference]:
    """Yield the references in a mapping, according to rows. `volume` is the name of its volume."""
    for row in rows:
        for path in row.get("in", ".").split():
            for holder, inside in _holders(value, path.strip(".").split("."), volume):
                if "within" in row:
                    yield from _found(holder, row["within"], inside)
                elif not holder.get("optional"):
                    yield _reference(row, holder, inside)


def _holders(value: Any, steps: Sequence[str], volume: str) -> Iterator[tuple[Any, str]]:
    """Yield each mapping at a path, and the name of the volume that contains it."""
    if not steps or not steps[0]:
        yield value, volume
        return
    name = steps[0].removesuffix("[]")
    found = value.get(name)
    for inner in (found or ()) if name != steps[0] else filter(None, [found]):
        inside = inner.get("name", "") if name == "volumes" else volume
        yield from _holders(inner, steps[1:], inside)


def _reference(row: Mapping[str, Any], holder: Mapping[str, Any], volume: str) -> Reference:
    """Return the reference of a row. In a volume without `items`, all keys are files."""
    name, use = holder.get(row["field"], ""), row.get("use", "")
    keys = [holder.get("key", "")] if row.get("in", "").endswith("KeyRef") else []
    if use == "files":
        keys = [item["key"] for item in holder.get("items") or [] if item.get("key")]
    return Reference(row["kind"], name, keys=tuple(keys), use="" if keys else use, volume=volume)


def _networks(annotation: str) -> Iterator[Reference]:
    """Return the networks of Multus: `ib, team/data@eth1`, or a JSON list."""
    kind = "NetworkAttachmentDefinition"
    if annotation.lstrip().startswith("["):
        try:
            entries = json.loads(annotation)
        except (RecursionError, ValueError):
            return
        for entry in entries:
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                yield Reference(kind, entry["name"], entry.get("namespace"))
        return
    for word in annotation.split(","):
        namespace, _, name = word.strip().partition("@")[0].rpartition("/")
        yield Reference(kind, name, namespace or None)
