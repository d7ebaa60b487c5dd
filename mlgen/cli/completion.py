"""mlgen completion."""

import click

SHELLS = ("bash", "fish", "powershell", "zsh")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that completes commands in a shell.

    It completes commands, options, files, frameworks, roles, problem codes and the paths of fields.

    \b
    Examples:
      eval "$(mlgen completion bash)"        # add this line to ~/.bashrc
      eval "$(mlgen completion zsh)"         # add this line to ~/.zshrc, after compinit
      mlgen completion fish > ~/.config/fish/completions/mlgen.fish
      mlgen completion powershell >> $PROFILE
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from click.shell_completion import get_completion_class

    from mlgen.cli import main

    shell_class = get_completion_class(shell)
    if shell_class is None:  # PowerShell came with click 8.5
        raise click.ClickException(
            f"completion for {shell} needs click 8.5 or later: pip install -U click"
        )
    click.echo(shell_class(main, {}, "mlgen", "_MLGEN_COMPLETE").source())
