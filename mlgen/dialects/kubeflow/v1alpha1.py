"""Jobs of kubeflow.org/v1alpha1, whose replica types are a list.

Read off kubeflow/tf-operator before 0.4 (pkg/apis/tensorflow/v1alpha1, its validation, pkg/trainer)
and the operators of PyTorch and MXNet, which were copies of it. What happens to a pod that fails
stands in its template, and a terminationPolicy names the replica whose end is the end of training.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import Rules, check_name, main_container, run_policy
from mlgen.dialects._schemas import COUNT, TEMPLATE, TEXT, mapping
from mlgen.dialects._source_value import SourceValue


@dataclass(frozen=True, slots=True)
class ListForm:
    """What the operator takes for granted of one kind.

    Attributes:
        rules: as of later versions.
        types: the replica types; the first decides by default where the job has it.
        default: the replica type where none is named.
        type: the fields that name it, as the version had them in turn.
        port: the field with its port.
        decider: the field of terminationPolicy that names who decides.
        index: the field in that with the index.
        judges: the operator judges the exit code of who decides, as ExitCode does.
        server: makes the container of parameter servers for which there is no template.
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

    def spec(self, **fields: Any) -> dict[str, Any]:
        """Return the JSON Schema of `spec`, with these fields besides."""
        names = {"enum": list(self.types)}
        item = {"replicas": COUNT, self.port: COUNT, "template": TEMPLATE}
        specs = mapping(item | dict.fromkeys(self.type, names))
        decider = mapping({"replicaName": names, self.index: COUNT})
        words = {
            "replicaSpecs": {"type": "array", "minItems": 1, "items": specs},
            "terminationPolicy": mapping({self.decider: decider}, self.decider),
            "schedulerName": TEXT,
            "RuntimeId": TEXT,
        }
        return mapping(words | fields, "replicaSpecs")


def write_list(builder: Builder, form: ListForm) -> None:
    """Write a job whose replica types are a list."""
    check_name(builder)
    builder.put(("spec", "framework"), builder.given.get("kind"), form.rules.framework)
    found = _types(builder, form)
    decider = _decider(builder, form, found)
    for role in (name.lower() for name in form.types if name.lower() in found):
        _role(builder, form, role, found[role], decides=role == decider)
    run_policy(builder, found, "")
    clean = builder.spec.get("cleanupPodPolicy")
    builder.put(
        ("spec", "runPolicy", "cleanPodPolicy"), clean or builder.spec, clean.value or "All"
    )
    builder.put(("spec", "scheduling", "schedulerName"), builder.spec.get("schedulerName"))
    board = builder.spec.get("tensorboard")
    if board:
        message = "the operator adds a TensorBoard of tfImage; none is rendered"
        hint = "write spec.tensorboard into the job file that mlgen convert prints"
        builder.differs(board, message, hint)


def _types(builder: Builder, form: ListForm) -> dict[str, SourceValue]:
    """Return the replica types by role."""
    found: dict[str, SourceValue] = {}
    for given in builder.spec.get("replicaSpecs").items():
        named = next((given.get(word) for word in form.type if given.get(word)), SourceValue(None))
        name = named.value or form.default
        if name.lower() in found:
            builder.refuse(named or given, f"{name} stands here twice", "write replicas instead")
        found[name.lower()] = given
    return found


def _decider(builder: Builder, form: ListForm, found: Iterable[str]) -> str:
    """Return the role that decides; write it, where the framework would take another."""
    policy = builder.spec.get("terminationPolicy", form.decider)
    given, index = policy.get("replicaName"), policy.get(form.index)
    name = given.value or form.default
    if name.lower() not in found:
        hint = f"add one, or name another in terminationPolicy.{form.decider}"
        message = f"the end of the {name} is the end of training, and there is none"
        builder.refuse(given or builder.spec.get("replicaSpecs"), message, hint)
    elif index.value:
        message = "of several replicas only the first can decide alone"
        builder.refuse(index, message, f"write {form.index}: 0")
    elif name != form.types[0]:
        source = given or builder.spec.get("replicaSpecs")
        builder.put(("spec", "successPolicy", "role"), source, name.lower())
        builder.put(("spec", "successPolicy", "replicas"), source, "First")
    return str(name.lower())


def _role(
    builder: Builder, form: ListForm, role: str, given: SourceValue, *, decides: bool
) -> None:
    template, at = given.get("template"), ("spec", "roles", role)
    if not template and role == "ps" and form.server:
        template = SourceValue({"spec": {"containers": [form.server(builder)]}}, template.path)
    if not template:
        builder.refuse(given, "there is no template to make pods of", "write template")
        return
    main = main_container(builder, template, form.rules.container)
    if not main:
        return
    builder.role(role, template, main)
    builder.put((*at, "replicas"), given.get("replicas"))
    port = given.get(form.port) or builder.spec.get(form.port)
    builder.put((*at, "port"), port, int(port.value) if port else None)
    restart = template.get("spec", "restartPolicy")
    policy = _restart(form, role, restart.value, decides=decides)
    builder.put((*at, "restartPolicy"), restart, policy)


def _restart(form: ListForm, role: str, policy: str | None, *, decides: bool) -> str:
    """Who fails is replaced by a new pod, whatever the template says, unless he decides."""
    if decides and form.judges:
        return "ExitCode"
    if policy == "Never" and not decides:
        return "OnFailure"
    return policy or ("Always" if role == "ps" else "OnFailure")
