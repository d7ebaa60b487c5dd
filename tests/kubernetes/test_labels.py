"""Labels and annotations of Kubernetes, kubectl and Kueue."""

from mlgen.kubernetes import labels


def test_labels_are_spelled_as_their_controllers_spell_them():
    rows = [
        ("JOB_INDEX", "batch.kubernetes.io/job-completion-index"),
        ("SET_INDEX", "apps.kubernetes.io/pod-index"),
        ("LAST_APPLIED", "kubectl.kubernetes.io/last-applied-configuration"),
        ("KUEUE_QUEUE", "kueue.x-k8s.io/queue-name"),
    ]

    assert [label for _, label in rows] == [getattr(labels, name) for name, _ in rows]
