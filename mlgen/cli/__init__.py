"""The command line, `mlgen COMMAND`. A command imports only the file of its group.

`mlgen --help` imports this module, so it imports others only when it needs them.
"""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

GROUPS = {
    "Start": {
        "init": "Write a commented job file as a starting point.",
        "explain": "Explain a field, a framework, a problem code or a rule.",
        "frameworks": "List the frameworks and their roles.",
        "schema": "Print the JSON Schema of the job file, or of a custom resource KIND.",
    },
    "Render": {
        "render": "Print the manifests of the jobs in FILES.",
        "argo": "Render the jobs in FILES for Argo Workflows.",
        "convert": "Print the equivalent job files of the custom resources in FILES.",
    },
    "Review": {
        "validate": "Validate the jobs in FILES without printing manifests.",
        "show": "Describe the jobs in FILES.",
        "graph": "Draw the roles of a job and how they depend on each other.",
        "diff": "Preview the effect of applying NEW over OLD.",
        "verify": "Check the rendered manifests in FILES after other tools have changed them.",
    },
    "Run with kubectl": {
        "doctor": "Check that the cluster is ready for the jobs in FILES.",
        "apply": "Apply the jobs in FILES to the cluster.",
        "rerun": "Run jobs again that have ended or still run.",
        "delete": "Delete the objects of jobs.",
        "ssh-secret": "Print a Secret with a new ssh key pair.",
    },
    "Follow with kubectl": {
        "list": "List the jobs in the cluster.",
        "status": "Show the state of jobs.",
        "logs": "Print the logs of a replica, or of all replicas.",
        "wait": "Wait until jobs have ended.",
    },
    "Run from other tools": {
        "helm-post-render": "Run as a Helm post-renderer.",
        "krm": "Run as a KRM function for kustomize or kpt.",
        "argocd": "Run as an Argo CD config management plugin.",
    },
    "Shell": {
        "completion": "Print a script for command completion in a shell.",
    },
}
"""Each command with the first sentence of its help, by purpose.

`mlgen --help` prints them from here, because importing all commands would be slow.
"""

FILES = dict(
    zip(
        GROUPS,
        ("start", "render", "review", "cluster", "follow", "tools", "start"),
        strict=True,
    )
)
"""The file of each group."""

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}

ALIASES = {"ls": "list"}
"""Other names of commands, which the help omits."""

MEANT = {
    "apply": "create deploy install run start submit",
    "argo": "workflow",
    "convert": "import migrate",
    "delete": "cancel destroy kill remove rm stop terminate uninstall",
    "diff": "compare plan preview",
    "explain": "docs man",
    "init": "new quickstart",
    "list": "get jobs ps",
    "logs": "attach tail",
    "render": "build compile generate template",
    "rerun": "restart retry",
    "status": "describe events info top watch",
    "validate": "check lint test",
    "--help": "help",
    "--version": "version",
}
"""Commands of other tools, by the command or option of mlgen that does the same."""

FUNCTIONS = {"list": "ls"}
"""The functions of commands with the name of a Python builtin."""


WRITERS = ("click.utils", "mlgen.cli.tools")
"""The modules whose functions write to stdout."""

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a program, apart from Ctrl-C. Windows has no SIGHUP."""


NO_COMMAND = (
    "Error: no command; for a Helm 3 post-renderer, add --post-renderer-args helm-post-render"
)
"""Helm 3 runs `--post-renderer mlgen` without arguments."""


class _Commands(click.Group):
    """A group of commands that imports a command only when it runs."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with terminable(), output_checked():
            return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and _is_filter():
            click.echo(NO_COMMAND, err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with pipe_checked():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with interruptible(), pipe_checked():
            try:
                return super().invoke(ctx)
            except click.ClickException as error:
                from mlgen.output.terminal import safe_lines

                # The message may contain a file name with control characters.
                vars(error).update(message=safe_lines(error.message))
                raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = ALIASES.get(cmd_name, cmd_name)
        for title, commands in GROUPS.items():
            if name in commands:
                module = import_module(f"{__name__}.{FILES[title]}")
                function = FUNCTIONS.get(name, name.replace("-", "_"))
                command: click.Command = getattr(module, function)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in {*COMMANDS, *ALIASES} and not args[0].startswith("-"):
            from mlgen.problems import did_you_mean

            meant = [f"use mlgen {name}" for name in MEANT if args[0] in MEANT[name].split()]
            close = "".join(meant) or did_you_mean(args[0], COMMANDS)
            hint = close or "mlgen --help lists all commands"
            ctx.fail(f'unknown command "{args[0]}"; {hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])


def _is_filter() -> bool:
    """Return True if another program writes to stdin, and stdout is no terminal."""
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode) and not os.isatty(1)
    except OSError:  # stdin is closed
        return False


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        from mlgen.version import build

        click.echo(f"mlgen, version {build()}")
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Render distributed training jobs as plain Kubernetes manifests.

    \b
    mlgen init                                   # write job.yaml
    mlgen render job.yaml | kubectl apply -f -
    mlgen logs job.yaml --follow                 # of rank 0

    Run mlgen COMMAND --help for examples. To look up a field, a framework, a problem code or a
    rule, run mlgen explain.

    \b
    Exit status:
      0  success
      1  invalid input
      2  invalid command line
      3  differences found
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash


# End the process cleanly after signals, Ctrl-C and errors in writing its output


@contextmanager
def output_checked() -> Iterator[None]:
    """Exit with status 1 and one line on stderr if stdout cannot be written.

    Other errors of the system without the name of a file, such as a full folder for temporary
    files, are reported in the same way.
    """
    if sys.stdout is None:  # stdout is closed. click would silently discard its output
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        yield
    except OSError as error:
        from mlgen.output.terminal import failed, say

        if error.errno is not None and _writes(error):
            sys.exit(failed(error))
        has_folder = _has_working_folder()
        if has_folder and (error.filename is not None or error.errno is None):
            raise
        hint = "the working folder does not exist; change to another folder"
        sys.exit(say(f"Error: {error.strerror if has_folder else hint}") or 1)


@contextmanager
def pipe_checked() -> Iterator[None]:
    """Exit quietly, as after SIGPIPE, if the reader of stdout has closed its pipe."""
    try:
        yield
    except BrokenPipeError as error:
        if not _writes(error):
            raise
        from mlgen.output.terminal import failed

        raise click.exceptions.Exit(failed(error)) from None


def _writes(error: OSError) -> bool:
    """Return True if an error was raised by one of the functions that write to stdout."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return last is not None and str(last.tb_frame.f_globals.get("__name__")) in WRITERS


def _has_working_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - importing pathlib would slow down `mlgen --help`
    except OSError:
        return False
    return True


class _TerminatedError(BaseException):
    """A signal that ends the process was received."""

    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, _frame: Any) -> None:
    raise _TerminatedError(number)


@contextmanager
def terminable() -> Iterator[None]:
    """On a signal, remove all temporary files, then end the process with this signal."""
    numbers = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, _end)
    except ValueError:  # not the main thread: mlgen is part of another program
        numbers = []
    try:
        yield
    except _TerminatedError as end:
        signal.signal(end.number, signal.SIG_DFL)
        os.kill(os.getpid(), end.number)
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interruptible() -> Iterator[None]:
    """Exit with status 130 and without a traceback on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        pass
    except click.Abort as abort:  # Ctrl-C at a prompt
        if not isinstance(abort.__context__, KeyboardInterrupt):
            raise
    else:
        return
    from mlgen.output.terminal import interrupted

    raise click.exceptions.Exit(interrupted())
