"""The syntax and length of names in Kubernetes, and the labels and annotations of its programs.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import re

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
