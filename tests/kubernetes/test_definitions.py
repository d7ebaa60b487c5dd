"""The API schema equals the schema in the package, and contains the versions of each field."""

import json

import pytest
from support import ROOT, missing, script_of_ci

from mlgen.kubernetes.schema import SCALARS
from mlgen.kubernetes.versions import (
    SUPPORTED,
    KubeVersion,
    definition,
    element,
    is_definition,
    names,
)

FILE = ROOT / "schemas/kubernetes/api.json"


def test_the_file_is_what_the_script_writes():
    try:
        content = script_of_ci("kubernetes-schemas").content()
    except FileNotFoundError as error:
        missing(f"kubernetes-validate is too old: {error}")

    assert content == FILE.read_text()


def test_every_type_is_known():
    fields = [
        field for part in json.loads(FILE.read_text()).values() for field in part["fields"].values()
    ]
    types = {element(kind) for kind in fields}

    assert types - set(names()) == {*SCALARS, "any"}
    assert {kind for kind in types if is_definition(kind)} <= set(names())


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_every_version_has_the_kinds_that_are_rendered(version):
    kinds = ("ConfigMap", "Deployment", "Job", "Role", "RoleBinding", "Service", "ServiceAccount")
    for kind in (*kinds, "StatefulSet", "PersistentVolumeClaim"):
        assert {"apiVersion", "kind", "metadata"} <= definition(kind, version).fields.keys()


def test_a_field_has_its_first_and_its_last_version():
    def pod(minor):
        return definition("PodSpec", KubeVersion(1, minor))

    assert "hostnameOverride" not in pod(34).fields
    assert pod(34).later["hostnameOverride"] == KubeVersion(1, 35)
    assert "hostnameOverride" in pod(35).fields
    assert "workloadRef" in pod(35).fields
    assert "workloadRef" not in pod(36).fields
    assert pod(36).earlier["workloadRef"] == KubeVersion(1, 35)
