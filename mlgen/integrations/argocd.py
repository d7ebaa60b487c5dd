"""The commands of an Argo CD config management plugin.

https://argo-cd.readthedocs.io/en/stable/operator-manual/config-management-plugins/. Argo CD runs
the commands of `integrations/argocd/plugin.yaml` in a copy of the Application's folder, and passes
everything else in the environment. The output of `generate` is the desired state of the cluster.
An empty output is therefore an error: with pruning, Argo CD would delete everything.
"""

import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgen import dialects, pipeline
from mlgen.bounds import DEPTH
from mlgen.documents import overrides
from mlgen.documents.document import Document, is_too_deep
from mlgen.documents.files import leads_out, texts
from mlgen.integrations import file_type
from mlgen.kubernetes import names, versions
from mlgen.kubernetes.versions import KubeVersion
from mlgen.output.manifests import text
from mlgen.problems import Collector, MlgenError, Place, Problem, ValuePath, choice
from mlgen.result import Options, Rendered
from mlgen.site import find

# Environment variables that Argo CD sets
PARAMETERS = "ARGOCD_APP_PARAMETERS"
VERSION = "KUBE_VERSION"
APIS = "KUBE_API_VERSIONS"
NAMESPACE = "ARGOCD_APP_NAMESPACE"

FILES = {
    "name": "files",
    "title": "Files",
    "tooltip": "Files and folders with jobs and other manifests, within the Application's path",
    "collectionType": "array",
    "array": ["."],
}
SETTINGS = {
    "name": "set",
    "title": "Settings",
    "tooltip": "Values that replace those of every job: spec.roles.worker.replicas: 8",
    "collectionType": "map",
    "map": {},
}
"""The announcement of the parameters, with their defaults, for Argo CD's user interface."""

COLLECTIONS: dict[str, tuple[str, type, str]] = {
    "files": ("array", list, "a list"),
    "set": ("map", dict, "a mapping"),
}
"""The `collectionType` of each parameter, its type in Python, and its name in messages."""

NO_TEXT = re.compile("[\\0\ud800-\udfff]")
"""What JSON can escape, and neither a file name nor a manifest can have."""

TUNABLE = ("image", "replicas")
"""The fields of `spec` and of a role that the user interface offers for editing."""


@dataclass(frozen=True)
class Application:
    """The settings of an Application.

    Attributes:
        files: files and folders, relative to the Application's folder.
        options: the options for rendering.
        apis: each `group/version` and `group/version/kind` in the cluster; () if not known.
        warnings: problems that do not prevent rendering.
    """

    files: tuple[str, ...]
    options: Options
    apis: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()


def read(environment: Mapping[str, str], *, only_jobs: bool = False) -> Application:
    """Return the settings of an Application from its environment, without reading its files.

    Args:
        environment: whoever writes the Application writes the parameters in it.
        only_jobs: as `Options.only_jobs`; the site can set it too, and neither can undo the other.

    Raises:
        MlgenError: with every problem of the parameters and of the cluster's version.
    """
    collector = Collector()
    values = _parameters(environment.get(PARAMETERS, ""), collector)
    files = tuple(values.get("files") or ["."])
    collector.extend(problem for name in files for problem in _unsafe(name))
    settings = tuple(_settings(values.get("set") or {}, collector))
    version = _version(environment.get(VERSION, ""), collector)
    site = None
    with collector.catch():
        site = find(Path.cwd(), links=False)
    namespace = _namespace(environment.get(NAMESPACE, ""), collector)
    collector.raise_errors()
    if site and namespace:
        site = site.without_namespace()
    options = Options(
        version or (site and site.kube_version) or versions.DEFAULT,
        settings=settings,
        supervisor=site is None or site.supervisor is not False,
        target="argocd",
        default_namespace=namespace,
        site=site,
        only_jobs=only_jobs or bool(site and site.only_jobs),
    )
    apis = tuple(name for name in environment.get(APIS, "").split(",") if name)
    return Application(files, options, apis, collector.problems)


