"""The printed manifests of jobs and other objects."""

import json

import pytest
import yaml
from support import ROOT
from support import manifests_text as text

from mlgen import validate
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.objects import notes
from mlgen.output.manifests import heading
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.result import Foreign

DATA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "größe"}}
FOREIGN = Foreign(Document(DATA, text="{apiVersion: v1, kind: ConfigMap}"))


def job():
    (part,) = validate(str(ROOT / "fixtures/tensorflow-single.yaml")).parts
    return part


def test_a_job_starts_with_its_summary_and_other_objects_keep_their_text():
    part = job()
    manifests = yaml_text(part.objects, heading(part), notes(part.topology))

    assert manifests + "---\n{apiVersion: v1, kind: ConfigMap}\n" == text([part, FOREIGN], "yaml")


def test_json_is_one_list_of_all_objects():
    part = job()
    output = text([part, FOREIGN], "json")

    assert {"apiVersion": "v1", "kind": "List", "items": [*part.objects, DATA]} == json.loads(
        output
    )
    assert "größe" in output
    assert output.endswith("}\n")


def test_a_document_as_written_can_follow_another():
    assert "---\na: 1\n" == verbatim("a: 1", {}) == verbatim("---\na: 1", {})
    assert "---\na: 1\n" == verbatim("", {"a": 1})


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("a: 1\n", "---\na: 1\n"),
        ("--- # c\na: 1", "--- # c\na: 1\n"),
        ("---\r\na: 1\r\n", "---\r\na: 1\r\n"),
        ("---x: 1\na: 1\n", "---\n---x: 1\na: 1\n"),
        ("--- {a: 1}\n", "---\n    {a: 1}\n"),
        ("--- &b\na: 1\n", "---\n    &b\na: 1\n"),
        ("---\ra: 1\r", "---\n   \ra: 1\r\n"),
    ],
)
def test_every_document_starts_with_a_marker_that_kubectl_sees(written, printed):
    (document,) = read_documents(Text("a.yaml", written))
    manifests = text([Foreign(document), Foreign(document)], "yaml")

    assert printed * 2 == manifests
    assert [document.data] * 2 == list(yaml.load_all(manifests, yaml.CSafeLoader))
