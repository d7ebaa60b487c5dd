"""A text that exceeds a limit is rejected at the value that exceeds it, before rendering."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import printed

import mlgen
from mlgen import MlgenError, Options, objects, pipeline
from mlgen.cli import main
from mlgen.documents import files
from mlgen.documents.files import Text
from mlgen.frameworks import _capacity
from mlgen.output import files as output_files

JOB = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"
WORKER = JOB + "spec: {framework: generic, image: y, roles: {worker: {}}"
MASTER = JOB + "spec: {framework: pytorch, roles: {master: {image: y}, worker: {image: z, replicas"
TEMPLATE = "template: {spec: {containers: [{name: m, image: y}]}}"
JOBSET = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n"
VOLCANO = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"
ROLES = ", ".join(f"r{number}: {{}}" for number in range(501))
MATRIX = "  matrix: {spec.env.SEED: [1, 2, 3]}\n"


def rejected(text, **options):
    with pytest.raises(MlgenError) as caught:
        pipeline.render([Text("job.yaml", text)], Options(**options))
    return [problem for problem in caught.value.problems if not problem.warning]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (f"{MASTER}: 100000}}}}}}", "roles.worker.replicas", "each of the 100,000 replicas needs"),
        (f"{MASTER}: 1000000000}}}}}}", "roles.worker.replicas", "at most 100000, got 1000000000"),
        (
            f"{JOB}spec: {{framework: generic, image: y, roles: {{{ROLES}}}}}",
            "roles",
            "expected at most 500 fields, got 501",
        ),
        (
            (
                f"{JOB}spec: {{framework: horovod, image: y, command: [x], roles: {{launcher: {{}},"
                " worker: {}}, options: {elasticPolicy: {minReplicas: 1, maxReplicas: 10000000}}}"
            ),
            "options.elasticPolicy.maxReplicas",
            "expected at most 100000, got 10000000",
        ),
        (
            (
                f"{JOBSET}spec: {{replicatedJobs: [{{name: w, replicas: 501, template: {{spec:"
                f" {{{TEMPLATE}}}}}}}]}}"
            ),
            "replicatedJobs[0].replicas",
            "the JobSet has 501 Jobs; at most 500 are rendered",
        ),
        (
            (
                f"{JOBSET}spec: {{replicatedJobs: [{{name: w, template: {{spec:"
                f" {{parallelism: 1000000, {TEMPLATE}}}}}}}]}}"
            ),
            "replicatedJobs[0].template.spec.parallelism",
            "expected at most 100000, got 1000000",
        ),
        (
            f"{VOLCANO}spec: {{tasks: [{{name: w, replicas: 1000000000, {TEMPLATE}}}]}}",
            "tasks[0].replicas",
            "expected at most 100000, got 1000000000",
        ),
        (
            (
                f"{VOLCANO}spec: {{tasks: [{{name: v, replicas: 90000, {TEMPLATE}}},"
                f" {{name: w, replicas: 99999, {TEMPLATE}}}]}}"
            ),
            "tasks[1].replicas",
            "the job has 189,999 replicas; a cluster runs at most 150,000 pods",
        ),
    ],
)
def test_numbers_that_are_too_large(text, path, message):
    (problem,) = rejected(text)

    assert problem.code == "too-large"
    assert message in problem.message
    assert mlgen.problems.dotted(problem.path) == f"spec.{path}"
    assert problem.place.line == 4


def test_a_document_with_many_problems_names_the_first_of_them():
    wrong = "".join(f"  unknown{number}: 1\n" for number in range(1200))
    problems = rejected(WORKER.replace("spec: {", "spec:\n  ").replace(", ", "\n  ") + "\n" + wrong)

    assert len(problems) == 1001
    assert [item.code for item in problems].count("too-large") == 1


def test_workloads_that_repeat_a_text_too_often(monkeypatch):
    monkeypatch.setattr(objects, "JOB_BYTES", 1 << 20)
    text = f"{MASTER}: 300, args: [{'x' * 5000}]}}}}}}"
    (problem,) = rejected(text)

    assert problem.message.startswith("the 301 workloads of the job have 2 MiB together")
    assert problem.code == "too-large"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": {f"V{i}": "x" for i in range(200)}}, "repeats env with up to 200 entries"),
        (
            {"volumes": {f"v{i}": {"mountPath": f"/v{i}", "emptyDir": {}} for i in range(200)}},
            "repeats volumes with up to 200 entries",
        ),
        (
            {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(200)]},
            "repeats tolerations with up to 200 entries",
        ),
        (
            {
                "initContainers": [{"name": f"i{i}", "image": "y"} for i in range(20)],
                "env": {f"V{i}": "x" for i in range(20)},
            },
            "repeats env, also in up to 20 init containers, with up to 20 entries",
        ),
    ],
)
def test_fields_that_many_roles_repeat(monkeypatch, fields, message):
    monkeypatch.setattr(_capacity, "JOB_BYTES", 300_000)
    roles = {f"r{number}": {} for number in range(60)}
    spec = {"framework": "generic", "image": "y", "successPolicy": {"role": "r0"}, "roles": roles}
    text = f"{JOB}spec: {json.dumps(spec | fields)}"
    (problem,) = rejected(text)

    assert f"each of the 60 roles {message}" in problem.message
    assert problem.code == "too-large"


def chain(count):
    return [[number - 1] if number else [] for number in range(count)]


def layers(count):
    """Pairs of nodes, of which each depends on both nodes of the pair before."""
    return [[2 * (n // 2) - 2, 2 * (n // 2) - 1] if n > 1 else [] for n in range(count)]


def complete(count):
    return [list(range(number)) for number in range(count)]


def jobset(graph, status):
    jobs = []
    for number, before in enumerate(graph):
        depends = [{"name": f"j{other}", "status": status} for other in before]
        pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "y"}]}}
        job = {"name": f"j{number}", "template": {"spec": {"template": pod}}}
        jobs.append(job | ({"dependsOn": depends} if depends else {}))
    return f"{JOBSET}spec: {json.dumps({'replicatedJobs': jobs})}"


def volcano(graph, status):
    probe = {"readinessProbe": {"exec": {"command": ["a"]}}} if status == "Ready" else {}
    tasks = []
    for number, before in enumerate(graph):
        container = {"name": "m", "image": "y", **probe}
        task = {"name": f"j{number}", "replicas": 1}
        task["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        tasks.append(task | ({"dependsOn": {"name": [f"j{n}" for n in before]}} if before else {}))
    return f"{VOLCANO}spec: {json.dumps({'tasks': tasks})}"


def native(graph, status):
    roles = {
        f"j{number}": {"waitFor": [{"role": f"j{n}", "until": status} for n in before]}
        for number, before in enumerate(graph)
    }
    spec = {"framework": "generic", "image": "y", "successPolicy": {"role": f"j{len(graph) - 1}"}}
    return f"{JOB}spec: {json.dumps(spec | {'options': {'addresses': False}, 'roles': roles})}"


def calls_of(text):
    """Return the number of calls of functions in a render."""
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        pipeline.render([Text("job.yaml", text)], Options())
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("status", ["Complete", pytest.param("Ready", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "write", [native, *(pytest.param(each, marks=pytest.mark.slow) for each in (jobset, volcano))]
)
@pytest.mark.parametrize(
    ("graph", "size"),
    [
        (layers, 8),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((chain, 16), (complete, 8))),
    ],
)
def test_the_work_grows_with_the_dependencies(graph, size, write, status):
    small, middle, large = (graph(size * factor) for factor in (1, 2, 4))
    calls_of(write(small, status))  # import modules
    counts = [calls_of(write(each, status)) for each in (small, middle, large)]
    # Twice the nodes are four times the dependencies of a complete graph.
    most = 4.5 if graph is complete else 2.5
    assert counts[2] - counts[1] < most * (counts[1] - counts[0])


@pytest.mark.parametrize(("graph", "size"), [(chain, 100), (layers, 60)])
def test_a_jobset_with_many_dependencies(graph, size):
    """A chain is deep; the layers have 2 ** 30 paths."""
    pipeline.render([Text("job.yaml", jobset(graph(size), "Complete"))], Options())


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [("JOB_OBJECTS", 5, "6 objects together"), ("JOB_BYTES", 1000, "0 MiB together")],
)
def test_combinations_that_are_too_large_together(monkeypatch, name, limit, message):
    monkeypatch.setattr(objects, name, limit)
    text = WORKER.replace("spec: {", "spec:\n  ").replace(", ", "\n  ") + "\n" + MATRIX
    (problem,) = rejected(text)

    assert message in problem.message
    assert problem.path[0] == "spec"
    assert problem.code == "too-large"


def many(count):
    return [
        Text(f"{n}.yaml", f"{WORKER}}}".replace("name: a", f"name: a{n}")) for n in range(count)
    ]


def test_a_command_that_keeps_its_jobs_renders_no_more_than_fit(monkeypatch):
    monkeypatch.setattr(pipeline, "OBJECTS_AT_ONCE", 5)
    result = pipeline.attempt(many(9), Options())

    assert [problem.code for problem in result.problems] == ["too-large"]
    assert result.problems[0].place.file == "2.yaml"


def test_a_command_that_drops_its_jobs_renders_no_more_than_fit():
    walk = printed(many(9), Options(), "yaml", limit=5).walk

    assert [problem.code for problem in walk.problems] == ["too-large"]
    assert walk.problems[0].place.file == "2.yaml"
    assert walk.has_errors


def test_a_command_that_keeps_its_jobs_limits_their_memory(monkeypatch):
    monkeypatch.setattr(pipeline, "KEPT_BYTES", 100_000)
    result = pipeline.attempt(many(90), Options())

    (problem,) = result.problems
    assert problem.code == "too-large"
    assert problem.message.startswith("the jobs up to this document need more than")
    assert len(result.jobs) < 30


def test_the_problems_of_a_command_are_limited(monkeypatch):
    monkeypatch.setattr(pipeline, "PROBLEMS_OF_COMMAND", 5)
    wrong = [Text(f"{n}.yaml", f"{JOB}spec: {{a: 1, b: 1}}") for n in range(9)]

    for result in (
        pipeline.attempt(wrong, Options()),
        printed(wrong, Options(), "verdict").walk,
    ):
        assert result.problems[-1].code == "too-large"
        assert len(result.problems) < 12


def test_the_texts_that_a_command_keeps_are_limited_together(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "TEXT_BYTES", 3 * len(WORKER))
    for number in range(9):
        (tmp_path / f"{number}.yaml").write_text(f"{WORKER}}}")

    *_, last = files.texts((str(tmp_path),))

    assert last.problem
    assert last.problem.code == "too-large"
    assert last.problem.message.startswith("all files together")
    assert last.name == f"{tmp_path}/2.yaml"


PRINTING = {
    ("render", "job.yaml"): "job.yaml:1:1: ",
    ("render", "job.yaml", "--format", "json"): "job.yaml:1:1: ",
    ("render", "job.yaml", "-o", "out/"): "job.yaml:1:1: ",
    ("argo", "job.yaml"): "job.yaml:1:1: ",
    ("argocd", "generate"): "job.yaml:1:1: ",
    ("helm-post-render",): "<stdin>:1:1: ",
    ("krm",): "TrainingJob/a: ",
}
"""Commands that print manifests, and the place that an error of their whole output names."""


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_the_output_of_a_command_is_limited(words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output_files, "BYTES", 1000)
    text = f"{WORKER}}}\n"
    Path("job.yaml").write_text(text)
    item = text.replace("\n", "\n  ").rstrip()
    krm = f"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- {item}\n"

    result = CliRunner().invoke(main, words, input=krm if words == ("krm",) else text)

    message = f"{PRINTING[words]}the output up to this document has more than 1,024 MiB; render"
    assert message in result.stderr
    assert result.exit_code == 1
    assert "kind: Job" not in result.stdout
    assert not Path("out").exists()
