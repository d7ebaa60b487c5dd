"""The program: `mlgen`, and `python -m mlgen`."""

import gc
import os
import sys


def main() -> None:
    """Run the command line of this process, and exit with its status."""
    # Documents have no cycles. To look for some again and again takes a third of a large `diff`;
    # a command that runs for hours, such as `wait`, still does so now and then.
    gc.set_threshold(200_000)
    try:
        from mlgen.cli import main as command_line

        command_line()
    except KeyboardInterrupt:  # while the program starts; then on, `mlgen.cli` handles it
        from mlgen.output.terminal import interrupted

        status = interrupted()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        status = end.code
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # All is written. To free every object would take a fifth of the time of a small render.
    os._exit(status)


if __name__ == "__main__":
    main()
