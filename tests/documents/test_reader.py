"""Reading files, folders and stdin as data with the place of every value."""

import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
import yaml_texts
from support import each_file

from mlgen.documents import reader
from mlgen.documents.document import Document, is_too_deep
from mlgen.documents.files import Text, decode, texts
from mlgen.documents.reader import read_documents, value_document
from mlgen.problems import Place, Problem


def read(text):
    (document,) = read_documents(Text("job.yaml", text))
    assert isinstance(document, Document), document
    return document


def data(text):
    return read(text).data


def rejected(text):
    """The only problem of a text, as the user sees it."""
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


def test_an_omitted_value_has_the_place_of_its_key():
    document = read("a:\n\n\nb: 1\n")

    assert Place("job.yaml", 1, 1) == document.place(("a",))


def test_a_missing_path_has_the_place_of_the_nearest_value_that_contains_it():
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
def test_the_source_text_of_a_value_is_kept_unless_it_is_a_string(text):
    assert {("a",): text} == read(f"a: {text}\n").texts


def test_keys_are_always_strings():
    assert {"on": 1, "1": 2, "~": 3, "true": 4} == data("on: 1\n1: 2\n~: 3\ntrue: 4\n")


def test_aliases_are_expanded_and_have_the_place_of_their_anchor():
    document = read("a: &a [1, 2]\nb: *a\n")

    assert {"a": [1, 2], "b": [1, 2]} == document.data
    assert Place("job.yaml", 1, 11) == document.place(("b", 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<: *x\n  p: 3", {"p": 3, "q": 2}),
        ("p: 1\n  <<: *x", {"p": 1, "q": 2}),
        ("<<: [*x, *y]", {"p": 1, "q": 2, "r": 8}),
        ("<<: [*y, *x]", {"p": 9, "q": 2, "r": 8}),
        ("<<: {p: 5}", {"p": 5}),
        ("'<<': 7", {"<<": 7}),
    ],
)
def test_own_keys_override_merged_ones_and_earlier_sources_override_later_ones(text, value):
    merged = data(f"x: &x {{p: 1, q: 2}}\ny: &y {{p: 9, r: 8}}\na:\n  {text}\n")["a"]

    assert value == merged


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n<<: {b: 2}\n", 0),
        ("<<: {a: 2}\na: 1\n", 0),
        ("a: 1\n<<: {a: 1}\n", 0),
        ("a: 1\n<<: {a: 2}\n", 2),
        ("a: 1\n<<: [{b: 1}, {a: 2}]\n", 2),
        ("<<: {a: 2}\na: 1\n<<: {a: 3}\n", 3),
    ],
)
def test_a_merge_below_a_key_that_it_replaces_in_kubectl_is_an_error(text, line):
    found = [(problem.place.line, problem.path) for problem in read(text).problems]

    assert ([(line, ("a",))] if line else []) == found


def test_a_merged_value_has_the_place_where_it_is_written():
    document = read("x: &x {p: 1}\na:\n  <<: *x\n  q: 2\n")

    assert Place("job.yaml", 1, 11) == document.place(("a", "p"))
    assert Place("job.yaml", 3, 3) == document.place(("a",))


def test_json_can_be_read():
    assert {"a": [1, "b", None, True]} == data('{"a": [1, "b", null, true]}')


