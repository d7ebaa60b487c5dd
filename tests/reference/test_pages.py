"""The reference in docs/ is what mlgen prints, and the examples of problem codes are right."""

import pytest
from reference.examples import codes, messages
from reference.pages import MESSAGES, pages

from mlgen.reference import problem_codes
from mlgen.reference.problem_codes import explanation


def test_the_pages_are_up_to_date():
    """If not: .ci/reference writes them."""
    assert [] == [str(path) for path, text in pages().items() if path.read_text() != text]


@pytest.mark.parametrize("code", problem_codes.names())
def test_the_examples_of_a_code_are_right(code, tmp_path):
    """Messages are written by .ci/reference too."""
    example = explanation(code)
    (tmp_path / "wrong").mkdir()
    (tmp_path / "right").mkdir()

    wrong = messages(example.wrong, tmp_path / "wrong")

    assert codes(wrong) == {code}
    assert wrong == example.wrong.messages + "\n"
    assert messages(example.right, tmp_path / "right") == ""


def test_every_code_says_what_it_means_and_what_to_do():
    for code in problem_codes.names():
        text = explanation(code)

        assert text.meaning.endswith(".")
        assert text.remedy.endswith(".")
        assert len(MESSAGES.findall((problem_codes.FOLDER / f"{code}.md").read_text())) == 1
