"""Many jobs: the same manifests and problems as for few."""

import pytest
from click.testing import CliRunner
from support import ROOT, printed
from support import manifests_text as text

from mlgen.cli import main
from mlgen.documents.files import parts, texts
from mlgen.output.files import Spool
from mlgen.output.manifests import joined
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


def run(*words, stdin=None):
    done = CliRunner().invoke(main, [*map(str, words)], input=stdin, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def jobs(count):
    return "".join(JOB.format(name=f"job-{number}") for number in range(count))


def test_the_result_is_that_of_all_jobs_together():
    expected = attempt(texts(FILES), Options())
    result = printed(parts(FILES), Options(), "yaml")
    walk = result.walk

    assert list(expected.problems) == walk.problems
    assert text(expected.parts, "yaml") == "".join(result.texts())
    kinds = [part.document.data["kind"] for part in expected.others]
    assert (len(expected.jobs), expected.invalid, kinds) == (walk.jobs, walk.invalid, walk.others)


def test_a_job_does_not_need_what_comes_later(here):
    (here / "a.yaml").write_text(jobs(20))
    (here / "b.yaml").write_text(CLAIM)

    _, alone, _ = run("render", "a.yaml")
    _, together, _ = run("render", "a.yaml", "b.yaml")

    needs = "#   prerequisites: PersistentVolumeClaim data\n"
    assert alone.count(needs) == 20
    assert alone.replace(needs, "") + CLAIM == together


def test_a_name_that_is_taken_is_reported_once_per_job_and_nothing_is_written(here):
    (here / "a.yaml").write_text(jobs(20))
    (here / "b.yaml").write_text(jobs(1))

    status, stdout, stderr = run("render", "a.yaml", "b.yaml", "-o", "out/")

    message = "b.yaml:4:18: metadata.name: Service job-0 would be rendered twice (and 3 more)"
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


@pytest.mark.parametrize("limit", [0, 30, 1 << 20])
def test_a_spool_returns_what_was_added(limit, monkeypatch):
    monkeypatch.setattr("mlgen.output.files.MEMORY", limit)
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
        joined(printed(parts(("a.yaml",)), Options(), "json").texts(), "json")
    )
    assert (0, expected) == run("render", "a.yaml", "--format", "json")[:2]


def test_problems_that_depend_on_other_documents_have_their_lines(here):
    other = "---\napiVersion: example.com/v1\nkind: DreamJob\nmetadata: {name: a}\n"
    (here / "a.yaml").write_text(jobs(1) * 2 + other)

    _, stdout, _ = run("validate", "a.yaml", "--color", "always")

    rows = [line for line in stdout.splitlines() if " |\x1b[0m " in line and "^" not in line]
    assert ["metadata: {name: job-0}", "kind: DreamJob"] == [
        row.rpartition("m ")[2] for row in rows
    ]
