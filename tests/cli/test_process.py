"""The end of commands that are interrupted or cannot write their output. See also test_terminal."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import COMMANDS, _report, main

FILE = ["job.yaml"]
REQUIRED = {
    **dict.fromkeys(("render", "validate", "show", "graph", "argo", "verify", "convert"), FILE),
    **dict.fromkeys(("apply", "status", "logs", "wait", "delete"), FILE),
    "rerun": ["a"],
    "diff": ["a.yaml", "b.yaml"],
    "init": ["pytorch", "--image", "a/b:1"],
    "completion": ["bash"],
    "argocd": ["generate"],
    "ssh-secret": ["a"],
}
"""The required arguments of commands."""

GOOD, BAD = "fixtures/tensorflow-single.yaml", "fixtures/invalid/unknown-role.yaml"


@pytest.fixture
def terminal(monkeypatch):
    """Makes every stream report that it is a terminal."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(_report, "_is_terminal", lambda stream: stream is not None)
    monkeypatch.delenv("CI", raising=False)
    return lambda *words, **streams: CliRunner().invoke(
        main, list(map(str, words)), catch_exceptions=False, **streams
    )


def test_an_error_that_is_not_about_the_output_does_not_mention_it(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    result = CliRunner().invoke(main, ["ssh-secret", "keys"], catch_exceptions=False)

    assert (1, "Error: No space left on device\n") == (result.exit_code, result.output)


def test_signals_end_the_process_as_before_after_a_command():
    before = signal.getsignal(signal.SIGTERM)

    assert CliRunner().invoke(main, ["frameworks"]).exit_code == 0
    assert signal.getsignal(signal.SIGTERM) is before


IN_A_DELETED_FOLDER = """
import json, os, sys
import mlgen.cli
from mlgen.__main__ import main
mlgen.render(sys.argv[2])  # imports what each command would
os.rmdir(os.getcwd())
for words in json.loads(sys.argv[1]):
    (read, write), child = os.pipe(), os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        os.dup2(write, 2)
        sys.argv[:] = ["mlgen", *words]
        main()
    os.close(write)
    errors = open(read).read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), errors]))
"""
"""Run each command in a process of its own, which is a copy of this one."""


@pytest.mark.slow
def test_a_deleted_working_folder_is_reported(tmp_path):
    lines = [[*command.split(), *REQUIRED.get(command, ())] for command in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_DELETED_FOLDER, json.dumps(lines), ROOT / GOOD],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    ends = [json.loads(line) for line in done.stdout.splitlines()]

    reasons = ("the working folder does not exist", "cannot be read", "cannot be written: No such")
    unexplained = [
        (words[0], status, errors)
        for words, (status, errors) in zip(lines, ends, strict=True)
        if (status and not any(reason in errors for reason in reasons))
        or "Traceback" in errors
        or "standard output" in errors
    ]
    assert [] == unexplained
    assert any(status for status, _ in ends)


def test_what_only_a_person_is_told(terminal):
    rendered = terminal("render", GOOD, "-")

    assert rendered.stderr.startswith("reading standard input; end it with Ctrl-D\n")
    assert "for an example: mlgen explain empty\n" in rendered.stderr
    assert terminal("render", GOOD, "-n", "a").stderr == (
        f"next:\n  mlgen status {GOOD} --namespace a\n  mlgen logs {GOOD} --namespace a --follow\n"
    )
    assert terminal("render", GOOD, "-q").stderr == ""


def test_a_gitops_tool_applies_what_is_rendered_for_it(terminal, tmp_path):
    applied = terminal("render", GOOD, "-o", tmp_path / "a.yaml").stderr
    committed = terminal("render", GOOD, "-o", tmp_path / "a.yaml", "--for", "flux").stderr

    assert applied == committed.replace("next:", f"next:\n  kubectl apply -f {tmp_path}/a.yaml")


def test_a_build_has_no_next_command(terminal):
    assert terminal("render", GOOD, env={"CI": "true"}).stderr == ""


def test_standard_input_is_not_there_for_the_next_command(terminal):
    assert terminal("render", "-", input=(ROOT / GOOD).read_text()).stderr.count("\n") == 1


WRITING = """
import os, signal, sys
from mlgen.cli import terminable
from mlgen.output.files import write

def texts():
    yield "half of it"
    assert len(os.listdir()) == 1
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    yield "the other half"

with terminable():
    write("a.yaml", texts())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_no_file_behind(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WRITING, name], cwd=tmp_path, capture_output=True, check=False
    )

    assert (-getattr(signal, name), []) == (done.returncode, list(tmp_path.iterdir()))


KEYGEN = """#!/bin/sh
for file; do :; done
echo private > "$file"
kill -TERM "$PPID"
exec sleep 60
"""
"""A replacement for ssh-keygen: it kills mlgen when the private key is written."""


def test_a_signal_leaves_no_private_key_behind(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh-keygen").write_text(KEYGEN)
    (tmp_path / "bin/ssh-keygen").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    paths = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "tmp")}

    done = subprocess.run(
        [sys.executable, "-m", "mlgen", "ssh-secret", "keys"],
        env=os.environ | paths,
        capture_output=True,
        check=False,
    )

    assert (-signal.SIGTERM, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert [] == list((tmp_path / "tmp").iterdir())


WORDS = (
    ["render", GOOD],
    ["validate", GOOD],
    ["show", GOOD],
    ["graph", GOOD],
    ["diff", GOOD, "fixtures/mars.yaml"],
    ["frameworks"],
    ["argocd", "parameters"],
    ["init", "generic", "--image", "a", "-o", "-"],
    ["helm-post-render"],
    ["krm"],
    ["--help"],
)

EVERY_COMMAND = """
import json, os, sys
import mlgen.cli
from mlgen.__main__ import main
mlgen.render("fixtures/tensorflow-single.yaml")  # imports what each command would
for number, words in enumerate(json.loads(sys.argv[1])):
    for output in (None, "/dev/full")[bool(number):]:
        child = os.fork()
        if child == 0:
            name = sys.argv[2] if words == ["krm"] else "fixtures/tensorflow-single.yaml"
            os.dup2(os.open(name, os.O_RDONLY), 0)
            sys.argv[:] = ["mlgen", *words]
            os.close(1)
            if output:
                os.dup2(os.open(output, os.O_WRONLY), 1)
            else:
                sys.stdout = None
            main()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), *words, output, file=sys.stderr)
"""
"""Run each command on a full disk, the first also without stdout. Each prints one line."""


def test_no_command_succeeds_whose_output_cannot_be_written(tmp_path):
    resources = tmp_path / "list.yaml"
    resources.write_text("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n")
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND, json.dumps(WORDS), resources],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    lines = done.stderr.splitlines()
    ends = [line for line in lines if line.startswith(("0 ", "1 ", "2 ", "3 ", "-"))]
    errors = [line for line in lines if line.startswith("Error: cannot write to standard output:")]
    expected = [f"1 {' '.join(words)} /dev/full" for words in WORDS]
    assert [f"1 {' '.join(WORDS[0])} None", *expected] == ends
    assert "Traceback" not in done.stderr
    assert len(errors) == len(ends)
