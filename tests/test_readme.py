"""The README is accurate: its commands run, and its job files render as documented."""

import json
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from support import ROOT

README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


SHELL = [line for block in blocks("sh") for line in block.splitlines()]
SETUP = [line for line in SHELL if line.startswith("pip ")]
COMMANDS = [line for line in SHELL if line not in SETUP]


def test_ci_runs_the_two_setup_commands():
    ci = (ROOT / ".ci/run").read_text()

    assert len(SETUP) == 2
    assert all(f"\n{command}" in ci for command in SETUP)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_the_readme_works(command, tmp_path):
    line = command.replace("/tmp/", f"{tmp_path}/")
    line = re.sub(r"(^|\| )mlgen", rf"\1{shlex.quote(sys.executable)} -m mlgen", line)

    result = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == (3 if command.startswith("mlgen diff") else 0), result.stderr
    assert result.stdout or list(tmp_path.iterdir())


def test_every_command_of_mlgen_is_in_the_readme():
    from mlgen.cli import COMMANDS

    missing = [name for name in COMMANDS if f"mlgen {name}" not in README]

    assert missing == []


def test_the_job_file_in_the_readme_renders_to_the_documented_summary(tmp_path):
    text, *_ = blocks("yaml")
    (tmp_path / "job.yaml").write_text(text)
    summary = next(block for block in blocks("text") if block.startswith("# mnist"))

    result = subprocess.run(
        [sys.executable, "-m", "mlgen", "render", tmp_path / "job.yaml"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert result.stdout.startswith("---\n" + summary)
    assert yaml.safe_load(text)["spec"]["framework"] == "tensorflow"


def test_validate_prints_the_documented_prerequisites():
    (example,) = (block for block in blocks("text") if "needs in the cluster:" in block)
    (file,) = re.findall(r"here for `(fixtures/\S+)`", README)
    command = [sys.executable, "-m", "mlgen", "validate", file]

    result = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    assert result.stdout.startswith(f"{file}: valid\n{example}")


@pytest.mark.parametrize("part", blocks("yaml")[1:])
def test_the_job_file_excerpts_in_the_readme_render(part, tmp_path):
    spec = {"framework": "jax", "image": "i", "roles": {"worker": {}}, **yaml.safe_load(part)}
    document = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
    document |= {"metadata": {"name": "x"}, "spec": spec}
    (tmp_path / "job.json").write_text(json.dumps(document))

    command = [sys.executable, "-m", "mlgen", "render", tmp_path / "job.json"]

    assert subprocess.run(command, check=True, capture_output=True).stderr == b""
