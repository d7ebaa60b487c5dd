"""Values that are valid for Kubernetes, but probably not intended."""

import pytest

from mlgen.checks.pods import Objects
from mlgen.checks.sense import doubtful_values


def job(*containers, replicas=1, **spec):
    pod = {"containers": list(containers) or [{"name": "main"}], **spec}
    labels = {"mlgen.dev/role": "worker"}
    return {
        "kind": "Job",
        "metadata": {"name": "a-worker", "labels": labels},
        "spec": {"completions": replicas, "template": {"metadata": {}, "spec": pod}},
    }


def problems(*items):
    return list(doubtful_values(Objects("a", items)))


def reported(**container):
    """The path in the role, the message and whether it is a warning, for one container."""
    found = problems(job({"name": "main", **container}))
    return [(".".join(map(str, p.path[3:])), p.message, p.warning) for p in found]


def messages(**container):
    return [message for _, message, _ in reported(**container)]


@pytest.mark.parametrize(
    ("kind", "name", "amount", "message"),
    [
        ("limits", "memory", "64", "64 is 64 bytes of memory"),
        ("requests", "memory", "1", "1 is 1 byte of memory"),
        ("limits", "memory", "500m", "500m is 0.5 byte of memory, because m means thousandths"),
        ("limits", "ephemeral-storage", "20k", "20k is 20000 bytes of ephemeral-storage"),
        ("limits", "memory", "1Mi", None),
        ("limits", "memory", "68719476736", None),
        ("limits", "memory", "0", None),
        ("requests", "memory", "6x", None),
        ("limits", "cpu", "500m", None),
    ],
)
def test_an_amount_of_a_few_bytes(kind, name, amount, message):
    expected = [(f"resources.{kind}.{name}", message, kind == "requests")] if message else []

    assert reported(resources={kind: {name: amount}}) == expected


def test_a_few_bytes_in_requests_and_limits_are_one_problem():
    amounts = {"memory": "64"}
    (problem,) = problems(
        job({"name": "main", "resources": {"requests": amounts, "limits": amounts}})
    )

    assert problem.hint == "write 64Gi or 64Mi"
    assert not problem.warning


@pytest.mark.parametrize(("limit", "exceeds"), [("1Gi", True), ("2Gi", False), (None, False)])
@pytest.mark.parametrize(
    ("name", "path"), [("mlgen-shm", "shmSize"), ("dshm", "volumes.dshm.emptyDir.sizeLimit")]
)
def test_a_volume_in_memory_counts_against_the_memory_limit(limit, exceeds, name, path):
    main = {"name": "main", "volumeMounts": [{"name": name}, {"name": "data"}]}
    main["resources"] = {"limits": {"memory": limit} if limit else {}}
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}
    disk = {"name": "data", "emptyDir": {"sizeLimit": "9Gi"}}

    found = problems(job(main, volumes=[volume, disk]))

    assert [".".join(p.path[3:]) for p in found] == [path] * exceeds


@pytest.mark.parametrize(
    ("command", "hint", "warning"),
    [
        (["python train.py"], "write [python, train.py]", False),
        (["python "], "write [python]", False),
        (["python '"], 'write [python, "\'"]', False),
        (["cd /app && python a.py"], 'write [sh, -c, "cd /app && python a.py"]', False),
        (["/opt/my app/run"], None, None),
        ([" "], "write the name of a program", False),
        (["python", "my train.py"], None, None),
    ],
)
def test_a_command_in_one_word(command, hint, warning):
    found = problems(job({"name": "main", "command": command}))

    assert [(p.path[3:], p.hint, p.warning) for p in found] == [
        (("command", 0), hint, warning)
    ] * bool(hint)


@pytest.mark.parametrize(
    ("command", "args", "path"),
    [
        (["sh", "-c", "python", "train.py"], [], "command.3"),
        (["/bin/bash", "-euo", "pipefail", "-c", "python train.py"], ["--lr", "1"], "args.0"),
        (["bash", "-c", "python train.py", "--", "--lr"], [], "command.4"),
        (["tini", "--", "sh", "-c", "a", "b"], [], "command.5"),
        ([], ["sh", "-c", "a", "b"], "args.3"),
        (["sh", "-c", "python train.py"], [], None),
        (["sh", "-c", 'exec "$@"', "sh", "python"], [], None),
        (["sh", "-c", 'exec "$0" "$@"', "python", "a"], [], None),
        (["sh", "-c", "for x do echo; done", "sh", "a"], [], None),
        (["sh", "-c", ". /opt/env.sh", "sh", "a"], [], None),
        (["bash", "-c", "train", "bash"], [], None),
        (["bash", "-c", "python train.py", "trainer-0"], [], None),
        (["bash", "-c", "--", "python train.py"], [], None),
        (["bash", "-c", "--"], ["python", "train.py"], "args.1"),
        (["bash", "train.sh", "-c", "a", "b"], [], None),
        (["python", "-c", "print()", "a"], [], None),
        (["sh", "-c"], [], "command.1"),
        (["env"], [], None),
    ],
)
def test_words_that_a_shell_ignores(command, args, path):
    found = reported(command=command, args=args)

    assert [at for at, _, _ in found] == [path] * bool(path)


