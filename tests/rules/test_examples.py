"""Each rule reports its wrong examples, and accepts its right ones."""

import importlib

import pytest
from rules.recorded import problems_of

from mlgen.rules import Rules, job_file

for module in ("ranks", "scripts", "variables"):
    importlib.import_module(f"mlgen.launch.{module}")
importlib.import_module("mlgen.checks")
importlib.import_module("mlgen.contradictions")
RULES = {rule.name: rule for rule in Rules.every}


@pytest.mark.parametrize("name", RULES)
def test_wrong_examples_are_reported_by_their_rule(name, snapshot):
    rule = RULES[name]
    shown = []
    for example in rule.texts.wrong:
        problems, found = problems_of(job_file(example))
        assert rule in [each for each, _ in found], (problems, found)
        shown += problems
    assert shown == snapshot


@pytest.mark.parametrize("name", RULES)
def test_right_examples_have_no_problem(name):
    for example in RULES[name].texts.right:
        problems, _ = problems_of(job_file(example))
        assert [] == problems


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_explained_by_both_examples(name):
    texts = RULES[name].texts
    assert texts.text and texts.wrong and texts.right


def test_names_of_rules_are_unique():
    assert len(RULES) == len(Rules.every)
