"""Real custom resources render to valid manifests, or are rejected with a reason."""

import re

import pytest
from click.testing import CliRunner
from support import ROOT, without_totals

from mlgen.cli import main

CORPUS = ROOT.parent / "shared" / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.name != "README.md")
FOLDERS = sorted({path.parent.name for path in FILES})

pytestmark = pytest.mark.skipif(not FILES, reason="there is no ../shared/corpus")

MALFORMED = re.compile(
    r"\[(not-yaml|unknown-kind|unknown-field|missing-field|wrong-type|empty|refused)\]"
    r"|not of Kubernetes"
)
"""Problems of malformed resources, which the operator would not run either."""

NEVER_RUN = {
    "docs__user-guide__how_to_use_resource_strategy_fit_plugin.md__block2.yaml": "but no limit",
    "examples__pytorch__mnist__v1__pytorch_job_mnist_gloo.yaml": "<your_project>",
    "examples__pytorch__mnist__v1__pytorch_job_mnist_mpi.yaml": "<your_project>",
    "examples__pytorch__mnist__v1__pytorch_job_mnist_nccl.yaml": "<your_project>",
    "examples__v1alpha2__tensorflow-benchmarks-custom.yaml": "cannot be set for a whole pod",
    "keps__1150-mutable-suspended-job-resources__README.md__block1.yaml": "but no limit",
    "keps__262-ConfigurableFailurePolicy__README.md__block2.yaml": "write [python3, train.py]",
    "keps__572-stateful-jobset__README.md__block1.yaml": "is not a valid name for a Service",
}
"""Valid resources without a pod that could run, and the reasons."""


def outcome(path):
    """The summaries and problems of a file, without the names of folders."""
    result = CliRunner().invoke(main, ["render", str(path)], catch_exceptions=False)
    lines = re.findall(r"^# (.*) Made by mlgen \S+$", result.stdout, re.MULTILINE)
    lines += ["refused" if result.exit_code else "as it is"] if not lines else []
    lines += without_totals(result.stderr).replace(f"{path}:", "").splitlines()
    return "\n  ".join([path.name, *lines])


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_outcome(folder, message):
    files = [path for path in FILES if path.parent.name == folder]

    assert "".join(f"{outcome(path)}\n" for path in files) == message


def test_well_formed_resources_render():
    """All others are rejected because no operator could run them: see `test_outcome`'s goldens."""
    folder = ROOT / "tests/dialects/__snapshots__/test_corpus"
    text = "".join(path.read_text() for path in folder.glob("*.txt"))
    files = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    refused = {file.split("\n")[0]: errors(file) for file in files if "\n  refused" in file}
    well_formed = {name: text for name, text in refused.items() if not MALFORMED.search(text)}

    assert len(files) == len(FILES)
    assert well_formed.keys() == NEVER_RUN.keys()
    assert [name for name, why in NEVER_RUN.items() if why not in well_formed[name]] == []


def errors(file):
    """The errors of a file, without warnings."""
    return "\n".join(line for line in file.splitlines() if ": warning: " not in line)
