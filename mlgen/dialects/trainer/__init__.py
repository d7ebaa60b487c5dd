"""Kubeflow Trainer: a TrainJob and the runtime that it refers to, trainer.kubeflow.org/v1alpha1.

A TrainJob is merged with its runtime to the JobSet that Trainer would create. The dialect `jobset`
continues with it, so pods keep their host names. Sources, in kubeflow/trainer v2.3.0:

- fields: pkg/apis/trainer/v1alpha1, and for `podTemplateOverrides` and `podSpecOverrides` v2.1.0
  and v2.0.1
- merging: pkg/runtime/core/trainingruntime.go, and plugins/jobset in pkg/runtime/framework
- rejections: pkg/webhooks, and `Validate` of the plugins
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder, Dialect, Merged
from mlgen.dialects._schemas import PROBLEMS, read
from mlgen.dialects.trainer import policies
from mlgen.dialects.trainer.merge import Written, patched, tree, written
from mlgen.documents.document import Document, Mark
from mlgen.documents.files import Text
from mlgen.problems import Collector, Place, did_you_mean

VERSION = "trainer.kubeflow.org/v1alpha1"

RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
"""The kinds of runtimes. The first is the default of `runtimeRef.kind`."""

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a replicated Job that shows which part of the TrainJob configures it."""

CONTAINERS = {
    "trainer": "node",
    "dataset-initializer": "dataset-initializer",
    "model-initializer": "model-initializer",
}
"""The container that a part of the TrainJob configures, by the value of the label `STEP`."""

NODE, LAUNCHER = "node", "launcher"
"""The replicated Jobs with the nodes of MPI and with mpirun. The first is also a container."""

QUEUE = "scheduling.volcano.sh/queue-name"
CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
"""The value of `managedBy` in TrainJobs that Trainer manages."""

HOSTFILE = "/etc/mpi"


class TrainJob:
    """A TrainJob that is merged with its runtime.

    Attributes:
        job: the TrainJob.
        runtime: its runtime.
        jobset: the `spec` of the JobSet.
        collector: collects problems.
    """

    def __init__(self, job: Written, runtime: Written, collector: Collector) -> None:
        self.job, self.runtime, self.collector = job, runtime, collector
        self.spec, self.trainer = job.get("spec"), job.get("spec", "trainer")
        self.policy = runtime.get("spec", "mlPolicy")
        self.jobset = runtime.get("spec", "template", "spec")
        self.name = str(job.get("metadata", "name").value)
        self.counts: dict[str, Written] = {}

    def report(self, name: str, source: Written, /, **values: object) -> None:
        """Report a value, as a row of `problems.json`, unless it is not set."""
        if source:
            self.collector.add(source.problem(read(PROBLEMS)[name], **values))

    def jobs(self, step: str = "") -> list[Written]:
        """Return the replicated Jobs, or only those that a part of the TrainJob configures."""
        jobs = self.jobset.get("replicatedJobs").items()
        return [job for job in jobs if not step or _step(job) == step]

    def patch(self, job: str, template: Any) -> None:
        """Merge a patch of the template of a replicated Job."""
        node = tree({"replicatedJobs": [{"name": job, "template": template}]})
        self.jobset = patched(self.jobset, node)

    def patch_pod(self, job: str, spec: Any) -> None:
        """Merge a patch of the pods of a replicated Job."""
        self.patch(job, {"spec": {"template": {"spec": spec}}})

    def patch_container(self, job: str, name: str, fields: Any, kind: str = "containers") -> None:
        """Merge a patch of a container of a replicated Job, if the container exists."""
        if _container(self._job(job), name, kind):
            self.patch_pod(job, {kind: [{"name": name, **fields}]})

    def _job(self, name: str) -> Written:
        return next((job for job in self.jobs() if job.get("name").value == name), Written(None))

    def is_policy(self, name: str) -> bool:
        """Return True if the runtime has this ML policy."""
        return bool(self.policy.get(name))

    @property
    def leader(self) -> str:
        """The address of the first node."""
        return f"{self.name}-{NODE}-0-0.{self.name}"

    @property
    def nodes_have_launcher(self) -> bool:
        """True if mpirun also starts processes in the launcher."""
        return bool(self.policy.get("mpi", "runLauncherAsNode").value)

    def trained(self) -> list[str]:
        """Return the replicated Jobs that `trainer` configures."""
        names = [str(job.get("name").value) for job in self.jobs("trainer")]
        return [*names, *([NODE] if self.nodes_have_launcher and NODE not in names else [])]


