"""The pages stay in plain English: turns of phrase that make a reader stop are rare."""

import words
from pages import PAGES
from support import ROOT

MOST = 40
"""Places per 10,000 words over all pages. Before the pages were revised, there were 303."""


def test_turns_of_phrase_that_stop_a_reader_are_rare():
    texts = [path.read_text() for path in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")]
    places = sum(len(words.found(text)) for text in texts)

    assert places * 10_000 / sum(map(words.words, texts)) < MOST, "run tests/words.py"
