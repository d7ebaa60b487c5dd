"""Objects of a job → problems with references to objects that do not exist or do not match.

Selectors, mounts, RBAC rules and the supervisor refer to other objects by label or name. If a label
or name changes in one place only, the API server accepts the manifests and the job hangs.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from mlgen.checks.network import ELASTIC, discovers_hosts
from mlgen.checks.placement import REQUIRED
from mlgen.checks.pods import (
    NAME,
    POD,
    TEMPLATE,
    Located,
    Objects,
    Pods,
    broken,
    in_jobset,
    name_of,
    of_manifests,
    of_objects,
    title,
)
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object, group_of
from mlgen.kubernetes.references import DEFAULT_SCHEDULER
from mlgen.kubernetes.values import strings, value_at
from mlgen.kubernetes.versions import (
    MUTABLE_WHILE_SUSPENDED,
    POD_GROUPS,
    RESTART_ALL_CONTAINERS,
    KubeVersion,
)
from mlgen.objects.labels import (
    COMPONENT,
    JOB,
    MAX_REPLICAS,
    REPLICA_INDEX,
    ROLE,
    SET,
    config_name,
    status_name,
)
from mlgen.objects.pod import SCRIPTS
from mlgen.objects.supervisor import NAME as SUPERVISOR
from mlgen.objects.supervisor import PLAN, planned, read_plan
from mlgen.problems import Problem, ValuePath, did_you_mean, warning

if TYPE_CHECKING:
    from mlgen.runtime.plan import Plan

SELECTOR_LABELS = (JOB, ROLE, REPLICA_INDEX)


def broken_references(job: Objects) -> Iterator[Located]:
    """Yield a problem for each reference to an object that is missing or does not match."""
    yield from _services(job)
    yield from _config_maps(job)
    yield from _rights(job)
    yield from _accounts(job)
    yield from _supervisor(job)


def _unused(job: Objects, kind: str, used: Collection[Any], reason: str) -> Iterator[Located]:
    """Yield a problem for each unused object of a kind."""
    for name, item in job.of_kind(kind).items():
        if name not in used:
            yield broken(item, NAME, f"{reason} {title(item)}")


def _services(job: Objects) -> Iterator[Located]:
    """Check that Services select pods, and that DNS resolves the host names of all pods.

    DNS requires a headless Service that selects the pods:
    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    """
    services = job.of_kind("Service")
    selectors = {name: item["spec"]["selector"] for name, item in services.items()}
    without_pods = [name for name in services if not any(job.selected(selectors[name]))]
    for name in without_pods:
        labels = ", ".join(label for label in SELECTOR_LABELS if label in selectors[name])
        message = f"{title(services[name])} selects no pods"
        hint = f"in templates, do not override these labels: {labels}"
        yield broken(services[name], ("spec", "selector"), message, hint, "selector")
    for pods in job.distinct_pods:
        path, subdomain = pods.subdomain
        if subdomain and subdomain not in services:
            needed = f"need the Service {subdomain}, which does not exist"
            yield broken(pods.item, path, f"the pods of {title(pods.item)} {needed}")
        elif subdomain and subdomain not in without_pods:
            selector = selectors[subdomain]
            if not pods.selected(selector):
                message = (
                    f"{title(services[subdomain])} does not select the pods of {title(pods.item)}"
                )
                hint = f"do not override the labels {', '.join(selector)}"
                labels_path = (*TEMPLATE, "metadata", "labels")
                yield broken(pods.item, labels_path, message, hint, "selector")
    subdomains = {pods.subdomain[1] for pods in job.distinct_pods}
    before_ready = not discovers_hosts(job)
    which = "pods that are not ready" if before_ready else "only pods that are ready"
    for name, service in services.items():
        spec = service["spec"]
        publishes = spec.get("publishNotReadyAddresses", False)
        is_right = spec.get("clusterIP") == "None" and publishes is before_ready
        if name in subdomains and not is_right:
            message = f"{title(service)} must be headless and publish {which}"
            hint = f"set clusterIP: None and publishNotReadyAddresses: {str(before_ready).lower()}"
            yield broken(service, ("spec",), message, hint)
    for service in services.values():
        yield from _replica_service(job, service)


def _replica_service(job: Objects, service: Object) -> Iterator[Located]:
    """Check that the Service of one replica has the replica's host name, which peers use."""
    selector, name = service["spec"]["selector"], name_of(service)
    if not {REPLICA_INDEX, JOB_INDEX, SET_INDEX} & set(selector):
        return
    selected = list(job.selected(selector))
    # A Service for an operator's role that was merged into another role matches no pod name.
    of_role = name.startswith(f"{job.name}-{selector.get(ROLE)}-")
    is_alias = re.fullmatch(rf"{re.escape(job.name)}-.+-\d+", name) and not of_role
    hosts = (name, *in_jobset(name))
    is_named = any(name_of(pods.item) == name or any(map(pods.has, hosts)) for pods in selected)
    if selected and not is_alias and not is_named:
        message = f"{title(service)} selects {title(selected[0].item)}, but has another name"
        yield broken(service, NAME, message)


