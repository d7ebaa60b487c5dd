"""Files, folders and standard input become data, and every value knows where it stood."""

import io
import os
import sys
from types import SimpleNamespace

import pytest

from mlgen.documents.document import Document
from mlgen.documents.files import Text, texts
from mlgen.documents.reader import read_documents, scalar
from mlgen.problems import Place


def read(text):
    (document,) = read_documents(Text("job.yaml", text))
    assert isinstance(document, Document), document
    return document


def data(text):
    return read(text).data


def refused(text):
    """The one problem of a text, as the user sees it."""
    (problems,) = read_documents(Text("job.yaml", text))
    (problem,) = problems if isinstance(problems, list) else problems.problems
    return str(problem)


def names(*paths):
    return [text.name for text in texts(tuple(map(str, paths)))]


def only_problem(path):
    (text,) = texts((str(path),))
    return text.problem


def test_every_value_and_key_knows_its_line_and_column():
    document = read("# head\na: 1\nb:\n  - x\n  - {c: y}\n")

    places = {path: (place.line, place.column) for path, place in document.places.items()}
    keys = {path: (place.line, place.column) for path, place in document.keys.items()}

    assert {
        (): (2, 1),
        ("a",): (2, 4),
        ("b",): (4, 3),
        ("b", 0): (4, 5),
        ("b", 1): (5, 5),
        ("b", 1, "c"): (5, 9),
    } == places
    assert {("a",): (2, 1), ("b",): (3, 1), ("b", 1, "c"): (5, 6)} == keys


def test_a_value_that_is_left_out_stands_where_its_key_does():
    document = read("a:\n\n\nb: 1\n")

    assert Place("job.yaml", 1, 1) == document.place(("a",))


def test_a_path_that_is_not_there_stands_at_the_nearest_value_around_it():
    document = read("a:\n  b: 1\n")

    assert Place("job.yaml", 2, 3) == document.place(("a", "c", "d"))
    assert Place("job.yaml", 2, 3) == document.key_place(("a", "c"))


def test_columns_count_characters():
    assert Place("job.yaml", 1, 10) == read('"größe": 1').place(("größe",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-17", -17),
        ("0o14", 12),
        ("0xff", 255),
        ("1e3", 1000),
        ("4.0", 4),
        ("1.5", 1.5),
        ("1e-5", 1e-5),
        ("1e300", 1e300),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("y", "y"),
        ("n", "n"),
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("=", "="),
        ("'1'", "1"),
        ('"1e-5"', "1e-5"),
        ("1.34.1", "1.34.1"),
    ],
)
def test_scalars_are_read_as_yaml_1_2(text, value):
    read_value = data(f"a: {text}\n")["a"]

    assert (value, type(value)) == (read_value, type(read_value))


@pytest.mark.parametrize("text", ["1e-5", "08", "0o14", "~", "True", "1_000", ""])
def test_how_a_value_was_written_is_kept_if_it_is_no_text(text):
    assert {("a",): text} == read(f"a: {text}\n").texts


def test_keys_are_texts():
    assert {"on": 1, "1": 2, "~": 3, "true": 4} == data("on: 1\n1: 2\n~: 3\ntrue: 4\n")


def test_aliases_are_written_out_and_stand_where_their_anchor_does():
    document = read("a: &a [1, 2]\nb: *a\n")

    assert {"a": [1, 2], "b": [1, 2]} == document.data
    assert Place("job.yaml", 1, 11) == document.place(("b", 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<: *x\n  p: 3", {"p": 3, "q": 2}),
        ("p: 3\n  <<: *x", {"p": 3, "q": 2}),
        ("<<: [*x, *y]", {"p": 1, "q": 2, "r": 8}),
        ("<<: [*y, *x]", {"p": 9, "q": 2, "r": 8}),
        ("<<: {p: 5}", {"p": 5}),
        ("'<<': 7", {"<<": 7}),
    ],
)
def test_own_keys_win_over_merged_ones_and_the_first_of_a_list_over_the_others(text, value):
    found = data(f"x: &x {{p: 1, q: 2}}\ny: &y {{p: 9, r: 8}}\na:\n  {text}\n")["a"]

    assert value == found


