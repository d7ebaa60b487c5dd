"""Pods → problems with the nodes that they select, and with the other pods near them.

The API server accepts these values, but no node can run the pods.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mlgen.checks.amounts import NODES, TPU, devices_of, requested
from mlgen.checks.operators import own_labels, pod_labels
from mlgen.checks.pods import POD, Located, Objects, Pods, name_of, of_objects, of_pods
from mlgen.jobfile.hints import is_of_job
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural, parse, times
from mlgen.kubernetes.values import value_at
from mlgen.problems import ValuePath, choice

HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_TERMS: ValuePath = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")


def _requirements(selector: Object) -> Iterator[tuple[str, str, list[str]]]:
    """Yield key, operator and values of each requirement of a label selector or node term."""
    for key, value in (selector.get("matchLabels") or {}).items():
        yield key, "In", [value]
    for field in ("matchExpressions", "matchFields"):
        for each in selector.get(field) or ():
            key = HOSTNAME if each.get("key") == "metadata.name" else each.get("key", "")
            yield key, each.get("operator", ""), list(each.get("values") or ())


def _node_terms(pods: Pods) -> list[dict[str, set[str]]]:
    """Return the values that each alternative of the node selection allows, by label."""
    spec = pods.spec
    alternatives = []
    for term in value_at(spec, NODE_TERMS) or [{}]:
        allowed = {key: {str(value)} for key, value in pods.node_selector.items()}
        rules = list(_requirements(term))
        for key, operator, values in rules:
            if operator == "In":
                allowed[key] = allowed.get(key, set(values)) & set(values)
        for key, operator, values in rules:
            if key in allowed and operator in ("NotIn", "DoesNotExist"):
                allowed[key] -= set(values) if operator == "NotIn" else allowed[key]
        alternatives.append(allowed)
    return alternatives


def node_count(pods: Pods) -> int | None:
    """Return the number of nodes that pods select by name; None if it is unknown."""
    if pods.spec.get("nodeName"):
        return 1
    terms = [term.get(HOSTNAME) for term in _node_terms(pods)]
    return None if None in terms else len(set().union(*filter(None, terms)))


def _terms(pods: Pods, kind: str) -> list[tuple[ValuePath, Object]]:
    """Return the required terms of a pod's podAffinity or podAntiAffinity, with their paths."""
    path = ("affinity", kind, REQUIRED)
    found = value_at(pods.spec, path) or []
    return [((*POD, *path, number), term) for number, term in enumerate(found)]


def own_terms(pods: Pods, kind: str) -> list[ValuePath]:
    """Return the terms for one node or different nodes that select the pods themselves."""
    return [
        path
        for path, term in _terms(pods, kind)
        if term.get("topologyKey") == HOSTNAME and _selects(term.get("labelSelector"), pods)
    ]


def _selects(selector: Object | None, pods: Pods) -> bool:
    """Return whether a label selector may match pods. None matches none.

    https://kubernetes.io/docs/reference/labels-annotations-taints/#batch-kubernetes-io-job-name
    """
    different = (JOB_INDEX, SET_INDEX, "statefulset.kubernetes.io/pod-name")
    labels: dict[str, Any] = dict.fromkeys(different)
    if pods.item["kind"] == "Job":
        for prefix in ("", "batch.kubernetes.io/"):
            labels |= {f"{prefix}job-name": name_of(pods.item), f"{prefix}controller-uid": None}
    labels |= pods.template["metadata"].get("labels") or {}
    for key, operator, values in _requirements(selector or {}):
        value = labels.get(key)
        if operator in ("In", "Exists") and key not in labels:
            return False
        if (
            (operator == "In" and value is not None and value not in values)
            or (operator == "NotIn" and value in values)
            or (operator == "DoesNotExist" and key in labels)
        ):
            return False
    return selector is not None


