"""The command line, `mlgen COMMAND`. Each command is a file, imported when it is called."""

from importlib import import_module

import click

from mlgen import __version__

COMMANDS = {
    "argo": "Render the jobs in FILES for Argo Workflows.",
    "argocd": "Run as an Argo CD config management plugin.",
    "convert": "Print the equivalent job files of the custom resources in FILES.",
    "diff": "Preview the effect of applying NEW over OLD.",
    "frameworks": "List the frameworks and their roles.",
    "helm-post-render": "Run as a Helm post-renderer.",
    "krm": "Run as a KRM function of kustomize or kpt.",
    "render": "Print the manifests of the jobs in FILES.",
    "schema": "Print the JSON Schema of the job file.",
    "ssh-secret": "Print a Secret with a new pair of ssh keys.",
    "validate": "Check the jobs in FILES as render does.",
    "verify": "Check the rendered manifests in FILES after other tools have changed them.",
}
"""Each command with the first sentence of its help.

`mlgen --help` prints them from here, because importing all commands would be slow.
"""


class _Commands(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="mlgen")
def main() -> None:
    """Render distributed training jobs to plain Kubernetes manifests.

    \b
    mlgen render job.yaml | kubectl apply -f -

    Exit status: 0 success; 1 the input is wrong; 2 the command line is wrong; 3 there are
    differences.
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