def test_lines_of_several_documents_count_from_the_start_of_the_file():
    text = "a: 1\n---\n# only a comment\n---\nb: 1\n--- {c: 1}\n--- # comment\nd: 1\n...\n---\n"
    documents = list(read_documents(Text("job.yaml", text)))

    assert [{"a": 1}, {"b": 1}, {"c": 1}, {"d": 1}] == [document.data for document in documents]
    assert [(1, 1), (5, 1), (6, 5), (8, 1)] == [
        (document.place(()).line, document.place(()).column) for document in documents
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
def test_three_dashes_within_a_string_do_not_start_a_document(text, value):
    documents = list(read_documents(Text("job.yaml", text)))

    assert 1 == len(documents)
    if value is not None:
        assert value.strip() == documents[0].data["a"].strip()


def test_the_directive_of_this_version_is_ignored():
    assert {"a": "yes"} == data("%YAML 1.2\n---\na: yes\n")


@pytest.mark.parametrize("directive", ["%YAML 1.1", "# a\n \n%TAG ! x", "%YAML 1.2\n%YAML 1.1"])
def test_a_directive_that_may_change_values_is_an_error(directive):
    (problem,), _ = read_documents(Text("job.yaml", f"{directive}\n---\na: yes\n"))

    line = len(directive.splitlines())
    assert f"job.yaml:{line}:1: directives other than %YAML 1.2 are" in str(problem)


@pytest.mark.parametrize("line", ["---#", "---# a", "---\xa0", "---\x85# a", "---\u3000"])
def test_a_line_that_only_kubectl_takes_for_a_marker_is_an_error(line):
    assert 'job.yaml:2:1: kubectl reads "' in rejected(f"a: 1\n{line}\nb: 1\n")


@pytest.mark.parametrize(
    "text", ["--- a: 1", "a: 1\n...\nb: 1\n", "a: 1\n\ufeff---\nb: 1\n", "a: 1\x85---\x85b: 1"]
)
def test_what_other_readers_divide_in_other_ways_is_an_error(text):
    assert "is not valid YAML" in rejected(text)


def test_windows_line_endings_can_be_read():
    document = read("a: 1\r\n\r\nb: |\r\n  x\r\n  y\r\n")

    assert {"a": 1, "b": "x\ny\n"} == document.data
    assert Place("job.yaml", 3, 4) == document.place(("b",))


def test_windows_line_endings_separate_documents():
    documents = list(read_documents(Text("job.yaml", "a: 1\r\n---\r\nb: 1\r\n")))

    assert [(1, 1), (3, 1)] == [(d.place(()).line, d.place(()).column) for d in documents]


def test_a_byte_order_mark_is_removed(tmp_path):
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
def test_a_file_that_is_not_utf_8_is_an_error_at_the_first_wrong_byte(content, place, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_bytes(content)

    problem = only_problem(file)

    assert ("not-text", Place(str(file), *place)) == (problem.code, problem.place)


def test_a_missing_file_is_reported_with_its_name(tmp_path):
    problem = only_problem(tmp_path / "job.yaml")

    assert "cannot be read: No such file or directory" == problem.message
    assert Place(str(tmp_path / "job.yaml")) == problem.place


@pytest.fixture
def nobody():
    """Run the test without the rights of root, who may read every folder."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


@pytest.mark.usefixtures("nobody")
def test_an_unreadable_folder_is_reported_with_its_name():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0)

        problem = only_problem(folder)

    assert ("cannot be read: Permission denied", Place(name)) == (problem.message, problem.place)


def test_a_broken_link_is_reported_with_its_name(tmp_path):
    (tmp_path / "job.yaml").symlink_to(tmp_path / "gone")

    assert (
        "cannot be read: No such file or directory" == only_problem(tmp_path / "job.yaml").message
    )


def test_manifests_in_a_folder_are_sorted_and_subfolders_ignored(tmp_path):
    for name in ("b.yaml", "a.yml", "c.json", "README.md", "d.yaml.bak", ".hidden", "deep/e.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a: 1\n")
    (tmp_path / "folder.yaml").mkdir()

    assert [str(tmp_path / name) for name in ("a.yml", "b.yaml", "c.json")] == names(tmp_path)


def test_a_file_argument_can_have_any_extension(tmp_path):
    (tmp_path / "job").write_text("a: 1\n")

    assert [str(tmp_path / "job")] == names(tmp_path / "job")


def test_a_folder_without_manifests_is_an_error(tmp_path):
    assert "unreadable" == only_problem(tmp_path).code


def test_the_file_of_kustomize_in_a_folder_has_no_documents(tmp_path):
    for name in ("a.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"):
        (tmp_path / name).write_text("a: 1\n")

    assert ["Kustomization", "a.yaml"] == [Path(name).name for name in names(tmp_path)]
    kustomization, _ = texts((str(tmp_path),))
    assert kustomization.others == ("a.yaml",)
    assert [each[0].code for each in read_documents(kustomization)] == ["no-effect"]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "kustomization.yaml",
            "the folder contains a kustomization, but no",
            "kubectl kustomize {}",
        ),
        ("Kustomization", "the folder contains a kustomization, but no", "kubectl kustomize {}"),
        ("Chart.yaml", "the folder is a Helm chart", "helm template {}"),
    ],
)
def test_a_folder_of_another_tool_is_an_error(name, message, hint, tmp_path):
    (tmp_path / name).write_text("a: 1\n")

    problem = only_problem(tmp_path)

    assert problem.message.startswith(message)
    assert problem.hint.endswith(f": {hint.format(tmp_path)} | mlgen render -")


def test_files_are_read_in_the_order_of_the_arguments(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("a: 1\n")

    paths = [tmp_path / "b.yaml", tmp_path, tmp_path / "b.yaml"]

    assert ["b.yaml", "a.yaml", "b.yaml", "b.yaml"] == [n.rpartition("/")[2] for n in names(*paths)]


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a: 1\n")))

    assert [Text("<stdin>", "a: 1\n")] == list(texts(("-",)))


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# a\n", "---\n", "---\n---\n# a\n", "%YAML 1.2\n---\n"]
)
def test_a_file_without_documents_is_an_error(text):
    assert rejected(text).endswith(
        "the file contains no documents; write a TrainingJob, or omit the file [empty]"
    )


def test_a_document_of_ten_megabytes_is_an_error():
    rows = "key: [a, b, c]\n" * 700_000

    message = "the document is larger than 1 MiB; put data into a volume instead"
    assert f"job.yaml:1:1: {message} [too-large]" == rejected(rows)


def test_documents_next_to_a_document_that_is_too_large_are_read():
    text = "a: 1\n---\n" + "#" * (1 << 20) + "\nb: 1\n---\nc: 1\n"

    first, (problem,), last = read_documents(Text("job.yaml", text))

    assert ({"a": 1}, "too-large", {"c": 1}) == (first.data, problem.code, last.data)
    assert 2 == problem.place.line


@pytest.mark.parametrize(
    "text",
    [
        *("a: " + "[" * 5000, "- " * 5000 + "a", "? " * 5000, f"a: {'[' * 100}{']' * 100}"),
        *(f"{{a: &a [[]], b: {'[' * 98}*a{']' * 98}}}", "&a [*a, " + "[" * 100),
        "a0: &a0 []\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 200)),
        "a0: &a0 {}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 200)),
    ],
)
def test_deep_nesting_is_an_error(text):
    assert rejected(text).endswith("is nested more than 100 levels deep [too-large]")


@pytest.mark.parametrize(
    "text",
    [
        f"a: {'[' * 99}{']' * 99}",
        f"{{a: &a [[]], b: {'[' * 97}*a{']' * 97}}}",
        "".join(f"{' ' * depth}a:\n" for depth in range(100)),
    ],
)
def test_nesting_up_to_the_bound_can_be_read(text):
    assert not is_too_deep(data(text))
    assert is_too_deep(data(text), 99)


def test_aliases_that_expand_to_too_many_values_are_an_error():
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 12))

    assert "has more than 200000 values after aliases are expanded" in rejected(
        "l0: &l0 [a]\n" + levels
    )


def test_merged_keys_count_as_often_as_they_are_merged():
    levels = "".join(
        f"l{i}: &l{i} {{<<: [{', '.join([f'*l{i - 1}'] * 10)}]}}\n" for i in range(1, 12)
    )

    assert "has more than 200000 values" in rejected("l0: &l0 {a: 1}\n" + levels)


def test_aliases_that_repeat_too_long_a_text_are_an_error():
    message = "has more than 4194304 characters after aliases are expanded"

    assert message in rejected(f"a: &a {'x' * 500_000}\nb: [{'*a, ' * 10}]\n")


def test_an_anchor_can_be_used_twice():
    assert {"a": 1, "b": 2, "c": 2} == data("a: &a 1\nb: &a 2\nc: *a\n")


@pytest.mark.parametrize(
    "number", ["1" * 101, "0x" + "f" * 100, f"1.{'0' * 100}", "1e" + "9" * 5000]
)
def test_a_number_of_too_many_digits_is_an_error(number):
    message = f"a: the number has {len(number)} characters, the limit is 100"

    assert f"job.yaml:1:4: {message}; quote it if it is a string [too-large]" == rejected(
        f"a: {number}"
    )
    assert {"a": number} == data(f'a: "{number}"')


@pytest.mark.parametrize(
    "text", ["&a [*a]", "a: &a {b: *a}", "a: &a {b: [{c: *a}]}", "a: &a {<<: *a}"]
)
def test_an_alias_within_its_own_anchor_is_an_error(text):
    assert "an alias refers to a value that contains it; copy the value [not-yaml]" in rejected(
        text
    )


def test_an_alias_can_be_used_twice():
    assert {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]} == data("a: &a {x: 1}\nb: [*a, *a]\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: .inf", "expected a number, got .inf"),
        ("a: -.INF", "expected a number, got -.INF"),
        ("a: .nan", "expected a number, got .nan"),
        ("a: 1e999", "expected a number, got 1e999"),
        ("a: !!int x", "expected an integer, got x"),
        ("a: !!bool x", "expected a boolean, got x"),
    ],
)
def test_a_value_that_json_cannot_hold_is_an_error(text, message):
    assert f"job.yaml:1:4: a: {message}; quote it if it is a string [not-yaml]" == rejected(text)


@pytest.mark.parametrize(
    "text", ["a: !x 1", "a: !!python/name:os.system x", "a: !!set {b}", "!x [a]"]
)
def test_an_unknown_tag_is_an_error(text):
    assert "is not supported; remove the tag [not-yaml]" in rejected(text)


def test_a_control_character_is_an_error_at_its_place():
    assert rejected("a: 1\nb: x\x1by\n").startswith("job.yaml:2:5: is not valid YAML: ")


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("", ""), ("# nothing", None), ("[a, 1]", ["a", 1]), ("'8'", "8")]
)
def test_a_scalar_is_read_as_in_a_file(text, value):
    assert value == value_document(text).data


@pytest.mark.parametrize("text", ["[a", "a: b: c", "&a [*a]", "{a: 1, a: 2}", "a\n---\nb"])
def test_a_scalar_that_is_not_valid_yaml_is_an_error(text):
    with pytest.raises(ValueError, match=r"valid YAML|duplicate key|alias"):
        value_document(text)


def test_a_duplicate_key_is_an_error_at_the_second_place_and_names_the_first_line():
    text = "# head\nspec:\n  image: a\n  roles: {}\n  image: b\n"

    assert (
        'job.yaml:5:3: spec.image: duplicate key "image"; first used on line 3; remove one of them '
        "[duplicate-key]" == rejected(text)
    )
    assert {"spec": {"image": "b", "roles": {}}} == data(text)


def test_of_duplicate_keys_the_last_takes_effect_and_each_names_the_line_of_the_first():
    (document,) = read_documents(Text("job.yaml", "a: {b: 1}\nc: 2\na: {b: x}\na: {b: y}\n"))

    assert {"a": {"b": "y"}, "c": 2} == document.data
    assert [3, 4] == [problem.place.line for problem in document.problems]
    assert ['duplicate key "a"; first used on line 1'] * 2 == [p.message for p in document.problems]
    assert (4, 8) == (document.place(("a", "b")).line, document.place(("a", "b")).column)
    assert {("c",): "2"} == document.texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("? {a: 1}\n: 2\n", "expected a string as key, got a mapping [not-yaml]"),
        ("? [a]\n: {{x}}\n", "expected a string as key, got a list; render the Helm chart first"),
        ("<<: 3\n", "expected a mapping to merge with <<, got a scalar [not-yaml]"),
        ("<<: [[a]]\n", "expected a mapping to merge with <<, got a list [not-yaml]"),
        (
            "a: {{ .Values.x }\n",
            "render the Helm chart first: helm template CHART | mlgen render -",
        ),
    ],
)
def test_keys_and_merges_of_a_wrong_kind_are_errors(text, message):
    assert message in rejected(text)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, reader.LOADER])
@pytest.mark.parametrize("escape", [r"\U00110000", r"\UFFFFFFFF"])
def test_an_escape_sequence_that_stands_for_no_character_is_an_error(escape, loader, monkeypatch):
    monkeypatch.setattr(reader, "LOADER", loader)

    problem = rejected(f'a:\n  "{escape}"\n')

    assert problem.startswith("job.yaml:2:")
    assert "is not valid YAML: an escape sequence is not a valid character" in problem


@pytest.mark.parametrize("loader", [yaml.SafeLoader, reader.LOADER])
def test_a_lone_surrogate_is_an_error_and_read_as_a_question_mark(loader, monkeypatch):
    monkeypatch.setattr(reader, "LOADER", loader)
    text = 'a: "x\\ud83d"\n'

    assert rejected(text).startswith("job.yaml:1:4: a: an escape sequence is a lone surrogate")
    assert {"a": "x?"} == data(text)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, reader.LOADER])
def test_two_escapes_are_one_character_in_json_as_json_dumps_writes_it(loader, monkeypatch):
    monkeypatch.setattr(reader, "LOADER", loader)
    value = {"a": "\N{GRINNING FACE}", "b": ["x\N{GRINNING FACE}y"]}

    assert value == data(json.dumps(value))
    assert rejected(json.dumps({"a": "\ud83d"})).startswith("job.yaml:1:7: a: an escape sequence")


@each_file()
def test_the_parser_without_the_c_extension_reads_the_same(file):
    def result():
        found = list(reader.read_documents(Text("job.yaml", file.read_text())))
        marks = [(list(read.texts.items()), list(read.places.items())) for read in found]
        return found, marks

    of_libyaml = result()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "LOADER", yaml.SafeLoader)
        assert of_libyaml == result()


@pytest.mark.parametrize("part", range(10))
def test_texts_at_random_are_read_as_by_the_parser_without_the_c_extension(part, monkeypatch):
    def results():
        return [list(reader.read_documents(Text("job.yaml", text))) for text in made]

    made = [yaml_texts.text(f"reader-{part}-{number}") for number in range(50)]
    of_libyaml = results()
    monkeypatch.setattr(reader, "LOADER", yaml.SafeLoader)

    for found, other in zip(of_libyaml, results(), strict=True):
        if all(isinstance(document, Document) for document in (*found, *other)):
            assert found == other


@pytest.mark.parametrize("line_break", ["\x85", "\u2028", "\u2029"])
def test_lines_are_those_of_an_editor(line_break):
    document = read(f"# a{line_break}# b\na: 'x{line_break}y'\nb: 1\r\nc: 2\n")

    assert [Place("job.yaml", row, 4) for row in (2, 3, 4)] == [
        document.place((key,)) for key in "abc"
    ]


def test_an_unclosed_quote_is_an_error_that_says_where_it_starts():
    assert rejected("a: 1\nb: 'x\nc: 1\n") == (
        "job.yaml:4:1: is not valid YAML: found unexpected end of stream"
        " while scanning a quoted scalar that starts on line 2 [not-yaml]"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("? [a]\n: b\n" * 5_000, "{{a}}: b\n" * 5_000, "a: 1\n" * 10_000),
        *("- .inf\n" * 10_000, "a: &a [.inf]\nb:\n" + "- *a\n" * 10_000),
    ],
)
def test_thousands_of_problems_are_found_in_no_time(text):
    start = time.process_time()
    list(reader.read_documents(Text("job.yaml", text)))

    assert 5 > time.process_time() - start


@pytest.mark.parametrize(
    ("text", "value"),
    [("9007199254740991.0", 2**53 - 1), ("9007199254740992.0", 2.0**53), ("-0b11", -3), ("+7", 7)],
)
def test_floats_become_integers_only_if_they_are_exact(text, value):
    number = data(f"a: {text}")["a"]

    assert (value, type(value)) == (number, type(number))


def test_the_source_of_each_document_is_kept():
    texts_ = [document.text for document in read_documents(Text("", "a: 1\n---\n# x\nb: 1\n"))]

    assert ["a: 1\n", "---\n# x\nb: 1\n"] == texts_


def test_lines_of_a_part_of_a_file_count_from_the_start_of_the_file():
    (document,) = read_documents(Text("job.yaml", "a: 1\n", line=9))

    assert Place("job.yaml", 10, 4) == document.place(("a",))


def test_a_text_that_could_not_be_read_is_its_problem():
    problem = Problem((), "cannot be read", "unreadable")

    assert [[problem]] == list(read_documents(Text("job.yaml", problem=problem)))


def test_a_place_in_a_part_of_a_file_counts_from_the_start_of_the_file():
    problem = decode("job.yaml", b"a: 1\nb: \xff\n", line=3).problem

    assert Place("job.yaml", 5, 4) == problem.place
    assert "is not UTF-8 text (byte 0xff at offset 8)" == problem.message
