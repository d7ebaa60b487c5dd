"""The quick road of the command line: the output of what is run most often, without click.

To import click and the commands takes longer than to render a small job. So a call is first tried
here: help and completion from texts that the build has prepared, and a plain `mlgen render FILE`.
A module here knows few words, and answers only if there is nothing to say but the output itself.
All else it leaves to the thorough road, `mlgen.cli`, before anything is written: None means that.
Where both answer, they print the same; `tests/quick` compares them.

Modules here, and what they import before they know that they can answer, import nothing large.
"""

import os
import sys

PROGRAM = "mlgen"
"""The name by which help and shells know the program; under another, click answers."""

COMPLETE = "_MLGEN_COMPLETE"
"""The variable in which a shell says that it wants completions."""

HELP = ("-h", "--help")


def run(argv: list[str]) -> int | None:
    """Print the output of a command line, and return the exit status; None if it is not known here.

    Args:
        argv: the name of the program, and the words after it.
    """
    # On Windows, click expands wildcards, and writes to the console in its own way.
    if os.name != "posix" or sys.stdout is None or sys.stderr is None:
        return None
    program, words = os.path.basename(argv[0]), argv[1:]  # noqa: PTH119 - pathlib is large
    text: str | None = None
    if program == PROGRAM and COMPLETE in os.environ:
        from mlgen.quick import completion

        text = completion.answer(os.environ[COMPLETE], os.environ)
    elif words[:1] == ["render"] and not set(HELP) & set(words):
        from mlgen.quick import render

        return render.run(words[1:])
    elif program == PROGRAM and words == ["--version"]:
        from mlgen import __version__

        text = f"{PROGRAM}, version {__version__}\n"
    elif program == PROGRAM and words and len(words) <= 2 and words[-1] in HELP:  # noqa: PLR2004
        from mlgen.quick import help_text

        text = help_text.text(words[:-1])
    if text is None or sys.stdout.encoding.lower() != "utf-8":
        return None
    from mlgen.output.streams import write

    return write(text.encode())
