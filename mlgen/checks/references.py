"""Objects → findings: whether what one object of a job says of another is so.

Pods are selected by labels, and allowed for, mounted into and ended by name: so a name that is
changed at one place alone leads to a job that is applied and hangs.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from mlgen.checks import peers
from mlgen.checks.pods import (
    POD,
    TEMPLATE,
    Finding,
    Object,
    Objects,
    Pods,
    called,
    name_of,
    pods_of,
    role_path,
    texts,
)
from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.objects.labels import DECIDES, JOB, REPLICA_INDEX, ROLE, status_name
from mlgen.problems import Problem, ValuePath

SELECTORS = (JOB, ROLE, REPLICA_INDEX)


def findings(job: Objects) -> Iterator[Finding]:
    """Return what one of a job's objects says of another and is not so."""
    yield from _selectors(job)
    yield from _domains(job)
    yield from _volumes(job)
    yield from _config_maps(job)
    yield from peers.findings(job)
    yield from _rights(job)
    yield from _accounts(job)
    yield from _supervisor(job)
    yield from _gang(job)


def _wrong(
    item: Object, where: ValuePath, message: str, hint: str = "leave this name to mlgen"
) -> Finding:
    return Finding(item, where, Problem(role_path(item), message, "reference", hint))


def _selectors(job: Objects) -> Iterator[Finding]:
    """What selects pods must find them, whatever is done to the labels."""
    for item in job.items:
        where: ValuePath = ("spec", "selector")
        if item["kind"] == "Service":
            wanted = item["spec"]["selector"]
            found = any(job.selected(wanted))
        elif item["kind"] in ("StatefulSet", "Deployment"):
            where = (*where, "matchLabels")
            wanted = item["spec"]["selector"]["matchLabels"]
            found = pods_of(item).selected(wanted)
        else:
            continue
        if not found:
            names = [name for name in SELECTORS if name in wanted]
            hint = f"leave the labels {', '.join(names)} to mlgen in templates"
            message = f"{called(item)} selects no pod"
            yield Finding(item, where, Problem(role_path(item), message, "selector", hint))


def _domains(job: Objects) -> Iterator[Finding]:
    """Pods have names in DNS under a headless Service that selects them, and nowhere else.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
    """
    services = job.of("Service")
    empty = {n for n, s in services.items() if not any(job.selected(s["spec"]["selector"]))}
    for pods in job.pods:
        where, name = pods.subdomain
        service = services.get(name or "")
        if name and service is None:
            message = f"the pods of {called(pods.item)} have names under the Service {name}"
            yield _wrong(pods.item, where, f"{message}, which is not there")
        elif service and name not in empty and not pods.selected(service["spec"]["selector"]):
            message = f"{called(service)} does not select the pods of {called(pods.item)}"
            hint = f"leave the labels {', '.join(service['spec']['selector'])} to mlgen"
            labels = (*TEMPLATE, "metadata", "labels")
            yield Finding(pods.item, labels, Problem(pods.path, message, "selector", hint))
    needed = {pods.subdomain[1] for pods in job.pods}
    for service in (service for name, service in services.items() if name in needed):
        spec = service["spec"]
        if spec.get("clusterIP") != "None" or spec.get("publishNotReadyAddresses") is not True:
            message = f"{called(service)} does not publish the names of all pods"
            hint = "leave clusterIP: None and publishNotReadyAddresses: true there"
            yield _wrong(service, ("spec",), message, hint)
    for service in services.values():
        yield from _leads_to_one(job, service)


def _leads_to_one(job: Objects, service: Object) -> Iterator[Finding]:
    """A Service for one replica is there to be dialled by the host name of that."""
    selector, name = service["spec"]["selector"], name_of(service)
    if not {REPLICA_INDEX, JOB_INDEX, SET_INDEX} & set(selector):
        return
    found = list(job.selected(selector))
    if found and not any(pods.has(name) or name_of(pods.item) == name for pods in found):
        message = f"{called(service)} leads to {called(found[0].item)}, and has another name"
        yield _wrong(service, ("metadata", "name"), message)


def _volumes(job: Objects) -> Iterator[Finding]:
    """What is mounted must be one volume."""
    for pods in job.pods:
        names = {volume["name"] for _, volume in pods.volumes()}
        for where, container in pods.containers():
            for number, mount in enumerate(container.get("volumeMounts", [])):
                if mount["name"] not in names:
                    message = f"{container['name']} mounts {mount['name']}, which is no volume"
                    hint = "add it to the volumes of the template"
                    problem = Problem(pods.path, message, "volume", hint)
                    yield Finding(pods.item, (*where, "volumeMounts", number), problem)
        for where, volume in pods.volumes():
            sources = [
                name for name, value in volume.items() if name != "name" and value is not None
            ]
            if len(sources) > 1:
                message = f"the volume {volume['name']} would be {' and '.join(sources)} at once"
                problem = Problem(pods.path, message, "volume", "give yours another name")
                yield Finding(pods.item, where, problem)


