"""Shell completion: the completed words, and the scripts for each shell."""

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from support import ROOT

from mlgen import frameworks
from mlgen.cli import COMMANDS, main
from mlgen.reference import rules

PS = "fixtures/tensorflow-ps.yaml"
SHELLS = {"bash": "complete -o nosort", "fish": "complete --no-files", "zsh": "#compdef mlgen"}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def complete(line):
    """Return the completions of the last word of a command line."""
    *words, last = line.split(" ")
    items = BashComplete(main, {}, "mlgen", "_MLGEN_COMPLETE").get_completions(words, last)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in items]


def test_commands():
    assert complete("") == [*COMMANDS]
    assert complete("ss") == ["ssh-secret"]


def test_options_and_their_values():
    assert complete("render job.yaml --form") == ["--format"]
    assert complete("render --format ") == ["yaml", "json"]
    assert complete("completion f") == ["fish"]
    assert complete("render --check ") == ["<dir>"]
    assert complete("init pyt") == ["pytorch"]
    assert complete("schema JobS") == ["JobSet"]


def test_files():
    rows = ["render", "validate", "convert", "argo", "verify", "diff"]

    assert [complete(f"{command} job") for command in rows] == [["<file>"] for command in rows]


def test_topics():
    assert complete("explain ") == [
        *frameworks.names(),
        *rules.codes(),
        *rules.by_name(),
        *["apiVersion", "kind", "metadata", "spec"],
    ]
    assert complete("explain pyt") == ["pytorch"]
    assert complete("explain no-such") == ["no-such-peer"]
    assert complete("explain same-r") == ["same-rank"]
    assert complete("explain spec.runPolicy.backoffL") == ["spec.runPolicy.backoffLimit"]
    assert "spec.roles.launcher" in complete("explain spec.roles.l")
    assert complete("explain spec.roles.worker.restart") == [
        "spec.roles.worker.restartPolicy",
        "spec.roles.worker.restartScope",
    ]
    assert complete("explain spec.nothing.b") == []


def test_settings():
    assert complete(f"render {PS} --set spec.roles.") == [
        f"spec.roles.{name}" for name in ("chief", "ps", "worker")
    ]
    assert complete("render --set spec.roles.worker.repl") == ["spec.roles.worker.replicas="]
    assert complete("render --set spec.successPol") == [
        "spec.successPolicy",
        *(f"spec.successPolicy.{name}=" for name in ("operator", "replicas", "role", "roles")),
    ]
    assert complete("render --set spec.runPolicy.cleanPodPolicy=R") == [
        "spec.runPolicy.cleanPodPolicy=Running"
    ]
    assert complete("render --set spec.network.host=") == [
        "spec.network.host=true",
        "spec.network.host=false",
    ]
    assert complete("render --set spec.port=") == []
    assert complete("render --set spec.nothing=") == []
    assert complete("render --set nothing.b") == []


@pytest.mark.parametrize("job", ["fixtures/resources/kubeflow-tfjob-v1.yaml", PS])
def test_roles_of_the_job_on_the_command_line(job):
    assert complete(f"logs {job} --role w") == complete(f"logs {job} --role=w") == ["worker"]
    assert "launcher" not in complete(f"logs {job} --role ")


@pytest.mark.parametrize("job", ["no-file.yaml", "fixtures/invalid/yaml-bracket.yaml", "-"])
def test_roles_of_all_frameworks_if_the_job_cannot_be_read(job):
    assert {"launcher", "worker", "ps"} <= set(complete(f"logs {job} --role "))


def test_roles_of_several_files():
    found = complete(f"render {PS} fixtures/horovod.yaml --set=spec.roles.")

    assert found == [f"spec.roles.{name}" for name in ("chief", "ps", "worker", "launcher")]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script(shell):
    result = CliRunner().invoke(main, ["completion", shell], catch_exceptions=False)

    assert 0 == result.exit_code
    assert SHELLS[shell] in result.stdout
    assert f"_MLGEN_COMPLETE={shell}_complete" in result.stdout
