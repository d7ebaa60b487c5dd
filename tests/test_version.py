"""`mlgen --version` reports the commit of a build between releases."""

import json
import re
import subprocess
from types import SimpleNamespace

import pytest
from support import BERT, ROOT

from mlgen import Options, __version__, render
from mlgen.build import files as prepared_files
from mlgen.version import build, commit

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]


def git(folder, *words):
    command = ["git", "-C", str(folder), *IDENTITY, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def version(folder):
    """Return the version that mlgen reports if it is in a checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlgen.resources.PACKAGE", folder / "mlgen")
        patch.setattr("mlgen.resources.prepared", lambda _: None)
        return build()


@pytest.fixture
def checkout(tmp_path):
    """Return a repository with a commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "file").touch()
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def test_a_checkout_has_its_commit(checkout, tmp_path):
    clone, worktree = tmp_path / "clone", tmp_path / "worktree"
    git(checkout, "worktree", "add", "-q", str(worktree))
    git(checkout, "clone", "-q", str(checkout), str(clone))

    found = [version(each) for each in (checkout, clone, worktree)]

    assert [f"{__version__}+{git(checkout, 'rev-parse', '--short', 'HEAD')}"] * 3 == found


@pytest.mark.parametrize("tag", [["tag"], ["tag", "-am", "signed"]])
def test_the_release_is_the_version_alone(checkout, tag):
    git(checkout, *tag, f"v{__version__}")
    git(checkout, "tag", "v9.9.9")
    assert __version__ == version(checkout)

    (checkout / "file").write_text("changed")
    assert re.fullmatch(rf"{__version__}\+0\.g\w+\.dirty", version(checkout))

    git(checkout, "commit", "-qam", "second")
    assert re.fullmatch(rf"{__version__}\+1\.g\w+", version(checkout))


def test_a_folder_in_a_repository_of_others_and_a_broken_one_have_no_commit(checkout):
    (checkout / "site-packages").mkdir()
    assert __version__ == version(checkout / "site-packages")

    (checkout / ".git/HEAD").unlink()
    assert __version__ == version(checkout)


def test_a_wheel_has_the_commit_of_its_checkout(monkeypatch):
    made = {"COMMIT": "5.gb3228381"}
    monkeypatch.setattr("mlgen.resources.prepared", lambda _: SimpleNamespace(**made))
    assert f"{__version__}+5.gb3228381" == build()

    made["COMMIT"] = ""
    assert __version__ == build()
    monkeypatch.setattr("mlgen.reference.rules.computed", dict)  # takes seconds
    exec(prepared_files()["commit.py"], made)
    assert commit(ROOT) == made["COMMIT"]


JOB = f"{BERT}  runPolicy: {{restartScope: All}}\n"
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


def test_a_jobset_that_is_rendered_again_does_not_copy_the_version():
    (jobset,) = [each for each in render(JOB, Options(jobset=True)) if each["kind"] == "JobSet"]

    names, count = annotated(render(jobset))

    assert (1, 1) == (len(names), count)


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
