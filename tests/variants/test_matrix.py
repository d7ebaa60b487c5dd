"""`spec.matrix` and `--matrix` render one job for each combination of values."""

import json
import re
import time

import pytest
from click.testing import CliRunner
from support import ROOT, load, load_all

from mlgen import MlgenError, Options, pipeline
from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.kubernetes.names import DNS_1123
from mlgen.variants.matrix import parse

HEAD = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
SPEC = {
    "framework": "pytorch",
    "image": "example/bert:2",
    "command": ["torchrun", "train.py"],
    "args": ["--lr", "1e-3"],
    "roles": {"worker": {"replicas": 2}},
}


RUN = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['mlgen.dev/job']"}}}


def job(matrix=None, metadata=None, **spec):
    """Return a job file as text. The matrix is YAML text, so that its spelling is kept."""
    lines = [f"  {name}: {json.dumps(value)}\n" for name, value in (SPEC | spec).items()]
    lines += [f"  matrix: {matrix}\n"] if matrix else []
    named = json.dumps({"name": "bert"} | (metadata or {}))
    return f"{HEAD}metadata: {named}\nspec:\n{''.join(lines)}"


def rendered(text, *matrix, **options):
    values = Options(matrix=tuple(map(parse, matrix)), **options)
    return pipeline.render([Text("job.yaml", text)], values)


def names(text, *matrix, **options):
    return [part.job.name for part in rendered(text, *matrix, **options).jobs]


def error(text, *matrix):
    with pytest.raises(MlgenError) as caught:
        rendered(text, *matrix)
    (problem,) = caught.value.problems
    return str(problem)


def workload(part):
    return next(item for item in part.objects if item["kind"] == "Job")


def container(part):
    return workload(part)["spec"]["template"]["spec"]["containers"][0]


def value(part, variable):
    return next(item.get("value") for item in container(part)["env"] if item["name"] == variable)


def test_manifests(render, manifest):
    assert render(ROOT / "fixtures/matrix/pytorch.yaml") == manifest


# Combinations.


def test_all_combinations_are_rendered_in_order():
    assert names(job("{args.lr: [1e-4, 1e-5], spec.env.SEED: [1, 2]}")) == [
        "bert-lr-1e-4-seed-1",
        "bert-lr-1e-4-seed-2",
        "bert-lr-1e-5-seed-1",
        "bert-lr-1e-5-seed-2",
    ]


def test_the_command_line_replaces_and_adds_values():
    text = job("{args.lr: [1e-4, 1e-5], spec.env.SEED: [1]}")

    assert names(text, "args.lr=[3]", "spec.env.X=[a, b]") == [
        "bert-lr-3-seed-1-x-a",
        "bert-lr-3-seed-1-x-b",
    ]


def test_settings_come_before_the_matrix():
    text = job("{args.lr: [1e-4]}")
    settings = ((("args", "lr"), "7"), (("spec", "matrix", "args.batch"), ["8"]))

    (part,) = rendered(text, settings=settings).jobs

    assert container(part)["args"] == ["--lr", "1e-4", "--batch", "8"]


def test_exclude_leaves_out_all_with_its_values_and_include_adds_one():
    text = job(
        "{args.lr: [1, 2], spec.env.SEED: [1, 2],"
        " exclude: [{args.lr: 1, spec.env.SEED: 2}, {args.lr: 2}],"
        " include: [{args.lr: 2, args.wd: 0.1}]}"
    )

    assert names(text) == ["bert-lr-1-seed-1", "bert-lr-2-wd-0-1"]


def test_combinations_can_be_listed_one_by_one():
    assert names(job("{include: [{args.lr: 1}, {args.wd: 2}]}")) == ["bert-lr-1", "bert-wd-2"]


def test_an_exclude_without_effect_is_a_warning():
    result = rendered(job("{args.lr: [1], exclude: [{args.lr: 2}]}"))

    assert len(result.jobs) == 1
    assert [problem.code for problem in result.warnings] == ["no-effect"]


