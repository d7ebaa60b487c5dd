"""The tutorials of the documentation, command by command, in a real cluster.

Each sh block of a page runs, in order, except those with the remark `not run` and the lines that
install mlgen. So does each python block without a title. A text block with the remark `cluster
output` is compared with the output of the last command. A line `…` in it stands for any lines, and
`…` in a line for any text. Times and the random suffixes of pods may differ.
"""

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from namespaces import KUBECTL_IMAGE, PYTHON_IMAGE, temporary_namespace
from pages import DOCS, blocks
from support import ROOT

pytestmark = pytest.mark.cluster

TUTORIALS = {
    "laptop": {
        "python:3.12-slim": "mlgen.test/ml:1",
        "pip install -qq jax && exec python ": "PYTHONPATH=/opt/jax exec python3 ",
        "time.sleep(1)": "time.sleep(0.2)",  # three runs of a minute or two otherwise
    },
    "migrate": {"pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime": "mlgen.test/ml:1"},
    "sweep": {"python:3.12-slim": PYTHON_IMAGE},
    "day": {
        # mlgen.load does not read mlgen.toml.
        "  image: python:3.12-slim": f"  image: {PYTHON_IMAGE}\n"
        f"  helpers: {{pythonImage: {PYTHON_IMAGE}}}",
    },
}
"""Replacements in the files of each page, because the cluster has no internet access."""

CONFIG = f"""[helpers]
python-image = "{PYTHON_IMAGE}"
kubectl-image = "{KUBECTL_IMAGE}"
"""
INSTALLS = {"git", "pip", "pipx", "uv", "uvx"}
SECONDS = 600
"""Time limit of a single command."""

SUFFIX = re.compile(r"(-\d+-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
DURATION = re.compile(r"\b(?:\d+[dhms])+\b")
ANY_LINES = r"(?:.*\n)*"


class Session:
    """Runs the blocks of one page in a folder, with kubectl in a namespace."""

    def __init__(self, page, replacements, folder, namespace):
        self.page, self.folder, self.namespace = page, folder, namespace
        self.replacements = replacements
        self.stdout = ""
        config = shutil.copy(namespace.environment["KUBECONFIG"], folder / "kubeconfig")
        path = f"{Path(sys.executable).parent}:{namespace.environment['PATH']}"
        self.environment = namespace.environment | {"KUBECONFIG": str(config), "PATH": path}
        self.run_command(f"kubectl config set-context --current --namespace={namespace.name}", 0)
        (folder / "mlgen.toml").write_text(CONFIG)

    def play(self):
        for block in blocks(self.page):
            where = f"{self.page.name}:{block.line}"
            if block.title:
                self.write(block)
            elif block.language == "python":
                (self.folder / "block.py").write_text(block.text)
                self.run_command("python block.py", 0, where)
            elif block.language == "sh" and "not run" not in block.remarks:
                *lines, last = block.lines()
                for line in lines:
                    self.run_command(line, 0, where)
                self.run_command(last, int(block.remarks.get("exit", 0)), where)
            elif "cluster output" in block.remarks:
                assert re.fullmatch(self.pattern(block.text), self.normal(self.stdout)), (
                    f"{where}: expected:\n{block.text}\ngot:\n{self.stdout}"
                )

    def write(self, block):
        text = block.text
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_command(self, line, code, where=""):
        """Run a command as a reader does. Fails if its exit status differs."""
        if line.split()[0] in INSTALLS:
            return
        done = subprocess.run(
            ["timeout", str(SECONDS), "bash", "-o", "pipefail", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.stdout = done.stdout
        assert done.returncode == code, (
            f"{where}: {line}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}\n"
            + self.namespace.kubectl("get", "pods,jobs", "-o", "wide", check=False)
        )

    def normal(self, text):
        """Return a text with normalized spaces, times, pod names and namespace."""
        text = text.replace(self.namespace.name, "default")
        text = DURATION.sub("1s", SUFFIX.sub(r"\1xxxxx", text))
        return "".join(f"{' '.join(line.split())}\n" for line in text.strip().splitlines())

    def pattern(self, text):
        """Return the regular expression of a block that shows output."""
        lines = self.normal(text).splitlines()
        return "".join(
            ANY_LINES if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
            for line in lines
        )


@pytest.fixture(scope="module")
def played(environment, tmp_path_factory):
    """The tutorials, which run at the same time, each in its own namespace."""

    def play(name):
        page = DOCS / f"tutorials/{name}.md"
        assert all(old in page.read_text() for old in TUTORIALS[name]), "nothing to replace"
        with temporary_namespace(environment) as namespace:
            Session(page, TUTORIALS[name], tmp_path_factory.mktemp(name), namespace).play()
            # A tutorial ends with the deletion of its jobs.
            left = ("get", "jobs,pods", "-l", "mlgen.dev/job", "-o", "name")
            assert namespace.kubectl(*left) == ""

    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(play, name) for name in TUTORIALS}


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_works_from_start_to_end(name, played):
    played[name].result()


def test_the_readme_leads_to_the_same_logs():
    readme = [line for block in blocks(ROOT / "README.md") for line in block.lines()]

    assert {"mlgen render job.yaml | kubectl apply -f -", "mlgen logs job.yaml --follow"} <= {
        *readme
    }
