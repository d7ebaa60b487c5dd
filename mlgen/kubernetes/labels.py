"""The labels and annotations that Kubernetes, kubectl and Kueue read or write."""

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