def _config_maps(job: Objects) -> Iterator[Finding]:
    """Our ConfigMaps are there, with the keys that pods take from them, and are in some pod."""
    maps, missing = job.of("ConfigMap"), False
    # What the supervisor writes to is in no pod, and does not carry this label.
    unused = {name: o for name, o in maps.items() if JOB in o["metadata"]["labels"]}
    for pods, where, source in _sources(job):
        name = source.get("name", "")
        unused.pop(name, None)
        if name == f"{job.name}-config" and name not in maps:
            missing = True
            yield _wrong(pods.item, where, f"mounts the ConfigMap {name}, which is not there")
        for number, item in enumerate(source.get("items", []) if name in maps else []):
            if item["key"] not in _data(maps[name]):
                message = f"{name} has no key {item['key']}"
                problem = Problem(pods.path, message, "volume", "take another key")
                yield Finding(pods.item, (*where, "items", number), problem)
    for item in unused.values() if not missing else ():
        yield _wrong(item, ("metadata", "name"), f"{called(item)} is in no pod")


def _data(config_map: Object) -> set[str]:
    return {*config_map.get("data", {}), *config_map.get("binaryData", {})}


def _sources(job: Objects) -> Iterator[tuple[Pods, ValuePath, Object]]:
    """Return every ConfigMap that a pod takes something from, and where that is said."""
    for pods in job.pods:
        for where, volume in pods.volumes():
            yield from _taken(pods, where, volume, "configMap")
            for number, source in enumerate(volume.get("projected", {}).get("sources", [])):
                yield from _taken(
                    pods, (*where, "projected", "sources", number), source, "configMap"
                )
        for where, container in pods.containers():
            for number, source in enumerate(container.get("envFrom", [])):
                yield from _taken(pods, (*where, "envFrom", number), source, "configMapRef")
            for number, item in enumerate(container.get("env", [])):
                path, source = (*where, "env", number, "valueFrom"), item.get("valueFrom", {})
                yield from _taken(pods, path, source, "configMapKeyRef")


def _taken(
    pods: Pods, where: ValuePath, source: Object, field: str
) -> Iterator[tuple[Pods, ValuePath, Object]]:
    if field in source:
        yield pods, (*where, field), source[field]


KINDS = {"jobs": "Job", "statefulsets": "StatefulSet", "services": "Service"}
KINDS |= {"configmaps": "ConfigMap", "deployments": "Deployment"}
"""The kinds of which a Role may name objects, by what RBAC calls them; pods are no objects yet."""


def _rights(job: Objects) -> Iterator[Finding]:
    """What may be done, may be done to objects by name."""
    for item in job.of("Role").values():
        for number, rule in enumerate(item["rules"]):
            where: ValuePath = ("rules", number, "resourceNames")
            names = rule.get("resourceNames", [])
            for resource in (name.partition("/")[0] for name in rule.get("resources", [])):
                if resource == "pods" and names:
                    yield from _right_to_pods(job, item, where, names)
                known = job.of(KINDS.get(resource, ""))
                for at, name in enumerate(names if resource in KINDS else []):
                    if name not in known:
                        kind = KINDS[resource]
                        message = f"{called(item)} names the {kind} {name}, which is not there"
                        yield _wrong(item, (*where, at), message)
    for item in job.of("ConfigMap").values():
        if peers.ELASTIC in item.get("data", {}):
            names = re.findall(r"(?<![\w.-])[a-z0-9-]+-\d+(?![\w-])", item["data"][peers.ELASTIC])
            yield from _right_to_pods(job, item, ("data", peers.ELASTIC), names)


def _right_to_pods(
    job: Objects, item: Object, where: ValuePath, names: Sequence[str]
) -> Iterator[Finding]:
    """All replicas of a role are named, and perhaps some that an elastic role may get."""
    owners: dict[str, set[int]] = {}
    for at, name in enumerate(names):
        pods = job.of_host(name)
        if pods is None:
            path = (*where, at) if where[0] == "rules" else where
            message = f'{called(item)} names the pod "{name}", which is not there'
            yield _wrong(item, path, message)
            return
        owners.setdefault(pods.name, set()).add(pods.index(name) or 0)
    for name, found in owners.items():
        pods = job.by_host[name]
        wanted = range(max(pods.count or 0, max(found) + 1)) if pods.indexed else ()
        missing = next((index for index in wanted if index not in found), None)
        if missing is not None:
            message = f'{called(item)} does not name the pod "{name}-{missing}"'
            yield _wrong(item, where, message)


