"""Items of a ResourceList are replaced, and all other text stays as it is."""

import pytest
import yaml

from mlgen.documents.files import Text
from mlgen.documents.resource_list import read
from mlgen.output.resource_list import resource_list_text

HEAD = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"
BLOCK = f"{HEAD}items:\n  - a: 0644  # kept\n  # before\n  - b: 1\nfunctionConfig: {{}}\n"
FLOW = "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [{a: 0644}, {b: 1}]}\n"
EMPTY = f"{HEAD}items: []\n"
NEW, MORE = {"kind": "Job", "args": ["x"]}, {"kind": "Service"}


def written(text, replacements=None, results=()):
    return resource_list_text(read(Text("", text)), replacements or {}, results)


@pytest.mark.parametrize("text", [BLOCK, FLOW, EMPTY])
def test_a_list_without_changes_keeps_every_byte(text):
    assert text == written(text)


@pytest.mark.parametrize(
    ("text", "replacements", "expected"),
    [
        (
            BLOCK,
            {1: [NEW, MORE]},
            BLOCK.replace("  - b: 1\n", "  - {kind: Job, args: [x]}\n  - {kind: Service}\n"),
        ),
        (BLOCK, {2: [MORE]}, BLOCK.replace("  - b: 1\n", "  - b: 1\n  - {kind: Service}\n")),
        (FLOW, {0: [MORE]}, FLOW.replace("{a: 0644}", '{"kind": "Service"}')),
        (FLOW, {2: [MORE]}, FLOW.replace("{b: 1}", '{b: 1}, {"kind": "Service"}')),
        (
            FLOW,
            {1: [NEW, MORE]},
            FLOW.replace("{b: 1}", '{"kind": "Job", "args": ["x"]}, {"kind": "Service"}'),
        ),
        (EMPTY, {0: [MORE]}, EMPTY.replace("[]", '[{"kind": "Service"}]')),
    ],
)
def test_items_are_replaced_and_appended_in_the_style_of_the_list(text, replacements, expected):
    assert expected == written(text, replacements)


@pytest.mark.parametrize("text", [BLOCK, FLOW, EMPTY])
def test_results_are_a_field_of_the_list(text):
    results = [{"message": "größe: 1", "severity": "error"}]
    before, after = (yaml.safe_load(t) for t in (text, written(text, results=results)))

    assert {**before, "results": results} == after


def test_several_items_and_results_change_at_once():
    list_ = yaml.safe_load(written(FLOW, {1: [MORE], 0: [NEW], 2: [{"c": 1}]}, [{"message": "x"}]))

    assert ([NEW, MORE, {"c": 1}], [{"message": "x"}]) == (list_["items"], list_["results"])


def test_a_blank_line_in_a_string_is_not_indented():
    text = written(BLOCK, {0: [{"data": "a\n\nb"}]})

    assert "  - data: |-\n      a\n\n      b\n" in text