def _config_maps(job: Objects) -> Iterator[Located]:
    """Check that mlgen's ConfigMaps exist, contain the keys that pods use, and are used.

    The name of each begins with `<job>.`; see `objects.labels.config_name`.
    """
    maps, own = job.of_kind("ConfigMap"), config_name(job.name)
    keys = {name: {*o.get("data", {}), *o.get("binaryData", {})} for name, o in maps.items()}
    # The status ConfigMap lacks this label, and no pod mounts it.
    used = {name for name, item in maps.items() if JOB not in item["metadata"]["labels"]}
    for pods in job.distinct_pods:
        for path, holder, field in _possible_references(pods):
            if field not in holder:
                continue
            source = holder[field]
            name = source.get("name", "")
            used.add(name)
            is_own = name.startswith(f"{job.name}.") and not source.get("optional")
            if is_own and name not in maps and name not in strings(job.job_file):
                message = f"uses the ConfigMap {name}, which does not exist"
                yield broken(pods.item, (*path, field), message)
            for number, item in enumerate(source.get("items", []) if name in maps else []):
                if item["key"] not in keys[name]:
                    message = f"ConfigMap {name} has no key {item['key']}"
                    item_path = (*path, field, "items", number)
                    yield broken(pods.item, item_path, message, "use a key that exists", "volume")
    if own in maps or own not in used:
        yield from _unused(job, "ConfigMap", used, "no pod uses")
    scripts = {
        word.removeprefix(f"{SCRIPTS}/")
        for pods in job.distinct_pods
        for container in pods.containers
        for word in container.data.get("command", [])
        if word.startswith(SCRIPTS)
    }
    for name in sorted(scripts - keys[own]) if own in maps else ():
        yield broken(maps[own], ("data",), f"{title(maps[own])} has no key {name}")


def _possible_references(pods: Pods) -> Iterator[tuple[ValuePath, Object, str]]:
    """Yield each possible reference to a ConfigMap: the path, the mapping, and the field."""
    for path, volume in pods.volumes():
        yield path, volume, "configMap"
        for number, source in enumerate(volume.get("projected", {}).get("sources", [])):
            yield (*path, "projected", "sources", number), source, "configMap"
    for container in pods.containers:
        path = container.path
        for number, source in enumerate(container.data.get("envFrom", [])):
            yield (*path, "envFrom", number), source, "configMapRef"
        for number, item in enumerate(container.data.get("env", [])):
            yield (*path, "env", number, "valueFrom"), item.get("valueFrom", {}), "configMapKeyRef"


KINDS = {"jobs": "Job", "statefulsets": "StatefulSet", "services": "Service"}
KINDS |= {"configmaps": "ConfigMap", "deployments": "Deployment"}
"""Kinds by resource name in RBAC, without pods, because no manifest contains pods."""


