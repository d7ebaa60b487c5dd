"""The container image: its content, and how tools run it."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from support import ROOT, load

from mlgen import __version__
from mlgen.jobfile.model import Helpers

FILE = ROOT / "integrations/Dockerfile"
TEXT = FILE.read_text()
SIDECAR = load((ROOT / "integrations/argocd/sidecar.yaml").read_text())


def instructions():
    """The instructions of the Dockerfile, each with its words as one string."""
    for line in TEXT.replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest


STEPS = list(instructions())


@pytest.mark.slow
def test_the_image_contains_everything_that_the_wheel_needs(tmp_path):
    copied = [rest.split() for name, rest in STEPS if name == "COPY"]
    for *sources, target in [words for words in copied if words[-1].startswith("/src")]:
        folder = tmp_path / target.strip("/").partition("/")[2]
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder)
            else:
                shutil.copy(ROOT / source, folder)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        packed = archive.namelist()
    for name in (
        "mlgen/cli/__init__.py",
        "mlgen/schemas/job.schema.json",
        "mlgen/argo/kustomization.yaml",
    ):
        assert name in packed
    assert any(name.startswith("mlgen/templates/objects/") for name in packed)
    assert any(name.startswith("mlgen/templates/init/") for name in packed)


def test_without_arguments_it_is_the_krm_function_as_nobody():
    """kustomize and kpt pass no arguments. All arguments are passed to mlgen."""
    assert [("ENTRYPOINT", '["mlgen"]'), ("CMD", '["krm"]')] == STEPS[-2:]
    assert ("USER", "65534:65534") in STEPS


def test_argo_cd_finds_its_configuration_in_it():
    (container,) = SIDECAR["spec"]["template"]["spec"]["containers"]
    plugin = "integrations/argocd/plugin.yaml"

    assert ("COPY", f"{plugin} /home/argocd/cmp-server/config/plugin.yaml") in STEPS
    assert container["command"] == ["/var/run/argocd/argocd-cmp-server"]
    assert container["securityContext"]["runAsUser"] == 999
    assert container["image"] == f"registry.example/mlgen:{__version__}"


def test_its_base_is_pinned_and_the_same_as_that_of_the_supervisor():
    first, *others = [rest.split()[0] for name, rest in STEPS if name == "FROM"]

    assert re.fullmatch(re.escape(Helpers().python_image) + "@sha256:[0-9a-f]{64}", first)
    assert {"base"} == set(others)


def test_it_is_labelled_with_the_version():
    (labels,) = [rest for name, rest in STEPS if name == "LABEL"]

    assert f'org.opencontainers.image.version="{__version__}"' in labels


def test_examples_have_the_current_version():
    pages = (ROOT / "docs").rglob("*.md")
    texts = [TEXT, *(page.read_text() for page in pages)]
    tags = {tag for text in texts for tag in re.findall(r"registry\.example/mlgen:([\w.]+)", text)}

    assert tags == {__version__}
