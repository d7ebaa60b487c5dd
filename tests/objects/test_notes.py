"""Comments at the ends of lines that a reviewer asks about."""

import json
import re

import pytest
from support import BERT, load_all
from support import manifests_text as manifests

from mlgen import Options, render, validate
from mlgen.documents.files import Text
from mlgen.integrations.argo import Form, argo
from mlgen.output.folder import pieces

GANG = f"{BERT}  runPolicy: {{restartScope: All}}\n"
ORDER = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: llm}
spec:
  framework: generic
  image: example/llm:1
  command: [train]
  roles:
    prepare: {}
    train: {replicas: 2, waitFor: [{role: prepare, until: Complete}]}
  successPolicy: {role: train}
"""
SERVER = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: ctr}
spec:
  framework: tensorflow
  image: example/ctr:1
  command: [train]
  roles: {ps: {replicas: 2}, chief: {}}
"""
OPERATOR = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers: [{name: pytorch, image: "example/bert:1", command: [torchrun, train.py]}]
"""


def rendered(text, **options):
    return manifests(validate(text, Options(**options)).parts, "yaml")


def comments(text):
    """Return each line with a comment at its end, without its indentation."""
    return [line.strip() for line in text.splitlines() if re.match(r" +\w+: \w+  # ", line)]


OF_SUPERVISOR = "backoffLimit: 100  # failures of the supervisor itself, not of training"
PAUSED = "suspend: true  # as in the input; render without suspend to start"


@pytest.mark.parametrize(
    ("job", "options", "expected"),
    [
        (BERT, {}, ["backoffLimit: 0  # no retries: the role's restartPolicy is Never"]),
        (f"{BERT}  runPolicy: {{backoffLimit: 3}}\n", {}, []),
        (
            GANG,
            {},
            [
                "backoffLimitPerIndex: 2147483647  # no limit: the supervisor counts the restarts",
                OF_SUPERVISOR,
            ],
        ),
        (GANG, {"jobset": True}, ["backoffLimit: 0  # JobSet counts the restarts"]),
        (
            ORDER,
            {},
            [
                "backoffLimit: 0  # no retries: the role's restartPolicy is Never",
                "suspend: true  # the supervisor resumes it when prepare is complete",
                "backoffLimit: 0  # no retries: the role's restartPolicy is Never",
                OF_SUPERVISOR,
            ],
        ),
        (
            f"{SERVER}  runPolicy: {{suspend: true, cleanPodPolicy: None}}\n",
            {},
            [
                "replicas: 0  # as in the input; render without suspend to start",
                PAUSED,
                "backoffLimit: 0  # no retries: the role's restartPolicy is Never",
                PAUSED,
                OF_SUPERVISOR,
            ],
        ),
        (OPERATOR, {}, ["backoffLimit: 2147483647  # no limit"]),
    ],
)
def test_comments(job, options, expected):
    assert expected == comments(rendered(job, **options))


def test_a_long_condition_is_shortened():
    name = "a" * 40
    lines = comments(rendered(ORDER.replace("prepare", name)))

    assert "suspend: true  # the supervisor resumes it in order" in lines


def test_all_outputs_have_the_comments_but_not_the_data():
    job = validate(GANG).jobs[0]
    whole = rendered(GANG)
    folder = "".join(piece.before + (piece.after or "") for piece in pieces(job))
    output, _ = argo([Text("job.yaml", ORDER)], Options(workflow=True), Form())

    assert comments(whole) == comments(folder)
    assert [
        "backoffLimit: 0  # the workflow counts the restarts",
        "suspend: true  # the workflow resumes it when prepare is complete",
    ] == [line for line in comments("".join(output)) if "workflow" in line][:2]
    assert render(GANG) == load_all(whole)
    assert "counts the restarts" not in json.dumps(render(GANG))


def test_many_similar_jobs_have_the_same_comments_as_one():
    """The texts of similar objects are copied."""
    job = SERVER.replace("tensorflow", "xgboost").replace("ps: {replicas: 2}, chief: {}", "ROLES")
    small, large = (
        rendered(job.replace("ROLES", f"master: {{}}, worker: {{replicas: {count}}}"))
        for count in (2, 40)
    )

    assert set(comments(small)) == set(comments(large))
    assert large.count("\n  backoffLimit: 0\n") == 0


def test_objects_that_pass_through_unchanged_have_no_comments():
    text = rendered(GANG)
    (supervisor,) = [doc for doc in text.split("---\n") if "backoffLimit: 100" in doc]
    plain = re.sub("  # .*", "", supervisor).replace("bert", "other")

    assert f"---\n{plain}" == rendered(plain)


def test_no_line_is_long():
    assert all(len(line) < 100 for job in (GANG, ORDER) for line in comments(rendered(job)))
