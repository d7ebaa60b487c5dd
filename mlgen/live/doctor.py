"""mlgen doctor: check the cluster for everything that jobs need.

The result of a check is a row with a level, a subject and a hint. The texts are in
`schemas/kubernetes/doctor.json`.

`mlgen.checks.prerequisites` lists the prerequisites of a job: Secrets and their keys,
PersistentVolumeClaims, classes, queues and schedulers. The devices of the nodes are also checked.
One kubectl command checks all permissions by SelfSubjectAccessReviews, which the API server does
not store (see `kubectl auth can-i`). The dry run runs the API server's validation and admission
policies. PodSecurity, LimitRanges and quotas check one pod of each workload.
https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Any, NamedTuple

from mlgen.checks import prerequisites
from mlgen.checks.pods import title, workloads
from mlgen.checks.prerequisites import CLUSTER_SCOPED, GATE, GATES, SCHEDULER, Prerequisite
from mlgen.kubernetes import quantity, references
from mlgen.kubernetes.objects import Object, group_of
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion, parse
from mlgen.live import reasons
from mlgen.live.kubectl import CAUSES, NO_SERVER, ClusterError, Kubectl, failure, listed
from mlgen.objects.placement import is_single_job
from mlgen.output.manifests import file_argument
from mlgen.output.terminal import columns, counted, named, some
from mlgen.resources import table
from mlgen.result import Rendered

DATA: dict[str, Any] = table("kubernetes/doctor")

DNS = "kube-system"
"""The namespace of the cluster's DNS, except in OpenShift:
https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/."""

DNS_PORT = 53

ENFORCE = "pod-security.kubernetes.io/enforce"
"""https://kubernetes.io/docs/concepts/security/pod-security-admission/"""

APPLY = ("get", "create", "patch")
"""The verbs of `kubectl apply`."""

READS = (("pods", "list"), ("pods/log", "get"))
"""The permissions that `mlgen status` and `mlgen logs` need."""

DEFINITION = "CustomResourceDefinition"

RESOURCES = {"NetworkAttachmentDefinition": "network-attachment-definitions.k8s.cni.cncf.io"}
"""Resource names that cannot be derived from the kind."""

MAX_USERS = 4

LOCAL, CLUSTER = "localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"

DEFAULT = "default"
"""Jobs without a queue get the LocalQueue of this name, if the namespace has one:
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/."""

FORBIDDEN = "is forbidden: User "

REPORTED = re.compile(
    rf'^Warning: |no matches for kind|{FORBIDDEN}|rbac\.authorization\.k8s\.io "[^"]*" not found'
)
"""Warnings, and errors that other rows report: missing kinds and permissions. A dry run also
rejects the binding of a Role that does not exist, because it does not create the Role."""

IMMUTABLE = "field is immutable"

GRANTS = "is attempting to grant RBAC permissions"
"""Users may not grant permissions that they do not have:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-creation-or-update"""

NOT_YET = ("serviceAccountName", "priorityClassName", "runtimeClassName", "schedulingGates")
"""Pod fields that refer to objects not created by a dry run, or reported in their own row."""


class Row(NamedTuple):
    """The result of one check.

    Attributes:
        level: ok, note, warning or missing.
        subject: the checked object or program: `Secret bert-keys`.
        text: the result, and a hint: a command or a sentence.
    """

    level: str
    subject: str
    text: str


Section = tuple[str, list[Row]]
"""A title, and the rows about the cluster or one job."""


class Patient(NamedTuple):
    """A job, and access to its cluster and namespace.

    Attributes:
        rendered: the job.
        kubectl: reads the cluster.
        namespace: the job's namespace, or else the namespace of kubectl's context.
        exists: False if the namespace does not exist.
        served: the API server's resources with their groups: `jobs.batch`.
    """

    rendered: Rendered
    kubectl: Kubectl
    namespace: str
    exists: bool
    served: frozenset[str]

    def objects(self, *words: str) -> list[Object] | None:
        """Return objects of the namespace; None if the user may not read them."""
        return self.kubectl.readable(*words, namespace=self.namespace)