def _rules(job: Objects) -> Iterator[tuple[Object, ValuePath, str, Sequence[str]]]:
    """Yield each resource in the rules of a Role, with the path and its resourceNames."""
    for item in job.roles.values():
        for number, rule in enumerate(item["rules"]):
            for resource in rule.get("resources", []):
                path = ("rules", number, "resourceNames")
                yield item, path, resource, rule.get("resourceNames", [])


def _rights(job: Objects) -> Iterator[Located]:
    """Check that the objects and pods named in Roles and in the elastic host list exist."""
    for item, path, resource, names in _rules(job):
        # A program that creates pods may use names that no manifest contains.
        is_pods = resource.partition("/")[0] == "pods"
        if is_pods and names and not any(map(creates_pods, item["rules"])):
            yield from _pod_names(job, item, path, names)
        kind = KINDS.get(resource.partition("/")[0])
        for position, name in enumerate(names if kind else []):
            if name not in job.of_kind(str(kind)):
                message = f"{title(item)} names the {kind} {name}, which does not exist"
                yield broken(item, (*path, position), message)
    for item in job.of_kind("ConfigMap").values():
        if ELASTIC in item.get("data", {}):
            names = re.findall(r"(?<![\w.-])[a-z0-9-]+-\d+(?![\w-])", item["data"][ELASTIC])
            yield from _pod_names(job, item, ("data", ELASTIC), names)


def _pod_names(
    job: Objects, item: Object, path: ValuePath, names: Sequence[str]
) -> Iterator[Located]:
    """Check that a list of pods contains only pods of the job, without gaps.

    It may contain more pods than a role has now, because an elastic role can grow.

    Args:
        job: all objects.
        item: the object with the list.
        path: the path of the list, or of the text that contains it.
        names: the list.
    """
    indexes: dict[str, set[int]] = {}
    for position, name in enumerate(names):
        pods = job.of_host(name)
        if pods is None:
            name_path = (*path, position) if path[0] == "rules" else path
            message = f'{title(item)} names the pod "{name}", which does not exist'
            yield broken(item, name_path, message)
            return
        indexes.setdefault(pods.name, set()).add(pods.index(name) or 0)
    for name, listed in indexes.items():
        pods = job.by_host[name]
        expected = range(max(pods.count or 0, max(listed) + 1)) if pods.indexed else ()
        missing = next((index for index in expected if index not in listed), None)
        if missing is not None:
            message = f'{title(item)} does not name the pod "{name}-{missing}"'
            yield broken(item, path, message)


def _accounts(job: Objects) -> Iterator[Located]:
    """Check that pods, ServiceAccounts, RoleBindings and Roles refer to each other."""
    accounts, used = job.of_kind("ServiceAccount"), {pods.account for pods in job.pods}
    bindings = job.of_kind("RoleBinding").values()
    for item in bindings:
        yield from _binding(job, item, used)
    # mlgen's ServiceAccounts have the names of workloads. Others are the user's and may exist.
    missing = [
        pods
        for pods in job.pods
        if pods.account == name_of(pods.item) and pods.account not in accounts
    ]
    for pods in missing:
        message = f"runs as the ServiceAccount {pods.account}, which does not exist"
        yield broken(pods.item, (*POD, "serviceAccountName"), message)
    if not missing:
        subjects = {subject["name"] for item in bindings for subject in item.get("subjects", [])}
        unbound = subjects | (accounts.keys() - used)
        yield from _unused(job, "ServiceAccount", used, "no pod runs as the")
        yield from _unused(job, "ServiceAccount", unbound, "no RoleBinding refers to the")
    bound = {item["roleRef"]["name"] for item in bindings}
    yield from _unused(job, "Role", bound, "no RoleBinding refers to the")


