"""The fuzzer detects flaws of mlgen, and reduces the text."""

from random import Random

import pytest
from fuzz import worker
from fuzz.checks import JOB, FlawError, same
from fuzz.commands import COMMANDS, Outcome, flaws, run_on
from fuzz.shapes import Shaper
from fuzz.targets import TARGETS

PROBLEM = "job.yaml:1:1: is bad [bad-value]\n"
SEEDS = ["a\nb # c\nd\n"]

WARNING = "job.yaml:1:1: warning: is odd [differs]\n"


def test_what_is_wrong_with_an_outcome_is_noticed():
    rows = [
        ("render", Outcome(0, "a: 1\n", WARNING, ""), ""),
        ("render", Outcome(1, "", WARNING + PROBLEM, ""), ""),
        ("graph", Outcome(2, "", "Error: job.yaml has no jobs\n", ""), ""),
        ("validate", Outcome(1, PROBLEM, "1 job, 1 problem\n", ""), ""),
        ("render", Outcome(None, "", "", "KeyError: 'a'"), "KeyError: 'a'"),
        ("render", Outcome(3, "", PROBLEM, ""), "exit status 3"),
        ("render", Outcome(0, "a: 1\n", PROBLEM, ""), "exit status 0, but prints"),
        ("render", Outcome(1, "", WARNING, ""), "exit status 1, but prints"),
        ("render", Outcome(1, "a: 1\n", PROBLEM, ""), "output in spite of errors"),
        ("render", Outcome(1, "", f"\x1b[2J{PROBLEM}", ""), r"prints '\x1b' in"),
        ("show", Outcome(0, "job \u202e\n", "", ""), r"prints '\u202e' in"),
        ("render", Outcome(1, "", f"Traceback (most recent call last)\n{PROBLEM}", ""), "prints a"),
    ]

    for name, outcome, flaw in rows:
        (found,) = [*flaws(COMMANDS[name], outcome)] or [""]

        assert found.startswith(flaw)
        assert bool(found) == bool(flaw)


def test_every_command_bears_a_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcomes = {name: run_on(name, JOB.encode()) for name in COMMANDS}

    assert [] == [found for name in COMMANDS for found in flaws(COMMANDS[name], outcomes[name])]
    assert {name for name, outcome in outcomes.items() if outcome.status} == {"verify"}


@pytest.mark.slow
def test_documents_depend_on_the_seed_alone_and_many_are_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [Shaper(Random(seed)).text() for seed in range(14)]
    again = [Shaper(Random(seed)).text() for seed in range(14)]
    statuses = [run_on("render", text.encode("utf-8", "surrogatepass")).status for text in texts]

    assert texts == again
    assert 2 < statuses.count(0) < 12


@pytest.fixture
def tried(tmp_path):
    """Function that returns the findings of a check on random texts."""

    def tried(check, seeds):
        found = []
        one = worker.Worker(check, tmp_path / "current", found.append, cases=200)
        worker.at_random(one, seeds, seed=1)
        assert one.cases == 200
        return found

    return tried


def test_each_finding_is_printed_once_in_few_characters(tried):
    def check(text):
        if text.count("\n") > 5:
            raise FlawError("reads many lines")
        if "#" in text:
            raise FlawError("reads a comment")

    found = {(each["text"], each["flaw"]) for each in tried(check, SEEDS)}

    assert found == {("#", "reads a comment"), ("\n" * 6, "reads many lines")}


def test_a_text_that_takes_too_long_is_a_finding(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS", 0.01)

    def check(_):
        while True:
            pass

    assert "TooLong" in worker.Worker(check, tmp_path / "current", print).attempt("a")
    assert (tmp_path / "current").read_text() == "a"


def test_texts_depend_on_the_seed_alone(tried):
    texts = [], []
    for seen in texts:
        tried(seen.append, SEEDS)

    assert texts[0] == texts[1]
    assert len({*texts[0]}) > 150


def test_findings_have_a_signature_by_their_line_or_their_words():
    frame = '  File "/x/mlgen/{}.py", line {}, in f\n    g()\n'
    flaws_of = [
        frame.format("a", 1) + frame.format("b", 2) + "KeyError: 'x'",
        frame.format("a", 7) + frame.format("b", 2) + "KeyError: 'y'",
        frame.format("b", 3) + "KeyError: 'x'",
        frame.format("b", 3) + "MemoryError",
        frame.format("b", 9) + "MemoryError",
        "the roads differ; 1; 2",
        "the roads differ; 3; 4",
    ]

    a, b, c, d, e, f, g = map(worker.signature, flaws_of)

    assert (a, d, f) == (b, e, g)
    assert len({a, c, d, f}) == 4


@pytest.mark.slow
def test_every_target_bears_a_text_to_start_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for check, seeds, *_ in TARGETS.values():
        check(seeds()[0] if seeds else JOB)


def test_values_of_other_types_are_not_the_same():
    assert same({"a": float("nan")}, {"a": float("nan")})
    assert not same([1], [True])
    assert not same(1, 1.0)
