"""Objects of a job → problems with references: do they lead to objects that exist?

Selectors, mounts, RBAC rules and the supervisor refer to other objects by label or name. If one of
these changes in one place only, the API server accepts the manifests and the job hangs.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.checks import peers
from mlgen.checks.pods import (
    POD,
    ROLES,
    TEMPLATE,
    Located,
    Objects,
    Pods,
    broken,
    name_of,
    role_path,
    title,
)
from mlgen.kubernetes.groups import group_of
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.versions import POD_GROUPS, KubeVersion
from mlgen.objects.labels import COMPONENT, JOB, MAX_REPLICAS, REPLICA_INDEX, ROLE, SET, status_name
from mlgen.objects.pod import SCRIPTS
from mlgen.problems import Problem, ValuePath, did_you_mean

SELECTOR_LABELS = (JOB, ROLE, REPLICA_INDEX)


def broken_references(job: Objects) -> Iterator[Located]:
    """Return every reference of an object to another that is missing or does not match."""
    yield from _selectors(job)
    yield from _domains(job)
    yield from _config_maps(job)
    yield from _scripts(job)
    yield from peers.unknown_peers(job)
    yield from _rights(job)
    yield from _accounts(job)
    yield from _supervisor(job)


def _selectors(job: Objects) -> Iterator[Located]:
    """Check that the selector of every Service matches at least one pod."""
    path: ValuePath = ("spec", "selector")
    for item in job.of_kind("Service").values():
        selector = item["spec"]["selector"]
        if not any(job.selected(selector)):
            names = [name for name in SELECTOR_LABELS if name in selector]
            hint = f"do not override the labels {', '.join(names)} in templates"
            message = f"{title(item)} selects no pods"
            yield Located(item, path, Problem(role_path(item), message, "selector", hint))


def _domains(job: Objects) -> Iterator[Located]:
    """Check that a headless Service selects the pods, so that DNS has their host names.

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    """
    services = job.of_kind("Service")
    without_pods = {n for n, s in services.items() if not any(job.selected(s["spec"]["selector"]))}
    for pods in job.distinct_pods:
        path, name = pods.subdomain
        service = services.get(name or "")
        if name and service is None:
            message = (
                f"the pods of {title(pods.item)} need the Service {name}, which does not exist"
            )
            yield broken(pods.item, path, message)
        elif (
            service and name not in without_pods and not pods.selected(service["spec"]["selector"])
        ):
            message = f"{title(service)} does not select the pods of {title(pods.item)}"
            hint = f"do not override the labels {', '.join(service['spec']['selector'])}"
            labels = (*TEMPLATE, "metadata", "labels")
            yield Located(pods.item, labels, Problem(pods.role_path, message, "selector", hint))
    subdomains = {pods.subdomain[1] for pods in job.distinct_pods}
    before_ready = not peers.discovers_hosts(job)
    which = "pods that are not ready" if before_ready else "only pods that are ready"
    for service in (service for name, service in services.items() if name in subdomains):
        spec = service["spec"]
        publishes = spec.get("publishNotReadyAddresses", False)
        if spec.get("clusterIP") != "None" or publishes is not before_ready:
            message = f"{title(service)} must be headless and publish {which}"
            hint = f"set clusterIP: None and publishNotReadyAddresses: {str(before_ready).lower()}"
            yield broken(service, ("spec",), message, hint)
    for service in services.values():
        yield from _replica_service(job, service)


def _replica_service(job: Objects, service: Object) -> Iterator[Located]:
    """Check that the Service of one replica has that replica's host name, which peers use."""
    selector, name = service["spec"]["selector"], name_of(service)
    if not {REPLICA_INDEX, JOB_INDEX, SET_INDEX} & set(selector):
        return
    selected = list(job.selected(selector))
    # The name of an operator's role that is merged into another is that of no pod.
    of_role = name.startswith(f"{job.name}-{selector.get(ROLE)}-")
    rest = name.removeprefix(f"{job.name}-")
    is_alias = rest != name and re.fullmatch(r".+-\d+", rest) and not of_role
    if (
        selected
        and not is_alias
        and not any(pods.has(name) or name_of(pods.item) == name for pods in selected)
    ):
        message = f"{title(service)} selects {title(selected[0].item)}, but has another name"
        yield broken(service, ("metadata", "name"), message)


