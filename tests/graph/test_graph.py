"""`mlgen graph`: the text formats as goldens, and rules that hold for every picture."""

import sys
from itertools import pairwise

import pytest
from click.testing import CliRunner
from support import FILES, ROOT
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlgen import Options, validate
from mlgen.cli import main
from mlgen.graph import drawing
from mlgen.graph.layout import Link, layout
from mlgen.graph.model import picture
from mlgen.graph.places import drawn
from mlgen.graph.text import shortened, width


class Picture(SingleFileSnapshotExtension):
    """One SVG file, which a browser shows."""

    file_extension = "svg"
    _write_mode = WriteMode.TEXT


def overlap(one, other):
    """Whether two rectangles have an area in common."""
    beside = one.right <= other.x or other.right <= one.x
    return not beside and one.y < other.bottom and other.y < one.bottom


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


def test_the_picture_in_svg(snapshot):
    (job,) = jobs("generic-order")

    assert drawing(job, "svg") == snapshot(extension_class=Picture)
    assert drawing(job, "svg") == drawing(job, "svg")


def curve(line):
    """Points on a line, as a browser draws it between the given ones."""
    for (x, y), (to_x, to_y) in pairwise(line):
        for step in range(13):
            t = step / 12
            near, far = (1 - t) ** 3 + 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2 + t**3
            half = (3 * (1 - t) ** 2 * t + 3 * (1 - t) * t**2) * (y + to_y) / 2
            yield near * x + far * to_x, (1 - t) ** 3 * y + half + t**3 * to_y


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_picture_is_complete_and_readable(file):
    for job in validate(str(file)).jobs:
        parts = picture(job)
        places = drawn(parts)
        boxes, frame = places.boxes, places.frame
        labels = {number: label for number, label in enumerate(places.labels) if label}

        # Every role, and every wait for another role, is in the picture.
        roles = {box.name: box for box in parts.roles}
        assert {box.title for box in roles.values()} == {r.name for r in job.topology.roles}
        drawn_waits = {
            (roles[a.source].title, roles[a.target].title)
            for a in parts.arrows
            if a.target in roles
        }
        waits = {(r.name, w.role) for r in job.topology.roles for w in (*r.waits, *r.orders)}
        assert {pair for pair in waits if pair[0] != pair[1]} <= drawn_waits
        assert sum(box.replicas for box in roles.values()) == sum(
            role.replicas for role in job.topology.roles
        )
        assert any(box.badge for box in parts.boxes)

        # Boxes and labels do not overlap, and are inside.
        areas = [*boxes.values(), *labels.values()]
        for number, area in enumerate(areas):
            assert min(area.x, area.y) >= 0
            assert area.right <= places.size[0]
            assert area.bottom <= places.size[1]
            assert not any(overlap(area, other) for other in areas[number + 1 :])
        for box in parts.boxes:
            area = boxes[box.name]
            inside = frame.x <= area.x and area.right <= frame.right and area.bottom <= frame.bottom
            assert inside if box.name in roles else not overlap(area, frame)

        # No arrow runs through a box, or another label.
        for number, (arrow, line) in enumerate(zip(parts.arrows, places.lines, strict=True)):
            passed = [a for name, a in boxes.items() if name not in (arrow.source, arrow.target)]
            passed += [label for other, label in labels.items() if other != number]
            assert not any(
                area.x + 1 < x < area.right - 1 and area.y + 1 < y < area.bottom - 1
                for x, y in curve(line)
                for area in passed
            )


def test_300_replicas_are_as_many_boxes_as_3():
    ports = (("spec", "network", "hostPorts"), {"base": 20000, "size": 9000})
    many = (("spec", "roles", "worker", "replicas"), 300)
    (job,) = jobs("pytorch-host-network", settings=(ports, many))

    assert [f"{box.title} {box.indexes}" for box in picture(job).roles] == ["rank 0", "rank 1…300"]
    page = drawing(job, "html")
    assert "The first of 300 Jobs, gan-rank-1 to gan-rank-300, which differ in the index." in page
    assert len(page) < 200_000


def test_many_objects_of_a_kind_are_one_box():
    env = {
        f"V{n}": {"valueFrom": {"secretKeyRef": {"name": f"s{n}", "key": "k"}}} for n in range(5)
    }
    source = [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "s9"}}]
    template = {"spec": {"containers": [{"name": "main", "envFrom": source}]}}
    settings = ((("spec", "env"), env), (("spec", "template"), template))
    (job,) = jobs("tensorflow-ps", settings=settings)

    drawing = picture(job)

    assert [(box.title, box.lines) for box in drawing.others] == [
        ("6 Secrets", ("Secret",)),
        ("all", ("ConfigMap",)),
    ]
    assert drawing.shared == ("storage_0", "storage_1")


def test_the_page_needs_nothing_else():
    (job,) = jobs("tensorflow-tensorboard")
    page = drawing(job, "html")

    assert page.count("<section ") == 1 + page.count(' data-box="')
    assert not [word for word in ("src=", "href=", "@import", "url(http") if word in page]


@pytest.mark.parametrize(
    ("name", "start"),
    [("x.svg", "<svg "), ("x.html", "<!DOCTYPE html>"), ("x.dot", "digraph "), ("x", "flowchart ")],
)
def test_the_name_of_the_file_chooses_the_format(name, start, tmp_path):
    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "-o", tmp_path / name)

    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / name).read_text().startswith(start)


def test_an_ending_without_a_format_is_refused(tmp_path):
    file = ROOT / "fixtures/tensorflow-ps.yaml"
    refused = run(file, "-o", tmp_path / "x.png")
    forced = run(file, "-o", tmp_path / "x.txt", "--format", "dot")

    assert refused.exit_code == 2
    assert (
        "unknown file type .png; use .mmd, .dot, .svg or .html, or add --format" in refused.stderr
    )
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
    assert "jobs.yaml has 2 jobs; a picture shows one" in result.stderr


def test_without_igraph_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "igraph", None)

    result = run(ROOT / "fixtures/tensorflow-ps.yaml", "--format", "svg")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: --format svg needs igraph; install it: pip install 'mlgen[graph]'\n"
    )
    assert run(ROOT / "fixtures/tensorflow-ps.yaml").exit_code == 0


def test_arrows_that_close_a_cycle_point_up():
    sizes = dict.fromkeys("abc", (100.0, 50.0))
    links = [Link("a", "b", 60, 18), Link("b", "c"), Link("c", "a", 60, 18), Link("b", "a")]

    placed = layout(sizes, links)

    down = [line[0][1] < line[-1][1] for line in placed.lines]
    assert down == [True, True, False, False]
    assert [label is None for label in placed.labels] == [False, True, False, True]


def test_long_texts_lose_their_middle():
    assert shortened("short", 12, 100) == "short"
    short = shortened("a-very-long-name-of-an-image", 12, 80)
    assert (short[:3], short[-3:]) == ("a-v", "age")
    assert width(short, 12) <= 80
    assert shortened("m", 12, 1) == "…"
