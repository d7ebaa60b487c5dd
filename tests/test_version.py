"""`mlgen --version` reports the commit of a checkout, or of an installation from Git."""

import json
import runpy
import shutil
import subprocess

import pytest
from support import ROOT

from mlgen import __version__

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]


def git(folder, *words):
    command = ["git", "-C", str(folder), *IDENTITY, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(folder):
    """Return the version that the copy of mlgen in a folder reports."""
    return runpy.run_path(str(folder / "mlgen/version.py"))["build"]()


@pytest.fixture
def checkout(tmp_path):
    """Return a repository that contains mlgen, and its commit with nine digits."""
    folder = tmp_path / "checkout"
    (folder / "mlgen").mkdir(parents=True)
    shutil.copy(ROOT / "mlgen/version.py", folder / "mlgen")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder, git(folder, "rev-parse", "HEAD")[:9]


def test_a_checkout_has_its_commit(checkout, tmp_path):
    folder, commit = checkout
    clone, worktree = tmp_path / "clone", tmp_path / "worktree"
    git(folder, "worktree", "add", "-q", str(worktree))
    git(folder, "clone", "-q", str(folder), str(clone))

    assert [f"{__version__}+g{commit}"] * 3 == [build(each) for each in (folder, clone, worktree)]


@pytest.mark.parametrize("command", [["pack-refs", "--all"], ["checkout", "-q", "--detach"]])
def test_the_branch_may_be_packed_or_absent(checkout, command):
    folder, commit = checkout
    git(folder, *command)

    assert f"{__version__}+g{commit}" == build(folder)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("HEAD", "ref: refs/heads/.invalid\n"),  # as with reftable
        ("HEAD", b"\xff"),
        ("HEAD", None),
    ],
)
def test_an_unreadable_repository_has_no_commit(checkout, file, text):
    path = checkout[0] / ".git" / file
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert __version__ == build(checkout[0])


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"vcs_info": {"vcs": "git", "commit_id": COMMIT}}, "+g012345678"),
        ({"vcs_info": {"commit_id": COMMIT, "requested_revision": "main"}}, "+g012345678"),
        ({"vcs_info": {"commit_id": COMMIT, "requested_revision": f"v{__version__}"}}, ""),
        ({"dir_info": {}}, ""),
        ({"vcs_info": None}, ""),
        (None, ""),
    ],
)
def test_an_installation_from_git_has_its_commit(tmp_path, monkeypatch, source, expected):
    (tmp_path / "mlgen").mkdir()
    shutil.copy(ROOT / "mlgen/version.py", tmp_path / "mlgen")
    info = tmp_path / "mlgen_k8s-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlgen-k8s\nVersion: 9\n")
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps(source))
    monkeypatch.syspath_prepend(tmp_path)

    assert f"{__version__}{expected}" == build(tmp_path)


def test_another_copy_has_not_the_commit_of_the_installed_one(tmp_path, monkeypatch):
    info = tmp_path / "mlgen_k8s-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlgen-k8s\nVersion: 9\n")
    (info / "direct_url.json").write_text(json.dumps({"vcs_info": {"commit_id": COMMIT}}))
    (tmp_path / "other/mlgen").mkdir(parents=True)
    shutil.copy(ROOT / "mlgen/version.py", tmp_path / "other/mlgen")
    monkeypatch.syspath_prepend(tmp_path)

    assert __version__ == build(tmp_path / "other")
