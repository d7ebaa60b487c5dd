"""The pictures show the jobs and the session of their pages. `.ci/pictures` draws them again."""

import html
import re

from pages import DOCS, pictures
from recording import PATH, recording

from mlgen import graph, validate
from mlgen.graph import picture


def texts(svg):
    """Return the texts of a picture, sorted, because their order depends on Graphviz."""
    found = re.findall(r"<(?:title|text)\b[^>]*>([^<]*)<", svg)
    return sorted(html.unescape(each).replace("\xa0", " ") for each in found)


def expected(job):
    """Return the titles and labels of a graph, as `texts` does."""
    shown = picture(job)
    boxes = [*shown.roles, *shown.others, *([shown.supervisor] if shown.supervisor else [])]
    arrows = re.findall(r"(\w+) -> (\w+)", graph.dot(shown))
    return sorted(
        [
            *(text for box in boxes for text in (box.name, *box.texts)),
            *(f"{source}->{target}" for source, target in arrows),
            *(arrow.label for arrow in shown.arrows if arrow.label),
            *(shown.title, f"cluster_{shown.frame.name}", ", ".join(shown.frame.texts)),
        ]
    )


def drawn_boxes(svg):
    """Return the colors of each box and its border, and whether the border is dashed and wide."""
    title = r'class="node">\n<title>(\w+)</title>\n'
    shape = r'<(?:path|polygon) fill="(.*?)" stroke="(.*?)"(.*?) (?:d|points)="'
    found = re.findall(title + shape, svg)
    return {n: (fill, color, "dash" in line, "width" in line) for n, fill, color, line in found}


def expected_boxes(job):
    """Return the boxes of a graph, as `drawn_boxes` does."""
    shape = r'^ +(\w+) \[label=.* style=(\S+) fillcolor="(.*?)" color="(.*?)"(.*)\]$'
    found = re.findall(shape, graph.dot(picture(job)), re.MULTILINE)
    return {n: (fill, color, "dash" in style, "width" in w) for n, style, fill, color, w in found}


def rendered(job, folder):
    """Return the job rendered from a text."""
    (folder / "job.yaml").write_text(job)
    (only,) = validate(str(folder / "job.yaml")).jobs
    return only


def test_a_picture_shows_the_job_of_its_page(tmp_path, subtests):
    """Places and shapes of boxes depend on the version of Graphviz, and are not compared."""
    for path, text in pictures():
        with subtests.test(path.stem):
            job, kept = rendered(text, tmp_path), path.read_text()

            assert texts(kept) == expected(job), "run .ci/pictures"
            assert drawn_boxes(kept) == expected_boxes(job) != {}, "run .ci/pictures"


def test_the_recording_shows_the_session_of_its_page():
    assert PATH.read_text() == recording(), "run .ci/pictures"


def test_no_picture_is_left_over():
    by_hand = {DOCS / f"images/{name}.svg" for name in ("concepts", "dashboard")}
    drawn = {path.resolve() for path, _ in pictures()} | {PATH} | by_hand

    assert {path for path in (DOCS / "images").rglob("*") if path.is_file()} == drawn