def test_a_custom_resource_has_a_matrix_by_the_command_line():
    text = (ROOT / "fixtures/resources/kubeflow-pytorchjob-v1.yaml").read_text()
    (plain,) = names(text)

    assert names(text, "spec.roles.worker.replicas=[2, 3]") == [
        f"{plain}-replicas-2",
        f"{plain}-replicas-3",
    ]


# Values.


def test_values_of_flags_and_variables_keep_their_spelling():
    (part,) = rendered(job("{args.lr: [1e-4], spec.env.A: [0x10], spec.env.B: [007]}")).jobs
    (same,) = rendered(job(), "args.lr=[1e-4]", "spec.env.A=[0x10]", "spec.env.B=[007]").jobs

    assert container(part)["args"] == ["--lr", "1e-4"]
    assert (value(part, "A"), value(part, "B")) == ("0x10", "007")
    assert part.objects == same.objects


def test_values_of_other_fields_are_typed():
    jobs = rendered(job("{spec.roles.worker.replicas: [2, 3], spec.runPolicy: [{suspend: true}]}"))

    assert [part.job.replicas for part in jobs.jobs] == [2, 3]
    assert all(part.job.run_policy.suspend for part in jobs.jobs)


def test_numbers_of_python_become_texts():
    options = Options(matrix=((("args", "lr"), (0.5, True)), (("spec", "env", "SEED"), (1,))))

    jobs = pipeline.render([Text("job.yaml", job())], options).jobs

    assert [container(part)["args"][1] for part in jobs] == ["0.5", "true"]
    assert [value(part, "SEED") for part in jobs] == ["1", "1"]


# Names and labels.


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ("{spec.env.A: [x_Y.z]}", ["bert-a-x-y-z"]),
        ("{spec.env.A: [-1, 1]}", ["bert-a-minus-1", "bert-a-1"]),
        ("{spec.image: [example/train:1]}", ["bert-image-example-train-1"]),
        (r"{spec.resources.nvidia\.com/gpu: [8]}", ["bert-gpu-8"]),
        (
            "{spec.roles.worker.args.lr: [1], spec.env.lr: [2]}",
            ["bert-worker-lr-1-lr-2"],
        ),
        ("{args.lr: [1], spec.env.LR: [2]}", ["bert-args-lr-1-env-lr-2"]),
        ("{args.a.b: [1]}", ["bert-b-1"]),
    ],
)
def test_names(matrix, expected):
    spec = {"roles": {"worker": {"args": ["--lr=0"]}}} if "worker.args" in matrix else {}

    assert names(job(matrix, **spec)) == expected


def test_paths_that_are_the_same_in_a_name_get_a_hash():
    (part,) = rendered(job("{args.a.b: [1], args.a-b: [2]}")).jobs

    labels = [key for key in workload(part)["metadata"]["labels"] if key.startswith("matrix.")]
    assert len(set(labels)) == 2
    assert DNS_1123.match(part.job.name)


def test_values_with_the_same_name_get_a_hash():
    first, second, empty = names(job("{spec.env.A: [Adam, adam, '']}"))

    assert all(re.fullmatch("bert-a-adam-[a-z0-9]{8}", name) for name in (first, second))
    assert first != second
    assert re.fullmatch("bert-a-[a-z0-9]{8}", empty)


def test_a_long_name_is_cut_and_gets_a_hash():
    values = ["a" * 30 + "1", "a" * 30 + "2"]
    text = job(f"{{spec.env.A: [{', '.join(values)}]}}")
    one, two = names(text)
    longer, _ = names(text, "spec.env.B=[1]")

    assert all(name.startswith("bert-a-aaaaa") and len(name) <= 41 for name in (one, two))
    assert len({one, two, longer}) == 3
    assert names(job(f"{{spec.env.A: [{values[0]}]}}")) == [one]


def test_a_name_is_cut_only_if_it_exceeds_the_limit():
    assert names(job(f"{{spec.env.A: [{'a' * 34}]}}")) == [f"bert-a-{'a' * 34}"]
    assert names(job(f"{{spec.env.A: [{'a' * 35}]}}"))[0].startswith(f"bert-a-{'a' * 25}-")


