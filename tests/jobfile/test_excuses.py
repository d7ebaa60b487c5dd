"""Annotations that excuse the problems of a code in one job, and `Options.strict`."""

import pytest

import mlgen
from mlgen import MlgenError, Options

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert, annotations: ANNOTATIONS}
spec:
  framework: pytorch
  image: example/bert:1
  command: [torchrun, --nnodes=NODES, train.py]
  env: {HUB_TOKEN: VALUE}
  roles: {worker: {replicas: 2}}
"""

CUSTOM_RESOURCE = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, annotations: ANNOTATIONS}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: example/bert:1
            command: [torchrun, --nnodes=NODES, train.py]
            env: [{name: HUB_TOKEN, value: VALUE}]
"""

LAUNCH = "mlgen.dev/allow.launch: the image replaces torchrun"
SECRET = "mlgen.dev/allow.secret-in-env: it expires after an hour"


def problems(*annotations, text=JOB, nodes=3, value="hf_0123456789abcdef", **options):
    """Return the code of each problem of a job, and whether it is a warning."""
    text = text.replace("ANNOTATIONS", f"{{{', '.join(annotations)}}}")
    text = text.replace("NODES", str(nodes)).replace("VALUE", value)
    try:
        found = mlgen.validate(text, Options(**options)).warnings
    except MlgenError as error:
        found = error.problems
    return [(each.code, each.warning) for each in found if each.code != "differs"]


@pytest.mark.parametrize("text", [JOB, CUSTOM_RESOURCE])
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ([], [("secret-in-env", True), ("launch", False)]),
        ([LAUNCH], [("secret-in-env", True)]),
        ([SECRET], [("launch", False)]),
        ([LAUNCH, SECRET], []),
    ],
)
def test_a_job_excuses_the_problems_of_a_code(annotations, expected, text):
    assert problems(*annotations, text=text) == expected


def test_an_excuse_that_is_not_needed_is_no_problem():
    assert problems(LAUNCH, SECRET, nodes=2, value="from-the-vault", strict=True) == []


def test_strict_reports_warnings_as_errors():
    assert problems(nodes=2) == [("secret-in-env", True)]
    assert problems(nodes=2, strict=True) == [("secret-in-env", False)]
    assert problems(SECRET, nodes=2, strict=True) == []


def test_excuses_are_not_added_to_the_objects():
    text = JOB.replace("ANNOTATIONS", f"{{{SECRET}, team: vision}}").replace("NODES", "2")
    (service, *_) = mlgen.render(text)

    assert service["metadata"]["annotations"] == {"team": "vision"}
