"""`mlgen verify` finds objects that the API server rejects because of their structure."""

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main

MANIFESTS = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a-ps, labels: {mlgen.dev/job: a}}
spec:
  template:
    spec:
      containers: [{name: main, imag: x}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a.config, labels: {mlgen.dev/job: a}}
data: {port: 2222}
---
apiVersion: example.com/v1
kind: PodGroup
metadata: {name: a, labels: {mlgen.dev/job: a}}
spec: {anything: true}
"""


EXPECTED = """\
<stdin>:5:3: a: StatefulSet a-ps: spec: field "selector" is missing [missing-field]
<stdin>:7:39: a: StatefulSet a-ps: spec.template.spec.containers[0].imag: unknown field "imag"; \
did you mean "image"? [unknown-field]
<stdin>:12:14: a: ConfigMap a.config: data.port: expected a string, got the number 2222; \
quote it: '2222' [wrong-type]
"""


def verify(text, *options):
    result = CliRunner().invoke(main, ["verify", "-", *options], input=text, catch_exceptions=False)
    return result.stdout.splitlines()


def test_each_violation_is_reported_once_with_its_place_and_object():
    """A missing field, or a value of a wrong type, is not also reported as malformed."""
    lines = [line for line in verify(MANIFESTS) if "[malformed]" not in line]

    assert EXPECTED.splitlines() == lines


@pytest.mark.parametrize(("version", "count"), [("1.34", 1), ("1.35", 0)])
def test_the_version_decides_which_fields_exist(version, count, render):
    text = render(ROOT / "fixtures/tensorflow-single.yaml")
    text = text.replace("      containers:", "      hostnameOverride: a\n      containers:", 1)

    lines = verify(text, "--kube-version", version)

    assert count == sum("hostnameOverride requires Kubernetes 1.35, not" in line for line in lines)
