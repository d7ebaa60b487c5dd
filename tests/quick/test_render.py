"""What is rendered without click is what click renders."""

import errno
import io
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import ROOT, abridged, every_file, golden, stem

from mlgen import quick
from mlgen.cli import main
from mlgen.quick.render import LARGEST
from mlgen.site import find

GOOD, OTHER = "fixtures/tensorflow-ps.yaml", "fixtures/horovod.yaml"
INVALID = sorted((ROOT / "fixtures/invalid").glob("*.yaml"))


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def quickly(capsysbinary):
    """Function that returns what is printed without click; None if that is left to click."""

    def quickly(*words):
        status = quick.run(["mlgen", "render", *map(str, words)])
        out, err = capsysbinary.readouterr()
        assert status is not None or (b"", b"") == (out, err)
        return None if status is None else (status, out.decode(), err.decode())

    return quickly


def thoroughly(*words):
    done = CliRunner().invoke(main, ["render", *map(str, words)], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@every_file
@pytest.mark.usefixtures("prepared")
def test_a_file_is_rendered_alike_or_left_to_click(file, quickly):
    """The goldens are what click prints."""
    name = file.relative_to(ROOT)

    printed = quickly(name)

    if printed is None:
        assert thoroughly(name)[2] != ""
    else:
        assert (0, golden(file), "") == (printed[0], abridged(printed[1]), printed[2])


@pytest.mark.parametrize("file", INVALID, ids=stem)
@pytest.mark.usefixtures("prepared")
def test_an_error_is_left_to_click(file, quickly):
    assert quickly(file.relative_to(ROOT)) is None


@pytest.mark.parametrize(
    "words",
    [
        [GOOD, "-n", "team"],
        ["--namespace", "team", GOOD],
        [GOOD, "--namespace=team"],
        ["-n", "one", GOOD, "-n", "two"],
        [GOOD, OTHER],
        ["fixtures/no-such/../tensorflow-ps.yaml".replace("no-such", "invalid")],
    ],
    ids=" ".join,
)
def test_a_command_line_means_the_same(words, quickly):
    assert thoroughly(*words) == quickly(*words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-"],
        ["fixtures"],
        ["no-such.yaml"],
        ["a\0b"],
        [GOOD, "-n"],
        [GOOD, "-n", "-q"],
        [GOOD, "-n", "Not a name"],
        [GOOD, "--namespace="],
        [GOOD, "-nteam"],
        [GOOD, "-q"],
        [GOOD, "--", OTHER],
        [GOOD, GOOD],  # the same job twice is an error
        ["/dev/null"],
        ["--help"],
        [GOOD, "-h"],
    ],
    ids=" ".join,
)
def test_all_else_is_left_to_click(words, quickly):
    assert quickly(*words) is None


def test_so_is_a_large_file(quickly, tmp_path):
    text = (ROOT / GOOD).read_text()
    file = tmp_path / "job.yaml"
    for size, is_quick in ((LARGEST, True), (LARGEST + 1, False)):
        file.write_text(text + "#" * (size - len(text)))

        assert (quickly(file) is not None) == is_quick


def test_other_objects_are_counted(quickly, tmp_path):
    file = tmp_path / "all.yaml"
    text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n"
    file.write_text(f"{(ROOT / GOOD).read_text()}---\n{text}")

    expected = thoroughly(file)

    assert expected[2] == "1 job, 1 other object (Secret)\n"
    assert expected == quickly(file)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a job file in the working folder, which is two folders down."""
    folder = tmp_path / "project/a/b"
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text((ROOT / GOOD).read_text())
    monkeypatch.chdir(folder)
    return tmp_path / "project"


@pytest.mark.parametrize(
    "text",
    [
        "[tool.mlgen]",
        "[ tool . mlgen ]",
        "['tool'.\"mlgen\"]",
        '["t\\u006fol".mlgen]',
        "[tool]\n[tool.ruff]\n[tool.mlgen]",
        "[tool]\nmlgen.namespace = 'a'",
        "[ 'tool' ]\nmlgen = {}",
        "tool = {mlgen = {}}",
        "tool.mlgen = {}",
        "\n 'tool'.mlgen.namespace = 'a'",
        "[tool.mlgen.helpers]",
        None,
    ],
)
def test_defaults_of_a_site_are_left_to_click(text, project, quickly):
    file = project / ("mlgen.toml" if text is None else "pyproject.toml")
    file.write_text(text or "namespace = 'a'")
    assert find(Path.cwd())

    assert quickly("job.yaml") is None
    file.write_bytes(b"\xff")
    assert quickly("job.yaml") is None
    (project / "a/.git").mkdir()
    assert thoroughly("job.yaml") == quickly("job.yaml")


def test_files_without_defaults_are_not(project, quickly):
    (project / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (project / "a/mlgen.toml").mkdir()

    assert thoroughly("job.yaml") == quickly("job.yaml")


@pytest.mark.parametrize("words", [[GOOD], [GOOD, OTHER], [GOOD, "-n", "team"]], ids=" ".join)
def test_a_person_is_told_what_comes_next(words, quickly, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    printed = quickly(*words)

    monkeypatch.setattr("mlgen.cli._report._is_terminal", lambda stream: stream is not None)
    assert thoroughly(*words) == printed
    assert "next:\n  mlgen status" in printed[2]
    monkeypatch.setenv("CI", "true")
    assert "next:" not in quickly(*words)[2]


class Broken(io.BytesIO):
    """An output that cannot be written."""

    def __init__(self, number):
        self.number = number

    def write(self, _data):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (errno.EPIPE, ""),
        (errno.ENOSPC, "Error: cannot write to standard output: No space left on device\n"),
    ],
)
def test_an_output_that_cannot_be_written(number, line, monkeypatch, capsys):
    stdout = io.StringIO()
    stdout.buffer = Broken(number)
    monkeypatch.setattr(sys, "stdout", stdout)

    assert 1 == quick.run(["mlgen", "render", GOOD])
    assert line == capsys.readouterr().err


def test_nobody_can_be_told_if_standard_error_cannot_be_written(monkeypatch, capsys):
    class Closed(io.StringIO):
        def write(self, _text):
            raise OSError(errno.EIO, "")

    monkeypatch.setattr(sys, "stderr", Closed())

    assert 1 == quick.run(["mlgen", "render", GOOD, OTHER])
    assert capsys.readouterr().out


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_left_to_click(stream, monkeypatch):
    monkeypatch.setattr(sys, stream, None)

    assert quick.run(["mlgen", "render", GOOD]) is None


def test_so_is_windows(monkeypatch):
    monkeypatch.setattr("os.name", "nt")

    assert quick.run(["mlgen", "--version"]) is None
