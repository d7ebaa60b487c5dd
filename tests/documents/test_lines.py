"""What the quick reader of YAML reads, the thorough one reads in the same way.

`MLGEN_MUTANTS=200000 MLGEN_SEED=any pytest -n 0 tests/documents/test_lines.py` tries more, and
others.
"""

import io
import json
import os
import re
from random import Random

import pytest
from support import FILES, FIXTURES, RESOURCES, ROOT, stem
from yaml_texts import PLAIN, QUOTED, damaged, text

from mlgen import Options
from mlgen.documents import _composer, _lines, _thorough, reader
from mlgen.documents._thorough import Reader
from mlgen.documents.chunks import chunks, is_blank, without_marker
from mlgen.documents.document import Document
from mlgen.documents.files import Text, texts
from mlgen.documents.marks import Mark
from mlgen.pipeline import attempt
from mlgen.problems import Place

MUTANTS = int(os.environ.get("MLGEN_MUTANTS", "3000"))
SEED = os.environ.get("MLGEN_SEED", "lines")

WRONG = sorted((ROOT / "fixtures" / "invalid").rglob("*.yaml"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
CORPUS = sorted((ROOT.parent / "shared" / "corpus").rglob("*.yaml"))
BLOCK = re.compile(r"(?ms)^```yaml[^\n]*\n(.*?)^```")


def written(*paths):
    """The documents of YAML files."""
    return [chunk for path in paths for chunk in split(path.read_bytes().decode(errors="replace"))]


def split(stream):
    """The documents of a text, without their `---`."""
    parts = chunks(io.StringIO(stream, newline=""))
    return [without_marker(chunk) for _, chunk in parts if not is_blank(chunk)]


def read(document):
    """True if the quick reader reads a document, and the thorough one reads the same."""
    try:
        data = _lines.data(document)
    except _lines.Unusual:
        return False
    thorough = Reader("job.yaml", 0).read(document)
    assert isinstance(thorough, Document), (document, thorough)
    assert not thorough.problems, (document, thorough.problems)
    assert json.dumps(thorough.data) == json.dumps(data), document
    return True


def test_every_job_file_is_read_the_same():
    job_files = written(*FIXTURES)

    assert sum(map(read, job_files)) > 0.95 * len(job_files)


def test_every_custom_resource_is_read_the_same():
    resources = written(*RESOURCES)

    assert sum(map(read, resources)) > 0.8 * len(resources)  # some have anchors


def test_every_wrong_file_is_read_the_same():
    assert sum(map(read, written(*WRONG))) > 200


@pytest.mark.skipif(not CORPUS, reason="no corpus")
def test_every_example_of_the_operators_is_read_the_same():
    examples = written(*CORPUS)

    assert sum(map(read, examples)) > 0.9 * len(examples)  # some have `...` for what is omitted


def test_every_example_in_the_documentation_is_read_the_same():
    examples = [
        part for page in PAGES for block in BLOCK.findall(page.read_text()) for part in split(block)
    ]

    assert sum(map(read, examples)) > 0.95 * len(examples)


def test_documents_at_random_are_read_the_same():
    number = sum(read(text(f"{SEED} {mutant}")) for mutant in range(MUTANTS))

    assert MUTANTS / 8 < number < MUTANTS / 2


def test_files_with_random_damage_are_read_the_same():
    random = Random(SEED)
    files = written(*FIXTURES, *RESOURCES, *WRONG)
    number = sum(read(damaged(random, random.choice(files))) for _ in range(MUTANTS // 10))

    assert MUTANTS / 50 < number


@pytest.mark.parametrize(
    "odd", [*PLAIN, *QUOTED, "[a, 1]", "{a: b}", "a: b", " 1 ", "1 # one", "#"]
)
def test_a_setting_is_read_the_same(odd, monkeypatch):
    def result():
        try:
            document = reader.value_document(odd)
        except ValueError as error:
            return str(error)
        return document.data, dict(document.texts), dict(document.places)

    quick = result()
    monkeypatch.setattr(_lines, "data", unusual)

    assert repr(quick) == repr(result())


def unusual(_):
    raise _lines.Unusual


@pytest.mark.parametrize("file", FILES[::12], ids=stem)
def test_to_render_without_a_problem_needs_no_places(file, monkeypatch):
    def objects():
        return [part.objects for part in attempt(texts((str(file),)), Options()).parts]

    if attempt(texts((str(file),)), Options()).problems or not all(map(read, written(file))):
        pytest.skip("has warnings, or is unusual")
    expected = objects()
    monkeypatch.setattr(Reader, "read", None)

    assert expected == objects()


def test_places_are_read_when_one_is_used(monkeypatch):
    reads = []

    def read(_, text):
        reads.append(text)
        return Document({}, lambda: Mark(Place("job.yaml")))

    monkeypatch.setattr(Reader, "read", read)
    (document,) = reader.read_documents(Text("job.yaml", "--- # job\na: 1\n"))
    item = document.item("a")

    assert ({"a": 1}, 1, []) == (document.data, item.data, reads)
    assert ("job.yaml", "job.yaml") == (document.place(()).file, document.key_place(("a",)).file)
    assert ["--- # job\na: 1\n"] == reads


@pytest.mark.parametrize(
    "text",
    [
        "- a\n" * 20,
        "- a\n" * 19,
        f"a: [{'1,' * 20}1]\n",
        f"- {'- ' * 20}a\n",
        "a: " + "é" * 60,
        "a: " + "e" * 97,
        "a: " + "e" * 98,
        "".join(f"{'  ' * depth}a:\n" for depth in range(40)),
        f"a: {'[' * 40}{']' * 40}\n",
    ],
)
def test_limits_are_those_of_the_thorough_reader(text, monkeypatch):
    def result():
        (document,) = reader.read_documents(Text("job.yaml", text))
        return document.data if isinstance(document, Document) else document

    if len(text) < 200:
        for module in (reader, _thorough):
            monkeypatch.setattr(module, "DOCUMENT_BYTES", 100)
        for module in (reader, _composer):
            monkeypatch.setattr(module, "VALUES", 20)
    either = result()
    monkeypatch.setattr(_lines, "data", unusual)

    assert either == result()
