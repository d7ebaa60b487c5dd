"""Completion in real shells."""

import os
import pty
import select
import subprocess
import time

import pytest
from support import ROOT


@pytest.fixture
def env(tmp_path, tool):
    """An environment in which `mlgen` is the program of this checkout."""
    folder = os.path.dirname(tool("mlgen"))  # noqa: PTH120 - a string is needed
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def run(program, script, env):
    command = [program, *script]
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return result.stdout.split()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("mlgen val", ["validate"]),
        ("mlgen explain pyt", ["pytorch"]),
        ("mlgen logs fixtures/tensorflow-ps.yaml --role c", ["chief"]),
    ],
)
def test_bash(words, completed, tool, env):
    script = (
        'eval "$(mlgen completion bash)"; COMP_WORDS=($0); COMP_CWORD=$((${#COMP_WORDS[@]}-1));'
    )
    script += ' _mlgen_completion mlgen; echo "${COMPREPLY[@]}"'

    assert run(tool("bash"), ["-c", script, words], env) == completed


def test_fish(tool, env):
    script = 'mlgen completion fish | source; complete -C "mlgen val"'

    assert run(tool("fish"), ["-c", script], env)[:1] == ["validate"]


def test_zsh(tool, env):
    """zsh completes only in a terminal."""
    program = tool("zsh")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execve(program, ["zsh", "-f", "-i"], {**env, "PS1": "$ "})
    try:
        setup = 'autoload -U compinit; compinit -u; eval "$(mlgen completion zsh)"; echo rea""dy\n'
        os.write(terminal, setup.encode())
        assert "ready" in _read_until(terminal, "ready\r")
        os.write(terminal, b"mlgen val\t")
        assert "mlgen validate" in _read_until(terminal, "mlgen validate")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal, text, seconds=30):
    """Return the output of a terminal up to a text or a timeout."""
    shown, end = "", time.monotonic() + seconds
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
