"""The client: apply, follow, repeat and delete jobs in a cluster.

Every request goes through kubectl, with its contexts and its ways to log in. The commands of the
command line are written on this class.

    >>> cluster = mlgen.Cluster(namespace="team-a")
    >>> cluster.apply(mlgen.load("jobs/bert.yaml", set={"spec.env.LR": "0.1"}))
    >>> for state in cluster.wait("bert"):
    ...     print(state.phase, state.progress)
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlgen import apply as applying
from mlgen import validate
from mlgen.apply import Applied
from mlgen.live import delete as deleting
from mlgen.live import listing, watch
from mlgen.live.job import LiveJob, named, of_file
from mlgen.live.kubectl import ClusterError, Kubectl
from mlgen.live.listing import JobSummary
from mlgen.live.logs import Request, find_replica, find_replicas
from mlgen.live.ranks import LogLine, read_logs
from mlgen.live.state import JobState
from mlgen.result import Foreign, Options, Rendered, Result

if TYPE_CHECKING:
    from mlgen import Source
    from mlgen.options import Settings

Job = str | Rendered
"""A job: its name, `<namespace>/<name>`, or a rendered job of `mlgen.load`."""


class Cluster:
    """The jobs of a cluster.

    Args:
        context: a context of the kubeconfig; None for the current one.
        namespace: of jobs without one; None for the namespace of the context.
        kubectl: runs kubectl instead of `context`. Internal: the commands of mlgen set it.
        tell: is called with each line about the progress. Default: the logger "mlgen".

    All methods raise `ClusterError` if kubectl is not installed or fails, and `MlgenError`, of
    which it is a subclass, for invalid input and for unknown jobs.
    """

    def __init__(
        self,
        context: str | None = None,
        namespace: str | None = None,
        *,
        kubectl: Kubectl | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.namespace = namespace
        self.kubectl = kubectl or Kubectl(context or "")
        self.tell = tell or logging.getLogger("mlgen").info

    def apply(
        self,
        jobs: "Result | Rendered | Source | Iterable[Rendered | Source]",
        *,
        replace: bool = False,
        dry_run: bool = False,
    ) -> list[Applied]:
        """Apply jobs on the server side, and return what was done with each.

        A job that runs, or has ended, with the same job file is left unchanged. So a second call
        has no effect.

        Args:
            jobs: what `mlgen.load` or `mlgen.validate` return, or what they accept.
            replace: True to delete each job that exists, wait until its pods are gone, and apply
                it again.
            dry_run: True to change nothing. The API server checks the objects.

        Raises:
            MlgenError: the input is invalid, or a change would stop a job that runs.
        """
        parts = list(_parts(jobs))
        rendered = (part for part in parts if isinstance(part, Rendered))
        wanted = [applying.wanted(job, self.namespace) for job in rendered]
        steps = applying.steps(self.kubectl, wanted, replace=replace)
        others = [part.document.data for part in parts if isinstance(part, Foreign)]
        return applying.take(self.kubectl, steps, self.tell, others, dry_run=dry_run)

    def rerun(self, *names: str, set: "Mapping[str, Any] | Settings" = ()) -> list[Applied]:  # noqa: A002 - as --set
        """Run jobs again: delete them, wait until their pods are gone, and apply them again.

        Args:
            names: the jobs.
            set: values to override, by path, as in `mlgen.load`.

        Raises:
            MlgenError: the cluster does not show what was applied, or a value is invalid.
        """
        settings = Options(settings=set).settings
        jobs = named(self.kubectl, names, self.namespace)
        wanted = [applying.again(self.kubectl, job, settings) for job in jobs]
        steps = applying.steps(self.kubectl, wanted, replace=True)
        return applying.take(self.kubectl, steps, self.tell)

    def jobs(self, *, selector: str = "", all_namespaces: bool = False) -> list[JobSummary]:
        """Return the jobs of the namespace, sorted by namespace and name.

        Args:
            selector: of their labels, as for kubectl: `team=vision,tier!=test`.
            all_namespaces: True for the jobs of all namespaces.
        """
        return listing.jobs(
            self.kubectl, self.namespace, selector, everywhere=all_namespaces, tell=self.tell
        )

    def status(self, job: Job) -> JobState:
        """Return the state of a job.

        Args:
            job: its name, or a rendered job. If that does not exist, its phase is NotFound.
        """
        return self.states([job])[0]

    def states(self, jobs: Iterable[Job]) -> list[JobState]:
        """Return the states of jobs.

        Args:
            jobs: as for `status`.
        """
        return watch.states(self.kubectl, self.live(jobs))

    def wait(self, *jobs: Job, timeout: float | None = None) -> Iterator[JobState]:
        """Wait until jobs have ended, and yield each state that differs from the one before.

        The last state of each job has `ended`, unless the job does not exist anymore.

        Args:
            jobs: the jobs.
            timeout: in seconds; None for no limit.

        Raises:
            ClusterError: the timeout has passed; its `cause` is "timeout".
        """
        before: list[JobState] = []
        for found in self.poll(jobs, timeout):
            yield from (state for state in found if state not in before)
            before = found
        names = [each.name for each in before if not each.is_over]
        if names or not before:
            message = f"timed out; not finished: {', '.join(names or map(name_of, jobs))}"
            raise ClusterError(message, "timeout")

    def poll(self, jobs: Iterable[Job], timeout: float | None = None) -> Iterator[list[JobState]]:
        """Yield the states of all jobs every two seconds, until they have ended.

        Args:
            jobs: as for `status`.
            timeout: in seconds; None for no limit. Then the last states are those so far.
        """
        return watch.poll(self.kubectl, self.live(jobs), self.tell, timeout)

    def logs(  # noqa: PLR0913 - one for each option of mlgen logs
        self,
        job: Job,
        *,
        rank: int | None = None,
        role: str | None = None,
        index: int | None = None,
        follow: bool = False,
        previous: bool = False,
        container: str = "",
        tail: int | None = None,
        since: float = 0.0,
        timestamps: bool = False,
    ) -> Iterator[str]:
        """Yield the lines of the log of a replica: of rank 0, or of the one that decides.

        Args:
            job: the job.
            rank: the rank of another replica.
            role: its role, instead of a rank.
            index: its index in the role. Default: 0.
            follow: True to continue until the replica or training has ended, also after restarts.
            previous: True for the log before the last restart.
            container: its name; "" for the training container.
            tail: only the last lines; None for all.
            since: only lines of the last seconds; 0 for all.
            timestamps: True if each line begins with its time.
        """
        (found,) = self.live([job])
        replica = find_replica(found, rank, role, index)
        request = Request(found, [replica], container, previous, tail, since, timestamps)
        for line in read_logs(self.kubectl, request, self.tell, follow=follow):
            yield line.text

    def logs_of_all(  # noqa: PLR0913 - one for each option of mlgen logs
        self,
        job: Job,
        *,
        role: str | None = None,
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: float = 0.0,
        timestamps: bool = False,
    ) -> Iterator[LogLine]:
        """Yield the lines of all replicas, or of the replicas of a role.

        Args:
            job: the job.
            role: the role; None for all.
            follow: True to continue until training has ended, also after restarts.
            previous: True for the logs before the last restart.
            tail: only the last lines of each replica; None for all.
            since: only lines of the last seconds; 0 for all.
            timestamps: True if each line begins with its time.
        """
        (found,) = self.live([job])
        chosen = find_replicas(found, role)
        request = Request(found, chosen, "", previous, tail, since, timestamps)
        yield from read_logs(self.kubectl, request, self.tell, follow=follow)

    def delete(self, *jobs: Job, claims: bool = False, dry_run: bool = False) -> deleting.Deletion:
        """Delete all objects of jobs, wait until their pods are gone, and return the objects.

        Args:
            jobs: the jobs.
            claims: True to delete their PersistentVolumeClaims and data as well.
            dry_run: True to delete nothing.
        """
        found = deleting.deletion(self.kubectl, self.live(jobs), claims=claims)
        if not dry_run:
            deleting.delete(self.kubectl, found.objects, self.tell)
        return found

    def live(self, jobs: Iterable[Job]) -> list[LiveJob]:
        """Return jobs as the modules of `mlgen.live` need them. Internal."""
        jobs = list(jobs)
        names = [job for job in jobs if isinstance(job, str)]
        found = iter(named(self.kubectl, names, self.namespace) if names else ())
        return [
            next(found) if isinstance(job, str) else self._in_namespace(of_file(job))
            for job in jobs
        ]

    def _in_namespace(self, job: LiveJob) -> LiveJob:
        return job._replace(namespace=job.namespace or self.namespace)


def name_of(job: Job) -> str:
    """Return the name of a job, as it was given."""
    return job if isinstance(job, str) else job.name


def _parts(jobs: Any) -> "Iterator[Rendered | Foreign]":
    """Yield the rendered jobs and other objects of what `Cluster.apply` takes."""
    if isinstance(jobs, Rendered):
        yield jobs
    elif isinstance(jobs, Result):
        yield from jobs.parts
    elif isinstance(jobs, (Mapping, str, Path)):
        yield from validate(jobs).parts
    else:
        for each in jobs:
            yield from _parts(each)
