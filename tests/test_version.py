"""`mlgen --version` reports the commit of a build between releases."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from support import ROOT

from mlgen import Options, __version__, render
from mlgen.build import files as prepared_files
from mlgen.version import build, commit

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]


def git(folder, *words):
    command = ["git", "-C", str(folder), *IDENTITY, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def head(folder):
    """Return the commit of a repository with nine digits."""
    return git(folder, "rev-parse", "HEAD")[:9]


def version(folder):
    """Return the version that mlgen reports if it is in a checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlgen.resources.PACKAGE", folder / "mlgen")
        patch.setattr("mlgen.resources.prepared", lambda _: None)
        return build()


@pytest.fixture
def checkout(tmp_path):
    """Return a repository and its commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "file").touch()
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder, head(folder)


def test_a_checkout_has_its_commit(checkout, tmp_path):
    folder, commit = checkout
    clone, worktree = tmp_path / "clone", tmp_path / "worktree"
    git(folder, "worktree", "add", "-q", str(worktree))
    git(folder, "clone", "-q", str(folder), str(clone))

    assert [f"{__version__}+g{commit}"] * 3 == [version(each) for each in (folder, clone, worktree)]


@pytest.mark.parametrize("command", [["pack-refs", "--all"], ["checkout", "-q", "--detach"]])
def test_the_branch_may_be_packed_or_absent(checkout, command):
    folder, commit = checkout
    git(folder, *command)

    assert f"{__version__}+g{commit}" == version(folder)


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

    assert __version__ == version(checkout[0])


@pytest.mark.parametrize("tag", [["tag"], ["tag", "-am", "signed"]])
@pytest.mark.parametrize("packed", [True, False])
def test_the_release_is_the_version_alone(checkout, tag, packed):
    folder, _ = checkout
    git(folder, *tag, f"v{__version__}")
    git(folder, "tag", "v9.9.9")
    if packed:
        git(folder, "pack-refs", "--all")
    released = version(folder)
    (folder / "more").touch()
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "second")

    assert [__version__, f"{__version__}+g{head(folder)}"] == [released, version(folder)]


def test_a_wheel_has_the_commit_of_its_checkout(monkeypatch):
    made = {"COMMIT": "0123456789abcdef"}
    monkeypatch.setattr("mlgen.resources.prepared", lambda _: SimpleNamespace(**made))
    assert f"{__version__}+g012345678" == build()

    made["COMMIT"] = ""
    assert __version__ == build()
    exec(prepared_files()["commit.py"], made)
    assert commit(ROOT) == made["COMMIT"]


JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert}
spec:
  framework: pytorch
  image: example/bert:1
  command: [torchrun, train.py]
  roles: {worker: {replicas: 2}}
  runPolicy: {restartScope: All}
"""
SEVERAL = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert, annotations: {a: b}}
spec:
  framework: generic
  image: example/bert:1
  command: [train]
  successPolicy: {roles: [one, two]}
  roles: {one: {}, two: {}}
"""


def annotated(objects):
    """Return the objects with the version, and the number of `mlgen.dev/version` in all objects."""
    names = [
        (item["kind"], item["metadata"]["name"])
        for item in objects
        if item["metadata"].get("annotations", {}).get("mlgen.dev/version") == __version__
    ]
    return names, json.dumps(objects).count("mlgen.dev/version")


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (JOB, {}, ("Job", "bert-worker")),
        (JOB, {"jobset": True}, ("JobSet", "bert")),
        (JOB, {"target": "argocd"}, ("Job", "bert-worker")),
        (JOB, {"workflow": True}, ("Job", "bert-worker")),
        (SEVERAL, {}, ("Job", "bert-supervisor")),
        (SEVERAL, {"workflow": True}, ("Job", "bert-one")),
    ],
)
def test_one_object_of_a_job_has_the_version(text, options, expected):
    assert ([expected], 1) == annotated(render(text, Options(**options)))


def test_the_annotations_of_the_user_remain():
    (supervisor,) = [
        item
        for item in render(SEVERAL)
        if (item["kind"], item["metadata"]["name"]) == ("Job", "bert-supervisor")
    ]

    assert {"a": "b", "mlgen.dev/version": __version__} == supervisor["metadata"]["annotations"]


@pytest.mark.parametrize("options", [{}, {"target": "argocd"}, {"target": "flux"}])
@pytest.mark.parametrize("suffix", ["", ", nameSuffix: hash"])
def test_an_upgrade_alone_changes_only_metadata(monkeypatch, options, suffix):
    """Neither the pods nor the hash in the name of a job depend on the version."""
    text = JOB.replace("name: bert", f"name: bert{suffix}")
    objects = render(text, Options(**options))
    monkeypatch.setattr("mlgen.objects.labels.VERSION", "9.9.9")
    others = render(text, Options(**options))

    differing = [
        (old["metadata"].pop("annotations"), new["metadata"].pop("annotations"))
        for old, new in zip(objects, others, strict=True)
        if old != new and old["kind"] == "Job"
    ]
    versions = [[each["mlgen.dev/version"] for each in pair] for pair in differing]
    assert [[__version__, "9.9.9"]] == versions
    assert [item for item in objects if item["kind"] == "Job"] == [
        item for item in others if item["kind"] == "Job"
    ]
