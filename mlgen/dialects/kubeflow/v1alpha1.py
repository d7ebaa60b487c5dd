"""Jobs of kubeflow.org/v1alpha1, whose replica types are a list → TrainingJob.

Read from kubeflow/tf-operator before 0.4 (pkg/apis/tensorflow/v1alpha1, its validation, and
pkg/trainer), and from the operators of PyTorch and MXNet, which started as copies of it. The pod
template sets the restart policy, and `terminationPolicy` names the replica whose end is the end of
training.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import Builder, SourceValue
from mlgen.dialects._kubeflow_common import (
    Rules,
    bound_crashes,
    check_name,
    main_container,
    run_policy,
)
from mlgen.dialects.kubeflow.kinds import MXNET, PYTORCH, TF
from mlgen.kubernetes.quantity import natural


@dataclass(frozen=True)
class ListForm:
    """The fields and defaults of one kind.

    Attributes:
        rules: names of the kind, as in later versions.
        types: the replica types; by default the first decides, if the job has it.
        default: the replica type of a list item that names none.
        type: the fields of an item that name its replica type: this, or earlier names of it.
        port: the field that sets the port.
        decider: the field of `terminationPolicy` that names the deciding replica.
        index: the field of `decider` for the index of that replica.
        judges: the operator applies ExitCode to the deciding replica.
        server: returns the container of parameter servers without a template.
    """

    rules: Rules
    types: tuple[str, ...]
    default: str
    type: tuple[str, ...]
    port: str
    decider: str = "chief"
    index: str = "replicaIndex"
    judges: bool = True
    server: Callable[[Builder], dict[str, Any]] | None = None


def _grpc_server(builder: Builder) -> dict[str, Any]:
    """Return the default parameter server of a TFJob.

    It does what grpc_tensorflow_server.py did, which the operator mounted into pods of `tfImage`.
    """
    image = builder.spec.get("tfImage").value or "tensorflow/tensorflow:1.3.0"
    server = (
        "import json, os; from tensorflow.python.training import server_lib;"
        " config = json.loads(os.environ['TF_CONFIG']); task = config['task'];"
        " server_lib.Server(config['cluster'], task['type'], task['index']).join()"
    )
    return {"name": TF.container, "image": image, "command": ["python", "-c", server]}


TF_LIST = ListForm(
    TF,
    types=("MASTER", "PS", "WORKER"),
    default="MASTER",
    type=("tfReplicaType",),
    port="tfPort",
    server=_grpc_server,
)
PYTORCH_LIST = ListForm(
    PYTORCH,
    types=("MASTER", "WORKER"),
    default="MASTER",
    type=("replicaType", "ReplicaType", "pytorchReplicaType"),
    port="masterPort",
    decider="master",
    index="replicaRank",
    judges=False,
)
MXNET_LIST = ListForm(
    MXNET,
    types=("SCHEDULER", "SERVER", "WORKER"),
    default="WORKER",
    type=("mxReplicaType",),
    port="PsRootPort",
)


def write_list(builder: Builder, form: ListForm) -> None:
    """Write a job whose replica types are a list."""
    check_name(builder)
    builder.put(("spec", "framework"), builder.resource.get("kind"), form.rules.framework)
    replica_types = _replica_types(builder, form)
    decider = _decider(builder, form, replica_types)
    for role in (name.lower() for name in form.types if name.lower() in replica_types):
        _write_role(builder, form, role, replica_types[role], decides=role == decider)
    run_policy(builder, replica_types, "")
    bound_crashes(builder, form.rules)
    clean = builder.spec.get("cleanupPodPolicy")
    builder.put(
        ("spec", "runPolicy", "cleanPodPolicy"), clean or builder.spec, clean.value or "All"
    )
    builder.put(("spec", "scheduling", "schedulerName"), builder.spec.get("schedulerName"))
    tensorboard = builder.spec.get("tensorboard")
    if tensorboard:
        message = "the operator runs a TensorBoard with tfImage; none is rendered"
        hint = "set spec.tensorboard in the job file that mlgen convert prints"
        builder.differs(tensorboard, message, hint)


def _replica_types(builder: Builder, form: ListForm) -> dict[str, SourceValue]:
    """Return the replica types by role."""
    replica_types: dict[str, SourceValue] = {}
    for item in builder.spec.get("replicaSpecs").items():
        named = next((item.get(field) for field in form.type if item.get(field)), SourceValue(None))
        name = named.value or form.default
        if name.lower() in replica_types:
            builder.refuse(named or item, f"duplicate replica type {name}", "set replicas instead")
        replica_types[name.lower()] = item
    return replica_types


def _decider(builder: Builder, form: ListForm, roles: Iterable[str]) -> str:
    """Return the deciding role; write it if the framework would choose another."""
    policy = builder.spec.get("terminationPolicy", form.decider)
    replica_name, index = policy.get("replicaName"), policy.get(form.index)
    name = replica_name.value or form.default
    source = replica_name or builder.spec.get("replicaSpecs")
    if name.lower() not in roles:
        message = f"training ends when the {name} ends, but there is no {name}"
        hint = f"add it, or name another replica type in terminationPolicy.{form.decider}"
        builder.refuse(source, message, hint)
    elif index.value:
        message = "only the first replica can determine the end of training"
        builder.refuse(index, message, f"write {form.index}: 0")
    elif name != form.types[0]:
        builder.put(("spec", "successPolicy", "role"), source, name.lower())
        if builder.spec.get("cleanupPodPolicy").value != "None":
            builder.put(("spec", "successPolicy", "replicas"), source, "First")
    return str(name.lower())


def _write_role(
    builder: Builder, form: ListForm, role: str, replica_type: SourceValue, *, decides: bool
) -> None:
    """Write a role, unless it has no template and the operator has none for it either."""
    template, path = replica_type.get("template"), ("spec", "roles", role)
    if not template and role == "ps" and form.server:
        template = SourceValue({"spec": {"containers": [form.server(builder)]}}, template.path)
    if not template:
        builder.refuse(replica_type, "the pod template is missing", "add template")
        return
    main = main_container(builder, template, form.rules.container)
    if not main:
        return
    builder.role(role, template, main)
    builder.put((*path, "replicas"), replica_type.get("replicas"))
    port = replica_type.get(form.port) or builder.spec.get(form.port)
    if port:
        number = natural(str(port.value))
        builder.put((*path, "port"), port, port.value if number is None else number)
    restart = template.get("spec", "restartPolicy")
    policy = _restart_policy(form, role, restart.value, decides=decides)
    builder.put((*path, "restartPolicy"), restart, policy)


def _restart_policy(form: ListForm, role: str, policy: str | None, *, decides: bool) -> str:
    """Return the restart policy; a failed replica that does not decide always gets a new pod."""
    if decides and form.judges:
        return "ExitCode"
    if policy == "Never" and not decides:
        return "OnFailure"
    return policy or ("Always" if role == "ps" else "OnFailure")