@of_pods.when("has_placement")
def no_node(pods: Pods) -> Iterator[Located]:
    """Report node selectors that contradict each other, so that no node matches.

    The scheduler requires all of nodeSelector, and one of the terms:
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {zone: b}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {zone: b}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: NotIn, values: [b]}]}]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {zone: b}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]
        roles: {worker: {replicas: 2}}
    """
    terms = _node_terms(pods)
    if all(not all(term.values()) for term in terms):
        key = next(key for key, values in terms[0].items() if not values)
        message = (
            "no node matches: nodeSelector and nodeAffinity allow no common value of the"
            f" label {key}"
        )
        at = (*POD, "affinity", "nodeAffinity")
        yield pods.error(at, message, "change one of them")


@of_pods.when("has_placement")
def few_nodes(pods: Pods) -> Iterator[Located]:
    """Report pods that need more nodes than they select by name.

    Pods with the same ports of their node, or with a podAntiAffinity, cannot share a node:
    https://kubernetes.io/docs/concepts/configuration/overview/#services

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {kubernetes.io/hostname: n1}
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {mlgen.dev/job: example}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {nodeName: n1, hostNetwork: true}}
        roles: {worker: {replicas: 3}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {kubernetes.io/hostname: n1}
        network: {host: true}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1, n2]}]
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {mlgen.dev/job: example}}
        roles: {worker: {replicas: 2}}
    """
    nodes, count = node_count(pods), pods.count or 1
    if not nodes or nodes >= count:
        return
    several = f"the node selector matches {nodes} node{'s' * (nodes > 1)}"
    on_host = pods.spec.get("hostNetwork")
    ports = (port for each in pods.containers for port in each.data.get("ports") or ())
    if at := own_terms(pods, "podAntiAffinity"):
        message = (
            f"the podAntiAffinity requires a different node for each of {count} pods, but {several}"
        )
        hint = "remove the podAntiAffinity, or select more nodes"
        yield pods.error(at[0], message, hint)
    elif any(port.get("hostPort") or on_host for port in ports):
        message = f"{count} pods use the same ports of their node, but {several}"
        hint = (
            "select more nodes, or write network.host: true instead of hostNetwork, so that each"
            " pod has its own ports"
        )
        yield pods.error((), message, hint)


@of_objects
def crowded_node(job: Objects) -> Iterator[Located]:
    """Report pods that must be on one node, which cannot have all of their devices.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {mlgen.dev/job: example}}
        roles: {worker: {replicas: 3, resources: {nvidia.com/gpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {mlgen.dev/job: example}}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    """
    crowd = [p for p in job.pods if p.has_placement]
    crowd = [p for p in crowd if node_count(p) == 1 or own_terms(p, "podAffinity")]
    total: Counter[str] = Counter()
    for pods in crowd:
        for name, count in devices_of(pods).items():
            total[name] += count * (pods.count or 1)
    for name, count in total.items():
        most = natural(NODES["amounts"].get(name, "")) or count
        if count > most:
            number = sum(pods.count or 1 for pods in crowd)
            at, *_ = [*own_terms(crowd[0], "podAffinity"), (*POD, "nodeSelector")]
            message = (
                f"all {number} pods must be on one node, which would need {count} {name}: "
                f"the largest nodes have {most}"
            )
            hint = "remove the placement on one node, or use fewer replicas"
            yield crowd[0].warning(at, message, hint)


@of_pods.when("has_placement")
def unmatched_selector(pods: Pods) -> Iterator[Located]:
    """Report a selector for the job's own pods that matches none of them.

    Selectors of manifests for another operator have its labels. A podAffinity without such pods
    keeps the pods Pending. The other selectors have no effect.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          podAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {app: example}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {training.kubeflow.org/job-name: example}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {app: cache}}
        roles: {worker: {replicas: 2}}
    """
    spread = pods.spec.get("topologySpreadConstraints") or []
    path = (*POD, "topologySpreadConstraints")
    terms = [((*path, number), term, "constraint") for number, term in enumerate(spread)]
    terms += [(at, term, "") for at, term in _terms(pods, "podAffinity")]
    terms += [(at, term, "term") for at, term in _terms(pods, "podAntiAffinity")]
    for at, term, field in terms:
        selector, job = term.get("labelSelector"), pods.job
        if selector is None or any(_selects(selector, each) for each in job.pods):
            continue
        needed = [(key, values[0]) for key, operator, values in _requirements(selector) if values]
        label = next(
            (
                f"{key}: {value}"
                for key, value in needed
                if field == "constraint" or value == job.name or is_of_job(key)
            ),
            None,
        )
        if label:
            own = own_labels(needed, job.name, [pod_labels(each) for each in job.pods])
            effect = f"{field} has no effect" if field else "podAffinity can never be met"
            message = f"no pod of the job has the label {label}, so the {effect}"
            yield pods.warning(at, message, f"write {own}", "selector")


INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


@of_pods.when("has_placement")
def small_machine(pods: Pods) -> Iterator[Located]:
    """Report pods that request more than a node of the selected machine type has.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {node.kubernetes.io/instance-type: p3.2xlarge}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {beta.kubernetes.io/instance-type: a2-highgpu-4g}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {node.kubernetes.io/instance-type: g5.xlarge}
        roles: {worker: {replicas: 2, resources: {memory: 64Gi}}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions:
                - key: node.kubernetes.io/instance-type
                  operator: In
                  values: [g5.xlarge, g5.12xlarge]
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}
        roles: {worker: {replicas: 2, resources: {cpu: 190, memory: 2000Gi, nvidia.com/gpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {node.kubernetes.io/instance-type: gpu-box}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions:
                - key: node.kubernetes.io/instance-type
                  operator: In
                  values: [g5.xlarge, gpu-box]
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    """
    selector, terms = pods.node_selector, _node_terms(pods)
    for key in INSTANCE_TYPES:
        types = set().union(*(term.get(key, {""}) for term in terms))
        for name, amount in requested(pods).items():
            known = [most for each in types for most in [_capacity(each, name)] if most]
            most = max(known, key=parse, default="0")
            if len(known) == len(types) and parse(amount) > parse(most):
                message = (
                    f"a node of the type {' or '.join(sorted(types))} has {most} {name}, but"
                    f" a pod requests {amount}"
                )
                in_selector = ("nodeSelector", key), ("affinity", "nodeAffinity")
                at = (*POD, *in_selector[key not in selector])
                yield pods.warning(at, message, "change the resources or the node selector")
                return


def _capacity(type_: str, name: str) -> str:
    """Return the largest amount of a resource of a machine type; "" if it is not known."""
    for row in NODES["instances"]:
        match = re.fullmatch(row["type"], type_) if name in row else None
        if match:
            return times(row[name], int(match[1] or 1) if match.re.groups else 1)
    return ""


@of_pods.when("node_selector")
def other_accelerators(pods: Pods) -> Iterator[Located]:
    """Report nodes with other accelerators than the pods request, or with unused ones.

    Outside of GKE, containers can use GPUs without a request, if their runtime class is nvidia.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {nvidia.com/gpu.product: A100}
        roles: {worker: {replicas: 2, resources: {amd.com/gpu: 8}}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
        roles: {worker: {replicas: 2, resources: {cpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {nvidia.com/gpu.product: A100}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {nvidia.com/gpu.present: "true"}
        roles: {worker: {replicas: 2, resources: {cpu: 8}}}
    """
    spec, devices = pods.spec, devices_of(pods)
    for key in pods.node_selector:
        vendor = next((v for label, v in NODES["vendors"].items() if re.match(label, key)), "")
        at = (*POD, "nodeSelector", key)
        if vendor and devices and not any(name.startswith(vendor) for name in devices):
            message = f"nodes with the label {key} have no {next(iter(devices))}"
            yield pods.warning(at, message, "change the node selector or the resources")
        on_gke = key.startswith("cloud.google.com/gke-") and not spec.get("resourceClaims")
        if vendor and on_gke and not any(map(devices_of, pods.job.pods)):
            name = vendor + ("gpu" if vendor == "nvidia.com/" else "tpu")
            message = (
                f"the pods run on nodes with accelerators, by the label {key}, but request none"
            )
            hint = f"add {name} to resources, or remove the label"
            yield pods.warning(at, message, hint)
            return


