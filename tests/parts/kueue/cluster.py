"""Kueue in a cluster with a kubelet, which reports how pods end."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

from parts.kueue.server import serve
from parts.plane import Plane
from parts.programs import MissingError

LABELS = {"tests": "kueue"}
"""The labels of the namespaces that Kueue manages. Other tests use the cluster, too."""

HOOKS = tuple(
    f"{kind}webhookconfiguration/{kind}-webhook-configuration"
    for kind in ("mutating", "validating")
)


class Cluster(Plane):
    """The cluster of KUBECONFIG, whose API server is on this machine, as a Plane."""

    def __init__(self, folder):
        super().__init__(os.environ["KUBECONFIG"])
        self.folder = Path(folder)
        (self.folder / "log").mkdir()
        pki = self.folder / "pki"
        pki.mkdir()
        names = ["-subj", "/CN=kueue", "-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", pki / "api.key", "-out", pki / "api.crt"]
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
        subprocess.run(["openssl", *words], check=True, capture_output=True)
        (pki / "ca.crt").write_bytes((pki / "api.crt").read_bytes())


@contextmanager
def kueue(folder):
    """Run Kueue in the cluster of KUBECONFIG, for namespaces with LABELS."""
    if "KUBECONFIG" not in os.environ:
        raise MissingError("there is no cluster: set KUBECONFIG")
    created = Cluster(folder)
    try:
        serve(created, namespaces=LABELS)
        yield created
    finally:
        created.kubectl("delete", "--ignore-not-found", *HOOKS)
        created.stop()
