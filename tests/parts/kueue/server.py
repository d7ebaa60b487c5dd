"""Kueue on its own control plane. KWOK simulates nodes and pods."""

import base64
import json
import shutil
import socket

import yaml
from parts.plane import play
from parts.programs import ROOT, module, part
from support import free_ports

MODULE = "sigs.k8s.io/kueue@v0.19.2"
HERE = ROOT / "tests/parts/kueue"
STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", HERE / "stages.yaml")
GATES = "VisibilityOnDemand=false"
"""The list of pending workloads is a separate API server, which needs a Service."""

KINDS = ("clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloads")
"""CRDs that Kueue requests at its start, and without which it exits."""

IN_NAMESPACE = 'mount --bind "$0" /etc && exec "$@"'


def start(created, *, webhooks, nodes=8, **settings):
    """Start KWOK and Kueue on a Plane, and wait until Kueue serves.

    Args:
        created: a Plane.
        webhooks: True if the API server calls Kueue's webhooks.
        nodes: the number of nodes that KWOK simulates.
        settings: Kueue's settings that override `configuration.yaml`.
    """
    play(created, nodes, {"cpu": "8", "memory": "64Gi", "pods": "110"}, STAGES)
    serve(created, webhooks=webhooks, **settings)


def serve(created, *, webhooks=True, namespaces=None, **settings):
    """Start Kueue on a Plane, and wait until it serves.

    Args:
        created: a Plane.
        webhooks: True if the API server calls Kueue's webhooks.
        namespaces: the labels of the namespaces to which they apply; None: all.
        settings: Kueue's settings that override `configuration.yaml`.
    """
    kueue, components = part("kueue"), module(MODULE) / "config/components"
    created.define(str(components / "crd/bases"))
    created.until(lambda: all(kind in resources(created) for kind in KINDS), seconds=60)
    (port,), etc = free_ports(1), created.folder / "etc"
    # Kueue reads the certificate of its metrics only from this path.
    for folder in (etc / "webhook", etc / "kueue/metrics/certs"):
        folder.mkdir(parents=True)
        shutil.copy(created.folder / "pki/api.crt", folder / "tls.crt")
        shutil.copy(created.folder / "pki/api.key", folder / "tls.key")
    configuration = yaml.safe_load((HERE / "configuration.yaml").read_text())
    configuration |= {"webhook": {"port": port, "certDir": "/etc/webhook"}, **settings}
    (etc / "configuration.yaml").write_text(yaml.safe_dump(configuration))
    command = [kueue, "--config=/etc/configuration.yaml", f"--feature-gates={GATES}"]
    created.run(
        "kueue", ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_NAMESPACE, etc, *command]
    )
    created.until(lambda: is_open(port), seconds=300)
    if webhooks:
        text = (components / "webhook/manifests.yaml").read_text()
        documents = yaml.safe_load_all(text)
        items = [called_at(port, certificate(created), each) for each in documents]
        selector = {"namespaceSelector": {"matchLabels": namespaces}} if namespaces else {}
        for webhook in (each for item in items for each in item["webhooks"]):
            webhook.update(selector)
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        created.kubectl(*words, stdin=json.dumps(listed))


def resources(created):
    """Return the names of Kueue's resources that the API server serves."""
    return created.kubectl("api-resources", "--api-group=kueue.x-k8s.io", "-o", "name")


def called_at(port, authority, configuration):
    """Return a webhook configuration that calls Kueue on this machine instead of a Service."""
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
    return configuration


def certificate(created):
    """Return the CA certificate of a Plane, which has signed the certificate of 127.0.0.1."""
    return base64.b64encode((created.folder / "pki/ca.crt").read_bytes()).decode()


def is_open(port):
    """Return True if a program listens on a port."""
    with socket.socket() as client:
        return not client.connect_ex(("127.0.0.1", port))
