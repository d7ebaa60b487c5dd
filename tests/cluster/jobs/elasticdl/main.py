"""Replaces elasticdl.python.master.main: one worker starts, works and ends."""

import argparse
import json
import subprocess

parser = argparse.ArgumentParser()
for name in ("job_name", "namespace", "worker_image", "worker_resource_request"):
    parser.add_argument(f"--{name}", required=True)
asked, _ = parser.parse_known_args()
name = f"elasticdl-{asked.job_name}-worker-0"
resources = dict(item.split("=") for item in asked.worker_resource_request.split(","))


def kubectl(*words, given=None):
    command = ["kubectl", "-n", asked.namespace, *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    return done.stdout.strip()


worker = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": name, "labels": {"elasticdl-replica-type": "worker"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "worker",
                "image": asked.worker_image,
                "command": ["echo", "hello from worker 0"],
                "resources": {"requests": resources},
            }
        ],
    },
}
kubectl("create", "-f", "-", given=json.dumps(worker))
print("made", name, "of", asked.worker_image, "with", asked.worker_resource_request)
kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
print("it", kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"))
kubectl("delete", "pod", name, "--wait=true")
left = json.loads(kubectl("get", "pods", "-l", "elasticdl-replica-type=worker", "-o", "json"))
print("pods:", left["items"])
print("secrets:", kubectl("auth", "can-i", "list", "secrets"))
