"""What the namespace allows: PodSecurity, quotas, limit ranges."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from mlgen.checks import obstacles
from mlgen.checks.totals import totals
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.kubernetes.quantity import parse
from mlgen.live.doctor.findings import Finding, Patient, pod_templates, shown

ENFORCE = "pod-security.kubernetes.io/enforce"
"""https://kubernetes.io/docs/concepts/security/pod-security-admission/"""

MAX_VIOLATIONS = 3

COUNTED = {"Job": "count/jobs.batch", "StatefulSet": "count/statefulsets.apps"}
"""What a quota counts objects by, besides plain names such as `services`:
https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count"""

PLAIN = ("ConfigMap", "Service", "Secret", "PersistentVolumeClaim")


def pod_security(patient: Patient, namespace: Object) -> Finding:
    """Return whether the pods meet the level that their namespace enforces."""
    enforced = (namespace["metadata"].get("labels") or {}).get(ENFORCE, "privileged")
    violations = obstacles(patient.rendered.objects, patient.rendered.kube_version)
    met = level(violations)
    subject = f"PodSecurity {met}"
    if enforced not in LEVELS or LEVELS.index(met) >= LEVELS.index(enforced):
        return Finding("ok", subject, f"the namespace enforces {enforced}")
    broken = [
        f"{each.field} {each.message} ({', '.join(roles)})"
        for each, roles in violations.items()
        if LEVELS.index(each.level) <= LEVELS.index(enforced)
    ]
    more = f" and {len(broken) - MAX_VIOLATIONS} more" if len(broken) > MAX_VIOLATIONS else ""
    text = f"the namespace enforces {enforced}: {'; '.join(broken[:MAX_VIOLATIONS])}{more}"
    return Finding("missing", subject, text, f"set security.profile: {enforced}")


def quotas(patient: Patient) -> Iterator[Finding]:
    """Yield whether the namespace's quotas have room for the job.

    A quota with scopes counts some pods only, so it is not compared.
    """
    found = patient.objects("get", "resourcequotas")
    if found is None:
        yield Finding("note", "quotas", "cannot be read with your rights")
        return
    needed = _needed(patient)
    for quota in found:
        subject = f"ResourceQuota {quota['metadata']['name']}"
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            yield Finding("note", subject, "has scopes, so it is not compared")
            continue
        yield from _quota(patient, quota, subject, needed)


def _quota(
    patient: Patient, quota: Object, subject: str, needed: Mapping[str, Decimal]
) -> Iterator[Finding]:
    hard = quota.get("status", {}).get("hard") or quota["spec"].get("hard") or {}
    used = quota.get("status", {}).get("used") or {}
    clear = True
    for name, amount in hard.items():
        limit = parse(amount)
        left = max(limit - parse(used.get(name, "0")), Decimal(0))
        wanted = needed.get(name, Decimal(0))
        text = f"{name}: {shown(wanted)} needed, {shown(left)} of {amount} left"
        if wanted > limit:
            clear = False
            yield Finding("missing", subject, text, "ask for a larger quota")
        elif wanted > left:
            clear = False
            yield Finding("warning", subject, text, "pods wait until others are deleted")
        for workload in _without(patient, name):
            clear = False
            text = f"{name} is limited, and {workload} does not set it: its pods are rejected"
            yield Finding("missing", subject, text, f"set {name.replace('.', ' ', 1)}")
    if clear:
        yield Finding("ok", subject)


def _needed(patient: Patient) -> dict[str, Decimal]:
    """Return what the job needs of each resource that a quota can limit."""
    rendered = patient.rendered
    amounts = totals(rendered.topology, rendered.objects)
    needed: dict[str, Decimal] = {}
    for of_kind in (amounts.requests, amounts.auxiliary):
        for name, amount in of_kind.items():
            for key in (f"requests.{name}", *([name] if "/" not in name else [])):
                needed[key] = needed.get(key, Decimal(0)) + parse(amount)
    for name, amount in amounts.limits.items():
        needed[f"limits.{name}"] = parse(amount)
    pods = sum(role.replicas for role in rendered.topology.roles) + len(amounts.auxiliaries)
    needed["pods"] = needed["count/pods"] = Decimal(pods)
    for item in rendered.objects:
        names = [COUNTED.get(item["kind"], f"count/{item['kind'].lower()}s")]
        names += [f"{item['kind'].lower()}s"] if item["kind"] in PLAIN else []
        for name in names:
            needed[name] = needed.get(name, Decimal(0)) + 1
    return needed


def _without(patient: Patient, name: str) -> list[str]:
    """Return the workloads with a container that does not set what a quota limits.

    Of CPU and memory, a quota demands that every container sets them, unless a LimitRange does.
    """
    kind, _, resource = name.rpartition(".")
    if resource not in ("cpu", "memory") or "/" in name:
        return []
    fields = ("limits",) if kind == "limits" else ("requests", "limits")
    limits = patient.objects("get", "limitranges") or []
    defaults = [each for item in limits for each in item["spec"]["limits"]]
    key = "default" if kind == "limits" else "defaultRequest"
    if any(resource in (each.get(key) or {}) for each in defaults):
        return []
    return [
        workload
        for workload, template in pod_templates(patient.rendered)
        if any(
            all(resource not in (each.get("resources") or {}).get(field, {}) for field in fields)
            for each in template["spec"]["containers"]
        )
    ]


def limit_ranges(patient: Patient) -> Iterator[Finding]:
    """Yield the containers that a LimitRange rejects."""
    for item in patient.objects("get", "limitranges") or []:
        subject, clear = f"LimitRange {item['metadata']['name']}", True
        bounds = [each for each in item["spec"]["limits"] if each["type"] == "Container"]
        for workload, template in pod_templates(patient.rendered):
            for text in _beyond(template["spec"]["containers"], bounds):
                clear = False
                yield Finding("missing", subject, f"{workload}: {text}", "change the resources")
        if clear:
            yield Finding("ok", subject)


def _beyond(containers: list[Object], bounds: list[Object]) -> Iterator[str]:
    for container in containers:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        for bound in bounds:
            for name, amount in (bound.get("max") or {}).items():
                if name in limits and parse(limits[name]) > parse(amount):
                    yield f"{container['name']} may use {limits[name]} of {name}, at most {amount}"
            for name, amount in (bound.get("min") or {}).items():
                if name in requests and parse(requests[name]) < parse(amount):
                    least = f"at least {amount}"
                    yield f"{container['name']} requests {requests[name]} of {name}, {least}"
