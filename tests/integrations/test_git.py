"""What Git calls: the hooks of pre-commit, and the action of GitHub, run as those run them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
FOLDER = ROOT / "integrations/github"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCRIPTS = [name for name, step in STEPS.items() if "run" in step]
CHECK = "Check the manifests"
GUIDE = (ROOT / "docs/git.md").read_text()


@pytest.fixture(scope="module")
def environment():
    """As a hook or an action has it: mlgen is on the PATH, whatever Python the tests run in."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path}


@pytest.fixture(scope="module")
def template(tmp_path_factory, environment):
    """A user's repository with a job, another one that is wrong, and fresh manifests."""
    made = tmp_path_factory.mktemp("template")
    (made / "jobs").mkdir()
    shutil.copy(ROOT / "fixtures/pytorch-static.yaml", made / "jobs/bert.mlgen.yaml")
    shutil.copy(ROOT / "fixtures/invalid/unknown-role.yaml", made / "bad.mlgen.yaml")
    for words in (["-n", "vision", "-o", "k8s/jobs/"], ["-o", "k8s/"]):
        command = ["mlgen", "render", "jobs", *words]
        subprocess.run(command, cwd=made, env=environment, check=True)
    return made


@pytest.fixture
def repository(template, tmp_path):
    """One of them for each test."""
    return shutil.copytree(template, tmp_path / "repository")


@pytest.fixture
def call(repository, environment):
    """Run a program in the user's repository; return its exit status, and all that it says."""

    def call(*words, **given):
        done = subprocess.run(
            words,
            cwd=repository,
            env=environment | given,
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
    """Run a step's script as the runner does: with its env, in which inputs are filled in."""

    def action(step, env=(), **inputs):
        given = {name: value.get("default", "") for name, value in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        filled = {
            name: re.sub(r"\$\{\{ inputs\.(\S+) }}", lambda found: given[found[1]], value)
            for name, value in STEPS[step].get("env", {}).items()
        }
        script = STEPS[step]["run"]
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return call(*bash, GITHUB_ACTION_PATH=str(FOLDER), **filled, **dict(env))

    return action


def test_the_hook_for_job_files_runs_on_those_that_are_named_so():
    pattern = HOOKS["mlgen-validate"]["files"]
    files = ["a.mlgen.yaml", "b/c.mlgen.yml", "a.yaml", "mlgen.yaml", "a.mlgen.yaml.orig"]

    assert files[:2] == [name for name in files if re.search(pattern, name)]


def test_the_hook_for_job_files(hook):
    assert hook("mlgen-validate", "jobs/bert.mlgen.yaml")[0] == 0

    status, said = hook("mlgen-validate", "jobs/bert.mlgen.yaml", "bad.mlgen.yaml")
    assert status == 1
    assert said.startswith("bad.mlgen.yaml:8:5: ")


def test_the_hook_for_manifests(hook, repository):
    arguments = ["k8s/jobs", "jobs", "--namespace=vision"]
    assert (0, "") == hook("mlgen-check", *arguments)

    (repository / "k8s/jobs/vision_service_bert.yaml").unlink()
    status, said = hook("mlgen-check", *arguments)
    assert status == 3
    assert "+++ k8s/jobs/vision_service_bert.yaml\n" in said


@pytest.mark.parametrize("command", re.findall(r"^mlgen .*", GUIDE, re.MULTILINE))
def test_a_command_of_the_guide_works(command, call):
    assert (0, "") == call("bash", "-c", command)


def test_hooks_are_as_the_guide_says():
    (text,) = re.findall(r"```yaml\n(# \.pre-commit-config\.yaml\n.*?)```", GUIDE, re.DOTALL)
    (repository,) = yaml.safe_load(text)["repos"]

    assert list(HOOKS) == [hook["id"] for hook in repository["hooks"]]


INPUTS = {"files": "jobs\n", "folder": "k8s/jobs", "arguments": "--namespace=vision\n"}


def test_fresh_manifests_pass(action):
    status, said = action(CHECK, **INPUTS)

    assert status == 0
    assert 2 == len(said.splitlines())


def test_stale_manifests_fail_with_their_cure(action, call, repository):
    file = repository / "k8s/jobs/vision_job_bert-rank.yaml"
    file.write_text(f"{file.read_text()} ::set-output name=x::y\n")

    status, said = action(CHECK, **INPUTS)

    first, *shown, last = said.splitlines()
    stop = next(i for i, row in enumerate(shown) if row == f"::{first.split('::')[2]}::")
    assert status == 3
    assert "- ::set-output name=x::y" in shown[:stop]
    assert [] == shown[stop + 1 :]
    assert last.startswith("::error title=Stale manifests::")
    assert (0, "") == call("bash", "-c", last.partition("result: ")[2])
    assert action(CHECK, **INPUTS)[0] == 0


def test_what_is_wrong_is_said_and_is_no_difference(action):
    status, said = action(CHECK, files="jobs\nbad.mlgen.yaml", folder="k8s/jobs")

    assert status == 1
    assert "bad.mlgen.yaml:8:5: " in said
    assert "::error" not in said


def test_without_a_folder_nothing_is_compared(action):
    assert action(CHECK, files="jobs", folder="")[0] not in (0, 3)


@pytest.mark.parametrize("name", ["files", "folder", "arguments"])
def test_inputs_are_words_and_never_code(name, action, repository):
    code = '$(touch made) `touch made` "; touch made; " *'

    action(CHECK, **INPUTS | {name: code})

    assert not (repository / "made").exists()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_holds_no_expression(name):
    """What GitHub fills in becomes a part of the script; what stands in env does not."""
    assert "${{" not in STEPS[name]["run"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck_finds_nothing(name):
    beside = Path(sys.executable).parent / "shellcheck"
    shellcheck = str(beside) if beside.exists() else shutil.which("shellcheck")
    if not shellcheck:
        pytest.skip("there is no shellcheck")
    command = [shellcheck, "-s", "bash", "-"]
    script = STEPS[name]["run"]

    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout)


def test_the_action_installs_the_checkout_that_it_stands_in(action, repository):
    """As the runner lays it out; what pip makes of it, test_packaging.py says."""
    program = repository / "python"
    program.write_text('#!/bin/sh\nfor word; do :; done; cd "$word" && pwd -P\n')
    program.chmod(0o755)
    env = {"PATH": f"{repository}{os.pathsep}{os.environ['PATH']}"}

    assert (0, f"{ROOT}\n") == action("Install mlgen", env)


def test_every_input_reaches_a_step():
    steps = yaml.safe_dump(ACTION["runs"])

    assert set(ACTION["inputs"]) == set(re.findall(r"\$\{\{ inputs\.([\w-]+) }}", steps))


def test_the_action_is_called_as_the_guide_says():
    (text,) = re.findall(r"```yaml\n(# \.github/workflows/\S+\n.*?)```", GUIDE, re.DOTALL)
    ((job),) = yaml.safe_load(text)["jobs"].values()
    step = job["steps"][-1]

    assert step["uses"].partition("@")[0].endswith("/mlgen/integrations/github")
    required = {name for name, value in ACTION["inputs"].items() if value.get("required")}
    assert required <= set(step["with"]) <= set(ACTION["inputs"])
