"""The pictures show the jobs and the session of their pages. `.ci/pictures` draws them again."""

import html
import re

import pytest
from pages import pictures
from recording import PATH, recording

from mlgen import validate
from mlgen.graph import dot
from mlgen.graph.model import picture


def texts(svg):
    """Return the texts of a picture, in no order: versions of Graphviz place them elsewhere."""
    found = re.findall(r"<(?:title|text)\b[^>]*>([^<]*)<", svg)
    return sorted(html.unescape(each).replace("\xa0", " ") for each in found)


def expected(job):
    """Return the titles and labels that a graph asks for, as `texts` does."""
    shown = picture(job)
    boxes = [*shown.roles, *shown.others, *([shown.supervisor] if shown.supervisor else [])]
    arrows = re.findall(r"(\w+) -> (\w+)", dot.dot(shown))
    return sorted(
        [
            *(text for box in boxes for text in (box.name, *box.texts)),
            *(f"{source}->{target}" for source, target in arrows),
            *(arrow.label for arrow in shown.arrows if arrow.label),
            *(shown.title, f"cluster_{shown.frame.name}", ", ".join(shown.frame.texts)),
        ]
    )


@pytest.mark.parametrize(
    ("path", "job"), [*pictures()], ids=lambda value: getattr(value, "stem", "")
)
def test_a_picture_shows_the_job_of_its_page(path, job, tmp_path):
    (tmp_path / "job.yaml").write_text(job)
    (rendered,) = validate(str(tmp_path / "job.yaml")).jobs

    assert texts(path.read_text()) == expected(rendered), "run .ci/pictures"


def test_the_recording_shows_the_session_of_its_page():
    assert PATH.read_text() == recording(), "run .ci/pictures"
