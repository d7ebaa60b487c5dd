"""Kubeflow Trainer: a TrainJob and the runtime that it refers to, trainer.kubeflow.org/v1alpha1.

A TrainJob is merged with its runtime to the JobSet that Trainer would create. The dialect `jobset`
continues with it, so pods keep their host names. Sources, in kubeflow/trainer v2.3.0:

- fields: pkg/apis/trainer/v1alpha1, and for `podTemplateOverrides` and `podSpecOverrides` v2.1.0
  and v2.0.1
- merging: pkg/runtime/core/trainingruntime.go, and the plugins in pkg/runtime/framework/plugins:
  jobset, coscheduling, volcano, torch with torchtune.go, mpi (also v2.2.0), jax, xgboost, plainml
- the number of GPUs: pkg/runtime/runtime.go
- rejected values: pkg/webhooks/trainingruntime_webhook.go
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from math import ceil
from typing import Any

from mlgen.dialects._builder import Builder, Dialect, Merged, namespace_option, no_ssh_keys
from mlgen.dialects._schemas import read
from mlgen.dialects.trainer.job import (
    CONTAINERS,
    INITIALIZERS,
    KINDS,
    LAUNCHER,
    NODE,
    POD,
    STEP,
    TRAINER,
    VERSION,
    TrainJob,
    Written,
    container,
    find,
    step,
    tree,
    variables,
    version_of,
    written,
)
from mlgen.documents.document import Document, Mark
from mlgen.kubernetes.quantity import parse
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
    _check(job)
    collector.raise_errors()
    _patch(job)
    _configure(job)
    _count(job)
    _initialize(job)
    _apply(job)
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


PORT = 29500
"""The port of the first node."""

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""The path of the field that contains the index of a pod."""

TUNE = ["tune", "run"]
"""The command of a TrainJob to which Trainer appends the arguments of torchtune."""

RENDEZVOUS = ("PET_MASTER_ADDR", "PET_MASTER_PORT")
"""Variables that torchtune gets as an argument instead."""

