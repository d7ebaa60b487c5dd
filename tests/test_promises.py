"""Promises of docs/guides/security.md about the whole program, and the tests of the others."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import DOCS
from support import ROOT

from mlgen.cli import main

PAGE = (DOCS / "guides/security.md").read_text()
RUNS_PROGRAMS = {
    "mlgen/output/files.py": {"marshal"},  # its own temporary files
    "mlgen/integrations/argocd.py": {"subprocess"},  # kustomize or Helm, in the plugin's container
    "mlgen/graph.py": {"subprocess"},  # dot, with a graph as its stdin
    "mlgen/live/kubectl.py": {"subprocess"},
    "mlgen/live/listing.py": {"urllib"},  # only quotes a selector
    "mlgen/live/ranks.py": {"socket", "urllib"},  # the Unix socket of kubectl proxy
    "mlgen/runtime/__main__.py": {"runpy"},  # the modules of its own archive
    "mlgen/runtime/api.py": {"http", "ssl", "urllib"},
    "mlgen/runtime/gate.py": {"http", "urllib"},
    "mlgen/runtime/reports.py": {"http"},
    "mlgen/runtime/server.py": {"asyncio", "http", "socket"},
    "mlgen/runtime/supervise.py": {"http"},
    "mlgen/scaffold.py": {"subprocess"},  # ssh-keygen
    "mlgen/version.py": {"subprocess"},  # git, in the checkout of mlgen, for --version
}
"""The modules that can run a program or open a connection, except mlgen/runtime (in pods)."""

DANGEROUS = {
    *("asyncio", "ctypes", "ftplib", "http", "marshal", "pickle", "pty", "requests", "runpy"),
    *("shelve", "smtplib", "socket", "socketserver", "ssl", "subprocess", "urllib", "webbrowser"),
}
IMPORT = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)
EVALUATES = re.compile(
    r"(?<![.\w])(?:eval|exec)\(|\bos\.(?:system|popen|startfile|exec|spawn|posix_spawn)"
)


def test_only_a_few_modules_can_run_a_program_or_open_a_connection():
    able, evaluating = {}, []
    for path in (ROOT / "mlgen").rglob("*.py"):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        found = {package for package in IMPORT.findall(text) if package in DANGEROUS}
        if found:
            able[name] = found
        if EVALUATES.search(text):
            evaluating.append(name)

    assert able == RUNS_PROGRAMS
    assert evaluating == []


JOB = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata:
  name: greedy
  annotations: {a: "{{ 7 * 191 }}", b: "$(cat ./secret)", c: "!!python/name:os.system"}
spec:
  framework: pytorch
  image: example/train:1
  command: [torchrun, --config, ./secret, "file://./secret", "{{ lipsum.__globals__ }}"]
  env: {A: "${HOME}", B: "`id`", C: "{% include 'secret' %}"}
  volumes:
    data: {mountPath: /data, hostPath: /etc}
    code: {mountPath: /code, git: {repository: "https://git.example/x.git", revision: ./secret}}
  roles:
    worker: {replicas: 2}
"""
"""A job file that contains, in every free text, a file name or code for other programs."""

COMMANDS = [
    ["render", "job.yaml"],
    ["validate", "job.yaml"],
    ["show", "job.yaml"],
    ["graph", "job.yaml"],
    ["diff", "job.yaml", "job.yaml"],
    ["argo", "job.yaml"],
    ["render", "job.yaml", "--problems", "json"],
]

WATCHED = ("ctypes", "open", "os.", "pty.", "shutil.", "socket.", "subprocess.", "tempfile.")


@pytest.fixture(scope="module")
def audit():
    """A list. Its last item, a dict, collects files and programs that the interpreter opens."""
    watching = []

    def hook(event, arguments):  # cannot be removed again
        if watching and event.startswith(WATCHED):
            watching[-1].setdefault(event, []).append(arguments)

    sys.addaudithook(hook)
    return watching


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_job_file_cannot_make_a_command_read_another_file_or_run_anything(
    words, tmp_path, monkeypatch, audit
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    Path("secret").write_text("s3cr3t")

    audit.append({})
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    seen = audit.pop()

    assert not result.exit_code
    assert not {"s3cr3t", "1337"} & set(re.findall(r"\w+", result.output))
    opened = [(str(name), mode) for name, mode, _ in seen.pop("open")]
    assert seen.keys() <= {"os.listdir", "os.scandir"}
    assert {mode for _, mode in opened} <= {"r", "rb", None}
    own = tuple(map(str, (ROOT, sys.prefix, sys.base_prefix)))
    assert {name for name, _ in opened if not name.startswith(own)} <= {"job.yaml", "/dev/null"}


def test_each_promise_is_held_by_a_test():
    (table,) = re.findall(r"^## What mlgen promises\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)

    for line in table.splitlines()[2:]:
        held = re.findall(r"`([\w/.]+)::(\w+)`", line.split("|")[2])

        assert held, line
        for path, name in held:
            assert f"\ndef {name}(" in (ROOT / path).read_text(), line


def test_each_test_of_a_promise_has_a_break():
    """`.ci/promises` makes the changes, and runs the tests. This takes some minutes."""
    breaks = runpy.run_path(str(ROOT / ".ci/promises"))["BREAKS"]

    assert breaks.keys() == set(re.findall(r"`[\w/.]+::(\w+)`", PAGE))
    for file, old, new in breaks.values():
        assert old in (ROOT / file).read_text()
        assert old != new
