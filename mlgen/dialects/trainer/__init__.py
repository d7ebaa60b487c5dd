"""Kubeflow Trainer: a TrainJob and the runtime that it refers to, trainer.kubeflow.org/v1alpha1.

A TrainJob is merged with its runtime to the JobSet that Trainer would create. The dialect `jobset`
continues with it, so pods keep their host names. Sources, in kubeflow/trainer v2.3.0:

- fields: pkg/apis/trainer/v1alpha1, and for `podTemplateOverrides` and `podSpecOverrides` v2.1.0
  and v2.0.1
- merging: pkg/runtime/core/trainingruntime.go, and plugins/jobset, coscheduling and volcano in
  pkg/runtime/framework
"""

from functools import partial
from typing import Any

from mlgen.dialects._builder import Builder, Dialect, Merged
from mlgen.dialects.trainer import policies, runtimes
from mlgen.dialects.trainer.job import (
    INITIALIZERS,
    LAUNCHER,
    NODE,
    STEP,
    TRAINER,
    TrainJob,
    Written,
    container,
    step,
    tree,
    variables,
    written,
)
from mlgen.dialects.trainer.policies import check
from mlgen.documents.document import Document, Mark
from mlgen.problems import Collector

QUEUE = "scheduling.volcano.sh/queue-name"
"""The annotation of the runtime's template with the name of a Volcano queue."""

CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
"""The value of `managedBy` in TrainJobs that Trainer manages."""

HOSTFILE = "/etc/mpi"
"""The folder of the hostfile."""

TIMEOUT = 60
"""The default of coscheduling's `scheduleTimeoutSeconds`."""


def _merged(document: Document, runtime: Document, collector: Collector) -> Merged:
    """Return the JobSet of a TrainJob."""
    job = TrainJob(written(document), written(runtime), collector)
    check(job)
    collector.raise_errors()
    _patch(job)
    _configure(job)
    _count(job)
    _initialize(job)
    policies.apply(job)
    for each in job.jobs():
        if step(each):  # a label that only Trainer reads
            job.patch(each.name, {"metadata": {"labels": {STEP: None}}})
    data = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": _metadata(job)}
    whole = tree({**data, "spec": job.with_fields(_policies(job))})
    mark = Mark(document.marks.place, origin=(), inner=whole.mark.inner)
    merged = Document(whole.value, mark, converted=True, text=document.text)
    return Merged(merged, partial(_finish, job))


def _patch(job: TrainJob) -> None:
    """Merge `runtimePatches`, and their predecessors, into the JobSet."""
    for each in job.patches():
        if each.get("template"):
            job.patch(each.name, each.get("template"))
    for override in job.spec.get("podTemplateOverrides").items():
        fields = ("metadata", "spec")
        _override(job, override, {k: override.get(k) for k in fields if override.get(k)})
    for override in job.spec.get("podSpecOverrides").items():
        spec = {name: override.get(name) for name in override.value if name != "targetJobs"}
        _override(job, override, {"spec": spec})


def _override(job: TrainJob, override: Written, template: dict[str, Any]) -> None:
    """Merge an override into the pods of its target Jobs."""
    for target in override.get("targetJobs").items():
        job.patch(target.name, {"spec": {"template": template}})


def _configure(job: TrainJob) -> None:
    """Write the image, the command and the resources of `trainer`."""
    names = ("image", "command", "args")
    fields = {name: job.trainer.get(name) for name in names if job.trainer.get(name)}
    for each in job.jobs(TRAINER):
        job.patch_container(each.name, NODE, fields)
    resources = job.trainer.get("resourcesPerNode")
    for name in job.trained() if resources and job.policy else ():
        job.patch_container(name, NODE, {"resources": resources})


def _count(job: TrainJob) -> None:
    """Write the number of pods of each replicated Job."""
    nodes, is_mpi = job.trainer.get("numNodes"), job.is_policy("mpi")
    for each in job.jobs():
        name, count = each.name, each.get("template", "spec", "parallelism")
        if step(each) == TRAINER and job.policy:
            count = job.policy.get("numNodes")
        if step(each) == TRAINER and not is_mpi:
            count = nodes or count
        if name == NODE and is_mpi and nodes:
            count = nodes.as_value(max(nodes.value - job.has_launcher_as_node, 1))
        job.counts[name] = count if count.value else count.as_value(1)
        fields = dict.fromkeys(("parallelism", "completions"), job.counts[name])
        job.patch(name, {"spec": fields})


