"""Calls of kubectl: its command line, and the meaning of its errors."""

import contextlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support import ROOT

from mlgen.cli import main
from mlgen.live import kubectl as module
from mlgen.live.kubectl import ClusterError, Kubectl, Outcome, parsed


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Replace kubectl with a shell script, whose API server can be reached."""

    def program(text, contact="exit 0"):
        file = tmp_path / "kubectl"
        file.write_text(f'#!/bin/sh\ncase "$*" in *--raw*/version*) {contact}; esac\n{text}\n')
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

    with pytest.raises(ClusterError) as raised:
        Kubectl().objects("get", "jobs")

    (problem,) = raised.value.problems
    assert (cause, hint, "kubectl") == (raised.value.cause, problem.hint, problem.code)
    assert stderr.removeprefix("error: ") in problem.message
    assert "memcache" not in problem.message or not stderr


def test_without_kubectl_the_hint_is_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    for read in (lambda: Kubectl().text("get"), lambda: Kubectl().proxy("^/api").__enter__()):
        with pytest.raises(ClusterError, match="install kubectl") as raised:
            read()
        assert "missing" == raised.value.cause


def test_kubectl_is_stopped_at_the_deadline(program, monkeypatch):
    program("exec sleep 600")
    monkeypatch.setattr(module, "LEAST", 0.05)

    with pytest.raises(ClusterError, match="does not respond") as raised:
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


LIVE = [
    ("doctor", "JOB"),
    ("apply", "JOB"),
    ("list",),
    ("status", "JOB"),
    ("logs", "JOB"),
    ("wait", "JOB"),
    ("rerun", "bert"),
    ("delete", "JOB", "--yes"),
    ("diff", "JOB", "--live"),
]
"""Commands that contact the cluster."""

FLAGS = {
    "apply": ["--wait"],
    "logs": ["--follow", "--previous"],
    "status": ["--watch"],
    "delete": ["--claims"],
}
"""Their options that change what they request."""

EACH = [
    (*words, *more) for words in LIVE for more in ((), *zip(FLAGS.get(words[0], []), strict=True))
]


def test_all_commands_that_contact_the_cluster_are_known():
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    names = {
        name
        for name, command in commands.items()
        if {"--context", "--live"} & {option for item in command.params for option in item.opts}
    }

    assert names == {words[0] for words in LIVE}


@pytest.mark.parametrize("words", EACH, ids=" ".join)
@pytest.mark.parametrize(
    ("contact", "reason"),
    [
        pytest.param("exec sleep 600", "it does not respond", marks=pytest.mark.slow),
        (
            "echo 'Unable to connect to the server: dial tcp: i/o timeout' >&2; exit 1",
            "Unable to connect to the server: dial tcp: i/o timeout",
        ),
        (
            "echo 'Unable to connect to the server: getting credentials: exec: x' >&2; exit 1",
            "Unable to connect to the server: getting credentials: exec: x",
        ),
    ],
    ids=["silent", "unreachable", "credentials"],
)
def test_a_command_without_a_cluster_ends_at_once(program, monkeypatch, words, contact, reason):
    folder = program('echo "$@" >> "${0%/*}/calls"; echo https://a of the context b', contact)
    seconds = 0.5 if "sleep" in contact else 60.0  # a busy machine starts a program slowly
    monkeypatch.setattr(module, "CONTACT_SECONDS", seconds)
    monkeypatch.setattr(module, "CONFIG_SECONDS", 60.0)
    job = str(ROOT / "fixtures/pytorch-static.yaml")

    result = CliRunner().invoke(main, [job if word == "JOB" else word for word in words])

    text = f"cannot reach the API server https://a of the context b: {reason}"
    assert text in " ".join((result.stdout + result.stderr).split())
    assert 1 == result.exit_code
    (call,) = (folder / "calls").read_text().splitlines()
    assert call.startswith("config view --minify")


def test_without_a_context_the_hint_is_to_select_one(program):
    refused = "The connection to the server localhost:8080 was refused"
    question = " - did you specify the right host or port?"
    program("exit 1", f"echo '{refused}{question}' >&2; exit 1")

    with pytest.raises(ClusterError, match="set KUBECONFIG") as raised:
        Kubectl().text("get")

    assert raised.value.message == f"cannot reach the API server: {refused}"


@pytest.mark.parametrize(
    "answer",
    [
        "error: You must be logged in to the server (Unauthorized)",
        "Error from server (Forbidden): forbidden: User a cannot get path /version",
        "Error from server (ServiceUnavailable): the server is currently unable to handle",
    ],
)
def test_an_error_of_the_api_server_is_a_contact(program, answer):
    program("echo a", f"echo '{answer}' >&2; exit 1")

    assert "a\n" == Kubectl().text("get")


def test_what_was_connected_is_not_contacted_again(program):
    folder = program("echo a", 'echo >> "${0%/*}/contacts"; exit 0')
    kubectl = Kubectl()

    for _ in range(2):
        assert "a\n" == replace(kubectl, deadline=time.monotonic() + 600).text("get")

    assert "\n" == (folder / "contacts").read_text()


def test_wait_ends_in_time_before_the_first_contact(program, monkeypatch):
    program("echo https://a of the context b", "exec sleep 600")
    monkeypatch.setattr(module, "LEAST", 0.5)
    words = ["wait", str(ROOT / "fixtures/pytorch-static.yaml"), "--timeout", "0s"]

    result = CliRunner().invoke(main, words, catch_exceptions=False)

    assert 124 == result.exit_code
    assert "it does not respond\ntimed out; not finished: bert\n" in result.stderr


class ReaderError(Exception):
    pass


@pytest.mark.parametrize("error", [None, ReaderError, KeyboardInterrupt])
def test_kubectl_ends_with_its_reader(program, error):
    folder = program('trap \'kill $!; >"${0%/*}/ended"; exit\' TERM; sleep 5 & echo "$@"; wait')

    suppressed = contextlib.suppress(ReaderError, KeyboardInterrupt)
    with suppressed, Kubectl().proxy("^/api") as server:
        assert "api" == Path(server).name
        assert 0o700 == stat.S_IMODE(Path(server).parent.stat().st_mode)
        if error:
            raise error

    assert (folder / "ended").exists()


def test_a_server_that_does_not_start_says_why(program):
    program("echo no >&2; exit 1")

    with pytest.raises(ClusterError, match="kubectl failed: no"), Kubectl().proxy("^/api"):
        pass


def test_objects_of_all_forms():
    item = '{"kind": "Pod"}'

    assert [] == parsed(" ")
    assert [{"kind": "Pod"}] == parsed(item)
    assert [{"kind": "Pod"}] * 2 == parsed(f'{{"kind": "List", "items": [{item}, {item}]}}')
    assert [{"kind": "Pod"}] * 2 == parsed(f"{item}\n{item}\n")


@pytest.mark.parametrize(
    "text",
    [
        "<html>",
        "[1]",
        '"no object"',
        '{"kind": "List"}',
        '{"kind": "List", "items": null}',
        '{"kind": "List", "items": ["a"]}',
        "[" * 100_000,
    ],
)
def test_other_text_of_kubectl_is_a_problem(text):
    with pytest.raises(ClusterError, match="kubectl printed no objects: "):
        parsed(text)


def test_an_error_without_other_lines_is_that_of_the_client_library():
    assert "E1122 x" == Outcome(1, "", "E1122 x").message


def test_the_namespace_without_an_option(program, tmp_path, monkeypatch):
    file = tmp_path / "namespace"
    monkeypatch.setattr(module, "POD_NAMESPACE", file)
    program("echo vision")
    assert "vision" == Kubectl().default_namespace()
    program("echo")
    assert "default" == Kubectl().default_namespace()
    program("exit 1")  # in a pod, there is no context
    assert "default" == Kubectl().default_namespace()
    file.write_text("speech\n")
    assert "speech" == Kubectl().default_namespace()


def test_threads_wait_for_the_first_contact(program):
    folder = program("echo a", 'sleep 0.2; echo >> "${0%/*}/contacts"; exit 0')
    kubectl = Kubectl()

    with ThreadPoolExecutor() as pool:
        assert ["a\n"] * 3 == list(pool.map(kubectl.text, ["get"] * 3))

    assert "\n" == (folder / "contacts").read_text()
