"""The prepared parts say what a checkout computes without them."""

import pytest
from support import ROOT

from mlgen import dialects, frameworks
from mlgen.kubernetes import definitions
from mlgen.objects import skeleton
from mlgen.resources import prepared as part
from mlgen.resources import program, script


@pytest.mark.usefixtures("prepared")
def test_skeletons():
    names = [path.stem for path in (ROOT / "templates/objects").iterdir()]

    assert {name: skeleton.parsed(name) for name in names} == part("skeletons").SKELETONS


@pytest.mark.parametrize("step", [False, True])
def test_the_program_of_the_supervisor(step, request):
    read = program(step=step)
    request.getfixturevalue("prepared")

    assert read == program(step=step)
    assert list(read) == list(program(step=step))


def test_scripts(request):
    names = [path.name for path in (ROOT / "templates/scripts").iterdir()]
    read = {name: script(name) for name in names}
    request.getfixturevalue("prepared")

    assert read == {name: script(name) for name in names} == part("scripts").FILES


@pytest.mark.parametrize("listed", [frameworks.names, dialects.kinds])
def test_names(listed, request):
    found = listed.__wrapped__()
    request.getfixturevalue("prepared")

    assert found == listed.__wrapped__()


@pytest.mark.usefixtures("prepared")
def test_definitions():
    assert definitions.read() == part("definitions").API


VALID = ["tensorflow-ps.yaml", "resources/kubeflow-pytorchjob-v1.yaml", "matrix/pytorch.yaml"]


@pytest.mark.parametrize("file", VALID)
@pytest.mark.usefixtures("prepared")
def test_a_valid_document_needs_no_jsonschema(file, render, monkeypatch):
    expected = render(ROOT / "fixtures" / file)
    monkeypatch.setattr("mlgen.jobfile.violations.validator", None)

    assert expected == render(ROOT / "fixtures" / file)