def _binding(job: Objects, item: Object, used: set[str | None]) -> Iterator[Located]:
    """Check the Role and subjects of a RoleBinding. `used` are the pods' ServiceAccounts."""
    role, namespace = item["roleRef"]["name"], item["metadata"].get("namespace")
    if role not in job.roles:
        message = f"{title(item)} refers to the Role {role}, which does not exist"
        yield broken(item, ("roleRef", "name"), message)
    for number, subject in enumerate(item.get("subjects", [])):
        path: ValuePath = ("subjects", number)
        if subject["name"] not in used:
            message = f"{title(item)} has the subject {subject['name']}, but no pod runs as it"
            yield broken(item, (*path, "name"), message)
        if namespace and subject.get("namespace", namespace) != namespace:
            message = f"{title(item)} has a subject in another namespace"
            hint = f"use the namespace {namespace}"
            yield broken(item, (*path, "namespace"), message, hint, "namespace")


def _supervisor(job: Objects) -> Iterator[Located]:
    """Check that the objects in the supervisor's plan exist, and that a Role permits access."""
    for item in job.of_kind("ConfigMap").values():
        plan = planned(item)
        if plan is not None:
            try:
                messages = list(_wrong_in_plan(job, read_plan(plan)))
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
                messages = ["is not a valid plan for the supervisor"]
            for message in messages:
                yield broken(item, ("data", PLAN), f"{PLAN} {message}")


def _wrong_in_plan(job: Objects, plan: "Plan") -> Iterator[str]:
    """Yield the contradictions between a plan and the objects. Raises ValueError for no plan."""
    if not plan.workloads:
        raise ValueError("a plan has workloads")
    named = [("ConfigMap", status_name(plan.job)), *(("Job", name) for name in plan.deciding)]
    named += [*((workload.kind, workload.name) for workload in plan.workloads), *plan.objects]
    allowed = {
        (KINDS.get(resource), name) for _, _, resource, names in _rules(job) for name in names
    }
    for kind, name in dict.fromkeys(named):
        if name not in job.of_kind(kind):
            yield f"refers to {kind.lower()}/{name}, which does not exist"
        elif (kind, name) not in allowed:
            yield f"refers to {kind.lower()}/{name}, which no Role gives access to"
    for workload in plan.workloads:
        kind, name, expected = workload.kind, workload.name, workload.replicas
        item = job.of_kind(kind).get(name, {})
        replicas = item["spec"].get("replicas", 1) if item else expected
        is_elastic = value_at(item, ("metadata", "annotations", MAX_REPLICAS))
        if kind == "StatefulSet" and not is_elastic and replicas not in (0, expected):
            yield f"expects {expected} replicas of statefulset/{name}, which has {replicas}"
        own = value_at(item, (*TEMPLATE, "metadata", "labels", SET))
        if kind == "Job" and item and (own or "") != plan.set:
            yield f"belongs to a different version of the job than job/{name}"


NATIVE = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroup."""

GROUP: tuple[ValuePath, ...] = (
    ("metadata", "annotations", "scheduling.k8s.io/group-name"),
    ("metadata", "annotations", "pod-group-name"),
    ("metadata", "labels", "scheduling.x-k8s.io/pod-group"),
    ("spec", "schedulingGroup", "podGroupName"),
)
"""The paths of the PodGroup's name in a pod template, one for each gang scheduler."""

OWN_SCHEDULER = {"scheduling.volcano.sh": "volcano", "scheduling.run.ai": "kai-scheduler"}
"""The API groups of PodGroups that Kubernetes' own scheduler never handles, with the scheduler."""

GANG: ValuePath = ("spec", "scheduling", "gang")


