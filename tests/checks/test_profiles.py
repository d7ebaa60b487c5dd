"""Templates that a Pod Security profile does not allow."""

import pytest

from mlgen import pipeline
from mlgen.documents.files import Text
from mlgen.result import Options

ESCAPES = {
    "initContainers: [{name: x, image: y, securityContext: {privileged: true}}]": "privileged",
    "hostPID: true": "privileged",
    "volumes: [{name: h, hostPath: {path: /}}]": "privileged",
    "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}": "privileged",
    "securityContext: null": "baseline",
    "hostUsers: false, containers: [{name: main, securityContext: {runAsUser: 0}}]": "baseline",
    "os: {name: windows}, containers: [{name: main, securityContext: {runAsUser: 0}}]": "baseline",
}
"""A field of a template, and the strictest profile that allows it."""


@pytest.mark.parametrize("spec", ESCAPES)
def test_a_template_cannot_escape_the_profile(spec):
    text = f"""
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: bert}}
spec:
  framework: pytorch
  image: example/bert:1
  command: [torchrun, train.py]
  security: {{profile: restricted, runAsUser: 1000}}
  roles: {{worker: {{}}}}
  template: {{spec: {{{spec}}}}}
"""
    found = pipeline.attempt([Text("job.yaml", text)], Options()).problems

    assert [f"set profile: {ESCAPES[spec]}"] == [
        problem.hint.partition(", or ")[2] for problem in found if problem.code == "profile"
    ][:1]
