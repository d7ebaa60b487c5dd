"""A Secret with a new SSH key pair."""

import pytest
from support import load

from mlgen.scaffold import ssh_secret


@pytest.mark.needs("ssh-keygen")
@pytest.mark.parametrize(
    ("namespace", "metadata"),
    [(None, {"name": "keys"}), ("team-a", {"name": "keys", "namespace": "team-a"})],
)
def test_the_secret_has_a_key_pair_for_the_mpi_operator_s_fields(namespace, metadata):
    item = load(ssh_secret("keys", namespace))
    data = item.pop("stringData")

    expected = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth"}
    assert {**expected, "metadata": metadata} == item
    assert ["ssh-privatekey", "ssh-publickey"] == list(data)
    assert data["ssh-privatekey"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert ["ssh-ed25519", "keys"] == data["ssh-publickey"].split()[::2]


@pytest.mark.needs("ssh-keygen")
def test_every_secret_has_another_key():
    assert ssh_secret("keys", None) != ssh_secret("keys", None)


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a\n", "a" * 254])
def test_a_name_that_kubernetes_rejects_is_an_error(name, monkeypatch):
    monkeypatch.setenv("PATH", "")  # before ssh-keygen runs

    with pytest.raises(ValueError, match="is not a valid name; use lowercase"):
        ssh_secret(name, None)


def program(folder, text):
    (folder / "ssh-keygen").write_text(text)
    (folder / "ssh-keygen").chmod(0o755)


def test_a_missing_ssh_keygen_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RuntimeError, match="ssh-keygen is not installed; install the OpenSSH"):
        ssh_secret("keys", None)


def test_a_failing_ssh_keygen_is_an_error_with_its_output(monkeypatch, tmp_path):
    program(tmp_path, "#!/bin/sh\necho no entropy >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RuntimeError, match=r"^ssh-keygen failed: no entropy$"):
        ssh_secret("keys", None)
