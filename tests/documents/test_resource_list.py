"""The items of a ResourceList, and where they are in its text."""

import pytest

from mlgen.documents.files import Text
from mlgen.documents.resource_list import Item, read
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

    assert [JOB.partition("\n")[2], DATA] == [source.text[i.start : i.end] for i in source.items]
    assert ("batch/v1", "Job", "mnist", "a") == (job.version, job.kind, job.name, job.namespace)
    assert ("job.yaml", False, "job.yaml") == (job.path, job.local, job.origin)
    assert ("batch", "Job", "a", "mnist") == job.key
    assert ("", "ConfigMap", "", "x") == data.key
    assert ("", "ConfigMap/x") == (data.path, data.origin)
    assert "  {kind: ConfigMap, apiVersion: v1, metadata: {name: x}}" == data.text
    assert (0, 0) == (source.item_column, source.column)
    assert source.append_at == data.end
    assert source.results_at == len(source.text)


def test_the_function_config_is_an_item_without_span():
    config = parsed(f"{HEAD}functionConfig: {LOCAL}\nitems: []\n").config

    text = " " * 16 + LOCAL
    assert Item(0, 0, text, "", "A", "", "", "", local=True) == config


@pytest.mark.parametrize("config", ["", "functionConfig: text\n"])
def test_a_list_without_function_config_has_none(config):
    assert parsed(f"{HEAD}{config}items: []\n").config is None


def test_items_in_flow_style_are_exact_spans():
    text = (
        '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{}, {"a": 1}]}'
    )
    source = parsed(text)

    assert ["{}", '{"a": 1}'] == [source.text[item.start : item.end] for item in source.items]
    assert (None, None) == (source.item_column, source.column)
    assert ("]}\n", "}\n") == (source.text[source.append_at :], source.text[source.results_at :])


def test_an_item_can_be_inserted_into_an_empty_list():
    source = parsed(f"{HEAD}items: []")

    assert "]\n" == source.text[source.append_at :]
    assert (None, 0) == (source.item_column, source.column)


@pytest.mark.parametrize(
    ("with_results", "without"),
    [
        (f"{HEAD}results:\n- message: a\nitems: []\n", f"{HEAD}items: []\n"),
        (f"{HEAD}items: []\nresults: []", f"{HEAD}items: []\n"),
        (
            "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [], results: [a]}",
            "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: []}\n",
        ),
    ],
)
def test_results_of_earlier_functions_are_removed(with_results, without):
    assert without == parsed(with_results).text


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_of_a_resource_list_is_accepted(version):
    text = f"apiVersion: config.kubernetes.io/{version}\nkind: ResourceList\nitems: []\n"

    assert () == parsed(text).items


EXPECTED = "expected a config.kubernetes.io/v1 ResourceList, got"
HINT = "run this as a function of kustomize or kpt, or pass manifests to mlgen render -"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Foo\n", f"1:1: {EXPECTED} Foo; {HINT} [resource-list]"),
        ("apiVersion: v1\nkind: ResourceList\n", f"1:1: {EXPECTED} v1 ResourceList; {HINT} [res"),
        ("[]\n", f"1:1: {EXPECTED} a document without kind; {HINT} [resource-list]"),
        (HEAD, "1:1: items: expected a list [resource-list]"),
        (f"{HEAD}items: {{}}\n", "3:8: items: expected a list [resource-list]"),
        (f"{HEAD}items: [{{}}, a]\n", "3:13: items: expected an object, got a scalar [resource"),
        (f"{HEAD}items:\n- []\n", "4:3: items: expected an object, got a list [resource-list]"),
        ("a: 1\n---\nb: 1\n", "3:1: expected one ResourceList, got 2 documents"),
        ("a: [\n", "2:1: is not valid YAML: "),
        ("", f"1:1: the file contains no documents; {HINT} [empty]"),
    ],
)
def test_anything_else_is_an_error(text, message):
    assert error(text).startswith(f"<stdin>:{message}")


def test_an_unreadable_file_is_an_error():
    problem = Problem((), "cannot be read", "unreadable")

    with pytest.raises(MlgenError) as caught:
        read(Text("list.yaml", problem=problem))
    assert (problem,) == caught.value.problems


def test_an_anchor_can_be_used_by_several_items_and_nesting_can_be_deep():
    nested = "[" * 3000 + "]" * 3000
    source = parsed(f"{HEAD}items:\n- &a {{kind: A, x: {nested}}}\n- &a {{kind: B}}\n")

    assert ["A", "B"] == [item.kind for item in source.items]
