"""The labels and annotations that Kubernetes, kubectl and Kueue read or write."""

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
SET_INDEX = "apps.kubernetes.io/pod-index"
"""The labels with a pod's index, set by the Job controller and the StatefulSet controller:
https://kubernetes.io/docs/reference/labels-annotations-taints/."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which client-side `kubectl apply` stores the manifest it applied."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label with the name of a workload's LocalQueue: https://kueue.sigs.k8s.io/docs/tasks/run/."""
