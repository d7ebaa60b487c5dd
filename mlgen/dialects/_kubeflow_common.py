"""Replica types and a run policy: what the operators around kubeflow/common share.

Kubeflow's training operator and MPI operator and KubeDL all grew on that library, so a job is a
mapping of replica types, each with a pod template, beside a policy for the whole. Read off the
training operator 1.9, pkg/apis/kubeflow.org/v1/common_types.go and pkg/controller.v1/common.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import ENDLESS, Builder
from mlgen.dialects._schemas import COUNT, SWITCH, TEMPLATE, TEXT, mapping
from mlgen.dialects._source_value import SourceValue
from mlgen.jobfile.model import WaitPolicy
from mlgen.problems import ValuePath, did_you_mean

NAME = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label of RFC 1035, which the operator wants of a job that Services are called after."""

RESTARTS = ("Always", "OnFailure", "Never", "ExitCode")
CLEANING = ("", "None", "Running", "All")

SCHEDULING: dict[str, Any] = mapping(
    {
        "minAvailable": COUNT,
        "queue": TEXT,
        "minResources": {"type": "object"},
        "priorityClass": TEXT,
        "scheduleTimeoutSeconds": COUNT,
    }
)

INLINE: dict[str, Any] = {
    "cleanPodPolicy": {"enum": list(CLEANING)},
    "ttlSecondsAfterFinished": COUNT,
    "activeDeadlineSeconds": COUNT,
    "backoffLimit": COUNT,
}
"""What stood in `spec` itself before there was a runPolicy."""

RUN_POLICY: dict[str, Any] = mapping(
    INLINE | {"schedulingPolicy": SCHEDULING, "suspend": SWITCH, "managedBy": TEXT}
)

POLICIES: dict[str, Any] = INLINE | {"runPolicy": RUN_POLICY, "RunPolicy": RUN_POLICY}

REPLICA: dict[str, Any] = mapping(
    {"replicas": COUNT, "restartPolicy": {"enum": list(RESTARTS)}, "template": TEMPLATE},
    "template",
)

REPLICAS: dict[str, Any] = {"type": "object", "minProperties": 1, "additionalProperties": REPLICA}


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator takes for granted of one kind.

    Attributes:
        framework: in TrainingJob's words.
        field: the field of `spec` that holds the replica types.
        roles: those that it knows.
        container: the name of the training container.
        port: the name of the port that peers dial.
        restart: the restart policy that it gives by default.
    """

    framework: str
    field: str
    roles: tuple[str, ...]
    container: str
    port: str
    restart: str = "Never"


def roles(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Return the replica types by their roles; the operator takes their names in any case."""
    known = {name.lower(): name for name in rules.roles}
    found: dict[str, SourceValue] = {}
    for name, given in builder.spec.get(rules.field).fields():
        role = name.lower()
        if role not in known:
            hint = did_you_mean(name, rules.roles) or f"known are: {', '.join(rules.roles)}"
            builder.refuse(given, f'"{name}" is not a replica type of this kind', hint)
        elif role in found:
            builder.refuse(given, f"{known[role]} stands here twice", "keep one of the two")
        else:
            found[role] = given
    return {role: found[role] for role in known if role in found}


def check_name(builder: Builder) -> None:
    """Refuse the name of a job that the operator's webhook would refuse."""
    if not NAME.fullmatch(builder.name):
        message = f'"{builder.name}" cannot be the name of a job'
        hint = (
            "use at most 63 lower-case letters, digits and dashes, a letter first and no dash last"
        )
        builder.refuse(
            SourceValue(builder.name, builder.origins["metadata", "name"]), message, hint
        )


def main_container(builder: Builder, template: SourceValue, name: str) -> SourceValue | None:
    """Return the container of the operator's name, without which its webhook refuses a job."""
    containers = template.get("spec", "containers")
    for container in containers.items():
        if container.value["name"] == name:
            if not container.get("image").value:
                builder.refuse(container, "the training container has no image", "write image")
                return None
            return container
    hint = f"name the one that trains {name}"
    builder.refuse(containers, f'there is no container with the name "{name}"', hint)
    return None


def replicas(builder: Builder, rules: Rules) -> dict[str, SourceValue]:
    """Write every role with the operator's defaults; return the replica types by role."""
    check_name(builder)
    builder.put(("spec", "framework"), builder.given.get("kind"), rules.framework)
    found = roles(builder, rules)
    for role, given in found.items():
        template = given.get("template")
        main = main_container(builder, template, rules.container)
        if main:
            builder.role(role, template, main, rules.port)
            builder.put(("spec", "roles", role, "replicas"), given.get("replicas"))
            restart = given.get("restartPolicy")
            builder.put(
                ("spec", "roles", role, "restartPolicy"), restart, restart.value or rules.restart
            )
    return found


def named_peers(builder: Builder, known: Iterable[str] = ()) -> None:
    """Warn where a replica is called by the name of its own Service, which only the operator has.

    Args:
        builder: has the roles.
        known: names that lead to a replica here too.
    """
    named = re.compile(rf"\b{re.escape(builder.name)}-(?:{'|'.join(builder.roles)})-\d+\b")
    for path, text in _texts(builder):
        found = named.search(text)
        if (
            found
            and found[0] not in known
            and not text[found.end() :].startswith(f".{builder.name}")
        ):
            message = f"the operator has a Service {found[0]}; here there is none of this name"
            builder.differs(
                SourceValue(text, path), message, "take it from the framework's variables"
            )


