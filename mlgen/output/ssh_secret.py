"""A name → a Secret with a new SSH key pair, for MPI over SSH.

This is not part of `render`, whose output is reproducible and contains no private keys.
"""

import subprocess
import tempfile
from pathlib import Path

from mlgen.kubernetes.validation.rows import is_subdomain
from mlgen.output.yaml import yaml_text


def secret(name: str, namespace: str | None) -> str:
    """Return the manifest of a Secret of type kubernetes.io/ssh-auth with a new Ed25519 key.

    It has the same data keys as the MPI operator's Secret (pkg/controller/mpi_job_controller.go).

    Raises:
        ValueError: Kubernetes does not accept the name.
        RuntimeError: ssh-keygen is not installed, or failed; the message contains the fix.
    """
    if not is_subdomain(name):
        message = f'"{name}" is not a valid name; use lowercase letters, digits, dashes and dots'
        raise ValueError(message)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError:
            message = "ssh-keygen is not installed; install the OpenSSH client (openssh-client)"
            raise RuntimeError(message) from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"ssh-keygen failed: {error.stderr.strip()}") from None
        private, public = file.read_text(), file.with_suffix(".pub").read_text()
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "type": "kubernetes.io/ssh-auth",
        "stringData": {"ssh-privatekey": private, "ssh-publickey": public},
    }
    return yaml_text([manifest])