def _accounts(job: Objects) -> Iterator[Finding]:
    """A pod with rights runs as a ServiceAccount that a RoleBinding gives a Role to."""
    accounts, used = job.of("ServiceAccount"), {pods.account for pods in job.pods}
    subjects: set[str] = set()
    for item in job.of("RoleBinding").values():
        yield from _binding(job, item, used)
        subjects |= {subject["name"] for subject in item.get("subjects", [])}
    # The name of ours is that of the workload; another is the user's, and may be anywhere.
    own = [pods for pods in job.pods if pods.account == name_of(pods.item)]
    missing = [pods for pods in own if pods.account not in accounts]
    for pods in missing:
        message = f"runs as the ServiceAccount {pods.account}, which is not there"
        yield _wrong(pods.item, (*POD, "serviceAccountName"), message)
    for name, item in accounts.items() if not missing else ():
        if name not in used or name not in subjects:
            what = "no pod runs as" if name not in used else "no RoleBinding is for"
            yield _wrong(item, ("metadata", "name"), f"{what} the {called(item)}")
    bound = {item["roleRef"]["name"] for item in job.of("RoleBinding").values()}
    for name, item in job.of("Role").items():
        if name not in bound:
            yield _wrong(item, ("metadata", "name"), f"no RoleBinding is for the {called(item)}")


def _binding(job: Objects, item: Object, used: set[str | None]) -> Iterator[Finding]:
    """What one RoleBinding names."""
    role, own = item["roleRef"]["name"], item["metadata"].get("namespace")
    if role not in job.of("Role"):
        message = f"{called(item)} is for the Role {role}, which is not there"
        yield _wrong(item, ("roleRef", "name"), message)
    for number, subject in enumerate(item.get("subjects", [])):
        if subject["name"] not in used:
            message = f"{called(item)} is for {subject['name']}, and no pod runs as that"
            yield _wrong(item, ("subjects", number, "name"), message)
        if own and subject.get("namespace", own) != own:
            message = f"{called(item)} is for a ServiceAccount of another namespace"
            problem = Problem(role_path(item), message, "namespace", f"write {own}")
            yield Finding(item, ("subjects", number, "namespace"), problem)


NAMED: dict[str, Callable[[str], list[str]]] = {
    "MLGEN_JOB": lambda text: [f"configmap/{status_name(text)}"],
    "MLGEN_DECIDES": lambda text: [f"job/{text}"],
    "MLGEN_WORKLOADS": str.split,
    "MLGEN_OBJECTS": str.split,
}
"""The variables of the supervisor, and what it asks the API for by each: see argo/watch.sh."""


def _supervisor(job: Objects) -> Iterator[Finding]:
    """The supervisor asks for the objects that it watches and deletes by name, and may do so."""
    known = {f"{item['kind'].lower()}/{name_of(item)}": item for item in job.items}
    allowed = set(_allowed(job))
    for text in texts(job.pods):
        for word in NAMED[text.said](text.text) if text.said in NAMED else ():
            message = f"{text.said} leads to {word}, which"
            if word not in known:
                yield _wrong(text.item, text.where, f"{message} is not there")
            elif word not in allowed:
                yield _wrong(text.item, text.where, f"{message} no Role allows")
            elif text.said == "MLGEN_DECIDES" and DECIDES not in known[word]["metadata"]["labels"]:
                yield _wrong(text.item, text.where, f"{message} does not decide")


def _allowed(job: Objects) -> Iterator[str]:
    """What Roles name, as the supervisor's variables do."""
    for item in job.of("Role").values():
        for rule in item["rules"]:
            kinds = [KINDS[name].lower() for name in rule.get("resources", []) if name in KINDS]
            yield from (f"{k}/{name}" for k in kinds for name in rule.get("resourceNames", []))


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def _gang(job: Objects) -> Iterator[Finding]:
    """A gang scheduler waits for as many pods of a group as the PodGroup says."""
    metadata = [pods.template["metadata"] for pods in job.pods]
    used = {meta.get("annotations", {}).get(GROUP_ANNOTATION) for meta in metadata}
    used |= {meta["labels"].get(GROUP_LABEL) for meta in metadata}
    everyone = (
        None
        if any(p.count is None for p in job.pods)
        else sum(pods.count or 0 for pods in job.pods if pods.subdomain[1])
    )
    for name, item in job.of("PodGroup").items():
        if name not in used:
            yield _wrong(item, ("metadata", "name"), f"no pod is in {called(item)}")
        members = item["spec"].get("minMember", 0)
        if everyone is not None and members > everyone:
            message = f"{called(item)} waits for {members} pods, and there are {everyone}"
            hint = "leave minMember, and the number of replicas, to mlgen"
            yield _wrong(item, ("spec", "minMember"), message, hint)
