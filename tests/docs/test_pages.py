"""Each page of the documentation is a session: its files render, and its output is correct.

In the page's own folder, each yaml block with a title is written, and each sh block runs, in order.
`MLGEN_UPDATE_DOCS=1 pytest -n 0 tests/docs/test_pages.py -k NAME` writes the output into the page.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import GENERATED, LIVE, OUTSIDE, PAGES, blocks, pipeline
from support import ROOT, load_all

from mlgen.cli import main

pytestmark = pytest.mark.usefixtures("codes_of_rules")

SESSIONS = [path for path in PAGES if path not in GENERATED]
FIELDS = {"apiVersion", "kind", "metadata", "spec"}
SMALL = {"framework": "jax", "image": "example/train:1", "roles": {"worker": {}}}
"""The job into which a fragment is merged."""

ANY_LINES = r"(?:.*\n)*"
UPDATE = bool(os.environ.get("MLGEN_UPDATE_DOCS"))


UNAVOIDABLE = re.compile(r"(?m)^.* \[rights\]\n(1 job, 1 warning\n)?")
"""The warning about the permissions of ElasticDL's master, which it needs."""


class Session:
    """Runs the blocks of one page in a folder."""

    def __init__(self, page, folder):
        self.page, self.folder = page, folder
        self.stdout = self.stderr = ""
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NO_COLOR": "1",
        }

    def fail(self, block, text):
        pytest.fail(f"{os.path.relpath(self.page, ROOT)}:{block.line}: {text}", pytrace=False)

    def run(self, block):
        if "output" in block.remarks:
            self.output(block)
            return
        if block.title and block.language in {"yaml", "json", "python", "toml", "text", "sh"}:
            self.write(block)
        elif block.language == "sh":
            self.commands(block)
        if block.language == "yaml":
            self.yaml(block)
        elif block.language == "python":
            compile(block.text, str(self.page), "exec")

    def write(self, block):
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def commands(self, block):
        """Run a block. The last command must exit with the page's status, the others with 0."""
        wanted = [0] * len(block.lines())
        wanted[-1:] = [int(block.remarks.get("exit", 0))]
        checked = "cluster" in block.remarks or "not run" in block.remarks
        for line, code in zip(block.lines(), wanted, strict=True):
            self.command(block, line, code, run=not checked)

    def command(self, block, line, code, *, run):
        """Run one line. If it is piped into a program that tests omit, run only the part before."""
        parsed = pipeline(line)
        programs = (
            [words[0] for words in parsed.commands] if parsed else re.findall(r"[\w-]+", line)
        )
        outside = next((n for n, name in enumerate(programs) if name in OUTSIDE), len(programs))
        if not parsed or programs[0] != "mlgen":
            if run and outside == len(programs):
                self.shell(block, line, code)
            return
        text = (self.folder / parsed.reads).read_text() if parsed.reads and run else None
        for words in parsed.commands[:outside]:
            wanted = code if words is parsed.commands[-1] else 0
            if words[0] != "mlgen":
                text = self.shell(block, shlex.join(words), wanted, text) if run else None
            elif not run or words[1] in LIVE:
                self.options(block, words)
            else:
                text = self.mlgen(block, line, words, text, wanted)
        if parsed.writes and run:
            (self.folder / parsed.writes).write_text(text)

    def options(self, block, words):
        """Check that a command has these options, without running it."""
        context = main.make_context("mlgen", words[1:], resilient_parsing=True)
        command = main.get_command(context, words[1])
        if command is None:
            self.fail(block, f"mlgen has no command {words[1]}")
        try:
            command.make_context(words[1], words[2:], parent=context)
        except SystemExit:
            self.fail(block, f"{words}: not accepted")
        except Exception as error:  # noqa: BLE001
            self.fail(block, f"{words}: {error}")

    def mlgen(self, block, line, words, text, code):
        result = CliRunner().invoke(
            main, words[1:], input=text, prog_name="mlgen", env={"NO_COLOR": "1"}
        )
        self.stdout, self.stderr = result.stdout, result.stderr
        if result.exit_code != code:
            message = result.stderr or repr(result.exception)
            self.fail(block, f"{line}: exit status {result.exit_code}, expected {code}\n{message}")
        return result.stdout

    def shell(self, block, line, code, text=None):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        self.stdout, self.stderr = done.stdout, done.stderr
        if done.returncode != code:
            self.fail(block, f"{line}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout

    def output(self, block):
        """Compare a block with the output of the previous one; a line `…` stands for any lines."""
        printed = self.stderr if block.remarks["output"] == "stderr" else self.stdout
        lines = block.text.strip("\n").split("\n")
        pattern = "".join(ANY_LINES if line == "…" else f"{re.escape(line)}\n" for line in lines)
        if re.fullmatch(pattern, printed.strip("\n") + "\n"):
            return
        if UPDATE and "…" not in block.text.split("\n"):
            text = self.page.read_text()
            start, end = block.span
            self.page.write_text(f"{text[:start]}{printed.strip(chr(10))}\n{text[end:]}")
            pytest.skip("updated one block; run again until nothing is skipped")
        self.fail(block, f"expected:\n{block.text}\ngot:\n{printed[:3000]}")

    def yaml(self, block):
        """Render a job file, or a fragment in a small job. Parse everything else."""
        documents = load_all(block.text)
        if block.title and not all(isinstance(item, dict) for item in documents):
            return
        for data in documents:
            if str(data.get("apiVersion", "")).startswith("mlgen.dev/"):
                self.renders(block, data)
            elif not {"apiVersion", "other"} & {*data, *block.remarks} and not block.title:
                self.renders(block, _whole(data))

    def renders(self, block, data):
        result = CliRunner().invoke(main, ["render", "-"], input=json.dumps(data))
        if "invalid" in block.remarks:
            if not result.stderr:
                self.fail(block, "renders without a problem, and is marked as invalid")
        elif result.exit_code or UNAVOIDABLE.sub("", result.stderr):
            self.fail(block, result.stderr or repr(result.exception))


def play(page, folder):
    """Run the blocks of a page, in order."""
    session = Session(page, folder)
    for block in blocks(page):
        session.run(block)


def _whole(fragment):
    """Return a small job file with a fragment, which is a part of the file or of its `spec`."""
    top = fragment if set(fragment) <= FIELDS else {"spec": fragment}
    head = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
    metadata = {"name": "example", **top.get("metadata", {})}
    return {**head, "metadata": metadata, "spec": {**SMALL, **top.get("spec", {})}}


RARE = ("frameworks", "how", "integrations", "migrate")
"""Folders of pages that only the slow tests run."""


def session(page):
    marks = pytest.mark.slow if page.parent.name in RARE else ()
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [session(page) for page in SESSIONS])
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    for name in ("argo", "fixtures", "integrations"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)

    play(page, tmp_path)


JOB = "```yaml\nframework: jax\nroles: {worker: {}}\n```\n"


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nmlgen frameworks --no-such-option\n```",
        "```sh\nmlgen logs job.yaml --no-such-option\n```",
        "```sh\nmlgen no-such-command | kubectl apply -f -\n```",
        "<!-- exit: 3 -->\n```sh\nmlgen frameworks\n```",
        "```sh\nfalse\n```",
        "```sh\nmlgen --version\n```\n<!-- output -->\n```text\n0\n```",
        JOB.replace("worker", "no-such-role"),
        f"<!-- invalid -->\n{JOB}",
        "```python\nimport =\n```",
    ],
)
def test_a_wrong_page_fails(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)

    with pytest.raises((pytest.fail.Exception, SyntaxError)):
        play(page, tmp_path)
