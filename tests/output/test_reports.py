"""Problems as text with source lines, JSON and GitHub annotations."""

import json

import click
import pytest
from click.testing import CliRunner
from support import ROOT
from syrupy.extensions.json import JSONSnapshotExtension

from mlgen.cli import COMMANDS, main
from mlgen.documents.files import Text
from mlgen.output.problems import (
    MAX_WIDTH,
    Count,
    Style,
    excerpt,
    github,
    json_text,
    text,
)
from mlgen.output.terminal import safe, safe_lines
from mlgen.problems import Place, Problem

GOOD, WARNED = "fixtures/tensorflow-single.yaml", "fixtures/tensorflow-estimator.yaml"
BAD, BROKEN = "fixtures/invalid/unknown-role.yaml", "fixtures/invalid/yaml-bracket.yaml"

SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: wandb}\n"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*words, stdin=None):
    result = CliRunner().invoke(main, list(map(str, words)), input=stdin, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def test_carets_mark_a_key_or_a_value():
    rows = [
        ("  image: example/a:1  # why", "example/a:1"),
        ("  image:", "image"),
        ('  a: "b: # c" # d', '"b: # c"'),
        ("  a: 'it''s' # d", "'it''s'"),
        ("  a: {b: c, d: [e, f]} # g", "{b: c, d: [e, f]}"),
        ('  a: ["]", b]', '["]'),
        ("  a: {b: [cc], d: e}", "[cc]"),
        ("  a: {b: [cc, [d]], e: f}", "[cc, [d]], e: f}"),
        ("  a: {b: c,", "{b: c,"),
        ("  a: {b: cc, d: e}", "cc"),
        ("  a: [b, [cc], d]", "cc"),
        ("  a: [b, cc]", "cc"),
        ("  a: {b: {cc: 1}}", "cc"),
        ("  a: b[0]", "b"),
        ("  a: http://x:80/y", "http://x:80/y"),
        ('  a: "b', '"b'),
        ("  a: |", "|"),
    ]

    for row, marked in rows:
        start = row.rindex(marked)

        _, mark = excerpt(Place("a", 1, start + 1), Text("a", row, quotable=True))
        assert mark == " " * start + "^" * len(marked)


def test_a_mark_is_below_its_value_whatever_the_width_of_characters():
    source = Text("a.yaml", "a: 1\r\nb: {数据: e\u0301, \tc: d}\n")

    for column, marked in ((5, "数据"), (9, "e\u0301"), (14, "c")):
        row, mark = excerpt(Place("a.yaml", 2, column), source)
        assert row == "b: {数据: e\u0301,  c: d}"
        assert mark == {"数据": "    ^^^^", "e\u0301": " " * 10 + "^", "c": " " * 14 + "^"}[marked]


@pytest.mark.parametrize("start", [0, 60, 290])
def test_of_a_long_line_the_part_around_the_value_is_shown(start):
    row = "x" * start + " HERE " + "y" * (300 - start)

    shown, mark = excerpt(Place("a", 1, start + 2), Text("a", row))

    assert len(shown) <= MAX_WIDTH + 2
    assert shown[len(mark.rstrip("^")) :].startswith("HERE")
    assert ("…" == shown[0], "…" == shown[-1]) == (start > 30, start < 290)


@pytest.mark.parametrize("place", [Place("a", 9), Place("a", 2), Place("a", 0)], ids=str)
def test_a_place_without_a_line_has_no_excerpt(place):
    assert ("", "") == excerpt(place, Text("a", "x: 1\n\ny: 2\n"))


def test_a_part_of_a_file_knows_its_first_line():
    assert ("y: 2", "^") == excerpt(Place("a", 12, 1), Text("a", "x: 1\ny: 2\n", line=10))


JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: a}
spec:
  framework: pytorch
  image: a/b:1
  command: [python, -c, pass]
  wrong: shown