def unschedulable_groups(job: Objects, kube_version: KubeVersion) -> Iterator[Located]:
    """Yield the problems that prevent the scheduler from starting the pods of a PodGroup.

    Args:
        job: the objects of the job.
        kube_version: the version of the cluster.
    """
    for name, item in job.pod_groups.items():
        members = [pods for pods in job.pods if _group(pods) == name]
        total = sum(pods.count or 0 for pods in members)
        is_native = group_of(item["apiVersion"]) == NATIVE
        native_path = ("spec", "schedulingPolicy", "gang", "minCount")
        path: ValuePath = native_path if is_native else ("spec", "minMember")
        least = value_at(item, path) or 0
        if members and least > total and all(pods.count is not None for pods in members):
            message = f"{title(item)} requires {least} pods, but the job has {total}"
            hint = f"do not override {path[-1]} or the number of replicas"
            yield broken(item, path, message, hint)
        if is_native and kube_version < POD_GROUPS:
            message = f"Kubernetes {kube_version} does not support PodGroup {item['apiVersion']}"
            hint = f"set --kube-version {POD_GROUPS}, or use another gang scheduler"
            yield Located(item, ("apiVersion",), Problem(GANG, message, "combination", hint))
        if is_native:
            distinct = [pods for pods in job.distinct_pods if _group(pods) == name]
            yield from _differences(item, distinct)
    if job.pod_groups:
        groups = set(map(_group, job.pods))
        yield from _unused(job, "PodGroup", groups, "no pod belongs to")


def _group(pods: Pods) -> str | None:
    """Return the name of the PodGroup that pods belong to."""
    return next(filter(None, (value_at(pods.template, path) for path in GROUP)), None)


def _differences(group: Object, members: list[Pods]) -> Iterator[Located]:
    """Yield a problem for each pod that Kubernetes' scheduler rejects in a group.

    All pods must have the same scheduler, and the priority of the PodGroup (Kubernetes 1.37.0,
    pkg/scheduler/schedule_one_podgroup.go, validatePodGroup).
    """
    for pods in members:
        expected = {
            "schedulerName": members[0].template["spec"].get("schedulerName"),
            "priorityClassName": group["spec"].get("priorityClassName"),
        }
        for field, value in expected.items():
            own = pods.spec.get(field)
            if own != value:
                difference = f"has {field} {own or 'none'}, but its gang has {value or 'none'}"
                message = f"{title(pods.item)} {difference}"
                hint = f"write scheduling.{field}, which applies to all pods of the gang"
                yield broken(pods.item, (*POD, field), message, hint, "combination")


@of_manifests.when("pod_groups")
def scheduler_of_gang(job: Objects) -> Iterator[Located]:
    """Report pods of another scheduler than their gang, if the gang's scheduler lacks them.

    A gang scheduler counts only its own pods.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        scheduling: {gang: volcano, schedulerName: default-scheduler}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        scheduling: {gang: volcano, schedulerName: volcano-2}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        scheduling: {gang: coscheduling, schedulerName: default-scheduler}
        roles: {worker: {replicas: 2}}
    """
    for name, item in job.pod_groups.items():
        counts: Counter[str] = Counter()
        for pods in job.pods:
            counts[_scheduler(pods)] += (pods.count or 0) * (_group(pods) == name)
        others = (each for each in counts if each != DEFAULT_SCHEDULER and counts[each])
        own = OWN_SCHEDULER.get(group_of(item["apiVersion"]), DEFAULT_SCHEDULER)
        gang, least = max(others, key=counts.__getitem__, default=own), 0
        if group_of(item["apiVersion"]) != NATIVE:
            least = value_at(item, ("spec", "minMember")) or 0
        for pods in job.distinct_pods if counts[gang] < least else ():
            if _group(pods) == name and _scheduler(pods) != gang:
                message = (
                    f"{title(pods.item)} has schedulerName {_scheduler(pods)}, but {gang}"
                    f" starts its gang, and waits for {least} pods"
                )
                hint = f"remove schedulerName, or write {gang}"
                path = (*POD, "schedulerName")
                yield broken(pods.item, path, message, hint, "combination")


