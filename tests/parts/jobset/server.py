"""JobSet's controller and webhooks on a control plane. KWOK simulates nodes and pods."""

import json
import shutil

import yaml
from parts.kueue.server import STAGES, called_at, certificate, is_open
from parts.kueue.tenant import Tenant
from parts.plane import play
from parts.programs import module, part
from support import free_ports

MODULE = "sigs.k8s.io/jobset@v0.12.0"


def start(created, *, nodes=True):
    """Start JobSet on a Plane, and wait until its webhooks are called.

    Args:
        created: a Plane.
        nodes: True to simulate nodes.
    """
    jobset, components = part("jobset"), module(MODULE) / "config/components"
    if nodes:
        play(created, 4, {"cpu": "8", "memory": "64Gi", "pods": "110"}, STAGES)
    created.define(str(components / "crd/bases"))
    folder, (port,) = created.folder / "jobset", free_ports(1)
    folder.mkdir()
    for name in ("crt", "key"):
        shutil.copy(created.folder / f"pki/api.{name}", folder / f"tls.{name}")
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": port, "certDir": str(folder)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    }
    (folder / "configuration.yaml").write_text(yaml.safe_dump(configuration))
    created.kubectl("create", "namespace", "jobset-system")
    created.run("jobset", ["nice", jobset, f"--config={folder / 'configuration.yaml'}"])
    created.until(lambda: is_open(port), seconds=300)
    documents = yaml.safe_load_all((components / "webhook/manifests.yaml").read_text())
    items = [called_at(port, certificate(created), each) for each in documents]
    for item in items:  # Kueue's have the same names
        item["metadata"]["name"] = f"jobset-{item['metadata']['name']}"
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    created.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))


class Team(Tenant):
    """A namespace without a queue, in which jobs are JobSets."""

    def __init__(self, created, name):
        self.created, self.name = created, name
        created.kubectl("create", "namespace", name)

    def apply(self, job):
        """Apply a job file as a JobSet."""
        manifests = self.mlgen("render", "--as", "jobset", job=job)
        self.kubectl("apply", "-f", "-", stdin=manifests)

    def clear(self):
        """Delete all jobs, and wait until their pods are deleted from the nodes."""
        self.kubectl("delete", "jobsets", "--all")
        self.until(lambda: not self.listed("pods"))

    def jobset(self, name):
        """Return a JobSet."""
        return json.loads(self.kubectl("get", "jobset", name, "-o", "json"))

    def state(self, name):
        """Return the final state of a JobSet, "" while it runs, and its number of restarts."""
        status = self.jobset(name).get("status", {})
        return status.get("terminalState", ""), status.get("restarts", 0)

    def fail(self, job, role, code=1, **status):
        """End a running pod of a role with an exit code, or with another status."""
        pods = (
            pod for pod in self.pods(job) if pod["metadata"]["labels"]["mlgen.dev/role"] == role
        )
        pod = next(pod for pod in pods if pod["status"]["phase"] == "Running")
        containers = pod["status"]["containerStatuses"]
        state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": None}}
        ended = [each | {"state": state, "ready": False} for each in containers]
        status = {"phase": "Failed", "containerStatuses": ended, **status}
        words = ("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge")
        self.kubectl(*words, "-p", json.dumps({"status": status}))


class Queued(Team):
    """A namespace with a queue, in which jobs are JobSets."""

    __init__ = Tenant.__init__
