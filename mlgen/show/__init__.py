"""Rendered jobs → pages for a person: a job, one of its replicas, or the whole job file."""

from collections.abc import Sequence

from mlgen.result import Rendered
from mlgen.show.defaults import whole
from mlgen.show.page import page
from mlgen.show.replica import replica_page


def text(jobs: Sequence[Rendered], replica: str | None = None, *, defaults: bool = False) -> str:
    """Return the pages of jobs.

    Args:
        jobs: the rendered jobs.
        replica: show only this replica of the single job, such as `worker-3`.
        defaults: show the job files with all defaults instead.

    Raises:
        ValueError: there is no such replica, or more than one job.
    """
    if replica is not None:
        return replica_page(jobs, replica)
    if defaults:
        return "".join(map(whole, jobs))
    return "\n".join(map(page, jobs))
