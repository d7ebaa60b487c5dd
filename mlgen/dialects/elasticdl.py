"""ElasticDL: jobs whose master makes and replaces the pods of parameter servers and workers.

ElasticAIJob is designed in sql-machine-learning/elasticdl, docs/designs/elasticdl_operator.md: its
sample is of elasticdl.org/v1, with blocks in lower case, its CRD of v1alpha1, with Master, PS and
Worker; both are taken. `jobArgs` may hold the argument list of the client, `elasticdl train …`, or
any part of it, as a name and its value in one item or in two: what has a place in a TrainingJob
goes there, and the rest to the master. Names, defaults and the forms of resources, volumes and
variables are those of elasticdl_client/common: args.py, k8s_client.py, k8s_resource.py and
k8s_volume.py. A pod that `elasticdl train --yaml` has dumped needs no operator, and passes through.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects._schemas import COUNT, TEXT, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.problems import did_you_mean

WORKERS = 2
"""How many the client asks for by default."""

MASTER_RESOURCES = "cpu=0.1,memory=1024Mi"
"""What the client asks for by default; those of the other roles are the master's own defaults."""

COUNTS = {"ps": "num_ps_pods", "worker": "num_workers"}

SWITCHES = {
    "enable_automate_memory": False,
    "force_use_kube_config_file": True,
    "lr_staleness_modulation": True,
    "need_elasticdl_job_service": True,
    "need_pod_manager": False,
    "need_task_manager": False,
    "need_tf_config": True,
    "ps_is_critical": False,
    "relaunch_timeout_worker": True,
    "task_fault_tolerance": False,
    "use_async": True,
    "use_go_ps": False,
}
"""Arguments that may stand without a value, and what they mean then."""

RESOURCES = tuple(
    f"{role}_resource_{kind}"
    for role in ("master", "ps", "worker", "chief", "evaluator")
    for kind in ("request", "limit")
)

OTHERS = """
aux_params callbacks checkpoint_dir checkpoint_dir_for_init checkpoint_steps chief_pod_priority
cluster_spec cluster_spec_json critical_worker_index custom_data_reader data_reader_params
dataset_fn distribution_strategy envs eval_metrics_fn evaluation_start_delay_secs evaluation_steps
evaluation_throttle_secs evaluator_pod_priority extra_pypi_index feed get_model_steps grads_to_wait
image_name image_pull_policy job_command job_name keep_checkpoint_max
launch_worker_after_ps_running log_file_path log_level log_loss_steps loss master_pod_priority
max_step minibatch_size model_def model_params model_zoo namespace num_epochs num_evaluators
num_minibatches_per_task num_ps_pods num_workers optimizer output populate_env_names
prediction_data prediction_outputs_processor ps_image ps_pod_priority ps_relaunch_max_num
relaunch_on_worker_failure restart_policy sync_version_tolerance tensorboard_log_dir training_data
validation_data volume worker_image worker_pod_priority yaml
"""

NAMES = (*SWITCHES, *RESOURCES, *re.findall(r"\w+", OTHERS))
"""The arguments of `elasticdl train`, `evaluate` and `predict`, of all releases."""

OF_THE_CLIENT = ("yaml", "force_use_kube_config_file")
"""They say how a job is submitted, which here is the user's business."""

MASTER_TOO = {
    "log_file_path": ("writes the master's own output there", "kubectl logs shows it"),
    "cluster_spec": ("changes the master's pod by it", "write spec.roles.master.template"),
    "cluster_spec_json": ("changes the master's pod by it", "write spec.roles.master.template"),
}
"""What the client does with an argument before it hands it on, and what to do here."""


