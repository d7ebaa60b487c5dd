"""The summary names the fields that a second `kubectl apply` would restore."""

import pytest
from support import each_file, load_all

from mlgen import Options
from mlgen.documents.files import Text
from mlgen.output.manifests import summary
from mlgen.pipeline import render

HEAD = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: a%s}
spec:
  image: i
  command: [python, t.py]
"""
ORDER = """\
  framework: generic
  roles: {prepare: {}, worker: {replicas: 2, waitFor: [{role: prepare, until: Complete}]}}
  successPolicy: {role: worker}
"""
SERVERS = """\
  framework: tensorflow
  roles: {chief: {}, ps: {replicas: 2%s}, worker: {replicas: 2}}
  runPolicy: {cleanPodPolicy: %s}
"""
ELASTIC = """\
  framework: pytorch
  command: [torchrun, t.py]
  options: {elasticPolicy: {minReplicas: 1, maxReplicas: 8}}
  roles: {worker: {replicas: 4}}
"""
QUEUE = """\
  framework: jax
  roles: {worker: {replicas: 4, resources: {cpu: 1}}}
  scheduling: {gang: kueue, queue: q}
"""
PARTIAL = ', annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}'
AS_JOB = ", restartPolicy: OnFailure"
START = "apply with kubectl apply --server-side: otherwise, applying again "


def the_job(spec, metadata="", **options):
    text = HEAD.replace("  command: [python, t.py]\n", "") if "command" in spec else HEAD
    (job,) = render([Text("job.yaml", text % metadata + spec)], Options(**options)).jobs
    return job


@pytest.mark.parametrize(
    ("spec", "metadata", "effect"),
    [
        (ORDER, "", "stops and restarts worker"),
        (SERVERS % ("", "Running"), "", "restarts ps after training"),
        (SERVERS % ("", "None"), "", ""),
        (SERVERS % (AS_JOB, "Running"), "", ""),  # a Job, which the supervisor suspends
        (ELASTIC, "", "scales worker back to 4"),
        (QUEUE, "", ""),
        (QUEUE, PARTIAL, "scales worker back to 4"),
    ],
)
def test_the_summary_names_what_a_client_side_apply_restores(spec, metadata, effect):
    job = the_job(spec, metadata)

    assert job.reapply == (f"{START}{effect}" if effect else "")
    assert (effect in summary(job)) is True


@pytest.mark.parametrize("options", [{"target": "argocd"}, {"target": "flux"}, {"jobset": True}])
def test_tools_that_apply_a_job_have_their_own_settings(options):
    assert the_job(ORDER, **options).reapply == ""


@each_file("^  suspend: true")
def test_every_suspended_job_is_named(file, text):
    """Only the supervisor resumes a Job that the input does not suspend."""
    if "suspend: true" in file.read_text():
        return
    items = [item for item in load_all(text) if item["kind"] == "Job"]
    roles = [item["metadata"]["labels"]["mlgen.dev/role"] for item in items if is_suspended(item)]
    for role in roles:
        assert role == "kueue" or role in text.partition(START)[2].partition("apiVersion")[0]


def is_suspended(item):
    return item["spec"].get("suspend")
