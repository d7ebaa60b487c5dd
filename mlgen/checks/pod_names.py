"""A rule about names of pods that serve as an index or an address.

Under most operators, the name of a pod ends in its index, and a Service has the same name. The name
of a Job's pod ends in a random suffix, and does not resolve. Its host name is the name without it:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlgen.checks.pods import Container, ContainerText, Located, of_containers
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import REPLICA_INDEX, ROLE
from mlgen.topology import INDEX, INDEX_NAME


@of_containers
def pod_name(container: Container) -> Iterator[Located]:
    """Report uses of a pod's name for which it must end in the index, or resolve.

    wrong:
        framework: generic
        command: [bash, -c, "train --rank=${POD_NAME##*-}"]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: generic
        command: [train, --local-addr, $(POD_NAME)]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: generic
        command: [train]
        env: {NODE_ADDRESS: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    right:
        framework: generic
        command: [bash, -c, "train --name=$POD_NAME --rank=${HOSTNAME##*-}"]
        env: {POD_NAME: {valueFrom: {fieldRef: {fieldPath: metadata.name}}}}
        options: {addresses: false}
        roles: {worker: {replicas: 2}}
    """
    pods = container.pods
    names = _variables(container) if pods.item["kind"] == "Job" else set[str]()
    texts = [*container.texts] if names else []
    for number, (name, value) in enumerate(container.env.items() if names else ()):
        path = (*container.path, "env", number, "value" if value else "valueFrom")
        text = ContainerText(pods.item, path, name, value, INDEX)
        texts.append(text)
        if name in names and re.fullmatch(ADDRESS, name):
            yield _not_an_address(container, text, name, f"value: {Use(container, text).host}")
    for text in texts:
        for is_rank, match, write in _uses(Use(container, text), names):
            if is_rank:
                message = f"{match} is not the index of a replica: {RANDOM}"
                yield container.doubt(text, message, f"write {write}", "reference")
            else:
                yield _not_an_address(container, text, match, write)


RANDOM = "the names of these pods end in a random suffix"


def _not_an_address(container: Container, text: ContainerText, used: str, write: str) -> Located:
    message = f"{used} is not an address: {RANDOM}, and do not resolve"
    return container.doubt(text, message, f"write {write}", "reference")


def _variables(container: Container) -> set[str]:
    """Return the variables of a container with the name of its pod."""
    env, path = container.data.get("env") or (), ("valueFrom", "fieldRef", "fieldPath")
    names = {item["name"] for item in env if value_at(item, path) == "metadata.name"}
    copies = {f"$({name})" for name in names}
    return names | {name for name, value in container.env.items() if value in copies}


ADDRESS = r"(\w+_)?(ADDR|ADDRESS|ENDPOINT|COORDINATOR)"
"""Names of variables with an address."""


@dataclass(frozen=True)
class Use:
    """A text that may use the name of a pod.

    Attributes:
        container: the container that reads it.
        text: the text.
    """

    container: Container
    text: ContainerText

    @property
    def role(self) -> str:
        """The role of the pods."""
        return str(self.container.pods.template["metadata"]["labels"].get(ROLE))

    @property
    def base(self) -> str:
        """The host name of the pods without their index."""
        pods = self.container.pods
        own = pods.template["metadata"]["labels"].get(REPLICA_INDEX)
        return self._renamed(pods.name.removesuffix(f"-{own}"))

    @property
    def host(self) -> str:
        """The address of a pod, in which the text for the index is replaced."""
        pods, rendered = self.container.pods, self.container.job.name
        own = REPLICA_INDEX in pods.template["metadata"]["labels"]
        name = f"{self.base}-{self.text.own_index}" if own or pods.indexed else self.base
        return f"{name}.{self._renamed(pods.subdomain[1] or rendered)}"

    def _renamed(self, name: str) -> str:
        """Return a name with the name of the job in its file, which has no hash."""
        job = self.container.job
        written = value_at(job.job_file, ("metadata", "name")) or job.name
        is_own = f"{name}-".startswith(f"{job.name}-")
        return str(written) + name.removeprefix(job.name) if is_own else name


def _index(use: Use, match: re.Match[str]) -> str:
    """Return the index, for the end of a name."""
    return f'os.environ["{INDEX_NAME}"]' if match[0].startswith("os.") else use.text.own_index


def _after(use: Use, match: re.Match[str]) -> str:
    """Return the index, for the rest of a name after the role; "" for another rest."""
    return use.text.own_index if match["prefix"].endswith(f"{use.role}-") else ""


def _test(use: Use, match: re.Match[str]) -> str:
    """Return a test of the index, for a test of a name; "" if the name belongs to another role."""
    compared = match["compared"]
    role = re.sub(r"[^a-z]+$", "", compared).rpartition("-")[2].lstrip("*")
    if not use.role.endswith(role) and (use.role, role) != (MERGED, "master"):
        return ""
    end = re.search(r"\d{1,6}\$?$|\(?\[0-9\].*", compared)
    of_index = match[0].replace(compared, end[0] if end else compared)
    return re.sub(NAME, lambda _: use.text.own_index, of_index, count=1)


def _base(use: Use, _: re.Match[str]) -> str:
    return use.base


def _address(use: Use, match: re.Match[str]) -> str:
    """Return the same text with the address of the pod."""
    return re.sub(NAME, lambda _: use.host, match[0], count=1)


MERGED = "rank"
"""The role into which a framework merges the roles master and worker."""

NAME = r"\"?\$(?P<open>[({])?(?P<name>\w+)(?(open)[)}])\"?"
"""A variable as a shell or Kubernetes replaces it."""

ENDS = (
    r"\$\{(?P<name>\w+)"
    r"(?:##[^{}*]{0,99}\*[^{}]{0,99}[-\]]|//\[[!^][^\]{}]{0,99}\]/?|: ?\(?-[12]\)?)\}"
)
PYTHON = (
    r"os\.(?:environ\[|environ\.get\(|getenv\() ?['\"](?P<name>\w+)['\"][\])]\."
    r"(?:r?split\(['\"]-['\"](?:, ?1)?\)\[-1\]|rpartition\(['\"]-['\"]\)\[(?:-1|2)\])"
)
OPTION = (
    r"(?:(?<![^\s'\"])--?(?:[a-zA-Z0-9]+[-_]){0,9}"
    r"(?:addr|address|ip|host|endpoint|master|coordinator)[ =]"
    rf"|\b[A-Z_]*(?:ADDR|ADDRESS|ENDPOINT|COORDINATOR)=){NAME}(?![\w./-])"
)
PIPE = rf"(?:\$\(|`) ?(?:echo|printf)(?: -n| ['\"]?%s(?:\\n)?['\"]?)? {NAME} ?\| ?"

LAST = (
    r"g?awk [^|\n]{0,40}\$\(?NF\b|sed [^|\n]{0,20}\.\*-|rev ?\| ?cut [^|\n]{0,20}\| ?rev\b"
    r"|grep -\w{0,3}o\w{0,3} [^|\n]{0,20}(?:\$['\"]?|\+['\"]? ?\| ?tail -\S{0,3}1)"
    r"|tr -(?:cd|dc) ['\"]?\[?0-9"
)
"""Commands that print the last part of a name, or its digits."""

END = r"[^`\n]{0,40}?(?:`|\)(?=[\s\"';&)]|$))"

USES: tuple[tuple[bool, str, Callable[[Use, re.Match[str]], str]], ...] = (
    (True, ENDS, _index),
    (True, r"\$\{(?P<name>\w+)##?(?P<prefix>[\w.-]{0,99}-)\}", _after),
    (True, rf"{PIPE}(?:{LAST}){END}", _index),
    (True, rf"\$\((?:{LAST})[^`\n]{{0,20}}<<< ?{NAME} ?\)", _index),
    (True, PYTHON, _index),
    (
        True,
        rf"(?:\[|\btest) {NAME} (?:==?|!=) \"?(?P<compared>[\w*.-]*-\d{{1,6}})\"?(?= ?\]| |;|$)",
        _test,
    ),
    (True, rf"\[\[ {NAME} =~ (?P<compared>[^\s\]]*(?:\d|\[0-9\][+*]?\)?)\$)(?= )", _test),
    (True, rf"\bcase {NAME} in\s+\(?(?P<compared>[\w*.-]*-\d{{1,6}})\)", _test),
    (True, r"\$\{(?P<name>\w+)%%?-[^{}]{0,20}\}", _base),
    (False, OPTION, _address),
    (False, rf"{NAME}(?::\d{{2,5}}\b|:\$[({{]?\w*PORT\b|\.[\w-]+\.svc\b)", _address),
)
"""The uses of a name: True for a use as the index, a pattern, and a function that returns the fix.

The group `name` is the variable with the name of the pod, and `compared` the text of a test.
"""


def _uses(use: Use, names: set[str]) -> Iterator[tuple[bool, str, str]]:
    """Yield the uses of the variables with the name of the pod in a text.

    Each is True for a use as the index, the text of the use, and the text to write instead.
    """
    text = use.text.text
    if not any(name in text for name in names):
        return
    names = _in_script(names, text)
    for is_rank, pattern, fix in USES:
        for match in re.finditer(pattern, text):
            write = fix(use, match) if match["name"] in names else ""
            if write:
                yield is_rank, match[0], write


def _in_script(names: set[str], script: str) -> set[str]:
    """Return the variables with the name of the pod, after the assignments of a script."""
    changed = set(names)
    for target, source in re.findall(ASSIGNMENT, script):
        if source in changed and not re.fullmatch(ADDRESS, target):
            changed.add(target)
        elif not source:
            changed.discard(target)
    return changed


ASSIGNMENT = (
    r"(?:^|[\s;&])([A-Za-z_]\w*)=(?:\"?\$\{?(\w+)\}?\"?(?=[\s;&|)]|$)|(?!\"?\$\{\w+[#%/:]))"
)
"""An assignment in a shell, and the variable from which it copies the whole value, if any.

An assignment of a part of a variable is none, because it may be the variable itself.
"""