def _step(job: Written) -> str:
    """Return the part of the TrainJob that configures a replicated Job."""
    return str(job.get("template", "metadata", "labels", STEP).value or "")


def _container(job: Written, name: str, kind: str = "containers") -> Written:
    """Return a container of a replicated Job by its name."""
    items = job.get("template", "spec", "template", "spec", kind).items()
    return next((item for item in items if item.get("name").value == name), Written(None))


def _merged(document: Document, runtimes: Iterable[Document], collector: Collector) -> Merged:
    """Return the JobSet of a TrainJob: see `Dialect.merge`."""
    runtime = _runtime(document, runtimes, collector)
    job = TrainJob(written(document), written(runtime), collector)
    _check(job)
    _patch(job)
    _check_patches(job)
    _configure(job)
    _count(job)
    _initialize(job)
    finish = _apply_policy(job)
    metadata = _metadata(job)
    data = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    jobset = patched(job.jobset, tree(_policies(job)))
    for each in jobset.get("replicatedJobs").items():
        name = each.get("name").value
        if _step(each):
            node = {"metadata": {"labels": {STEP: None}}}
            patch = tree({"replicatedJobs": [{"name": name, "template": node}]})
            jobset = patched(jobset, patch)
    whole = tree({**data, "metadata": metadata, "spec": jobset})
    mark = Mark(document.marks.place, origin=(), inner=whole.mark.inner)
    result = Document(whole.value, mark, converted=True, text=document.text)
    return Merged(result, lambda builder: _finish(job, builder, finish))


def _runtime(document: Document, runtimes: Iterable[Document], collector: Collector) -> Document:
    """Return the runtime of a TrainJob.

    The first one of its kind and name is used: from the input, from --runtime, or the copy of a
    runtime that Trainer publishes.

    Raises:
        MlgenError: it is unknown.
    """
    reference = written(document).get("spec", "runtimeRef")
    kind, name = reference.get("kind").value or RUNTIMES[0], reference.get("name")
    namespace = document.data["metadata"].get("namespace")
    known = [each for each in runtimes if each.data["kind"] == kind]
    for runtime in known:
        metadata = runtime.data.get("metadata") or {}
        inside = {namespace, metadata.get("namespace")} - {None}
        if metadata.get("name") == name.value and (kind == RUNTIMES[0] or len(inside) < 2):
            place = runtime.place(())
            is_copy = place.file.startswith(f"{name.value} of Trainer ")
            marks = _uniform(runtime.data, place._replace(line=0)) if is_copy else runtime.marks
            return replace(runtime, marks=marks)
    newest = versions()[0]
    published = {each.data["metadata"]["name"]: each for each in published_runtimes(newest)}
    if kind == RUNTIMES[0] and name.value in published:
        row = read(PROBLEMS)["published-runtime"]
        collector.add(name.problem(row, version=newest))
        return published[name.value]
    names = [str((each.data.get("metadata") or {}).get("name")) for each in known]
    every = [*names, *(published if kind == RUNTIMES[0] else ())]
    hint = did_you_mean(str(name.value), every)
    option = "" if kind == RUNTIMES[0] or not namespace else f" -n {quote(str(namespace))}"
    command = f"kubectl get {kind.lower()} {quote(str(name.value))}{option} -o yaml > runtime.yaml"
    hint = hint or f"pass --runtime runtime.yaml, from: {command}"
    where = f" or among Trainer {newest}'s" if kind == RUNTIMES[0] else ""
    row = read(PROBLEMS)["unknown-runtime"]
    collector.add(name.problem(row, kind=kind, where=where, hint=hint))
    collector.raise_errors()
    raise AssertionError


def published_runtimes(version: str) -> list[Document]:
    """Return the copies of the runtimes that a version of Trainer publishes, such as `2.3`."""
    table = read("trainer_runtimes")
    full, found = table["versions"][version], []
    for row in table["runtimes"]:
        if version in row["versions"]:
            metadata = {"name": row["name"]}
            data = {"apiVersion": VERSION, "kind": RUNTIMES[0], "metadata": metadata}
            data |= {"spec": _with_version(row["spec"], full)}
            place = Place(f"{row['name']} of Trainer {full}", 0)
            found.append(Document(data, _uniform(data, place)))
    return found


