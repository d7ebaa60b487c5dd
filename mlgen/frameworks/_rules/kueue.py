"""The rule on jobs that Kueue manages: Kueue alone decides when they start."""

from collections.abc import Iterator

from mlgen.problems import Problem
from mlgen.topology import Topology


def problems(topology: Topology) -> Iterator[Problem]:
    """Report `suspend`, which Kueue would lift at once, or never.

    Kueue suspends and resumes a Job that it manages as a Job. Plain pods it holds by a scheduling
    gate, and leaves the Jobs of these pods as they are
    (kubernetes-sigs/kueue, pkg/controller/jobs/pod/pod_webhook.go).
    """
    job = topology.job
    if job.run_policy.suspend and job.scheduling.gang == "kueue":
        message = "Kueue alone decides when the job starts"
        path = ("spec", "runPolicy", "suspend")
        yield Problem(path, message, "no-effect", "remove it", warning=True)