def _config_maps(job: Objects) -> Iterator[Located]:
    """Check that the ConfigMaps of mlgen exist, have the keys that pods use, and are all used."""
    maps, missing = job.of_kind("ConfigMap"), False
    # No pod mounts the ConfigMap of the status, which lacks this label.
    unused = {name: o for name, o in maps.items() if JOB in o["metadata"]["labels"]}
    for pods, path, source in _config_map_references(job):
        name = source.get("name", "")
        unused.pop(name, None)
        if name == f"{job.name}-config" and name not in maps:
            missing = True
            yield broken(pods.item, path, f"uses the ConfigMap {name}, which does not exist")
        for number, item in enumerate(source.get("items", []) if name in maps else []):
            if item["key"] not in _keys(maps[name]):
                message = f"ConfigMap {name} has no key {item['key']}"
                problem = Problem(pods.role_path, message, "volume", "use a key that exists")
                yield Located(pods.item, (*path, "items", number), problem)
    for item in unused.values() if not missing else ():
        yield broken(item, ("metadata", "name"), f"no pod uses {title(item)}")


def _scripts(job: Objects) -> Iterator[Located]:
    """Check that the job's ConfigMap has the scripts that its helper containers run."""
    config_map = job.of_kind("ConfigMap").get(f"{job.name}-config")
    if config_map is None:
        return
    commands = (
        item.get("command", []) for pods in job.distinct_pods for _, item in pods.containers()
    )
    scripts = {word for command in commands for word in command if word.startswith(SCRIPTS)}
    for name in sorted(script.removeprefix(f"{SCRIPTS}/") for script in scripts):
        if name not in _keys(config_map):
            yield broken(config_map, ("data",), f"{title(config_map)} has no key {name}")


def _keys(config_map: Object) -> set[str]:
    return {*config_map.get("data", {}), *config_map.get("binaryData", {})}


def _config_map_references(job: Objects) -> Iterator[tuple[Pods, ValuePath, Object]]:
    """Return every reference of a pod to a ConfigMap, with its path."""
    for pods in job.distinct_pods:
        for path, source, field in _possible_references(pods):
            if field in source:
                yield pods, (*path, field), source[field]


def _possible_references(pods: Pods) -> Iterator[tuple[ValuePath, Object, str]]:
    """Return what may refer to a ConfigMap: its path, the mapping, and the field to look for."""
    for path, volume in pods.volumes():
        yield path, volume, "configMap"
        for number, source in enumerate(volume.get("projected", {}).get("sources", [])):
            yield (*path, "projected", "sources", number), source, "configMap"
    for path, container in pods.containers():
        for number, source in enumerate(container.get("envFrom", [])):
            yield (*path, "envFrom", number), source, "configMapRef"
        for number, item in enumerate(container.get("env", [])):
            yield (*path, "env", number, "valueFrom"), item.get("valueFrom", {}), "configMapKeyRef"


KINDS = {"jobs": "Job", "statefulsets": "StatefulSet", "services": "Service"}
KINDS |= {"configmaps": "ConfigMap", "deployments": "Deployment"}
"""Kinds by their resource names in RBAC; pods are missing, as no manifest defines one."""


