"""The sidecar reads the progress file in the volume to which the program writes it."""

from itertools import permutations

import pytest

import mlgen

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama}
spec:
  framework: pytorch
  image: example/llama:2
  command: [torchrun, train.py]
  roles: {worker: {replicas: 2}}
  volumes: {VOLUMES}
  runPolicy: {restartScope: All, progress: {stalledSeconds: 600, file: /out/run/progress.json}}
"""

PATHS = {"out": "/out", "run": "/out/run", "runs": "/out/runs"}


@pytest.mark.parametrize("names", list(permutations(PATHS)), ids=",".join)
def test_it_mounts_the_innermost_volume_that_contains_the_file(names):
    volumes = ", ".join(f"{name}: {{mountPath: {PATHS[name]}, pvc: a}}" for name in names)

    objects = mlgen.render(JOB.replace("VOLUMES", volumes))

    (pod,) = [
        each["spec"]["template"]["spec"]
        for each in objects
        if each["metadata"]["name"] == "llama-worker"
    ]
    (sidecar,) = [each for each in pod["initContainers"] if each["name"] == "supervised"]
    mounts = [each for each in sidecar["volumeMounts"] if each["mountPath"].startswith("/out")]
    assert [{"name": "run", "mountPath": "/out/run", "readOnly": True}] == mounts