ACCELERATOR = "cloud.google.com/gke-accelerator"
TPU_NAME = r"tpu(?!-v\d+e$|-v5e).*"
GPU_NAME = (
    r"(?!nvidia-(([kp]\d+|v100|t4|a100)(-40gb)?|h[12]00)$|nvidia-tesla-(l4|h\d+|a100-)"
    r"|[A-Z]|[atvlhkpb]\d).*"
)
"""Patterns of the values of these labels, without names of the Cloud TPU API and of GPUs."""

ARCHITECTURES = ("amd64", "arm64", "arm", "386", "ppc64le", "riscv64", "s390x")


@of_pods.when("node_selector")
def unknown_label(pods: Pods) -> Iterator[Located]:
    """Report a label that no node has with this value.

    The labels of GKE have other names than the Cloud TPU API, and Kubernetes has the names of Go:
    https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
    https://cloud.google.com/compute/docs/gpus
    https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-arch

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {cloud.google.com/gke-accelerator: nvidia-a100}
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    wrong:
        framework: jax
        command: [python, train.py]
        nodeSelector: {cloud.google.com/gke-tpu-accelerator: v5litepod-16}
        roles: {worker: {replicas: 4, resources: {google.com/tpu: 4}}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {kubernetes.io/arch: x86_64}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector:
          cloud.google.com/gke-accelerator: nvidia-h100-80gb
          kubernetes.io/arch: amd64
        roles: {worker: {replicas: 2, resources: {nvidia.com/gpu: 8}}}
    right:
        framework: jax
        command: [python, train.py]
        nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu8x-slice}
        roles: {worker: {replicas: 4, resources: {google.com/tpu: 4}}}
    """
    for key, value in pods.node_selector.items():
        at = (*POD, "nodeSelector", key)
        if key.endswith("kubernetes.io/arch") and value not in ARCHITECTURES:
            hint = choice(str(value), ARCHITECTURES)
            yield pods.warning(at, f'unknown value "{value}"', hint, "unknown-value")
        pattern = {ACCELERATOR: GPU_NAME, TPU: TPU_NAME}.get(key, ".*")
        if not re.fullmatch(pattern, str(value)):
            hint = "nvidia-l4, nvidia-tesla-a100, nvidia-a100-80gb or nvidia-h100-80gb"
            if key == TPU:
                hint = "tpu-v5-lite-podslice, tpu-v5p-slice, tpu-v6e-slice or tpu-v4-podslice"
            message = f"no node has this label with the value {value}"
            yield pods.warning(at, message, f"write a value such as {hint}", "bad-value")


@of_pods.when("node_selector")
def not_linux(pods: Pods) -> Iterator[Located]:
    """Report pods on nodes with another operating system, because mlgen's containers need Linux.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {kubernetes.io/os: windows}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        nodeSelector: {kubernetes.io/os: linux}
        roles: {worker: {replicas: 2}}
    """
    for key, value in pods.node_selector.items():
        if key.endswith("kubernetes.io/os") and value != "linux":
            message = f"the containers run on Linux, not on {value}"
            at = (*POD, "nodeSelector", key)
            found = pods.error(at, message, "write linux, or remove it")
            # A pod without containers of mlgen may have images for that system.
            yield found.as_warning(unless=bool(pods.spec.get("initContainers")))


@of_pods
def priority_number(pods: Pods) -> Iterator[Located]:
    """Report a priority as a number, with which the API server rejects the pod.

    The number must be the one of the pod's class: plugin/pkg/admission/priority/admission.go.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {priority: 1000}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {priority: 1000, priorityClassName: high}}
        roles: {worker: {replicas: 2}}
    """
    spec = pods.spec
    priority = spec.get("priority")
    if priority and not spec.get("priorityClassName"):
        message = (
            f"the admission plugin Priority rejects a pod with priority {priority} and"
            " without priorityClassName"
        )
        hint = "write priorityClassName, the name of a PriorityClass, instead of priority"
        yield pods.error((*POD, "priority"), message, hint)
