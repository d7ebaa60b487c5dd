"""`mlgen init`: its job files, its questions, and its errors."""

import json
import os
import pty
import re
import select
import sys

import pytest
from click.testing import CliRunner
from support import load

import mlgen
from mlgen import frameworks, scaffold
from mlgen.cli import main
from mlgen.scaffold import Choices

NAMES = frameworks.names()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run `mlgen init` in an empty folder, without a terminal."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(main, ["init", *arguments], catch_exceptions=False)

    return run


def with_every_field(text):
    """Uncomment all fields in a job file."""
    return re.sub(r"(?m)^( +)#(?=[^ ]|  )", r"\1", text)


KNOWN = {"elasticdl": ["rights"]}
"""Warnings that a framework cannot avoid."""


def codes(result):
    return [problem.code for problem in result.warnings]


@pytest.mark.parametrize(("replicas", "gpus"), [pytest.param(1, 0, marks=pytest.mark.slow), (2, 8)])
@pytest.mark.parametrize("name", NAMES)
def test_a_job_file_of_every_framework_renders_without_warnings(name, replicas, gpus):
    text = scaffold.job_file(Choices(name, "example/bert:2", "bert", replicas, gpus), "job.yaml")
    every = with_every_field(text)

    for job_file in (text, every):
        result = mlgen.validate(job_file)
        assert codes(result) == KNOWN.get(name, [])
        amounts = [
            int(container["resources"]["limits"]["nvidia.com/gpu"])
            for item in result.objects
            if "template" in item.get("spec", {})
            for container in item["spec"]["template"]["spec"]["containers"]
            if "nvidia.com/gpu" in container.get("resources", {}).get("limits", {})
        ]
        assert set(amounts) <= {gpus}
    assert "cpu" in load(every)["spec"]["resources"]
    assert {"shmSize", "runPolicy"} <= set(load(every)["spec"])


@pytest.mark.parametrize("name", ["pytorch", "tensorflow", "horovod"])
def test_a_job_file_reads_well(name, manifest):
    choices = Choices(name, "example/bert:2", "bert", 2, 8, namespace="nlp", schema=True)

    assert scaffold.job_file(choices, "job.yaml") == manifest


def test_an_example_of_every_framework_renders():
    for name in NAMES:
        text = scaffold.example(name)

        assert codes(mlgen.validate(text)) == KNOWN.get(name, [])
        assert "#" not in text


def test_the_next_steps_contain_the_command_for_a_prerequisite(run):
    result = run("deepspeed", "--image", "example/bert:2", "--replicas", "2")

    assert "next:\n  mlgen ssh-secret bert-ssh | kubectl apply -f -\n" in result.stderr


def test_two_nodes_of_eight_gpus_are_right_at_the_first_try(run, tmp_path):
    result = run("pytorch", "--image", "example/bert:2", "--replicas", "2", "--gpus", "8")

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "wrote job.yaml and .mlgen/job.schema.json; next:",
        "  mlgen validate job.yaml",
        "  mlgen render job.yaml | kubectl apply -f -",
    ]
    (job,) = [item for item in mlgen.render(tmp_path) if item["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (job["spec"]["completions"], container["command"]) == (2, ["torchrun", "train.py"])
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("2", "8")


def test_editors_find_the_schema(run, tmp_path):
    run("jax", "--image", "example/gemma:1", "-o", "gemma.yaml")

    first = (tmp_path / "gemma.yaml").read_text().splitlines()[0]
    path = tmp_path / first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(path.read_text())["title"] == "TrainingJob"
    assert run("mpi", "--image", "example/pi:1").exit_code == 0  # the schema may already exist


def test_standard_output_has_the_job_file_alone(run, tmp_path):
    result = run("ray", "--image", "example/tune:1", "--name", "tune", "-o", "-")

    assert (result.exit_code, result.stderr) == (0, "")
    assert load(result.stdout)["metadata"] == {"name": "tune"}
    assert "$schema" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_options_are_in_the_file(run):
    options = ["--namespace", "nlp", "--gpus", "4", "--gpu-resource", "amd.com/gpu"]

    job = load(run("jax", "--image", "a/b:1", "-o", "-", *options).stdout)

    assert job["metadata"] == {"name": "b", "namespace": "nlp"}
    assert job["spec"]["resources"] == {"amd.com/gpu": 4}


def test_a_file_is_only_overwritten_by_force(run, tmp_path):
    (tmp_path / "job.yaml").write_text("mine\n")
    arguments = ("jax", "--image", "a:1", "--no-schema")

    result = run(*arguments)

    assert result.exit_code == 2
    text = "job.yaml already exists; choose another file with --output, or add --force"
    assert text in result.stderr
    assert (tmp_path / "job.yaml").read_text() == "mine\n"
    assert run(*arguments, "--force", "--quiet").stderr == ""
    assert list(tmp_path.iterdir()) == [tmp_path / "job.yaml"]
    assert "$schema" not in (tmp_path / "job.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "FRAMEWORK is missing; use one of: deepspeed, "),
        (["jax"], 2, "--image is missing; for example, --image example/train:1"),
        (["torch", "--image", "a"], 2, 'unknown framework "torch"; did you mean "pytorch"?'),
        (["jax", "--image", "A:1"], 1, 'spec.image: "A:1" is not a valid image reference; use'),
        (["jax", "--image", "a", "--name", "B"], 1, 'metadata.name: "B" is not a valid name'),
        (["jax", "--image", "a", "-o", "no/job.yaml"], 1, "no/job.yaml: cannot be written: No su"),
    ],
)
def test_what_is_missing_or_wrong_is_an_error(arguments, status, message, run, tmp_path):
    result = run(*arguments)

    assert result.exit_code == status
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_schema_that_cannot_be_written_is_an_error(run, tmp_path):
    (tmp_path / ".mlgen").write_text("")

    result = run("jax", "--image", "a:1")

    assert result.exit_code == 1
    assert ".mlgen: File exists; use --no-schema" in result.stderr


def test_the_name_of_a_job_is_that_of_its_image():
    rows = [
        ("registry.example:5000/nlp/Bert_L:2", "bert-l"),
        ("example/7b@sha256:0", "b"),
        ("example/42:1", "train"),
        ("a" * 70, "a" * 40),
    ]

    assert [scaffold.job_name(image) for image, _ in rows] == [name for _, name in rows]


def test_questions_are_asked_on_a_terminal(tmp_path):
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "mlgen", "init"])
    shown = ""
    answers = {
        "Framework": "jax", "Image": "example/gemma:1", "Replicas": "", "GPUs": "4",
    }  # fmt: skip
    while select.select([terminal], [], [], 20)[0]:
        try:
            shown += os.read(terminal, 4096).decode()
        except OSError:  # it has ended
            break
        question = next(iter(answers), None)
        if question and re.search(rf"^{question}.*: $", shown, re.MULTILINE):
            os.write(terminal, f"{answers.pop(question)}\n".encode())
    os.waitpid(pid, 0)

    assert "Replicas that compute [2]: " in shown
    job = load((tmp_path / "job.yaml").read_text())
    assert job["metadata"]["name"] == "gemma"
    assert job["spec"]["roles"] == {"worker": {"replicas": 2}}
    assert job["spec"]["resources"] == {"nvidia.com/gpu": 4}


def test_the_folder_has_no_other_manifests(run, tmp_path):
    run("jax", "--image", "a:1")

    assert len(mlgen.validate(tmp_path).parts) == 1
