"""Tests without a cluster: the jobs, and the check of their steps."""

import pytest
from chaos.jobs import BYSTANDER, GANG, JOBS, problems_of_steps, settings

import mlgen

SETTINGS = tuple((tuple(path.split(".")), value) for path, value in settings("/d").items())


@pytest.mark.parametrize("job", [*JOBS, BYSTANDER], ids=lambda job: job.name)
def test_a_job_renders_without_a_warning(job):
    result = mlgen.validate(job.file, mlgen.Options(settings=SETTINGS))

    assert (result.errors, result.warnings) == ((), ())
    assert result.objects


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        (["a 1", "a 2", "b 2", "b 3"], []),
        (["a 1", "a 2", "b 3"], []),
        (["a 1", "a 3"], ["step 3 after 1"]),
        (["a 1", "a 2", "b 1", "b 2", "b 3"], ["step 1 after 2"]),
        (["a 1", "b 1", "a 2", "b 3"], ["two attempts at once", "two attempts at once"]),
        (["a 1", "a 2"], ["ends at step 2, not 3"]),
        ([], ["ends at step 0, not 3"]),
    ],
)
def test_a_gap_in_the_steps_is_found(tmp_path, lines, problems):
    job = type(GANG)("one", "one", steps=(("one", 3),))
    if lines:
        (tmp_path / "steps-one").write_text("\n".join(lines))

    assert [f"one: {text}" for text in problems] == list(problems_of_steps(job, tmp_path))