def _texts(builder: Builder) -> Iterator[tuple[ValuePath, str]]:
    """What the user wrote into commands, arguments and variables, and where."""
    for role, words in builder.roles.items():
        at = ("spec", "roles", role)
        for field in ("command", "args"):
            for i, text in enumerate(words.get(field, [])):
                yield (*builder.origins[(*at, field)], i), text
        for name, text in words.get("env", {}).items():
            if isinstance(text, str):
                yield builder.origins[(*at, "env", name)], text


def wait_by_name(builder: Builder) -> None:
    """Let replicas wait until the names of all lead to pods, and dial no port that a peer has.

    Operators dial none, and some programs die of a connection that is closed at once.
    """
    sizes = {name: role.get("replicas", 1) for name, role in builder.roles.items()}
    if sum(sizes.values()) > 1:
        waits = [{"role": name, "until": "name"} for name, size in sizes.items() if size]
        builder.put(("spec", "waitFor"), builder.given.get("kind"), waits)


def overwrite(builder: Builder, names: Iterable[str]) -> None:
    """Take away the user's values of variables that the operator writes after them."""
    for role, words in builder.roles.items():
        for name in [name for name in names if name in words.get("env", {})]:
            message = f"the operator writes its own {name} over this one, and so it is here"
            given = SourceValue(None, builder.origins["spec", "roles", role, "env", name])
            builder.differs(given, message, "leave it out")
            del words["env"][name]
        if not words.get("env", True):
            del words["env"]


def run_policy(
    builder: Builder,
    found: Mapping[str, SourceValue],
    manager: str,
    clean: str = "",
    *,
    endless: bool = True,
) -> None:
    """Write what holds for the whole job, from `runPolicy` or, as once, from `spec` itself.

    Args:
        builder: is written to.
        found: the replica types by role, already written.
        manager: the operator's own name in `managedBy`.
        clean: the cleanPodPolicy that the operator gives by default, if it is not None.
        endless: without a backoffLimit the operator starts replicas again for ever.
    """
    spec = builder.spec
    for name in ("cleanPodPolicy", "ttlSecondsAfterFinished", "backoffLimit", "suspend"):
        builder.put(("spec", "runPolicy", name), policy(spec, name))
    if clean and not policy(spec, "cleanPodPolicy"):
        builder.put(("spec", "runPolicy", "cleanPodPolicy"), spec, clean)
    restarts = {role.get("restartPolicy") for role in builder.roles.values()}
    if endless and restarts != {"Never"} and not policy(spec, "backoffLimit"):
        builder.put(("spec", "runPolicy", "backoffLimit"), spec, ENDLESS)
    deadline(builder, policy(spec, "activeDeadlineSeconds"))
    managed = policy(spec, "managedBy")
    if managed.value != manager:
        builder.put(("spec", "runPolicy", "managedBy"), managed)
    scheduling(builder, policy(spec, "schedulingPolicy"), found)


def policy(spec: SourceValue, name: str) -> SourceValue:
    """Return one field of the run policy, wherever this version has it; "" says nothing."""
    places = [spec.get("runPolicy", name), spec.get("RunPolicy", name), spec.get(name)]
    found = next((given for given in places if given), places[0])
    return SourceValue(None, found.path) if found.value == "" else found


def deadline(builder: Builder, given: SourceValue) -> None:
    """Write a deadline; waiting for peers must end before it, to say what was missing."""
    builder.put(("spec", "runPolicy", "activeDeadlineSeconds"), given)
    if given and given.value <= WaitPolicy().timeout_seconds:
        builder.put(("spec", "wait", "timeoutSeconds"), given, max(1, given.value - 1))


def scheduling(builder: Builder, given: SourceValue, found: Mapping[str, SourceValue]) -> None:
    """Write the gang; which scheduler forms it, only the operator's command line says.

    So the pods' own schedulerName has to tell: volcano, or any other for coscheduling.
    """
    if not given:
        return
    named = [role.get("template", "spec", "schedulerName").value for role in found.values()]
    names = {name for name in named if name} - {"default-scheduler"}
    if not names:
        builder.differs(
            given,
            "the operator asks the scheduler that it was started with for a gang; none is formed"
            " here, as the resource does not say which",
            "write schedulerName in the templates, or --set spec.scheduling.gang=volcano",
        )
        return
    gang = "volcano" if "volcano" in names else "coscheduling"
    builder.put(("spec", "scheduling", "gang"), given, gang)
    for theirs, ours in GANG[gang].items():
        builder.put(("spec", "scheduling", ours), given.get(theirs))


GANG = {
    "volcano": {
        "queue": "queue",
        "priorityClass": "priorityClassName",
        "priorityClassName": "priorityClassName",
        "minAvailable": "minMember",
        "minResources": "minResources",
    },
    "coscheduling": {
        "priorityClass": "priorityClassName",
        "priorityClassName": "priorityClassName",
        "minAvailable": "minMember",
        "minResources": "minResources",
        "scheduleTimeoutSeconds": "scheduleTimeoutSeconds",
    },
}
"""By flavour: the fields of a schedulingPolicy that it knows, and our names of them.

KubeDL's has priorityClassName where Kubeflow's has priorityClass.
"""
