"""The pre-commit hooks and the GitHub action, run as pre-commit and GitHub run them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from support import ROOT, load, missing

pytestmark = pytest.mark.slow  # each test runs several programs

HOOKS = {hook["id"]: hook for hook in load((ROOT / ".pre-commit-hooks.yaml").read_text())}
FOLDER = ROOT / "integrations/github"
ACTION = load((FOLDER / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCRIPTS = [name for name, step in STEPS.items() if "run" in step]
INSTALL, CHECK = "Install the dependencies", "Check the manifests"
GUIDE = (ROOT / "docs/integrations/git.md").read_text()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a hook or an action, with mlgen and its packages."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = tmp_path_factory.mktemp("runner")
    (folder / "mlgen").symlink_to(Path(click.__file__).parents[1])
    return os.environ | {"PATH": path, "RUNNER_TEMP": str(folder)}


@pytest.fixture(scope="module")
def template(tmp_path_factory, environment):
    """A repository with a job, an invalid job, and fresh manifests of the first."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "jobs").mkdir()
    shutil.copy(ROOT / "fixtures/pytorch-static.yaml", folder / "jobs/bert.mlgen.yaml")
    shutil.copy(ROOT / "fixtures/invalid/unknown-role.yaml", folder / "bad.mlgen.yaml")
    for words in (["-n", "vision", "-o", "k8s/jobs/"], ["-o", "k8s/"]):
        command = ["mlgen", "render", "jobs", *words]
        subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def repository(template, tmp_path):
    """A copy of the repository for each test."""
    return shutil.copytree(template, tmp_path / "repository")


@pytest.fixture
def call(repository, environment):
    """Run a program in the repository; return its exit status and output, including stderr."""

    def call(*words, **variables):
        done = subprocess.run(
            words,
            cwd=repository,
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return call


@pytest.fixture
def hook(call):
    """Run a hook as pre-commit does: its entry, then args or files."""

    def hook(name, *words):
        return call(*shlex.split(HOOKS[name]["entry"]), *words)

    return hook


@pytest.fixture
def action(call):
    """Run the script of a step as the runner does: with the inputs in its env."""

    def action(step, env=(), **inputs):
        values = {name: value.get("default", "") for name, value in ACTION["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        variables = {
            name: re.sub(r"\$\{\{ inputs\.(\S+) }}", lambda match: values[match[1]], value)
            for name, value in STEPS[step].get("env", {}).items()
        }
        script = STEPS[step]["run"]
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return call(*bash, **{"GITHUB_ACTION_PATH": str(FOLDER)} | variables | dict(env))

    return action


def test_the_hook_for_job_files_reads_those_of_init(hook, call, repository):
    assert call("mlgen", "init", "pytorch", "--image=example/bert:2")[0] == 0
    (repository / "compose.yml").write_text("services: {web: {image: nginx}}\n")
    assert (0, "") == hook("mlgen-validate", "job.yaml", "compose.yml")

    file = repository / "job.yaml"
    file.write_text(file.read_text().replace("  worker:", "  workers:"))
    status, output = hook("mlgen-validate", "job.yaml")
    assert status == 1
    assert 'unknown role "workers"' in output


def test_the_hook_for_job_files_reports_an_invalid_one(hook):
    assert hook("mlgen-validate", "jobs/bert.mlgen.yaml")[0] == 0

    status, output = hook("mlgen-validate", "jobs/bert.mlgen.yaml", "bad.mlgen.yaml")
    assert status == 1
    assert output.startswith("bad.mlgen.yaml:8:5: ")


def test_the_hook_for_manifests_reports_a_missing_one(hook, repository):
    arguments = ["k8s/jobs", "jobs", "--namespace=vision"]
    assert (0, "") == hook("mlgen-check", *arguments)

    (repository / "k8s/jobs/vision_service_bert.yaml").unlink()
    status, output = hook("mlgen-check", *arguments)
    assert status == 3
    assert "+++ k8s/jobs/vision_service_bert.yaml\n" in output


@pytest.mark.parametrize("command", re.findall(r"^mlgen .*", GUIDE, re.MULTILINE))
def test_a_command_of_the_guide_works(command, call):
    assert (0, "") == call("bash", "-c", command)


def test_hooks_are_those_of_the_guide():
    (text,) = re.findall(r"```yaml\n(# \.pre-commit-config\.yaml\n.*?)```", GUIDE, re.DOTALL)
    (repository,) = load(text)["repos"]

    assert list(HOOKS) == [hook["id"] for hook in repository["hooks"]]


INPUTS = {"files": "jobs\n", "folder": "k8s/jobs", "arguments": "--namespace=vision\n"}


def test_fresh_manifests_pass(action):
    status, output = action(CHECK, **INPUTS)

    assert status == 0
    assert 2 == len(output.splitlines())


def test_stale_manifests_fail_with_the_command_that_updates_them(action, call, repository):
    file = repository / "k8s/jobs/vision_job_bert-rank.yaml"
    file.write_text(f"{file.read_text()} ::set-output name=x::y\n")

    status, output = action(CHECK, **INPUTS)

    first, *shown, last = output.splitlines()
    stop = next(i for i, row in enumerate(shown) if row == f"::{first.split('::')[2]}::")
    assert status == 3
    assert "- ::set-output name=x::y" in shown[:stop]
    assert [] == shown[stop + 1 :]
    assert last.startswith("::error title=Stale manifests::")
    assert (0, "") == call("bash", "-c", last.partition("result: ")[2])
    assert action(CHECK, **INPUTS)[0] == 0


def test_an_invalid_job_is_reported_and_is_not_a_difference(action):
    status, output = action(CHECK, files="jobs\nbad.mlgen.yaml", folder="k8s/jobs")

    rows = output.splitlines()
    end = rows.index(f"::{rows[0].split('::')[2]}::")
    assert (1, 1) == (status, end)
    assert rows[end + 1].startswith("::error file=bad.mlgen.yaml,line=8,col=5,title=")
    assert [True] * 2 == [row.startswith("::error file=") for row in rows[end + 1 :]]


def test_the_input_folder_is_required(action):
    status, output = action(CHECK, files="jobs", folder="")

    assert status not in (0, 3)
    assert "the input folder is required" in output


@pytest.mark.parametrize("name", ["files", "folder", "arguments"])
def test_inputs_are_never_run_as_code(name, action, repository):
    code = '$(touch made) `touch made` "; touch made; " *'

    action(CHECK, **INPUTS | {name: code})

    assert not (repository / "made").exists()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_contains_no_expression(name):
    """GitHub expands expressions within the script, where they would run as code."""
    assert "${{" not in STEPS[name]["run"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck_finds_nothing(name):
    beside = Path(sys.executable).parent / "shellcheck"
    shellcheck = str(beside) if beside.exists() else shutil.which("shellcheck")
    if not shellcheck:
        missing("there is no shellcheck")
    command = [shellcheck, "-s", "bash", "-"]
    script = STEPS[name]["run"]

    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout)


@pytest.fixture
def hostile(repository):
    """The repository with modules that report that they run. Return its PYTHONPATH and a check."""
    modules = ("click", "pip", "secrets", "sitecustomize", "usercustomize", "yaml", "pathlib")
    for name in (*modules, "mlgen/__init__", "mlgen/__main__"):
        file = repository / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(repository / 'ran')!r}, 'a').write('{name} ')\n")
    (repository / "pip.conf").write_text("[global]\nlog = ran\n")
    (repository / "setup.cfg").write_text("[install]\nprefix = /nonexistent\n")
    return {"PYTHONPATH": str(repository), "PIP_LOG": "ran", "PIP_CONFIG_FILE": "pip.conf"}