def _initialize(job: TrainJob) -> None:
    """Write the variables of the initializers."""
    for part, name in INITIALIZERS.items():
        source = job.spec.get("initializer", part)
        for each in job.jobs(name) if source else ():
            uri, secret = source.get("storageUri"), source.get("secretRef", "name")
            items = [{"name": "STORAGE_URI", "value": uri, "valueFrom": None}] if uri else []
            fields: dict[str, Any] = {"env": [*items, *variables(source.get("env"))]}
            if secret:
                before = container(each, name).get("envFrom").items()
                fields["envFrom"] = [*before, {"secretRef": {"name": secret}}]
            job.patch_container(each.name, name, fields)


def _metadata(job: TrainJob) -> dict[str, Any]:
    """Return the metadata of the JobSet, with the labels and annotations of its template."""
    patches = [
        patch.get("trainingRuntimeSpec", "template", "metadata")
        for patch in job.spec.get("runtimePatches").items()
    ]
    own = job.job.get("metadata")
    sources = [job.runtime.get("spec", "template", "metadata"), *patches, job.spec, own]
    names = ("name", "generateName", "namespace")
    metadata: dict[str, Any] = {name: own.get(name) for name in names if own.get(name)}
    for field in ("labels", "annotations"):
        every = [each.get(field) for each in sources]
        metadata[field] = {key: each.get(key) for each in every for key in each.value or ()}
    return {name: value for name, value in metadata.items() if value}


def _policies(job: TrainJob) -> dict[str, Any]:
    """Return the fields of the TrainJob that are also fields of a JobSet."""
    names = ("activeDeadlineSeconds", "managedBy")
    fields = {name: job.spec.get(name) for name in names if job.spec.get(name)}
    fields = {name: field for name, field in fields.items() if field.value != CONTROLLER}
    suspend = job.spec.get("suspend")  # replaces the runtime's, also if it is not set
    return {**fields, "suspend": suspend or None}


def _finish(job: TrainJob, builder: Builder) -> None:
    """Write what a JobSet has no field for: the hostfile and gang scheduling.

    Kueue's queue takes precedence over a gang.
    """
    if job.hostfile and job.find(LAUNCHER):
        files = {"mountPath": HOSTFILE, "files": {"hostfile": job.hostfile}}
        builder.roles[f"{LAUNCHER}-0"].setdefault("volumes", {})["mpi-hostfile"] = files
    policy = job.runtime.get("spec", "podGroupPolicy")
    scheduling = builder.data["spec"].get("scheduling", {})
    for gang in ("coscheduling", "volcano"):
        if policy.get(gang) and scheduling:
            job.warn(
                policy,
                f"Kueue admits all pods of the job together, so no PodGroup for {gang} is rendered",
                f"for {gang} instead, remove the label kueue.x-k8s.io/queue-name",
            )
        elif policy.get(gang):
            scheduling = builder.data["spec"].setdefault("scheduling", {"gang": gang})
            queue = builder.data["metadata"].get("annotations", {}).get(QUEUE)
            if gang == "volcano" and queue:
                scheduling["queue"] = queue
            elif gang == "coscheduling":
                seconds = policy.get(gang, "scheduleTimeoutSeconds").value
                scheduling["scheduleTimeoutSeconds"] = seconds or TIMEOUT
    hint = "pass --set spec.scheduling.topology.key=LABEL to place all pods in one topology domain"
    topology = policy.get("volcano", "networkTopology")
    job.warn(topology, "networkTopology is not rendered", hint)


DIALECT = Dialect(
    groups=("trainer.kubeflow.org",),
    kinds={(runtimes.VERSION, kind): Builder for kind in ("TrainJob", *runtimes.KINDS)},
    find=runtimes.find,
    merged=_merged,
    parts=frozenset((runtimes.VERSION, kind) for kind in runtimes.KINDS),
)