def _scheduler(pods: Pods) -> str:
    return str(pods.spec.get("schedulerName") or DEFAULT_SCHEDULER)


@of_objects.when("claims")
def unmounted_claim(job: Objects) -> Iterator[Located]:
    """Report a PersistentVolumeClaim that is created, but not mounted.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          models: {accessModes: [ReadWriteMany], resources: {requests: {storage: 9Gi}}}
        volumes: {models: {mountPath: /models, pvc: model}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          models: {accessModes: [ReadWriteMany], resources: {requests: {storage: 9Gi}}}
        volumes: {models: {mountPath: /models, pvc: models}}
        roles: {worker: {replicas: 2}}
    """
    path = ("persistentVolumeClaim", "claimName")
    volumes = (volume for pods in job.distinct_pods for _, volume in pods.volumes())
    mounted = {value_at(volume, path) for volume in volumes} - {None}
    created = job.claims
    for name, item in created.items():
        if name not in mounted:
            similar = did_you_mean(name, sorted(mounted - created.keys()))
            hint = similar or f"mount it with pvc: {name} in a volume, or remove it"
            message = f"no pod mounts the PersistentVolumeClaim {name}"
            yield Located(item, (), warning(("claims", name), message, hint, "no-effect"))


TERMS = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")

AVOID: ValuePath = ("spec", "runPolicy", "avoidNodes")

NEWER = {
    "avoidNodes": (
        MUTABLE_WHILE_SUSPENDED,
        "Kubernetes {} rejects another node affinity for a Job that has run",
    ),
    "restartMode": (
        RESTART_ALL_CONTAINERS,
        "Kubernetes {} cannot restart all containers of a pod without a new pod",
    ),
}
"""The fields of `runPolicy` that need a version of Kubernetes, and the messages for older ones."""


def restarts(job: Objects, plan: "Plan", kube_version: KubeVersion) -> Iterator[Problem]:
    """Yield the problems of `runPolicy.avoidNodes` and `restartMode`.

    Args:
        job: the objects of the job.
        plan: the supervisor's plan.
        kube_version: the version of the cluster.
    """
    for name in _newer(plan):
        since, message = NEWER[name]
        if kube_version < since:
            hint = f"set --kube-version {since}, or remove it"
            path = ("spec", "runPolicy", name)
            yield Problem(path, message.format(kube_version), "combination", hint)
    if plan.avoid_nodes == "Required":
        names = {each.name for each in plan.gang}
        for pods in (pods for pods in job.distinct_pods if name_of(pods.item) in names):
            yield from _not_avoided(pods, pods.item["metadata"]["labels"][ROLE])


def plan_of(job: Objects) -> "Plan | None":
    """Return the supervisor's plan; None without a supervisor."""
    for item in job.of_kind("ConfigMap").values():
        if text := planned(item):
            return read_plan(text)
    return None


def _newer(plan: "Plan") -> list[str]:
    """Return the fields of `runPolicy` in NEWER that a job uses."""
    values = {"avoidNodes": plan.avoid_nodes, "restartMode": plan.in_place}
    return [name for name, value in values.items() if value]


def needed_version(plan: "Plan", kube_version: KubeVersion) -> KubeVersion:
    """Return the version for which to check objects, so that an old one is reported only once."""
    return max([kube_version, *(NEWER[name][0] for name in _newer(plan))])


def _not_avoided(pods: Pods, role: str) -> Iterator[Problem]:
    """Yield the problems of a role of the gang that must not use a failed node."""
    terms = value_at(pods.template, TERMS) or []
    fields = [each for term in terms for each in term.get("matchFields") or ()]
    if pods.item["kind"] == "StatefulSet":
        message = f"{role} is a StatefulSet, so it may use a failed node again"
        hint = "cordon such a node yourself: kubectl cordon NODE"
        yield Problem(AVOID, message, "no-effect", hint, warning=True)
    elif any(each.get("operator") == "NotIn" for each in fields):
        message = (
            f"Required and NotIn in matchFields of {role} are mutually exclusive, because the"
            " supervisor writes there the nodes to avoid"
        )
        hint = "write matchExpressions with the key kubernetes.io/hostname"
        yield Problem(AVOID, message, "combination", hint)
    elif terms:
        message = (
            f"the node affinity of {role} gets the nodes to avoid, so after a restart,"
            " kubectl apply is rejected while the job runs"
        )
        hint = "write nodeSelector instead of the node affinity, or Preferred"
        yield Problem(AVOID, message, "combination", hint, warning=True)