def versions() -> list[str]:
    """Return the versions of Trainer whose runtimes are known, the newest first."""
    return list(read("trainer_runtimes")["versions"])


def published_texts(name: str) -> list[Text]:
    """Return the runtimes of a version of Trainer, such as `2.2` or `v2.2.0`; [] for other names.

    Only the first two numbers count.
    """
    match = re.fullmatch(r"v?(\d+\.\d+)(?:\.\d+)?", name)
    known = published_runtimes(match[1]) if match and match[1] in versions() else []
    return [Text(each.place(()).file, json.dumps(each.data)) for each in known]


def _with_version(value: Any, version: str) -> Any:
    """Return a copy of a value with the version in the place of `{version}`."""
    if isinstance(value, dict):
        return {key: _with_version(item, version) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_version(item, version) for item in value]
    return value.replace("{version}", version) if isinstance(value, str) else value


def _uniform(value: Any, place: Place) -> Mark:
    """Return marks with the same place for all values."""
    items: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    items = value.items() if isinstance(value, dict) else items
    return Mark(place, place, inner={step: _uniform(item, place) for step, item in items})


def _check(job: TrainJob) -> None:
    """Report a runtime that Trainer would reject, and parts of the TrainJob without effect."""
    for each in job.jobs():
        name = CONTAINERS.get(_step(each))
        if name and each.get("replicas").value not in (None, 1):
            job.report("runtime-replicas", each.get("replicas"), step=_step(each))
        if name and not _container(each, name):
            job.report("runtime-container", each.get("name"), step=_step(each), name=name)
    named = {each.get("name").value for each in job.jobs()}
    for part, step in (("dataset", "dataset-initializer"), ("model", "model-initializer")):
        source = job.spec.get("initializer", part)
        jobs = [each for each in job.jobs() if each.get("name").value == step]
        mounts = [
            mount.get("name").value
            for each in jobs
            for mount in _container(each, step).get("volumeMounts").items()
        ]
        if source and step not in named:
            job.report("no-initializer", source, name=step, runtime=_title(job))
        elif source and "initializer" not in mounts:
            job.report("initializer-volume", source, name=step, runtime=_title(job))
    if job.trainer.value and not job.trained():
        job.report("no-trainer", job.trainer, label=f"{STEP}: trainer", runtime=_title(job))
    if job.is_policy("flux"):
        job.report("flux", job.policy.get("flux"))
    job.report("elastic-policy", job.policy.get("torch", "elasticPolicy"))
    chosen = [name for name in ("torch", "mpi", "jax", "xgboost", "flux") if job.is_policy(name)]
    for name in chosen[1:]:
        job.report("two-policies", job.policy.get(name), first=chosen[0], second=name)
    reserved = read("trainer")["variables"].get(chosen[0], {}) if chosen else {}
    for item in job.trainer.get("env").items():
        if item.get("name").value in reserved and chosen[0] != "jax":
            job.report("reserved-variable", item.get("name"), policy=chosen[0])
    wanted = job.trainer.get("numProcPerNode")
    if isinstance(wanted.value, str) and not job.is_policy("torch"):
        job.report("processes-number", wanted)


def _title(job: TrainJob) -> str:
    """Return the kind and name of the runtime."""
    return f"{job.runtime.value['kind']} {job.runtime.value['metadata'].get('name')}"


def _patch(job: TrainJob) -> None:
    """Merge `runtimePatches`, and their predecessors, into the JobSet."""
    for patch in job.spec.get("runtimePatches").items():
        for each in patch.get("trainingRuntimeSpec", "template", "spec", "replicatedJobs").items():
            if _exists(job, each.get("name")) and each.get("template"):
                job.patch(each.get("name").value, each.get("template"))
    for override in job.spec.get("podTemplateOverrides").items():
        pod = {name: override.get(name) for name in ("metadata", "spec") if override.get(name)}
        _override(job, override, pod)
    for override in job.spec.get("podSpecOverrides").items():
        fields = {name: override.get(name) for name in override.value if name != "targetJobs"}
        _override(job, override, {"spec": fields})


def _override(job: TrainJob, override: Written, template: Any) -> None:
    """Merge an override into the pods of its target Jobs."""
    for target in override.get("targetJobs").items():
        if _exists(job, target.get("name")):
            job.patch(target.get("name").value, {"spec": {"template": template}})


