"""Reading files document by document, and Lists item by item."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgen import dialects
from mlgen.documents.files import Text, chunks, documents, parts, split, texts
from mlgen.documents.reader import read_documents

FILES = {
    "documents.yaml": b"a: 1\n--- # two\nb: [1\n---\n\n# blank\n---\nc: 3",
    "windows.yaml": b"\xef\xbb\xbfa: 1\r\n---\r\nb: [\r\n",
    "mac.yaml": b"a: 1\r---\rb: 2\r---\nc: [1\n",
    "late.yaml": b"---\n---\n--- x\n",
    "blank.yaml": b"---\n# nothing\n",
    "nothing.yaml": b"",
    "bytes.yaml": b"a: 1\n---\nb: \xff\n",
}

PIECES = st.sampled_from(
    ["---", "---\n", "--- a", "\n", "\r\n", "\r", "x", " ", "#", "----", "\n---"]
)


def facts(text):
    """The problems of a text, and the data, place and text of its documents."""
    return [
        [str(problem) for problem in one]
        if isinstance(one, list)
        else (one.data, one.place(()), one.text)
        for one in read_documents(text)
    ]


@pytest.mark.parametrize("name", [name for name in FILES if name != "bytes.yaml"])
def test_documents_one_by_one_are_those_of_the_whole_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(FILES[name])

    (whole,) = texts((name,))
    expected = facts(whole)

    assert expected == [one for part in parts((name,)) for one in facts(part)]
    assert expected == [one for part in documents(whole) for one in facts(part)]


def test_only_the_document_that_is_not_text_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_bytes(FILES["bytes.yaml"])

    first, second = parts(("a.yaml",))

    assert ("a: 1\n", None) == (first.text, first.problem)
    (whole,) = texts(("a.yaml",))
    assert str(whole.problem) == str(second.problem)
    assert "a.yaml:3:4: is not UTF-8 text (byte 0xff at offset 12)" in str(second.problem)


def test_what_cannot_be_read_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    names = (str(tmp_path / "missing"), str(tmp_path), "-")

    assert list(texts(names)) == list(parts(names))
    assert all(text.problem for text in parts(names))


@given(st.lists(PIECES).map("".join))
def test_a_text_is_split_as_its_lines(text):
    assert list(chunks(io.StringIO(text, newline=""))) == list(split(text))


LIST = """\
apiVersion: v1
items:
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata:
    name: a
  spec: {wrong: [1
- apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  metadata:
    name: b
# a comment
- data: {x: "*"}
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: c}
kind: List
metadata:
  resourceVersion: ""
"""


def test_a_list_is_read_item_by_item():
    (text,) = [Text("a", f"x: 1\n---\n{LIST}")]
    _, wrong, job, other = dialects.documents(text)

    assert "a:10:1" == str(wrong[0].place)
    assert ({"name": "b"}, "") == (job.data["metadata"], job.text)
    assert ("ConfigMap", "") == (other.data["kind"], other.text)
    places = [job.place(("metadata", "name")), other.place(()), other.place(("kind",))]
    assert ["a:13:11", "a:15:3", "a:17:9"] == [str(place) for place in places]


def test_a_list_may_be_larger_than_an_object():
    text = LIST.replace("wrong: [1", "a: 1}").replace('"*"', "x" * (600 << 10))
    secret = f"- {{apiVersion: v1, kind: Secret, data: {{a: {'x' * 1000}}}}}\n"
    text = text.replace("kind: List", secret * 600 + "kind: List")

    assert 603 == len(list(dialects.documents(Text("a", text))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kubeflow.org", "example.com"),
        ("apiVersion: v1\nitems", "apiVersion: v2\nitems"),
        ("kind: List", "kind: PodList"),
        ("kind: List", "kind: List\nkind: List"),
        ("kind: List", "kind: List\nother: 1"),
        ("items:\n", "items:\n  \n"),
        ('"*"', "*x"),
        ("\n", "\r\n"),
        ("kind: List", "...\nkind: List"),
    ],
)
def test_a_list_that_is_written_in_another_way_is_read_as_a_whole(old, new):
    text = Text("a", LIST.replace("wrong: [1", "a: 1}").replace(old, new))

    assert [text.text] == [part.text for part in dialects.pieces(text)]


@pytest.mark.parametrize("read", [texts, parts])
def test_no_link_out_of_a_folder_is_followed(read, tmp_path, monkeypatch):
    """The author of the folder may lack permission to read the target. Links in arguments work."""
    monkeypatch.chdir(tmp_path)
    Path("jobs/data").mkdir(parents=True)
    for name in ("secret.yaml", "jobs/data/a.yaml"):
        Path(name).write_text("kind: A\n")
    Path("jobs/a.yaml").symlink_to("data/a.yaml")  # as in a mounted ConfigMap
    os.mkfifo("jobs/pipe.yaml")

    assert ["kind: A\n"] == [text.text for text in read(("jobs",))]

    Path("jobs/link.yaml").symlink_to("../secret.yaml")
    (text,) = read(("jobs",))
    assert "jobs/link.yaml:1:1: is a link to a file outside of the folder" in str(text.problem)
    assert ["kind: A\n"] == [text.text for text in read(("jobs/link.yaml",))]


@pytest.mark.parametrize("read", [texts, parts])
def test_a_file_that_is_too_large_is_an_error(read, monkeypatch, tmp_path):
    monkeypatch.setattr("mlgen.documents.files.TEXT_BYTES", 1 << 20)
    (tmp_path / "large.yaml").write_bytes(b"a: 1\n---\n" + b"#" * (1 << 20))
    (tmp_path / "next.yaml").write_bytes(b"b: 1\n---\n" + b"#" * ((1 << 20) - 9))

    *_, error, following = [
        text for text in read((str(tmp_path),)) if text.problem or "b: 1" in text.text
    ]

    assert f"{tmp_path}/large.yaml" == error.name
    assert str(error.problem).endswith(
        "large.yaml:1:1: is larger than 1 MiB; split it into several files [too-large]"
    )
    assert "b: 1" in following.text


def test_no_more_of_a_stream_is_read_than_may_be(monkeypatch):
    monkeypatch.setattr("mlgen.documents.files.TEXT_BYTES", 1000)
    monkeypatch.setattr("mlgen.documents.files.TEXT_BYTES", 1000)
    for read in (texts, parts):
        stream = io.BytesIO(b"x" * 5000)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        (text,) = read(("-",))

        assert "too-large" == text.problem.code
        assert 1001 == stream.tell()


@pytest.mark.parametrize("read", [texts, parts])
def test_too_many_documents_are_an_error(read, monkeypatch, tmp_path):
    monkeypatch.setattr("mlgen.documents.files.DOCUMENTS", 5)
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.yaml").write_text("a: 1\n---\nb: 1\n")

    *_, last = read((str(tmp_path),))

    assert str(last.problem).endswith(
        "c.yaml:1:1: more than 5 documents; read fewer files at once [too-large]"
    )


def test_too_many_documents_of_one_text_are_an_error(monkeypatch):
    monkeypatch.setattr("mlgen.documents.reader.DOCUMENTS", 2)

    *documents, (problem,) = read_documents(Text("a.yaml", "a\n" + "--- # a\r---\rb\n" * 9))

    assert (2, "too-large") == (len(documents), problem.code)