@dataclass
class Arguments:
    """The arguments of a job by name; what has found its place is no longer in them."""

    builder: Builder
    left: dict[str, SourceValue] = field(default_factory=dict)

    def take(self, name: str) -> SourceValue:
        """Take an argument out; one without a value says nothing."""
        found = self.left.pop(name, SourceValue(None))
        return found if found.value != "" else SourceValue(None, found.path)

    def one_of(self, given: SourceValue, *names: str) -> SourceValue:
        """Return a field of a block, or the first of these arguments; it cannot be both."""
        found = [argument for argument in map(self.take, names) if argument]
        if given and found:
            message = f"--{names[0]} is said by {given.path[-2]}.{given.path[-1]} already"
            self.builder.refuse(found[0], message, "keep one of the two")
        return given or next(iter(found), given)

    def number(self, given: SourceValue) -> SourceValue:
        """Return an argument as the whole number that it must be."""
        if isinstance(given.value, str):
            if not given.value.isdecimal():
                self.builder.refuse(given, f'"{given.value}" is not a whole number')
                return SourceValue(0, given.path)
            return SourceValue(int(given.value), given.path)
        return given


def _job(builder: Builder) -> None:
    builder.put(("spec", "framework"), builder.given.get("kind"), "elasticdl")
    arguments = Arguments(builder, _read(builder))
    blocks = {role: _block(builder, role) for role in ("master", "ps", "worker")}
    image, env = arguments.take("image_name"), arguments.take("envs")
    mounted = [block.get("volume") for block in blocks.values() if block.get("volume")]
    volume = arguments.one_of(next(iter(mounted), SourceValue(None)), "volume")
    for role, block in blocks.items():
        count = _count(arguments, role, block)
        if role == "ps" and not count.value:
            continue
        builder.data["spec"].setdefault("roles", {})[role] = {}
        builder.origins["spec", "roles", role] = block.path if block else builder.spec.path
        builder.put(("spec", "roles", role, "replicas"), count)
        own = arguments.one_of(block.get("image"), f"{role}_image") or image
        builder.put(("spec", "roles", role, "image"), own or blocks["master"].get("image"))
        _pod(arguments, role, block)
        _volumes(builder, role, block.get("volume") if mounted else volume)
        _env(builder, role, env)
    _whole(builder, arguments)


def _read(builder: Builder) -> dict[str, SourceValue]:
    """The arguments by their whole names."""
    found: dict[str, SourceValue] = {}
    for name, given in _pairs(builder):
        known = _name(builder, name, given)
        said = SWITCHES.get(known) if given.value is None else given.value
        if known in found:
            builder.refuse(given, f"--{known} stands here twice", "keep one of the two")
        elif known and said is None:
            builder.refuse(given, f"--{known} has no value", "write one")
        elif known:
            found[known] = SourceValue(said, given.path)
    return found


ARGUMENT = re.compile(r"--(\w+)(?:(?:=|\s+)(.*))?", re.DOTALL)


def _pairs(builder: Builder) -> Iterator[tuple[str, SourceValue]]:
    """Each name with its value, which may stand in the next item; a shell would take quotes off."""
    name: str | None = None
    last = SourceValue(None)
    for item in builder.spec.get("jobArgs").items():
        matched = ARGUMENT.fullmatch(item.value.strip())
        if matched:
            if name:
                yield name, last
            name, last = matched[1], SourceValue(None, item.path)
            if matched[2]:
                yield name, SourceValue(_unquoted(builder, item, matched[2]), item.path)
                name = None
        elif name:
            yield name, item
            name = None
        else:
            message = f'"{item.value}" is not the value of an argument'
            builder.refuse(item, message, "write --name value")
    if name:
        yield name, last