def _exists(job: TrainJob, name: Written) -> bool:
    """Return True if the runtime has a replicated Job of this name; else report it."""
    names = [str(each.get("name").value) for each in job.jobs()]
    if name.value in names:
        return True
    hint = did_you_mean(str(name.value), names) or f"use one of: {', '.join(names)}"
    job.report("unknown-job", name, runtime=_title(job), hint=hint)
    return False


def _check_patches(job: TrainJob) -> None:
    """Report containers of patches that do not exist, and variables that Trainer rejects there."""
    pods: list[tuple[list[str], Written]] = []
    for patch in job.spec.get("runtimePatches").items():
        for each in patch.get("trainingRuntimeSpec", "template", "spec", "replicatedJobs").items():
            pod = each.get("template", "spec", "template", "spec")
            pods.append(([each.get("name").value], pod))
    for override in chain(
        job.spec.get("podTemplateOverrides").items(), job.spec.get("podSpecOverrides").items()
    ):
        targets = [each.get("name").value for each in override.get("targetJobs").items()]
        pods.append((targets, override.get("spec") or override))
    before = job.runtime.get("spec", "template", "spec", "replicatedJobs")
    for names, pod in pods:
        targets = [each for each in before.items() if each.get("name").value in names]
        for kind in ("containers", "initContainers"):
            for container in pod.get(kind).items():
                name = container.get("name")
                for target in targets:
                    both = ("containers", "initContainers")
                    if not any(_container(target, str(name.value), each) for each in both):
                        job.report("unknown-container", name, job=target.get("name").value)
                if container.get("env").value and name.value in CONTAINERS.values():
                    job.report("patched-variables", container.get("env"), name=name.value)


def _configure(job: TrainJob) -> None:
    """Write the image, the command and the resources of `trainer`."""
    fields = {name: job.trainer.get(name) for name in ("image", "command", "args")}
    fields = {name: value for name, value in fields.items() if value}
    for each in job.jobs("trainer"):
        job.patch_container(each.get("name").value, NODE, fields)
    resources = job.trainer.get("resourcesPerNode")
    if resources and job.policy:
        for name in job.trained():
            job.patch_container(name, NODE, {"resources": resources})
    elif resources:
        job.report("no-policy", resources, runtime=_title(job))


def _count(job: TrainJob) -> None:
    """Write the number of pods of each replicated Job."""
    nodes, default = job.trainer.get("numNodes"), job.policy.get("numNodes")
    for each in job.jobs():
        name, count = str(each.get("name").value), each.get("template", "spec", "parallelism")
        count = count if count.value else count.as_value(1)
        if _step(each) == "trainer":
            count = default if default else count.as_value(1) if job.policy else count
            count = nodes if nodes and not job.is_policy("mpi") else count
        if name == NODE and job.is_policy("mpi") and nodes:
            fewer = 1 if job.nodes_have_launcher else 0
            count = nodes.as_value(max(nodes.value - fewer, 1))
        job.counts[name] = count
        job.patch(name, {"spec": {"parallelism": count, "completions": count}})


def _initialize(job: TrainJob) -> None:
    """Write the variables of the initializers."""
    for part, step in (("dataset", "dataset-initializer"), ("model", "model-initializer")):
        source = job.spec.get("initializer", part)
        for each in job.jobs(step) if source else ():
            uri, secret = source.get("storageUri"), source.get("secretRef", "name")
            items = [{"name": "STORAGE_URI", "value": uri, "valueFrom": None}] if uri else []
            fields: dict[str, Any] = {"env": [*items, *_variables(source.get("env"))]}
            if secret:
                before = _container(each, step).get("envFrom").items()
                fields["envFrom"] = [*before, {"secretRef": {"name": secret}}]
            job.patch_container(each.get("name").value, step, fields)


def _variables(env: Written) -> list[dict[str, Any]]:
    """Return variables as a patch that replaces variables of the same name."""
    empty = {"value": None, "valueFrom": None}
    return [
        empty | {field: item.get(field) for field in item.value} for item in env.items()
    ]


