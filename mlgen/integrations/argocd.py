"""Argo CD: what its server asks of a config management plugin, in the folder of an Application.

https://argo-cd.readthedocs.io/en/stable/operator-manual/config-management-plugins/. The server runs
the commands of `integrations/argocd/plugin.yaml` in a copy of the folder, and says all else in the
environment. What stands on standard output is what the cluster is to have, so nothing at all must
never be a success: with pruning it would delete everything.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgen import dialects, pipeline
from mlgen.documents import overrides
from mlgen.documents.document import Document
from mlgen.documents.files import SUFFIXES, texts
from mlgen.kubernetes import versions
from mlgen.kubernetes.groups import is_built_in
from mlgen.kubernetes.versions import KubeVersion
from mlgen.output.manifests import text
from mlgen.problems import Collector, MlgenError, Place, Problem, ValuePath, did_you_mean
from mlgen.result import Options, Rendered

PARAMETERS = "ARGOCD_APP_PARAMETERS"
VERSION = "KUBE_VERSION"
APIS = "KUBE_API_VERSIONS"
NAMESPACE = "ARGOCD_APP_NAMESPACE"

ANNOUNCED: tuple[dict[str, Any], ...] = (
    {
        "name": "files",
        "title": "Files",
        "tooltip": "Files and folders with jobs and other manifests, within the Application's path",
        "collectionType": "array",
        "array": ["."],
    },
    {
        "name": "set",
        "title": "Settings",
        "tooltip": "Values that replace those of every job: spec.roles.worker.replicas: 8",
        "collectionType": "map",
        "map": {},
    },
)
"""The parameters, as the user interface shows them where nothing is known of the folder."""

FORMS: dict[str, tuple[type, str]] = {"array": (list, "a list"), "map": (dict, "a mapping")}

TUNED = ("image", "replicas")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the Application says.

    Attributes:
        files: files and folders within its own folder.
        options: of the rendering.
        apis: `group/version` and `group/version/kind` of what the cluster has; () if it is unknown.
        warnings: what the user should know.
    """

    files: tuple[str, ...]
    options: Options
    apis: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()


def read(environment: Mapping[str, str]) -> Asked:
    """Return what an Application says, without a look at what its files hold.

    Raises:
        MlgenError: with every problem of a parameter or of the cluster's version.
    """
    collector = Collector()
    given = _parameters(environment.get(PARAMETERS, ""), collector)
    files = tuple(given.get("files") or ["."])
    collector.extend(problem for name in files for problem in _outside(name))
    settings = tuple(_settings(given.get("set") or {}, collector))
    version = _version(environment.get(VERSION, ""), collector)
    collector.raise_errors()
    options = Options(
        version,
        settings=settings,
        target="argocd",
        default_namespace=environment.get(NAMESPACE) or None,
    )
    apis = tuple(name for name in environment.get(APIS, "").split(",") if name)
    return Asked(files, options, apis, collector.problems)


def init(environment: Mapping[str, str]) -> tuple[Problem, ...]:
    """Look for what would make every rendering fail, and return what the user should know.

    Raises:
        MlgenError: a parameter or the cluster's version is wrong, or a file is not there.
    """
    asked = read(environment)
    problems = [text.problem for text in texts(asked.files) if text.problem]
    if problems:
        raise MlgenError(problems)
    return asked.warnings


def generate(environment: Mapping[str, str]) -> tuple[str, tuple[Problem, ...]]:
    """Return the manifests of the folder, which are never none, and what the user should know.

    Raises:
        MlgenError: with every problem, each with its place.
    """
    asked = read(environment)
    result = pipeline.render(texts(asked.files), asked.options)
    problems = [problem for job in result.jobs for problem in _unknown_apis(job, asked.apis)]
    if not result.jobs:
        message = f"the folder holds no job; looked at: {', '.join(asked.files)}"
        hint = "add one, or name its file in the parameter files"
        problems.append(Problem((), message, "no-job", hint))
    if problems:
        raise MlgenError([*asked.warnings, *result.warnings, *problems])
    return text(result.parts, "yaml"), (*asked.warnings, *result.warnings)


def parameters(environment: Mapping[str, str]) -> str:
    """Return the announcement of the parameters, as JSON; of one job with what can be tuned."""
    tuned: dict[str, str] = {}
    try:
        documents = list(_jobs(read(environment)))
        if len(documents) == 1:
            tuned = dict(_tuned(documents[0]))
    except MlgenError:
        pass  # `generate` says it; what can be set is to be seen all the same
    files, settings = ANNOUNCED
    return json.dumps([files, settings | {"map": tuned}], indent=2, ensure_ascii=False)


def _jobs(asked: Asked) -> Iterator[Document]:
    """The job files of the folder, or what custom resources stand for."""
    collector = Collector()
    for _, job in dialects.each(texts(asked.files), _native, collector):
        if job:
            yield job
    collector.raise_errors()