def _unquoted(builder: Builder, item: SourceValue, text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if len(words) != 1:
        builder.refuse(item, f"{text} is not one word, as a shell reads it", "put it in quotes")
        return text
    return words[0]


def _name(builder: Builder, name: str, given: SourceValue) -> str:
    """Return the argument that is meant: Python's argparse takes a beginning for the whole."""
    longer = [known for known in NAMES if known.startswith(name)]
    if name in NAMES or len(longer) == 1:
        return name if name in NAMES else longer[0]
    hint = did_you_mean(name, NAMES) or "elasticdl train --help lists them"
    builder.refuse(given, f"--{name} is not an argument of ElasticDL", hint)
    return ""


def _block(builder: Builder, role: str) -> SourceValue:
    """A block under either of its names."""
    lower, upper = builder.spec.get(role), builder.spec.get(SPELLED[role])
    if lower and upper:
        message = f"{role} and {SPELLED[role]} are the same"
        builder.refuse(upper, message, "keep one of the two")
    return lower or upper


SPELLED = {"master": "Master", "ps": "PS", "worker": "Worker"}


def _count(arguments: Arguments, role: str, block: SourceValue) -> SourceValue:
    if role == "master":
        return SourceValue(None)
    given = arguments.number(arguments.one_of(block.get("count"), COUNTS[role]))
    return given if given or role == "ps" else SourceValue(WORKERS, given.path)


def _pod(arguments: Arguments, role: str, block: SourceValue) -> None:
    """Resources and priority: of the master its pod's, of the others what the master is told."""
    builder, at = arguments.builder, ("spec", "roles", role)
    request = arguments.one_of(block.get("resource_request"), f"{role}_resource_request")
    limit = arguments.take(f"{role}_resource_limit")
    if role == "master" and not request:
        request = SourceValue(MASTER_RESOURCES, request.path)
    requests = _resources(builder, request)
    limits = _resources(builder, limit) or requests
    same = requests in ({}, limits)
    both = limits if same else {"requests": requests, "limits": limits}
    builder.put((*at, "resources"), limit if same and limit else request, both)
    priority = arguments.one_of(block.get("priority"), f"{role}_pod_priority")
    if not priority.value:
        return
    if role == "master":
        builder.put((*at, "template", "spec", "priorityClassName"), priority)
    else:
        builder.put(("spec", "options", "podPriority", role), priority)


RESOURCE = re.compile(r"cpu|memory|ephemeral-storage|gpu|[-.\w]+/gpu|nvidia\.com/.+")


def _resources(builder: Builder, given: SourceValue) -> dict[str, str]:
    """`cpu=1,memory=1024Mi,gpu=1` as amounts by name."""
    found: dict[str, str] = {}
    for name, amount in _fields(builder, given, given.value or ""):
        if name == "disk":
            message = "Kubernetes has no resource disk"
            builder.refuse(given, message, f"write ephemeral-storage={amount}")
        elif not RESOURCE.fullmatch(name):
            known = ("cpu", "memory", "ephemeral-storage", "gpu")
            hint = did_you_mean(name, known) or f"known are: {', '.join(known)}"
            builder.refuse(given, f"{name} is not a resource of ElasticDL", hint)
        else:
            found["nvidia.com/gpu" if name == "gpu" else name] = amount
    return found


def _volumes(builder: Builder, role: str, given: SourceValue) -> None:
    """`claim_name=c,mount_path=/data;host_path=/d,mount_path=/d`; equal ones have one name."""
    known = _seen(builder)
    for text in filter(None, (given.value or "").strip().split(";")):
        words = dict(_fields(builder, given, text))
        wrong = [name for name in words if name not in VOLUME]
        if wrong:
            hint = did_you_mean(wrong[0], VOLUME) or f"known are: {', '.join(VOLUME)}"
            builder.refuse(given, f"{wrong[0]} is not known of a volume", hint)
        elif "mount_path" not in words or len({"claim_name", "host_path"} & set(words)) != 1:
            message = f"{text} is not a volume"
            builder.refuse(given, message, "write claim_name or host_path, and mount_path")
        else:
            if "type" in words:
                message = f"the node is not asked for a {words['type']} here"
                builder.differs(given, message, "see to the folder yourself")
            volume = {VOLUME[name]: text for name, text in words.items() if VOLUME[name]}
            if volume not in known:
                known.append(volume)
            name = f"volume-{known.index(volume)}"
            builder.put(("spec", "roles", role, "volumes", name), given, volume)


VOLUME = {
    "mount_path": "mountPath",
    "sub_path": "subPath",
    "claim_name": "pvc",
    "host_path": "hostPath",
    "type": "",
}


def _seen(builder: Builder) -> list[dict[str, str]]:
    """The volumes of the roles before, in the order of their names."""
    named = {k: v for role in builder.roles.values() for k, v in role.get("volumes", {}).items()}
    return [named[f"volume-{i}"] for i in range(len(named))]


def _fields(builder: Builder, given: SourceValue, text: str) -> Iterator[tuple[str, str]]:
    """The fields of `a=1,b=2`, each of which may stand there once."""
    seen: set[str] = set()
    for word in filter(None, text.strip().split(",")):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (name and equals and value):
            builder.refuse(given, f'"{word}" is not of the form name=value')
        elif name in seen:
            builder.refuse(given, f"{name} stands here twice", "keep one of the two")
        else:
            seen.add(name)
            yield name, value


def _env(builder: Builder, role: str, given: SourceValue) -> None:
    """`A=1,B=2`, where a value may have commas."""
    words = re.split(r"(?:^|,)([^,=]+)=", given.value or "")[1:]
    for name, value in zip(words[::2], words[1::2], strict=True):
        builder.put(("spec", "roles", role, "env", name), given, value)


def _whole(builder: Builder, arguments: Arguments) -> None:
    """Write what is not of one role, and hand the rest to the master."""
    name, namespace = arguments.take("job_name"), arguments.take("namespace")
    if name and name.value != builder.name:
        builder.refuse(name, f"the job is called {builder.name} in metadata", "leave it out")
    known = builder.data["metadata"].get("namespace", namespace.value)
    if namespace and namespace.value != known:
        builder.refuse(namespace, f"the namespace is {known} in metadata", "leave it out")
    elif namespace:
        builder.put(("metadata", "namespace"), namespace)
    builder.put(
        ("spec", "options", "distributionStrategy"), arguments.take("distribution_strategy")
    )
    for argument, word in (
        ("image_pull_policy", "imagePullPolicy"),
        ("restart_policy", "restartPolicy"),
    ):
        builder.put(
            ("spec", "roles", "master", word), arguments.left.get(argument, SourceValue(None))
        )
    for argument in OF_THE_CLIENT:
        arguments.take(argument)
    for argument, given in arguments.left.items():
        if argument in MASTER_TOO and given.value:
            what, hint = MASTER_TOO[argument]
            builder.differs(given, f"the client also {what}; that is not done here", hint)
        builder.put(("spec", "options", "arguments", argument), given, _value(given))


def _value(given: SourceValue) -> str | int | bool:
    """Numbers and switches as such, where the master gets the same text of them."""
    if given.value in (True, "True", False, "False"):
        return given.value in (True, "True")
    text = str(given.value)
    return int(text) if text.isdecimal() and str(int(text)) == text else text


BLOCK = {"image": TEXT, "priority": TEXT, "resource_request": TEXT, "volume": TEXT}


def _counted(minimum: int) -> dict[str, Any]:
    count = {**COUNT, "minimum": minimum, "examples": [2]}
    return mapping({"count": count, **BLOCK}, "count")


SPEC = mapping(
    {
        "jobArgs": {"type": "array", "items": {**TEXT, "examples": ["--num_epochs 2"]}},
        **dict.fromkeys(("master", "Master"), mapping(BLOCK)),
        **dict.fromkeys(("ps", "PS"), _counted(0)),
        **dict.fromkeys(("worker", "Worker"), _counted(1)),
    }
)

DIALECT = Dialect(
    groups=("elasticdl.org",),
    kinds={
        ("elasticdl.org/v1", "ElasticAIJob"): Kind(SPEC, _job),
        ("elasticdl.org/v1alpha1", "ElasticAIJob"): Kind(SPEC, _job),
    },
)