def test_every_name_is_valid_and_within_the_limits():
    text = job("{spec.env.A: [.x., a--b, '#', ü, a/b]}", {"nameSuffix": "hash"})

    jobs = rendered(text).jobs

    assert all(DNS_1123.match(part.job.name) for part in jobs)
    assert all(re.search("-[a-z0-9]{8}$", part.job.name) for part in jobs)
    assert all(part.job.part_of == "bert" for part in jobs)


def test_labels_and_an_annotation_say_the_values():
    text = job(
        "{args.lr: [1e-4], spec.env.MODEL: [a/b]}",
        {"labels": {"team": "a"}, "annotations": {"b": "c"}},
    )
    (part,) = rendered(text).jobs

    for item in part.objects:
        labels, annotations = (item["metadata"][key] for key in ("labels", "annotations"))
        assert labels["app.kubernetes.io/part-of"] == "bert"
        assert labels["matrix.mlgen.dev/lr"] == "1e-4"
        assert labels["matrix.mlgen.dev/MODEL"] == "a-b"
        assert labels["team"] == "a"
        assert annotations["b"] == "c"
        assert json.loads(annotations["mlgen.dev/matrix"]) == {
            "args.lr": "1e-4",
            "spec.env.MODEL": "a/b",
        }


def test_addresses_in_the_job_file_lead_to_the_own_replicas():
    text = job("{args.lr: [1, 2]}", args=["--lr", "0", "--store", "bert-worker-0.bert:6379"])

    for part in rendered(text).jobs:
        own = part.job.name
        assert container(part)["args"][-1] == f"{own}-worker-0.{own}:6379"


def test_combinations_share_claims():
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    text = job(
        "{args.lr: [1, 2, 3]}",
        volumes={"data": {"mountPath": "/data", "pvc": "data"}},
        claims={"data": claim},
    )

    result = rendered(text)
    claims = [item for item in result.objects if item["kind"] == "PersistentVolumeClaim"]

    (metadata,) = (item["metadata"] for item in claims)
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "bert"
    assert not {"app.kubernetes.io/instance", "matrix.mlgen.dev/lr"} & metadata["labels"].keys()
    assert "annotations" not in metadata
    assert not [need for part in result.jobs for need in part.prerequisites]


def test_combinations_cannot_share_a_claim_with_different_values():
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    text = job(
        "{spec.claims.data.resources.requests.storage: [1Gi, 2Gi]}",
        volumes={"data": {"mountPath": "/data", "pvc": "data"}},
        claims={"data": claim},
    )

    assert "PersistentVolumeClaim data would be rendered twice" in error(text)


@pytest.mark.parametrize(
    ("matrix", "folder", "fields", "count"),
    [
        ("{args.lr: [1, 2]}", "/ckpt/bert", {}, 1),
        ("{args.lr: [1, 2]}", "/ckpt/$(RUN)", {"env": {"RUN": RUN}}, 0),
        ("{args.lr: [1, 2]}", "/ckpt", {"env": {"RUN": RUN}}, 0),  # the program may use RUN
        ("{args.lr: [1, 2]}", "/tmp/bert", {}, 0),
        ("{args.out: [/ckpt/a, /ckpt/b]}", "/ckpt", {}, 0),
        ("{spec.volumes.ckpt.subPath: [a, b]}", "/ckpt", {}, 0),
        ("{spec.volumes.ckpt.pvc: [a, b]}", "/ckpt", {}, 0),
    ],
)
def test_combinations_that_write_to_the_same_directory(matrix, folder, fields, count):
    volumes = {"ckpt": {"mountPath": "/ckpt", "pvc": "ckpt"}}
    result = rendered(job(matrix, args=["--lr=0", "--out", folder], volumes=volumes, **fields))

    found = [(p.path, p.message) for p in result.problems if p.code == "volume"]
    message = f"2 combinations of the matrix write to {folder}"
    assert found == [(("spec", "args", 1), message)] * count


