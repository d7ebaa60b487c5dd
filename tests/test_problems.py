"""All problems are reported at once, each with its location and a hint. The output is a golden."""

import ast
import json
import re

import pytest
from click.testing import CliRunner
from support import FIXTURES, ROOT, load_all, without_totals

from mlgen import checks
from mlgen import input_limits as bounds
from mlgen.cli import main
from mlgen.problems import Problem, did_you_mean, limited_hints
from mlgen.reference import rules

INVALID = sorted((ROOT / "fixtures/invalid").glob("*.yaml"))

HEAD = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
MPI = HEAD + "metadata: {name: pi}\nspec:\n  framework: mpi\n  image: example/pi:1\n"

INVALID_BYTES = {
    "not-text": b"\xff\xfem\x00n\x00",
    "document-of-2-MiB": b"data: " + b"x" * (2 << 20),
    "nested-too-deeply": b"a: " + b"[" * 5000,
}
"""Files that are too unwieldy for fixtures/invalid."""


def test_texts_of_a_problem_are_cut():
    problem = Problem((), "a" * 5000, "launch", "b" * 1000)

    assert problem.message == "a" * 1000 + "…"
    assert problem.hint == "b" * 1000


@pytest.fixture
def run(monkeypatch):
    def run(folder, *arguments):
        monkeypatch.chdir(folder)
        return CliRunner().invoke(main, ["render", *map(str, arguments)], catch_exceptions=False)

    return run


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid(path, run, message):
    result = run(ROOT, path.relative_to(ROOT))

    problems = without_totals(result.stderr)
    rejected = any(": warning: " not in line for line in problems.splitlines())
    assert (result.exit_code, not result.stdout) == (rejected, rejected)
    assert problems == message


@pytest.mark.parametrize("name", INVALID_BYTES)
def test_invalid_bytes(name, run, message, tmp_path):
    (tmp_path / "job.yaml").write_bytes(INVALID_BYTES[name])

    result = run(tmp_path, "job.yaml")

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


def test_invalid_setting(run, message):
    """Values of `--set` are validated against the schema like those in the file."""
    settings = ["spec.roles.worker.replicas=many", "spec.imgae=x", "metadata.name.first=mnist"]
    settings += ["spec.args=a,b", "spec.env.LR=0.1"]
    for setting in settings:
        result = run(ROOT, "fixtures/tensorflow-single.yaml", "--set", setting)

        assert (1, "") == (result.exit_code, result.stdout)
        assert without_totals(result.stderr) == message


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow-clean-all",
        "tensorflow-estimator",
        "generic-actors",
        "generic-secrets",
        "ray-ttl",
    ],
)
def test_warning(name, run, message):
    result = run(ROOT, f"fixtures/{name}.yaml")

    assert 0 == result.exit_code
    assert result.stdout.startswith("---\n")
    assert without_totals(result.stderr) == message


def test_warning_without_a_supervisor(run, message):
    result = run(ROOT, "fixtures/tensorflow-ps.yaml", "--no-supervisor")

    assert 0 == result.exit_code
    assert without_totals(result.stderr) == message


def test_warning_of_a_large_object(run, message, tmp_path):
    (tmp_path / "job.yaml").write_text(MPI + "  roles: {launcher: {}, worker: {replicas: 12000}}\n")

    result = run(tmp_path, "job.yaml")

    assert 0 == result.exit_code
    assert without_totals(result.stderr) == message


@pytest.mark.parametrize(("kube_version", "status"), [("1.35", 1), ("1.36", 0)])
def test_a_service_name_may_start_with_a_digit_from_kubernetes_1_36_on(kube_version, status, run):
    name = "fixtures/invalid/name-begins-with-a-digit.yaml"

    assert status == run(ROOT, name, "--kube-version", kube_version).exit_code


def test_two_jobs_cannot_decide(render, message):
    """No job file causes this. The check guards against mistakes in a new framework."""
    path = ROOT / "fixtures/tensorflow-ps.yaml"
    objects = load_all(render(path, supervisor=False))
    for item in objects:
        item["metadata"]["labels"]["mlgen.dev/decides"] = "true"

    problems = checks.job_problems("mnist", objects, (1, 34))

    assert "\n".join(map(str, problems)) == message


def test_the_problems_of_all_files_are_reported_in_order(run):
    names = [path.relative_to(ROOT) for path in (INVALID[3], FIXTURES[0], INVALID[0], INVALID[7])]
    alone = "".join(without_totals(run(ROOT, name).stderr) for name in names)

    together = run(ROOT, *names)

    assert (1, "") == (together.exit_code, together.stdout)
    assert alone == without_totals(together.stderr)
    assert together.stderr != alone


def test_what_cannot_have_a_file_of_a_folder(run, message, tmp_path):
    kinds = {"List": "items: []", "ConfigMap": "metadata: {generateName: data-}"}
    kinds["ClusterRole"] = f"metadata: {{name: {'n' * 240}}}"
    for kind, rest in kinds.items():
        (tmp_path / f"{kind}.yaml").write_text(f"apiVersion: v1\nkind: {kind}\n{rest}\n")

    result = run(tmp_path, ".", "-o", "out/")

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message
    assert not (tmp_path / "out").exists()


