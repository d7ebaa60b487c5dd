"""A Secret with a pair of ssh keys, for MPI over ssh.

It is a command of its own, as `render` prints the same bytes every time, and no private keys.
"""

import subprocess
import tempfile
from pathlib import Path

from mlgen.output.yaml import yaml_text


def secret(name: str, namespace: str | None) -> str:
    """Return the manifest of a Secret of type kubernetes.io/ssh-auth with a new ed25519 key.

    The keys of its data are those of the MPI operator's (pkg/controller/mpi_job_controller.go).

    Raises:
        RuntimeError: there is no ssh-keygen, or it failed; the message says what to do.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError:
            message = "ssh-keygen is not installed; it comes with OpenSSH (openssh-client)"
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
