"""Objects → findings: whether the replicas that variables, arguments and files name are pods.

By an address, `<job>-<role>-<i>.<job>`, or by a host name alone where a Service has it, or where
commands are run by kubectl.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from mlgen.checks.pods import (
    ROLES,
    TEMPLATE,
    Finding,
    Object,
    Objects,
    Pods,
    Text,
    role_path,
    texts,
)
from mlgen.objects.labels import INDEX_FORMS, ROLE
from mlgen.problems import Code, Problem

DOTTED = re.compile(
    rf"(?<![\w.-])([a-z0-9][a-z0-9-]*-)({INDEX_FORMS})"
    r"((?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)(?::(\d+))?(?![\w-])"
)
"""`<host>-<index>.<Service>`, perhaps with a namespace and a domain, and with a port."""

BEGIN, END = r"(?:(?<![^\s,;\"'=@])|(?<=//))", r"(?![^\s,;\"'])"
"""Around a host name that is a word of its own, and no part of a path."""

Address = tuple[str, str, str, str]
"""What is before the index, the index or a range of them, the domain, and the port, or ""."""


ELASTIC = "elastic-hosts"
"""The file that names all workers that there may ever be."""


def _annotations(pods: Iterable[Pods]) -> Iterator[Text]:
    """Return what the annotations of pods say, as a pod can read those."""
    for found in pods:
        for name, text in found.template["metadata"].get("annotations", {}).items():
            where = (*TEMPLATE, "metadata", "annotations", name)
            yield Text(found.item, where, f"the annotation {name}", text)


def _files(job: Objects) -> Iterator[Text]:
    """Return the files of ConfigMaps, but for scripts, and for what may name more than there is."""
    for item in job.of("ConfigMap").values():
        for key, text in item.get("data", {}).items():
            if not key.endswith(".sh") and key != ELASTIC:
                # In a hostfile, 4 of `host:4` is not a port but slots.
                said = "the hostfile" if key == "hostfile" else key
                yield Text(item, ("data", key), said, text, ports=False)


_Wrong = tuple[str, Code, str]
"""A message, in which `{more}` is a place, a code and a hint."""


def findings(job: Objects) -> Iterator[Finding]:
    """Return where a replica is named that is no pod of the job, or does not listen."""
    book = _Book(job)
    known: set[tuple[Address, tuple[str, ...]]] = set()
    wrong: dict[tuple[str, str], dict[str, tuple[Text, _Wrong]]] = {}
    for text in (*texts(job.pods), *_annotations(job.pods), *_files(job)):
        for address in book.addresses(text):
            key = (address, text.own if address[1].startswith("$") else ())
            if key in known:
                continue
            known.add(key)
            found = book.wrong(address, text.own)
            if found:
                same = wrong.setdefault((address[0], found[1]), {})
                same.setdefault(address[1], (text, found))
    for same in wrong.values():
        text, (message, code, hint) = next(iter(same.values()))
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        path = ROLES if text.item["kind"] == "ConfigMap" else role_path(text.item)
        said = f"{text.said} {message.format(more=more)}"
        yield Finding(text.item, text.where, Problem(path, said, code, hint))


class _Book:
    """Who is who: the pods and Services of a job by the names under which they are dialled."""

    def __init__(self, job: Objects) -> None:
        self.job = job
        self.services = job.of("Service")
        self.roots = {job.name, *(name for pods in job.pods if (name := pods.subdomain[1]))}
        self.domains = {*self.roots, *self.services}
        self.prefixes = tuple(f"{name}-" for name in self.roots)
        self.namespace = next((item["metadata"].get("namespace") for item in job.items), None)
        roles = {pods.template["metadata"]["labels"].get(ROLE) for pods in job.pods} - {None}
        names = sorted({f"{prefix}{role}-" for prefix in self.prefixes for role in roles})
        known = "|".join(map(re.escape, names)) or "(?!)"
        self.bare = re.compile(rf"{BEGIN}({known})({INDEX_FORMS})()(?::(\d+))?{END}")

    def addresses(self, text: Text) -> Iterator[Address]:
        if not any(name in text.text for name in self.roots):
            return
        for before, index, domain, port in DOTTED.findall(text.text):
            address = (before, index, domain, port if text.ports else "")
            if self._is_ours(address):
                yield address
        for before, index, domain, port in self.bare.findall(text.text):
            yield before, index, domain, port if text.ports else ""

    def _is_ours(self, address: Address) -> bool:
        """Whether it means a replica of the job, and is not just a text with a dash and a dot."""
        before, _, domain, port = address
        if domain.split(".")[1] in self.domains or self._ends_of_services(address):
            return bool(port) or before.startswith(self.prefixes)
        return bool(port) and before.removesuffix("-") in self.job.by_host

    def _ends_of_services(self, address: Address) -> bool:
        return any(f"{address[0]}{end}" in self.services for end in _ends(address[1], ()))

    def wrong(self, address: Address, own: tuple[str, ...]) -> _Wrong | None:
        """Return what is wrong where an address leads nowhere."""
        before, index, domain, port = address
        found = (self._wrong(f"{before}{end}", domain, port) for end in _ends(index, own))
        return next(filter(None, found), None)

    def _wrong(self, host: str, domain: str, port: str) -> _Wrong | None:
        first, _, rest = domain.removeprefix(".").partition(".")
        service, owner = self.services.get(host), self._owner(host)
        if first not in self.domains and service is not None:
            first, rest = "", f"{first}.{rest}" if first else ""
        namespace, svc, _ = f"{rest}..".split(".", 2)
        if owner is None:
            message = f'names the peer "{host}"{{more}}, but there is no such pod'
            return message, "no-such-peer", "name a replica that exists"
        if first and first != owner.subdomain[1]:
            message = f'names the peer "{host}.{first}"{{more}}, but {host} is not found there'
            return message, "no-such-peer", "name a replica that exists"
        if port and not first and service is None:
            message = f'names the peer "{host}"{{more}}, and no Service leads to it'
            return message, "no-such-peer", "name a replica that exists"
        if svc == "svc" and namespace != (self.namespace or namespace):
            message = f'names "{host}"{{more}} in the namespace {namespace}, which is another'
            return message, "namespace", f"write {self.namespace}"
        together = owner.together
        if owner.indexed and together and (owner.index(host) or 0) >= together:
            message = f'names the peer "{host}"{{more}}, but only {together} run at a time'
            return message, "no-such-peer", "set parallelism to completions"
        return self._not_listening(host, port, owner, service if not first else None)

    def _owner(self, host: str) -> Pods | None:
        """Return the pods of which one has this host name, or to which a Service of it leads."""
        pods = self.job.of_host(host)
        if pods and pods.has(host):
            return pods
        selector = self.services[host]["spec"]["selector"] if host in self.services else {}
        return next(self.job.selected(selector), None)

    def _not_listening(
        self, host: str, port: str, owner: Pods, service: Object | None
    ) -> _Wrong | None:
        """Return what is wrong where nobody listens on a port."""
        if not port:
            return None
        listed = service["spec"].get("ports") if service else None
        ports = [item["port"] for item in listed] if listed else owner.ports()
        if int(port) in ports:
            return None
        message = f"dials port {port} of {host}{{more}}, which declares {ports or 'none'}"
        return message, "port", "give both roles the same port"


def _ends(index: str, own: tuple[str, ...]) -> Sequence[str]:
    """The first and the last index of a range, or of the replicas that read `$(…)`."""
    if index.startswith("["):
        return index[1:-1].split("-")
    return own if index.startswith("$") else [index]
