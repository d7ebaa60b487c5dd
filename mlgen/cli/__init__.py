"""The command line, `mlgen COMMAND`. A command imports only the file of its group."""

from importlib import import_module
from typing import Any

import click

from mlgen.cli._process import interruptible, output_checked, terminable

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
        "status": "Show the state of the jobs in FILES.",
        "logs": "Print the logs of a replica.",
        "wait": "Wait until the jobs in FILES have ended.",
        "delete": "Delete the objects of the jobs in FILES.",
        "ssh-secret": "Print a Secret with a new ssh key pair.",
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

FILES = dict(zip(GROUPS, ("start", "render", "review", "cluster", "tools", "start"), strict=True))
"""The file of each group."""

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}


class _Commands(click.Group):
    """A group of commands that imports a command only when it runs."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with terminable(), output_checked():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with interruptible():
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
        for title, commands in GROUPS.items():
            if cmd_name in commands:
                module = import_module(f"{__name__}.{FILES[title]}")
                command: click.Command = getattr(module, cmd_name.replace("-", "_"))
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from mlgen.problems import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or "mlgen --help lists all commands"
            ctx.fail(f'unknown command "{args[0]}"; {hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", text) for name, text in commands.items()])


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
