"""`args.lr` is the path of the flag `--lr` in any list of arguments."""

import re

import pytest
from support import apply

from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.flags import is_flag
from mlgen.documents.overrides import parse
from mlgen.documents.reader import read_documents


def document(spec):
    (read,) = read_documents(Text("job.yaml", f"spec: {spec}"))
    assert isinstance(read, Document)
    return read


def with_setting(spec, setting):
    return apply(document(spec), *parse(setting)).data["spec"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("[--lr, '1', -x]", ["--lr", "1e-4", "-x"]),
        ("[--lr=1, x]", ["--lr=1e-4", "x"]),
        ("[x, -lr, '-1']", ["x", "-lr", "1e-4"]),
        ("[-lr=1]", ["-lr=1e-4"]),
        ("[lr=1]", ["lr=1e-4"]),
        ("[x]", ["x", "--lr", "1e-4"]),
        ("[lr, --lrs, '1']", ["lr", "--lrs", "1", "--lr", "1e-4"]),
        ("[1, --lr, 2]", [1, "--lr", "1e-4"]),
    ],
)
def test_a_flag_is_replaced_where_it_stands_or_appended(args, expected):
    spec = f"{{args: {args}, env: {{}}}}"

    assert with_setting(spec, "args.lr=1e-4") == {"args": expected, "env": {}}
    assert with_setting(spec, "spec.args.lr=1e-4")["args"] == expected


def test_the_value_of_a_flag_is_a_string_as_written():
    rows = [
        ("args.x=1e-4", "1e-4"),
        ("args.x='1e-4'", "1e-4"),
        ("args.x=true", "true"),
        ("args.x=", ""),
        ("args.x=010", "010"),
        ("args.x=a b", "a b"),
    ]

    assert [with_setting("{args: [--x, '1']}", setting)["args"] for setting, _ in rows] == [
        ["--x", value] for _, value in rows
    ]


@pytest.mark.parametrize(
    ("spec", "path", "value", "expected"),
    [
        (
            "{command: [python, a.py, --lr, '1']}",
            "args.lr",
            2,
            {"command": ["python", "a.py", "--lr", "2"]},
        ),
        ("{command: [a.py]}", "args.lr", 0.5, {"command": ["a.py", "--lr", "0.5"]}),
        (
            "{command: [a.py], args: []}",
            "args.lr",
            2,
            {"command": ["a.py"], "args": ["--lr", "2"]},
        ),
        ("{command: [a.py]}", "spec.args.lr", 2, {"command": ["a.py"], "args": ["--lr", "2"]}),
        (
            "{args: [--lr, '1'], roles: {ps: {args: [--lr, '1']}}}",
            "spec.roles.ps.args.lr",
            2,
            {"args": ["--lr", "1"], "roles": {"ps": {"args": ["--lr", "2"]}}},
        ),
        (
            "{roles: {ps: {command: [a]}, worker: {args: [--lr=1]}}}",
            "args.lr",
            2,
            {"roles": {"ps": {"command": ["a"]}, "worker": {"args": ["--lr=2"]}}},
        ),
        ("{args: [optimizer.lr=1]}", "args.optimizer.lr", 2, {"args": ["optimizer.lr=2"]}),
        (
            "{command: [sh, -c, 'a.py $@', sh, --lr, '1']}",
            "args.lr",
            2,
            {"command": ["sh", "-c", "a.py $@", "sh", "--lr", "2"]},
        ),
    ],
)
def test_the_flag_of_one_command_line_is_set(spec, path, value, expected):
    setting = parse(f"{path}=x")[0]

    assert apply(document(spec), setting, value).data["spec"] == expected


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (
            "{args: [--lr, '1'], roles: {ps: {args: [--lr, '1']}}}",
            "args.lr",
            (
                "the flag lr occurs at spec.args[0] and spec.roles.ps.args[0];"
                " write spec.args.lr or spec.roles.ps.args.lr"
            ),
        ),
        (
            "{args: [--lr, '1', --lr=2]}",
            "args.lr",
            (
                "the flag lr occurs at spec.args[0] and spec.args[2];"
                " write the path of its value, such as spec.args[2]"
            ),
        ),
        (
            "{args: [--lr, --x]}",
            "args.lr",
            "the flag at spec.args[0] has no value that can be replaced",
        ),
        ("{args: [--lr]}", "args.lr", "the flag at spec.args[0] has no value that can be replaced"),
        (
            "{args: [--batch_size, '1']}",
            "args.batch-size",
            'spec.args has the flag "--batch_size"; write args.batch_size',
        ),
        (
            "{args: [a], roles: {ps: {command: [b]}}}",
            "args.lr",
            (
                "no command line has the flag lr; to append it,"
                " write spec.args.lr or spec.roles.ps.command.lr"
            ),
        ),
        (
            "{image: a}",
            "args.lr",
            (
                "spec has neither command nor args;"
                " add spec.args, so that the flag lr can be appended"
            ),
        ),
        (
            "{args: [a], roles: {ps: {}}}",
            "spec.roles.ps.args.lr",
            (
                "spec.roles.ps has neither command nor args;"
                " add spec.roles.ps.args, so that the flag lr can be appended"
            ),
        ),
        (
            "{command: [bash, -c], args: ['python a.py --lr 1']}",
            "args.batch-size",
            (
                "spec runs a shell script, which takes no flags;"
                ' set a variable, spec.env.BATCH_SIZE, and write "$BATCH_SIZE" in the script'
            ),
        ),
        (
            "{command: [bash, -c], roles: {ps: {args: [a]}}}",
            "spec.roles.ps.args.lr",
            (
                "spec.roles.ps runs a shell script, which takes no flags;"
                ' set a variable, spec.env.LR, and write "$LR" in the script'
            ),
        ),
    ],
)
def test_a_flag_that_is_not_clear_is_an_error(spec, path, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        with_setting(spec, f"{path}=1")


@pytest.mark.parametrize("value", [[1], {"a": 1}, None])
def test_a_flag_takes_one_value(value):
    with pytest.raises(ValueError, match=r"^args.lr is a flag, which takes one string or number$"):
        apply(document("{args: [a]}"), ("args", "lr"), value)


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "args"),
        ("spec", "args", 0),
        ("spec", "env", "args", "x"),
        ("spec", "volumes", "args", "mountPath"),
        ("spec", "roles", "args", "replicas"),
        ("spec", "roles", "worker", "args", 0),
        ("command", "x"),
        ("metadata", "args", "x"),
        ("args",),
    ],
)
def test_other_paths_are_not_flags(path):
    assert not is_flag(path)
