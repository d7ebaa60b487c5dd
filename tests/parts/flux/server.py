"""Flux's kustomize-controller, as a process next to a control plane with its objects.

Its source-controller is not available as a Go module, so `Flux.push` replaces it: it serves a
commit as a tar.gz, and reports it in the status of a GitRepository
(https://fluxcd.io/flux/components/source/gitrepositories/#artifact).
"""

import functools
import hashlib
import http.server
import json
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from parts.gitops.training import SECONDS
from parts.programs import module, part
from support import free_ports

MODULE = "github.com/fluxcd/kustomize-controller@v1.9.5"
CRDS = "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"
NAMESPACE = "flux-system"


class Flux:
    """A running kustomize-controller, and the actions of its users."""

    def __init__(self, plane, kubeconfig):
        self.plane, self.folder = plane, plane.folder / "artifacts"
        program = part("kustomize-controller", "flux")
        plane.define(f"{module(MODULE)}/{CRDS}")
        plane.define(str(Path(__file__).parent / "sources.yaml"))
        plane.kubectl("create", "namespace", NAMESPACE)
        self.create("v1", "Secret", "training", stringData={"value": kubeconfig})
        self.folder.mkdir()
        metrics, health = free_ports(2)
        flags = ["--watch-all-namespaces=false", "--enable-leader-election=false"]
        flags += [f"--metrics-addr=127.0.0.1:{metrics}", f"--health-addr=127.0.0.1:{health}"]
        environment = plane.environment | {"RUNTIME_NAMESPACE": NAMESPACE}
        plane.run("kustomize-controller", ["nice", program, *flags], env=environment)

    def create(self, version, kind, name, **fields):
        """Create or change an object in Flux's namespace."""
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
        self.plane.kubectl("-n", NAMESPACE, "apply", "-f", "-", stdin=json.dumps(body))

    def patch(self, kind, name, body, *words):
        patch = ["--type=merge", "--patch", json.dumps(body)]
        self.plane.kubectl("-n", NAMESPACE, "patch", kind, name, *patch, *words)

    def get(self, kind, name):
        return self.plane.get("-n", NAMESPACE, kind, name)

    def serve(self):
        """Serve the artifacts; return the server, which the caller shuts down."""
        handler = functools.partial(Quiet, directory=self.folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def push(self, name, repository):
        """Publish the last commit of a repository to Flux; return the revision."""
        content, revision = repository.archive(), f"main@sha1:{repository.head}"
        file = f"{name}-{repository.head}.tar.gz"
        (self.folder / file).write_bytes(content)
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored"}
        artifact = {
            "path": file,
            "url": f"http://127.0.0.1:{self.port}/{file}",
            "revision": revision,
            "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "lastUpdateTime": now,
            "size": len(content),
        }
        conditions = [ready | {"lastTransitionTime": now}]
        status = {"observedGeneration": 1, "conditions": conditions, "artifact": artifact}
        self.patch("gitrepository", name, {"status": status}, "--subresource=status")
        return revision


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words):
        pass


class Kustomization:
    """A Kustomization of the folder `manifests` of a repository."""

    def __init__(self, flux, name, repository, namespace, **fields):
        self.flux, self.name, self.repository, self.revision = flux, name, repository, ""
        url = {"url": repository.url, "interval": "1m"}
        flux.create("source.toolkit.fluxcd.io/v1", "GitRepository", name, spec=url)
        self.revision = flux.push(name, repository)
        self.set(
            sourceRef={"kind": "GitRepository", "name": name},
            path="./manifests",
            interval="10m",
            prune=True,
            targetNamespace=namespace,
            kubeConfig={"secretRef": {"name": "training"}},
            **{"retryInterval": "2s"} | fields,
        )

    def set(self, **fields):
        """Create the Kustomization with these fields."""
        version = "kustomize.toolkit.fluxcd.io/v1"
        self.flux.create(version, "Kustomization", self.name, spec=fields)

    def push(self):
        """Push the last commit."""
        self.revision = self.flux.push(self.name, self.repository)

    def reconcile(self):
        """Reconcile like `flux reconcile kustomization`, and wait for the end."""
        now = datetime.now(timezone.utc).isoformat()
        annotations = {"reconcile.fluxcd.io/requestedAt": now}
        self.flux.patch("kustomization", self.name, {"metadata": {"annotations": annotations}})
        self._until(lambda status: status.get("lastHandledReconcileAt") == now)

    def until(self, ready="True", reason="ReconciliationSucceeded"):
        """Wait until the last commit has been applied, with this result; return its message."""

        def condition(status):
            found = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
            return found and found[0]

        def applied(status):
            found = condition(status)
            return (
                found
                and status.get("lastAttemptedRevision") == self.revision
                and (found["status"], found["reason"]) == (ready, reason)
            )

        return condition(self._until(applied))["message"]

    def _until(self, condition):
        deadline = time.monotonic() + SECONDS
        while True:
            status = self.flux.get("kustomization", self.name).get("status", {})
            if condition(status):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.5)

    def delete(self):
        delete = ["-n", NAMESPACE, "delete", f"kustomization/{self.name}"]
        self.flux.plane.kubectl(*delete, f"gitrepository/{self.name}")