@pytest.mark.parametrize(
    ("command", "args", "path", "hint"),
    [
        (
            ["a", "b.py", ">", "/x/log"],
            [],
            "command.2",
            'write command: [sh, -c, "a b.py > /x/log"]',
        ),
        ([], ["a", "b", "2>&1", "|", "tee"], "args.2", 'write command: [sh, -c, "a b 2>&1 | tee"]'),
        (["cd", "/a", "&&", "b"], [], "command.0", 'write command: [sh, -c, "cd /a && b"]'),
        (["~/b", "c"], [], "command.0", 'write command: [sh, -c, "exec ~/b c"]'),
        (["A=1", "b"], [], "command.0", 'write env: {A: "1"} and command: [b]'),
        (["a", "--b=$HOME/c"], [], "command.1", 'write command: [sh, -c, "exec a --b=$HOME/c"]'),
        (["a", "~/c"], [], "command.1", "write the complete path"),
        (["python", "a.py -l 1"], [], "command.1", 'write separate words: a.py, -l, "1"'),
        (["a", "b", "--lr 1"], [], "command.2", 'write separate words: --lr, "1"'),
        (["sh", "-c a"], [], "command.1", "write two words: -c, a"),
        (["python", "a"], ["python", "a", "-b"], "args.0", "write args: [-b]"),
    ],
)
def test_words_for_a_shell_that_does_not_run(command, args, path, hint):
    found = problems(job({"name": "main", "command": command, "args": args}))

    assert [(".".join(map(str, p.path[3:])), p.hint) for p in found] == [(path, hint)]


@pytest.mark.parametrize(
    "words",
    [
        ["a", "p=${oc.env:X}", "+x=1", "~model.dropout"],
        ["a", "--text", "a & b | c > d", "--sep", "|", "--op", ">", "--end", ";"],
        ["a", "--regex", "^a|b$", "http://x/?a=1&b=2", '{"a": "$HOME"}', "--eos=<|end|>"],
        ["python", "-c", "print(1 > 0)", ">"],
        ["awk", '{print $1 > "x"}', "|"],
        ["bash", "run.sh", "$X", "--lr 1"],
        ["mpirun", "bash", "-c", "a > b"],
        ["a", "--train-args", "--lr 1 --bs 2", "--prompt=a dog"],
        ["./entrypoint.sh", "a", "&&", "b"],
        ["find", ".", "-exec", "a", "{}", ";"],
    ],
)
def test_words_that_are_not_for_a_shell(words):
    assert reported(command=words, args=[]) == []


NOT_REPLACED = "Kubernetes does not replace "


@pytest.mark.parametrize(
    ("container", "reasons"),
    [
        ({"args": ["--a=$(WORLD)"]}, ["$(WORLD): env does not define WORLD"]),
        ({"args": ["$(WORLD)"], "env": ["WORLD"]}, []),
        ({"args": ["$$(WORLD)", "$(A_SERVICE_HOST)", "$(DB_PORT)", "$(x y)", "$(X"]}, []),
        ({"args": ["$(WORLD)"], "envFrom": [{}]}, []),
        ({"command": ["sh", "-c", "echo $(date) $(hostname)"]}, []),
        ({"command": ["sh", "-c", "echo $(NODES)"]}, ["$(NODES): env does not define NODES"]),
        ({"command": ["train", "$(hostname)"]}, ["$(hostname): no shell runs the command"]),
        ({"command": ["mpirun", "bash", "-c", "echo $(hostname)"]}, []),
        ({"command": ["python", "-c", "import os; os.system('tee $(date).log')"]}, []),
        ({"command": ["Rscript", "-e", "x <- d$(a)"]}, []),
        ({"args": ["$(hostname)"]}, []),
        ({"env": {"PATH": "/a:$(PATH)"}}, ["$(PATH): no earlier item of env defines PATH"]),
        ({"env": {"A": "$(B)", "B": "b"}}, ["$(B): env defines B only later"]),
        ({"env": {"B": "b", "A": "$(B)"}}, []),
        ({"env": {"A": "$(hostname)"}}, []),
    ],
)
def test_references_that_are_not_replaced(container, reasons):
    env = container.get("env", {})
    pairs = env.items() if isinstance(env, dict) else [(name, "1") for name in env]
    variables = [{"name": name, "value": value} for name, value in pairs]

    assert messages(**{**container, "env": variables}) == [NOT_REPLACED + text for text in reasons]


@pytest.mark.parametrize(
    ("spec", "replicas", "warns"),
    [
        ({"hostNetwork": True, "dnsPolicy": "Default"}, 2, True),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, 2, True),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, 1, False),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, 2, False),
        ({"hostNetwork": True, "dnsPolicy": "None"}, 2, False),
        ({"dnsPolicy": "Default"}, 2, True),
        ({"dnsPolicy": "Default"}, 1, False),
    ],
)
def test_a_dns_policy_without_the_names_of_peers(spec, replicas, warns):
    assert bool(problems(job(replicas=replicas, **spec))) is warns


def test_a_container_beside_the_training_container_is_named():
    (problem,) = problems(job({"name": "main"}, {"name": "upload", "command": ["aws s3"]}))

    assert problem.path == ("spec", "roles", "worker", "template")
    assert problem.message.startswith("container upload: ")
