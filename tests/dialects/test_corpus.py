"""Real custom resources render to valid manifests, or are rejected with a reason."""

import re

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main

CORPUS = ROOT.parent / "shared" / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.name != "README.md")
FOLDERS = sorted({path.parent.name for path in FILES})

pytestmark = pytest.mark.skipif(not FILES, reason="there is no ../shared/corpus")

OTHERS = ("PodGroup",)

MALFORMED = re.compile(
    r"\[(not-yaml|unknown-kind|unknown-field|missing-field|wrong-type|empty|duplicate-key|refused)\]"
    r"|not of Kubernetes"
)
"""Problems of resources that are malformed, so that the operator would not run them either."""


def outcome(path):
    """The summaries and problems of a file, without the names of folders."""
    result = CliRunner().invoke(main, ["render", str(path)], catch_exceptions=False)
    lines = re.findall(r"^# (.*) Made by mlgen\.$", result.stdout, re.MULTILINE)
    lines += ["refused" if result.exit_code else "as it is"] if not lines else []
    lines += sorted({f"not of Kubernetes: {text}" for text in foreign_fields(result.stdout)})
    lines += result.stderr.replace(f"{path}:", "").splitlines()
    return "\n  ".join([path.name, *lines])


def foreign_fields(text):
    """Errors of strict validation: unknown fields that a user wrote into a pod template."""
    for item in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if item["kind"] not in OTHERS and "mlgen.dev/job" in item["metadata"].get("labels", {}):
            try:
                kubernetes_validate.validate(item, "1.34", strict=True)
            except kubernetes_validate.ValidationError as error:
                yield error.message


@pytest.mark.parametrize("folder", FOLDERS)
def test_outcome(folder, message):
    files = [path for path in FILES if path.parent.name == folder]

    assert "".join(f"{outcome(path)}\n" for path in files) == message


def test_well_formed_resources_render():
    """At most 5 % are rejected, according to the goldens of `test_outcome`."""
    folder = ROOT / "tests/dialects/__snapshots__/test_corpus"
    text = "".join(path.read_text() for path in folder.glob("*.txt"))
    files = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    malformed = [file for file in files if MALFORMED.search(file)]
    rejected = [file for file in files if "\n  refused" in file and file not in malformed]

    assert len(files) == len(FILES)
    assert len(rejected) <= 0.05 * (len(files) - len(malformed))
