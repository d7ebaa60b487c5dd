"""The supervisor of a rendered job, on a control plane without kubelets, and failing pods."""

import json
import sys
import time
from base64 import b64decode

import yaml
from archives import LOADER, START

SUPERVISOR = f"""\
{LOADER}
import http.client, time
from mlgen.runtime import api
api.ACCOUNT = pathlib.Path(path).parent
send = http.client.HTTPSConnection.request
def request(self, method, path, *others):
    print(time.time(), method, path, file=sys.stderr, flush=True)
    return send(self, method, path, *others)
http.client.HTTPSConnection.request = request
{START}"""
"""Runs the program, and logs its requests."""


def kill(created, pod, code=137, of="containerStatuses"):
    """Report the exit of a pod's first container, or last init container, as a kubelet would."""
    statuses = created.get("pod", pod)["status"][of]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    end = {"exitCode": code, "reason": "Error", "finishedAt": now}
    number = 0 if of == "containerStatuses" else -1
    statuses[number] |= {"ready": False, "state": {"terminated": end}}
    report(created, pod, {"phase": "Failed", of: statuses})


def report(created, pod, status):
    """Change the status of a pod, as a kubelet would."""
    patch = json.dumps({"status": status})
    created.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", patch)


class Supervisor:
    """The supervisor of a job as a process, which logs its requests.

    Args:
        created: a Plane.
        job: its name.
        manifests: the rendered manifests, with its program and permissions.
    """

    def __init__(self, created, job, manifests):
        self.created, self.name = created, f"{job}-supervisor"
        self.folder = created.folder / self.name
        documents = {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(manifests)}
        self.folder.mkdir(parents=True, exist_ok=True)
        config = documents["ConfigMap", f"{job}.supervisor"]
        (self.folder / "plan.json").write_text(config["data"]["plan.json"])
        program = b64decode(config["binaryData"]["supervisor.pyz"])
        (self.folder / "supervisor.pyz").write_bytes(program)
        (self.folder / "namespace").write_text("default")
        certificate = (created.folder / "pki/ca.crt").read_text()
        (self.folder / "ca.crt").write_text(certificate)

    def start(self):
        """Start it as soon as its Job exists."""
        token = self.created.kubectl("create", "token", self.name, "--duration=4h")
        (self.folder / "token").write_text(token)
        host, port = self.created.address
        variables = {
            "MLGEN_PLAN": str(self.folder / "plan.json"),
            "MLGEN_RUN": self.created.get("job", self.name)["metadata"]["uid"],
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }
        # Without site-packages, as in its pod.
        command = [sys.executable, "-S", "-c", SUPERVISOR, str(self.folder / "supervisor.pyz")]
        self.process = self.created.run("supervisor", command, env=variables)

    def stop(self):
        """Kill it."""
        self.process.kill()
        self.process.wait()
