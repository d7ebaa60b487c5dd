"""With `helpers.supervisorImage`, the image contains the program, and the job only the plan."""

import json

import pytest
from namespaces import PYTHON_IMAGE
from support import ROOT

pytestmark = pytest.mark.cluster

JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: imaged}
spec:
  framework: generic
  image: mlgen.test/ml:1
  roles:
    prepare: {command: [echo, prepared]}
    train:
      replicas: 2
      command: [echo, trained]
      waitFor: [{role: prepare, until: Complete}]
  successPolicy: {role: train}
"""

PACKAGES = "/usr/lib/python3/dist-packages/mlgen"
"""The path of packages for Debian's Python in the test image."""


def test_the_supervisor_of_an_image_starts_the_next_role(shared_namespace, here, tmp_path):  # noqa: ARG001
    (tmp_path / "job.yaml").write_text(JOB)
    options = ("--set", f"spec.helpers.supervisorImage={PYTHON_IMAGE}", "--format", "json")
    manifests = json.loads(shared_namespace.render(tmp_path / "job.yaml", *options))
    objects = {(item["kind"], item["metadata"]["name"]): item for item in manifests["items"]}
    assert ["plan.json"] == list(objects["ConfigMap", "imaged.supervisor"]["data"])
    # No image of the test cluster contains mlgen. The pods mount mlgen from this machine.
    pod = objects["Job", "imaged-supervisor"]["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "mlgen", "hostPath": {"path": str(ROOT / "mlgen")}})
    pod["containers"][0]["volumeMounts"].append({"name": "mlgen", "mountPath": PACKAGES})

    shared_namespace.kubectl("apply", "-f", "-", stdin=json.dumps(manifests))

    assert [["trained"], ["trained"]] == shared_namespace.completed("imaged-train")
    assert "Complete" == shared_namespace.ended("imaged-supervisor")["type"]
    assert "True" == shared_namespace.conditions("imaged")["Succeeded"][0]
