"""The jobs that are disturbed, and the documented end of each."""

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "jobs"

STARTS, TRAINS, RESTARTS, ENDS = "starts", "trains", "restarts", "ends"


@dataclass(frozen=True)
class Job:
    """A job file of `jobs/`, and its expected end."""

    name: str
    deciding: str
    """The role of the deciding Job."""
    reason: str = "JobSucceeded"
    restarts: int = 0
    spare: int = 0
    """Further restarts that a disturbance may cause."""
    delay: int = 0
    """Seconds that these restarts may take: pauses of 20 and 40, and two starts."""
    steps: tuple[tuple[str, int], ...] = ()
    """The steps of each host that trains to the end or to its failure."""
    moments: tuple[str, ...] = (STARTS, TRAINS, RESTARTS, ENDS)

    cleans: bool = False
    """True if no pod may keep running at the end."""

    @property
    def file(self):
        return FOLDER / f"{self.name}.yaml"


GANG = Job("gang", "worker", restarts=1, steps=(("gang-worker-0", 12), ("gang-worker-1", 12)))
JOBS = (
    GANG,
    Job(
        "servers",
        "chief",
        restarts=1,
        steps=(("servers-chief-0", 12), ("servers-worker-0", 12)),
        cleans=True,
    ),
    Job("limit", "worker", "BackoffLimitExceeded", restarts=1, steps=(("limit-worker-1", 5),)),
    Job(
        "ordered",
        "train",
        steps=(("ordered-prepare-0", 4), ("ordered-train-0", 8)),
        moments=(STARTS, TRAINS, ENDS),
        cleans=True,
    ),
    Job("deadline", "chief", "DeadlineExceeded", moments=(STARTS, TRAINS), cleans=True),
    # A broken connection of kubectl exec fails the launcher.
    Job(
        "mpi",
        "launcher",
        restarts=1,
        spare=2,
        delay=90,
        steps=(("mpi-launcher-0", 12),),
        cleans=True,
    ),
)

GANGS = tuple(job for job in JOBS if job.restarts)
"""The jobs that restart."""

BYSTANDER = Job("bystander", "chief")


def settings(data):
    """Return fields that let a job write to a folder of this machine."""
    files = {"train.sh": (FOLDER / "train.sh").read_text()}
    return {
        "spec.helpers.pythonImage": "mlgen.test/python:3",
        "spec.helpers.kubectlImage": "mlgen.test/kubectl:1.34",
        "spec.volumes.data": {"mountPath": "/data", "hostPath": str(data)},
        "spec.volumes.code": {"mountPath": "/code", "files": files},
    }


IN_PLACE = ["--set=spec.runPolicy.restartMode=InPlace", "--kube-version=1.36"]


def options(data):
    """Return the options of mlgen that set these fields."""
    return [f"--set={path}={json.dumps(value)}" for path, value in settings(data).items()]


def problems_of_steps(job, data):
    """Yield the problems in the recorded steps of each host: gaps, and two trainings at once."""
    for host, last in job.steps:
        file = data / f"steps-{host}"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        attempts, before = [], ""
        at = 0
        for attempt, step in lines:
            if attempt != before and attempt in attempts:
                yield f"{host}: two attempts at once"
            # The step after a crash may be the last one again, if its checkpoint was not written.
            expected = (at + 1,) if attempt == before else (at, at + 1)
            if int(step) not in expected:
                yield f"{host}: step {step} after {at}"
            attempts.append(attempt)
            before, at = attempt, int(step)
        if at != last:
            yield f"{host}: ends at step {at}, not {last}"
