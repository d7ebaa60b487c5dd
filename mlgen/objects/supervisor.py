"""The supervisor: a Job that starts, restarts and cleans up the job's other workloads.

Its program is `mlgen/runtime`. The ConfigMap `<job>.supervisor` contains the program and the plan,
which describes the job to the program. The step of an Argo workflow runs the same program.

The archive with the program has only the modules that a job needs, and the same bytes on every
machine. Therefore `source` is compressed with bzip2, whose compressor has not changed since 2010:
the output of zlib differs between its implementations.
"""

import io
import json
import re
import zipfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mlgen.jobfile.model import GiveUpAfter, Helpers, Progress, RunPolicy, TrainingJob
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import DEFAULT, MUTABLE_WHILE_SUSPENDED, KubeVersion
from mlgen.objects import network, placement, security
from mlgen.objects.labels import (
    DECIDES,
    JOB,
    PROGRAM,
    ROLE,
    SUPERVISES,
    app_labels,
    config_name,
    helper_name,
    metadata,
    part_of,
    selector,
    status_name,
    workload_name,
)
from mlgen.objects.network import MESH
from mlgen.objects.security import access, policy_rule
from mlgen.objects.skeleton import filled
from mlgen.objects.workload import IGNORE_DISRUPTION
from mlgen.resources import PACKAGE
from mlgen.topology import Role, Topology
from mlgen.version import VERSION

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan, Workload

RUNTIME = PACKAGE / "runtime"
PATH = "mlgen/runtime"

FEATURES = {
    "port": ("server",),
    "in_place": ("gate", "in_place"),
    "progress": ("reports", "stall"),
    "keep_last_log": ("last_log",),
}
"""The modules that are imported only if a field of the plan is set."""

FILE = "supervisor.pyz"
FOLDER = "/mlgen"
"""The key of the archive in its ConfigMap, and the folder in which it is mounted."""

IMPORT = re.compile(r"^from mlgen\.runtime(?:\.(\w+) import | import (.+)$)", re.MULTILINE)
"""An import at the top of a module of the program."""

DOCSTRING = re.compile(r'^( *)"""(?:[^"]|"(?!""))*"""$', re.MULTILINE)
COMMENT = re.compile(r"(?:^|  )# .*$", re.MULTILINE)
"""A docstring and a comment in the program. It has no other texts of these forms: a test compares
the syntax trees."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time in a zip."""


NAME = "supervisor"
PLAN = "plan.json"
IN_IMAGE = ["python3", "-m", "mlgen.runtime.supervise"]
IN_ARCHIVE = ["python3", f"{FOLDER}/{FILE}"]
"""The commands that start the program."""

RESTARTS = 100
"""The backoffLimit. Training may outlast many failures of the supervisor's own pod."""

FAILED = 1
"""The exit code of a deciding supervisor whose job failed. Other codes are its own failures."""

BASE, EACH_REPLICA, EACH_JOB, EACH_SENDER = 64 << 10, 16, 64, 8
"""The memory of the program in KiB: its base, and for each pod and Job in its cache. Pods that send
requests need more: their last report has at most 5 KiB."""

STEP, LEAST = 32 << 10, 128 << 10
"""The memory limit is a multiple of STEP, and at least LEAST, in KiB."""

MANY_JOBS = 10
"""Up to this number, Jobs are watched individually by name. Above it, by the job's label."""

WORKLOADS, OTHERS = ("Job", "StatefulSet"), ("Service", "ConfigMap")
"""The kinds that the supervisor stops or deletes."""