KEYS: tuple[dict[str, Any], ...] = (
    {"key": "ssh-privatekey", "path": "id_rsa"},
    {"key": "ssh-publickey", "path": "id_rsa.pub", "mode": 0o644},
    {"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644},
)
"""The files of the Secret with the keys of ssh."""

ROOT_FOLDER = "/root/.ssh"
"""The default folder of the keys. Only root can enter it."""


def _apply(job: TrainJob) -> None:
    """Write the variables, ports, volumes and arguments that the ML policy of the runtime adds."""
    if job.is_policy("mpi"):
        _apply_mpi(job)
        return
    policy = next(filter(job.is_policy, ("torch", "jax", "xgboost")), "")
    env, own = variables(job.trainer.get("env")), _own_variables(policy, _values(job))
    every = own
    if policy == "torch" and job.trainer.get("command").value == TUNE:
        own = [item for item in own if item["name"] not in RENDEZVOUS]
        _tune(job)
    for name in job.trained() if job.trainer else ():
        fields: dict[str, Any] = {"env": [*env, *own] if policy == "torch" else [*own, *env]}
        if policy:
            fields["ports"] = [{"containerPort": PORT}]
        job.patch_container(name, NODE, fields)
    for target in job.policy.get("torch", "envInjection", "targets").items():
        name = str(target.get("jobName").value)
        for each in target.get("containerNames").items():
            kinds = [kind for kind in CONTAINERS if container(job.find(name), each.value, kind)]
            for kind in kinds:
                job.patch_container(name, each.value, {"env": every}, kind)
            if not kinds:
                job.refuse_container(each, name)


def _own_variables(policy: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the variables of a policy.

    Args:
        policy: of the runtime, such as `torch`.
        values: the values of the placeholders.
    """
    index = {"value": None, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}}
    return [
        {"name": name}
        | (index if text is None else {"value": text.format(**values), "valueFrom": None})
        for name, text in read("trainer")["variables"].get(policy, {}).items()
    ]


def _values(job: TrainJob) -> dict[str, Any]:
    """Return the values of the placeholders in the table of variables."""
    trained = [job.counts[name] for name in job.trained()]
    nodes = trained[0].value if trained else 1
    default = job.policy.get("torch", "numProcPerNode").value or "auto"
    processes = job.trainer.get("numProcPerNode").value or default
    if processes == "cpu" or (processes == "auto" and not gpus(job.resources)):
        processes = max(1, cpus(job.resources))
    workers = nodes * (gpus(job.resources) or 1)
    return {"nodes": nodes, "processes": processes, "workers": workers, "leader": job.leader}


def gpus(resources: Mapping[str, Any]) -> int:
    """Return the number of GPUs in resources: of the first resource with "gpu" in its name."""
    return _amount(resources, lambda name: "gpu" in name.lower())


def cpus(resources: Mapping[str, Any]) -> int:
    """Return the number of CPUs in resources, rounded up; 0 if they contain none."""
    return _amount(resources, lambda name: name == "cpu")


def _amount(resources: Mapping[str, Any], is_wanted: Callable[[str], bool]) -> int:
    """Return the amount that is requested, or else the limit; 0 if there is none."""
    for kind in ("requests", "limits"):
        for name, amount in (resources.get(kind) or {}).items():
            if is_wanted(name) and parse(amount):
                return ceil(parse(amount))
    return 0


def torchtune_model(runtime: str) -> str:
    """Return the model of a torchtune runtime from its name; "" if the name contains none."""
    parts = runtime.split("-")
    is_model = len(parts) == len(("torchtune", "model", "size"))
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if is_model else ""


def _is_true(arguments: Iterable[str], name: str) -> bool:
    """Return True if a torchtune argument is true, such as `model.quantize_base=True`."""
    pairs = (argument.partition("=") for argument in arguments)
    return any(name in key and value.strip().lower() == "true" for key, _, value in pairs)


def _tune(job: TrainJob) -> None:
    """Append Trainer's arguments to `tune run`, and report what Trainer rejects."""
    known, reference = read("trainer")["torchtune"], job.spec.get("runtimeRef", "name")
    values, model = _values(job), torchtune_model(str(reference.value))
    if model not in known["models"]:
        job.refuse(
            reference,
            "Trainer finds no model for `tune run` in the name of the runtime",
            f"use a torchtune runtime with one of these models: {', '.join(known['models'])}",
        )
    elif values["nodes"] > 1 and model not in known["severalNodes"]:
        job.refuse(
            job.trainer.get("numNodes"),
            f"Trainer trains {model} on one node only",
            "write numNodes: 1",
        )
    for argument in job.trainer.get("args").items():
        if argument.value.partition("=")[0] in known["runtimeArguments"]:
            job.refuse(
                argument,
                f"Trainer rejects {argument.value}, because the runtime sets this argument",
                "remove it",
            )
    for each in job.runtime.get("spec", "template", "spec", "replicatedJobs").items():
        words = container(each, NODE).get("command").items() if step(each) == TRAINER else ()
        kept = [word for word in words if word.value.partition("=")[0] in known["runtimeArguments"]]
        command = [*job.trainer.get("command").items(), *_recipe(job, model, values), *kept]
        if step(each) == TRAINER:
            job.patch_container(each.name, NODE, {"command": command})


def _recipe(job: TrainJob, model: str, values: Mapping[str, Any]) -> list[str]:
    """Return the endpoint, recipe and configuration that Trainer chooses for torchtune."""
    given = job.trainer.get("args").value or []
    nodes, processes, gpu_count = values["nodes"], values["processes"], gpus(job.resources)
    quantized = _is_true(given, "model.quantize_base") and not _is_true(given, "model.use_dora")
    lora = quantized or any("model.lora_attn_modules" in argument for argument in given)
    single = nodes == 1 and (processes == 1 or gpu_count == 1)
    several = nodes > 1 or (gpu_count > 1 if isinstance(processes, str) else processes > 1)
    kind = "lora" if lora and nodes == 1 else "full"
    suffix = "qlora" if quantized and nodes == 1 else kind
    suffix += "_single_device" if single else "_multinode" if nodes > 1 else ""
    recipe = f"{kind}_finetune_{'single_device' if single else 'distributed'}"
    endpoint = [f"--rdzv_endpoint={job.leader}:{PORT}"] if several else []
    return [*endpoint, recipe, "--config", f"{model}_{suffix}"]


def _key_mode(job: Written, folder: str) -> int:
    """Return the mode of the private key, which the user of the pod must be able to read.

    Before 2.3, Trainer's runtimes have no fsGroup, and it mounts the keys with the default mode.
    Since then, they have one, and its group reads the key. ssh rejects a key of its own user that
    others can read, so root gets a mode that fits, unlike in Trainer.
    """
    pod = job.get(*POD)
    if pod.get("securityContext", "fsGroup"):
        return 0o640
    users = [around.get("securityContext", "runAsUser") for around in (container(job, NODE), pod)]
    user = next((user.value for user in users if user), 0 if folder == ROOT_FOLDER else None)
    return 0o600 if user == 0 else 0o644


def _apply_mpi(job: TrainJob) -> None:
    """Write the keys, hostfile and variables of MPI. Report that the user must create the keys."""
    mpi, wanted = job.policy.get("mpi"), job.trainer.get("numProcPerNode")
    slots = wanted.value or mpi.get("numProcPerNode").value or 1
    if slots == 1 and not wanted:
        slots = max(1, gpus(job.resources))
    secret = f"{job.name}-mpi-ssh-auth"
    folder = mpi.get("sshAuthMountPath").value or ROOT_FOLDER
    mount = {"name": "mpi-ssh-auth", "mountPath": folder}
    for each in filter(job.find, (NODE, LAUNCHER)):
        mode = _key_mode(job.find(each), folder)
        items = [{**item, "mode": item.get("mode", mode)} for item in KEYS]
        keys = {"secretName": secret, "defaultMode": 0o400, "items": items}
        volume = {"name": "mpi-ssh-auth", "secret": keys}
        job.patch_pod(each, {"volumes": [volume]})
        job.patch_container(each, NODE, {"volumeMounts": [mount]})
    job.patch_container(LAUNCHER, NODE, {"env": _own_variables("mpi", {"processes": slots})})
    for each in job.trained():
        job.patch_container(each, NODE, {"env": variables(job.trainer.get("env"))})
    runtime = job.spec.get("runtimeRef", "name")
    option = namespace_option(job.job.get("metadata", "namespace").value)
    job.warn(runtime, *no_ssh_keys("Trainer", secret, option))
    nodes = (NODE, LAUNCHER) if job.has_launcher_as_node else (NODE,)
    # The launcher's pod resolves its bare host name at once.
    domains = {NODE: f".{job.subdomain}", LAUNCHER: ""}
    job.hostfile = "".join(
        f"{job.name}-{name}-0-{index}{domains[name]} slots={slots}\n"
        for name, count in job.counts.items()
        if name in nodes
        for index in range(count.value)
    )


POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")
"""The ML policies, of which a runtime has at most one."""

BEFORE_RESERVED = ("2.1", "2.2")
"""The versions of Trainer that accept variables with a value of the plugin mpi."""

CONFIGURED = {TRAINER: NODE} | {name: name for name in INITIALIZERS.values()}
"""The container that a part of the TrainJob configures, by the value of the label `STEP`."""


def _check(job: TrainJob) -> None:
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
    if first == "mpi" and version_of(job.runtime) in BEFORE_RESERVED:
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


DIALECT = Dialect(
    groups=("trainer.kubeflow.org",),
    kinds={(VERSION, kind): Builder for kind in ("TrainJob", *KINDS)},
    find=find,
    merged=_merged,
    parts=frozenset((VERSION, kind) for kind in KINDS),
)
