"""The printed manifests of jobs and other objects."""

import json

from support import ROOT

from mlgen import validate
from mlgen.documents.document import Document
from mlgen.output.manifests import text
from mlgen.output.summary import heading
from mlgen.output.yaml import verbatim, yaml_text
from mlgen.result import Foreign

DATA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "größe"}}
FOREIGN = Foreign(Document(DATA, text="{apiVersion: v1, kind: ConfigMap}"))


def job():
    (part,) = validate(str(ROOT / "fixtures/tensorflow-single.yaml")).parts
    return part


def test_a_job_starts_with_its_summary_and_other_objects_keep_their_text():
    part = job()
    manifests = yaml_text(part.objects, heading(part))

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
    assert "--- {a: 1}\n" == verbatim("--- {a: 1}\n", {})
    assert "---\na: 1\n" == verbatim("", {"a": 1})
