"""The items of a ResourceList, and where they are in its text."""

import pytest

from mlgen.documents import resource_list
from mlgen.documents.files import Text
from mlgen.documents.resource_list import VERSIONS, read
from mlgen.problems import MlgenError, Problem

HEAD = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"
JOB = """\
# before
- apiVersion: batch/v1
  kind: Job
  metadata:
    name: mnist
    namespace: a
    annotations:
      config.kubernetes.io/path: old.yaml
      internal.config.kubernetes.io/path: job.yaml
"""
DATA = "- {kind: ConfigMap, apiVersion: v1, metadata: {name: x}}  # beside\n"
LOCAL = "{metadata: {annotations: {config.kubernetes.io/local-config: 'true'}}, kind: A}"


def parsed(text):
    return read(Text("<stdin>", text))


def error(text):
    with pytest.raises(MlgenError) as caught:
        parsed(text)
    (problem,) = caught.value.problems
    return str(problem)


def test_items_in_block_style_are_whole_lines():
    source = parsed(f"{HEAD}items:\n{JOB}{DATA}functionConfig: {LOCAL}\n")
    job, data = source.items
    first, second, end = source.lines.items

    assert (JOB.partition("\n")[2], DATA) == (source.text[first:second], source.text[second:end])
    assert ("batch/v1", "Job", "mnist", "a") == (job.version, job.kind, job.name, job.namespace)
    assert ("job.yaml", False, "job.yaml") == (job.path, job.local, job.origin)
    assert ("batch", "Job", "a", "mnist") == job.key
    assert ("", "ConfigMap", "", "x") == data.key
    assert ("", "ConfigMap/x") == (data.path, data.origin)
    assert "{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}" == data.text
    assert (0, 0) == (source.lines.item_column, source.lines.column)
    assert source.lines.end == len(source.text)


def test_the_function_config_is_an_item():
    config = parsed(f"{HEAD}functionConfig: {LOCAL}\nitems: []\n").config

    assert (LOCAL, "A", "", True) == (config.text, config.kind, config.name, config.local)


@pytest.mark.parametrize("config", ["", "functionConfig: text\n"])
def test_a_list_without_function_config_has_none(config):
    assert parsed(f"{HEAD}{config}items: []\n").config is None


def test_items_in_flow_style_are_exact_spans():
    text = (
        '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{}, {"a": 1}]}'
    )
    source = parsed(text)

    assert ["{}", '{"a": 1}'] == [item.text for item in source.items]
    assert (True, None) == (source.flow, source.lines)


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}items: []\n",
        f"{HEAD}items: &a\n- {{a: b}}",
        f"{HEAD}items:\n- {{a: b}}",
        f"{HEAD}items:\r\n- {{a: b}}\r\n",
        f"---\n{{apiVersion: {VERSIONS[0]}, kind: ResourceList, items: [{{a: b}}]}}\n",
    ],
)
def test_a_list_in_another_style_has_no_places_for_edits(text):
    source = parsed(text)

    assert (None, False) == (source.lines, source.flow)


@pytest.mark.parametrize("dash", ["- ", "-   ", "- # c\n  ", "-\n  # c\n\n  ", "- &a\n  "])
def test_the_line_of_an_item_is_that_of_its_dash(dash):
    source = parsed(f"{HEAD}items:\n{dash}a: b\n")

    assert source.lines.items == (len(f"{HEAD}items:\n"), len(source.text))


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_of_a_resource_list_is_accepted(version):
    text = f"apiVersion: config.kubernetes.io/{version}\nkind: ResourceList\nitems: []\n"

    assert [] == parsed(text).items


EXPECTED = "expected a config.kubernetes.io/v1 ResourceList, got"
HINT = "run mlgen krm from kustomize or kpt; for manifests, run mlgen render -"


def test_anything_else_is_an_error():
    rows = [
        ("kind: Foo\n", f"1:1: {EXPECTED} Foo; {HINT} [resource-list]"),
        ("apiVersion: v1\nkind: ResourceList\n", f"1:1: {EXPECTED} v1 ResourceList; {HINT} [res"),
        ("[]\n", f"1:1: {EXPECTED} a document without kind; {HINT} [resource-list]"),
        (HEAD, "1:1: items: expected a list [resource-list]"),
        (f"{HEAD}items: {{}}\n", "3:8: items: expected a list [resource-list]"),
        (f"{HEAD}items: {{? {{kind: b}} : c}}\n", "3:8: items: expected a list [resource-list]"),
        (f"{HEAD}items: [{{}}, a]\n", "3:13: items: expected an object, got a scalar [resource"),
        (f"{HEAD}items:\n- []\n", "4:3: items: expected an object, got a list [resource-list]"),
        ("a: 1\n---\nb: 1\n", f"3:1: expected a single ResourceList; {HINT} [resource-list]"),
        ("? {a: b}\n: c\n", f"1:1: {EXPECTED} a document without kind"),
        ("a: [\n", "2:1: is not valid YAML: "),
        ("", f"1:1: the file contains no documents; {HINT} [empty]"),
    ]

    for text, message in rows:
        assert error(text).startswith(f"<stdin>:{message}")


def test_an_unreadable_file_is_an_error():
    problem = Problem((), "cannot be read", "unreadable")

    with pytest.raises(MlgenError) as caught:
        read(Text("list.yaml", problem=problem))
    assert (problem,) == caught.value.problems


def test_an_anchor_can_be_defined_by_several_items():
    source = parsed(f"{HEAD}items:\n- &a {{kind: A, x: [&b c, *b]}}\n- &a {{kind: B}}\n")

    assert ["A", "B"] == [item.kind for item in source.items]


@pytest.mark.parametrize(
    ("items", "place"),
    [("- {a: &x b}\n- {a: *x}\n", "5:7"), ("- {a: *x}\n", "4:7"), ("&x\n- {a: *x}\n", "4:7")],
)
def test_an_alias_of_a_value_in_another_item_is_an_error(items, place):
    expected = f"<stdin>:{place}: the anchor of *x is not in the same item [resource-list]"

    assert error(f"{HEAD}items:{' ' if items[0] == '&' else chr(10)}{items}") == expected


def test_a_field_of_the_list_is_there_once():
    assert 'duplicate key "items" [resource-list]' in error(f"{HEAD}items: []\nitems: []\n")


@pytest.mark.parametrize(("start", "end"), [("[", "]"), ("{x: ", "}")])
def test_nesting_has_a_bound(start, end):
    """The limit is 100 levels, including the item itself. libyaml has one of 1000."""
    column = len("- {x: " + start * 99) + 1
    message = f"<stdin>:4:{column}: is nested more than 100 levels deep [too-large]"

    assert 1 == len(parsed(f"{HEAD}items:\n- {{x: {start * 99}{end * 99}}}\n").items)
    for nested in (f"{start * 100}{end * 100}", start * 5000):
        assert message == error(f"{HEAD}items:\n- {{x: {nested}}}\n")


def test_the_number_of_items_has_a_bound(monkeypatch):
    monkeypatch.setattr(resource_list, "DOCUMENTS", 2)

    assert 2 == len(parsed(f"{HEAD}items: [{{}}, {{}}]\n").items)
    assert "has more than 2 items [too-large]" in error(f"{HEAD}items: [{{}}, {{}}, {{}}]\n")


def test_a_second_byte_order_mark_is_not_counted():
    assert ["{kind: A}"] == [i.text for i in parsed(f"\ufeff{HEAD}items:\n- {{kind: A}}\n").items]
