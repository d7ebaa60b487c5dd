"""Argo CD's programs, as processes next to a control plane with its objects.

https://argo-cd.readthedocs.io/en/stable/operator-manual/architecture/: an API server, a repo
server with mlgen's plugin as its sidecar, an application controller, and Redis.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from parts.programs import ROOT, module, part, program
from support import free_ports

MODULE = "github.com/argoproj/argo-cd/v3@v3.5.7"
CRDS = ("application", "applicationset", "appproject")
PLUGIN = ROOT / "integrations/argocd"


class ArgoCD:
    """A running Argo CD, and its command line.

    Attributes:
        folder: the folder of its programs' files.
    """

    def __init__(self, plane):
        self.plane, self.folder = plane, plane.folder / "argocd"
        self._program, redis = part("argocd"), program("redis-server", "install redis-server")
        self._install(module(MODULE))
        repo, server, cache, *metrics = (str(port) for port in free_ports(6))
        cache_flags = ["--redis", f"127.0.0.1:{cache}"]
        repo_flags = [*cache_flags, "--repo-server", f"127.0.0.1:{repo}", "--repo-server-plaintext"]
        self.options = ["--server", f"127.0.0.1:{server}", "--plaintext"]
        plane.run("redis", [redis, "--port", cache, "--save", "", "--bind", "127.0.0.1"])
        self.plugin(PLUGIN)
        flags = ["--disable-tls", "--client-ca-path", "", "--port", repo]
        self.start("repo-server", *cache_flags, *flags, "--metrics-port", metrics[0])
        # selfHeal acts at once, without growing delays.
        flags = ["--self-heal-backoff-timeout-seconds", "1", "--self-heal-backoff-factor", "1"]
        self.start("application-controller", *repo_flags, *flags, "--metrics-port", metrics[1])
        flags = ["--insecure", "--disable-auth", "--port", server]
        self.start("server", *repo_flags, *flags, "--metrics-port", metrics[2])
        plane.until(lambda: not self._cli("cluster", "list").returncode, seconds=60)

    def _install(self, sources):
        """Create Argo CD's objects from its module, and the folders of its programs."""
        for name in ("bin", "plugins", "ssh", "tls", "tmp"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "ssh/ssh_known_hosts").touch()
        script = self.folder / "bin/git-verify-wrapper.sh"
        shutil.copyfile(sources / f"hack/{script.name}", script)
        script.chmod(0o755)
        for name in CRDS:
            self.plane.define(f"{sources}/manifests/crds/{name}-crd.yaml")
        self.plane.kubectl("create", "namespace", "argocd")
        context = ["config", "set-context", "--current", "--namespace=argocd"]
        self.plane.kubectl(*context)
        self.plane.kubectl("apply", "--kustomize", f"{sources}/manifests/base/config")

    def plugin(self, folder):
        """Start the sidecar that runs the plugin in a folder with `plugin.yaml`."""
        self.start("cmp-server", "--config-dir-path", str(folder))

    def start(self, name, *flags):
        """Start one of the programs of Argo CD, which are all the same file."""
        paths = [self.folder / "bin", Path(sys.executable).parent, self.plane.environment["PATH"]]
        environment = self.plane.environment | {
            "ARGOCD_BINARY_NAME": f"argocd-{name}",
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_PLUGINSOCKFILEPATH": str(self.folder / "plugins"),
            "ARGOCD_SSH_DATA_PATH": str(self.folder / "ssh"),
            "ARGOCD_TLS_DATA_PATH": str(self.folder / "tls"),
            "TMPDIR": str(self.folder / "tmp"),
            "PATH": os.pathsep.join(map(str, paths)),
        }
        environment.pop("MLGEN_SUPERVISOR", None)
        self.plane.run(f"argocd-{name}", ["nice", self._program, *flags], env=environment)

    def cli(self, *words):
        """Run `argocd`, which must succeed; return its output."""
        done = self._cli(*words)
        if done.returncode:
            raise AssertionError(f"argocd {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _cli(self, *words):
        config = ["--config", str(self.folder / "config")]
        command = [self._program, *words, *self.options, *config]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def add_cluster(self, kubeconfig, namespace):
        """Let Argo CD manage a namespace of a cluster under the name `training`.

        https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters
        """
        cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
        tls = {"caData": cluster["certificate-authority-data"]}
        data = {
            "name": "training",
            "server": cluster["server"],
            "namespaces": namespace,
            "config": json.dumps({"bearerToken": user["token"], "tlsClientConfig": tls}),
        }
        self.create("v1", "Secret", "training", "cluster", stringData=data)

    def configure(self, data):
        """Set, or remove, keys of the ConfigMap with Argo CD's settings."""
        self.patch("configmap", "argocd-cm", {"data": data})

    def patch(self, kind, name, body):
        patch = ["--type=merge", "--patch", json.dumps(body)]
        self.plane.kubectl("-n", "argocd", "patch", kind, name, *patch)

    def create(self, version, kind, name, secret_type="", **fields):
        """Create an object in Argo CD's namespace."""
        labels = {"argocd.argoproj.io/secret-type": secret_type} if secret_type else {}
        metadata = {"name": name, "namespace": "argocd", "labels": labels}
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        self.plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))
