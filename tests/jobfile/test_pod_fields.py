"""Checks of the parts of a job file that belong to Kubernetes' API, with places."""

import pytest
from support import ROOT

from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.jobfile.validation import invalid_kubernetes_fields, invalid_templates
from mlgen.kubernetes import schema
from mlgen.kubernetes.versions import DEFAULT, KubeVersion


def found(spec, version=DEFAULT):
    (document,) = read_documents(Text("job.yaml", f"spec:\n{spec}"))
    return [
        f"{item.place.line}:{item.place.column}: {item.code}"
        for item in invalid_kubernetes_fields(document, version)
    ]


def test_an_unknown_field_is_at_its_key_and_a_wrong_type_at_its_value():
    spec = "  template:\n    spec:\n      comand: [a]\n      priority: high\n"

    assert ["4:7: unknown-field", "5:17: wrong-type"] == found(spec)


def test_a_claim_has_the_fields_of_kubernetes():
    assert ["3:24: unknown-field"] == found(
        "  claims:\n    a: {volumeMode: B, size: 5}\n    b: c\n"
    )


def test_all_roles_and_each_role_are_checked():
    fields = "template: {spec: {a: 1}}, affinity: {b: 1}, resources: {reqests: {}}"
    spec = f"  roles:\n    x: {{{fields}}}\n    y: {{{fields}}}\n"

    assert 6 == len(found(spec))
    assert 3 == len(found(f"  {fields.replace(', ', chr(10) + '  ')}\n"))


def test_other_shapes_are_left_to_the_schema_of_the_job_file():
    rows = ["  roles: [a]\n", "  roles: {a: b}\n  template: x\n", "  - a\n", "  resources: 5\n"]

    assert [[] for spec in rows] == [found(spec, KubeVersion(1, 35)) for spec in rows]


@pytest.mark.parametrize(
    "spec",
    [
        "  template: {spec: {hostnameOverride: a}}\n",
        "  env: {B: c, A: {valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}}\n",
    ],
)
def test_the_version_decides_which_fields_exist(spec):
    (problem,) = found(spec, KubeVersion(1, 33))

    assert problem.endswith(": unknown-field")
    assert [] == found(spec, KubeVersion(1, 35))


class LoadedError(Exception):
    pass


def test_the_schema_is_loaded_only_for_a_job_that_has_something_to_check(render, monkeypatch):
    def load(*_, **__):
        raise LoadedError

    monkeypatch.setattr(schema, "broken_structure", load)

    render(ROOT / "fixtures/tensorflow-ps.yaml")
    with pytest.raises(LoadedError):
        render(ROOT / "fixtures/generic-actors.yaml")


def test_templates_of_a_custom_resource_are_found_wherever_they_are():
    """In a JobSet, a Job's template contains the pod template. It may be written as a Pod."""
    template = (
        "{kind: Pod, spec: {a: 1, workloadRef: {}, evictionResponders: [], containers: [{}]}}"
    )
    (document,) = read_documents(
        Text("a.yaml", f"spec:\n  tasks:\n  - template: {{spec: {{template: {template}}}}}\n")
    )

    (problem,) = invalid_templates(document)

    assert problem.path == ("spec", "tasks", 0, "template", "spec", "template", "spec", "a")
