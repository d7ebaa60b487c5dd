"""When the deciding Job has succeeded: as `successPolicy` says, else by the framework's default."""

from collections.abc import Iterator

from mlgen.jobfile.model import TrainingJob
from mlgen.problems import Problem
from mlgen.topology import Success

FIRST = Success(indexes="0")
"""Success as soon as replica 0 has succeeded."""

ANY = Success(count=1)
"""Success as soon as any replica has succeeded."""

PATH = ("spec", "successPolicy", "replicas")


def success(job: TrainingJob, default: Success | None, *, needed: bool) -> Success | None:
    """Return when the deciding role has succeeded; None: when all of its replicas have.

    Once a Job's successPolicy is met, the Job controller deletes the pods that still run. With
    cleanPodPolicy None, operators leave them alone. So the framework's default applies only where
    the job is cleaned up anyway, or where its program relies on it.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy

    Args:
        job: the job.
        default: of the framework.
        needed: True if the default applies in any case, because other replicas may fail.
    """
    required = job.success_policy.replicas
    if required is None:
        needed = needed or (default is not None and default.needed)
        return default if needed or job.run_policy.clean_pod_policy != "None" else None
    if required == "All":
        return None
    return FIRST if required == "First" else Success(count=int(required))


def problems(job: TrainingJob, replicas: int, *, split: bool) -> Iterator[Problem]:
    """Return what is wrong with `successPolicy.replicas`.

    Args:
        job: the job.
        replicas: the number of replicas of the deciding role.
        split: there are several, and each of them has a Job of its own.
    """
    required = job.success_policy.replicas
    if required == "All" and split:
        message = "with host networking, each replica has its own Job; without a supervisor, only"
        hint = "remove --no-supervisor, or write First"
        message += " that of replica 0 decides"
        yield Problem(PATH, message, "combination", hint, warning=True)
    elif required not in (None, "First") and split:
        message = "with host networking, each replica has its own Job, and no number can decide"
        yield Problem(PATH, message, "combination", "write All or First")
    if required not in (None, "First", "All") and int(required) > replicas:
        message = f"{required} replicas must succeed, but the deciding role has only {replicas}"
        yield Problem(PATH, message, "combination", f"write at most {replicas}")
