"""The size of a job while its framework lays it out, so that what is too large is never built."""

from mlgen.bounds import JOB_BYTES, JOB_OBJECTS, JOB_PODS
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.kubernetes.limits import ENV_SHORT, overlong
from mlgen.problems import MlgenError, Problem
from mlgen.topology import Role

HOST_HINT = "use fewer replicas, or remove network.host: each then needs no Job of its own"


class Size:
    """Counts the objects and the bytes of a job's roles; each method raises `MlgenError`.

    Attributes:
        on_host: whether replicas have a Job each because of their ports on the node.
        objects: the number of Jobs, StatefulSets and Services so far.
        bytes: the number of characters in their variables.
    """

    def __init__(self, job: TrainingJob) -> None:
        self.objects = self.bytes = 0
        self.on_host = job.network.on_host
        pods = sum(spec.replicas for spec in job.roles.values())
        if pods > JOB_PODS:
            largest = max(job.roles.values(), key=lambda spec: spec.replicas)
            message = f"the job has {pods:,} replicas; a cluster runs at most {JOB_PODS:,} pods"
            raise _too_large(largest, message, "use fewer replicas")

    def require(self, spec: RoleSpec, objects: int) -> None:
        """Check that so many more objects fit.

        Args:
            spec: the role whose replicas need them, each at least one.
            objects: Jobs and Services.
        """
        if self.objects + objects > JOB_OBJECTS:
            own = "a Job and a Service" if self.on_host else "a Job"
            message = (
                f"each of the {spec.replicas:,} replicas needs {own} of its own, and a job can have"
                f" {JOB_OBJECTS:,} objects"
            )
            raise _too_large(spec, message, self._cure(spec))

    def add(self, role: Role) -> None:
        """Count a role."""
        self.objects += 2 if role.host_ports else 1
        texts = {name: text for name, text in role.env.items() if isinstance(text, str)}
        self.bytes += sum(map(len, texts.values()))
        path = ("spec", "roles", role.spec.name)
        problems = [
            problem
            for name, text in texts.items()
            if len(text) > ENV_SHORT
            for problem in overlong(path, name, text)
        ]
        if problems:
            raise MlgenError(problems)
        if self.bytes > JOB_BYTES:
            message = f"the variables of the replicas have more than {JOB_BYTES >> 20} MiB together"
            raise _too_large(role.spec, message, self._cure(role.spec))

    def _cure(self, spec: RoleSpec) -> str:
        """Return how a role gets by with fewer objects."""
        if self.on_host:
            return HOST_HINT
        return (
            "use fewer replicas, or give the roles the same fields: "
            f"each {spec.name} then needs no Job of its own"
        )


def _too_large(spec: RoleSpec, message: str, hint: str) -> MlgenError:
    """Return the error for a role with too many replicas."""
    path = ("spec", "roles", spec.name, "replicas")
    return MlgenError([Problem(path, message, "too-large", hint)])
