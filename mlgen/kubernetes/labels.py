"""Labels and annotations that Kubernetes, kubectl and Kueue read or write."""

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
SET_INDEX = "apps.kubernetes.io/pod-index"
"""Labels in which the Job and the StatefulSet controller write the index of a pod:
https://kubernetes.io/docs/reference/labels-annotations-taints/."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which a client-side `kubectl apply` keeps what it applied."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label that names the LocalQueue of a workload: https://kueue.sigs.k8s.io/docs/tasks/run/."""