# Errors.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("args.lr", 'expected path=[value, …], but there is no "="'),
        ("args.lr=1e-4,1e-5", "expected a list: --matrix 'args.lr=[1e-4,1e-5]'"),
        ("args.lr=[]", "args.lr has no values"),
        ("args.lr=[~]", 'expected a value for args.lr, got nothing; write ""'),
        ("args.lr=[1, 2, '1']", "args.lr: duplicate value 1"),
        ("a..b=[1]", '"a..b" is not a path such as spec.roles.worker.args[0]'),
        ("metadata.name=[a]", "metadata.name cannot be set"),
        (
            "spec.resources.nvidia.com/gpu=[1]",
            r"with a backslash: spec.resources.nvidia\.com/gpu",
        ),
    ],
)
def test_a_malformed_option(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


def test_a_problem_of_all_combinations_is_reported_once():
    text = job("{args.lr: [1, 2, 3]}", comand=["x"])

    assert error(text).startswith('job.yaml:10:3: spec.comand: unknown field "comand"')


def test_a_flag_that_is_not_clear_has_the_place_of_the_value():
    text = job("{args.lr: [1, 2]}", args=["--lr", "1", "--lr=2"])

    assert error(text).startswith("job.yaml:10:22: args.lr: the flag lr occurs at")
    assert error(job(args=["--lr"]), "args.lr=[1, 2]").startswith("--matrix: args.lr: the flag at")


def test_too_many_combinations_are_refused_at_once():
    lists = [f"args.a{n}=[{', '.join(map(str, range(100)))}]" for n in range(4)]
    start = time.monotonic()

    message = error(job(), *lists)

    assert message == (
        "--matrix: the matrix has 100000000 combinations; at most 1000 are rendered;"
        " use fewer values [too-large]"
    )
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            f"{{include: {[{'args.lr': number} for number in range(1001)]}}}",
            "the matrix has 1001 combinations; at most 1000 are rendered",
        ),
        (
            f"{{spec.env.A: {[*map(str, range(1000))]}, include: [{{spec.env.A: b}}]}}",
            "the matrix has 1001 combinations; at most 1000 are rendered",
        ),
        (
            "{" + ", ".join(f"args.a{number}: [1]" for number in range(101)) + "}",
            "sets 101 fields at a time; at most 100 are possible",
        ),
        (
            f"{{spec.env.A: [{'x' * 70_000}], spec.env.B: {[*map(str, range(1000))]}}}",
            "values of all combinations have 66 MiB; the limit is 64 MiB; use fewer or shorter",
        ),
    ],
)
def test_a_matrix_that_is_too_large_is_refused_at_once(matrix, message):
    assert message in error(job(matrix))


@pytest.mark.slow
def test_combinations_with_errors_are_not_all_checked():
    matrix = f"{{spec.env.A: {[*map(str, range(100))]}}}"
    text = job(matrix).replace("kind: TrainingJob", "kind: TrainingJob\nx: " + "y" * 500_000)

    with pytest.raises(MlgenError) as caught:
        rendered(text)

    codes = [problem.code for problem in caught.value.problems]
    assert sorted(codes) == ["too-large", "unknown-field"]


def test_a_value_that_is_too_long_for_a_label_is_cut_in_it():
    path = "/data/" + "a" * 70
    (first, second) = rendered(job(f"{{spec.env.DATA: [{path}, {path}b]}}")).jobs

    labels = [each.job.labels["matrix.mlgen.dev/DATA"] for each in (first, second)]
    assert labels[0] != labels[1]
    assert all(re.fullmatch(r"data-a{49}-\w{8}", label) for label in labels)


def test_combinations_of_two_files_that_have_one_name_collide():
    texts = [Text(name, job("{args.lr: [1]}")) for name in ("a.yaml", "b.yaml")]

    with pytest.raises(MlgenError, match="would be rendered twice"):
        pipeline.render(texts, Options())