def _rights(job: Objects) -> Iterator[Located]:
    """Check that the objects and pods named in Roles and in the elastic host list exist."""
    for item in job.of_kind("Role").values():
        # Who creates pods may have names for them that no manifest has.
        others = any(creates_pods(rule) for rule in item["rules"])
        for number, rule in enumerate(item["rules"]):
            path: ValuePath = ("rules", number, "resourceNames")
            names = rule.get("resourceNames", [])
            for resource in (name.partition("/")[0] for name in rule.get("resources", [])):
                if resource == "pods" and names and not others:
                    yield from _pod_names(job, item, path, names)
                objects = job.of_kind(KINDS.get(resource, ""))
                for position, name in enumerate(names if resource in KINDS else []):
                    if name not in objects:
                        kind = KINDS[resource]
                        message = f"{title(item)} names the {kind} {name}, which does not exist"
                        yield broken(item, (*path, position), message)
    for item in job.of_kind("ConfigMap").values():
        if peers.ELASTIC in item.get("data", {}):
            names = re.findall(r"(?<![\w.-])[a-z0-9-]+-\d+(?![\w-])", item["data"][peers.ELASTIC])
            yield from _pod_names(job, item, ("data", peers.ELASTIC), names)


def _pod_names(
    job: Objects, item: Object, path: ValuePath, names: Sequence[str]
) -> Iterator[Located]:
    """Check that a list of pods has only pods of the job, and no gaps.

    It may have more pods of a role than there are, because an elastic role can grow.

    Args:
        job: all objects.
        item: the object with the list.
        path: of the list, or of the text that contains it.
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
    subjects: set[str] = set()
    for item in job.of_kind("RoleBinding").values():
        yield from _binding(job, item, used)
        subjects |= {subject["name"] for subject in item.get("subjects", [])}
    # mlgen names a ServiceAccount like its workload; others are the user's and may exist already.
    generated = [pods for pods in job.pods if pods.account == name_of(pods.item)]
    missing = [pods for pods in generated if pods.account not in accounts]
    for pods in missing:
        message = f"runs as the ServiceAccount {pods.account}, which does not exist"
        yield broken(pods.item, (*POD, "serviceAccountName"), message)
    for name, item in accounts.items() if not missing else ():
        if name not in used or name not in subjects:
            reason = "no pod runs as" if name not in used else "no RoleBinding refers to"
            yield broken(item, ("metadata", "name"), f"{reason} the {title(item)}")
    bound = {item["roleRef"]["name"] for item in job.of_kind("RoleBinding").values()}
    for name, item in job.of_kind("Role").items():
        if name not in bound:
            yield broken(item, ("metadata", "name"), f"no RoleBinding refers to the {title(item)}")


def _binding(job: Objects, item: Object, used: set[str | None]) -> Iterator[Located]:
    """Check the Role and the subjects of a RoleBinding; `used` are the pods' ServiceAccounts."""
    role, namespace = item["roleRef"]["name"], item["metadata"].get("namespace")
    if role not in job.of_kind("Role"):
        message = f"{title(item)} refers to the Role {role}, which does not exist"
        yield broken(item, ("roleRef", "name"), message)
    for number, subject in enumerate(item.get("subjects", [])):
        if subject["name"] not in used:
            message = f"{title(item)} has the subject {subject['name']}, but no pod runs as it"
            yield broken(item, ("subjects", number, "name"), message)
        if namespace and subject.get("namespace", namespace) != namespace:
            message = f"{title(item)} has a subject in another namespace"
            hint = f"use the namespace {namespace}"
            problem = Problem(role_path(item), message, "namespace", hint)
            yield Located(item, ("subjects", number, "namespace"), problem)


PLAN = "plan.json"
"""The file of a ConfigMap that tells the supervisor what to decide: mlgen/runtime/plan.py."""


def _supervisor(job: Objects) -> Iterator[Located]:
    """Check that the objects named to the supervisor exist, and that a Role allows them."""
    for item in job.of_kind("ConfigMap").values():
        if PLAN in item.get("data", {}):
            try:
                messages = list(_wrong_in_plan(job, json.loads(item["data"][PLAN])))
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
                messages = ["is not a plan of the supervisor"]
            for message in messages:
                yield broken(item, ("data", PLAN), f"{PLAN} {message}")


