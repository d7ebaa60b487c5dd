"""Output at a terminal, and the end of the process, in a real pseudo-terminal."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest
from support import ROOT

JOB = "job.yaml"
COLORS = {"0": "</>", "1": "<bold>", "1;31": "<red>", "1;33": "<yellow>", "36": "<cyan>"}

WRONG = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  framework: pytorch
  image: "example/mnist:1"
  roles:
    master: {}
    worker: {replicas: two, restartPolicy: Always, "\\e[2Jimgae": b}
  runPolicy: {cleanPodPolicy: 数, backofLimit: 3}  # \u202eevil
"""
"""A job file with an escape sequence, wide characters and a mark that reverses the text."""


class Terminal:
    """A process on a terminal of 100 columns: stderr, and optionally its other streams."""

    def __init__(self, *words, code="", **streams):
        self.master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}
        streams = {"stdin": subprocess.DEVNULL, "stdout": terminal, "env": {}} | streams
        streams["env"] = environment | {"TERM": "xterm"} | streams["env"]
        streams = {k: terminal if v == "terminal" else v for k, v in streams.items()}
        program = ["-c", f"{code}\nfrom mlgen.cli import main\nmain(prog_name='mlgen')"]
        self.process = subprocess.Popen(
            [sys.executable, *program, *words], stderr=terminal, **streams
        )
        os.close(terminal)
        self.output = b""

    def until(self, text):
        """Read until a text appears."""
        while text.encode() not in self.output and self._read():
            pass
        assert text.encode() in self.output
        return self

    def _read(self):
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # Linux, when the process has ended
            data = b""
        self.output += data
        return data

    def interrupt(self):
        """Send SIGINT until the process ends, and return the same as `end`.

        Python does not notice a signal that arrives directly before it waits in a read.
        """
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=20)
        return self.end()

    def end(self):
        """Return the exit status and the terminal's content, with names of colors."""
        while self._read():
            pass
        os.close(self.master)
        status = self.process.wait()
        text = self.output.decode().replace("\r\n", "\n")
        return status, re.sub("\x1b\\[([0-9;]+)m", lambda match: COLORS[match[1]], text)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "fixtures/pytorch-restricted.yaml", JOB)
    (tmp_path / "wrong.yaml").write_text(WRONG)


def test_problems_have_their_source_lines_and_colors(message):
    status, shown = Terminal("validate", JOB, "wrong.yaml").end()

    assert 1 == status
    assert shown == message


@pytest.mark.slow
def test_no_color_turns_off_colors_and_keeps_source_lines(message):
    status, shown = Terminal("validate", "wrong.yaml", env={"NO_COLOR": "1"}).end()

    assert (1, False) == (status, "<" in shown)
    assert shown == message


def test_problems_in_a_pipe_are_lines_without_escape_sequences():
    done = Terminal("validate", "wrong.yaml", stdout=subprocess.PIPE)
    out = done.process.stdout.read().decode()
    status, shown = done.end()

    assert (1, "1 job, 4 problems\nfor an example: mlgen explain wrong-type\n") == (status, shown)
    assert all(re.fullmatch(r"wrong\.yaml:\d+:\d+: .*", line) for line in out.splitlines())
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (
            [JOB, "-n", "a", "--set", "spec.env.A=b c"],
            [
                "mlgen status job.yaml --set 'spec.env.A=b c' --namespace a",
                "mlgen logs job.yaml --set 'spec.env.A=b c' --namespace a --follow",
            ],
        ),
        pytest.param(
            [JOB, "--kube-version", "1.33", "-o", "out put/"],
            [
                "kubectl apply -f 'out put'",
                "mlgen status job.yaml --kube-version 1.33",
                "mlgen logs job.yaml --kube-version 1.33 --follow",
            ],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["stdout", "folder"],
)
def test_render_names_the_next_commands(words, commands):
    status, shown = Terminal("render", *words, stdout=subprocess.DEVNULL).end()

    expected = "".join(["next:\n", *(f"  {command}\n" for command in commands)])
    assert (0, expected) == (status, shown)


def test_a_person_is_told_that_standard_input_is_read_and_can_interrupt_it():
    waiting = Terminal("render", "-", stdin="terminal").until("Ctrl-D")

    assert (130, "reading standard input; end it with Ctrl-D\n\n") == waiting.interrupt()


@pytest.mark.slow
def test_an_interrupted_question_is_an_interrupt_and_one_without_an_answer_is_not():
    interrupted, unanswered = (
        Terminal("init", "-o", "new.yaml", stdin="terminal").until("Framework") for _ in range(2)
    )
    os.write(unanswered.master, b"\x04")

    assert 130 == interrupted.interrupt()[0]
    status, shown = unanswered.end()
    assert (1, True) == (status, shown.endswith("Aborted!\n"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
@pytest.mark.parametrize(
    "words", [["render", JOB], pytest.param(["--help"], marks=pytest.mark.slow)]
)
def test_a_full_disk_is_reported_in_one_line(words):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        status, shown = Terminal(*words, stdout=full).end()

    *_, last = shown.splitlines()
    assert (1, "Error: cannot write to standard output: No space left on device") == (status, last)
    assert "Traceback" not in shown


def test_a_closed_output_is_reported_in_one_line():
    code = "import os, sys\nsys.stdout = None\nos.close(1)"
    line = "Error: cannot write to standard output: it is closed\n"

    status, shown = Terminal("render", JOB, code=code).end()
    assert (1, True, False) == (status, shown.endswith(line), "Traceback" in shown)
    assert 0 == Terminal("render", JOB, "-o", "out.yaml", code=code).end()[0]


@pytest.mark.slow
def test_a_closed_input_is_a_problem():
    code = "import os, sys\nsys.stdin = None\nos.close(0)"

    status, shown = Terminal("render", "-", code=code).end()

    assert 1 == status
    assert "cannot be read: standard input is closed" in shown
