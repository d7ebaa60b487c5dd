"""Texts → documents, each value with its place.

YAML is read as version 1.2 (`on` and `y` are strings), with anchors and merge keys. A duplicate key
is a problem.

There are two readers. `_lines` reads what is written as usual, and quickly. `_thorough` reads all
else, and says what is wrong and where; it is needed for places too, so these are read when somebody
asks for one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen.bounds import DOCUMENT_BYTES, DOCUMENTS, VALUES
from mlgen.documents import _lines
from mlgen.documents.chunks import is_blank, is_marked, split, without_marker
from mlgen.documents.document import Document, unmarked
from mlgen.documents.files import Text, too_many
from mlgen.documents.marks import Mark
from mlgen.problems import Place, Problem

if TYPE_CHECKING:
    from mlgen.documents import _thorough


def read_documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Return each document of a text, or, for a document that cannot be read, its problems.

    Blank documents are skipped; a text without any other is a problem. The places, keys and texts
    of a document cost many times as much as its data; they are read when they are first used.
    """
    if text.problem:
        yield [text.problem]
        return
    documents = 0
    for line, chunk in split(text.text):
        if is_blank(chunk):
            continue
        documents += 1
        if documents > DOCUMENTS:
            yield [too_many(text.name)]
            return
        yield _document(text.name, text.line + line, chunk)
    if not documents:
        hint = "write a TrainingJob, or omit the file"
        yield [Problem((), "the file contains no documents", "empty", hint, place=Place(text.name))]


def value_document(text: str) -> Document:
    """Return one value, read as YAML 1.2, with its spelling, for `--set path=value`.

    Raises:
        ValueError: the text is not valid YAML; the message says why.
    """
    if not text.strip():
        return Document(text)
    try:
        if "\n" in text or text.startswith(("---", "...")):
            raise _lines.Unusual
        return _placed(_lines.data(f"value: {text}")["value"], "", 0, text)
    except _lines.Unusual:
        document = _reader("", 0).read(text)
    problems = document.problems if isinstance(document, Document) else document
    if problems:
        raise ValueError(problems[0].message)
    return document if isinstance(document, Document) else Document(None)


def _document(file: str, first_line: int, chunk: str) -> Document | list[Problem]:
    """Return the document of a chunk, or its problems."""
    text = without_marker(chunk) if is_marked(chunk) else chunk
    try:
        if not _is_small(text):
            raise _lines.Unusual
        document: Document | list[Problem]
        document = _placed(_lines.data(text), file, first_line, chunk)
    except _lines.Unusual:
        document = _reader(file, first_line).read(chunk)
    return replace(document, text=chunk) if isinstance(document, Document) else document


def _placed(data: Any, file: str, first_line: int, chunk: str) -> Document:
    """Return data as a document, without its text; the thorough reader finds marks if needed."""

    @cache
    def marks() -> Mark:
        document = _reader(file, first_line).read(chunk)
        return document.marks() if isinstance(document, Document) else unmarked()

    return Document(data, marks)


def _is_small(text: str) -> bool:
    """Return False if a document may have more bytes or values than are read."""
    if len(text) <= min(VALUES, DOCUMENT_BYTES // 4):  # a character has up to 4 bytes
        return True
    values = sum(map(text.count, ("\n", "- ", "[", "{", ",")))
    return values < VALUES and len(text.encode()) <= DOCUMENT_BYTES


def _reader(file: str, first_line: int) -> "_thorough.Reader":
    """Return a thorough reader; only those who need it pay for its import."""
    from mlgen.documents import _thorough

    return _thorough.Reader(file, first_line)
