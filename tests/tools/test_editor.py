"""Completions, hovers and problems in an editor with the schema and yaml-language-server."""

import re

import pytest
from tools.lsp import Editor

from mlgen import frameworks, scaffold, validate
from mlgen.kubernetes.versions import DEFAULT
from mlgen.scaffold import MODELINE, SCHEMA, Choices

HEAD = f"""\
{MODELINE}
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: bert}}
spec:
  framework: pytorch
  image: example/bert:2
"""

PLACEHOLDER = re.compile(r"\$\{\d+:([^}]*)\}")


@pytest.fixture(scope="module")
def editor(tool, tmp_path_factory):
    server = tool("yaml-language-server")
    tool("node")
    folder = tmp_path_factory.mktemp("editor")
    schema = folder / SCHEMA
    schema.parent.mkdir()
    schema.write_text(scaffold.editor_schema(DEFAULT))
    editor = Editor(server, folder)
    yield editor
    editor.quit()


def test_an_empty_file_offers_a_job_of_each_framework(editor):
    offered = editor.completions(f"{MODELINE}\n|")

    for name in frameworks.names():
        item = offered[f"TrainingJob: {name}"]
        assert item["documentation"] == frameworks.get(name).summary
        text = PLACEHOLDER.sub(r"\1", item["insertText"])
        # ElasticDL's master needs these permissions.
        assert {"rights"} >= {warning.code for warning in validate(f"{text}\n").warnings}
        assert editor.open(f"{MODELINE}\n{text}\n") == []


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("  roles:\n    |", {"master", "worker"}),
        ("  options:\n    |", {"nprocPerNode", "elasticPolicy"}),
        ("  roles:\n    worker:\n      |", {"replicas", "restartPolicy", "resources", "template"}),
        ("  runPolicy:\n    |", {"backoffLimit", "cleanPodPolicy", "restartScope"}),
        ("  template:\n    spec:\n      |", {"containers", "imagePullSecrets", "tolerations"}),
        ("  helpers:\n    |", {"waitImage", "pythonImage"}),
    ],
)
def test_fields_are_completed(text, labels, editor):
    assert labels <= set(editor.completions(HEAD + text))


def test_the_version_and_the_kind_are_completed(editor):
    offered = editor.completions(f"{MODELINE}\n|")

    assert offered["apiVersion"]["insertText"] == "apiVersion: mlgen.dev/v1alpha1"
    assert offered["kind"]["insertText"] == "kind: TrainingJob"


def test_values_are_completed_with_what_they_mean(editor):
    offered = editor.completions(f"{HEAD}  runPolicy:\n    cleanPodPolicy: |")
    head = HEAD.partition("framework:")[0]

    assert list(offered) == ["None", "Running", "All"]
    assert offered["Running"]["documentation"] == "Stop the running pods."
    assert list(editor.completions(f"{head}framework: |")) == frameworks.names()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  roles:\n    worker: {repl|icas: 2}\n", "Number of replicas of the role."),
        ("  shm|Size: 1Gi\n", "/dev/shm"),
        ("  options: {nproc|PerNode: 8}\n", "processes that torchrun starts"),
    ],
)
def test_a_field_is_explained(text, shown, editor):
    assert shown in editor.hover(HEAD + text)


def test_mistakes_are_reported_on_their_lines(editor):
    problems = editor.open(
        f"{HEAD}"
        "  imagee: b\n"
        "  options: {nprocPerNod: 8}\n"
        "  roles:\n"
        "    workr: {}\n"
        "    worker:\n"
        '      replicas: "2"\n'
        "      restartPolicy: Alway\n"
    )

    assert [line for line, _ in problems] == [8, 9, 11, 13, 14]
    assert (8, "Property imagee is not allowed.") in problems
    assert (13, 'Incorrect type. Expected "integer".') in problems


@pytest.mark.parametrize("name", frameworks.names())
def test_what_init_writes_has_no_problems(name, editor):
    choices = Choices(name, "example/bert:2", "bert", 2, 8, schema=True)

    assert editor.open(scaffold.job_file(choices, "job.yaml")) == []