def plan(
    topology: Topology, objects: Sequence[Object], kube_version: KubeVersion = DEFAULT
) -> "Plan":
    """Return the plan of a job.

    Args:
        topology: the job's topology.
        objects: the job's objects. Services and ConfigMaps are deleted with the workloads.
        kube_version: the cluster's Kubernetes version.
    """
    from mlgen.runtime.plan import Order, Plan  # imported late: unsupervised jobs need no plan

    job, policy = topology.job, topology.job.run_policy
    limits, progress = policy.give_up_after or GiveUpAfter(), policy.progress or Progress()
    ends = (role for role in topology.roles if not role.serves)
    jobs = {(role.name, role.index): workload_name(job, role) for role in ends}
    scope = policy.restart_scope if any(role.gang for role in topology.roles) else "Replica"
    restarts = scope != "Replica"
    return Plan(
        job=job.name,
        deciding=tuple(workload_name(job, role) for role in topology.roles if role.decides),
        decides=topology.decides,
        workloads=tuple(_workload(topology, role, jobs) for role in topology.roles),
        order=tuple(
            Order(role.name, order.until, order.role)
            for role in topology.roles
            for order in role.orders
        ),
        objects=tuple(_deleted_with_workloads(topology, objects)),
        clean_pod_policy=policy.clean_pod_policy,
        restart_scope=scope,
        backoff_limit=policy.retries if restarts else 0,
        avoid_nodes=_avoid_nodes(policy, kube_version) if restarts else "",
        force_delete_seconds=policy.force_delete_after_seconds or 0,
        deadline_seconds=policy.active_deadline_seconds,
        ttl_seconds=policy.ttl_seconds_after_finished,
        crashes=limits.crashes,
        image_seconds=limits.image_pull_seconds,
        pending_seconds=limits.pending_seconds,
        start_failures=limits.start_failures,
        start_seconds=limits.start_seconds,
        disruptions=limits.disruptions,
        backoff_reset_seconds=policy.backoff_reset_seconds,
        port=policy.port or 0,
        release=placement.release_name(job) if placement.has_release(topology) else "",
        in_place=policy.restart_mode == "InPlace" and restarts,
        progress=policy.progress is not None,
        first_report_seconds=progress.start_seconds or 0,
        stalled_seconds=progress.stalled_seconds or 0,
        restart_stalled=progress.on_stall == "Restart",
        keep_last_log=policy.keep_last_log,
    )


def _avoid_nodes(policy: RunPolicy, kube_version: KubeVersion) -> str:
    """Return how the gang avoids nodes: `Preferred`, `Required`, or ""."""
    default = "Preferred" if kube_version >= MUTABLE_WHILE_SUSPENDED else "Never"
    word = policy.avoid_nodes or default
    return "" if word == "Never" else word


