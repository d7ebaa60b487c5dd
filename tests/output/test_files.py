"""A file is written completely or not at all."""

import os
import stat
from pathlib import Path

import pytest

from mlgen.output.files import conflict, write

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


def test_a_new_file_has_exactly_the_text(tmp_path):
    write(str(tmp_path / "a.yaml"), "größe: 1\r\n\n")

    assert "größe: 1\r\n\n".encode() == (tmp_path / "a.yaml").read_bytes()
    assert ["a.yaml"] == [path.name for path in tmp_path.iterdir()]


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_the_umask(umask, tmp_path):
    previous = os.umask(umask)
    try:
        write(str(tmp_path / "a.yaml"), "")
        assert umask == os.umask(umask)
    finally:
        os.umask(previous)

    assert 0o666 & ~umask == stat.S_IMODE((tmp_path / "a.yaml").stat().st_mode)


@posix
def test_an_existing_file_keeps_its_mode(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a long text")
    file.chmod(0o640)

    write(str(file), "b")

    assert ("b", 0o640) == (file.read_text(), stat.S_IMODE(file.stat().st_mode))


def test_a_file_keeps_its_text_if_the_new_one_cannot_be_written(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write(str(file), "x" * 100_000 + "\ud800")

    assert ("old", ["a.yaml"]) == (file.read_text(), [path.name for path in tmp_path.iterdir()])


@posix
def test_a_file_that_is_not_regular_is_written_in_place(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    write(str(fifo), "a: 1\n")

    assert b"a: 1\n" == os.read(reader, 100)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    os.close(reader)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write(str(tmp_path / "missing" / "a.yaml"), "")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a job, links to it, and a subfolder with another job."""
    (tmp_path / "jobs").mkdir()
    for name in ("a.yaml", "jobs/b.yaml"):
        (tmp_path / name).write_text("a: 1\n")
    (tmp_path / "link.yaml").symlink_to("a.yaml")
    (tmp_path / "jobs/link.yaml").symlink_to("../a.yaml")
    (tmp_path / "hard").hardlink_to(tmp_path / "a.yaml")
    (tmp_path / "also").symlink_to("jobs")
    monkeypatch.chdir(tmp_path)


BOTH = "{} is both input and output; write to another file"
AGAIN = (
    "{} is in the input folder jobs, and would be read as a job the next time;"
    " write to another folder"
)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("output", "inputs", "message"),
    [
        ("a.yaml", ["b.yaml", "a.yaml"], BOTH),
        ("jobs/../a.yaml", ["a.yaml"], BOTH),
        ("a.yaml", ["link.yaml"], BOTH),
        ("link.yaml", ["a.yaml"], BOTH),
        ("hard", ["a.yaml"], BOTH),
        ("new.yaml", ["new.yaml"], BOTH),
        ("jobs/b.yaml", ["jobs"], BOTH),
        ("also/b.yaml", ["jobs"], BOTH),
        ("a.yaml", ["jobs"], BOTH),
        ("jobs/new.yaml", ["jobs"], AGAIN),
        ("also/new.yaml", ["jobs"], AGAIN),
        ("jobs/new.txt", ["jobs"], ""),
        ("jobs/new.yaml", ["jobs/b.yaml"], ""),
        ("a.yaml", ["-"], ""),
        ("new.yaml", ["a.yaml"], ""),
        ("/dev/null", ["/dev/null"], ""),
    ],
)
def test_an_input_is_not_overwritten(output, inputs, message):
    assert message.format(output) == conflict([Path("other"), Path(output)], inputs)
