"""A YAML stream is split into documents without changing a byte."""

from contextlib import suppress
from itertools import product

import pytest
import yaml

from mlgen.documents.files import chunks, is_blank, without_marker

STREAM = [
    ("a: 1\n", [(0, "a: 1\n")]),
    ("---\na: 1\n", [(0, "---\na: 1\n")]),
    ("a: 1\n---\nb: 1\n--- c\n", [(0, "a: 1\n"), (1, "---\nb: 1\n"), (3, "--- c\n")]),
    ("---\n---\n", [(0, "---\n"), (1, "---\n")]),
    ("a: 1\n---\r\nb: 1", [(0, "a: 1\n"), (1, "---\r\nb: 1")]),
    ("a: 1\n---", [(0, "a: 1\n"), (1, "---")]),
    ("a: 1\n---\tb\n", [(0, "a: 1\n"), (1, "---\tb\n")]),
    ("a: |\n ---\n----\n---b\n", [(0, "a: |\n ---\n----\n---b\n")]),
    ("", []),
]


@pytest.mark.parametrize(("stream", "documents"), STREAM)
def test_a_stream_is_split_before_each_marker(stream, documents):
    assert documents == list(chunks(stream.splitlines(keepends=True)))


@pytest.mark.parametrize(("stream", "documents"), STREAM)
def test_bytes_are_split_like_text(stream, documents):
    encoded = [(line, text.encode()) for line, text in documents]

    assert encoded == list(chunks(stream.encode().splitlines(keepends=True)))


def test_a_document_of_comments_and_directives_is_blank():
    rows = [
        *(("", True), ("\n \n", True), ("---\n", True), ("--- # a\n  # b\n", True)),
        *(("%YAML 1.2\n---\n", False), ("%YAML 1.2\n", True), ("---\n# a\nb: 1\n", False)),
        *(("--- a\n", False), ("---a\n", False)),
        *((f"{blank}# a\n", False) for blank in "\xa0\u2003\u3000"),
    ]

    assert [(blank, blank) for _, blank in rows] == [
        (is_blank(chunk), is_blank(chunk.encode())) for chunk, _ in rows
    ]


@pytest.mark.parametrize(
    ("chunk", "text"),
    [("--- {a: 1}\n", "    {a: 1}\n"), ("a: 1\n", "a: 1\n"), ("---a", "---a"), ("---", "   ")],
)
def test_a_document_without_its_marker_keeps_its_columns(chunk, text):
    assert text == without_marker(chunk)
    assert text.encode() == without_marker(chunk.encode())


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_comment_ends_where_kubectl_ends_it(end):
    for start in ("# a", "%YAML 1.2"):
        chunk = f"{start}{end}kind: Secret\n"

        assert (False, False) == (is_blank(chunk), is_blank(chunk.encode()))


def test_a_blank_document_has_no_content_for_a_reader_of_yaml():
    characters = " \t\r\n#a-\x0b\x0c\x1c\x85\xa0\u2003\u2028\u200b\u3000\ufeff"
    for row in (row for n in (1, 2, 3) for row in product(characters, repeat=n)):
        for chunk in ("".join(row), "---" + "".join(row)):
            with suppress(yaml.YAMLError):
                content = next(yaml.compose_all(chunk, yaml.CSafeLoader), None)

                assert not is_blank(chunk) or content is None or content.value == "", chunk
