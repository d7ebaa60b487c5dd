"""Kubeflow's training operator as a process next to a control plane."""

import json
import socket
from pathlib import Path

from parts.programs import module, program

TRAINING_OPERATOR = "github.com/kubeflow/training-operator@v1.8.1"
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # fixed by the operator
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validator.training-operator.kubeflow.org}
webhooks: []
"""


def start_training_operator(plane, *flags):
    """Run Kubeflow's training operator as a process, with its CRDs and without its webhooks."""
    hint = f"`go install {TRAINING_OPERATOR.replace('@', '/cmd/training-operator.v1@')}`"
    path = program("training-operator.v1", hint)
    crds = module(TRAINING_OPERATOR) / "manifests/base/crds"
    plane.kubectl("apply", "--server-side", "-k", str(crds))
    secret = ("training-operator-webhook-cert", "-n", "kubeflow")
    plane.kubectl("create", "namespace", "kubeflow")
    plane.kubectl("create", "secret", "generic", *secret)
    plane.kubectl("apply", "-f", "-", stdin=WEBHOOK)
    addresses = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    command = [path, *addresses, "127.0.0.1:0", "--webhook-server-port", port, *flags]
    plane.run("operator", ["nice", *command])
    # A kubelet would mount the Secret that the operator fills.
    plane.until(lambda: "data" in plane.get("secret", *secret))
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name in plane.get("secret", *secret)["data"]:
        template = f"{{{{index .data {json.dumps(name)} | base64decode}}}}"
        text = plane.kubectl("get", "secret", *secret, "-o", f"go-template={template}")
        (CERTIFICATES / name).write_text(text)
