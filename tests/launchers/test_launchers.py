"""Tests without a cluster: the jobs, and the check of their steps."""

import pytest
from launchers.commands import BY_NAME as LAUNCHERS
from launchers.commands import LAUNCHERS as ALL
from launchers.deaths import DEATHS
from launchers.play import Play

import mlgen

EXCEPTION, EXIT_42 = DEATHS[0], DEATHS[4]


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param(each, id=each.name, marks=() if each is ALL[0] else pytest.mark.slow)
        for each in ALL
    ],
)
def test_a_job_of_every_death_renders(launcher, tmp_path):
    for death in DEATHS:
        result = mlgen.validate(Play(None, tmp_path, launcher, death).file())

        assert result.errors == ()
        assert not result.warnings or death is EXIT_42  # the launcher hides the code


def test_launchers_that_hide_exit_codes_are_reported(tmp_path):
    plays = [Play(None, tmp_path, launcher, EXIT_42) for launcher in ALL]
    results = {play.launcher.name: mlgen.validate(play.file()) for play in plays}

    hiding = [name for name, result in results.items() if result.warnings]

    assert hiding == ["torchrun", "accelerate", "horovodrun", "ray"]
    assert [] == [name for name, result in results.items() if result.errors]


DONE = [f"step {step}" for step in range(20)]
AGAIN = [*DONE[:6], "start 6", *DONE[6:]]


@pytest.mark.parametrize(
    ("first", "second", "problems"),
    [
        (["start 0", *AGAIN], ["start 0", *AGAIN], []),
        (["start 0", *DONE[:7], *AGAIN[6:]], ["start 0", *AGAIN], []),
        (
            ["start 0", *DONE],
            ["start 0", *DONE],
            [f"rank {rank}: started 1 times, not 2" for rank in (0, 1)],
        ),
        (
            ["start 0", *DONE[:6], "start 8", *DONE[8:]],
            ["start 0", *AGAIN],
            ["rank 0: start 8 after 6 steps"],
        ),
        (
            ["start 0", *DONE[:3], *AGAIN[4:]],
            ["start 0", *AGAIN],
            ["rank 0: step 4 after 3 steps"],
        ),
        (["start 0", *AGAIN[:-1]], ["start 0", *AGAIN], ["rank 0: 19 steps, not 20"]),
    ],
)
def test_a_gap_in_the_steps_is_found(tmp_path, first, second, problems):
    for rank, lines in enumerate((first, second)):
        (tmp_path / f"log-{rank}").write_text("".join(f"{line} 0.0\n" for line in lines))
    play = Play(None, tmp_path, LAUNCHERS["torchrun"], EXCEPTION)

    assert [*play.problems_of_steps()] == problems


def test_the_time_until_all_train_again_is_that_of_the_last_rank(tmp_path):
    (tmp_path / "died").write_text("100.0")
    (tmp_path / "log-0").write_text("step 5 99.0\nstart 6 110.0\nstep 6 111.0\nstep 7 112.0\n")
    (tmp_path / "log-1").write_text("step 5 99.0\nstart 6 110.0\nstep 6 113.0\n")

    assert Play(None, tmp_path, LAUNCHERS["torchrun"], EXCEPTION).seconds() == 13.0
