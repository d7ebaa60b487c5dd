"""Service accounts, Roles and RoleBindings."""

import pytest
from objects.samples import job

from mlgen.objects.security import access, policy_rule

META = {"name": "mnist-launcher", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    ("names", "limit"), [((), {}), (("mnist-0",), {"resourceNames": ["mnist-0"]})]
)
def test_a_rule_without_names_applies_to_all_objects(names, limit):
    assert policy_rule("apps", ("deployments",), ("get", "list"), names) == {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        **limit,
        "verbs": ["get", "list"],
    }


def test_an_account_of_the_job_is_created_with_its_role_and_binding():
    rule = policy_rule("", ["pods"], ["get"])

    account, role, binding = access(job(), META, "mnist-launcher", [rule])

    assert account == {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": META}
    assert role == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": META,
        "rules": [rule],
    }
    assert binding == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": META,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "mnist-launcher",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "mnist-launcher"}],
    }


def test_an_account_of_the_user_is_bound_but_not_created():
    role, binding = access(job(namespace="ml"), META, "trainer", [])

    assert role["kind"] == "Role"
    assert binding["roleRef"]["name"] == "mnist-launcher"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trainer", "namespace": "ml"}]