def init(environment: Mapping[str, str], *, only_jobs: bool = False) -> tuple[Problem, ...]:
    """Check the parameters, the version of the cluster and the names of files; return warnings.

    Raises:
        MlgenError: a parameter or the version is wrong, or a file cannot be read.
    """
    application = read(environment, only_jobs=only_jobs)
    problems = [text.problem for text in texts(application.files) if text.problem]
    if problems:
        raise MlgenError(problems)
    return application.warnings


def generate(
    environment: Mapping[str, str], *, only_jobs: bool = False
) -> tuple[str, tuple[Problem, ...]]:
    """Return the manifests of the folder as YAML, which is never empty, and all warnings.

    The arguments are those of `read`.

    Raises:
        MlgenError: with every problem and its place.
    """
    application = read(environment, only_jobs=only_jobs)
    result = pipeline.render(texts(application.files), application.options)
    warnings = (*application.warnings, *result.warnings)
    problems = [problem for job in result.jobs for problem in _missing_apis(job, application.apis)]
    if not result.jobs:
        message = f"no job found in: {', '.join(application.files)}"
        hint = "add a job to the folder, or list its file in the parameter files"
        problems.append(Problem((), message, "no-job", hint))
    if problems:
        raise MlgenError([*warnings, *problems])
    return text(result.parts, "yaml"), warnings


def parameters(environment: Mapping[str, str]) -> str:
    """Return the announcement of the parameters as JSON.

    If the folder holds exactly one job, it includes the job's images and numbers of replicas.
    """
    tunables: dict[str, str] = {}
    try:
        documents = list(_jobs(read(environment)))
        if len(documents) == 1:
            tunables = dict(_tunables(documents[0]))
    except MlgenError:
        pass  # `generate` reports it; the user interface shows the parameters nevertheless
    return json.dumps([FILES, SETTINGS | {"map": tunables}], indent=2, ensure_ascii=False)


def _jobs(application: Application) -> Iterator[Document]:
    """Return the job files of the folder, and the equivalent job files of custom resources."""
    collector = Collector()
    files = texts(application.files)
    for _, job in dialects.each(files, lambda _, document: dialects.native(document), collector):
        if job:
            yield job
    collector.raise_errors()


def _tunables(document: Document) -> Iterator[tuple[str, str]]:
    """Return the tunable fields that a job file sets, by path; it need not be valid."""
    spec = document.data.get("spec")
    if not isinstance(spec, dict):
        return
    roles = spec.get("roles")
    mappings = {"spec": {name: spec[name] for name in ("image",) if name in spec}}
    for role, fields in roles.items() if isinstance(roles, dict) else ():
        mappings[f"spec.roles.{role}"] = fields if isinstance(fields, dict) else {}
    for path, fields in mappings.items():
        for name in TUNABLE:
            if isinstance(fields.get(name), (str, int)):
                yield f"{path}.{name}", str(fields[name])