@pytest.mark.parametrize("metadata", ["[]", "{name: [a]}", "{name: bert, labels: 3}"])
def test_a_job_file_that_is_invalid_elsewhere_is_checked(metadata):
    text = job("{args.lr: [1, 2]}").replace('{"name": "bert"}', metadata)

    assert "[wrong-type]" in error(text)


@pytest.mark.parametrize("spec", ["[]", "text"])
def test_a_spec_that_is_no_mapping_is_checked(spec):
    text = f"{HEAD}metadata: {{name: bert}}\nspec: {spec}\n"

    assert "[wrong-type]" in error(text, "args.lr=[1]")


# Commands.


def run(*words, stdin=None, env=None):
    return CliRunner().invoke(main, [*map(str, words)], stdin, env, catch_exceptions=False)


def test_the_commands_that_render_have_the_option(tmp_path, monkeypatch):
    (tmp_path / "job.yaml").write_text(job())
    monkeypatch.chdir(tmp_path)

    output = run("render", "job.yaml", "--matrix", "args.lr=[1e-4, 1e-5]").stdout
    valid = run("validate", "job.yaml", "--matrix", "args.lr=[1e-4, 1e-5]")

    assert "--matrix" in run("render", "job.yaml", "--matrix", "x").stderr
    assert len(re.findall("^kind: Job$", output, re.MULTILINE)) == 2
    assert len(re.findall("valid", valid.stdout)) == 2


def test_tools_render_a_matrix_in_a_job_file(tmp_path, monkeypatch):
    text = job("{args.lr: [1e-4, 1e-5]}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(text)
    items = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
    items["items"] = [load(text) | {"spec": SPEC | {"matrix": {"args.lr": ["a", "b"]}}}]

    by_helm = run("helm-post-render", stdin=text)
    by_kustomize = run("krm", stdin=json.dumps(items))
    by_argocd = run("argocd", "generate", env={"ARGOCD_APP_NAME": "a"})

    for output in (by_helm.stdout, by_argocd.stdout):
        jobs = [item["metadata"]["name"] for item in load_all(output) if item["kind"] == "Job"]
        assert jobs == ["bert-lr-1e-4-worker", "bert-lr-1e-5-worker"]
    (listed,) = load_all(by_kustomize.stdout)
    jobs = [item["metadata"]["name"] for item in listed["items"] if item["kind"] == "Job"]
    assert jobs == ["bert-lr-a-worker", "bert-lr-b-worker"]


def test_verify_keeps_combinations_apart(tmp_path):
    """Combinations share the labels that select the status of a job."""
    text = job(
        "{args.lr: [1, 2]}",
        framework="generic",
        command=["a"],
        roles={"worker": {}, "server": {"restartPolicy": "Always"}},
        runPolicy={"cleanPodPolicy": "All"},
    )
    (tmp_path / "job.yaml").write_text(text)
    (tmp_path / "out.yaml").write_text(run("render", tmp_path / "job.yaml").stdout)

    done = run("verify", tmp_path / "out.yaml")

    assert done.exit_code == 0, done.output
    assert re.findall(r"(bert\S+): verified", done.stdout) == ["bert-lr-1", "bert-lr-2"]
    assert "ConfigMap" in {item["kind"] for item in load_all((tmp_path / "out.yaml").read_text())}


def test_diff_does_not_take_one_combination_for_another(tmp_path):
    (tmp_path / "old.yaml").write_text(job("{args.lr: [1, 2]}"))
    (tmp_path / "new.yaml").write_text(job("{args.lr: [2, 3]}"))

    done = run("diff", tmp_path / "old.yaml", tmp_path / "new.yaml")

    assert "job bert-lr-3: new\n" in done.stdout
    assert "renamed" not in done.stdout
    assert "bert-lr-2" not in done.stdout


def test_a_gitops_tool_recreates_the_jobs_of_a_changed_combination():
    """Its name contains no hash of its pods."""
    (part,) = rendered(job("{args.lr: [1]}"), target="argocd").jobs

    assert workload(part)["spec"]["template"]["metadata"]["labels"]["mlgen.dev/set"]