def row(key: str, /, **values: object) -> Row:
    """Return a row of `doctor.json` with its values. Without a hint, the colon is omitted."""
    level, subject, text = DATA["rows"][key]
    return Row(level, subject.format(**values), text.format(**values).removesuffix(": "))


def page(sections: Sequence[Section]) -> str:
    """Return the output of `mlgen doctor`."""
    tables = ["\n".join([title, *columns(rows, "  ")]) for title, rows in sections]
    return "\n\n".join(tables) + "\n"


def has_missing(sections: Iterable[Section]) -> bool:
    """Return whether a row has the level `missing`."""
    return any(each.level == "missing" for _, rows in sections for each in rows)


def examine(kubectl: Kubectl, jobs: Sequence[Rendered], target: KubeVersion) -> list[Section]:
    """Return the rows about the cluster, and about each job.

    Args:
        kubectl: reads the cluster.
        jobs: the jobs to check; () to check only the cluster, with its optional APIs.
        target: the version of Kubernetes that manifests are rendered for.

    Raises:
        ClusterError: kubectl fails unexpectedly.
    """
    rows: list[Row] = []
    sections: list[Section] = [("the cluster", rows)]
    try:
        rows += versions(kubectl, target)
    except ClusterError as error:
        if error.cause == "missing":
            rows.append(row("no kubectl", message=error.message))
        elif error.cause in NO_SERVER:
            hint = CAUSES[error.cause]["hint"]
            rows.append(row("no server", message=error.message, hint=hint))
        else:
            raise
    if has_missing(sections):
        return sections
    # Every user may read this list. It includes all custom resources.
    outcome = kubectl.outcome("api-resources", "-o", "name")
    if not outcome.stdout.strip():  # it also fails if one aggregated API does not respond
        raise failure(outcome)
    served = frozenset(outcome.stdout.split())
    rows += _dns(kubectl)
    rows += [] if jobs else apis(served)
    context = kubectl.default_namespace()
    for job in jobs:
        namespace = job.job.namespace or context
        title = f"{job.job.name} in namespace {namespace}"
        sections.append((title, list(_of_job(kubectl, job, namespace, served))))
    return sections


def _dns(kubectl: Kubectl) -> Iterator[Row]:
    """Yield a note if kube-system has no Service with the DNS port."""
    found = kubectl.readable("get", "services", namespace=DNS)
    ports = [port["port"] for each in found or () for port in each["spec"].get("ports") or ()]
    if found is not None and DNS_PORT not in ports:
        yield row("no DNS", namespace=DNS, port=DNS_PORT)


def _of_job(
    kubectl: Kubectl, rendered: Rendered, name: str, served: frozenset[str]
) -> Iterator[Row]:
    """Yield the rows about a job in a namespace."""
    found = kubectl.readable("get", "namespace", name, "--ignore-not-found")
    patient = Patient(rendered, kubectl, name, found != [], served)
    if not patient.exists:
        yield row("no namespace", name=name, quoted=quote(name))
    yield from rights(patient)
    if found is None:
        yield row("unreadable namespace", name=name)
    for each in found or ():
        level = (each["metadata"].get("labels") or {}).get(ENFORCE)
        yield row("secured namespace" if level else "namespace", name=name, level=level)
    yield from needs(patient)
    yield from queue(patient)
    yield from devices(patient)
    if patient.exists:
        yield from quotas(patient)
        yield from dry_run(patient)


def versions(kubectl: Kubectl, target: KubeVersion) -> list[Row]:
    """Return the versions of kubectl and the API server, compared with `--kube-version`.

    Raises:
        ClusterError: kubectl is not installed, or prints no JSON.
    """
    outcome = kubectl.outcome("version", "-o", "json")
    try:
        document = json.loads(outcome.stdout)
    except ValueError:
        raise failure(outcome) from None
    client, present = (document.get(f"{side}Version", {}) for side in ("client", "server"))
    of_client = row("kubectl", version=client.get("gitVersion", "?"))
    if present:
        return [of_client, server(str(present["gitVersion"]), target)]
    hint = CAUSES["unreachable"]["hint"]
    return [of_client, row("no server", message=outcome.message, hint=hint)]


