"""Objects of a job → what they require of a cluster: the resources of all pods, and other objects.

Pods without their Secrets, ConfigMaps or PVCs do not start. Pods without their ServiceAccount or
class are rejected by the API server: see the admission plugins in kubernetes/plugin/pkg/admission.
"""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Any, NamedTuple

from mlgen.checks.pods import WORKLOADS, one_of_each, title, with_jobs, workloads
from mlgen.kubernetes import quantity, references
from mlgen.kubernetes.names import KUEUE_PRIORITY, KUEUE_QUEUE
from mlgen.kubernetes.objects import Identities, Key, Object, group_kind, keys
from mlgen.kubernetes.quantity import SHARED, Amounts, Kind, times, total
from mlgen.kubernetes.references import Reference
from mlgen.kubernetes.validation.rows import is_subdomain
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import COMPONENT, ROLE, workload_name
from mlgen.objects.storage import GIT_KEYS
from mlgen.resources import table
from mlgen.topology import Topology


class Totals(NamedTuple):
    """The resources of a job, by name, as quantities.

    Attributes:
        requests: the total requests of the pods of all roles.
        limits: their total limits, for resources that all of them limit.
        auxiliary: the total requests of other pods, such as the supervisor's.
        auxiliaries: the components of these other pods.
    """

    requests: Amounts
    limits: Amounts
    auxiliary: Amounts
    auxiliaries: tuple[str, ...]


def totals(topology: Topology, objects: Iterable[Object]) -> Totals:
    """Return the resources of a job's pods.

    Excludes resources that only init containers request, such as mlgen's helpers, because they are
    free when training starts.

    Args:
        topology: contains the number of replicas, which is 0 in suspended objects.
        objects: the objects of the job.
    """
    names = {workload_name(topology.job, role): role for role in topology.roles}
    items = workloads(objects)
    others: list[tuple[Object, int]] = []
    of_roles: dict[str, Object] = {}
    counts: dict[str, int] = {}
    for name, item in items.items():
        role = names.get(name)
        if role:
            # Replicas with their own Jobs have equal requests.
            of_roles.setdefault(role.name, item)
            counts[role.name] = counts.get(role.name, 0) + role.replicas
        else:
            others.append((item, 1))
    roles = list(of_roles.values())
    counted = list(zip(roles, counts.values(), strict=True))
    limits = _sum(counted, "limits")
    unlimited = {name for item in roles for name in SHARED - _of_pod(item, "limits").keys()}
    return Totals(
        _sum(counted, "requests"),
        {name: amount for name, amount in limits.items() if name not in unlimited},
        _sum(others, "requests"),
        tuple(item["spec"]["template"]["metadata"]["labels"][ROLE] for item, _ in others),
    )


def _sum(items: Iterable[tuple[Object, int]], kind: Kind) -> Amounts:
    """Return the sum of requests or limits of workloads, each with its number of pods."""
    amounts: dict[str, list[str]] = {}
    for item, count in items:
        for name, amount in _of_pod(item, kind).items():
            amounts.setdefault(name, []).append(times(amount, count))
    return {name: total(of_name) for name, of_name in amounts.items()}


def _of_pod(workload: Object, kind: Kind) -> Amounts:
    return quantity.lasting(workload["spec"]["template"]["spec"], kind)


TABLE = table("checks/prerequisites")

SCHEDULER, GATE = "scheduler", "feature gate"
"""Prerequisites that are not kinds: a scheduler in the cluster, and a Kubernetes feature gate."""

JOBSETS = "jobsets.jobset.x-k8s.io"

GATES = {("scheduling.k8s.io", "PodGroup"): "GenericWorkload"}
"""The kinds that the API server serves only with a feature gate (Kubernetes 1.37.0,
pkg/features/kube_features.go)."""

GROUPS = references.GROUPS | TABLE["groups"]
"""Every kind of prerequisite and its API group, in the order of output."""

CLUSTER_SCOPED = references.CLUSTER_SCOPED | {*TABLE["clusterScoped"]}

VOLCANO_QUEUE = "default"
"""The queue that Volcano creates itself (volcano-sh/volcano, installer/helm/chart)."""

SSH_KEYS = {"ssh-privatekey", "ssh-publickey"}
"""The keys of the Secret that `mlgen ssh-secret` prints."""


class Prerequisite(NamedTuple):
    """An object that a job refers to, but that the manifests do not contain.

    Attributes:
        kind: kind of the object, "scheduler" or "feature gate".
        group: API group of the kind. "" for the core group, a scheduler or a feature gate.
        name: name of the object, scheduler or feature gate.
        namespace: namespace of the object. None if the job has none, or the kind is cluster-scoped.
        used_by: roles that use it. Also `supervisor`, `tensorboard` or the name of an object.
        command: command that creates it, with `…` for values. "" if there is none.
    """

    kind: str
    group: str
    name: str
    namespace: str | None
    used_by: tuple[str, ...]
    command: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


_Use = tuple[str, Reference, bool]
"""The user of an object, the reference, and whether it is a Secret for Git."""


