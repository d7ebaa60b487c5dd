"""The program installed from the wheel is the same as in the checkout."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from support import FIXTURES, ROOT

from mlgen import build
from mlgen.integrations.argo import installation


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without network access by the backend that pyproject.toml names."""
    folder = tmp_path_factory.mktemp("wheel")
    (file,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(file)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-index", "--no-compile", "--quiet", "--target", folder]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)
    return folder


def files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if "__pycache__" not in path.parts)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["schemas", "templates", "argo"])
def test_the_wheel_contains_the_files_of_the_checkout_unchanged(folder, wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = f"mlgen/{folder}/"
        packed = {n: archive.read(n) for n in sorted(archive.namelist()) if n.startswith(inside)}

    assert {f"mlgen/{p.relative_to(ROOT)}": p.read_bytes() for p in files(ROOT / folder)} == packed


@pytest.mark.slow
def test_the_wheel_contains_only_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    folders = ("mlgen", "schemas", "templates", "argo")
    paths = {str(path.relative_to(ROOT)) for name in folders for path in files(ROOT / name)}
    expected = {n if n.startswith("mlgen/") else f"mlgen/{n}" for n in paths}

    assert expected - {"mlgen/build.py"} == {
        n for n in names if not n.startswith("mlgen/prepared/")
    }


@pytest.mark.slow
def test_the_wheel_contains_the_prepared_parts_of_this_checkout(wheel):
    """They are never checked in, so they cannot be stale."""
    with zipfile.ZipFile(wheel) as archive:
        inside = "mlgen/prepared/"
        packed = {
            name.removeprefix(inside): archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith(inside)
        }

    assert build.files() == packed
    assert not (ROOT / inside).exists()


def test_an_editable_install_has_no_prepared_parts(tmp_path):
    """They would not change with the edited files."""
    hook = WheelBuilder(str(ROOT)).get_build_hooks(str(tmp_path))["custom"]
    build_data = {"force_include": {}}

    hook.initialize("editable", build_data)
    hook.finalize("editable", build_data, "")

    assert {"force_include": {}} == build_data


@pytest.mark.slow
def test_the_wheel_declares_its_dependencies_and_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        (scripts,) = (n for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt"))
        about, commands = archive.read(metadata).decode(), archive.read(scripts).decode()

    assert "\nName: mlgen-k8s\n" in about
    assert "mlgen = mlgen.__main__:main" in commands
    required = {name.replace(".", "-") for name in REQUIRED.findall(about.lower())}
    assert {"click", "jinja2", "jsonschema", "pyyaml", "ruamel-yaml"} <= required


REQUIRED = re.compile(r"^requires-dist: ([\w.-]+)", re.MULTILINE)

INSTALLS = re.compile(
    r"\b(?:pip|pipx|uv) (?:[^&|;`\n]* )?install (?:[^&|;`\n]* )?['\"]?mlgen\b(?![-./])"
    r"|uvx mlgen\b(?!-)"
)
"""Commands for another project: on the package index, `mlgen` is not this one."""


def test_no_text_installs_the_package_of_another_project():
    folders = ("docs", "mlgen", "schemas", "templates", "integrations", ".ci", ".github")
    paths = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(f for d in folders for f in files(ROOT / d)),
    ]
    texts = {path: path.read_text(errors="ignore") for path in paths if path.suffix != ".png"}

    assert {} == {path: line for path, text in texts.items() for line in INSTALLS.findall(text)}


@pytest.fixture
def printed(installed, tmp_path):
    """Function that returns what the installed program prints, in another folder."""

    def printed(*words):
        result = subprocess.run(
            [sys.executable, "-m", "mlgen", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        return result.stdout

    return printed


@pytest.mark.slow
def test_the_installed_program_renders_the_same_from_any_folder(printed, render):
    fixture = FIXTURES[0]

    assert render(fixture) == printed("render", fixture)


@pytest.mark.slow
def test_the_installed_program_prints_the_template_of_argo(printed):
    assert installation("vision") == printed("argo", "--template", "-n", "vision")


@pytest.mark.slow
def test_the_installed_package_is_the_one_that_is_imported(installed, tmp_path):
    code = (
        "import mlgen.resources as r; print(r.__file__, r.folder('schemas'), r.folder('templates'))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )

    inside = installed / "mlgen"
    assert [
        str(inside / n) for n in ("resources.py", "schemas", "templates")
    ] == result.stdout.split()
