"""A problem has the place of its value, also if the value is from `--set` or for all roles."""

import pytest
from support import job_file

from mlgen import MlgenError, Options, validate
from mlgen.documents.overrides import parse
from mlgen.jobfile.parser import origin

WRITTEN = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  framework: tensorflow
  roles:
    worker: {image: example/mnist:1, replicas: 2, command: [python, train.py]}
"""

RESOURCE = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: tensorflow, image: "example/mnist:1", command: [python, train.py]}]
"""


@pytest.mark.parametrize("text", [WRITTEN, RESOURCE], ids=["job file", "custom resource"])
@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        (
            "spec.roles.wroker.replicas=3",
            "roles.wroker",
            'unknown role "wroker"; did you mean "worker"? [unknown-role]',
        ),
        (
            "spec.roles.worker.args=[a, true]",
            "roles.worker.args[1]",
            """expected a string, got the boolean true; write a string: \
--set 'spec.roles.worker.args[1]="true"' [wrong-type]""",
        ),
        (
            "spec.roles.worker.env.TOKEN.valueFrom.secretKeyRef.name=hub",
            "roles.worker.env.TOKEN.valueFrom.secretKeyRef",
            'field "key" is missing; for example key: "token" [missing-field]',
        ),
        (
            "spec.roles.worker.tolerations=[{key: a, operator: Exists, value: b}]",
            "roles.worker.tolerations[0].value",
            """value is not allowed with operator: Exists; \
remove value, or write operator: Equal [combination]""",
        ),
    ],
)
def test_a_wrong_setting_is_reported_at_the_option(text, setting, path, message):
    with pytest.raises(MlgenError) as caught:
        validate(text, Options(settings=(parse(setting),)))

    assert f"--set: spec.{path}: {message}" == str(caught.value)


def test_a_wrong_value_for_all_roles_is_reported_once():
    spec = {"image": "Bad Image", "roles": {"worker": {}, "ps": {"image": "example/ps:1"}}}

    with pytest.raises(MlgenError) as caught:
        validate(job_file(framework="tensorflow", **spec))

    assert [("spec", "image")] == [problem.path for problem in caught.value.problems]


SPEC = {
    "image": "example/mnist:1",
    "env": {"LOG": "info"},
    "resources": {"cpu": 1},
    "template": {"spec": {"hostNetwork": True}},
    "roles": {
        "worker": {"env": {"SEED": "1"}, "resources": {"memory": "1Gi"}, "template": {"spec": {}}},
        "ps": {},
    },
}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("worker image", "image"),
        ("worker env LOG", "env LOG"),
        ("worker env SEED", "roles worker env SEED"),
        ("worker env", "roles worker env"),
        ("worker resources", "roles worker resources"),
        ("worker resources cpu", "roles worker resources cpu"),
        ("ps resources cpu", "resources cpu"),
        ("ps resources gpu", "resources gpu"),
        ("worker template spec hostNetwork", "template spec hostNetwork"),
        ("worker template spec dnsPolicy", "roles worker template spec dnsPolicy"),
        ("worker replicas", "roles worker replicas"),
        ("worker", "roles worker"),
        ("rank image", "image"),
        ("rank replicas", "roles"),
        ("rank", "roles"),
        ("", "roles"),
    ],
)
def test_a_value_of_a_role_is_its_own_or_that_of_all_roles(path, written):
    found = origin({"spec": SPEC}, ("spec", "roles", *path.split()))

    assert ("spec", *written.split()) == found
