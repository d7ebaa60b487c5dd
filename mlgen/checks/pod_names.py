"""Objects of a job → problems with names of pods that serve as an index or an address.

Under most operators, the name of a pod ends in its index, and a Service has the same name. The name
of a Job's pod ends in a random suffix, and does not resolve. Its host name is the name without it:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlgen.checks.container_texts import ContainerText, located, texts_of
from mlgen.checks.job_file import in_job_file
from mlgen.checks.pods import Located, Objects, Pods, value_at
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import REPLICA_INDEX, ROLE
from mlgen.problems import Problem, listed
from mlgen.topology import INDEX, INDEX_NAME


def name_problems(job: Objects, job_file: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the uses of a pod's name for which it must end in the index, or resolve.

    A text of several roles may need other values in each of them. It is reported once.
    """
    own = str(value_at(job_file, ("metadata", "name")) or job.name)
    fixes: dict[Problem, dict[str, str]] = {}
    for pods in job.distinct_pods:
        for found in _of_pods(job, own, pods):
            problem = in_job_file(found, job_file)
            role = str(pods.template["metadata"]["labels"].get(ROLE))
            fixes.setdefault(replace(problem, hint=""), {}).setdefault(problem.hint, role)
    for problem, roles in fixes.items():
        several = (f"{fix.removeprefix('write ')} in {role}" for fix, role in roles.items())
        hint = f"write {listed([*several], 'or')}" if len(roles) > 1 else next(iter(roles))
        yield replace(problem, hint=hint)


def _of_pods(job: Objects, name: str, pods: Pods) -> Iterator[Located]:
    """Report the uses of the names of the pods of a workload.

    Args:
        job: the objects of the job.
        name: the name of the job in its file.
        pods: the pods.
    """
    for path, container in pods.containers() if pods.item["kind"] == "Job" else ():
        names = _variables(container)
        for text in texts_of(job, pods, path, container) if names else ():
            yield from _uses(Use(job.name, name, pods, text), names)
        for number, item in enumerate(container.get("env") or ()):
            if item["name"] in names and re.fullmatch(ADDRESS, item["name"]):
                at = (*path, "env", number, "value" if item.get("value") else "valueFrom")
                text = ContainerText(pods.item, at, item["name"], "", INDEX)
                write = f"value: {Use(job.name, name, pods, text).host}"
                yield located(pods, text, "name-address", text=item["name"], write=write)


def _variables(container: Object) -> set[str]:
    """Return the variables of a container with the name of its pod."""
    env, path = container.get("env") or (), ("valueFrom", "fieldRef", "fieldPath")
    names = {item["name"] for item in env if value_at(item, path) == "metadata.name"}
    return names | {each["name"] for each in env if each.get("value") in map("$({})".format, names)}


ADDRESS = r"(\w+_)?(ADDR|ADDRESS|ENDPOINT|COORDINATOR)"
"""Names of variables with an address."""


@dataclass(frozen=True)
class Use:
    """A text that may use the name of a pod.

    Attributes:
        rendered: the name of the job, with its hash.
        job: its name in the job file.
        pods: the pods that read the text.
        text: the text.
    """

    rendered: str
    job: str
    pods: Pods
    text: ContainerText

    @property
    def role(self) -> str:
        """The role of the pods."""
        return str(self.pods.template["metadata"]["labels"].get(ROLE))

    @property
    def base(self) -> str:
        """The host name of the pods without their index."""
        own = self.pods.template["metadata"]["labels"].get(REPLICA_INDEX)
        return self._renamed(self.pods.name.removesuffix(f"-{own}"))

    @property
    def host(self) -> str:
        """The address of a pod, in which the text for the index is replaced."""
        own = REPLICA_INDEX in self.pods.template["metadata"]["labels"]
        name = f"{self.base}-{self.text.own_index}" if own or self.pods.indexed else self.base
        return f"{name}.{self._renamed(self.pods.subdomain[1] or self.rendered)}"

    def _renamed(self, name: str) -> str:
        is_own = f"{name}-".startswith(f"{self.rendered}-")
        return self.job + name.removeprefix(self.rendered) if is_own else name


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

RULES: tuple[tuple[str, str, Callable[[Use, re.Match[str]], str]], ...] = (
    ("name-rank", ENDS, _index),
    ("name-rank", r"\$\{(?P<name>\w+)##?(?P<prefix>[\w.-]{0,99}-)\}", _after),
    ("name-rank", rf"{PIPE}(?:{LAST}){END}", _index),
    ("name-rank", rf"\$\((?:{LAST})[^`\n]{{0,20}}<<< ?{NAME} ?\)", _index),
    ("name-rank", PYTHON, _index),
    (
        "name-rank",
        rf"(?:\[|\btest) {NAME} (?:==?|!=) \"?(?P<compared>[\w*.-]*-\d{{1,6}})\"?(?= ?\]| |;|$)",
        _test,
    ),
    ("name-rank", rf"\[\[ {NAME} =~ (?P<compared>[^\s\]]*(?:\d|\[0-9\][+*]?\)?)\$)(?= )", _test),
    ("name-rank", rf"\bcase {NAME} in\s+\(?(?P<compared>[\w*.-]*-\d{{1,6}})\)", _test),
    ("name-rank", r"\$\{(?P<name>\w+)%%?-[^{}]{0,20}\}", _base),
    ("name-address", OPTION, _address),
    ("name-address", rf"{NAME}(?::\d{{2,5}}\b|:\$[({{]?\w*PORT\b|\.[\w-]+\.svc\b)", _address),
)
"""The problem of each use of a name, its pattern, and a function that returns the text to write.

The group `name` is the variable with the name of the pod, and `compared` the text of a test.
"""


def _uses(use: Use, names: set[str]) -> Iterator[Located]:
    """Report the uses of the variables with the name of the pod in a text."""
    text = use.text.text
    if not any(name in text for name in names):
        return
    names = _in_script(names, text)
    for rule, pattern, fix in RULES:
        for match in re.finditer(pattern, text):
            write = fix(use, match) if match["name"] in names else ""
            if write:
                yield located(use.pods, use.text, rule, text=match[0], write=write)


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
