"""Objects of a job → problems with the network: DNS, proxies, and the addresses of peers.

A peer is named by its address, `<job>-<role>-<i>.<job>`. If a Service has its host name, the host
name alone or with a namespace is also valid. Files for kubectl contain host names as pod names.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mlgen.checks.pods import (
    POD,
    TEMPLATE,
    Located,
    Objects,
    Pods,
    Text,
    in_jobset,
    of_manifests,
    of_pods,
    role_path,
    texts,
)
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import INDEX_FORMS, ROLE
from mlgen.objects.network import ISTIO, LINKERD
from mlgen.objects.supervisor import PLAN, planned
from mlgen.problems import Code, Problem


@of_pods
def dns_policy(pods: Pods) -> Iterator[Located]:
    """Report a DNS policy with which pods cannot resolve each other.

    With these policies, pods use the DNS servers of their node:
    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {dnsPolicy: Default}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirst}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {dnsPolicy: Default}}
        roles: {worker: {}}
    """
    policy, on_host = pods.spec.get("dnsPolicy"), pods.spec.get("hostNetwork")
    is_alone = len(pods.job.pods) == 1 and pods.count == 1
    if is_alone or not (policy == "Default" or (policy == "ClusterFirst" and on_host)):
        return
    with_host = "hostNetwork and " if on_host else ""
    message = f"with {with_host}dnsPolicy {policy}, names of other pods do not resolve"
    hint = "remove dnsPolicy"
    if on_host:
        hint = "write ClusterFirstWithHostNet, or network.host: true instead of hostNetwork"
    yield pods.warning((*POD, "dnsPolicy"), message, hint)


@of_pods
def mesh_proxy(pods: Pods) -> Iterator[Located]:
    """Report a proxy of a service mesh that a template requests, with which a Job never completes.

    The proxy runs until it is stopped, unless it is a native sidecar:
    https://github.com/istio/istio/issues/11659, https://linkerd.io/2/tasks/graceful-shutdown/.
    Of Istio's label and annotation, the label counts, and mlgen sets it.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {metadata: {labels: {sidecar.istio.io/inject: "true"}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {metadata: {annotations: {sidecar.istio.io/inject: "true"}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        network: {mesh: native}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          metadata:
            labels: {sidecar.istio.io/inject: "true"}
            annotations: {sidecar.istio.io/nativeSidecar: "true"}
        roles: {worker: {replicas: 2}}
    """
    metadata = (*TEMPLATE, "metadata")
    label, annotation = (*metadata, "labels", ISTIO), (*metadata, "annotations", ISTIO)
    linkerd, item = (*metadata, "annotations", LINKERD), pods.item
    annotations = value_at(item, (*metadata, "annotations")) or {}
    natives = ("nativeSidecar", "proxy-enable-native-sidecar")
    is_native = any(name.endswith(natives) for name in annotations)
    hint = "remove it, or write network.mesh: native, with which the proxy is a native sidecar"
    if is_native or item["kind"] != "Job":
        return
    for path, value in ((label, "true"), (linkerd, "enabled")):
        if value_at(item, path) == value:
            message = "the proxy of the service mesh does not end, so the Job never completes"
            yield pods.warning(path, message, hint, "never-ends")
    if value_at(item, label) == "false" and value_at(item, annotation) == "true":
        message = f'mlgen sets the label {ISTIO}: "false", which overrides this annotation'
        yield pods.warning(annotation, message, hint, "no-effect")


DOTTED = re.compile(
    rf"(?<![\w.-])([a-z0-9][a-z0-9-]*-)({INDEX_FORMS})"
    r"((?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)(?::(\d+))?(?![\w-])"
)
"""`<host>-<index>.<Service>`, optionally with a namespace, a domain and a port."""

BARE = re.compile(
    r"(?:(?<![^\s,;\"'=@])|(?<=//))"
    rf"([a-z0-9][a-z0-9-]*-)({INDEX_FORMS})(?::(\d+)(?![\w.-])|(?![^\s,;\"']))"
)
"""A host name that is a separate word, not part of a path, optionally with a port."""

COMMENT = r"(?m)(?:^|(?<=\s))#.*"
"""A comment in a script or a configuration file."""

ELASTIC = "elastic-hosts"
"""The file with the names of all workers up to the maximum of an elastic job."""

OPERATOR_ROLES = ("chief", "evaluator", "launcher", "master", "ps", "scheduler", "server", "worker")
"""Roles in operators' Service names. In mlgen's job, they may be missing or merged with others."""


class Address(NamedTuple):
    """The name of one replica, or of a range of replicas.

    Attributes:
        prefix: the host name up to the index, with the dash.
        indexes: a number, a range `[0-3]`, or a variable `$(…)`.
        domain: starts with the first dot; "" for a bare host name.
        port: digits, or "".
    """

    prefix: str
    indexes: str
    domain: str
    port: str

    def ends(self, reader_indexes: Sequence[str] = ()) -> Sequence[str]:
        """Return the first and the last host name, with `reader_indexes` for the index `$(…)`."""
        if self.indexes.startswith("["):
            ends: Sequence[str] = self.indexes[1:-1].split("-")
        else:
            ends = reader_indexes if self.indexes.startswith("$") else [self.indexes]
        return [f"{self.prefix}{index}" for index in ends]


@of_manifests
def unknown_peer(job: Objects) -> Iterator[Located]:
    """Report the address of a missing replica, or of a port that is not forwarded.

    Addresses that differ only in the index are reported together, at the first one.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {CACHE: "example-worker-2.example:6379"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        env: {CACHE: "example-worker-1.example:6379", OTHER: "b-worker-9.b", FILE: /a-worker-9}
        roles: {worker: {replicas: 2}}
    """
    directory = Directory(job)
    seen: set[tuple[Address, tuple[str, ...], bool]] = set()
    unknown: dict[tuple[str, Code], dict[str, tuple[Text, Problem]]] = {}
    for text in (*texts(job.distinct_pods), *_others(job)):
        for address in directory.addresses(text):
            readers = text.reader_indexes if address.indexes.startswith("$") else ()
            key = (address, readers, text.dials)
            if key in seen:
                continue
            seen.add(key)
            problem = directory.problem(address, text)
            if problem:
                similar = unknown.setdefault((address.prefix, problem.code), {})
                similar.setdefault(address.indexes, (text, problem))
    for similar in unknown.values():
        text, problem = next(iter(similar.values()))
        more = f" (and {len(similar) - 1} more)" if len(similar) > 1 else ""
        path = role_path(text.item)
        message = f"{text.label} {problem.message.format(more=more)}"
        yield Located(text.item, text.path, replace(problem, path=path, message=message))


def discovers_hosts(job: Objects) -> bool:
    """Return whether the launcher discovers the workers that are ready."""
    return any(ELASTIC in item.get("data", {}) for item in job.of_kind("ConfigMap").values())


def _others(job: Objects) -> Iterator[Text]:
    """Yield the annotations of pod templates, which containers can read, and files in ConfigMaps.

    Excludes scripts, the supervisor's program, and the list of possible workers.
    """
    for pods in job.distinct_pods:
        for name, text in pods.template["metadata"].get("annotations", {}).items():
            path = (*TEMPLATE, "metadata", "annotations", name)
            yield Text(pods.item, path, f"the annotation {name}", text)
    for item in job.of_kind("ConfigMap").values():
        plan = planned(item)
        files = {PLAN: plan} if plan else item.get("data", {})
        for key, text in files.items():
            if not key.endswith(".sh") and key != ELASTIC:
                # In a hostfile, the 4 of `host:4` is a number of slots.
                label = "the hostfile" if key == "hostfile" else key
                yield Text(item, ("data", key), label, text, has_ports=False)


class Directory:
    """The pods and Services of a job, by their DNS names."""

    def __init__(self, job: Objects) -> None:
        self.job = job
        self.services = job.of_kind("Service")
        self.subdomains, roles = {job.name}, set[str | None]()
        for pods in job.distinct_pods:
            self.subdomains.add(pods.subdomain[1] or job.name)
            roles.add(pods.template["metadata"]["labels"].get(ROLE))
        self.domains = {*self.subdomains, *self.services}
        self.prefixes = tuple(f"{name}-" for name in self.subdomains)
        self.namespace = job.items[0]["metadata"].get("namespace") if job.items else None
        self.hosts = {f"{prefix}{role}-" for prefix in self.prefixes for role in roles - {None}}
        self.hosts |= {f"{name}-" for name in job.by_host}
        self.names = self.hosts | {f"{job.name}-{role}-" for role in OPERATOR_ROLES}

    def addresses(self, text: Text) -> Iterator[Address]:
        """Yield the addresses of the job's replicas in a text."""
        if not any(name in text.text for name in self.subdomains):
            return
        written = re.sub(COMMENT, "", text.text) if "\n" in text.text else text.text
        for prefix, index, domain, port in DOTTED.findall(written):
            address = Address(prefix, index, domain, port if text.has_ports else "")
            if self._is_of_job(address):
                yield address
        for prefix, index, port in BARE.findall(written):
            if prefix in self.hosts or (prefix in self.names and port and text.has_ports):
                yield Address(prefix, index, "", port if text.has_ports else "")

    def _is_of_job(self, address: Address) -> bool:
        """Return whether this is a replica's address, not another text with a dash and a dot."""
        has_service = address.domain.split(".")[1] in self.domains
        if has_service or any(host in self.services for host in address.ends()):
            return bool(address.port) or address.prefix.startswith(self.prefixes)
        return bool(address.port) and address.prefix in self.names

    def problem(self, address: Address, text: Text) -> Problem | None:
        """Return the problem of an address; None if all of its replicas can be reached.

        The message continues a sentence that starts with the location. `{more}` is replaced with
        the number of further addresses with the same problem.

        Args:
            address: the address of one or several replicas.
            text: the text that contains the address.
        """
        dials = bool(address.port) or text.dials
        for host in address.ends(text.reader_indexes):
            if problem := self._of_host(host, address, dials=dials):
                return problem
        return None

    def _of_host(self, host: str, address: Address, *, dials: bool) -> Problem | None:
        """Return the problem of the address of one replica; None if it can be reached.

        Args:
            host: its host name.
            address: the address that contains it.
            dials: whether the bare host name must resolve.
        """
        subdomain, _, rest = address.domain.removeprefix(".").partition(".")
        service, pods = self.services.get(host), self._pods(host)
        if subdomain not in self.domains and service is not None:  # <Service>.<namespace>
            subdomain, rest = "", f"{subdomain}.{rest}" if subdomain else ""
        namespace, svc, _ = f"{rest}..".split(".", 2)
        if pods is None:
            # In a JobSet, it may be an alias, for example in an ssh configuration.
            is_alias = not dials and any(map(self._pods, in_jobset(host)))
            return None if is_alias else _unknown(host, "this pod does not exist")
        if service is None and subdomain not in self.domains:
            name, hint = f"{host}{address.domain}", f"use the address {host}.{pods.subdomain[1]}"
            is_reached = dials or address.domain
            reason = "a Service with this name does not exist"
            return _unknown(name, reason, hint) if is_reached else None
        if subdomain and subdomain != pods.subdomain[1]:
            hint = f"use the address {host}.{pods.subdomain[1]}"
            return _unknown(f"{host}.{subdomain}", f"{host} does not have that subdomain", hint)
        if svc == "svc" and namespace != (self.namespace or namespace):
            own = self.namespace
            message = (
                f'refers to "{host}"{{more}} in the namespace {namespace}, but the job is in {own}'
            )
            return Problem((), message, "namespace", f"use the namespace {own}")
        together, count = pods.together or 0, pods.count or 0
        if pods.indexed and together and together <= (pods.index(host) or 0) < count:
            hint = "set parallelism to the value of completions"
            return _unknown(host, f"only {together} run at a time", hint)
        return _wrong_port(host, address.port, service) if service and not subdomain else None

    def _pods(self, host: str) -> Pods | None:
        """Return the pods with this host name, or else the pods of the Service with this name."""
        pods = self.job.of_host(host)
        if pods and pods.has(host):
            return pods
        selector = self.services[host]["spec"]["selector"] if host in self.services else {}
        return next(self.job.selected(selector), None)


def _unknown(
    name: str, reason: str, hint: str = "use the name of a replica that exists"
) -> Problem:
    message = f'refers to the peer "{name}"{{more}}, but {reason}'
    return Problem((), message, "no-such-peer", hint)


def _wrong_port(host: str, port: str, service: Object) -> Problem | None:
    """Return a problem if the replica's own Service does not forward a port.

    A headless Service without ports makes every port of its pods reachable.
    """
    ports = [item["port"] for item in service["spec"].get("ports", [])]
    if not port or not ports or int(port) in ports:
        return None
    only = ", ".join(map(str, ports))
    message = f"uses port {port} of {host}{{more}}, whose Service forwards only {only}"
    return Problem((), message, "port", "use that port, or set the port of the role")
