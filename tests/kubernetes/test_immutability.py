"""Which changes of an existing object the API server rejects."""

import pytest

from mlgen.kubernetes.immutability import MUTABLE_SPEC, RULES, Rule, is_within
from mlgen.kubernetes.updates import Update
from mlgen.kubernetes.versions import DEFAULT

UPDATE = Update({}, {}, {}, (), DEFAULT)
ALWAYS = Rule(("spec",), "").applies


@pytest.mark.parametrize(
    ("path", "outer", "within"),
    [
        (("spec", "selector"), ("spec", "selector"), True),
        (("spec", "selector", "matchLabels"), ("spec", "selector"), True),
        (("spec",), ("spec", "selector"), False),
        (("spec", "selectors"), ("spec", "selector"), False),
        (("spec", "[a]", "image"), ("spec", "[*]", "image"), True),
        (("spec", "a", "image"), ("spec", "[*]", "image"), False),
        (("spec", "[a]", "args"), ("spec", "[*]", "image"), False),
        (("spec",), (), True),
    ],
)
def test_a_path_is_within_itself_and_the_paths_that_contain_it(path, outer, within):
    assert within == is_within(path, outer)


@pytest.mark.parametrize(("group", "kind"), MUTABLE_SPEC)
def test_no_unconditional_rule_rejects_a_mutable_field(group, kind):
    rules = [rule for rule in RULES[group, kind] if rule.applies is ALWAYS and not rule.unless]
    mutable = [("spec", name) for name in MUTABLE_SPEC[group, kind]]

    assert rules
    assert [] == [
        (rule.path, path)
        for rule in rules
        for path in mutable
        if is_within(path, rule.path) and not any(is_within(path, e) for e in rule.exceptions)
    ]


@pytest.mark.parametrize("field", ["template", "selector", "completionMode", "podFailurePolicy"])
def test_other_fields_of_a_job_are_not_listed_as_mutable(field):
    assert field not in MUTABLE_SPEC["batch", "Job"]


@pytest.mark.parametrize(("group", "kind"), RULES)
def test_every_rule_has_a_reason_and_a_source_in_kubernetes(group, kind):
    for rule in RULES[group, kind]:
        assert rule.reason
        assert rule.source.startswith("pkg/apis/")


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (("batch", "Job"), "spec.selector"),
        (("apps", "Deployment"), "spec.selector"),
        (("apps", "DaemonSet"), "spec.selector"),
        (("apps", "ReplicaSet"), "spec.selector"),
        (("", "Secret"), "type"),
        (("rbac.authorization.k8s.io", "RoleBinding"), "roleRef"),
        (("rbac.authorization.k8s.io", "ClusterRoleBinding"), "roleRef"),
    ],
)
def test_a_field_never_changes(key, field):
    assert any(
        rule.path == tuple(field.split(".")) and not rule.unless and rule.applies(UPDATE)
        for rule in RULES[key]
    )


def test_custom_resources_have_no_rules():
    assert ("kubeflow.org", "TFJob") not in RULES
