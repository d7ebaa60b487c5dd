"""Rules about a whole job: `Topology` → the contradictions in its job file.

Each compares fields of the job file with each other, or with the roles of the finished topology.
Rules about commands and variables are in `mlgen/launch`.
"""

from collections.abc import Iterator

from mlgen.contradictions import pods, restarts  # noqa: F401  # they register rules
from mlgen.contradictions.lifecycle import (
    of_jobs,
    of_network,
    of_run_policy,
    of_scheduling,
    of_success,
)
from mlgen.jobfile.model import written
from mlgen.problems import Problem
from mlgen.topology import Topology


def contradictions(topology: Topology) -> Iterator[Problem]:
    """Yield the problems of fields that contradict each other."""
    job = topology.job
    yield from of_jobs.broken_by(topology)
    for part, rules in (
        (job.network, of_network),
        (job.run_policy, of_run_policy),
        (job.scheduling, of_scheduling),
        (job.success_policy, of_success),
    ):
        if written(part):
            yield from rules.broken_by(topology)