def named(objects: Iterable[Object]) -> list[Prerequisite]:
    """Return all references of a rendered job's objects, included in the manifests or not.

    Excludes optional and built-in objects.
    """
    uses: dict[tuple[str, str, str | None], list[_Use]] = {}
    for item in one_of_each(with_jobs(objects)):
        namespace, labels = item["metadata"].get("namespace"), item["metadata"].get("labels") or {}
        user = labels.get(ROLE) or labels.get(COMPONENT) or item["metadata"]["name"]
        if item["kind"] not in WORKLOADS:
            user = title(item)
        for reference, is_git in _references(item):
            is_shared = reference.kind in CLUSTER_SCOPED
            own = None if is_shared else reference.namespace or namespace
            of_object = uses.setdefault((reference.kind, reference.name, own), [])
            of_object.append((str(user), reference, is_git))
    return [
        Prerequisite(
            kind,
            GROUPS[kind],
            name,
            namespace,
            tuple(dict.fromkeys(user for user, _, _ in of_object)),
            _command(kind, name, namespace, of_object),
        )
        for known in GROUPS
        for (kind, name, namespace), of_object in uses.items()
        if kind == known
    ]


def missing(needs: Iterable[Prerequisite], *together: Identities) -> tuple[Prerequisite, ...]:
    """Return the prerequisites that are not in the manifests applied together.

    Args:
        needs: the result of `named`.
        together: the identities from `brought`, of all manifests.
    """
    return tuple(need for need in needs if not any(_is_among(need, each) for each in together))


def brought(manifests: Iterable[Object]) -> Iterator[Key]:
    """Yield the identity of each object, List item, and Secret that a controller will create."""
    for item in manifests:
        items = item.get("items")
        if str(item.get("kind")).endswith("List") and isinstance(items, list):
            yield from brought(filter(_is_object, items))
            continue
        for group, kind, namespace, name in keys([item]):
            yield group, kind, namespace, name
            path = TABLE["makers"].get(f"{group}/{kind}")
            if path is not None:
                secret = value_at(item, path or ["metadata", "name"])
                yield (
                    "",
                    "Secret",
                    namespace,
                    secret if isinstance(secret, str) and secret else name,
                )


def _is_object(item: Any) -> bool:
    """Return whether an item of a List has apiVersion and kind."""
    fields = ("apiVersion", "kind")
    return isinstance(item, dict) and all(isinstance(item.get(field), str) for field in fields)


def _is_among(need: Prerequisite, together: Identities) -> bool:
    """Return whether an object is in the manifests, in any namespace if it has none."""
    group, kind, name = need.group, need.kind, need.name
    if not need.namespace:
        return together.has_name(group, kind, name)
    return any((group, kind, space, name) in together for space in (need.namespace, ""))


def _references(item: Object) -> Iterator[tuple[Reference, bool]]:
    """Yield the references of an object, each with whether it is a Secret for Git."""
    spec = item.get("spec") or {}
    others: list[tuple[str, str | None]] = []
    if item["kind"] == "PodGroup":
        group, kind = group_kind(item)
        definition = ("CustomResourceDefinition", f"{kind.lower()}s.{group}")
        gate = GATES.get((group, kind))
        others.append((GATE, gate) if gate else definition)
        if group == GROUPS["Queue"] and spec.get("queue") != VOLCANO_QUEUE:
            others.append(("Queue", spec.get("queue")))
        others.append(("PriorityClass", spec.get("priorityClassName")))
    if item["kind"] == "JobSet":
        others.append(("CustomResourceDefinition", JOBSETS))
        others += _of_kueue(item["metadata"])
    if item["kind"] == "PersistentVolumeClaim":
        others.append(("StorageClass", spec.get("storageClassName")))
    if item["kind"] in WORKLOADS:
        template = spec["template"]
        git = set(git_volumes(template["spec"]))
        for reference in references.of_pod(template):
            yield reference, reference.volume in git
        others.append((SCHEDULER, references.scheduler(template)))
        for metadata in (item["metadata"], template.get("metadata") or {}):
            others += _of_kueue(metadata)
    for kind, name in others:
        if name and (kind, name) not in references.BUILT_IN:
            yield Reference(kind, name), False


def _of_kueue(metadata: Object) -> list[tuple[str, str | None]]:
    labels = metadata.get("labels") or {}
    queue, priority = labels.get(KUEUE_QUEUE), labels.get(KUEUE_PRIORITY)
    return [("LocalQueue", queue), ("WorkloadPriorityClass", priority)]


def git_volumes(pod: Object) -> Iterator[str]:
    """Yield the names of a pod's volumes with keys for Git."""
    for container in pod.get("initContainers") or []:
        for mount in container.get("volumeMounts") or []:
            if mount.get("mountPath") == GIT_KEYS:
                yield mount["name"]


def _command(kind: str, name: str, namespace: str | None, uses: list[_Use]) -> str:
    """Return the command that creates an object; "" if there is none."""
    form = kind
    if kind == "Secret" and any(reference.use == "image pull" for _, reference, _ in uses):
        form = "image pull"
    elif kind == "Secret" and {key for _, use, _ in uses for key in use.keys} == SSH_KEYS:
        form = "SSH keys"
    if not is_subdomain(name):  # not a valid name of an object
        return ""
    space = f" -n {quote(namespace)}" if namespace else ""
    command: str = TABLE["commands"].get(form, "")
    return command.format(name=name, namespace=space, content=_content(uses))


def _content(uses: list[_Use]) -> str:
    """Return the options of `kubectl create` for the keys of a Secret or ConfigMap.

    kubectl's option for variables excludes all others.
    """
    if any(reference.use == "variables" for _, reference, _ in uses):
        return "--from-env-file=…"
    options: dict[str, None] = {}
    for _, reference, is_git in uses:
        source = "--from-file" if reference.volume else "--from-literal"
        git = ("ssh-privatekey", "known_hosts") if is_git else ()
        options |= dict.fromkeys(f"{source}={quote(key)}=…" for key in reference.keys or git)
        if reference.use == "files" and not git:
            options["--from-file=…"] = None
    return " ".join(options)
