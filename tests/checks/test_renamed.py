"""Objects that kustomize has renamed, but to which a job refers by the old name."""

import pytest

from mlgen import Options
from mlgen.documents.files import Text
from mlgen.pipeline import attempt

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: %s, namespace: vision}
spec:
  framework: pytorch
  image: example/mnist:1
  command: [torchrun, train.py]
  envFrom: [{secretRef: {name: hub}}]
  env: {MODEL: {valueFrom: {configMapKeyRef: {name: settings, key: model}}}}
  volumes: {data: {mountPath: /data, pvc: mnist}}
  roles: {worker: {replicas: 2, preflight: {command: [check], envFrom: [{secretRef: {name: hub}}]}}}
"""
RESOURCE = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: %s}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - {name: pytorch, image: i, command: [python, t.py], envFrom: [{secretRef: {name: hub}}]}
          volumes: [{name: d, persistentVolumeClaim: {claimName: mnist}}]
"""


def named(kind, name, namespace="vision"):
    metadata = f"{{name: {name}, namespace: {namespace}}}"
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {metadata}\n"


def warnings(*documents):
    result = attempt([Text("all.yaml", "---\n".join(documents))], Options())
    assert not result.errors
    return [each for each in result.problems if "instead of" in each.message]


GENERATED = "-fd9k8cktfk"


@pytest.mark.parametrize(
    ("job", "kind", "name", "path"),
    [
        ("mnist", "Secret", f"hub{GENERATED}", "spec/envFrom/secretRef/name"),
        ("dev-mnist", "Secret", f"dev-hub{GENERATED}", "spec/envFrom/secretRef/name"),
        ("dev-mnist-b", "Secret", "dev-hub-b", "spec/envFrom/secretRef/name"),
        ("mnist-b", "ConfigMap", "settings-b", "spec/env/MODEL/valueFrom/configMapKeyRef/name"),
        ("dev-mnist", "PersistentVolumeClaim", "dev-mnist", "spec/volumes/data/pvc"),
    ],
)
def test_a_renamed_object_is_named_with_the_field_to_configure(job, kind, name, path):
    found = warnings(JOB % job, named(kind, name))

    for warning in found:
        assert f"the input has the {kind} {name} instead of " in warning.message
        assert (warning.warning, warning.code) == (True, "reference")
    fields = [path, *(["spec/roles/worker/preflight/envFrom/secretRef/name"] * (kind == "Secret"))]
    assert sorted(warning.hint for warning in found) == sorted(
        f"add {{path: {field}}} to nameReference for {kind} in the configurations of the"
        " kustomization"
        for field in fields
    )


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("Secret", "dev-hub", "containers/envFrom/secretRef/name"),
        ("PersistentVolumeClaim", "dev-mnist", "volumes/persistentVolumeClaim/claimName"),
    ],
)
def test_the_field_of_a_custom_resource_is_the_one_in_the_input(kind, name, path):
    (warning,) = warnings(RESOURCE % "dev-mnist", named(kind, name, ""))

    field = f"spec/pytorchReplicaSpecs/Worker/template/spec/{path}"
    assert f"add {{path: {field}}} to" in warning.hint


@pytest.mark.parametrize(
    "others",
    [
        [],  # it may exist in the cluster
        [named("Secret", "hub"), named("Secret", f"hub{GENERATED}")],
        [named("ConfigMap", f"hub{GENERATED}")],
        [named("Secret", "hub-token")],  # the name of the job has no such prefix or suffix
        [named("Secret", "dev-hub", "nlp")],
        [named("Secret", "github")],
    ],
)
def test_other_objects_are_no_warning(others):
    assert warnings(JOB % "dev-mnist", *others) == []


def test_an_object_that_another_job_refers_to_is_not_renamed():
    """`dev-hub` is meant for the second job, and `hub` exists in the cluster."""
    other = (JOB % "other").replace("{name: hub}", "{name: dev-hub}")

    assert warnings(JOB % "dev-mnist", other, named("Secret", "dev-hub")) == []
    deployment = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {imagePullSecrets: [{name: dev-hub}]}}}
"""
    assert warnings(JOB % "dev-mnist", deployment, named("Secret", "dev-hub")) == []


def test_the_warning_can_be_excused():
    job = JOB.replace("namespace: vision", 'annotations: {mlgen.dev/allow.reference: "in place"}')

    assert warnings(job % "mnist", named("Secret", f"hub{GENERATED}", "")) == []
