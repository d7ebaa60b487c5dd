"""Command lines of containers: cases beside the examples of the rules."""

import pytest

from mlgen.checks import amounts, commands  # noqa: F401  # define rules
from mlgen.checks.pods import Objects, of_containers


def found(command=(), args=(), **fields):
    """The path in the container, the message and the hint of each problem of a container."""
    container = {"name": "main", "command": [*command], "args": [*args], **fields}
    metadata = {"name": "a-worker", "labels": {"mlgen.dev/role": "worker"}}
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container]}}
    spec = {"completions": 1, "template": template}
    (pods,) = Objects("a", [{"kind": "Job", "metadata": metadata, "spec": spec}]).pods
    for each in of_containers.broken_by(pods.containers[0]):
        yield ".".join(map(str, each.path[5:])), each.problem.message, each.problem.hint


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["python "], "write [python]"),
        (["python '"], 'write [python, "\'"]'),
        (["cd /app && python a.py"], 'write [sh, -c, "cd /app && python a.py"]'),
        ([" "], "write the name of a program"),
    ],
)
def test_the_fix_of_a_command_in_one_word(command, hint):
    assert [("command.0", hint)] == [(at, each) for at, _, each in found(command)]


@pytest.mark.parametrize(
    ("command", "args", "path"),
    [
        (["bash", "-c", "python train.py", "--", "--lr"], [], "command.4"),
        (["tini", "--", "sh", "-c", "a", "b"], [], "command.5"),
        ([], ["sh", "-c", "a", "b"], "args.3"),
        (["bash", "-c", "--"], ["python", "train.py"], "args.1"),
        (["sh", "-c", "for x do echo; done", "sh", "a"], [], None),
        (["sh", "-c", ". /opt/env.sh", "sh", "a"], [], None),
        (["bash", "-c", "train", "bash"], [], None),
        (["bash", "-c", "--", "python train.py"], [], None),
        (["bash", "train.sh", "-c", "a", "b"], [], None),
        (["python", "-c", "print()", "a"], [], None),
        (["env"], [], None),
    ],
)
def test_words_that_a_shell_ignores(command, args, path):
    assert [path] * bool(path) == [at for at, _, _ in found(command, args)]


@pytest.mark.parametrize(
    ("command", "args", "path", "hint"),
    [
        ([], ["a", "b", "2>&1", "|", "tee"], "args.2", 'write command: [sh, -c, "a b 2>&1 | tee"]'),
        (["~/b", "c"], [], "command.0", 'write command: [sh, -c, "exec ~/b c"]'),
        (["A=1", "b"], [], "command.0", 'write env: {A: "1"} and command: [b]'),
        (["a", "--b=$HOME/c"], [], "command.1", 'write command: [sh, -c, "exec a --b=$HOME/c"]'),
    ],
)
def test_the_fix_of_words_for_a_shell(command, args, path, hint):
    assert [(path, hint)] == [(at, each) for at, _, each in found(command, args)]


@pytest.mark.parametrize(
    "words",
    [
        ["a", "p=${oc.env:X}", "+x=1", "~model.dropout"],
        ["a", "--text", "a & b | c > d", "--op", ">", "--end", ";"],
        ["a", "--regex", "^a|b$", "http://x/?a=1&b=2", '{"a": "$HOME"}', "--eos=<|end|>"],
        ["python", "-c", "print(1 > 0)", ">"],
        ["awk", '{print $1 > "x"}', "|"],
        ["bash", "run.sh", "$X", "--lr 1"],
        ["mpirun", "bash", "-c", "a > b"],
        ["find", ".", "-exec", "a", "{}", ";"],
    ],
)
def test_words_that_are_not_for_a_shell(words):
    assert [] == [*found(words)]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"args": ["$(A_SERVICE_HOST)", "$(DB_PORT)", "$(x y)", "$(X"]}, []),
        ({"args": ["$(WORLD)"], "envFrom": [{}]}, []),
        ({"command": ["sh", "-c", "echo $(date) $(hostname) $(NODES)"]}, ["NODES"]),
        ({"command": ["mpirun", "bash", "-c", "echo $(hostname)"]}, []),
        ({"command": ["python", "-c", "import os; os.system('tee $(date).log')"]}, []),
        ({"command": ["Rscript", "-e", "x <- d$(a)"]}, []),
        ({"args": ["$(hostname)"]}, []),
    ],
)
def test_references_that_are_not_replaced(fields, names):
    messages = [message for _, message, _ in found(**fields)]

    assert [f"$({name}): env does not define {name}" for name in names] == [
        each.removeprefix("Kubernetes does not replace ") for each in messages
    ]


@pytest.mark.parametrize(
    ("kind", "name", "amount", "message"),
    [
        ("requests", "memory", "1", "1 is 1 byte of memory"),
        ("limits", "memory", "500m", "500m is 0.5 byte of memory, because m means thousandths"),
        ("limits", "ephemeral-storage", "20k", "20k is 20000 bytes of ephemeral-storage"),
        ("limits", "memory", "1Mi", None),
        ("limits", "memory", "0", None),
        ("requests", "memory", "6x", None),
    ],
)
def test_an_amount_of_a_few_bytes(kind, name, amount, message):
    each = [*found(resources={kind: {name: amount}})]

    expected = [(f"resources.{kind}.{name}", message)] * bool(message)
    assert expected == [(at, text) for at, text, _ in each]


def test_a_few_bytes_in_requests_and_limits_are_one_problem():
    few = {"memory": "64"}

    assert 1 == len([*found(resources={"requests": few, "limits": few})])
