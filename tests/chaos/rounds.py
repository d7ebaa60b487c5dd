"""Rounds: the fault, its moment, the job, and the result."""

import random
from dataclasses import dataclass, field
from itertools import product

from faults import FAULTS
from jobs import ENDS, GANG, JOBS, RESTARTS, STARTS, TRAINS, Job
from nodes import LostNode

PAIRS = 0.2
"""The share of rounds with two faults."""

CALM = 120.0
"""Time limit in seconds for a job that is not disturbed."""


@dataclass
class Round:
    """A drawn round, and later its result."""

    number: int
    seed: int
    faults: tuple[type, ...]
    moment: str
    job: Job
    history: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    calm: float = CALM
    """Seconds that the job takes without a fault."""
    seconds: float = 0.0
    """From applying the job to its end."""
    broken: float = 0.0
    """Seconds during which a fault was active."""
    in_place: bool = False
    """True if the gang restarts in its pods."""
    memory: int = 0
    """The supervisor's peak memory in MB."""

    @property
    def delay(self):
        """Seconds by which the job ended later, without the duration of the faults."""
        return self.seconds - self.calm - self.broken

    @property
    def bound(self):
        """The largest accepted delay."""
        return sum(fault.delay for fault in self.faults) + self.job.delay

    @property
    def title(self):
        names = " and ".join(fault.name for fault in self.faults) or "nothing"
        return f"{names} while {self.job.name} {self.moment}"


def drawn(rounds, seed, jobs=JOBS):
    """Return the rounds of a seed: each fault at each moment in turn, and some in pairs."""
    chance = random.Random(seed)
    found = []
    while len(found) < rounds:
        deck = list(product(FAULTS, (STARTS, TRAINS, RESTARTS, ENDS)))
        chance.shuffle(deck)
        for fault, moment in deck:
            faults = (fault,)
            if chance.random() < PAIRS:
                faults = (fault, chance.choice([each for each in FAULTS if each is not fault]))
            job = chance.choice([job for job in jobs if moment in job.moments])
            found.append(Round(len(found) + 1, seed, faults, moment, job))
    return found[:rounds]


def calm(job, seed):
    """Return a round without a fault."""
    return Round(0, seed, (), STARTS, job)


def lost(number, seed):
    """Return a round in which a node never returns."""
    moment = (TRAINS, RESTARTS)[number % 2]
    return Round(number, seed, (LostNode,), moment, GANG)
