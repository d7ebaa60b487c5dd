"""Names in Kubernetes: their syntax and length, names of hosts in texts, labels and annotations.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/

DNS resolves `<pod>.<subdomain>[.<namespace>[.svc[.<domain>]]]` and
`<Service>[.<namespace>[.svc[.<domain>]]]`:
https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
"""

import re
from collections.abc import Iterable

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
DNS_1035_WORDS = (
    "lowercase letters, digits and dashes; start with a letter, and do not end with a dash"
)
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")

LABEL_MAX = 63
"""The maximum length of a DNS label, and so of the name of a Service and of a pod's host name."""

STATEFUL_SET_MAX = 52
"""The maximum length of a StatefulSet's name.

The controller adds `-` and ten characters for the label controller-revision-hash:
https://github.com/kubernetes/kubernetes/issues/64023.
"""


JOB_INDEX = "batch.kubernetes.io/job-completion-index"
SET_INDEX = "apps.kubernetes.io/pod-index"
"""The labels with a pod's index, set by the Job controller and the StatefulSet controller:
https://kubernetes.io/docs/reference/labels-annotations-taints/."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which client-side `kubectl apply` stores the manifest it applied."""

KUEUE = "kueue.x-k8s.io/"
"""The prefix of Kueue's labels, such as priority-class and max-exec-time-seconds:
https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label with the name of a workload's LocalQueue: https://kueue.sigs.k8s.io/docs/tasks/run/."""

KUEUE_PRIORITY = "kueue.x-k8s.io/priority-class"
"""The label with the name of a workload's WorkloadPriorityClass:
https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/."""


def namespace(text: str) -> str:
    """Return a namespace's name unchanged.

    Raises:
        ValueError: Kubernetes does not accept it as the name of a namespace.
    """
    if DNS_1123.match(text) and len(text) <= LABEL_MAX:
        return text
    raise ValueError(
        f'"{text}" is not a valid namespace; use at most {LABEL_MAX} lowercase letters, digits and'
        " dashes, with a letter or digit at both ends"
    )


LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"

NUMBER, RANGE = r"0|[1-9]\d{0,8}", r"\[\d{1,9}-\d{1,9}\]"

PLACEHOLDER = r"\$\([^()]*\)|\$\{[^{}]*\}|\$\w+|\{[^{}]*\}|%[ds]|(?=[\"'`\s,]|\Z)"
"""A placeholder that a program or shell replaces with the index; empty if it appends the index."""


TEXTS = (
    *("command", "args", "env", "annotations"),
    *("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"),
)
"""The fields of a pod template that may contain host names.

In other fields, such a name may refer to a PersistentVolumeClaim or Secret.
"""


def host_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the host names `<name>-<index>`, with or without a domain and a port.

    A name in a path, or in a longer name, does not match. The groups are `name`, `index` (a number,
    a range `[0-3]`, or a `PLACEHOLDER`), `domain` (starting with the first dot, or "") and `port`.

    Args:
        names: host names without the dash and the index.
    """
    any_name = "|".join(map(re.escape, sorted(names))) or "(?!)"
    return re.compile(
        rf"(?:(?P<url>(?<=//))|(?<![\w./)}}-]))(?P<name>{any_name})-"
        rf"(?P<index>{NUMBER}|{RANGE}|{PLACEHOLDER})(?P<domain>(?:\.{LABEL})*)\.?"
        r"(?::(?P<port>\d{1,9}))?(?!\.?[\w-])(?(url)|(?!/))"
    )


def names_service(match: re.Match[str], subdomain: str, namespace: str | None) -> bool:
    """Return whether a host name belongs to a Service, not to a pod.

    Args:
        match: a match of `host_pattern`.
        subdomain: the subdomain of the pods.
        namespace: the namespace of the Service; None if unknown. Then, a single label after the
            name is a namespace only if a port follows. Otherwise it may be a file extension.
    """
    labels = match["domain"].split(".")[1:]
    if len(labels) == 1 and labels != [subdomain]:
        return labels == [namespace] if namespace else bool(match["port"])
    return not labels or labels[1:2] == ["svc"]


def indexes(text: str, count: int) -> range:
    """Return the indexes that an `index` of `host_pattern` matches.

    Args:
        text: a number, a range, or a placeholder, which matches all replicas.
        count: the number of replicas.
    """
    if text.isdecimal():
        return range(int(text), int(text) + 1)
    if text.startswith("["):
        first, last = text[1:-1].split("-")
        return range(int(first), int(last) + 1)
    return range(count)
