"""The reference in docs/ is up to date, and the examples of problem codes are correct."""

import pytest
from reference.examples import codes, messages
from reference.pages import MESSAGES, pages
from reference.python_page import FUNCTIONS, VALUES, described, properties, sections

import mlgen
from mlgen.reference import rules
from mlgen.reference.rules import explanation


@pytest.mark.slow
def test_the_pages_are_up_to_date():
    """To update them, run .ci/reference."""
    assert [] == [str(path) for path, text in pages().items() if path.read_text() != text]


def test_the_examples_of_all_codes_are_right(tmp_path):
    """To update the messages, run .ci/reference."""
    for code in rules.codes():
        example = explanation(code)
        wrong, right = tmp_path / f"{code}-wrong", tmp_path / f"{code}-right"
        wrong.mkdir()
        right.mkdir()

        printed = messages(example.wrong, wrong)

        assert codes(printed) == {code}
        assert printed == example.wrong.messages + "\n"
        assert (code, messages(example.right, right)) == (code, "")


def test_every_code_says_what_it_means_and_what_to_do():
    for code in rules.codes():
        text = explanation(code)

        assert text.meaning.endswith(".")
        assert text.remedy.endswith(".")
        assert len(MESSAGES.findall((rules.FOLDER / f"{code}.md").read_text())) == 1


@pytest.mark.parametrize("name", mlgen.__all__)
def test_every_name_of_the_python_api_is_described(name):
    """It covers each function, class, parameter, field, return value and exception."""
    item = getattr(mlgen, name)
    text, entries, returns = sections(item)

    assert text
    assert all(row[-1] for row in described(item)), [r[0] for r in described(item) if not r[-1]]
    if name in FUNCTIONS:
        assert returns
        assert entries["Raises"]
    else:
        assert all(text for *_, text in properties(item))


@pytest.mark.parametrize("item", VALUES, ids=lambda item: item.__name__)
def test_every_value_in_a_result_is_described(item):
    assert all(row[-1] for row in (*described(item), *properties(item)))
