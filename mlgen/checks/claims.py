"""The claims that a job creates → a warning for each that no pod mounts."""

from collections.abc import Iterator

from mlgen.checks.pods import Objects
from mlgen.problems import Problem, did_you_mean


def problems(job: Objects) -> Iterator[Problem]:
    """Return a warning for each claim that is created, but not mounted."""
    mounted = {
        volume.get("persistentVolumeClaim", {}).get("claimName")
        for pods in job.distinct_pods
        for _, volume in pods.volumes()
    } - {None}
    created = job.of_kind("PersistentVolumeClaim")
    for name in created:
        if name not in mounted:
            message = f"no pod mounts the claim {name}"
            similar = did_you_mean(name, sorted(mounted - created.keys()))
            hint = similar or f"write pvc: {name} in a volume, or remove it"
            yield Problem(("spec", "claims", name), message, "no-effect", hint, warning=True)
