"""Labels and annotations of Kubernetes, kubectl and Kueue."""

import pytest

from mlgen.kubernetes import labels


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("JOB_INDEX", "batch.kubernetes.io/job-completion-index"),
        ("SET_INDEX", "apps.kubernetes.io/pod-index"),
        ("LAST_APPLIED", "kubectl.kubernetes.io/last-applied-configuration"),
        ("KUEUE_QUEUE", "kueue.x-k8s.io/queue-name"),
    ],
)
def test_labels_are_spelled_as_their_controllers_spell_them(name, label):
    assert label == getattr(labels, name)
