"""Roles whose pods may start on a node that failed, although the user requires other nodes."""

import pytest

from mlgen import pipeline
from mlgen.documents.files import Text
from mlgen.kubernetes.versions import KubeVersion
from mlgen.result import Options

JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: ddp}}
spec:
  framework: tensorflow
  image: example/ddp:1
  command: [python, train.py]
  affinity: {affinity}
  roles: {{{roles}worker: {{replicas: 2}}}}
  runPolicy: {{restartScope: {scope}, avoidNodes: {word}}}
"""
REQUIRED = (
    "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"
)
TERM = REQUIRED % "{matchExpressions: [{key: gpu, operator: In, values: [a, b]}]}"
FIELD = REQUIRED % "{matchFields: [{key: metadata.name, operator: %s, values: [a]}]}"
CASES = {
    "without affinity": ("{}", "", "All", "Required", []),
    "own terms": (TERM, "", "All", "Required", ["the node affinity of worker"]),
    "own terms of a preference": (TERM, "", "All", "Preferred", []),
    "own terms for no gang": (TERM, "ps: {}, ", "[ps]", "Required", ["ps is a StatefulSet"]),
    "one of these nodes": (FIELD % "In", "", "All", "Required", ["the node affinity of worker"]),
    "not on these nodes": (FIELD % "NotIn", "", "All", "Required", ["Required and NotIn"]),
    "servers": ("{}", "ps: {}, ", "All", "Required", ["ps is a StatefulSet"]),
    "servers outside of the gang": ("{}", "ps: {}, ", "[worker]", "Required", []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_role_that_does_not_avoid_nodes_is_reported(case):
    affinity, roles, scope, word, expected = CASES[case]
    text = JOB.format(affinity=affinity, roles=roles, scope=scope, word=word)

    result = pipeline.attempt([Text("job.yaml", text)], Options(kube_version=KubeVersion(1, 36)))

    found = result.problems
    assert len(expected) == len(found)
    for problem, start in zip(found, expected, strict=True):
        assert problem.message.startswith(start)
        assert problem.path == ("spec", "runPolicy", "avoidNodes")
