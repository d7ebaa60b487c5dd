"""A file is written completely or not at all."""

import os
import stat
import sys
from pathlib import Path

import pytest

from mlgen.output.files import DRAFT, conflict, remove_drafts, write

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


@posix
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "other").write_text("other")
    (tmp_path / "other").chmod(0o600)
    (tmp_path / "a.yaml").symlink_to("other")

    write(str(tmp_path / "a.yaml"), "new")

    assert ("other", "new") == tuple((tmp_path / n).read_text() for n in ("other", "a.yaml"))
    assert not (tmp_path / "a.yaml").is_symlink()
    assert stat.S_IMODE((tmp_path / "a.yaml").stat().st_mode) != 0o600


@posix
def test_a_pipe_of_another_user_is_not_written(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(PermissionError, match="the pipe belongs to another user"):
        write(str(tmp_path / "fifo"), "secret")


def test_the_drafts_of_processes_that_were_killed_are_removed(tmp_path):
    old, new, link = (tmp_path / f"{DRAFT}{name}" for name in ("old", "new", "link"))
    for file in (old, new, tmp_path / "a.yaml"):
        file.write_text("")
        os.utime(file, (0, 0))
    new.touch()
    link.symlink_to("a.yaml")

    remove_drafts(tmp_path)
    remove_drafts(tmp_path / "missing")

    assert {new, link, tmp_path / "a.yaml"} == set(tmp_path.iterdir())


def test_standard_input_may_be_a_file(tmp_path, monkeypatch):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n")
    with file.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)

        assert f"{file} is both input and output" in conflict([file], ("-",))
        assert "" == conflict([tmp_path / "b.yaml"], ("-",))
    monkeypatch.setattr(sys, "stdin", None)
    assert "" == conflict([file], ("-",))