def server(text: str, target: KubeVersion) -> Row:
    """Return the row that compares the API server's version with the target version.

    Args:
        text: the version that the API server reports.
        target: the version that manifests are rendered for.
    """
    try:
        version = parse(text)
    except ValueError:
        return row("unknown server", version=text, first=SUPPORTED[0], last=SUPPORTED[-1])
    name = "older server" if version < target else "server"
    return row(name, version=text, target=target, minor=version)


def apis(served: frozenset[str]) -> Iterator[Row]:
    """Yield a row for each optional API: whether the cluster serves it.

    Args:
        served: the cluster's resources with their groups.
    """
    for api in DATA["apis"]:
        yield row("api" if api["resource"] in served else "no api", **api)


# One job


def plural(kind: str) -> str:
    """Return the resource of a kind: `jobs`, `networkpolicies`, `priorityclasses`."""
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


def resource(group: str, kind: str) -> str:
    """Return the resource of a kind as kubectl writes it: `jobs.batch`, `services`."""
    return f"{plural(kind)}.{group}".rstrip(".")


def rights(patient: Patient) -> Iterator[Row]:
    """Yield whether the user may apply the job's objects and read its pods and logs."""
    objects = patient.rendered.objects
    own = dict.fromkeys(resource(group_of(item["apiVersion"]), item["kind"]) for item in objects)
    asked = [*((name, verb) for name in own for verb in APPLY), *READS]
    reviews = listed(_review(patient.namespace, *access) for access in asked)
    answers = patient.kubectl.objects("create", "-f", "-", stdin=reviews)
    denied: dict[str, list[str]] = {}
    for (name, verb), answer in zip(asked, answers, strict=True):
        if not answer["status"].get("allowed"):
            denied.setdefault(name, []).append(verb)
    if own.keys().isdisjoint(denied):
        yield row("rights", resources=", ".join(own))
    for name, verbs in denied.items():
        need = "no right to apply" if name in own else "no right to read"
        yield row(need, resource=name, verbs=", ".join(verbs))


def _review(namespace: str, full: str, verb: str) -> Object:
    """Return the review of a verb on a resource, such as `pods/log` or `jobs.batch`."""
    name, _, group = full.partition(".")
    name, _, subresource = name.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes | {"subresource": subresource}},
    }


def needs(patient: Patient) -> Iterator[Row]:
    """Yield a row for each prerequisite of a job: whether the cluster has it."""
    by_kind: dict[str, list[Prerequisite]] = {}
    for item in patient.rendered.prerequisites:
        by_kind.setdefault(item.kind, []).append(item)
    for kind, items in by_kind.items():
        if kind not in (DEFINITION, GATE, SCHEDULER):
            yield from _objects(patient, items)
            continue
        there = _programs(patient, kind)
        for item in items:
            kinds = ", ".join(resource(*each) for each, gate in GATES.items() if gate == item.name)
            yield _row(kind if item.name in there else f"no {kind}", item, kinds=kinds)


def _programs(patient: Patient, kind: str) -> frozenset[str]:
    """Return the names of a cluster's definitions, feature gates or schedulers.

    A feature gate is enabled if the API server serves its kinds. No API lists the schedulers: a
    scheduler is present if a Lease has its name, or if it has placed pods.
    """
    if kind == DEFINITION:
        return patient.served
    if kind == GATE:
        off = {gate for each, gate in GATES.items() if resource(*each) not in patient.served}
        return frozenset(GATES.values()) - off
    leases = patient.kubectl.readable("get", "leases.coordination.k8s.io", "-A")
    words = ("get", "events", "-A", "--field-selector=reason=Scheduled")
    events = patient.kubectl.readable(*words)
    seen = {str(each.get("reportingComponent")) for each in events or ()}
    return frozenset(seen | {each["metadata"]["name"] for each in leases or ()})


