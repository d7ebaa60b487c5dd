"""A TrainJob, and the JobSet that it is merged to."""

from collections.abc import Iterator
from typing import Any

from mlgen.dialects.trainer.merge import Written, patched, tree
from mlgen.problems import Collector, choice

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a replicated Job that shows which part of the TrainJob configures it."""

TRAINER = "trainer"
"""The value of `STEP` for the Jobs that `spec.trainer` configures."""

NODE, LAUNCHER = "node", "launcher"
"""The replicated Jobs with the nodes of MPI and with mpirun. The first is also the container that
`spec.trainer` configures."""

INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
"""The value of `STEP`, the Job and the container, by field of `spec.initializer`."""

POD = ("template", "spec", "template", "spec")
"""The path of the pods of a replicated Job."""

CONTAINERS = ("containers", "initContainers")


class TrainJob:
    """A TrainJob that is merged with its runtime.

    Attributes:
        job: the TrainJob.
        runtime: its runtime.
        jobset: the `spec` of the JobSet.
        collector: collects problems.
        counts: the number of pods of each replicated Job.
        hostfile: of mpirun, for which a JobSet has no field; "" for none.
    """

    def __init__(self, job: Written, runtime: Written, collector: Collector) -> None:
        self.job, self.runtime, self.collector = job, runtime, collector
        self.spec, self.trainer = job.get("spec"), job.get("spec", "trainer")
        self.policy = runtime.get("spec", "mlPolicy")
        self.jobset = runtime.get("spec", "template", "spec")
        metadata = job.value["metadata"]
        self.name = metadata.get("name") or metadata.get("generateName", "").rstrip("-.")
        self.counts: dict[str, Written] = {}
        self.hostfile = ""

    def refuse(self, source: Written, message: str, hint: str = "") -> None:
        """Report an error about a value, unless it is not set; see `Builder.refuse`."""
        if source:
            self.collector.add(source.problem(message, hint))

    def warn(self, source: Written, message: str, hint: str = "") -> None:
        """Report a difference from Trainer, unless the value is not set; see `Builder.warn`."""
        if source:
            self.collector.add(source.problem(message, hint, warning=True))

    def refuse_container(self, source: Written, job: object) -> None:
        """Report the name of a container that a replicated Job does not have."""
        self.refuse(
            source,
            f'the Job {job} of the runtime has no container named "{source.value}"',
            "Trainer changes existing containers only",
        )

    def jobs(self, part: str = "") -> list[Written]:
        """Return the replicated Jobs, or only those that a part of the TrainJob configures."""
        jobs = self.jobset.get("replicatedJobs").items()
        return [job for job in jobs if not part or step(job) == part]

    def patches(self) -> Iterator[Written]:
        """Yield the replicated Jobs in `runtimePatches`."""
        for patch in self.spec.get("runtimePatches").items():
            yield from patch.get(
                "trainingRuntimeSpec", "template", "spec", "replicatedJobs"
            ).items()

    def patch(self, job: str, template: Any) -> None:
        """Merge a patch of the template of a replicated Job."""
        node = tree({"replicatedJobs": [{"name": job, "template": template}]})
        self.jobset = patched(self.jobset, node)

    def patch_pod(self, job: str, spec: Any) -> None:
        """Merge a patch of the pods of a replicated Job."""
        self.patch(job, {"spec": {"template": {"spec": spec}}})

    def patch_container(self, job: str, name: str, fields: Any, kind: str = "containers") -> None:
        """Merge a patch of a container of a replicated Job, if the container exists."""
        if container(self.find(job), name, kind):
            self.patch_pod(job, {kind: [{"name": name, **fields}]})

    def with_fields(self, fields: dict[str, Any]) -> Written:
        """Return the `spec` of the JobSet with further fields."""
        return patched(self.jobset, tree(fields))

    def find(self, name: str) -> Written:
        """Return a replicated Job by its name."""
        return next((job for job in self.jobs() if job.name == name), Written(None))

    def require(self, name: Written) -> bool:
        """Return True if the runtime has a replicated Job of this name; else report it."""
        names = [each.name for each in self.jobs()]
        if name.value not in names:
            self.refuse(
                name,
                f'the {self.title} has no Job named "{name.value}"',
                choice(str(name.value), names),
            )
        return name.value in names

    def is_policy(self, name: str) -> bool:
        """Return True if the runtime has this ML policy."""
        return bool(self.policy.get(name))

    @property
    def leader(self) -> str:
        """The address of the first node."""
        return f"{self.name}-{NODE}-0-0.{self.subdomain}"

    @property
    def subdomain(self) -> str:
        """The subdomain of the pods."""
        return str(self.jobset.get("network", "subdomain").value or self.name)

    @property
    def title(self) -> str:
        """The kind and name of the runtime."""
        return f"{self.runtime.value['kind']} {self.runtime.value['metadata'].get('name')}"

    @property
    def resources(self) -> dict[str, Any]:
        """The resources of a node, from which Trainer computes the number of processes."""
        given = self.trainer.get("resourcesPerNode").value
        if given is not None:
            return dict(given)
        for each in self.jobs():
            if each.name == NODE or step(each) == TRAINER:
                resources = container(each, NODE).get("resources").value
                if resources is not None:
                    return dict(resources)
        return {}

    @property
    def has_launcher_as_node(self) -> bool:
        """True if mpirun also starts processes in the launcher."""
        return bool(self.policy.get("mpi", "runLauncherAsNode").value)

    def trained(self) -> list[str]:
        """Return the replicated Jobs that `trainer` configures."""
        names = [job.name for job in self.jobs(TRAINER)]
        return [*names, *([NODE] if self.has_launcher_as_node and NODE not in names else [])]


def step(job: Written) -> str:
    """Return the part of the TrainJob that configures a replicated Job."""
    return str(job.get("template", "metadata", "labels", STEP).value or "")


def container(job: Written, name: str, kind: str = "containers") -> Written:
    """Return a container of a replicated Job by its name."""
    items = job.get(*POD, kind).items()
    return next((item for item in items if item.name == name), Written(None))


def variables(env: Written) -> list[dict[str, Any]]:
    """Return variables as a patch that replaces variables of the same name."""
    empty = {"value": None, "valueFrom": None}
    return [empty | {field: item.get(field) for field in item.value} for item in env.items()]
