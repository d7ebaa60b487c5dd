"""The API group of an object, and whether Kubernetes itself serves it."""

import pytest

from mlgen.kubernetes.objects import group_kind, group_of, is_built_in


@pytest.mark.parametrize(
    ("api_version", "group"),
    [("v1", ""), ("batch/v1", "batch"), ("jobset.x-k8s.io/v1alpha2", "jobset.x-k8s.io")],
)
def test_the_group_of_an_api_version(api_version, group):
    assert group == group_of(api_version)


def test_an_object_has_a_group_and_a_kind():
    assert ("batch", "Job") == group_kind({"apiVersion": "batch/v1", "kind": "Job"})
    assert ("", "Pod") == group_kind({"apiVersion": "v1", "kind": "Pod"})


@pytest.mark.parametrize(
    "api_version",
    ["v1", "batch/v1", "apps/v1", "storage.k8s.io/v1", "apiextensions.k8s.io/v1", "policy/v1"],
)
def test_a_group_of_kubernetes_itself_is_built_in(api_version):
    assert is_built_in(api_version)


@pytest.mark.parametrize(
    "api_version",
    [
        "snapshot.storage.k8s.io/v1",
        "jobset.x-k8s.io/v1alpha2",
        "gateway.networking.k8s.io/v1",
        "kubeflow.org/v1",
        "batch.volcano.sh/v1alpha1",
        "batch.k8s.io/v1",
    ],
)
def test_a_group_of_a_custom_resource_is_not_built_in(api_version):
    assert not is_built_in(api_version)