def _wrong_in_plan(job: Objects, plan: dict[str, Any]) -> Iterator[str]:
    """Return what a plan says otherwise than the objects."""
    objects = {f"{item['kind'].lower()}/{name_of(item)}": item for item in job.items}
    allowed = set(_allowed(job))
    for word in _planned(plan):
        if word not in objects:
            yield f"refers to {word}, which does not exist"
        elif word not in allowed:
            yield f"refers to {word}, which no Role gives access to"
    for workload in plan["workloads"]:
        word = f"{workload['kind'].lower()}/{workload['name']}"
        if word in objects:
            yield from _differs_from_plan(objects[word], plan, workload, word)


def _differs_from_plan(
    item: Object, plan: dict[str, Any], workload: dict[str, Any], word: str
) -> Iterator[str]:
    """Return how a workload differs from what a plan says of it."""
    notes, replicas = _annotations(item["metadata"]), item["spec"].get("replicas", 1)
    planned = workload.get("replicas", 1)
    is_fixed = workload["kind"] == "StatefulSet" and MAX_REPLICAS not in notes
    if is_fixed and replicas not in (0, planned):
        yield f"has {planned} replicas of {word}, which has {replicas}"
    job_set = _annotations(item["spec"]["template"]["metadata"]).get(SET, "")
    if workload["kind"] == "Job" and job_set != plan.get("set", ""):
        yield f"is of another version of the job than {word}"


def _annotations(metadata: Object) -> Object:
    return metadata.get("annotations") or {}


def _planned(plan: dict[str, Any]) -> Iterator[str]:
    """Return the objects that a plan names: `job/mnist-worker`."""
    yield f"configmap/{status_name(plan['job'])}"
    deciding = set(plan["deciding"])
    yield from (f"job/{name}" for name in plan["deciding"])
    for item in plan["workloads"]:
        if item["name"] not in deciding:
            yield f"{item['kind'].lower()}/{item['name']}"
    yield from (f"{kind.lower()}/{name}" for kind, name in plan.get("objects", []))


def _allowed(job: Objects) -> Iterator[str]:
    """Return the objects that Roles name."""
    for item in job.of_kind("Role").values():
        for rule in item["rules"]:
            kinds = [KINDS[name].lower() for name in rule.get("resources", []) if name in KINDS]
            yield from (f"{k}/{name}" for k in kinds for name in rule.get("resourceNames", []))


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

