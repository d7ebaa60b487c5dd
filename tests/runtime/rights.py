"""Requests and rules of a Role, in one form: verb, resource, name; "" is any name."""

from mlgen.runtime import supervise


def request(method, kind, second="", *rest):
    """Return the permission that a call of `mlgen.runtime.api.Api` needs."""
    if method == "log":
        return "get", "pods/log", ""
    subresource = rest[1] if method == "patch" and len(rest) > 1 else ""
    name = second if method in ("get", "patch", "delete") else ""
    return method, resource(kind, subresource), name


def resource(kind, subresource=""):
    return f"{kind.lower()}s" + (f"/{subresource}" if subresource else "")


def watched(plan):
    """Return the permissions that the watches of a supervisor need."""
    for kind, selectors in supervise.watches(plan):
        name = selectors.get("fieldSelector", "").removeprefix("metadata.name=")
        yield from ((verb, resource(kind), name) for verb in ("list", "watch"))


def granted(plan):
    """Return the permissions in the Role of a supervisor with this plan."""
    from mlgen.objects.supervisor import rules  # not in the program: see archived.py

    sets = [item for item in plan.workloads if item.kind == "StatefulSet"]
    pods = [f"{item.name}-{number}" for item in sets for number in range(item.replicas)]
    pods = pods if plan.force_delete_seconds else []
    return {
        (verb, each, name)
        for rule in rules(plan, pods)
        for verb in rule["verbs"]
        for each in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def missing(requests, plan):
    """Return the requests that the API server would refuse."""
    rights = granted(plan)
    return {
        (verb, each, name)
        for verb, each, name in requests
        if not {(verb, each, name), (verb, each, "")} & rights
    }


def unused(requests, plan):
    """Return the verbs and resources that no request has used.

    To set an owner, admission may require the permission to delete: see `rules`. Few histories
    lose a node with a server.
    """
    owns = plan.ttl_seconds is not None and plan.clean_pod_policy != "All"
    rare = {("delete", "pods")}
    pairs = {right[:2] for right in granted(plan)} - {each[:2] for each in requests} - rare
    return {(verb, each) for verb, each in pairs if not (owns and verb == "delete")}
