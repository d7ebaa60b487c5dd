"""SARIF output, checked by Microsoft's validator against the schema and GitHub's rules."""

import json
import subprocess

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main


@pytest.mark.parametrize("file", ["fixtures/jax.yaml", "fixtures/invalid/"])
def test_the_log_is_valid(file, tool, tmp_path, monkeypatch):
    validator = tool("sarif-multitool")
    monkeypatch.chdir(ROOT)
    words = ["validate", file, "--set", "spec.imgae=x", "--problems", "sarif"]
    (tmp_path / "log.sarif").write_text(CliRunner().invoke(main, words).stdout)

    subprocess.run(
        [validator, "validate", "log.sarif", "--output", "found", "--rule-kind", "Sarif;Ghas"],
        cwd=tmp_path,
        env={"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=120,
    )

    (run,) = json.loads((tmp_path / "found").read_text(encoding="utf-8-sig"))["runs"]
    # mlgen has no site for informationUri. The validator reports no errors for a log that it cannot
    # read.
    assert ["SARIF2005"] == [result["ruleId"] for result in run["results"]]