@of_objects.when("roles")
def rights_to_create_pods(job: Objects) -> Iterator[Located]:
    """Report a role that creates pods, and so can use everything that pods can mount or run as.

    https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation

    wrong:
        framework: elasticdl
        options: {arguments: {model_def: mnist.model.custom_model}}
        roles: {master: {}, worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    """
    for item in job.roles.values():
        if any(map(creates_pods, item["rules"])):
            message = "creates pods, so it can use every Secret and ServiceAccount of its namespace"
            yield _of_rights(item, (), message, "run it in a separate namespace")


def creates_pods(rule: dict[str, Any]) -> bool:
    """Return whether a rule of a Role permits creating pods."""
    return "pods" in rule.get("resources", []) and "create" in rule["verbs"]


@of_objects.when("roles")
def rights_to_delete_pods(job: Objects) -> Iterator[Located]:
    """Report a supervisor that deletes pods of lost nodes, which may still run.

    https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/

    wrong:
        framework: tensorflow
        command: [python, train.py]
        roles: {chief: {}, ps: {replicas: 2}, worker: {replicas: 2}}
        runPolicy: {forceDeleteAfterSeconds: 60}
    right:
        framework: tensorflow
        command: [python, train.py]
        roles: {chief: {}, ps: {replicas: 2}, worker: {replicas: 2}}
        runPolicy: {cleanPodPolicy: All}
    """
    for item in job.roles.values():
        of_pods = (rule["verbs"] for rule in item["rules"] if "pods" in rule["resources"])
        verbs = {*chain.from_iterable(of_pods)}
        if "delete" in verbs and "create" not in verbs and name_of(item).endswith(f"-{SUPERVISOR}"):
            message = (
                "the supervisor may delete pods of StatefulSets; if the node of such a pod"
                " still runs, two pods with the same name may write to the same files"
            )
            hint = "remove it if lost nodes may still run"
            path = ("runPolicy", "forceDeleteAfterSeconds")
            yield Located(item, (), warning(path, message, hint, "rights"))


@of_objects.when("roles")
def rights_of_all_pods(job: Objects) -> Iterator[Located]:
    """Report permissions of the ServiceAccount default, which all other pods get too.

    https://kubernetes.io/docs/concepts/security/service-accounts/#default-service-accounts

    wrong:
        framework: mpi
        serviceAccountName: default
        options: {transport: kubectl-exec}
        roles: {launcher: {command: [mpirun, -np, "2", ./cfd]}, worker: {replicas: 2}}
    right:
        framework: mpi
        serviceAccountName: robot
        options: {transport: kubectl-exec}
        roles: {launcher: {command: [mpirun, -np, "2", ./cfd]}, worker: {replicas: 2}}
    """
    for item in job.of_kind("RoleBinding").values():
        if any(subject["name"] == "default" for subject in item.get("subjects", [])):
            message = "grants its permissions to all pods that run as the ServiceAccount default"
            hint = "remove it, so that mlgen creates one for this role, or name another"
            yield _of_rights(item, ("serviceAccountName",), message, hint)


def _of_rights(item: Object, field: tuple[str, ...], message: str, hint: str) -> Located:
    role = item["metadata"]["labels"].get(COMPONENT, "")
    there = warning(("roles", role, *field), f"{role} {message}", hint, "rights")
    return Located(item, (), there)
