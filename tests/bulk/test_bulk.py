"""Many jobs: the same manifests and problems as for few, in any number of processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen import bulk
from mlgen.bulk import Task, workers
from mlgen.cli import main
from mlgen.documents.files import Text, parts, texts
from mlgen.output.manifests import joined, text
from mlgen.output.spool import Spool
from mlgen.pipeline import attempt
from mlgen.result import Options

FILES = tuple(
    str(file)
    for folder in (".", "resources", "invalid")
    for file in sorted(ROOT.glob(f"fixtures/{folder}/*.yaml"))[5::12]
)

JOB = """\
---
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  framework: pytorch
  image: example/bert:1
  volumes: {{data: {{mountPath: /data, pvc: data}}}}
  roles: {{worker: {{replicas: 2}}}}
"""

CLAIM = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {}
"""


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_running(pid):
    """Return True if the process runs. Zombies do not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def run(*words, stdin=None):
    done = CliRunner().invoke(main, [*map(str, words)], input=stdin, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def jobs(count):
    return "".join(JOB.format(name=f"job-{number}") for number in range(count))


def test_the_result_is_that_of_all_jobs_together():
    expected = attempt(texts(FILES), Options())
    one, two = (bulk.gather(parts(FILES), Task(Options(), "yaml"), number) for number in (1, 2))

    assert list(expected.problems) == one.problems == two.problems
    assert text(expected.parts, "yaml") == "".join(one.texts()) == "".join(two.texts())
    counts = (
        len(expected.jobs),
        expected.invalid,
        [part.document.data["kind"] for part in expected.others],
    )
    assert counts == (one.jobs, one.invalid, one.others) == (two.jobs, two.invalid, two.others)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "folder", "verdict"])
def test_other_forms_do_not_depend_on_the_number_of_processes(form):
    one, two = (bulk.gather(parts(FILES), Task(Options(), form), number) for number in (1, 2))

    assert dict(one.files()) == dict(two.files())
    assert list(one.texts()) == list(two.texts())
    assert one.jobs == two.jobs > 0


def test_a_job_does_not_need_what_comes_later(here):
    (here / "a.yaml").write_text(jobs(20))
    (here / "b.yaml").write_text(CLAIM)

    _, alone, _ = run("render", "a.yaml", "--jobs", "2")
    _, together, _ = run("render", "a.yaml", "b.yaml", "--jobs", "2")

    needs = "#   prerequisites: PersistentVolumeClaim data\n"
    assert alone.count(needs) == 20
    assert alone.replace(needs, "") + CLAIM == together


def test_a_name_that_is_taken_is_reported_once_per_job_and_nothing_is_written(here):
    (here / "a.yaml").write_text(jobs(20))
    (here / "b.yaml").write_text(jobs(1))

    results = {run("render", "a.yaml", "b.yaml", "-o", "out/", *words) for words in ([], ["-j2"])}

    message = "b.yaml:4:18: metadata.name: Service job-0 would be rendered twice (and 3 more)"
    ((status, stdout, stderr),) = results
    assert (1, "") == (status, stdout)
    assert stderr.startswith(message)
    assert stderr.endswith("2 files, 21 jobs, 1 problem\n")
    assert not (here / "out").exists()


def test_two_objects_with_a_file_of_the_same_name_are_an_error():
    events = "".join(
        f"---\napiVersion: {version}\nkind: Event\nmetadata: {{name: a}}\n"
        for version in ("v1", "events.k8s.io/v1")
    )

    status, _, stderr = run("render", "-", "-o", "out/", stdin=events)

    message = (
        "two objects would be written to event_a.yaml; rename one of the objects [name-collision]"
    )
    assert (1, f"<stdin>:8:18: metadata.name: {message}") == (status, stderr.splitlines()[0])


def test_zero_processes_are_one_for_each_core(here, monkeypatch):
    (here / "a.yaml").write_text(jobs(2))
    monkeypatch.setattr(workers, "BATCH", 1)
    used = []
    monkeypatch.setattr(workers, "cores", lambda: used.append(2) or 2)

    assert run("render", "a.yaml", "--jobs", "0") == run("render", "a.yaml")
    assert [2] == used


def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(text):
    raise ZeroDivisionError(text.name)


@pytest.mark.parametrize(
    ("work", "message"), [(kill, "was killed; if memory is short"), (fail, "ZeroDivisionError: 1")]
)
def test_a_process_that_ends_is_an_error(work, message, monkeypatch):
    monkeypatch.setattr(workers, "BATCH", 1)

    with pytest.raises(ChildProcessError, match=message):
        list(workers.results(work, [Text("1"), Text("1")], 2))


def test_a_killed_process_is_one_line(here, monkeypatch):
    (here / "a.yaml").write_text(jobs(40))
    monkeypatch.setattr(bulk, "outcomes", kill)

    assert (1, "", f"Error: {workers.DIED}\n") == run("render", "a.yaml", "--jobs", "2")


def test_interruption_ends_all_processes(here):
    (here / "a.yaml").write_text(jobs(3000))
    program = [sys.executable, "-m", "mlgen", "render", "a.yaml", "--jobs", "2"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2:
        assert process.poll() is None
    pids = children.read_text().split()
    os.killpg(process.pid, signal.SIGINT)

    assert b"" == process.communicate(timeout=30)[0]
    assert process.returncode == 130
    deadline = time.monotonic() + 30
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_processes_can_be_started_anew(here):
    (here / "a.yaml").write_text(jobs(40))
    code = "import multiprocessing, mlgen.cli as cli\nif __name__ == '__main__':\n"
    code += " multiprocessing.set_start_method('spawn')\n cli.main(prog_name='mlgen')\n"
    (here / "spawn.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "spawn.py", "render", "a.yaml", "-j2"], capture_output=True, check=True
    )

    assert run("render", "a.yaml")[1].encode() == done.stdout


@pytest.mark.parametrize("limit", [0, 30, 1 << 20])
def test_a_spool_returns_what_was_added(limit, monkeypatch):
    monkeypatch.setattr("mlgen.output.spool.MEMORY", limit)
    items = [(number, "größe\ud83d", None) for number in range(5)]
    spool = Spool()

    for item in items:
        spool.add(item)

    assert items == list(spool)
    assert items[::-1] == [spool[number] for number in reversed(range(len(items)))]


def test_json_is_written_item_by_item(here):
    (here / "a.yaml").write_text(jobs(2))
    expected = text(attempt(texts(("a.yaml",)), Options()).parts, "json")

    assert expected == "".join(
        joined(bulk.gather(parts(("a.yaml",)), Task(Options(), "json")).texts(), "json")
    )
    assert (0, expected) == run("render", "a.yaml", "--format", "json")[:2]


def test_problems_that_depend_on_other_documents_have_their_lines(here):
    other = "---\napiVersion: example.com/v1\nkind: DreamJob\nmetadata: {name: a}\n"
    (here / "a.yaml").write_text(jobs(1) * 2 + other)

    results = [run("validate", "a.yaml", "--color", "always", *words)[1] for words in ([], ["-j2"])]

    assert results[0] == results[1]
    rows = [line for line in results[0].splitlines() if " |\x1b[0m " in line and "^" not in line]
    assert ["metadata: {name: job-0}", "kind: DreamJob"] == [
        row.rpartition("m ")[2] for row in rows
    ]
