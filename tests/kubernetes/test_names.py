"""The names that Kubernetes accepts."""

import pytest

from mlgen.kubernetes import names
from mlgen.kubernetes.names import DNS_1035, DNS_1123, namespace

BAD = ["", "A", "a_b", "a.b", "-a", "a-", "a\n", "ä"]


def test_a_valid_namespace_is_returned():
    rows = ["a", "0", "team-a", "a--b", "a0", "a" * 63]

    assert rows == [namespace(name) for name in rows]


@pytest.mark.parametrize("name", [*BAD, "a" * 64])
def test_a_name_that_is_not_a_dns_label_is_not_a_namespace(name):
    message = f'"{name}" is not a valid namespace; use at most 63 lowercase letters, digits'
    with pytest.raises(ValueError, match=message):
        namespace(name)


def test_only_a_dns_1123_label_can_start_with_a_digit():
    rows = [
        *(("a", True, True), ("a-0", True, True), ("0", False, True), ("0a", False, True)),
        *((name, False, False) for name in BAD),
    ]

    assert [(dns_1035, dns_1123) for _, dns_1035, dns_1123 in rows] == [
        (bool(DNS_1035.match(name)), bool(DNS_1123.match(name))) for name, _, _ in rows
    ]


def test_labels_are_spelled_as_their_controllers_spell_them():
    rows = [
        ("JOB_INDEX", "batch.kubernetes.io/job-completion-index"),
        ("SET_INDEX", "apps.kubernetes.io/pod-index"),
        ("LAST_APPLIED", "kubectl.kubernetes.io/last-applied-configuration"),
        ("KUEUE_QUEUE", "kueue.x-k8s.io/queue-name"),
    ]

    assert [label for _, label in rows] == [getattr(names, name) for name, _ in rows]
