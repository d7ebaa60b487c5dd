"""The prepared parts equal the values that a checkout computes without them."""

import pytest
from support import ROOT, codes_in_goldens

from mlgen.objects import skeleton
from mlgen.reference import rules
from mlgen.resources import prepared as part

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prepared")]


def test_skeletons():
    names = [path.stem for path in (ROOT / "templates/objects").iterdir()]

    assert {name: skeleton.parsed(name) for name in names} == part("skeletons").SKELETONS


def test_rules_by_code():
    assert rules.computed() == part("rules").BY_CODE == rules.by_code()
    assert rules.computed() == codes_in_goldens()


VALID = ["tensorflow-ps.yaml", "resources/kubeflow-pytorchjob-v1.yaml", "matrix/pytorch.yaml"]


@pytest.mark.parametrize("file", VALID)
def test_a_valid_document_needs_no_jsonschema(file, render, monkeypatch):
    expected = render(ROOT / "fixtures" / file)
    monkeypatch.setattr("mlgen.jobfile.validation.validator", None)

    assert expected == render(ROOT / "fixtures" / file)
