"""Render distributed training jobs as plain Kubernetes manifests.

The subpackages are the architecture. Data only moves to the right:

    text ─► documents ─► jobfile ──► frameworks ─► topology ─► objects ─► checks ─► output
                     └─► dialects ─┘

`mlgen.pipeline` calls these packages in this order. None of them reads a clock, the network or the
environment.

Five functions and a client are the public API. A job is a mapping, the path of a file or folder, or
text (a string with a line break). Several jobs are a list of these. In a notebook:

    >>> import mlgen
    >>> jobs = mlgen.load("jobs/bert.yaml", set={"spec.env.LR": "0.1"})
    >>> cluster = mlgen.Cluster(namespace="team-a")
    >>> cluster.apply(jobs)
    >>> for state in cluster.wait(*jobs):
    ...     print(state.name, state.phase)

In a program that needs only the objects:

    >>> [item["kind"] for item in mlgen.render("jobs/bert.yaml")]
    ['Service', 'Job', 'ConfigMap']

In a test of the job files of a repository:

    def test_job_files_are_valid():
        assert not mlgen.validate("jobs/").warnings
"""

from mlgen.version import VERSION

TYPE_CHECKING = False  # importing typing for it would take longer than `mlgen --help`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from mlgen.documents.files import Text
    from mlgen.problems import MlgenError, Problem
    from mlgen.result import Options, Rendered, Result

    Source = Mapping[str, Any] | str | Path
    """A job or other object as a mapping, the path of a file or folder, or text."""

__version__ = VERSION

__all__ = [
    "Cluster",
    "ClusterError",
    "MlgenError",
    "Options",
    "Problem",
    "Result",
    "convert",
    "load",
    "render",
    "site_options",
    "validate",
]


def render(
    job: "Source | Iterable[Source]", options: "Options | None" = None
) -> "list[dict[str, Any]]":
    """Render a job, and log its warnings to the logger "mlgen".

    Args:
        job: one job or several: a mapping, a path, text, or a list of these. Custom resources of
            operators are accepted unchanged.
        options: options of the rendering. Default: the same as `mlgen render` without flags.

    Returns:
        The Kubernetes objects, in the order in which to apply them. You can change them, because
        they share no data.

    Raises:
        MlgenError: the input is invalid. The exception contains all problems, with their locations.
    """
    return [_copied(item) for item in _logged(job, options).objects]


def load(
    source: "Source | Iterable[Source]",
    *,
    set: "Mapping[str, Any] | None" = None,  # noqa: A002 - as --set
    matrix: "Mapping[str, Sequence[Any]] | None" = None,
    **options: "Any",
) -> "list[Rendered]":
    """Render a source, and return its jobs. Log warnings to the logger "mlgen".

    Args:
        source: one job or several: a mapping, a path, text, or a list of these. Objects that are
            not jobs are left out.
        set: values to override, by path: `{"spec.roles.worker.replicas": 4}`. As `--set`.
        matrix: lists of values, by path: `{"args.lr": ["1e-4", "1e-5"]}`. As `--matrix`.
        **options: further fields of `Options`, such as `namespace="team-a"`.

    Returns:
        The jobs. Do not change their objects: they share data.

    Raises:
        MlgenError: the input is invalid. The exception contains all problems, with their locations.
    """
    from mlgen.result import Options

    return _logged(source, Options(settings=set or {}, matrix=matrix or {}, **options)).jobs


def validate(job: "Source | Iterable[Source]", options: "Options | None" = None) -> "Result":
    """Render a job, and return the jobs, their objects and the warnings.

    Args:
        job: one job or several: a mapping, a path, text, or a list of these.
        options: options of the rendering. Default: the same as `mlgen validate` without flags.

    Returns:
        The result, with `jobs`, `objects` and `warnings`. Do not change its objects: they share
        data.

    Raises:
        MlgenError: the input is invalid. The exception contains all problems, with their locations.
    """
    from mlgen import pipeline

    return pipeline.render(_texts(job), _options(options))


def convert(
    resource: "Source | Iterable[Source]", options: "Options | None" = None
) -> "tuple[str, tuple[Problem, ...]]":
    """Convert a custom resource of an operator to the equivalent job file.

    Args:
        resource: one custom resource or several: a mapping, a path, text, or a list of these. All
            other documents pass through unchanged.
        options: only `site`, `only_jobs` and `strict` have an effect.

    Returns:
        The job file as YAML text, and the warnings.

    Raises:
        MlgenError: the input is invalid. The exception contains all problems, with their locations.
    """
    from mlgen import conversion

    return conversion.convert(_texts(resource), _options(options))


def site_options(folder: "str | Path" = ".") -> "Options":
    """Read the defaults in `mlgen.toml`, which the other functions do not read.

    Args:
        folder: folder to search first. Like the command line, mlgen then searches its parents.

    Returns:
        Options with these defaults. To set further options, use `dataclasses.replace`.

    Raises:
        MlgenError: the file is invalid. The exception contains all problems, with their locations.
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
        strict=bool(site.strict),
    )


def _logged(job: "Source | Iterable[Source]", options: "Options | None") -> "Result":
    """Return the result for a job, and log its warnings."""
    import logging

    result = validate(job, options)
    for warning in result.warnings:
        logging.getLogger("mlgen").warning("%s", warning)
    return result


def _copied(value: "Any") -> "Any":
    """Return a deep copy. In rendered objects, replicas of a role share equal parts."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _options(options: "Options | None") -> "Options":
    """Return the options, or the defaults."""
    from mlgen.options import typed
    from mlgen.result import Options

    return (
        typed("options", options, Options | None, 'mlgen.Options(namespace="team-a")') or Options()
    )


def _texts(source: "Source | Iterable[Source]") -> "Iterator[Text]":
    """Yield the text of each source. `-` is standard input."""
    import json
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mlgen.documents.files import Text, texts
    from mlgen.options import typed

    example = "a mapping, a path, text, or a list of these"
    sources = [source] if isinstance(source, (Mapping, str, Path)) else source
    for one in typed("job", sources, Iterable, example):
        typed("job", one, (Mapping, str, Path), example)
        if isinstance(one, Mapping):
            yield Text("<mapping>", json.dumps(one, indent=2))
        elif isinstance(one, str) and "\n" in one:
            yield Text("<text>", one)
        else:
            yield from texts((str(one),))


def __getattr__(name: str) -> "Any":
    """Import a class of the public API on first use, because `mlgen --help` needs none."""
    from importlib import import_module

    homes = {
        "Cluster": "client",
        "ClusterError": "live.kubectl",
        "MlgenError": "problems",
        "Problem": "problems",
        "Options": "result",
        "Result": "result",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