NATIVE = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroup."""

GANG: ValuePath = ("spec", "scheduling", "gang")


def unschedulable_groups(job: Objects, kube_version: KubeVersion) -> Iterator[Located]:
    """Return what keeps the scheduler from starting the pods of a job's PodGroup.

    Args:
        job: its objects.
        kube_version: of the cluster.
    """
    for name, item in job.of_kind("PodGroup").items():
        members = [pods for pods in job.pods if _group(pods) == name]
        total = sum(pods.count or 0 for pods in members)
        is_native = group_of(item["apiVersion"]) == NATIVE
        path, least = _least(item["spec"], is_native=is_native)
        if not members:
            yield broken(item, ("metadata", "name"), f"no pod belongs to {title(item)}")
        elif least > total and all(pods.count is not None for pods in members):
            message = f"{title(item)} requires {least} pods, but the job has {total}"
            hint = f"do not override {path[-1]} or the number of replicas"
            yield broken(item, path, message, hint)
        if is_native and kube_version < POD_GROUPS:
            message = f"Kubernetes {kube_version} has no PodGroup of {item['apiVersion']}"
            hint = f"set --kube-version {POD_GROUPS}, or use another gang scheduler"
            yield Located(item, ("apiVersion",), Problem(GANG, message, "combination", hint))
        if is_native:
            distinct = [pods for pods in job.distinct_pods if _group(pods) == name]
            yield from _differences(item, distinct)


def _group(pods: Pods) -> str | None:
    """Return the name of the PodGroup that pods belong to."""
    metadata, spec = pods.template["metadata"], pods.template["spec"]
    group: str | None = (
        metadata.get("annotations", {}).get(GROUP_ANNOTATION)
        or metadata["labels"].get(GROUP_LABEL)
        or spec.get("schedulingGroup", {}).get("podGroupName")
    )
    return group


def _least(spec: Object, *, is_native: bool) -> tuple[ValuePath, int]:
    """Return how many pods a PodGroup requires, and the path of the number."""
    if not is_native:
        return ("spec", "minMember"), spec.get("minMember", 0)
    gang = spec.get("schedulingPolicy", {}).get("gang", {})
    return ("spec", "schedulingPolicy", "gang", "minCount"), gang.get("minCount", 0)


def _differences(group: Object, members: list[Pods]) -> Iterator[Located]:
    """Return the pods that Kubernetes' scheduler does not accept in a group.

    All have the same scheduler, and the priority of the PodGroup (Kubernetes 1.37.0,
    pkg/scheduler/schedule_one_podgroup.go, validatePodGroup).
    """
    for pods in members:
        expected = {
            "schedulerName": members[0].template["spec"].get("schedulerName"),
            "priorityClassName": group["spec"].get("priorityClassName"),
        }
        for field, value in expected.items():
            own = pods.template["spec"].get(field)
            if own != value:
                message = (
                    f"{title(pods.item)} has {field} {own or 'none'}, its gang {value or 'none'}"
                )
                hint = f"write scheduling.{field}, which all pods of a gang have in common"
                path = (*TEMPLATE, "spec", field)
                yield Located(
                    pods.item, path, Problem(pods.role_path, message, "combination", hint)
                )


def unused_claims(job: Objects) -> Iterator[Problem]:
    """Return a warning for each claim that is created, but not mounted."""
    mounted = {
        volume.get("persistentVolumeClaim", {}).get("claimName")
        for pods in job.distinct_pods
        for _, volume in pods.volumes()
    } - {None}
    created = job.of_kind("PersistentVolumeClaim")
    for name in created:
        if name not in mounted:
            message = f"no pod mounts the claim {name}"
            similar = did_you_mean(name, sorted(mounted - created.keys()))
            hint = similar or f"write pvc: {name} in a volume, or remove it"
            yield Problem(("spec", "claims", name), message, "no-effect", hint, warning=True)


DEFAULT = "default"
"""The service account of all pods of a namespace that name no other:
https://kubernetes.io/docs/concepts/security/service-accounts/#default-service-accounts"""


def far_reaching_rights(job: Objects) -> Iterator[Problem]:
    """Return a warning for each Role that may create pods, and each that others have too."""
    for item in job.of_kind("Role").values():
        if any(map(creates_pods, item["rules"])):
            yield _of_rights(
                item,
                (),
                # https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation
                "creates pods, so it can read every Secret of its namespace and act as every"
                " service account in it",
                "run it in a namespace of its own",
            )
    for item in job.of_kind("RoleBinding").values():
        if any(subject["name"] == DEFAULT for subject in item.get("subjects", [])):
            yield _of_rights(
                item,
                ("serviceAccountName",),
                "has rights that go to all pods of the namespace that run as the account default",
                "remove it, so that mlgen adds an account for this role alone, or name another one",
            )


def creates_pods(rule: dict[str, Any]) -> bool:
    """Return True if a rule of a Role allows creating pods."""
    return "pods" in rule.get("resources", []) and "create" in rule["verbs"]


def _of_rights(item: Object, field: tuple[str, ...], message: str, hint: str) -> Problem:
    role = item["metadata"]["labels"].get(COMPONENT, "")
    return Problem((*ROLES, role, *field), f"{role} {message}", "rights", hint, warning=True)
