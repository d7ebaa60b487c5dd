"""mlgen renders distributed training jobs to plain Kubernetes manifests.

The folders of this package are its architecture; data only moves to the right:

    text ─► documents ─► jobfile ──► frameworks ─► topology ─► objects ─► checks ─► output
                     └─► dialects ─┘

`mlgen.pipeline` walks this way. No room reads a clock, the network or the environment.

Four functions are the public API. A job is a mapping, the path of a file or folder, or text (a
string with a line break); several jobs are a list of these. In a notebook:

    >>> import mlgen
    >>> job = {
    ...     "apiVersion": "mlgen.dev/v1alpha1",
    ...     "kind": "TrainingJob",
    ...     "metadata": {"name": "mnist"},
    ...     "spec": {
    ...         "framework": "pytorch",
    ...         "image": "example/mnist:1.4",
    ...         "command": ["torchrun", "train.py"],
    ...         "roles": {"worker": {"replicas": 2}},
    ...     },
    ... }
    >>> [item["kind"] for item in mlgen.render(job)]
    ['ConfigMap', 'Service', 'Job']

In an Airflow task, which hands the objects to the Kubernetes client:

    @task
    def train(learning_rate: float) -> None:
        options = mlgen.Options(settings=((("spec", "env", "LR"), str(learning_rate)),))
        for item in mlgen.render("jobs/bert.yaml", options):
            utils.create_from_dict(ApiClient(), item)

In a test of the job files of a repository:

    def test_job_files_are_valid():
        assert not mlgen.validate("jobs/").warnings
"""

TYPE_CHECKING = False  # importing typing for it would take longer than `mlgen --help`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from mlgen.documents.files import Text
    from mlgen.problems import MlgenError, Problem
    from mlgen.result import Options, Result

    Source = Mapping[str, Any] | str | Path
    """A job or other object as a mapping, the path of a file or folder, or text."""

__version__ = "0.2.0"

__all__ = [
    "MlgenError",
    "Options",
    "Problem",
    "Result",
    "convert",
    "render",
    "site_options",
    "validate",
]


def render(
    job: "Source | Iterable[Source]", options: "Options | None" = None
) -> "list[dict[str, Any]]":
    """Return the Kubernetes objects of a job, in the order in which they are applied.

    Warnings go to the logger "mlgen". The objects are yours to change: no two share a part.

    Args:
        job: one job or several; custom resources of operators are accepted unchanged.
        options: by default those of `mlgen render` without flags.

    Raises:
        MlgenError: with every problem, each with its place.
    """
    import logging

    result = validate(job, options)
    for warning in result.warnings:
        logging.getLogger("mlgen").warning("%s", warning)
    return [_copied(item) for item in result.objects]


def validate(job: "Source | Iterable[Source]", options: "Options | None" = None) -> "Result":
    """Check a job as `render` does, and return its objects, its parts and the warnings.

    Args:
        job: one job or several.
        options: by default those of `mlgen validate` without flags.

    Raises:
        MlgenError: with every problem, each with its place.
    """
    from mlgen import pipeline
    from mlgen.result import Options

    return pipeline.render(_texts(job), options or Options())


def convert(resource: "Source | Iterable[Source]") -> "tuple[str, tuple[Problem, ...]]":
    """Return the equivalent job file of a custom resource, as YAML text, and the warnings.

    Args:
        resource: one custom resource or several; all other documents pass through unchanged.

    Raises:
        MlgenError: with every problem, each with its place.
    """
    from mlgen import conversion

    return conversion.convert(_texts(resource))


def site_options(folder: "str | Path" = ".") -> "Options":
    """Return options with the defaults of `mlgen.toml`, which the functions above do not read.

    It is looked up as by the command line: in the folder, and in those above it. To set further
    options, use `dataclasses.replace`.

    Raises:
        MlgenError: with every problem of the file, each with its place.
    """
    from pathlib import Path

    from mlgen.kubernetes.versions import DEFAULT
    from mlgen.result import Options
    from mlgen.site import find

    site = find(Path(folder))
    if site is None:
        return Options()
    return Options(
        site.kube_version or DEFAULT,
        supervisor=site.supervisor is not False,
        site=site,
        only_jobs=bool(site.only_jobs),
    )


def _copied(value: "Any") -> "Any":
    """Return plain data of which nothing is shared; replicas of a role share what is equal."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _texts(source: "Source | Iterable[Source]") -> "Iterator[Text]":
    """Return each source as a text; `-` is standard input."""
    import json
    from collections.abc import Mapping
    from pathlib import Path

    from mlgen.documents.files import Text, texts

    sources = [source] if isinstance(source, (Mapping, str, Path)) else source
    for one in sources:
        if isinstance(one, Mapping):
            yield Text("<mapping>", json.dumps(one, indent=2))
        elif isinstance(one, str) and "\n" in one:
            yield Text("<text>", one)
        else:
            yield from texts((str(one),))


def __getattr__(name: str) -> "Any":
    """Import the classes of the public API when they are asked for: `mlgen --help` needs none."""
    from importlib import import_module

    homes = {
        "MlgenError": "problems",
        "Problem": "problems",
        "Options": "result",
        "Result": "result",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
