"""Calls of kubectl: its command line, and the meaning of its errors."""

import contextlib
import os
import stat
import time
from contextlib import closing

import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main
from mlgen.live import kubectl as module
from mlgen.live.kubectl import Kubectl, KubectlError, Outcome, parsed


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Replace kubectl with a shell script."""

    def program(text):
        file = tmp_path / "kubectl"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return tmp_path

    return program


def test_the_options_of_the_cluster_come_first(program):
    program('echo "$@"')
    kubectl = Kubectl(context="prod", kubeconfig="a b")

    assert (
        "--kubeconfig a b --context prod -n vision get pods --request-timeout=60s\n"
        == kubectl.text("get", "pods", namespace="vision")
    )
    assert ["kubectl", "get", "pods"] == Kubectl().command("get", "pods")


def test_stdin_is_that_of_the_caller_or_empty(program):
    program("cat")

    assert "a" == Kubectl().text("apply", stdin="a")
    assert "" == Kubectl().text("apply")


@pytest.mark.parametrize(
    ("stderr", "cause", "hint"),
    [
        (
            "The connection to the server localhost:8080 was refused - did you specify the host?",
            "unreachable",
            "check the context: kubectl config current-context",
        ),
        (
            "Unable to connect to the server: dial tcp: lookup k8s.example: no such host",
            "unreachable",
            "check the context: kubectl config current-context",
        ),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle",
            "unreachable",
            "check the context: kubectl config current-context",
        ),
        (
            'Error from server (Forbidden): jobs.batch is forbidden: User "a" cannot list it',
            "forbidden",
            "ask your administrator for permission, or use another context",
        ),
        ('error: context "x" does not exist', "other", "fix the cause"),
        ("", "other", "fix the cause"),
    ],
)
def test_why_kubectl_has_failed(program, stderr, cause, hint):
    folder = program('cat "${0%/*}/stderr" >&2; exit 1')
    (folder / "stderr").write_text(f'E1122 08:22:53 memcache.go:265] "Unhandled Error"\n{stderr}')

    with pytest.raises(KubectlError) as raised:
        Kubectl().objects("get", "jobs")

    (problem,) = raised.value.problems
    assert (cause, hint, "kubectl") == (raised.value.cause, problem.hint, problem.code)
    assert stderr.removeprefix("error: ") in problem.message
    assert "memcache" not in problem.message or not stderr


def test_without_kubectl_the_hint_is_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    for read in (lambda: Kubectl().text("get"), lambda: next(Kubectl().lines("logs"))):
        with pytest.raises(KubectlError, match="install kubectl") as raised:
            read()
        assert "missing" == raised.value.cause


def test_kubectl_is_stopped_at_the_deadline(program, monkeypatch):
    program("exec sleep 600")
    monkeypatch.setattr(module, "LEAST", 0.05)

    with pytest.raises(KubectlError, match="does not respond") as raised:
        Kubectl(deadline=0.0).text("get")

    assert "unreachable" == raised.value.cause
    program("echo a")
    assert "a\n" == Kubectl(deadline=time.monotonic() + 600).text("get")


def test_wait_ends_in_time_if_the_api_server_never_responds(program, monkeypatch):
    program("exec sleep 600")
    monkeypatch.setattr(module, "LEAST", 0.05)
    words = ["wait", str(ROOT / "fixtures/pytorch-static.yaml"), "--timeout", "0s"]

    result = CliRunner().invoke(main, words, catch_exceptions=False)

    assert 124 == result.exit_code
    assert result.stderr == "the API server does not respond\ntimed out; not finished: bert\n"


def test_lines_come_while_kubectl_runs(program, monkeypatch):
    program("echo a; exec sleep 5")
    monkeypatch.setattr(module, "SILENCE", 0.05)

    with closing(Kubectl().lines("logs")) as lines:
        found = [next(line for line in lines if line), next(lines)]

    assert ["a", None] == found


class ReaderError(Exception):
    pass


@pytest.mark.parametrize("error", [None, ReaderError, KeyboardInterrupt])
def test_kubectl_ends_with_its_reader(program, error):
    folder = program("trap 'kill $!; >\"${0%/*}/ended\"; exit' TERM; sleep 5 & echo a; wait")

    suppressed = contextlib.suppress(ReaderError, KeyboardInterrupt)
    with suppressed, closing(Kubectl().lines("logs")) as lines:
        assert "a" == next(lines)
        if error:
            raise error

    assert (folder / "ended").exists()


def test_lines_end_with_the_error_of_kubectl(program):
    program("echo a; echo no >&2; exit 1")

    lines = Kubectl().lines("logs")

    assert "a" == next(lines)
    with pytest.raises(KubectlError, match="kubectl failed: no"):
        list(lines)


def test_lines_end_with_kubectl(program):
    program("printf 'a\\nb'")

    assert ["a", "b"] == list(Kubectl().lines("logs"))


def test_objects_of_all_forms():
    item = '{"kind": "Pod"}'

    assert [] == parsed(" ")
    assert [{"kind": "Pod"}] == parsed(item)
    assert [{"kind": "Pod"}] * 2 == parsed(f'{{"kind": "List", "items": [{item}, {item}]}}')
    assert [{"kind": "Pod"}] * 2 == parsed(f"{item}\n{item}\n")


def test_an_error_without_other_lines_is_that_of_the_client_library():
    assert "E1122 x" == Outcome(1, "", "E1122 x").message