def plan_text(job_plan: "Plan") -> str:
    """Return a plan as JSON with one line per field, and one per workload, order and object."""
    lines = []
    for name, value in _changed_fields(job_plan).items():
        text = json.dumps(value)
        if name in ("workloads", "order", "objects"):
            items = (_changed_fields(each) if hasattr(each, "_asdict") else each for each in value)
            rows = ",\n".join(f"    {json.dumps(item)}" for item in items)
            text = f"[\n{rows}\n  ]"
        lines.append(f'  "{name}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _changed_fields(values: Any) -> Object:
    """Return the fields of a plan, workload or order that differ from their defaults."""
    return {
        re.sub("_([a-z])", lambda found: found[1].upper(), name): value
        for name, value in values._asdict().items()
        if name not in values._field_defaults or value != values._field_defaults[name]
    }


def config_map(
    helpers: Helpers,
    metadata: Object,
    data: Mapping[str, str],
    job_plan: "Plan",
    *,
    step: bool = False,
) -> Object:
    """Return the ConfigMap with a plan and the program that follows it.

    If the job file sets a supervisor image, the image contains the program.

    Args:
        helpers: the settings of containers that mlgen adds.
        metadata: of the ConfigMap. The annotation of the program is added.
        data: of the ConfigMap. The plan is added.
        job_plan: the plan.
        step: the program is the step of an Argo workflow.
    """
    binary = None
    if not helpers.supervisor_image:
        content = archive(job_plan, step=step)
        annotations = metadata.get("annotations", {}) | {PROGRAM: program_version(content)}
        metadata = metadata | {"annotations": annotations}
        binary = {FILE: b64encode(content).decode()}
    data = {**data, PLAN: plan_text(job_plan)}
    return filled("configmap", metadata=metadata, data=data, binary=binary)


def image(helpers: Helpers) -> str:
    """Return the image of the supervisor and of a workflow's step."""
    return helpers.supervisor_image or helpers.python_image


def archive(job_plan: "Plan", *, step: bool = False) -> bytes:
    """Return the archive for a plan.

    Args:
        job_plan: the plan.
        step: the archive is for the step of an Argo workflow.
    """
    used = [name for field, names in FEATURES.items() if getattr(job_plan, field) for name in names]
    return _archive("step" if step else "supervise", tuple(used))


def program_version(content: bytes) -> str:
    """Return the value of the annotation of an archive, which this mlgen has built.

    It names a version and a SHA-256 as the reference of a container image does.
    """
    return f"mlgen:{VERSION}@sha256:{sha256(content).hexdigest()}"


@cache
def _archive(start: str, others: tuple[str, ...]) -> bytes:
    names = dict.fromkeys([start, *sorted(_needed([start, *others]))])
    source = "".join(f"\f{PATH}/{name}.py\n{_stripped(name)}" for name in names)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text, method in (
            ("__main__.py", _stripped("__main__"), zipfile.ZIP_STORED),
            ("source", source, zipfile.ZIP_BZIP2),
        ):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Linux
            file.writestr(entry, text, method, 9)
    return content.getvalue()


def _needed(names: Iterable[str]) -> set[str]:
    """Return the modules that some modules import when they are imported."""
    found, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _imports(name)
    return found


@cache
def _imports(name: str) -> list[str]:
    found = ("".join(modules) for modules in IMPORT.findall(_text(name)))
    return [each.split(" as ")[0] for modules in found for each in modules.split(", ")]


def _text(name: str) -> str:
    return (RUNTIME / f"{name}.py").read_text(encoding="utf-8")


@cache
def _stripped(name: str) -> str:
    """Return a module without docstrings and comments, with the same line numbers."""
    return COMMENT.sub("", DOCSTRING.sub(_blank, _text(name)))


def _blank(docstring: re.Match[str]) -> str:
    return f'{docstring[1]}""' + "\n" * docstring[0].count("\n")


Names = Mapping[tuple[str, int | None], str]
"""The names of Jobs by the name and the index of their role."""


def _workload(topology: Topology, role: Role, jobs: Names) -> "Workload":
    from mlgen.runtime.plan import Workload

    return Workload(
        kind=role.kind,
        name=workload_name(topology.job, role),
        role=role.name,
        replicas=role.replicas,
        container=role.spec.main_container,
        retryable=_retryable(topology.job, role),
        tolerates_failure=role.tolerates_failure,
        awaits=tuple(dict.fromkeys(_awaits(role, jobs))),
    )


def _awaits(role: Role, jobs: Names) -> Iterator[tuple[str, int, int]]:
    """Yield the Jobs that each replica of a role awaits, each with a range of indexes.

    The replicas of a gang restart together, so none of them awaits a replica that has ended.
    """
    for each in () if role.gang else role.waits:
        first, count = each.hosts.first, each.hosts.count
        if name := jobs.get((each.role, None)):
            yield name, first, count
        for index in range(first, first + count):
            if name := jobs.get((each.role, index)):
                yield name, 0, 1


def _retryable(job: TrainingJob, role: Role) -> str | tuple[int, ...] | None:
    """Return the exit codes after which a gang or a workflow restarts a replica."""
    from mlgen.runtime.plan import ALONE, ANY, SIGNALS

    if role.gang and role.alone:
        return ALONE
    codes = tuple(sorted(role.spec.retryable_exit_codes))
    if not (role.gang or job.workflow):
        return None
    # A workflow restarts the job after any failure, unless the job file sets a policy.
    policy = role.restart if role.gang else role.spec.restart_policy
    if policy == "ExitCode" or (codes and not policy):
        return codes or SIGNALS
    return None if policy == "Never" else ANY


def _deleted_with_workloads(topology: Topology, objects: Sequence[Object]) -> list[tuple[str, str]]:
    """Return kinds and names of the other objects that are deleted with the workloads.

    TensorBoard's Service is kept for use after training ends.
    """
    job, policy = topology.job, topology.job.run_policy
    if policy.clean_pod_policy != "All" and policy.ttl_seconds_after_finished is None:
        return []
    others = [
        (item["kind"], item["metadata"]["name"])
        for item in objects
        if item["kind"] in OTHERS and item["metadata"]["name"] != network.board_name(job)
    ]
    # Only a TTL deletes its own ConfigMap, with its Job. Until then, a replacement pod may need it.
    own = [] if policy.clean_pod_policy == "All" else [("ConfigMap", program_name(job))]
    server = [("Service", own_name(job))] if job.run_policy.has_requests else []
    release = [("Job", placement.release_name(job))] if placement.has_release(topology) else []
    return [*others, *server, *own, *release]


def own_name(job: TrainingJob) -> str:
    """Return the name of the supervisor's Job and of its account, permissions and Service."""
    return helper_name(job, NAME)


def program_name(job: TrainingJob) -> str:
    """Return the name of the ConfigMap with the supervisor's program and plan."""
    return config_name(job.name, NAME)


def planned(item: Object) -> str | None:
    """Return the supervisor's plan in its ConfigMap, as JSON; None for any other object.

    The name of the key is not enough: a volume with `files` may have it, too.
    """
    data, is_own = item.get("data"), part_of(item) == NAME
    return data.get(PLAN) if is_own and isinstance(data, dict) else None


def read_plan(text: str) -> "Plan":
    """Return a plan from its JSON, which another version of mlgen may have written.

    Raises:
        AttributeError, RecursionError, TypeError, ValueError: it is not a plan.
    """
    from mlgen.runtime.plan import load

    return load(text, strict=False)


def supervisor_objects(
    topology: Topology, objects: Sequence[Object], kube_version: KubeVersion = DEFAULT
) -> Iterator[Object]:
    """Return the supervisor's Job and the objects that it needs, if the job is supervised.

    Args:
        topology: the job's topology.
        objects: all other objects of the job.
        kube_version: the cluster's Kubernetes version.
    """
    if not topology.supervised:
        return
    job, name = topology.job, own_name(topology.job)
    decides = topology.decides != "one"
    own = metadata(job, name, NAME)
    own["labels"] |= {ROLE: NAME} | ({DECIDES: "true"} if decides else {})
    status = metadata(job, status_name(job.name), "status")
    # Without the label JOB, deleting objects by the job's label keeps the ConfigMap.
    status["labels"][SUPERVISES] = status["labels"].pop(JOB)
    job_plan = plan(topology, objects, kube_version)
    pods = list(_deletable_pods(topology)) if job_plan.force_delete_seconds else []
    yield from access(job, metadata(job, name, NAME), name, list(rules(job_plan, pods)))
    # It is rendered empty, so that the supervisor does not need permission to create it.
    yield filled("configmap", metadata=status)
    if job.run_policy.has_requests:
        yield network.service(metadata(job, name, NAME), {ROLE: NAME, SUPERVISES: job.name})
    if policy := network_policy(job):
        yield policy
    program = metadata(job, program_name(job), NAME)
    program["labels"][SUPERVISES] = job.name  # both ConfigMaps are read in one request
    yield config_map(job.helpers, program, {}, job_plan)
    fields = security.helper_fields(topology, objects)
    yield from placement.release(topology, job.helpers.wait_image, fields)
    # If the training fails, the supervisor's Job fails without retries.
    exit_codes = {"containerName": NAME, "operator": "In", "values": [FAILED]}
    yield filled(
        "job",
        metadata=own,
        suspend=job.run_policy.suspend or None,
        backoff_limit=RESTARTS,
        ttl=job.run_policy.ttl_seconds_after_finished,
        # Only with `decides`: a Job with such rules does not replace a pod on a lost node.
        failure_rules=[IGNORE_DISRUPTION, {"action": "FailJob", "onExitCodes": exit_codes}]
        if decides
        else None,
        template=_pod_template(topology, name, fields),
    )


def network_policy(job: TrainingJob) -> Object | None:
    """Return the NetworkPolicy of the supervisor's port; None if the job file has none.

    https://kubernetes.io/docs/concepts/services-networking/network-policies/
    """
    own, port = job.run_policy.network_policy, job.run_policy.port
    if own is None or port is None:
        return None
    return filled(
        "networkpolicy",
        metadata=metadata(job, own_name(job), NAME),
        selector={ROLE: NAME, SUPERVISES: job.name},
        peers=[{"podSelector": {"matchLabels": selector(job)}}, *own.also_from],
        port=port,
    )


def _deletable_pods(topology: Topology) -> Iterator[str]:
    """Yield the names of the StatefulSets' pods, also of those that an elastic job may add."""
    for role in (role for role in topology.roles if role.serves):
        for index in range(max(role.replicas, role.max_replicas or 0)):
            yield f"{workload_name(topology.job, role)}-{index}"


def rules(job_plan: "Plan", pods: Sequence[str] = ()) -> Iterator[Object]:
    """Return the rules of the supervisor's Role, which list the job's objects by name.

    The supervisor may read all pods of the namespace and their logs, because pods have random
    names, and only pods contain exit codes.

    Args:
        job_plan: the plan.
        pods: the names of the pods that it may delete.
    """
    # `_clean` in mlgen/runtime/decide.py deletes the job's objects, or gives them an owner with a
    # time to live. Some clusters (OpenShift) require permission to delete for setting an owner:
    # https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement
    deletes, owns = job_plan.clean_pod_policy == "All", job_plan.ttl_seconds is not None
    ends = ["delete"] if deletes else ["patch", "delete"] if owns else []
    jobs, sets = (
        [item.name for item in job_plan.workloads if item.kind == kind] for kind in WORKLOADS
    )
    jobs += [job_plan.release] if job_plan.release else []
    reads, changes = ["list", "watch"], list(dict.fromkeys(["patch", *ends]))
    if len(jobs) > MANY_JOBS:
        # A rule with names does not permit a watch of several objects.
        yield policy_rule("batch", ["jobs"], reads)
        reads = []
    yield policy_rule("batch", ["jobs"], ["get", *reads, *changes], jobs)
    if sets:
        yield policy_rule("apps", ["statefulsets"], ["get", *ends], sets)
        yield policy_rule("apps", ["statefulsets/scale"], ["patch"], sets)
    for kind in OTHERS:
        names = [name for of_kind, name in job_plan.objects if of_kind == kind]
        if names:
            yield policy_rule("", [f"{kind.lower()}s"], ["get", *ends], names)
    yield policy_rule("", ["configmaps"], ["get", "patch"], [status_name(job_plan.job)])
    yield policy_rule("", ["pods"], ["list", "watch"])
    if job_plan.keep_last_log:
        yield policy_rule("", ["pods/log"], ["get"])
    if pods:
        yield policy_rule("", ["pods"], ["delete"], pods)
    yield policy_rule("", ["events"], ["create"])


def _pod_template(topology: Topology, name: str, fields: Object) -> Object:
    """Return the supervisor's pod template.

    Args:
        topology: the job's topology.
        name: the name of the supervisor's Job.
        fields: of a pod that mlgen adds.
    """
    job, port = topology.job, topology.job.run_policy.port
    memory = _memory_limit(topology)
    own = {
        "requests": {"cpu": "50m", "memory": memory},
        "limits": {"cpu": "500m", "memory": memory},
    }
    # The supervisor needs only the API server. A mesh proxy could keep its pod from completing.
    mesh = MESH["none"]
    scrape = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}
    return filled(
        "supervisor",
        labels=app_labels(job, NAME)
        | fields["labels"]
        | {ROLE: NAME, SUPERVISES: job.name}
        | mesh["labels"],
        annotations=fields["annotations"]
        | mesh["annotations"]
        | (scrape if job.run_policy.metrics_port else {})
        | security.KEEP[job.scheduling.safe_to_evict],
        name=name,
        files=program_name(job),
        node_selector=fields["node_selector"],
        tolerations=fields["tolerations"],
        priority=fields["priority"],
        pull_secrets=fields["pull_secrets"],
        image=image(job.helpers),
        command=IN_IMAGE if job.helpers.supervisor_image else IN_ARCHIVE,
        exit={"name": "MLGEN_EXIT", "value": "1"} if topology.decides != "one" else None,
        port={"name": "metrics", "containerPort": port} if port else None,
        resources=security.helper_resources(job, own),
        security=security.helper_context(job),
    )


def _memory_limit(topology: Topology) -> str:
    """Return the memory limit of the supervisor, from the number of pods and Jobs."""
    replicas = sum(max(role.replicas, role.max_replicas or 0) for role in topology.roles)
    jobs = sum(not role.serves for role in topology.roles)
    each = EACH_REPLICA + (EACH_SENDER if topology.job.run_policy.has_requests else 0)
    needed = BASE + replicas * each + jobs * EACH_JOB
    return f"{max(LEAST, -(-needed // STEP) * STEP) >> 10}Mi"
