"""What Trainer's webhooks reject, and fields without an effect.

Sources, in kubeflow/trainer v2.3.0: pkg/webhooks/trainingruntime_webhook.go, and `Validate` of the
plugins in pkg/runtime/framework/plugins.
"""

from collections.abc import Iterator
from itertools import chain

from mlgen.dialects._schemas import read
from mlgen.dialects.trainer import runtimes
from mlgen.dialects.trainer.job import (
    CONTAINERS,
    INITIALIZERS,
    NODE,
    POD,
    STEP,
    TRAINER,
    TrainJob,
    container,
    step,
)
from mlgen.dialects.trainer.merge import Written

POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")
"""The ML policies, of which a runtime has at most one."""

BEFORE_RESERVED = ("2.1", "2.2")
"""The versions of Trainer that accept variables with a value of the plugin mpi."""

CONFIGURED = {TRAINER: NODE} | {name: name for name in INITIALIZERS.values()}
"""The container that a part of the TrainJob configures, by the value of the label `STEP`."""


def check(job: TrainJob) -> None:
    """Report what Trainer would reject, and parts of the TrainJob without effect."""
    _check_steps(job)
    _check_initializers(job)
    _check_policy(job)
    for targets, pod in _patches(job):
        _check_patch(job, targets, pod)


def _check_steps(job: TrainJob) -> None:
    """Report Jobs of the runtime that the TrainJob cannot configure."""
    for each in job.jobs():
        name, part = CONFIGURED.get(step(each)), step(each)
        if name and each.get("replicas").value not in (None, 1):
            job.refuse(
                each.get("replicas"),
                f"the Job for the step {part} must have replicas: 1, as Trainer requires",
                "set parallelism or numNodes for more pods",
            )
        if name and not container(each, name):
            job.refuse(
                each.get("name"),
                f'the Job for the step {part} has no container named "{name}", '
                "which Trainer requires",
                f'name its training container "{name}"',
            )
    if job.trainer.value and not job.trained():
        job.warn(
            job.trainer,
            f"has no effect: no Job of the {job.title} has the label {STEP}: {TRAINER}",
            "add the label to the metadata of a Job's template",
        )


def _check_initializers(job: TrainJob) -> None:
    """Report initializers without a Job or a volume."""
    for part, name in INITIALIZERS.items():
        source, found = job.spec.get("initializer", part), job.find(name)
        mounts = container(found, name).get("volumeMounts").items()
        if not found:
            job.refuse(
                source,
                f'the {job.title} has no Job named "{name}", which Trainer requires here',
                "use a runtime with this Job, or remove this field",
            )
        elif "initializer" not in [mount.get("name").value for mount in mounts]:
            job.refuse(
                source,
                f'the container {name} of the {job.title} mounts no volume named "initializer", '
                "which Trainer requires; the data would be lost when the pod ends",
                "add a volume named initializer to the runtime, and mount it in the Jobs "
                f"{name} and node",
            )


def _check_policy(job: TrainJob) -> None:
    """Report ML policies that are not rendered, and variables that they reserve."""
    job.refuse(
        job.policy.get("flux"),
        "Trainer installs Flux in the pods, which mlgen does not",
        "use a runtime with mlPolicy.mpi, or keep Trainer for this job",
    )
    job.warn(
        job.policy.get("torch", "elasticPolicy"),
        "has no effect in Trainer, and none in mlgen",
        "for elastic training, write a job file with options.elasticPolicy",
    )
    first, *others = [*filter(job.is_policy, POLICIES), ""]
    for name in filter(None, others):
        job.refuse(
            job.policy.get(name), f"{first} and {name} are mutually exclusive", "remove one of them"
        )
    reserved = read("trainer")["variables"].get(first, {}) if first != "jax" else {}
    if first == "mpi" and runtimes.version_of(job.runtime) in BEFORE_RESERVED:
        reserved = {}
    for item in job.trainer.get("env").items():
        if (name := item.get("name").value) in reserved:
            job.refuse(
                item.get("name"),
                f"Trainer rejects {name}, which it sets itself with mlPolicy.{first}",
                "remove it",
            )
    wanted = job.trainer.get("numProcPerNode")
    if isinstance(wanted.value, str) and first != "torch":
        job.refuse(wanted, f"{wanted.value} is possible only with mlPolicy.torch", "write a number")
    if not job.policy:
        job.warn(
            job.trainer.get("resourcesPerNode"),
            f"has no effect: the {job.title} has no mlPolicy",
            "add mlPolicy to the runtime, or set resources in its template",
        )


def _patches(job: TrainJob) -> Iterator[tuple[list[Written], Written]]:
    """Yield the names of the Jobs that each patch changes, and its patch of their pods."""
    for each in job.patches():
        yield [each.get("name")], each.get(*POD)
    fields = ("podTemplateOverrides", "podSpecOverrides")
    for override in chain.from_iterable(job.spec.get(field).items() for field in fields):
        targets = [target.get("name") for target in override.get("targetJobs").items()]
        yield targets, override.get("spec") or override


def _check_patch(job: TrainJob, targets: list[Written], pod: Written) -> None:
    """Report Jobs and containers that do not exist, and variables that Trainer rejects."""
    known = [target for target in targets if job.require(target)]
    for each in chain.from_iterable(pod.get(kind).items() for kind in CONTAINERS):
        name, env = each.get("name"), each.get("env")
        for target in known:
            found = job.find(str(target.value))
            if not any(container(found, str(name.value), kind) for kind in CONTAINERS):
                job.refuse_container(name, target.value)
        if env.value and name.value in CONFIGURED.values():
            job.refuse(
                env,
                f"Trainer rejects variables of the container {name.value} here",
                "set them in trainer.env or initializer",
            )
