"""The files of rendered objects, and the changes that bring a folder up to date."""

from pathlib import Path

import pytest

from mlgen.documents.document import Document, marked
from mlgen.output import folder
from mlgen.problems import MlgenError, Place, Problem
from mlgen.result import Foreign

HEAD = "# Made by mlgen render. Do not edit: edit the job and render it again.\n---\n"


def foreign(name, kind="ConfigMap", text=""):
    data = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name} if name else {}}
    return Foreign(Document(data, marked({(): Place("x.yaml", 7)}), text=text))


def test_an_object_without_a_source_text_is_written_from_its_data():
    expected = HEAD + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

    (piece,) = folder.pieces(foreign("a"))

    assert ("configmap_a.yaml", expected) == (piece.name, piece.filled(()))


LONGEST = "a" * (245 - len("configmap_.yaml"))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            foreign(None),
            "the ConfigMap has no metadata.name, which its file name requires; add",
        ),
        (foreign(None, "PodList"), "the PodList has no metadata.name, which its file name"),
        (foreign(None, "PodList"), "write the items of the list as documents [no-name]"),
        (
            foreign(LONGEST + "aa"),
            (
                "metadata.name: the file name would have 247 characters, the limit is 245; "
                "shorten the name by 2 characters [name-too-long]"
            ),
        ),
    ],
)
def test_an_object_that_cannot_have_a_file_is_an_error(part, message):
    (problem,) = folder.misplaced(part)

    assert isinstance(problem, Problem)
    assert message in str(problem)
    assert Place("x.yaml", 7) == problem.place


def test_the_longest_file_name_has_245_characters():
    (piece,) = folder.pieces(foreign(LONGEST))

    assert 245 == len(piece.name)


@pytest.mark.parametrize("metadata", [None, [], {}, {"name": None}, {"name": ""}, {"name": 1}])
def test_an_object_without_a_name_has_no_file_name(metadata):
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    assert folder.file_name(item) is None


FILES = {"same.yaml": f"{HEAD}a\n", "changed.yaml": f"{HEAD}new\n", "added.yaml": f"{HEAD}b\n"}


@pytest.fixture
def existing(tmp_path):
    files = {
        "same.yaml": FILES["same.yaml"],
        "changed.yaml": f"{HEAD}old\n",
        "removed.yaml": f"{HEAD}c",
        "removed.yml": HEAD,
        "mine.yaml": f"\n{HEAD}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.yaml").mkdir()
    return tmp_path


def test_changes_are_the_files_that_differ(existing):
    changes = folder.changes(existing, FILES)

    assert {"changed.yaml": f"{HEAD}old\n", "removed.yaml": f"{HEAD}c"} == changes.old
    assert {name: FILES[name] for name in ("added.yaml", "changed.yaml")} == changes.new
    assert ["added.yaml", "changed.yaml", "removed.yaml"] == changes.names


def test_a_missing_folder_has_all_files_to_add(tmp_path):
    assert folder.Changes({}, dict(sorted(FILES.items()))) == folder.changes(tmp_path / "x", FILES)


def test_updated_files_no_longer_differ(existing):
    folder.update(existing, folder.changes(existing, FILES))

    assert folder.Changes({}, {}) == folder.changes(existing, FILES)
    expected = [
        "added.yaml",
        "changed.yaml",
        "folder.yaml",
        "mine.yaml",
        "removed.yml",
        "same.yaml",
    ]
    assert expected == sorted(file.name for file in existing.iterdir())


@pytest.mark.parametrize("name", ["mine.yaml", "folder.yaml"])
def test_a_file_that_mlgen_did_not_write_is_not_overwritten(name, existing):
    with pytest.raises(MlgenError) as caught:
        folder.changes(existing, {name: HEAD})

    assert (
        f"{existing / name}: already exists, but was not written by mlgen; move it, or render "
        "to another folder [foreign-file]" == str(caught.value)
    )


def test_the_difference_is_a_unified_diff():
    changes = folder.Changes({"b": "x\x0cy\n", "c": "z"}, {"a": "1\n", "b": "x\n"})

    assert "".join(folder.diff(Path("out"), changes)) == (
        "--- /dev/null\n+++ out/a\n@@ -0,0 +1 @@\n+1\n"
        "--- out/b\n+++ out/b\n@@ -1 +1 @@\n-x\x0cy\n+x\n"
        "--- out/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n\\ No newline at end of file\n"
    )
    assert [] == list(folder.diff(Path("out"), folder.Changes({}, {})))


SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstrngData: {key: hunter2}\n"


@pytest.mark.parametrize("side", ["old", "new"])
@pytest.mark.parametrize("name", ["secret_a.yaml", "x_secret_a.yaml", "mine.yaml"])
def test_a_check_shows_nothing_of_a_secret_but_its_name(name, side):
    change = folder.Changes(**{"old": {}, "new": {}, side: {name: SECRET}})

    shown = "".join(folder.diff(Path("k8s"), change))

    assert f"k8s/{name}\n" in shown
    assert shown.endswith("# a Secret, which is not shown\n")
    assert "hunter2" not in shown


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    """It is not mlgen's file, even if it looks like one."""
    (tmp_path / "else").write_text(f"{HEAD}kind: A\n")
    (tmp_path / "k8s").mkdir()
    (tmp_path / "k8s/configmap_a.yaml").symlink_to("../else")

    assert folder.Changes({}, {}) == folder.changes(tmp_path / "k8s", {})
    with pytest.raises(MlgenError, match="already exists, but was not written by mlgen"):
        folder.changes(tmp_path / "k8s", {"configmap_a.yaml": "kind: A\n"})
