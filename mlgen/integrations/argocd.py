"""The commands of an Argo CD config management plugin.

https://argo-cd.readthedocs.io/en/stable/operator-manual/config-management-plugins/. Argo CD runs
the commands of `integrations/argocd/plugin.yaml` in a copy of the Application's folder, and passes
everything else in the environment. The output of `generate` is the desired state of the cluster.
An empty output is therefore an error: with pruning, Argo CD would delete everything.

A folder with a kustomization or a Helm chart is built first, as Argo CD does without a plugin.
"""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from mlgen import dialects
from mlgen.documents import overrides
from mlgen.documents.document import Document, is_too_deep
from mlgen.documents.files import (
    CHARTS,
    Text,
    bounded,
    decode,
    documents,
    kustomization,
    leads_out,
    parts,
    texts,
    too_large,
)
from mlgen.documents.reader import without_effect
from mlgen.input_limits import DEPTH, TEXT_BYTES
from mlgen.integrations import Manifests, file_type
from mlgen.kubernetes import names, versions
from mlgen.kubernetes.values import mapping
from mlgen.pipeline import Walk
from mlgen.printing import Printed
from mlgen.problems import Code, Collector, MlgenError, Place, Problem, ValuePath, choice
from mlgen.resources import table
from mlgen.result import Foreign, Options, Rendered
from mlgen.site import find

# Environment variables that Argo CD sets
PARAMETERS = "ARGOCD_APP_PARAMETERS"
VERSION = "KUBE_VERSION"
APIS = "KUBE_API_VERSIONS"
NAMESPACE = "ARGOCD_APP_NAMESPACE"
RELEASE = "ARGOCD_APP_NAME"

COLLECTIONS: dict[str, tuple[type, str]] = {"array": (list, "a list"), "map": (dict, "a mapping")}
"""The type of a `collectionType` in Python, and its name in messages."""

NO_TEXT = re.compile("[\\0\ud800-\udfff]")
"""Characters that are valid in JSON, but not in a file name or a manifest."""

SETTING_HINT = "write spec.image: example/mnist:2"

BUILDERS = {
    "kustomize": (("kustomize", "build"), ("kubectl", "kustomize")),
    "Helm": (("helm", "template"),),
}
"""The commands that build a folder, by tool; the first that is installed is run."""

