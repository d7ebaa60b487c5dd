"""Warnings about API permissions that are broader than the job needs."""

import pytest
from support import ROOT

from mlgen import pipeline
from mlgen.documents.files import Text
from mlgen.result import Options

JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: cfd}}
spec:
  framework: mpi
  image: example/cfd:1
  imagePullPolicy: Always
  {account}
  options: {{transport: {transport}}}
  roles: {{launcher: {{command: [mpirun, -np, "2", ./cfd]}}, worker: {{replicas: 2}}}}
"""


def warnings(text):
    result = pipeline.render([Text("job.yaml", text)], Options())
    return [problem for problem in result.warnings if problem.code == "rights"]


@pytest.mark.parametrize(
    ("account", "transport", "lines"),
    [
        ("serviceAccountName: default", "kubectl-exec", [9]),
        ("serviceAccountName: robot", "kubectl-exec", []),
        ("", "kubectl-exec", []),
        ("serviceAccountName: default", "ssh, sshSecret: keys", []),
    ],
)
def test_rights_of_the_default_account_are_those_of_all_pods(account, transport, lines):
    found = warnings(JOB.format(account=account, transport=transport))

    assert lines == [problem.place.line for problem in found]
    for problem in found:
        assert problem.message.startswith("launcher grants its permissions to all pods")


def test_whoever_creates_pods_can_do_everything_in_the_namespace():
    (problem,) = warnings((ROOT / "fixtures/elasticdl.yaml").read_text())

    assert problem.path == ("spec", "roles", "master")
    assert "use every Secret and ServiceAccount of its namespace" in problem.message


def test_whoever_deletes_pods_may_start_two_with_the_same_name():
    (problem,) = warnings((ROOT / "fixtures/tensorflow-force-delete.yaml").read_text())

    assert problem.path == ("spec", "runPolicy", "forceDeleteAfterSeconds")
    assert "two pods with the same name" in problem.message


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
