"""`mlgen render FILE…`, with `--namespace`, for jobs about which there is nothing to say."""

import gc
import os
import re
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mlgen.result import Result

LARGEST = 64 * 1024
"""The largest input in bytes: of more, the thorough road is not noticeably slower.

And if there is something to say after all, what was done here is done again there.
"""

THOUSANDS = r"(?i)replicas\W{1,3}[0-9]{4}"
"""What a job with thousands of replicas contains. It often has a warning about the size of an
object, and may take seconds, so it is not tried here first."""

NAMESPACE = ("-n", "--namespace")

SITE, PYPROJECT = "mlgen.toml", "pyproject.toml"
"""The files that may set defaults for job files; see `mlgen.site`."""

TABLE = r"""tool["']?\s*\.\s*["']?mlgen|(?:^|[\s"'\[])tool["']?\s*[\]=]|\\[uUx]"""
"""What a text of TOML with a table `tool.mlgen` contains: this name, `tool` alone, or an escape."""


def run(words: list[str]) -> int | None:
    """Print the manifests of the jobs in files, and return the exit status.

    Return None if something else is asked for, or anything but manifests is to be printed.

    Args:
        words: those after `mlgen render`.
    """
    asked = _asked(words)
    if asked is None or not _are_small(asked[0]) or _may_have_defaults(os.getcwd()):  # noqa: PTH109
        return None
    files, namespace = asked
    gc.disable()  # a small job leaves little, and the process ends
    try:
        return _render(files, namespace)
    finally:
        gc.enable()


def _render(files: list[str], namespace: str | None) -> int | None:
    """Render files; see `run`."""
    from mlgen import pipeline
    from mlgen.documents.files import texts
    from mlgen.kubernetes.names import namespace as checked
    from mlgen.output.manifests import text
    from mlgen.output.streams import write
    from mlgen.result import Options

    try:
        options = Options(namespace=None if namespace is None else checked(namespace))
    except ValueError:
        return None
    found = list(texts(tuple(files)))
    if any(re.search(THOUSANDS, each.text) for each in found):
        return None
    result = pipeline.attempt(found, options)
    if result.problems:
        return None
    return write(text(result.parts, "yaml").encode()) or _say_more(result, files, namespace)


def _asked(words: list[str]) -> tuple[list[str], str | None] | None:
    """Return the files and the namespace on a command line; None if there is any other option."""
    files: list[str] = []
    namespace: str | None = None
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if word in NAMESPACE:
            namespace = next(rest, "-")
        elif name == NAMESPACE[1]:
            namespace = value
        elif word.startswith("-"):
            return None
        else:
            files.append(word)
    return (files, namespace) if files and not (namespace or "").startswith("-") else None


def _are_small(files: list[str]) -> bool:
    """Return whether all are files that can be read twice, and small; a pipe is not."""
    try:
        found = [os.stat(file) for file in files]  # noqa: PTH116 - pathlib is large
    except (OSError, ValueError):
        return False
    size = sum(one.st_size for one in found)
    return size <= LARGEST and all(stat.S_ISREG(one.st_mode) for one in found)


def _may_have_defaults(folder: str) -> bool:
    """Return whether a folder or one above it has a file with defaults, as `site.find` looks."""
    while True:
        if os.path.isfile(f"{folder}/{SITE}") or _has_table(f"{folder}/{PYPROJECT}"):  # noqa: PTH113
            return True
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder or os.path.exists(f"{folder}/.git"):  # noqa: PTH110
            return False
        folder = parent


def _has_table(path: str) -> bool:
    """Return whether a pyproject.toml may have a table of mlgen; most are of other projects."""
    if not os.path.isfile(path):  # noqa: PTH113
        return False
    import re

    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return re.search(TABLE, file.read()) is not None
    except (OSError, UnicodeDecodeError):
        return True


def _say_more(result: "Result", files: list[str], namespace: str | None) -> int:
    """Print the totals of several files or of other objects, and to a person what comes next."""
    lines = []
    if len(files) > 1 or result.others:
        from mlgen.output.problems import Count

        kinds = tuple(part.document.data["kind"] for part in result.others)
        lines.append(str(Count(len(files), len(result.jobs), kinds, ())))
    if sys.stderr.isatty() and not os.environ.get("CI"):
        from mlgen.output.next_steps import next_steps

        options = [] if namespace is None else [NAMESPACE[1], namespace]
        lines.append(next_steps(len(result.jobs), files, options, None))
    from mlgen.output.streams import say

    return say("\n".join(lines)) if any(lines) else 0