def _apply_policy(job: TrainJob) -> Callable[[Builder], None]:
    """Write the variables, ports, volumes and arguments that the ML policy of the runtime adds.

    Returns:
        A function that writes parts of the job file for which a JobSet has no field.
    """
    if job.is_policy("mpi"):
        return _apply_mpi(job)
    env = _variables(job.trainer.get("env"))
    policy = next((name for name in ("torch", "jax", "xgboost") if job.is_policy(name)), "")
    own = policies.variables(policy, _values(job)) if policy else []
    is_tune = policy == "torch" and job.trainer.get("command").value == policies.TUNE
    if is_tune:
        own = own[:3]
        _tune(job)
    for name in job.trained() if job.trainer else ():
        fields: dict[str, Any] = {"env": [*env, *own] if policy == "torch" else [*own, *env]}
        if policy:
            fields["ports"] = [{"containerPort": policies.PORT}]
        job.patch_container(name, NODE, fields)
    every = policies.variables("torch", _values(job)) if policy == "torch" else []
    for target in job.policy.get("torch", "envInjection", "targets").items():
        for container in target.get("containerNames").items():
            kinds = ("containers", "initContainers")
            name = target.get("jobName").value
            jobs = [each for each in job.jobs() if each.get("name").value == name]
            found = [k for k in kinds if jobs and _container(jobs[0], container.value, k)]
            if not found:
                job.report("injection", container, job=name)
                continue
            job.patch_container(name, container.value, {"env": every}, found[0])
    return lambda _: None


def _resources(job: TrainJob) -> dict[str, Any]:
    """Return the resources from which Trainer computes the number of processes."""
    given = job.trainer.get("resourcesPerNode").value
    if given is not None:
        return dict(given)
    for each in job.jobs():
        if each.get("name").value == NODE or _step(each) == "trainer":
            resources = _container(each, NODE).get("resources").value
            if resources is not None:
                return dict(resources)
    return {}


def _values(job: TrainJob) -> dict[str, object]:
    """Return the values of the placeholders in the table of variables."""
    resources, default = _resources(job), job.policy.get("torch", "numProcPerNode").value or "auto"
    trained = [job.counts[name] for name in job.trained()]
    nodes = trained[0].value if trained else 1
    wanted = job.trainer.get("numProcPerNode").value or default
    return {
        "nodes": nodes,
        "processes": policies.torch_processes(wanted, resources),
        "workers": nodes * (policies.gpus(resources) or 1),
        "leader": job.leader,
    }


def _tune(job: TrainJob) -> None:
    """Append Trainer's arguments to `tune run`, and report what Trainer rejects."""
    known, reference = read("trainer")["torchtune"], job.spec.get("runtimeRef", "name")
    values, gpu_count = _values(job), policies.gpus(_resources(job))
    nodes: Any = values["nodes"]
    processes: Any = values["processes"]
    model = policies.torchtune_model(str(reference.value))
    if model not in known["models"]:
        job.report("torchtune-model", reference, models=", ".join(known["models"]))
    elif nodes > 1 and model != "llama3_3/70B":
        job.report("torchtune-nodes", job.trainer.get("numNodes"), model=model)
    for argument in job.trainer.get("args").items():
        if str(argument.value).partition("=")[0] in known["runtimeArguments"]:
            job.report("torchtune-argument", argument)
    runtime = job.runtime.get("spec", "template", "spec", "replicatedJobs")
    for each in runtime.items():
        if _step(each) != "trainer":
            continue
        kept = [
            word
            for word in _container(each, NODE).get("command").items()
            if str(word.value).partition("=")[0] in known["runtimeArguments"]
        ]
        added = policies.torchtune(
            str(reference.value), nodes, processes, gpu_count, job.trainer, job.leader
        )
        command = [*job.trainer.get("command").items(), *added, *kept]
        job.patch_container(each.get("name").value, NODE, {"command": command})