PASSED = (
    *("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""The environment of these commands. kustomize can read any variable of its environment."""

TUNABLE = ("image", "replicas")
"""The fields of `spec` and of roles that are editable in the user interface."""


@dataclass(frozen=True)
class Application:
    """The settings of an Application.

    Attributes:
        files: files and folders, relative to the Application's folder.
        options: the options for rendering.
        apis: each `group/version` and `group/version/kind` in the cluster; () if unknown.
        warnings: problems that do not prevent rendering.
        environment: the environment of the plugin.
    """

    files: tuple[str, ...]
    options: Options
    apis: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, compare=False)

    def texts(self, read: Callable[[tuple[str, ...]], Iterator[Text]]) -> Iterator[Text]:
        """Return the texts of the files, and the built manifests of kustomizations and charts.

        Args:
            read: returns the texts of files and folders.
        """
        return bounded(text for name in self.files for text in self._texts(name, read))

    def _texts(
        self, name: str, read: Callable[[tuple[str, ...]], Iterator[Text]]
    ) -> Iterator[Text]:
        build = _build(name)
        if not build:
            return read((name,))
        version, namespace = self.options.kube_version, self.options.default_namespace
        path = name if name == "." else f"./{name}"  # never an option
        words = [*build.command, path]
        if build.tool == "Helm":
            release = self.environment.get(RELEASE) or Path.cwd().name
            words = [*build.command, f"--kube-version={version}", "--include-crds"]
            words += [f"--namespace={namespace}"] if namespace else []
            words += ["--", release, path]
        passed = {each: text for each, text in self.environment.items() if each in PASSED}
        return documents(_built(build, words, passed))


class Build(NamedTuple):
    """How to build a folder.

    Attributes:
        tool: the tool: `kustomize` or `Helm`.
        file: the file that configures it.
        command: the command, without arguments; () if no program of the tool is installed.
    """

    tool: str
    file: Path
    command: tuple[str, ...]


def _build(name: str) -> Build | None:
    """Return how to build a folder; None for a file, or a folder that needs no tool."""
    folder = Path(name)
    if file_type(name) != stat.S_IFDIR:
        return None
    if (folder / CHARTS[0]).is_file():
        tool, file = "Helm", folder / CHARTS[0]
    elif path := kustomization(folder):
        text = next(texts((name,)))
        if text.others is not None and not any(without_effect(text)):
            return None
        tool, file = "kustomize", path
    else:
        return None
    installed = (command for command in BUILDERS[tool] if shutil.which(command[0]))
    return Build(tool, file, next(installed, ()))


def _built(build: Build, words: Sequence[str], environment: Mapping[str, str]) -> Text:
    """Return the manifests of a folder, or a text with the problem of building it.

    Args:
        build: how to build it.
        words: the whole command.
        environment: the environment of the command.
    """
    if problem := _not_installed(build) or _link(build.file.parent):
        return Text(str(build.file), problem=problem)
    name = " ".join(words)
    with (
        TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - one of BUILDERS
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process,
    ):
        data = process.stdout.read(TEXT_BYTES + 1) if process.stdout else b""
        if len(data) > TEXT_BYTES:
            process.kill()
            return Text(name, problem=too_large(name))
        if process.wait():
            errors.seek(0)
            reason = errors.read(1000).decode(errors="replace").strip()
            message = f"{build.tool} cannot build the folder: {reason or 'no message'}"
            place = Place(str(build.file), 0)
            hint = f"run {name} in a checkout"
            return Text(name, problem=Problem((), message, "unreadable", hint, place=place))
    return decode(name, data)


def _not_installed(build: Build) -> Problem | None:
    """Return the problem of a folder whose tool is not in the container of the plugin."""
    if build.command:
        return None
    program = BUILDERS[build.tool][0][0]
    message = f"{build.tool} has to build the folder first, but {program} is not installed"
    hint = f"add {program} to the image of the plugin, or list the job files in the parameter files"
    return Problem((), message, "unreadable", hint, place=Place(str(build.file), 0))


def _link(folder: Path) -> Problem | None:
    """Return the problem of a link that leads out of a folder, because Helm follows links."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink() and leads_out(path, folder):
                message = "is a link to a file outside of the folder"
                hint, place = "copy the file into the folder", Place(str(path))
                return Problem((), message, "unreadable", hint, place=place)
    return None


def read(
    environment: Mapping[str, str], *, only_jobs: bool = False, strict: bool = False
) -> Application:
    """Return the settings of an Application from its environment, without reading its files.

    Args:
        environment: the environment. The author of the Application controls its parameters, so
            they are untrusted.
        only_jobs: as in `Options.only_jobs`. True if this argument or the site sets it.
        strict: as in `Options.strict`. True if this argument or the site sets it.

    Raises:
        MlgenError: the parameters, the site's file or the cluster's version have errors; lists all
            of them.
    """
    collector = Collector()
    values: dict[str, Any] = {}
    with collector.catch():
        values = _parameters(environment.get(PARAMETERS, ""), collector)
    files = tuple(values.get("files") or ["."])
    collector.extend(problem for name in files for problem in _unsafe(name))
    settings: list[tuple[ValuePath, Any]] = []
    for path, value in (values.get("set") or {}).items():
        with collector.catch(), _wrong_value(PARAMETERS, ("set", path), SETTING_HINT):
            settings.append(overrides.parse(f"{path}={value}"))
    version = site = namespace = None
    with collector.catch(), _wrong_value(VERSION, hint="use a supported version"):
        if environment.get(VERSION):
            version, message = versions.nearest(environment[VERSION])
            if message:
                hint, place = f"rendering for {version} instead", Place(VERSION, 0)
                collector.add(Problem((), message, "bad-value", hint, warning=True, place=place))
    with collector.catch():
        site = find(Path.cwd(), links=False)
    with collector.catch(), _wrong_value(NAMESPACE):
        namespace = names.namespace(environment[NAMESPACE]) if environment.get(NAMESPACE) else None
    collector.raise_errors()
    if site and namespace:
        site = site.without_namespace()
    options = Options(
        version or (site and site.kube_version) or versions.DEFAULT,
        settings=tuple(settings),
        supervisor=site is None or site.supervisor is not False,
        target="argocd",
        default_namespace=namespace,
        site=site,
        only_jobs=only_jobs or bool(site and site.only_jobs),
        strict=strict or bool(site and site.strict),
    )
    apis = tuple(name for name in environment.get(APIS, "").split(",") if name)
    return Application(files, options, apis, collector.problems, environment)


def init(
    environment: Mapping[str, str], *, only_jobs: bool = False, strict: bool = False
) -> tuple[Problem, ...]:
    """Check the parameters, the cluster's version and the names of files, and return warnings.

    Raises:
        MlgenError: a parameter or the version is invalid, or a file cannot be read.
    """
    application = read(environment, only_jobs=only_jobs, strict=strict)
    builds = {name: _build(name) for name in application.files}
    missing = [_not_installed(build) for build in builds.values() if build]
    unbuilt = tuple(name for name, build in builds.items() if not build)
    unread = [text.problem for text in texts(unbuilt)]
    problems = [problem for problem in (*missing, *unread) if problem]
    if problems:
        raise MlgenError(problems)
    return application.warnings


def generate(
    environment: Mapping[str, str], *, only_jobs: bool = False, strict: bool = False
) -> Manifests:
    """Return the manifests of the folder, which are never empty.

    For the arguments, see `read`.

    Raises:
        MlgenError: there are errors or no jobs; lists all problems with their locations.
    """
    application = read(environment, only_jobs=only_jobs, strict=strict)
    walk = Walk(application.options)
    result = Printed(walk, "yaml")
    for outcome in walk.outcomes(application.texts(parts)):
        result.add(outcome)
        for part in outcome.parts:
            result.misplace(outcome, _missing_apis(part, application.apis))
    walk.finish()
    warnings = (*application.warnings, *walk.problems)
    if walk.has_errors:
        raise MlgenError(walk.problems)
    problems = result.misplaced
    if not walk.jobs:
        message = f"no job found in: {', '.join(application.files)}"
        hint = "add a job to the folder, or list its file in the parameter files"
        problems.append(Problem((), message, "no-job", hint))
    if problems:
        raise MlgenError([*warnings, *problems])
    return Manifests(result.texts(), warnings)


def parameters(environment: Mapping[str, str]) -> str:
    """Return the announcement of the parameters as JSON.

    If the folder contains exactly one job, it includes the job's images and numbers of replicas.
    """
    tunables: dict[str, str] = {}
    try:
        documents = list(_jobs(read(environment)))
        if len(documents) == 1:
            tunables = dict(_tunables(documents[0]))
    except MlgenError:
        pass  # `generate` reports it, and the user interface still shows the parameters
    files, settings = table("integrations/argocd")
    return json.dumps([files, settings | {"map": tunables}], indent=2, ensure_ascii=False)


def _jobs(application: Application) -> Iterator[Document]:
    """Return the job files of the folder, and the equivalent job files of custom resources."""
    collector = Collector()
    files = application.texts(texts)
    for job in dialects.each(files, dialects.native, collector):
        if job:
            yield job
    collector.raise_errors()


def _tunables(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the path and value of each tunable field in a job file, which need not be valid."""
    spec = document.data.get("spec")
    if not isinstance(spec, dict):
        return
    mappings = {"spec": {name: spec[name] for name in ("image",) if name in spec}}
    for role, fields in mapping(spec, "roles").items():
        mappings[f"spec.roles.{role}"] = mapping(fields)
    for path, fields in mappings.items():
        for name in TUNABLE:
            if isinstance(fields.get(name), (str, int)):
                yield f"{path}.{name}", str(fields[name])


def _parameters(text: str, collector: Collector) -> dict[str, Any]:
    """Return the values of the valid parameters by name, and report invalid parameters.

    Raises:
        MlgenError: the text is not a list of parameters.
    """
    try:
        listed = json.loads(text or "[]") or []
    except (ValueError, RecursionError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        hint = "set the parameters in the Application"
        raise MlgenError([_wrong((), f"invalid JSON{where}", hint)]) from None
    if is_too_deep(listed):
        raise MlgenError([_wrong((), f"nested more than {DEPTH} levels deep", "")])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        hint = 'write [{"name": "files", …}]'
        raise MlgenError([_wrong((), "expected a list of mappings", hint)])
    announced = table("integrations/argocd")
    collections = {parameter["name"]: parameter["collectionType"] for parameter in announced}
    values = {}
    for number, item in enumerate(listed):
        with collector.catch():
            name = str(item.get("name"))
            if name not in collections:
                problem = _wrong(
                    (number, "name"), f'unknown parameter "{name}"', choice(name, [*collections])
                )
                raise MlgenError([problem])
            values[name] = _value(number, name, item, collections[name])
    return values


def _value(number: int, name: str, item: Mapping[str, Any], collection: str) -> Any:
    """Return the value of one entry of the list of parameters.

    Raises:
        MlgenError: the value is not a collection of strings.
    """
    collection_type, title = COLLECTIONS[collection]
    value = item.get(collection)
    strings = (*value, *value.values()) if isinstance(value, dict) else value or ()
    others = [key for key in ("string", *COLLECTIONS) if key != collection and item.get(key)]
    of_strings = isinstance(value, (collection_type, type(None))) and all(
        isinstance(string, str) for string in strings
    )
    if of_strings and any(NO_TEXT.search(string) for string in strings):
        message = f"{name} contains an invalid character"
        hint = "remove characters such as \\u0000"
        raise MlgenError([_wrong((number, collection), message, hint)])
    if of_strings and not others:
        return value
    message, hint = f"expected {title} of strings for {name}", f"set it under {collection}:"
    raise MlgenError([_wrong((number, others[0] if of_strings else collection), message, hint)])


def _wrong(path: ValuePath, message: str, hint: str) -> Problem:
    return Problem(path, message, "bad-parameter", hint, place=Place(PARAMETERS, 0))


@contextmanager
def _wrong_value(variable: str, path: ValuePath = (), hint: str = "") -> Iterator[None]:
    """Report a ValueError within the block as a problem of an environment variable."""
    try:
        yield
    except ValueError as error:
        code: Code = "bad-parameter" if variable == PARAMETERS else "bad-value"
        problem = Problem(path, str(error), code, hint, place=Place(variable, 0))
        raise MlgenError([problem]) from None


def _unsafe(name: str) -> Iterator[Problem]:
    """Report a path outside of the Application's folder, or one that is no file or folder.

    The path may be a link to a file of another Application: Argo CD copies links unchanged.
    """
    if name == "-" or leads_out(Path(name), Path()):
        message = f"{name!r} is outside of the Application's folder"
        hint = "move it into the folder, or set the Application's path to a folder that has both"
        yield _wrong(("files",), message, hint)
    elif file_type(name) not in (0, stat.S_IFREG, stat.S_IFDIR):
        # A pipe or a device may never end. A missing file is reported when it is read.
        yield _wrong(("files",), f"{name!r} is neither a file nor a folder", "list another file")


def _missing_apis(part: Rendered | Foreign, apis: Sequence[str]) -> Iterator[Problem]:
    """Report PodGroups whose kind the cluster lacks. All other kinds of a job are built in."""
    if not apis or isinstance(part, Foreign):
        return
    for item in part.objects:
        version, kind = item["apiVersion"], item["kind"]
        lists_kinds = any(api.startswith(f"{version}/") for api in apis)
        api = f"{version}/{kind}" if lists_kinds else version
        if kind == "PodGroup" and api not in apis:
            message = f"the cluster does not have the kind {kind} of {version}"
            hint = "install the scheduler that provides it, or omit scheduling.gang"
            problem = Problem(("spec", "scheduling", "gang"), message, "missing-api", hint)
            yield part.document.located(problem)