def test_the_action_runs_no_module_of_the_repository(action, hostile, repository, tmp_path):
    """The installation has no packages to download. test_pins.py tests its options."""
    pins = tmp_path / "action/.ci/pins"
    pins.mkdir(parents=True)
    (pins / "run.txt").write_text("")
    own = {"GITHUB_ACTION_PATH": f"{tmp_path}/action/integrations/github"}
    (tmp_path / "action/integrations/github").mkdir(parents=True)

    results = [action(INSTALL, hostile | own), action(CHECK, hostile, **INPUTS)]

    assert [0, 0] == [status for status, _ in results], results
    assert not (repository / "ran").exists()


def test_the_hooks_run_no_module_of_the_repository(call, hostile, repository):
    for name, words in (("mlgen-validate", ["jobs"]), ("mlgen-check", ["k8s", "jobs"])):
        assert (0, "") == call(*shlex.split(HOOKS[name]["entry"]), *words, **hostile)

    assert not (repository / "ran").exists()


def test_every_input_is_used_in_a_step():
    steps = yaml.safe_dump(ACTION["runs"])

    assert set(ACTION["inputs"]) == set(re.findall(r"\$\{\{ inputs\.([\w-]+) }}", steps))


def test_the_guide_passes_valid_inputs_to_the_action():
    (text,) = re.findall(r"```yaml\n(# \.github/workflows/\S+\n.*?)```", GUIDE, re.DOTALL)
    ((job),) = load(text)["jobs"].values()
    step = job["steps"][-1]

    assert step["uses"].partition("@")[0].endswith("/mlgen/integrations/github")
    required = {name for name, value in ACTION["inputs"].items() if value.get("required")}
    assert required <= set(step["with"]) <= set(ACTION["inputs"])
