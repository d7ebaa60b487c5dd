"""`--set path=value` puts a value into every job file, as if it had been written there."""

import pytest

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.overrides import apply, parse
from mlgen.documents.reader import read_documents
from mlgen.problems import Place


@pytest.fixture
def document():
    text = "spec:\n  roles:\n    worker: {replicas: 2, args: [a, b]}\n  image: 1e5\n"
    (read,) = read_documents(Text("job.yaml", text))
    return read


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("spec.roles.worker.replicas=8", ("spec", "roles", "worker", "replicas"), 8),
        ("spec.args[0]=a", ("spec", "args", 0), "a"),
        (
            "spec.template.spec.containers[0].env[12].value=a",
            ("spec", "template", "spec", "containers", 0, "env", 12, "value"),
            "a",
        ),
        (
            r"metadata.labels.example\.com/team=vision",
            ("metadata", "labels", "example.com/team"),
            "vision",
        ),
        (r"spec.env.A\[0\]=x", ("spec", "env", "A[0]"), "x"),
        ("a=b=c", ("a",), "b=c"),
        ("a=", ("a",), ""),
        ("a='8'", ("a",), "8"),
        ("a=1e-5", ("a",), 1e-5),
        ("a=yes", ("a",), "yes"),
        ("a=null", ("a",), None),
        ("a=[python, train.py]", ("a",), ["python", "train.py"]),
        ("a={cpu: 2}", ("a",), {"cpu": 2}),
    ],
)
def test_a_setting_is_a_path_and_a_value_of_yaml(setting, path, value):
    assert (path, value) == parse(setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("spec.image", "there is no ="),
        ("=8", '"" is not a path'),
        ("[0]=8", '"\\[0\\]" is not a path'),
        ("spec..image=8", "is not a path"),
        ("spec.args[x]=8", "is not a path"),
        ("spec.args[-1]=8", "is not a path"),
        ("spec.args[0=8", "is not a path"),
        (".spec=8", "is not a path"),
        ("spec.=8", "is not a path"),
        ("spec.args[0]x=8", "is not a path"),
        ("spec.[0]=8", "is not a path"),
        ("spec.image=[a", "expected"),
        ("spec.image={a: 1, a: 2}", "stands here twice"),
    ],
)
def test_a_setting_of_another_form_is_an_error(setting, message):
    with pytest.raises(ValueError, match=message):
        parse(setting)


@pytest.mark.parametrize(
    ("path", "value", "spec"),
    [
        (
            ("spec", "image"),
            "x",
            {"image": "x", "roles": {"worker": {"replicas": 2, "args": ["a", "b"]}}},
        ),
        (("spec", "roles"), {}, {"image": 100000, "roles": {}}),
        (
            ("spec", "roles", "worker", "args", 1),
            "z",
            {"image": 100000, "roles": {"worker": {"replicas": 2, "args": ["a", "z"]}}},
        ),
        (
            ("spec", "roles", "worker", "args", 2),
            "c",
            {"image": 100000, "roles": {"worker": {"replicas": 2, "args": ["a", "b", "c"]}}},
        ),
        (
            ("spec", "roles", "ps", "env", "A"),
            "1",
            {
                "image": 100000,
                "roles": {"worker": {"replicas": 2, "args": ["a", "b"]}, "ps": {"env": {"A": "1"}}},
            },
        ),
        (
            ("spec", "roles", "worker", "waitFor", 0),
            {"role": "ps"},
            {
                "image": 100000,
                "roles": {
                    "worker": {"replicas": 2, "args": ["a", "b"], "waitFor": [{"role": "ps"}]}
                },
            },
        ),
    ],
)
def test_a_value_is_replaced_or_added_and_nothing_else_changes(path, value, spec, document):
    assert {"spec": spec} == apply(document, path, value).data


def test_the_document_that_was_read_stays_as_it_was(document):
    apply(document, ("spec", "roles", "worker", "args", 0), "z")

    assert ["a", "b"] == document.data["spec"]["roles"]["worker"]["args"]


@pytest.mark.parametrize(
    ("path", "step"),
    [
        (("spec", "image", "name"), "'name'"),
        (("spec", "roles", 0), "0"),
        (("spec", "roles", "worker", "args", 3), "3"),
        (("spec", "roles", "worker", "args", 5, "x"), "5"),
        (("spec", "roles", "worker", "args", "first"), "'first'"),
        (("spec", "roles", "worker", "replicas", 0, "x"), "0"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(path, step, document):
    with pytest.raises(ValueError, match=f"there is nothing at {step} to set a value in"):
        apply(document, path, 1)


@pytest.mark.parametrize("data", [None, "text", ["item"]])
def test_what_is_no_mapping_has_nothing_to_be_set(data):
    with pytest.raises(ValueError, match="there is nothing at 'spec'"):
        apply(Document(data, {(): Place("job.yaml")}), ("spec", "image"), "x")


def test_a_set_value_stands_on_the_command_line_and_the_others_in_the_file(document):
    changed = apply(document, ("spec", "roles"), {"ps": {"replicas": "2"}})

    assert "--set" == str(changed.place(("spec", "roles", "ps", "replicas")))
    assert "job.yaml:4:10" == str(changed.place(("spec", "image")))


def test_how_a_replaced_value_was_written_is_forgotten(document):
    assert {
        ("spec", "image"): "1e5",
        ("spec", "roles", "worker", "replicas"): "2",
    } == document.texts

    assert {("spec", "image"): "1e5"} == apply(document, ("spec", "roles"), {}).texts


def test_settings_add_up(render_set):
    assert "image: example/tune:4" in render_set(
        "spec.image=example/tune:3", "spec.image=example/tune:4"
    )


def test_a_number_for_a_text_must_be_quoted_in_a_setting_too(render_set):
    assert "value: '8'" in render_set("spec.env.N='8'")


@pytest.fixture
def render_set(render):
    from support import ROOT

    def rendered(*settings):
        return render(
            ROOT / "fixtures/tensorflow-single.yaml", settings=tuple(map(parse, settings))
        )

    return rendered
