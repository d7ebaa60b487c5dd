"""Each rule reports its wrong examples, and accepts its right ones.

The goldens show the messages of the wrong examples as a terminal does, so that you can review them
without the example.
"""

import ast
import inspect
from textwrap import dedent

import pytest
from rules.recorded import FILE, outcome

from mlgen import frameworks
from mlgen.documents.files import Text
from mlgen.output.problems import Style, text
from mlgen.reference import fields, rules
from mlgen.rules import Rules, job_file

RULES = rules.by_name()


@pytest.mark.parametrize("name", RULES)
def test_wrong_examples_are_reported_by_their_rule(name, snapshot):
    shown = []
    for example in RULES[name].texts.wrong:
        written = job_file(example)
        found = outcome(written)
        head = written.partition(example.partition("\n")[0])[0].count("\n")

        assert found.by(RULES[name]), found
        assert any(each.place.line > head for each in found.by(RULES[name])), found
        shown.append(text(found.problems, [Text(FILE, written)], Style(source=True)))
    assert "\n".join(shown) == snapshot


@pytest.mark.slow
def test_right_examples_have_no_problem():
    found = {
        (name, example): outcome(job_file(example)).problems
        for name, rule in RULES.items()
        for example in rule.texts.right
    }
    assert {} == {key: problems for key, problems in found.items() if problems}


def test_each_problem_of_a_rule_has_an_example():
    unreached = []
    for rule in RULES.values():
        findings = [each for one in rule.texts.wrong for each in outcome(job_file(one)).findings]
        reached = {each.line for each in findings if each.rule is rule}
        file = inspect.getsourcefile(rule.check)
        unreached += [
            f"{file}:{first}: no wrong example reaches this problem"
            for first, last in yields(rule.check)
            if reached.isdisjoint(range(first, last + 1))
        ]
    assert [] == unreached


def yields(function):
    """Return the first and the last line of each `yield` of a function, without inner functions."""
    (tree,) = ast.parse(dedent(inspect.getsource(function))).body
    start, found, nodes = function.__code__.co_firstlineno - 1, [], [*tree.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            found.append((start + node.lineno, start + node.end_lineno))
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return sorted(found)


def test_each_rule_is_explained_by_both_examples():
    for name, rule in RULES.items():
        assert rule.texts.text, name
        assert rule.texts.wrong, name
        assert rule.texts.right, name


def test_the_codes_of_a_rule_are_those_of_its_wrong_examples():
    """`mlgen explain CODE` relies on it."""
    for name, rule in RULES.items():
        found = [outcome(job_file(example)) for example in rule.texts.wrong]
        own = {each.code for one in found for each in one.by(rule)}
        assert own == {each.code for one in found for each in one.problems}, name


def test_names_of_rules_are_unique():
    assert len(RULES) == len(Rules.every)


def test_no_rule_has_the_name_of_a_field_or_framework():
    """`mlgen explain NAME` explains only one of them."""
    others = {*frameworks.names(), *(field.name for field in fields.every())}
    assert set() == others & {*RULES}