def test_what_stands_in_the_way_of_a_file_of_a_folder(run, message, tmp_path):
    (tmp_path / "out" / "service_tune.yaml").mkdir(parents=True)
    (tmp_path / "out" / "job_tune-worker.yaml").write_text("mine")

    result = run(tmp_path, ROOT / "fixtures/tensorflow-single.yaml", "-o", "out")

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


INVALID_RESOURCE_LISTS = {
    "empty": "# nothing\n",
    "manifests": "kind: A\n---\nkind: B\n",
    "another-kind": "apiVersion: v1\nkind: List\nitems: []\n",
    "another-version": "apiVersion: config.kubernetes.io/v2\nkind: ResourceList\nitems: []\n",
    "text": "a resource list\n",
    "no-items": "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n",
    "items-as-mapping": "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: {a: b}}",
    "item-as-text": "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: [c]\n",
    "bracket": "kind: ResourceList\nitems: [}\n",
    "control-character": "kind: \x01\n",
    "not-text": b"\xff",
}


@pytest.mark.parametrize("name", INVALID_RESOURCE_LISTS)
def test_what_is_no_resource_list(name, message):
    result = CliRunner().invoke(
        main, ["krm"], input=INVALID_RESOURCE_LISTS[name], catch_exceptions=False
    )

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


def test_what_nobody_may_run(run, message, tmp_path):
    kinds = {"SparkApplication": "sparkoperator.k8s.io/v1beta2"}
    kinds |= {"LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "DreamJob": "example.com/v1"}
    for kind, version in kinds.items():
        text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
        (tmp_path / f"{kind}.yaml").write_text(text)

    result = run(tmp_path, ".")

    assert 0 == result.exit_code
    assert without_totals(result.stderr) == message


def test_folders_of_other_tools(run, message, tmp_path):
    for name in ("chart/Chart.yaml", "chart/values.yaml", "overlay/kustomization.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a: 1\n")

    result = run(tmp_path, "chart", "overlay", "chart/Chart.yaml", "overlay/kustomization.yaml")

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


KUSTOMIZATIONS = {
    "namePrefix: dev-\nresources: [job.yaml]\n": "1:13: namePrefix",
    "resources: [job.yaml, ../base]\n": "1:12: resources",
    "resources: [job.yaml]\nimages: [{name: a, newTag: b}]\n": "2:9: images",
    "patches: []\nresources: [./job.yaml]\n": "",
    "kind: Kustomization\nresources: [job.yaml]\n---\n": "",
    "{": "1:1: ",
}


@pytest.mark.parametrize("text", KUSTOMIZATIONS)
def test_a_kustomization_that_changes_the_folder_is_a_warning(text, run, tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/job.yaml").write_text((ROOT / "fixtures/jax.yaml").read_text())
    (tmp_path / "a b/kustomization.yaml").write_text(text)

    result = run(tmp_path, "a b")

    place, _, fields = KUSTOMIZATIONS[text].partition(": ")
    expected = (
        f"a b/kustomization.yaml:{place}: warning: kustomize is not run, so this file has no effect"
        f"{fields and f': {fields}'}; build it first: kubectl kustomize 'a b' | mlgen render -"
        " [no-effect]\n"
    )
    assert result.exit_code == 0
    assert without_totals(result.stderr) == (expected if place else "")


def test_what_is_not_there_is_named(run, message, tmp_path):
    (tmp_path / "none").mkdir()

    result = run(tmp_path, "no-file.yaml", "none")

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


def test_there_is_no_kubectl(monkeypatch, message, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))

    result = CliRunner().invoke(main, ["diff", "--live", "fixtures/mars.yaml"])

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == message


def texts():
    """Yield every text in the code, except for the list of codes."""
    for path in set((ROOT / "mlgen").rglob("*.py")) - {ROOT / "mlgen/problems.py"}:
        nodes = ast.walk(ast.parse(path.read_text()))
        yield from (node.value for node in nodes if isinstance(node, ast.Constant))


def codes_of_rows():
    """Yield the codes in the tables of rules and problems."""

    def found(node):
        if isinstance(node, dict) and isinstance(node.get("code"), str):
            yield node["code"]
        for inner in node.values() if isinstance(node, dict) else node:
            if isinstance(inner, dict | list):
                yield from found(inner)

    for path in (ROOT / "schemas").glob("*/*.json"):
        yield from found(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_every_code_that_is_used_is_declared_and_explained():
    """mypy checks that codes in the source are declared, but not codes in tables."""
    declared, of_rows = {*rules.codes()}, {*codes_of_rows()}

    assert declared == {path.stem for path in rules.FOLDER.glob("*.md")}
    assert declared == of_rows | declared & {*texts()}


def test_no_message_quotes_a_regular_expression():
    goldens = (ROOT / "tests").glob("**/__snapshots__/*/*.txt")
    lines = [line for path in goldens for line in path.read_text().splitlines()]

    assert lines
    assert [] == [
        line for line in lines if re.search(r"\[\^?[-._]?a-z|\^\[|\]\)?[*+?]|\)\?\$", line)
    ]


@pytest.mark.slow
def test_the_hints_of_a_document_are_limited():
    known = [f"variable{number:04}" for number in range(bounds.CHOICES)]
    with limited_hints():
        hints = [did_you_mean(f"variabel{number:04}", known) for number in range(200)]
    assert all(hints[:50])
    assert not any(hints[150:])
    assert did_you_mean("variabel0001", known)  # the next document
    assert not did_you_mean("a" * 1000, ["a" * 999])