def _row(key: str, item: Prerequisite, **values: object) -> Row:
    """Return the row of a prerequisite, with its users: `for worker, launcher`."""
    return row(key, item=item, users=some(item.used_by, MAX_USERS), **values)


def _objects(patient: Patient, items: Sequence[Prerequisite]) -> Iterator[Row]:
    """Yield whether the required objects of one kind exist, by one request."""
    kind = items[0].kind
    name = RESOURCES.get(kind, resource(items[0].group, kind))
    in_cluster = kind in CLUSTER_SCOPED
    # kubectl would parse these names as options. They are not valid names of objects.
    names = [item.name for item in items if not item.name.startswith("-")]
    found: list[Object] | None = []
    if names and name in patient.served and (in_cluster or patient.exists):
        space = None if in_cluster else items[0].namespace or patient.namespace
        words = ("get", name, *names, "--ignore-not-found")
        found = patient.kubectl.readable(*words, namespace=space)
    live = {each["metadata"]["name"]: each for each in found or ()}
    uses = _uses(patient)
    for item in items:
        if name not in patient.served:
            yield _row("no kind", item, resource=name)
        elif found is None:
            yield _row("unreadable", item)
        elif item.name not in live:
            yield _row("not found", item)
        else:
            yield _state(item, live[item.name], *uses.get((kind, item.name), (set(), False)))


def _uses(patient: Patient) -> dict[tuple[str, str], tuple[set[str], bool]]:
    """Return by kind and name the keys that the job's pods use, and whether Git uses the object."""
    uses: dict[tuple[str, str], tuple[set[str], bool]] = {}
    for workload in workloads(patient.rendered.objects).values():
        template = workload["spec"]["template"]
        of_git = set(prerequisites.git_volumes(template["spec"]))
        for each in references.of_pod(template):
            keys, is_git = uses.get((each.kind, each.name), (set(), False))
            uses[each.kind, each.name] = {*keys, *each.keys}, is_git or each.volume in of_git
    return uses


def _state(item: Prerequisite, live: Object, keys: set[str], is_git: bool) -> Row:  # noqa: FBT001
    """Return the row of an existing object: whether it has all keys and is ready.

    Args:
        item: the prerequisite.
        live: the object.
        keys: the keys that the pods use.
        is_git: True if Git uses it to log in.
    """
    present = {*(live.get("data") or {}), *(live.get("binaryData") or {})}
    absent = sorted(keys - present)
    if absent:
        hint = f"to replace it: {item.command}" if item.command else ""
        return _row("no key", item, keys=", ".join(absent), hint=hint)
    if is_git and "ssh-privatekey" in present and "known_hosts" not in present:
        return _row("no known_hosts", item)
    phase = (live.get("status") or {}).get("phase", "")
    if item.kind == "PersistentVolumeClaim" and phase != "Bound":
        return _row("not bound", item, phase=phase or "not bound")
    return _row("need", item)


def devices(patient: Patient) -> Iterator[Row]:
    """Yield a row for each device that the job's pods request: how many nodes have it."""
    users: dict[str, dict[str, None]] = {}
    for workload in workloads(patient.rendered.objects).values():
        for name in quantity.requests(workload["spec"]["template"]["spec"]):
            if "/" in name:
                users.setdefault(name, {})[title(workload)] = None
    nodes = patient.kubectl.readable("get", "nodes") if users else []
    if nodes is None:
        yield row("unreadable nodes", names=named(users))
        return
    for name, titles in users.items():
        amounts = [node["status"].get("allocatable", {}).get(name, "0") for node in nodes]
        having = len(amounts) - amounts.count("0")
        values = {"count": having, "nodes": counted(len(nodes), "node")}
        values["users"] = some(list(titles), MAX_USERS)
        yield row("device" if having else "no device", name=name, **values)


