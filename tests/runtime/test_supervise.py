"""The loop: what is left over by the simulation."""

import ast
import json
import shutil
import signal
import subprocess
import sys
import threading
from random import Random

import pytest
from runtime.world import Client, World
from support import ROOT

from mlgen.runtime import api, plan, supervise
from mlgen.runtime.api import ApiError, Refused
from mlgen.runtime.supervise import Supervisor

PLAN = {
    "job": "mnist",
    "deciding": ["mnist-worker"],
    "workloads": [
        {"kind": "Job", "name": "mnist-worker", "role": "worker", "retryable": [137, 143]},
        {"kind": "StatefulSet", "name": "mnist-ps", "role": "ps", "toleratesFailure": True},
    ],
    "objects": [["Service", "mnist"]],
    "cleanPodPolicy": "All",
    "restartScope": ["worker"],
    "backoffLimit": 3,
    "order": [{"role": "worker", "until": "Ready", "of": "ps"}],
    "pendingSeconds": 60,
    "retryOom": True,
}


def test_the_plan_is_read():
    job = plan.load(json.dumps(PLAN), "uid")

    assert ("uid", ("mnist-worker",), 60, True) == (
        job.run, job.deciding, job.pending_seconds, job.retry_oom,
    )  # fmt: skip
    assert [item.tolerates_failure for item in job.workloads] == [False, True]
    assert [True, False] == [job.workloads[0].is_retryable(code) for code in (143, 1)]
    assert not job.workloads[1].is_retryable(143)
    assert job.order[0].of == "ps"
    assert ["mnist-worker"] == [item.name for item in job.gang]


def test_an_unknown_name_in_the_plan_is_an_error():
    with pytest.raises(TypeError, match="colour"):
        plan.load(json.dumps({**PLAN, "colour": 1}), "uid")


def test_jobs_are_watched_by_name_and_pods_by_label():
    assert [
        ("Job", {"fieldSelector": "metadata.name=mnist-worker"}),
        ("Pod", {"labelSelector": "mlgen.dev/job=mnist"}),
    ] == supervise.watches(plan.load(json.dumps(PLAN), "uid"))


def test_pods_are_read_only_where_the_rights_allow_it(world):
    job = plan.load(json.dumps({**PLAN, "pods": False, "workloads": PLAN["workloads"][:1]}), "r")
    world.list = None
    supervisor = Supervisor(job, Client(world, Random(1), 0.0, None), log=lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert [("Job", {"fieldSelector": "metadata.name=mnist-worker"})] == supervise.watches(job)


class Broken:
    def __init__(self, problem):
        self.problem = problem

    def get(self, *_):
        raise self.problem


def test_a_refusal_that_stays_ends_the_supervisor():
    lines = []
    supervisor = Supervisor(
        plan.load(json.dumps(PLAN), "r"), Broken(Refused("403: no")), log=lines.append
    )
    delays = [supervisor.step() for _ in range(30)]

    assert delays[:3] == [0.4, 0.8, 1.6]
    assert max(delays) == 30
    assert supervisor.exit_code == 200
    assert lines[0] == "retrying: 403: no"


def test_a_lost_api_server_is_waited_for():
    supervisor = Supervisor(
        plan.load(json.dumps(PLAN), "r"),
        Broken(ApiError("429", retry_after=40)),
        log=lambda _: None,
    )

    assert {40} == {supervisor.step() for _ in range(99)}
    assert supervisor.exit_code is None


@pytest.fixture
def world():
    world = World(Random(1))
    world.put("Job", "mnist-worker", spec={"completions": 1, "parallelism": 1})
    world.objects["Job", "mnist-worker"]["status"] = {
        "conditions": [{"type": "Complete", "status": "True"}]
    }
    return world


def test_a_status_that_is_missing_is_created(world):
    job = plan.load(json.dumps({**PLAN, "workloads": PLAN["workloads"][:1], "order": []}), "r")
    supervisor = Supervisor(job, Client(world, Random(1), 0.0, None), log=lambda _: None)

    while supervisor.exit_code is None:
        supervisor.step()

    assert "JobSucceeded" in world.get("ConfigMap", "mnist-status")["data"]["Succeeded"]
    assert ("Job", "mnist-worker") not in world.objects


@pytest.mark.parametrize(("exits", "code", "expected"), [("", 7, 0), ("1", 7, 7), ("", 200, 200)])
def test_main(monkeypatch, tmp_path, capsys, exits, code, expected):  # noqa: PLR0913, PLR0917
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    rung = threading.Event()

    class Fake:
        def watch(self, *_, **__):
            rung.set()
            yield "LISTED"

    class Fast(Supervisor):
        def step(self):
            assert rung.wait(5)
            self._log("step")
            if self._problems:
                self.exit_code = code
            self._problems += 1
            return 0.01

    monkeypatch.setattr(api, "in_cluster", lambda *_: Fake())
    monkeypatch.setattr(supervise, "Supervisor", Fast)
    monkeypatch.setattr(supervise, "GAP", 0.0)
    monkeypatch.setattr(signal, "signal", lambda *each: handlers.append(each[1]))
    handlers = []
    env = {
        "MLGEN_PLAN": str(tmp_path / "plan.json"),
        "MLGEN_RUN": "uid",
        "MLGEN_EXIT": exits,
        "KUBERNETES_SERVICE_HOST": "h",
        "KUBERNETES_SERVICE_PORT": "443",
    }

    assert expected == supervise.main(env)
    assert capsys.readouterr().out == "step\nstep\n"
    with pytest.raises(SystemExit, match="143"):
        handlers[0](15, None)


def test_the_api_server_of_the_cluster_is_reached_by_https(monkeypatch, tmp_path):
    (tmp_path / "namespace").write_text("team")
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(api, "ACCOUNT", tmp_path)
    monkeypatch.setattr(
        api.ssl,
        "create_default_context",
        lambda **_: api.ssl.SSLContext(api.ssl.PROTOCOL_TLS_CLIENT),
    )

    with pytest.raises(ApiError, match="refused"):
        api.in_cluster("127.0.0.1", "1").get("Job", "a")


def test_the_files_start_in_a_folder_of_their_own_without_packages(tmp_path):
    """As in the pod: mounted at /mlgen/runtime, with `/` as the working directory."""
    shutil.copytree(ROOT / "mlgen/runtime", tmp_path / "mlgen/runtime")
    command = [sys.executable, "-S", "-m", "mlgen.runtime.supervise"]

    run = subprocess.run(command, check=False, cwd=tmp_path, env={}, capture_output=True, text=True)

    assert "KeyError: 'MLGEN_PLAN'" in run.stderr


FILES = sorted((ROOT / "mlgen/runtime").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_code_needs_python_3_9_and_its_standard_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {getattr(node, "module", None) or node.names[0].name for node in imports}

    assert all(
        name.split(".")[0] in STANDARD
        or name.startswith("mlgen.runtime")
        or name == "mlgen.runtime"
        for name in names
    )


STANDARD = {
    "__future__", "calendar", "collections", "contextlib", "dataclasses", "http", "json", "os",
    "pathlib", "signal", "ssl", "sys", "threading", "time", "typing", "urllib",
}  # fmt: skip
