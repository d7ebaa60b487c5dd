"""A rendering → the next commands for a user at a terminal."""

import shlex
from collections.abc import Iterable, Sequence

from mlgen.problems import Problem


def file_argument(name: str) -> str:
    """Return the name of a file as an argument that no program reads as an option."""
    return f"./{name}" if name.startswith("-") and name != "-" else name


def next_steps(
    jobs: int,
    files: Sequence[str],
    options: Iterable[str],
    output: str | None,
    warnings: Iterable[Problem] = (),
) -> str:
    """Return the commands that apply and watch the rendered jobs; "" if there are none.

    Args:
        jobs: the number of rendered jobs.
        files: the rendered files. `-` (stdin) cannot be read again.
        options: the words of the command line that affect the names of jobs.
        output: the file or folder to apply; None if there is none.
        warnings: the warnings of the rendering.
    """
    if not jobs:
        return ""
    steps = []
    if output is not None:
        large = any(problem.code == "large-object" for problem in warnings)
        apply = ["kubectl", "apply", *(["--server-side"] if large else []), "-f"]
        steps.append([*apply, file_argument(output)])
    if "-" not in files:
        words = [*map(file_argument, files), *options]
        steps.append(["mlgen", "status", *words])
        if jobs == len(files) == 1:
            steps.append(["mlgen", "logs", *words, "--follow"])
    return "\n".join(["next:", *(f"  {shlex.join(step)}" for step in steps)]) if steps else ""