def _apply_mpi(job: TrainJob) -> Callable[[Builder], None]:
    """Write the keys, the hostfile and the variables of MPI.

    Returns:
        A function that writes the hostfile, which is a file of the job file, and reports the keys.
    """
    mpi = job.policy.get("mpi")
    slots = job.trainer.get("numProcPerNode").value or mpi.get("numProcPerNode").value or 1
    if slots == 1 and not job.trainer.get("numProcPerNode"):
        slots = max(1, policies.gpus(_resources(job)))
    secret = f"{job.name}-mpi-ssh-auth"
    keys = [("ssh-privatekey", "id_rsa", 0o640), ("ssh-publickey", "id_rsa.pub", 0o644)]
    keys.append(("ssh-publickey", "authorized_keys", 0o644))
    items = [{"key": key, "path": path, "mode": mode} for key, path, mode in keys]
    source = {"secretName": secret, "defaultMode": 0o400, "items": items}
    mount = {"name": "mpi-ssh-auth", "mountPath": mpi.get("sshAuthMountPath").value or "/root/.ssh"}
    env = _variables(job.trainer.get("env"))
    own = policies.variables("mpi", {"processes": slots})
    for each in job.jobs():
        name = str(each.get("name").value)
        if name in (NODE, LAUNCHER):
            job.patch_pod(name, {"volumes": [{"name": "mpi-ssh-auth", "secret": source}]})
            job.patch_container(name, NODE, {"volumeMounts": [mount]})
        if name == LAUNCHER:
            job.patch_container(name, NODE, {"env": own})
        if name in job.trained():
            job.patch_container(name, NODE, {"env": env})
    nodes = [NODE, *([LAUNCHER] if job.nodes_have_launcher else [])]
    lines = [
        f"{job.name}-{each.get('name').value}-0-{index}.{job.name} slots={slots}\n"
        for each in job.jobs()
        if each.get("name").value in nodes
        for index in range(job.counts[str(each.get("name").value)].value)
    ]
    job.report("trainer-keys", mpi, secret=secret, quoted=quote(secret), option=_option(job))
    has_launcher = any(each.get("name").value == LAUNCHER for each in job.jobs())

    def write_hostfile(builder: Builder) -> None:
        role = builder.roles.get(f"{LAUNCHER}-0")
        if has_launcher and role is not None:
            files = {"mountPath": HOSTFILE, "files": {"hostfile": "".join(lines)}}
            role.setdefault("volumes", {})["mpi-hostfile"] = files

    return write_hostfile


def _option(job: TrainJob) -> str:
    """Return the option of kubectl and mlgen for the namespace of the job."""
    namespace = job.job.get("metadata", "namespace").value
    return f" -n {quote(str(namespace))}" if namespace else ""


def _metadata(job: TrainJob) -> dict[str, Any]:
    """Return the metadata of the JobSet, with the labels and annotations of its template."""
    patches = [
        patch.get("trainingRuntimeSpec", "template", "metadata")
        for patch in job.spec.get("runtimePatches").items()
    ]
    own = job.job.get("metadata")
    sources = [job.runtime.get("spec", "template", "metadata"), *patches, job.spec, own]
    metadata: dict[str, Any] = {
        name: own.get(name) for name in ("name", "generateName", "namespace") if own.get(name)
    }
    for field in ("labels", "annotations"):
        found: Sequence[Written] = [each.get(field) for each in sources if each.get(field).value]
        texts = {key: each.get(key) for each in found for key in each.value}
        if texts:
            metadata[field] = texts
    return metadata


def _policies(job: TrainJob) -> dict[str, Any]:
    """Return the fields of the TrainJob that are also fields of a JobSet."""
    names = ("suspend", "activeDeadlineSeconds", "managedBy")
    fields = {name: job.spec.get(name) for name in names if job.spec.get(name)}
    if job.spec.get("managedBy").value == CONTROLLER:
        del fields["managedBy"]
    return fields


def _finish(job: TrainJob, builder: Builder, finish: Callable[[Builder], None]) -> None:
    """Write the parts of the job file for which a JobSet has no field: gangs and hostfiles."""
    finish(builder)
    spec = builder.data["spec"]
    policy = job.runtime.get("spec", "podGroupPolicy")
    gang = next((name for name in ("coscheduling", "volcano") if policy.get(name)), "")
    scheduling = spec.get("scheduling", {})
    if gang and scheduling.get("gang") == "kueue":
        job.report("queue-and-group", policy, gang=gang)
    elif gang:
        scheduling = spec.setdefault("scheduling", {})
        scheduling["gang"] = gang
        queue = builder.data["metadata"].get("annotations", {}).get(QUEUE)
        if gang == "volcano" and queue:
            scheduling["queue"] = queue
        if gang == "coscheduling":
            seconds = policy.get(gang, "scheduleTimeoutSeconds").value or 60
            scheduling["scheduleTimeoutSeconds"] = seconds
    job.report("network-topology", policy.get("volcano", "networkTopology"))


def _unmerged(builder: Builder) -> None:
    """Runtimes are read as parts of TrainJobs, which are merged to JobSets."""


DIALECT = Dialect(
    groups=("trainer.kubeflow.org",),
    kinds={(VERSION, kind): _unmerged for kind in ("TrainJob", *RUNTIMES)},
    merge=_merged,
    parts=frozenset((VERSION, kind) for kind in RUNTIMES),
)