def quotas(patient: Patient) -> Iterator[Row]:
    """Yield a row for each ResourceQuota of the namespace, with its use."""
    found = patient.objects("get", "resourcequotas")
    if found is None:
        yield row("unreadable quotas")
    for quota in found or ():
        status = quota.get("status") or {}
        hard, used = status.get("hard") or quota["spec"].get("hard") or {}, status.get("used") or {}
        uses = [f"{name}: {used.get(name, '0')} of {limit} used" for name, limit in hard.items()]
        yield row("quota", name=quota["metadata"]["name"], uses=", ".join(uses))


def queue(patient: Patient) -> Iterator[Row]:
    """Yield whether the ClusterQueue of a job's LocalQueue exists and is active."""
    topology = patient.rendered.topology
    scheduling = topology.job.scheduling
    if scheduling.gang != "kueue" or LOCAL not in patient.served or not patient.exists:
        return
    by_name = {item["metadata"]["name"]: item for item in patient.objects("get", LOCAL) or ()}
    if DEFAULT in by_name and not is_single_job(topology):
        yield row("default queue", name=DEFAULT)
    if scheduling.queue not in by_name:
        return  # reported by `needs`
    name = by_name[scheduling.queue]["spec"]["clusterQueue"]
    found = patient.kubectl.readable("get", CLUSTER, name, "--ignore-not-found")
    conditions = [
        each for item in found or () for each in item.get("status", {}).get("conditions", ())
    ]
    stopped = [each for each in conditions if (each["type"], each["status"]) == ("Active", "False")]
    if found is None:
        yield row("unreadable queue", name=name)
    elif not found:
        yield row("no queue", name=name, local=scheduling.queue)
    elif stopped:
        yield row("stopped queue", name=name, message=stopped[0].get("message", ""))
    else:
        yield row("queue", name=name)
    asked = reasons.pending(patient.kubectl, patient.namespace, str(scheduling.queue))
    missing = "no right to positions" if asked.cause == "forbidden" else "no positions"
    yield row(missing if asked.status else "positions")


def dry_run(patient: Patient) -> Iterator[Row]:
    """Yield the API server's errors about a job's objects and pods in a dry run."""
    errors = _errors(patient, patient.rendered.objects)
    rejected = [error for error in errors if not REPORTED.search(error)]
    for error in rejected:
        if IMMUTABLE in error:
            command = ["mlgen", "diff", "--live", file_argument(patient.rendered.file)]
            yield row("rejected change", command=shlex.join(command))
        else:
            yield row("rejected grant" if GRANTS in error else "rejected", error=error)
    if not rejected:
        yield row("accepted")
    of_pods = _errors(patient, _pods(patient))
    if any(FORBIDDEN in error for error in of_pods):
        yield row("untried pods")
    for error in of_pods:
        for each in DATA["rejections"]:
            if match := re.search(each["pattern"], error):
                yield row(each["row"], error=error, hint=each["hint"].format(**match.groupdict()))


def _pods(patient: Patient) -> Iterator[Object]:
    """Yield one pod of each workload, as its controller would create it.

    It uses the default service account, because a dry run does not create the job's own.
    """
    for item in workloads(patient.rendered.objects).values():
        template = item["spec"]["template"]
        spec = {key: template["spec"][key] for key in template["spec"] if key not in NOT_YET}
        metadata = {"name": f"{item['metadata']['name']}-dry-run"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _errors(patient: Patient, objects: Iterable[Object]) -> list[str]:
    """Return the API server's errors about objects in a dry run, each in one line."""
    words = ("apply", "--dry-run=server", "-f", "-")
    outcome = patient.kubectl.outcome(*words, namespace=patient.namespace, stdin=listed(objects))
    if not outcome.status:
        return []
    starts = r"(?m)^(?=Error from server|error: |The \w+ \")"
    found = [" ".join(each.split()) for each in re.split(starts, outcome.stderr)]
    return list(dict.fromkeys(filter(None, found)))
