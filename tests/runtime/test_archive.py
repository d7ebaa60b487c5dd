"""The archive with the program, in a process of its own, on each Python that a pod may have."""

import json
import os
import subprocess
import sys
import threading
from itertools import combinations
from types import SimpleNamespace

import archives
import pytest
import yaml
from runtime.test_api import account, answer, certificates, port, server  # noqa: F401 - fixtures
from support import ROOT, free_ports, missing
from test_pythons import interpreter

from mlgen.objects.supervisor import FEATURES, archive
from mlgen.runtime import supervise

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
SETS = [
    pytest.param(each, marks=[] if len(each) == len(FEATURES) else pytest.mark.slow)
    for number in range(len(FEATURES) + 1)
    for each in combinations(FEATURES, number)
]
"""The sets of the fields of a plan that add modules to the archive."""

WORKLOADS = [{"kind": "Job", "name": "mnist-worker", "role": "worker", "retryable": "any"}]
PLAN = {"job": "mnist", "deciding": ["mnist-worker"], "workloads": WORKLOADS}
GANG = {**PLAN, "restartScope": ["worker"], "backoffLimit": 1}
NAMES = {"in_place": "inPlace", "keep_last_log": "keepLastLog"}

(CONTAINER, CLEAN) = (
    item["container"]
    for item in yaml.safe_load((ROOT / "argo/workflow-template.yaml").read_text())["spec"][
        "templates"
    ]
    if "container" in item
)


@pytest.fixture(
    params=["", *(pytest.param(version, marks=pytest.mark.pythons) for version in VERSIONS)]
)
def python(request):
    """The Python of the tests, and in their tier, each one that a pod may have."""
    program = interpreter(request.param) if request.param else sys.executable
    if not program:
        missing(f"there is no Python {request.param} here")
    return program


def run(python, folder, *arguments, **env):
    """Return the exit code and stderr of a Python without other packages than its own."""
    command = [python, "-S", *map(str, arguments)]
    done = subprocess.run(
        command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def written(tmp_path):
    """Function that writes an archive, and returns its path."""

    def write(plan=(), **options):
        path = tmp_path / "supervisor.pyz"
        path.write_bytes(archive(archives.plan(plan), **options))
        return path

    return write


@pytest.mark.parametrize(("step", "name"), [(False, "supervise"), (True, "step")])
def test_the_archive_starts_alone_and_a_traceback_shows_its_lines(python, written, step, name):
    path = written(step=step)
    lines = (ROOT / f"mlgen/runtime/{name}.py").read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if "plan.load(file.read_text(" in line]

    env = dict.fromkeys(["MLGEN_RUN", "WORKFLOW_UID", "NODE"], "a")

    code, _, problem = run(python, "/", path, **env)

    assert code == 200
    assert problem.endswith("No such file or directory: '/mlgen/plan.json'\n")
    shown = f'  File "mlgen/runtime/{name}.py", line {number}, in main\n    '
    assert shown + lines[number - 1].strip() + "\n" in problem


def test_an_exception_in_another_module_shows_its_line(python, written):
    path = written()
    lines = (ROOT / "mlgen/runtime/gang.py").read_text().splitlines()
    number = (
        lines.index("def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:") + 3
    )
    code = """
import traceback
from mlgen.runtime import gang
try: gang.advance(None, None, None, 0.0)
except AttributeError: traceback.print_exc()
"""

    _, _, problem = run(python, "/", "-c", archives.LOADER + code, path)

    shown = f'  File "mlgen/runtime/gang.py", line {number}, in advance\n    '
    assert shown + lines[number - 1].strip() + "\n" in problem


@pytest.mark.parametrize("step", [False, True], ids=["supervisor", "step"])
@pytest.mark.parametrize("used", SETS, ids="-".join)
def test_each_archive_can_import_all_its_modules(python, written, used, step):
    path = written(used, step=step)
    code = 'import importlib\nfor each in source.paths: importlib.import_module(each)\nprint("all")'

    assert run(python, "/", "-c", archives.LOADER + code, path) == (0, "all\n", "")


@pytest.mark.parametrize("used", SETS, ids="-".join)
def test_an_archive_has_the_features_of_its_plan_alone(used):
    every = {path.stem for path in (ROOT / "mlgen/runtime").glob("[!_]*.py")}
    of_step = {"step", "attempt"}
    needed = {
        "port": {"server"},
        "in_place": {"gate", "in_place"},
        "progress": {"progress", "reports", "server", "stall"},
        "keep_last_log": {"last_log"},
    }
    always = every.difference(of_step, *needed.values())
    plan = archives.plan(used)

    found, step = archives.modules(archive(plan)), archives.modules(archive(plan, step=True))

    assert found == always.union(*(needed[name] for name in used))
    assert step == found | of_step