def _native(_name: str, document: Document) -> tuple[Document | None, list[Problem]]:
    return dialects.native(document)


def _tuned(document: Document) -> Iterator[tuple[str, str]]:
    """What people change from run to run, where the job says it."""
    spec = document.data.get("spec")
    if not isinstance(spec, dict):
        return
    roles = spec.get("roles")
    given = {"spec": {name: spec[name] for name in ("image",) if name in spec}}
    for role, said in roles.items() if isinstance(roles, dict) else ():
        given[f"spec.roles.{role}"] = said if isinstance(said, dict) else {}
    for path, fields in given.items():
        for name in TUNED:
            if isinstance(fields.get(name), (str, int)):
                yield f"{path}.{name}", str(fields[name])


def _parameters(text: str, collector: Collector) -> dict[str, Any]:
    """The values of the parameters by name, those that are right."""
    try:
        listed = json.loads(text or "[]") or []
    except json.JSONDecodeError as error:
        message = f"is not JSON from character {error.pos + 1} on"
        collector.add(_wrong((), message, "write parameters in the Application"))
        return {}
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        collector.add(_wrong((), "is not a list of parameters", 'write [{"name": "files", …}]'))
        return {}
    found = {}
    for number, item in enumerate(listed):
        name = str(item.get("name"))
        problem = _wrong_parameter(number, name, item)
        if problem:
            collector.add(problem)
        else:
            found[name] = item.get(_form(name))
    return found


def _form(name: str) -> str:
    return next((p["collectionType"] for p in ANNOUNCED if p["name"] == name), "")


def _wrong_parameter(number: int, name: str, item: Mapping[str, Any]) -> Problem | None:
    form = _form(name)
    if not form:
        known = [parameter["name"] for parameter in ANNOUNCED]
        hint = did_you_mean(name, known) or f"known are: {', '.join(known)}"
        return _wrong((number, "name"), f'"{name}" is not a parameter', hint)
    kind, words = FORMS[form]
    value = item.get(form)
    texts = value.values() if isinstance(value, dict) else value or ()
    if not isinstance(value, (kind, type(None))) or not all(isinstance(t, str) for t in texts):
        return _wrong((number, form), f"{name} is not {words} of texts", f"write it under {form}:")
    others = [other for other in ("string", *FORMS) if other != form and item.get(other)]
    if others:
        return _wrong((number, others[0]), f"{name} is not {words}", f"write it under {form}:")
    return None


def _wrong(path: ValuePath, message: str, hint: str) -> Problem:
    return Problem(path, message, "bad-parameter", hint, place=Place(PARAMETERS, 0))


def _outside(name: str) -> Iterator[Problem]:
    """A problem with a file that is none of the Application's, such as another one's."""
    here = Path(os.path.realpath("."))
    read = [] if name == "-" else [here / name]
    if read and read[0].is_dir():
        read += [file for file in read[0].iterdir() if file.suffix in SUFFIXES]
    if not read or not all(Path(os.path.realpath(f)).is_relative_to(here) for f in read):
        message = f"{name!r} leads out of the Application's folder"
        yield _wrong(("files",), message, "move it there, or set a path above both")


def _settings(given: Mapping[str, str], collector: Collector) -> Iterator[tuple[ValuePath, Any]]:
    for path, value in given.items():
        try:
            yield overrides.parse(f"{path}={value}")
        except ValueError as error:
            collector.add(_wrong(("set", path), str(error), "write spec.image: example/mnist:2"))


def _version(text: str, collector: Collector) -> KubeVersion:
    """The newest version that is known serves a newer cluster too."""
    if not text:
        return versions.DEFAULT
    try:
        return versions.parse(text)
    except ValueError as error:
        message, newest = str(error), versions.SUPPORTED[-1]
    major, _, minor = text.removeprefix("v").partition(".")
    newer = (major, minor.partition(".")[0])
    is_newer = all(map(str.isdecimal, newer)) and tuple(map(int, newer)) > newest
    shown = newest
    hint = f"rendered as for {shown}" if is_newer else "use a cluster of such a version"
    collector.add(Problem((), message, "bad-value", hint, is_newer, Place(VERSION, 0)))
    return newest


def _unknown_apis(job: Rendered, apis: Sequence[str]) -> Iterator[Problem]:
    """What the cluster would refuse: only a gang's objects are not of Kubernetes itself."""
    if not apis:
        return
    for item in job.objects:
        version, kind = item["apiVersion"], item["kind"]
        named = f"{version}/{kind}"
        kinds = any(api.startswith(f"{version}/") for api in apis)
        if not is_built_in(version) and (named if kinds else version) not in apis:
            message = f"the cluster has no {version} {kind}"
            hint = "install the scheduler that brings it, or leave scheduling.gang out"
            problem = Problem(("spec", "scheduling", "gang"), message, "missing-api", hint)
            yield job.document.located(problem)