def test_a_merged_value_stands_where_it_was_written():
    document = read("x: &x {p: 1}\na:\n  <<: *x\n  q: 2\n")

    assert Place("job.yaml", 1, 11) == document.place(("a", "p"))
    assert Place("job.yaml", 3, 3) == document.place(("a",))


def test_json_is_read_too():
    assert {"a": [1, "b", None, True]} == data('{"a": [1, "b", null, true]}')


def test_several_documents_have_the_lines_of_their_file():
    text = "a: 1\n---\n# only a comment\n---\nb: 1\n--- {c: 1}\n--- # said\nd: 1\n...\n---\n"
    found = list(read_documents(Text("job.yaml", text)))

    assert [{"a": 1}, {"b": 1}, {"c": 1}, {"d": 1}] == [document.data for document in found]
    assert [(1, 1), (5, 1), (6, 5), (8, 1)] == [
        (document.place(()).line, document.place(()).column) for document in found
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: '\n  ---x'\n", "---x"),
        ("a: |\n  ---\n  b\n", "---\nb\n"),
        ("a: ---b\n", "---b"),
        ("a: |\n  b\x85---\n", None),
    ],
)
def test_three_dashes_inside_of_a_text_begin_no_document(text, value):
    found = list(read_documents(Text("job.yaml", text)))

    assert 1 == len(found)
    if value is not None:
        assert value.strip() == found[0].data["a"].strip()


def test_directives_change_nothing():
    assert {"a": "yes"} == data("%YAML 1.1\n---\na: yes\n")


def test_windows_line_ends_are_line_ends():
    document = read("a: 1\r\n\r\nb: |\r\n  x\r\n  y\r\n")

    assert {"a": 1, "b": "x\ny\n"} == document.data
    assert Place("job.yaml", 3, 4) == document.place(("b",))


