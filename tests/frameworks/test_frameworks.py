"""A framework is one file, with its options, fixtures, goldens and a row in the README."""

import re

import pytest
import yaml
from support import FIXTURES, ROOT

from mlgen import frameworks

NAMES = frameworks.names()
MPI = {"mpi", "horovod", "deepspeed"}
"""Frameworks that share their options."""


@pytest.mark.parametrize("name", NAMES)
def test_a_framework_says_what_it_is(name):
    framework = frameworks.get(name)

    assert re.match(r"[A-Z]\w+$", framework.title)
    assert re.match(r"[A-Z].*\.$", framework.summary)
    assert framework.roles is None or all(isinstance(role, str) for role in framework.roles)
    assert all(isinstance(schema, dict) for schema in framework.options.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_framework_has_fixtures_a_golden_each_and_a_row_in_the_readme(name):
    own = [path for path in FIXTURES if path.stem.split("-")[0] == name]

    assert own
    for path in own:
        assert (
            ROOT / "tests/__snapshots__/test_golden" / f"test_manifests[{path.stem}].yaml"
        ).exists()
    assert f"| `{name}` |" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_role_and_option_is_used_by_a_fixture(name):
    framework = frameworks.get(name)
    jobs = [yaml.safe_load(path.read_text())["spec"] for path in FIXTURES]
    family = MPI if name in MPI else {name}
    jobs = [job for job in jobs if job["framework"] in family]

    roles = {role for job in jobs for role in job["roles"]}
    options = {option for job in jobs for option in job.get("options", {})}

    assert set(framework.roles or ()) <= roles
    assert set(framework.options) <= options


def test_every_field_of_the_job_file_is_used_by_a_fixture():
    from mlgen.jobfile.schema import base

    spec = base()["properties"]["spec"]["properties"]
    text = "".join(path.read_text() for path in FIXTURES)
    nested = [f for field in spec.values() for f in field.get("properties", {})]

    unused = [field for field in [*spec, *nested] if f"{field}:" not in text]

    assert unused == ["managedBy"]  # which is always refused


def test_no_file_lies_beside_the_frameworks():
    files = {path.name for path in (ROOT / "mlgen/frameworks").glob("*") if path.is_file()}

    public = {name for name in files if not name.startswith("_")}
    assert public == {f"{name}.py" for name in NAMES}