def _parameters(text: str, collector: Collector) -> dict[str, Any]:
    """Return the values of the valid parameters by name; report the others."""
    try:
        listed = json.loads(text or "[]") or []
    except (ValueError, RecursionError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        message = f"invalid JSON{where}"
        collector.add(_wrong((), message, "set the parameters in the Application"))
        return {}
    if is_too_deep(listed):
        collector.add(_wrong((), f"nested more than {DEPTH} levels deep", ""))
        return {}
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        collector.add(_wrong((), "expected a list of mappings", 'write [{"name": "files", …}]'))
        return {}
    values = {}
    for number, item in enumerate(listed):
        name = str(item.get("name"))
        problem = _wrong_parameter(number, name, item)
        if problem:
            collector.add(problem)
        else:
            values[name] = item.get(COLLECTIONS[name][0])
    return values


def _wrong_parameter(number: int, name: str, item: Mapping[str, Any]) -> Problem | None:
    """Return the problem with one entry of the list of parameters, or None."""
    if name not in COLLECTIONS:
        hint = choice(name, list(COLLECTIONS))
        return _wrong((number, "name"), f'unknown parameter "{name}"', hint)
    collection, collection_type, title = COLLECTIONS[name]
    value = item.get(collection)
    strings = (*value, *value.values()) if isinstance(value, dict) else value or ()
    message, hint = f"expected {title} of strings for {name}", f"set it under {collection}:"
    if not isinstance(value, (collection_type, type(None))) or not all(
        isinstance(string, str) for string in strings
    ):
        return _wrong((number, collection), message, hint)
    if any(NO_TEXT.search(string) for string in strings):
        message = f"{name} contains a character that no text has"
        return _wrong((number, collection), message, "remove characters such as \\u0000")
    others = [key for key in ("string", "array", "map") if key != collection and item.get(key)]
    return _wrong((number, others[0]), message, hint) if others else None


def _wrong(path: ValuePath, message: str, hint: str) -> Problem:
    return Problem(path, message, "bad-parameter", hint, place=Place(PARAMETERS, 0))


def _unsafe(name: str) -> Iterator[Problem]:
    """Report what is not in the Application's folder, such as a file of another Application.

    It may be a link, which Argo CD copies as it is in the repository.
    """
    if name == "-" or leads_out(Path(name), Path()):
        message = f"{name!r} is outside of the Application's folder"
        hint = "move it into the folder, or set the Application's path to a folder that has both"
        yield _wrong(("files",), message, hint)
    elif file_type(name) not in (0, stat.S_IFREG, stat.S_IFDIR):
        # A pipe or a device may never end. A missing file is reported when it is read.
        yield _wrong(("files",), f"{name!r} is neither a file nor a folder", "list another file")


def _namespace(text: str, collector: Collector) -> str | None:
    """Return the namespace of the Application; None if it has none."""
    try:
        return names.namespace(text) if text else None
    except ValueError as error:
        collector.add(Problem((), str(error), "bad-value", place=Place(NAMESPACE, 0)))
        return None


def _settings(values: Mapping[str, str], collector: Collector) -> Iterator[tuple[ValuePath, Any]]:
    """Return the settings of the parameter `set` as `Options.settings`."""
    for path, value in values.items():
        try:
            yield overrides.parse(f"{path}={value}")
        except ValueError as error:
            collector.add(_wrong(("set", path), str(error), "write spec.image: example/mnist:2"))


def _version(text: str, collector: Collector) -> KubeVersion | None:
    """Return the version of the cluster; for a newer one, the newest supported and a warning.

    None if it is not known.
    """
    if not text:
        return None
    place = Place(VERSION, 0)
    try:
        version, message = versions.nearest(text)
    except ValueError as error:
        hint = "use a supported version"
        collector.add(Problem((), str(error), "bad-value", hint, place=place))
        return versions.DEFAULT
    if message:
        hint = f"rendering for {version} instead"
        collector.add(Problem((), message, "bad-value", hint, warning=True, place=place))
    return version


def _missing_apis(job: Rendered, apis: Sequence[str]) -> Iterator[Problem]:
    """Report PodGroups that the cluster does not have; it has all other kinds of a job."""
    if not apis:
        return
    for item in job.objects:
        version, kind = item["apiVersion"], item["kind"]
        lists_kinds = any(api.startswith(f"{version}/") for api in apis)
        api = f"{version}/{kind}" if lists_kinds else version
        if kind == "PodGroup" and api not in apis:
            message = f"the cluster does not have the kind {kind} of {version}"
            hint = "install the scheduler that provides it, or omit scheduling.gang"
            problem = Problem(("spec", "scheduling", "gang"), message, "missing-api", hint)
            yield job.document.located(problem)
