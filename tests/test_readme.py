"""The README is accurate and short. Its job file and commands run in tests/docs."""

from pages import DOCS, blocks
from support import ROOT

from mlgen.cli import COMMANDS

README = ROOT / "README.md"
SHELL = [line for block in blocks(README) if block.language == "sh" for line in block.lines()]
SETUP = [line for line in SHELL if line.startswith("pip ") and "&&" in line]


def test_ci_runs_the_two_setup_commands():
    ci = (ROOT / ".ci/run").read_text()

    assert len(SETUP) == 2
    assert all(f"\n{command}" in ci for command in SETUP)


def test_every_command_of_mlgen_is_in_the_readme():
    text = README.read_text()

    assert [] == [name for name in COMMANDS if f"mlgen {name}" not in text]


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= 210


def test_the_first_job_is_the_one_of_the_first_tutorial():
    pages = (README, DOCS / "tutorials/laptop.md")
    jobs = [
        next(block.text for block in blocks(page) if block.title == "job.yaml") for page in pages
    ]

    assert jobs[0] == jobs[1]
