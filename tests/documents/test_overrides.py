"""`--set path=value` overrides a value of every job file."""

import re
from dataclasses import replace

import pytest
from support import apply

from mlgen.documents.document import Document, Mark, marked
from mlgen.documents.files import Text
from mlgen.documents.overrides import parse, written
from mlgen.documents.reader import read_documents
from mlgen.problems import MlgenError, Place

ARGS = ("spec", "roles", "worker", "args")


@pytest.fixture
def document():
    text = "spec:\n  roles:\n    worker: {replicas: 2, args: [a, b]}\n  image: 1e5\n"
    (read,) = read_documents(Text("job.yaml", text))
    return read


def test_a_setting_is_a_path_and_a_yaml_value():
    rows = [
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
    ]

    assert [(path, value) for _, path, value in rows] == [parse(setting) for setting, _, _ in rows]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("spec.image", 'expected path=value, but there is no "="'),
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
        ("spec.image={a: 1, a: 2}", 'duplicate key "a"; first used on line 1'),
    ],
)
def test_a_malformed_setting_is_an_error(setting, message):
    with pytest.raises(ValueError, match=message):
        parse(setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "spec.image=a,spec.args[0]=b,metadata.name=c",
            (
                "the value contains another setting; repeat the option:"
                " --set 'spec.image=a' --set 'spec.args[0]=b' --set 'metadata.name=c'"
            ),
        ),
        ("spec.args={a, b}", "a list is written as in YAML: --set 'spec.args=[a, b]'"),
        (
            "spec.resources.nvidia.com/gpu=4",
            (
                'escape the dots in the key "nvidia.com/gpu" with a backslash, in single quotes:'
                r" --set 'spec.resources.nvidia\.com/gpu=4'"
            ),
        ),
        (
            "spec.template.metadata.labels.example.com/team=a",
            (
                'escape the dots in the key "example.com/team" with a backslash, in single quotes:'
                r" --set 'spec.template.metadata.labels.example\.com/team=a'"
            ),
        ),
    ],
)
def test_a_setting_as_for_helm_or_without_backslashes_is_an_error(setting, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse(setting)


@pytest.mark.parametrize(
    "setting",
    [
        "spec.env.XLA_FLAGS=--a=1,--b=2",
        "spec.env.A='x,spec.image=b'",
        "spec.args=[a, spec.b=c]",
        "spec.volumes.a.emptyDir={}",
        "spec.volumes.a.files.b/c=x",
        "metadata.labels.team/a=x",
        r"spec.resources.nvidia\.com/gpu=4",
    ],
)
def test_a_setting_that_only_looks_like_one_for_helm_is_read(setting):
    assert parse(setting)


def test_a_path_is_written_as_it_is_read():
    path = ("metadata", "labels", r"a.b/c[0]\\", "args", 0)

    assert path == parse(f"{written(path)}=1")[0]


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("spec.env.LR=0.1", """write a string: --set 'spec.env.LR="0.1"'"""),
        ("spec.env.ON=true", """write a string: --set 'spec.env.ON="true"'"""),
        (
            r"metadata.labels.a\.b/c=8",
            r"""write a string: --set 'metadata.labels.a\.b/c="8"'""",
        ),
        ("spec.args=a,b", "write --set 'spec.args=[a, b]'"),
        (
            "spec.template.spec.serviceAccountName=1",
            """write a string: --set 'spec.template.spec.serviceAccountName="1"'""",
        ),
    ],
)
def test_a_hint_about_a_setting_is_a_setting(setting, hint, render_set):
    with pytest.raises(MlgenError) as caught:
        render_set(setting)

    (problem,) = caught.value.problems
    assert ("wrong-type", hint) == (problem.code, problem.hint)


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


def test_the_original_document_does_not_change(document):
    apply(document, ("spec", "roles", "worker", "args", 0), "z")

    assert ["a", "b"] == document.data["spec"]["roles"]["worker"]["args"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("spec", "image", "name"), 'spec.image is not a mapping, so "name" cannot be set in it'),
        (("spec", "image", "a", "b"), 'spec.image is not a mapping, so "a" cannot be set in it'),
        (("spec", "roles", 0), "spec.roles is not a list, so [0] cannot be set in it"),
        (("spec", "roles", 0, "x"), "spec.roles is not a list, so [0] cannot be set in it"),
        ((*ARGS, 3), "spec.roles.worker.args has 2 items, so [3] cannot be set"),
        ((*ARGS, 2, "x"), "spec.roles.worker.args has 2 items, so [2] cannot be set"),
        ((*ARGS, 0, "a"), 'spec.roles.worker.args[0] is not a mapping, so "a" cannot be set in it'),
        (("x", 1), "x has 0 items, so [1] cannot be set"),
    ],
)
def test_a_path_that_does_not_exist_is_an_error(path, message, document):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        apply(document, path, 1)


@pytest.mark.parametrize("data", [None, "text", ["item"]])
def test_nothing_can_be_set_in_a_document_that_is_not_a_mapping(data):
    with pytest.raises(ValueError, match='the document is not a mapping, so "spec" cannot be set'):
        apply(Document(data, marked({(): Place("job.yaml")})), ("spec", "image"), "x")


def test_an_overridden_value_is_placed_at_set_and_the_others_in_the_file(document):
    changed = apply(document, ("spec", "roles"), {"ps": {"replicas": "2"}})

    assert "--set" == str(changed.place(("spec", "roles", "ps", "replicas")))
    assert "--set" == str(changed.key_place(("spec", "roles")))
    assert "job.yaml:4:10" == str(changed.place(("spec", "image")))


def test_an_overridden_value_of_a_custom_resource_keeps_its_own_path(document):
    place = document.place(())
    inner = {"roles": Mark(place, origin=("b",), inner={"ps": Mark(place)}), "image": Mark(place)}
    marks = Mark(place, inner={"spec": Mark(place, origin=("a",), inner=inner)})
    converted = replace(document, marks=marks, converted=True)

    assert {
        (): (),
        ("spec",): ("a",),
        ("spec", "roles"): ("spec", "roles"),
        ("spec", "image"): ("a", "image"),
    } == dict(apply(converted, ("spec", "roles"), {}).origins())


@pytest.mark.parametrize("setting", [f"{'.a' * 101}=1", f"{'.a' * 51}={'[' * 50}1{']' * 50}"])
def test_a_setting_cannot_make_a_document_deeper_than_one_may_be(setting, document):
    path, value = parse(setting[1:])

    with pytest.raises(ValueError, match="would be nested more than 100 levels deep"):
        apply(document, path, value)
    assert apply(document, path[1:], value)


def test_the_source_text_of_an_overridden_value_is_dropped(document):
    assert {
        ("spec", "image"): "1e5",
        ("spec", "roles", "worker", "replicas"): "2",
    } == document.texts

    assert {("spec", "image"): "1e5"} == apply(document, ("spec", "roles"), {}).texts


def test_the_last_of_several_settings_for_a_path_wins(render_set):
    assert "image: example/tune:4" in render_set(
        "spec.image=example/tune:3", "spec.image=example/tune:4"
    )


def test_a_quoted_number_is_a_string_in_a_setting_too(render_set):
    assert "value: '8'" in render_set("spec.env.N='8'")


@pytest.fixture
def render_set(render):
    from support import ROOT

    def rendered(*settings):
        return render(
            ROOT / "fixtures/tensorflow-single.yaml", settings=tuple(map(parse, settings))
        )

    return rendered
