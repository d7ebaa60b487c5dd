"""`mlgen graph`: the text formats as goldens, and rules that hold for every picture."""

import html
import re
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from support import ROOT, each_file

from mlgen import Options, validate
from mlgen import graph as graphviz
from mlgen.cli import main
from mlgen.graph import Arrow, Box, Picture, drawing, picture


def jobs(name, **options):
    return validate(str(ROOT / "fixtures" / f"{name}.yaml"), Options(**options)).jobs


def run(*arguments):
    return CliRunner().invoke(main, ["graph", *map(str, arguments)], catch_exceptions=False)


NAMES = [
    "tensorflow-ps",
    "generic-order",
    "mpi-kubectl-exec",
    "pytorch-host-network",
    "pytorch-volumes",
    "xgboost",
    "elasticdl",
]


@pytest.mark.parametrize("form", ["mermaid", "dot"])
@pytest.mark.parametrize("name", NAMES)
def test_the_text_formats(name, form, message):
    (job,) = jobs(name)

    assert drawing(job, form) == message


@each_file()
def test_every_picture_is_complete(file):
    for job in validate(str(file)).jobs:
        parts = picture(job)
        boxes = (*parts.roles, *parts.others, *([parts.supervisor] if parts.supervisor else []))
        roles = {box.name: box.texts[0].split()[0] for box in parts.roles}
        drawn = {(roles[a.source], roles[a.target]) for a in parts.arrows if a.target in roles}
        waits = {(r.name, w.role) for r in job.topology.roles for w in (*r.waits, *r.orders)}

        assert len({box.name for box in boxes}) == len(boxes)
        assert {*roles.values()} == {role.name for role in job.topology.roles}
        assert {pair for pair in waits if pair[0] != pair[1]} <= drawn
        assert any(box.decides for box in boxes)


def test_300_replicas_are_as_many_boxes_as_3():
    ports = (("spec", "network", "hostPorts"), {"base": 20000, "size": 9000})
    many = (("spec", "roles", "worker", "replicas"), 300)
    (job,) = jobs("pytorch-host-network", settings=(ports, many))

    assert [box.texts[0] for box in picture(job).roles] == ["rank 0", "rank 1…300"]


def test_many_objects_of_a_kind_are_one_box():
    env = {
        f"V{n}": {"valueFrom": {"secretKeyRef": {"name": f"s{n}", "key": "k"}}} for n in range(5)
    }
    source = [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "s9"}}]
    template = {"spec": {"containers": [{"name": "main", "envFrom": source}]}}
    settings = ((("spec", "env"), env), (("spec", "template"), template))
    (job,) = jobs("tensorflow-ps", settings=settings)

    drawing = picture(job)

    assert [box.texts for box in drawing.others] == [
        ("6 Secrets", "Secret"),
        ("all", "ConfigMap"),
    ]
    assert drawing.shared == ("storage_0", "storage_1")


@pytest.mark.parametrize(
    ("name", "start"),
    [("x.svg", "<?xml "), ("x.dot", "digraph "), ("x.mmd", "flowchart "), ("x", "flowchart ")],
)
def test_the_name_of_the_file_chooses_the_format(name, start, tmp_path, tool):
    if name.endswith(".svg"):
        tool("dot")
    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "-o", tmp_path / name)

    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / name).read_text().startswith(start)


def test_an_ending_without_a_format_is_refused(tmp_path):
    file = ROOT / "fixtures/tensorflow-ps.yaml"
    refused = run(file, "-o", tmp_path / "x.png")
    forced = run(file, "-o", tmp_path / "x.txt", "--format", "dot")

    assert refused.exit_code == 2
    assert "unknown file type .png; use .mmd, .dot or .svg, or add --format" in refused.stderr
    assert not (tmp_path / "x.png").exists()
    assert (forced.exit_code, (tmp_path / "x.txt").exists()) == (0, True)


def test_mermaid_is_the_default():
    file = ROOT / "fixtures/tensorflow-ps.yaml"

    assert run(file).stdout.startswith("flowchart TB\n")
    assert run(file, "--format", "dot").stdout.startswith("digraph ")


def test_a_picture_shows_one_job(tmp_path):
    text = (ROOT / "fixtures/tensorflow-ps.yaml").read_text()
    (tmp_path / "jobs.yaml").write_text(f"{text}---\n{text.replace('mnist', 'other')}")

    result = run(tmp_path / "jobs.yaml")

    assert result.exit_code == 2
    assert "jobs.yaml, got 2" in result.stderr


def test_without_graphviz_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "--format", "svg")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: --format svg: dot cannot be run: No such file or directory; install Graphviz:"
        " apt-get install graphviz, or brew install graphviz\n"
    )
    assert run(ROOT / "fixtures/tensorflow-ps.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("echo oops >&2; exit 3", "dot failed: oops; use --format mermaid or dot"),
        ("kill -9 $$", "dot failed: status -9; use --format mermaid or dot"),
        ("exec sleep 20", "dot did not finish within 0 seconds; use --format mermaid or dot"),
    ],
)
def test_a_program_that_fails_is_reported(program, message, monkeypatch, tmp_path):
    (tmp_path / "dot").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(graphviz, "SECONDS", 0.3 if "sleep" in program else 20)

    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "--format", "svg")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: --format svg: {message}\n"


def test_a_picture_too_large_to_draw_is_refused(monkeypatch):
    monkeypatch.setattr(graphviz, "LONGEST", 100)

    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "--format", "svg")

    assert result.exit_code == 1
    assert "the graph is too large to draw; use --format mermaid or dot" in result.stderr


HOSTILE = [
    'a"b', "back\\", "<b>bold</b>", "<", "\\N \\G \\l \\n", "&lt; & &amp; &#65;", "{a|b}", "]]>",
    '"];evil [label="x', "$(id) `id`", "--> <!-- -->", "漢字 é", "/* */ // #", "%%{init}%%", " ",
]  # fmt: skip
"""Texts with characters that are special in Graphviz, XML or a shell."""


def test_texts_are_drawn_as_they_are(tool):
    lines = [*HOSTILE, "a\nb", "\x1b[31m", "\u202ea"]
    boxes = tuple(Box(f"role_{n}", "Job", (text, "Job")) for n, text in enumerate(lines))
    arrows = tuple(Arrow("role_0", f"role_{n}", text, "waits") for n, text in enumerate(lines))
    frame = Box("service", "service", ('of "<b>',))
    tool("dot")

    drawn = graphviz.svg(Picture('a "<b>', frame, boxes, (), (), None, arrows))

    ET.fromstring(drawn.encode())
    found = [html.unescape(each) for each in re.findall("<text[^>]*>([^<]*)<", drawn)]
    found = [each.replace("\xa0", " ") for each in found]
    shown = [text if text in HOSTILE else graphviz.safe(text) for text in lines]
    assert sorted(found) == sorted([*shown, *shown, *["Job"] * len(lines), 'of "<b>'])
    assert drawn.count('class="node"') == len(lines)


def test_a_picture_has_colors_of_its_own(tool):
    """It is also readable in a viewer without style sheets, and on a dark page."""
    tool("dot")
    (job,) = jobs("generic-order")
    text = drawing(job, "svg")

    assert re.search('<polygon fill="white"', text)
    assert not re.search("style|class=.*fill|var\\(|href=|url\\(", text.replace("xmlns:xlink", ""))
