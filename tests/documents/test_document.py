"""A part of a document, and the place of a problem in it."""

import pytest

from mlgen.documents.document import Document
from mlgen.problems import Place, Problem

ROOT, SPEC, NAME, KEY = (Place("job.yaml", line) for line in (1, 2, 3, 4))


def document(**fields):
    places = {(): ROOT, ("items", 0): SPEC, ("items", 0, "name"): NAME}
    data = {"items": [{"name": "x"}]}
    return Document(data, places, keys={("items", 0, "name"): KEY}, **fields)


def problem(*path, place=None):
    return Problem(path, "is wrong", "bad-value", place=place)


def test_a_part_of_a_document_has_paths_of_its_own():
    whole = document(
        texts={("items", 0, "name"): "08", ("other",): "1"},
        problems=[problem("items", 0, "name"), problem("items", 1), problem("other")],
        origins={(): ("x",)},
        text="items: …",
    )

    assert Document(
        data={"name": "x"},
        places={(): SPEC, ("name",): NAME},
        keys={("name",): KEY},
        texts={("name",): "08"},
        problems=[problem("name")],
    ) == whole.item("items", 0)


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        (("items", 0, "name"), False, NAME),
        (("items", 0, "name"), True, KEY),
        (("items", 0, "name", "a", "b"), False, NAME),
        (("items", 0, "image"), True, SPEC),
        (("kind",), False, ROOT),
    ],
)
def test_a_problem_has_the_place_of_its_value_or_key_or_of_what_contains_it(path, key, place):
    assert problem(*path, place=place) == document().located(problem(*path), key=key)


def test_a_problem_with_a_place_keeps_it():
    placed = problem("items", place=Place("other.yaml"))

    assert placed is document().located(placed)


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        (("items", 0, "name"), ("a", "b")),
        (("items", 0, "name", "x"), ("a", "b")),
        (("items", 0, "image"), ("a",)),
        (("kind",), ()),
    ],
)
def test_a_problem_of_a_converted_document_has_its_path_in_the_custom_resource(path, origin):
    converted = document(origins={("items",): ("a",), ("items", 0, "name"): ("a", "b")})

    assert origin == converted.located(problem(*path)).path
