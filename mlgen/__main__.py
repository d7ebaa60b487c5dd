"""The program: `mlgen`, and `python -m mlgen`."""

import os
import sys

from mlgen import quick


def main() -> None:
    """Run the command line of this process, and exit with its status."""
    try:
        status = quick.run(sys.argv)
    except KeyboardInterrupt:
        from mlgen.output.streams import interrupted

        status = interrupted()
    if status is not None:
        # All is written. To free every object would take a tenth of the time of a small render.
        os._exit(status)
    from mlgen.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