def test_windows_documents_are_documents():
    found = list(read_documents(Text("job.yaml", "a: 1\r\n---\r\nb: 1\r\n")))

    assert [(1, 1), (3, 1)] == [(d.place(()).line, d.place(()).column) for d in found]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_bytes(b"\xef\xbb\xbf---\na: 1\n")

    assert [Text(str(file), "---\na: 1\n")] == list(texts((str(file),)))


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("größe: 1\n".encode("utf-16"), (1, 1)),
        ("a: 1\ngröße: 1\n".encode("latin-1"), (2, 3)),
        (b"\x89PNG\r\n\x1a\n\x00", (1, 1)),
    ],
)
def test_what_is_no_utf_8_is_refused_at_its_first_byte(content, place, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_bytes(content)

    problem = only_problem(file)

    assert ("not-text", Place(str(file), *place)) == (problem.code, problem.place)


def test_a_file_that_is_missing_is_named(tmp_path):
    problem = only_problem(tmp_path / "job.yaml")

    assert "cannot be read: No such file or directory" == problem.message
    assert Place(str(tmp_path / "job.yaml")) == problem.place


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_folder_that_may_not_be_read_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read every folder")
    tmp_path.chmod(0)
    try:
        assert "cannot be read: Permission denied" == only_problem(tmp_path).message
    finally:
        tmp_path.chmod(0o700)


def test_a_link_to_nowhere_is_named(tmp_path):
    (tmp_path / "job.yaml").symlink_to(tmp_path / "gone")

    assert (
        "cannot be read: No such file or directory" == only_problem(tmp_path / "job.yaml").message
    )


def test_a_folder_means_its_manifests_by_name_and_not_those_of_folders_in_it(tmp_path):
    for name in ("b.yaml", "a.yml", "c.json", "README.md", "d.yaml.bak", ".hidden", "deep/e.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a: 1\n")
    (tmp_path / "folder.yaml").mkdir()

    assert [str(tmp_path / name) for name in ("a.yml", "b.yaml", "c.json")] == names(tmp_path)


def test_a_named_file_may_have_any_name(tmp_path):
    (tmp_path / "job").write_text("a: 1\n")

    assert [str(tmp_path / "job")] == names(tmp_path / "job")


def test_a_folder_without_manifests_is_a_problem(tmp_path):
    assert "unreadable" == only_problem(tmp_path).code


def test_files_come_in_the_given_order(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("a: 1\n")

    given = [tmp_path / "b.yaml", tmp_path, tmp_path / "b.yaml"]

    assert ["b.yaml", "a.yaml", "b.yaml", "b.yaml"] == [n.rpartition("/")[2] for n in names(*given)]


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a: 1\n")))

    assert [Text("<stdin>", "a: 1\n")] == list(texts(("-",)))


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# a\n", "---\n", "---\n---\n# a\n", "%YAML 1.2\n---\n"]
)
def test_a_text_without_documents_is_a_problem(text):
    assert refused(text).endswith(
        "the file is empty; write a TrainingJob, or leave the file out [empty]"
    )


def test_ten_megabytes_are_refused_unread():
    rows = "key: [a, b, c]\n" * 700_000

    assert (
        "job.yaml:1:1: the document has more than 1 MiB; put data into a volume instead [too-large]"
        == refused(rows)
    )


def test_a_large_document_leaves_the_others_to_be_read():
    text = "a: 1\n---\n" + "#" * (1 << 20) + "\nb: 1\n---\nc: 1\n"

    first, (problem,), last = read_documents(Text("job.yaml", text))

    assert ({"a": 1}, "too-large", {"c": 1}) == (first.data, problem.code, last.data)
    assert 2 == problem.place.line


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "- " * 5000 + "a"])
def test_deep_nesting_is_refused(text):
    assert refused(text).endswith("is nested too deeply [too-large]")


def test_aliases_do_not_multiply_without_end():
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 12))

    assert "its aliases expand to more than 200000 values" in refused("l0: &l0 [a]\n" + levels)


@pytest.mark.parametrize(
    "text", ["&a [*a]", "a: &a {b: *a}", "a: &a {b: [{c: *a}]}", "a: &a {<<: *a}"]
)
def test_an_alias_to_what_it_is_a_part_of_is_refused(text):
    assert "an alias leads to what it is a part of" in refused(text)


def test_the_same_alias_twice_is_no_circle():
    assert {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]} == data("a: &a {x: 1}\nb: [*a, *a]\n")


@pytest.mark.parametrize(
    "text", ["a: .inf", "a: -.INF", "a: .nan", f"a: {'1' * 5000}", "a: !!int x"]
)
def test_a_number_that_json_cannot_hold_is_refused(text):
    assert "number that a manifest can hold" in refused(text)


@pytest.mark.parametrize(
    "text", ["a: !x 1", "a: !!python/name:os.system x", "a: !!set {b}", "!x [a]"]
)
def test_a_tag_of_an_unknown_meaning_is_refused(text):
    assert "is not known here; leave it out [not-yaml]" in refused(text)


def test_a_character_that_yaml_forbids_is_refused_at_its_place():
    assert refused("a: 1\nb: x\x1by\n").startswith("job.yaml:2:5: is not YAML")


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("", ""), ("# nothing", None), ("[a, 1]", ["a", 1]), ("'8'", "8")]
)
def test_one_value_is_read_as_in_a_file(text, value):
    assert value == scalar(text)


@pytest.mark.parametrize("text", ["[a", "a: b: c", "&a [*a]", "{a: 1, a: 2}", "a\n---\nb"])
def test_one_value_that_is_no_yaml_is_an_error(text):
    with pytest.raises(ValueError, match=r"YAML|twice|alias"):
        scalar(text)
