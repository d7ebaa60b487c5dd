"""Converts jobs of kubeflow.org/v1alpha1, where replica types are a list, to a TrainingJob.

Read from kubeflow/tf-operator before 0.4 (pkg/apis/tensorflow/v1alpha1, its validation, and
pkg/trainer), and from the operators of PyTorch and MXNet, which started as copies of it. The pod
template sets the restart policy, and `terminationPolicy` names the deciding replica.

The rules of a kind have a `list`:

- `default`: the replica type of list items that do not name one.
- `type`: the fields of an item that name its replica type, under the current or earlier names.
- `port`: the field that sets the port.
- `decider`: the field of `terminationPolicy` that names the deciding replica. The default is the
  first of `roles`, if the job has it.
- `index`: the field of `decider` for the index of that replica.
- `judges`: the operator applies ExitCode to the deciding replica.
- `ps`: the container of parameter servers without a template. It replaces
  grpc_tensorflow_server.py, which the operator mounted into pods of `tfImage`.
"""

from collections.abc import Iterable

from mlgen.dialects._builder import NOTHING, Builder, SourceValue
from mlgen.dialects._kubeflow_common import Rules, main_container, run_policy
from mlgen.kubernetes.quantity import natural


def write_list(builder: Builder, rules: Rules) -> None:
    """Write a job with a list of replica types."""
    builder.put(("spec", "framework"), builder.resource.get("kind"), rules.framework)
    replica_types = _replica_types(builder, rules)
    decider = _decider(builder, rules, replica_types)
    for role in (name.lower() for name in rules.roles if name.lower() in replica_types):
        _write_role(builder, rules, role, replica_types[role], decides=role == decider)
    run_policy(builder, rules, replica_types)
    clean = builder.spec.get("cleanupPodPolicy")
    builder.put(
        ("spec", "runPolicy", "cleanPodPolicy"), clean or builder.spec, clean.value or "All"
    )
    builder.put(("spec", "scheduling", "schedulerName"), builder.spec.get("schedulerName"))
    builder.warn(
        builder.spec.get("tensorboard"),
        "the operator runs TensorBoard with the image in tfImage; mlgen does not",
        "set spec.tensorboard in the job file that mlgen convert prints",
    )


def _replica_types(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Return the replica types by role."""
    replica_types: dict[str, SourceValue] = {}
    for item in builder.spec.get("replicaSpecs").items():
        named = next(filter(None, map(item.get, rules.list["type"])), NOTHING)
        name = named.value or rules.list["default"]
        if name.lower() in replica_types:
            builder.refuse(named or item, f"duplicate replica type {name}", "set replicas instead")
        replica_types[name.lower()] = item
    return replica_types


def _decider(builder: Builder, rules: Rules, roles: Iterable[str]) -> str:
    """Return the deciding role, and write it if the framework would choose another one."""
    policy = builder.spec.get("terminationPolicy", rules.list["decider"])
    replica_name, index = policy.get("replicaName"), policy.get(rules.list["index"])
    name = replica_name.value or rules.list["default"]
    source = replica_name or builder.spec.get("replicaSpecs")
    if name.lower() not in roles:
        builder.refuse(
            source,
            f"training ends when the {name} ends, but there is no {name}",
            f"add it, or name another replica type in terminationPolicy.{rules.list['decider']}",
        )
    elif index.value:
        builder.refuse(
            index,
            "only the first replica can determine the end of training",
            f"write {rules.list['index']}: 0",
        )
    elif name != rules.roles[0]:
        builder.put(("spec", "successPolicy", "role"), source, name.lower())
        if builder.spec.get("cleanupPodPolicy").value != "None":
            builder.put(("spec", "successPolicy", "replicas"), source, "First")
    return str(name.lower())


def _write_role(
    builder: Builder, rules: Rules, role: str, replica_type: SourceValue, *, decides: bool
) -> None:
    """Write a role, by default with the operator's template. Report a role without a template."""
    template, path = replica_type.get("template"), ("spec", "roles", role)
    server, image = rules.list.get(role), builder.spec.get("tfImage").value
    if server and not template:
        container = server | ({"image": image} if image else {})
        template = SourceValue({"spec": {"containers": [container]}}, template.path)
    if not template:
        builder.refuse(replica_type, "the pod template is missing", "add template")
        return
    main = main_container(builder, template, rules.container)
    if not main:
        return
    builder.role(role, template, main)
    builder.put((*path, "replicas"), replica_type.get("replicas"))
    port = replica_type.get(rules.list["port"]) or builder.spec.get(rules.list["port"])
    if port:
        number = natural(str(port.value))
        builder.put((*path, "port"), port, port.value if number is None else number)
    restart = template.get("spec", "restartPolicy")
    policy = restart.value or ("Always" if role == "ps" else "OnFailure")
    if decides and rules.list["judges"]:
        policy = "ExitCode"
    elif policy == "Never" and not decides:
        policy = "OnFailure"  # other failed replicas always get a new pod
    builder.put((*path, "restartPolicy"), restart, policy)
