"""The objects that a pod refers to, without which it does not start.

`schemas/kubernetes/references.json` lists the fields: `in` is the path of the mappings, starting at
the pod's spec or nested `within` another row. `field` contains the name of the object, `kind` is
its kind, and `use` is how the pod uses it as a whole. The fields are from pkg/api/v1/pod/util.go in
Kubernetes v1.34.0 (VisitPodSecretNames and VisitPodConfigmapNames), and from the PodSpec:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

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
        path: the path of the name in the pod's spec; () if it is not in the spec.
    """

    kind: str
    name: str
    namespace: str | None = None
    keys: tuple[str, ...] = ()
    use: Use = ""
    volume: str = ""
    path: tuple[str | int, ...] = field(default=(), compare=False)


def of_pod(template: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the references of a pod template, except for optional and built-in objects.

    Repeated references are yielded repeatedly.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    networks = (_networks(annotations.get(annotation, "")) for annotation in NETWORKS)
    for reference in chain(
        _found(_Holder(template["spec"]), table("kubernetes/references")), *networks
    ):
        if reference.name and (reference.kind, reference.name) not in BUILT_IN:
            yield reference


def scheduler(template: Mapping[str, Any]) -> str | None:
    """Return the name of a pod template's scheduler; None for Kubernetes' own."""
    name = template["spec"].get("schedulerName")
    return None if name == DEFAULT_SCHEDULER else name


class _Holder(NamedTuple):
    """A mapping in a pod's spec, with its path, and the name of the volume that contains it."""

    value: Any
    path: tuple[str | int, ...] = ()
    volume: str = ""


def _found(holder: _Holder, rows: Iterable[Mapping[str, Any]]) -> Iterator[Reference]:
    """Yield the references in a mapping, according to rows."""
    for row in rows:
        for path in row.get("in", ".").split():
            for inner in _holders(holder, path.strip(".").split(".")):
                if "within" in row:
                    yield from _found(inner, row["within"])
                elif not inner.value.get("optional"):
                    yield _reference(row, inner)


def _holders(holder: _Holder, steps: Sequence[str]) -> Iterator[_Holder]:
    """Yield each mapping at a path in a mapping."""
    if not steps or not steps[0]:
        yield holder
        return
    value, path, volume = holder
    name = steps[0].removesuffix("[]")
    found = value.get(name)
    if name == steps[0]:
        if found:
            yield from _holders(_Holder(found, (*path, name), volume), steps[1:])
        return
    for number, inner in enumerate(found or ()):
        inside = inner.get("name", "") if name == "volumes" else volume
        yield from _holders(_Holder(inner, (*path, name, number), inside), steps[1:])


def _reference(row: Mapping[str, Any], found: _Holder) -> Reference:
    """Return the reference of a row. In a volume without `items`, all keys are files."""
    holder, path, volume = found
    name, use = holder.get(row["field"], ""), row.get("use", "")
    keys = [holder.get("key", "")] if row.get("in", "").endswith("KeyRef") else []
    if use == "files":
        keys = [item["key"] for item in holder.get("items") or [] if item.get("key")]
    path = (*path, row["field"])
    return Reference(row["kind"], name, None, tuple(keys), "" if keys else use, volume, path)


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
