"""The pictures show the jobs of their pages. `.ci/pictures` draws them again."""

import re

import pytest
from click.testing import CliRunner
from pages import pictures

from mlgen.cli import main


def description(svg):
    """Return what a picture shows, in words, which does not depend on its layout."""
    return re.findall(r"<(?:title|desc)\b[^>]*>([^<]*)<", svg)[:2]


@pytest.mark.parametrize(
    ("path", "job"), [*pictures()], ids=lambda value: getattr(value, "stem", "")
)
def test_a_picture_shows_the_job_of_its_page(path, job, tmp_path):
    pytest.importorskip("igraph", reason="drawing needs: pip install '.[graph]'")
    (tmp_path / "job.yaml").write_text(job)

    result = CliRunner().invoke(main, ["graph", str(tmp_path / "job.yaml"), "--format", "svg"])

    assert result.exit_code == 0, result.stderr
    assert description(path.read_text()) == description(result.stdout), "run .ci/pictures"