"""
VALID = f"{JOB}  roles: {{worker: {{}}}}\n"
ITEM = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "hunter2"}}
SECRETS = {
    "duplicate-key": f"{SECRET}data:\n  k: aHVudGVyMg==\n  k: hunter2\n",
    "not-yaml": f"{SECRET}stringData:\n  k: {{hunter2\n  l: ] hunter2\n",
    "not-base64": f"{SECRET}data: {{k: hunter2}}\n",
    "block": f"{SECRET}stringData:\n  k: |\n    hunter2\n   hunter2: x\n",
    "escape": f'{SECRET}stringData: {{k: "\\z hunter2"}}\n',
    "json": json.dumps(ITEM),
    "list": f"apiVersion: v1\nkind: List\nitems:\n- {json.dumps(ITEM)}\n",
    "escaped-kind": '{"kind": "\\u0053ecret", "stringData": {"k": [hunter2}\n',
    "binary-kind": "kind: !!binary U2VjcmV0\nstringData: {k: !hunter2 x}\n",
    "alias-as-kind": "metadata: {name: &a Secret}\nkind: *a\ndata: {k: !hunter2 x}\n",
    "kind-after-data": "apiVersion: v1\ndata: {k: hunter2, l: [hunter2}\nkind: Secret\n",
    "kind-twice": f"{SECRET}stringData:\n  k: hunter2\n  k: hunter2\nkind: ConfigMap\n",
    "job-after-secret": f"{SECRET}stringData: {{k: hunter2}}\n{JOB}",
    "secret-after-job": f"{VALID}{SECRET[4:]}stringData: {{k: hunter2, wrong: [hunter2}}\n",
    "no-kind": "apiVersion: v1\nstringData: {k: hunter2, k: !hunter2 a}\n",
    "other-case": "apiVersion: v1\nkind: secret\ndata: {k: hunter2, l: [hunter2}\n",
    "alias": f"{SECRET}stringData: {{k: *hunter2}}\n",
    "tag": f"{SECRET}stringData: {{k: !hunter2 a, l: !!int hunter2}}\n",
    "control-character": f"{SECRET}stringData: {{k: hunter2\x01}}\n",
    "data-after-job": f"{VALID}apiVersion: v1\ndata: {{k: hunter2, l: [hunter2}}\nkind: Secret\n",
    "texts-after-job": f"{VALID}stringData: {{k: hunter2, l: [hunter2}}\n",
    "in-a-list": "apiVersion: v1\nkind: List\nitems:\n- {data: {k: hunter2, l: [hunter2}\n",
    "in-a-wrapper": "apiVersion: a/v1\nkind: Wrapper\nspec:\n  template:\n    apiVersion: v1\n"
    "    data: {k: hunter2, l: [hunter2}\n",
    "env": VALID.replace("wrong: shown", "env: {HF_TOKEN: hunter2hunter2}"),
    "address": VALID.replace(
        "wrong: shown",
        "volumes: {code: {mountPath: /a, git: {repository: 'https://ci:hunter2@git.example/a'}}}",
    ),
}


@pytest.mark.parametrize("name", SECRETS)
def test_an_excerpt_shows_no_value_of_a_secret(name, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(f"{JOB}---\n{SECRETS[name]}")

    for command in ("validate", "render", "show", "diff"):
        others = [file] if command == "diff" else []
        _, out, err = run(command, "--color", "always", file, *others)
        assert "hunter2" not in out + err, command
        assert "wrong: shown" in out + err, command
    assert "hunter2" not in run("verify", "--color", "always", file)[1]
    assert "hunter2" not in run("argo", "--color", "always", file)[2]
    assert "hunter2" not in run("convert", "--color", "always", file)[2]


LINES = {
    "in-a-job": (f"{JOB}  roles: {{worker: [}}\n", "roles: {worker: [}"),
    "volume-of-data": (f"{VALID}  volumes: {{data: {{mountPath: [}}}}\n", "mountPath: [}"),
    "tag": (f"{VALID}  env: {{A: !Ref x}}\n", "the tag !Ref is not supported"),
    "alias": (f"{VALID}  env: {{A: *x}}\n", "undefined alias 'x'"),
    "control-character": (f"{VALID}  args: [\x07]\n", "args: [\\x07]"),
    "config-map": ("kind: ConfigMap\ndata: {k: [}\n", "data: {k: [}"),
}


@pytest.mark.parametrize("name", LINES)
def test_an_excerpt_shows_a_line_that_is_known_not_to_be_of_a_secret(name, tmp_path):
    text, shown = LINES[name]
    (tmp_path / "a.yaml").write_text(text)

    _, out, _ = run("validate", "--color", "always", tmp_path / "a.yaml")

    assert shown in out


def test_control_characters_of_a_message_do_not_reach_the_terminal():
    message = 'unknown field "\x1b]0;owned\x07\x9b2J\u202etxt\nlast"'
    problem = Problem((), message, "unknown-field", place=Place("a\x1b.yaml"))

    for style in (Style(), Style(source=True), Style(source=True, color=True)):
        (line, *more) = text([problem], [], style).replace("\x1b[", "<").splitlines()
        assert more == []
        assert line.isprintable()
    assert r"\x1b]0;owned\x07\x9b2J\u202etxt\nlast" == safe(message)[15:-1]


def test_the_lines_of_a_page_stay_lines():
    text = "name\tvalue\n  a\x1b[2J\r\n\ud800 é\n"

    assert "name value\n  a\\x1b[2J\\r\n\\ud800 é\n" == safe_lines(text)


def test_json_is_safe_to_print_and_has_the_same_value():
    message = "\x9b2J \u202e \x7f \ud800 \\ é"
    problem = Problem((), message, "no-job", place=Place("a.yaml", 1, 1))

    document = json_text(Count(1, 1, (), (problem,)))

    assert document.replace("\n", "").isprintable()
    assert message in _strings(json.loads(document))


def _strings(value):
    """Return the scalars in a value."""
    if not isinstance(value, (dict, list)):
        return [value]
    return [each for item in getattr(value, "values", value.__iter__)() for each in _strings(item)]


def test_a_workflow_command_escapes_what_would_end_it():
    place = Place("jobs/a,b:c.yaml", 3, 5)
    problem = Problem(("spec", "env"), "100 %\r\n::error::no", "bad-value", place=place)
    warning = Problem((), "no place", "no-job", warning=True, place=Place("--set", 0))

    properties = "file=jobs/a%2Cb%3Ac.yaml,line=3,col=5,title=mlgen%3A bad-value"
    line = "jobs/a,b:c.yaml:3:5: spec.env: 100 %25\\r\\n::error::no [bad-value]"
    assert github([problem, warning]).splitlines() == [
        f"::error {properties}::{line}",
        "::warning title=mlgen%3A no-job::--set: warning: no place [no-job]",
    ]


ERROR = Problem((), "a", "empty")
WARNING = Problem((), "b", "differs", warning=True)


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (Count(400, 1203, (), (ERROR, ERROR)), "400 files, 1,203 jobs, 2 problems"),
        (Count(1, 1, (), (ERROR, WARNING)), "1 job, 2 problems (1 warning)"),
        (Count(1, 0, ("Secret", "Role", "Secret"), ()), "no jobs, 3 other objects (Secret, Role)"),
        (Count(2, None, (), (WARNING,)), "2 files, 1 warning"),
        (
            Count(2, 2, tuple("abcdefg"), ()),
            "2 files, 2 jobs, 7 other objects (a, b, c, d, e, f, …)",
        ),
    ],
    ids=str,
)
def test_the_totals_are_one_line(count, line):
    assert line == str(count)
    assert count.is_worth_a_line


@pytest.mark.parametrize("count", [Count(1, 1, (), ()), Count(2, None, (), ())], ids=repr)
def test_totals_that_say_nothing_new_are_not_printed(count):
    assert not count.is_worth_a_line


def test_json_is_one_object_with_all_problems_and_totals(snapshot):
    status, out, err = run("validate", GOOD, WARNED, BROKEN, "--problems", "json")

    assert (1, "3 files, 2 jobs, 2 problems (1 warning)\n") == (status, err)
    assert json.loads(out) == snapshot(extension_class=JSONSnapshotExtension)


def test_json_is_on_stderr_beside_manifests():
    """stderr contains only the JSON, so that programs can parse it."""
    _, manifests, _ = run("render", WARNED)

    status, out, err = run("render", WARNED, "-v", "--problems", "json")
    assert (0, manifests) == (status, out)
    assert ["combination"] == [problem["code"] for problem in json.loads(err)["problems"]]

    status, out, err = run("render", "no.yaml", "--set", "spec.x=1", "--problems", "json")
    assert (1, "") == (status, out)
    (problem,) = json.loads(err)["problems"]
    assert {"file": "no.yaml", "severity": "error", "path": ""}.items() <= problem.items()


def test_json_without_problems_is_an_empty_list():
    status, out, err = run("verify", "-", "--problems", "json", stdin=run("render", GOOD)[1])

    totals = {"files": 1, "jobs": None, "errors": 0, "warnings": 0}
    assert (0, {"problems": [], "totals": totals}, "") == (status, json.loads(out), err)


def test_github_annotates_the_lines():
    status, out, err = run("validate", GOOD, BAD, "--problems", "github")

    place = "fixtures/invalid/unknown-role.yaml,line=8,col=5,title=mlgen%3A unknown-role"
    assert (1, "2 files, 2 jobs, 2 problems\n") == (status, err)
    assert out.splitlines()[0].startswith(f"::error file={place}::")
    assert 2 == len(out.splitlines())


def test_quiet_prints_errors_only():
    assert (0, "", "") == run("validate", GOOD, WARNED, "-q")
    assert (0, run("render", GOOD)[1] + SECRET, "") == run("render", GOOD, "-", "-q", stdin=SECRET)
    status, out, err = run("validate", WARNED, BAD, "-q")
    assert (1, 2, "") == (status, out.count("\n"), err)


def test_verbose_names_what_is_read_and_the_time():
    (*reads, time) = run("validate", GOOD, WARNED, "-v")[2].splitlines()[:3]

    assert [f"read {GOOD}", f"read {WARNED}"] == reads
    assert time.startswith("rendered 2 of 2 jobs in ")


def test_color_can_be_asked_for_in_a_pipe():
    assert "\x1b[1;31m^^^^^^^" in run("validate", BAD, "--color", "always")[1]
    assert "\x1b" not in run("validate", BAD, "--color", "never")[1]


def test_every_command_that_reads_jobs_says_how_problems_are_printed():
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        options = {option for parameter in command.params for option in parameter.opts}
        if {"files", "file", "sides"} & {parameter.name for parameter in command.params}:
            assert {"--problems", "--color", "-q", "-v"} <= options