STEP = {"WORKFLOW": "w", "WORKFLOW_UID": "u", "NODE": "n", "RETRIES": "0"}
STEP |= {"BACKOFF_LIMIT": "0", "BACKOFF_SECONDS": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("used", SETS, ids="-".join)
def test_each_supervisor_watches_and_asks(python, written, served, account, used):  # noqa: F811
    """It ends because the namespace is being deleted, as soon as all its threads have started."""
    (own,) = free_ports(1)
    values = dict.fromkeys(FEATURES, True) | {"port": own}
    path = written(used)
    plan = path.with_name("plan.json")
    plan.write_text(json.dumps(GANG | {NAMES.get(name, name): values[name] for name in used}))
    begin = f"from mlgen.runtime import api\napi.ACCOUNT = pathlib.Path({str(account)!r})\n"
    env = {"MLGEN_PLAN": str(plan), "MLGEN_RUN": "uid", **served.address}

    code, _, problem = run(python, "/", "-c", archives.LOADER + begin + archives.START, path, **env)

    assert (code, "Traceback" in problem) == (200, False)
    assert {"configmaps/mnist.status", "pods", "jobs", "events"} == served.asked


@pytest.fixture
def served(server, port):  # noqa: F811
    """An API server that refuses all requests. Its first answer waits for the watches."""
    asked, watched = set(), threading.Event()

    def refuse(handler):
        name = handler.path.partition("?")[0].partition("/team/")[2]
        asked.add(name)
        if {"pods", "jobs"} <= asked:
            watched.set()
        if name.startswith("configmaps"):
            watched.wait(30)
        message = "no" if name == "events" else supervise.TERMINATING
        answer({"message": message}, 403)(handler)

    server.answers.extend([refuse] * 99)
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return SimpleNamespace(
        address=dict(zip(names, ("127.0.0.1", str(port)), strict=True)), asked=asked
    )


LIBRARIES = ["pytest", "pytest-timeout", "pytest-xdist", "pyyaml"]
OTHERS = "not standard_library and not descriptors and not right and not identifiers"
"""The tests that need the rest of mlgen, a newer Python, or memory of the checkout's modules."""


@pytest.mark.pythons
@pytest.mark.parametrize("version", VERSIONS)
def test_the_tests_of_the_program_pass_with_the_archive(version, written, tmp_path):
    program = interpreter(version)
    if not program:
        missing(f"there is no Python {version} here")
    path = written(FEATURES, step=True)
    subprocess.run([program, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", *LIBRARIES], check=True)
    files = [file for file in TESTS.glob("runtime/test_*.py") if file.stem != "test_archive"]

    assert_pass_with(path, python, "-n", "2", *files)


def test_the_tests_of_the_step_pass_with_the_modules_of_its_archive_alone(written):
    path = written(step=True)

    assert_pass_with(path, sys.executable, "-n", "0", TESTS / "runtime/test_step.py")


TESTS = ROOT / "tests"


def assert_pass_with(path, python, *words):
    """Assert that tests pass with the modules in an archive, and with no other ones of mlgen."""
    plugins = ["-p", "runtime.archived", "-p", "no:cacheprovider", "--noconftest"]
    options = ["-c", os.devnull, "--rootdir", TESTS, "--import-mode=importlib", "-k", OTHERS]
    options += ["-m", "not slow and not pythons"]
    env = {**os.environ, "MLGEN_ARCHIVE": str(path), "PYTHONPATH": str(TESTS)}
    command = [python, "-m", "pytest", "-q", *plugins, *options, *words]

    done = subprocess.run(
        command, check=False, cwd=path.parent, env=env, capture_output=True, text=True
    )

    assert (done.returncode, " passed" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize("container", [CONTAINER, CLEAN], ids=["attempt", "clean"])
def test_the_template_of_argo_runs_the_archive(python, written, tmp_path, container):
    path = written(step=True)
    plan = tmp_path / "plan.json"
    plan.write_text("{")
    program, *arguments = container["args"]
    program = program.replace("/mlgen/runtime/", f"{tmp_path}/")
    env = {"MLGEN_PLAN": str(plan), **STEP}

    code, _, problem = run(python, "/", "-c", program, *arguments, **env)

    assert (code, 'File "mlgen/runtime/step.py"' in problem) == (200, True)
    assert "json.decoder.JSONDecodeError" in problem
    path.unlink()
    code, _, problem = run(python, "/", "-c", program, *arguments, **env)
    assert (code, "No module named 'mlgen'" in problem) == (1, True)
    plan.unlink()
    program = program.replace("/dev/termination-log", f"{tmp_path}/log")
    code, _, problem = run(python, "/", "-c", program, *arguments, MANIFESTS="m", **env)
    reason = "training permanent: ConfigMap m not found, or not printed by mlgen argo"
    assert (code, problem, (tmp_path / "log").read_text()) == (1, f"{reason}\n", reason)


def test_the_template_of_argo_passes_the_status_of_the_step(python, tmp_path):
    """As the program in an image, and in the ConfigMap of an earlier version."""
    (tmp_path / "mlgen/runtime").mkdir(parents=True)
    (tmp_path / "mlgen/runtime/step.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    program, _ = CLEAN["args"]
    plan = str(ROOT / "pyproject.toml")  # any file

    found = run(python, tmp_path, "-c", program, "Failed", MLGEN_PLAN=plan)

    assert found == (0, "__main__ ['Failed']\n", "")
