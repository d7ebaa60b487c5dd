"""A part of a document, and the place of a problem in it."""

import pytest

from mlgen.documents.document import Document, Mark, is_too_deep
from mlgen.problems import Place, Problem

ROOT, SPEC, NAME, KEY = (Place("job.yaml", line) for line in (1, 2, 3, 4))


def document(**fields):
    name = Mark(NAME, KEY, "08", origin=("a", "b"))
    items = Mark(inner={0: Mark(SPEC, inner={"name": name})}, origin=("a",))
    root = Mark(ROOT, inner={"items": items})
    return Document({"items": [{"name": "x"}]}, root, **fields)


def problem(*path, place=None):
    return Problem(path, "is wrong", "bad-value", place=place)


def test_a_part_of_a_document_has_paths_of_its_own():
    whole = document(
        problems=[problem("items", 0, "name"), problem("items", 1), problem("other")],
        converted=True,
        text="items: …",
    )
    part = whole.item("items", 0)

    assert Document({"name": "x"}, problems=[problem("name")]) == part
    assert {(): SPEC, ("name",): NAME} == part.places
    assert ({("name",): KEY}, {("name",): "08"}) == (part.keys, part.texts)
    assert [part] == list(whole.items("items"))
    assert SPEC == next(whole.items("items")).place(())


def test_a_part_without_a_place_has_that_of_what_contains_it():
    assert {(): ROOT, (0,): SPEC, (0, "name"): NAME} == document().item("items").places


def test_values_without_a_file_have_no_places():
    with pytest.raises(KeyError):
        Document({}).place(("a",))


def test_a_problem_has_the_place_of_its_value_or_key_or_of_what_contains_it():
    rows = [
        (("items", 0, "name"), False, NAME),
        (("items", 0, "name"), True, KEY),
        (("items", 0, "name", "a", "b"), False, NAME),
        (("items", 0, "image"), True, SPEC),
        (("kind",), False, ROOT),
    ]

    assert [problem(*path, place=place) for path, _, place in rows] == [
        document().located(problem(*path), key=key) for path, key, _ in rows
    ]


def test_a_problem_with_a_place_keeps_it():
    placed = problem("items", place=Place("other.yaml"))

    assert placed is document().located(placed)


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        (("items", 0, "name"), ("a", "b")),
        (("items", 0, "name", "x"), ("a", "b")),
        (("items", 0, "image"), ("a", 0)),
        (("kind",), ()),
    ],
)
def test_a_problem_of_a_converted_document_has_its_path_in_the_custom_resource(path, origin):
    converted = document(converted=True)

    assert origin == converted.located(problem(*path)).path


def test_depth_is_that_of_mappings_and_lists_within_each_other():
    rows = [(1, 0), ([], 1), ({}, 1), ([1, {"a": [2]}], 3), ({"a": [[[]]], "b": 1}, 4)]

    assert [[True] * depth + [False] for _, depth in rows] == [
        [is_too_deep(value, limit) for limit in range(depth + 1)] for value, depth in rows
    ]
