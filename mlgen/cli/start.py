"""The commands init, explain, frameworks and schema, and completion and man for shells."""

import json
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from mlgen import __version__
from mlgen.cli import COMMANDS, GROUPS, main
from mlgen.cli._command import command
from mlgen.cli._report import checked, is_quiet, write
from mlgen.frameworks import get, names
from mlgen.problems import choice, did_you_mean

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion

QUESTIONS: tuple[tuple[str, str, Any, int | None], ...] = (
    ("image", "Image with your program", str, None),
    ("replicas", "Replicas that compute", click.IntRange(min=1), 2),
    ("gpus", "GPUs per replica", click.IntRange(min=0), 0),
)
"""Options that `mlgen init` prompts for at a terminal: name, prompt, type and default."""


@command("init")
def init(output: str, *, force: bool, schema: bool, **values: Any) -> None:
    """Write a commented job file as a starting point.

    Run mlgen frameworks for the names of FRAMEWORK. At a terminal, mlgen prompts for missing
    values.

    \b
    Examples:
      mlgen init
      mlgen init pytorch --image example/bert:2 --replicas 2 --gpus 8
      mlgen init tensorflow --image example/mnist:1 -o mnist.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.kubernetes.versions import DEFAULT
    from mlgen.output.next_steps import file_argument
    from mlgen.scaffold import FIRST, SCHEMA, Choices, editor_schema, job_file, job_name

    if output != "-" and Path(output).exists() and not force:
        raise click.UsageError(
            f"{output} already exists; choose another file with --output, or add --force"
        )
    answers = _answers(values)
    has_schema = schema and output != "-"
    defaults: dict[str, Any] = {"replicas": 1, "gpus": 0, "name": job_name(answers["image"])}
    choices = Choices(**defaults | answers, schema=has_schema)
    text = checked(lambda: job_file(choices, "job.yaml" if output == "-" else output))
    write(output, text)
    if output == "-":
        return
    written = output
    if has_schema:
        path = Path(output).parent / SCHEMA
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            message = f"{path.parent}: {error.strerror}; use --no-schema"
            raise click.ClickException(message) from None
        write(str(path), editor_schema(DEFAULT))
        written += f" and {path}"
    if not is_quiet():
        file = quote(file_argument(output))
        steps = [line.removeprefix(FIRST) for line in text.splitlines() if line.startswith(FIRST)]
        steps += [f"mlgen validate {file}", f"mlgen render {file} | kubectl apply -f -"]
        click.echo("\n  ".join([f"wrote {written}; next:", *steps]), err=True)


def _answers(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the options. At a terminal, prompt for missing ones.

    Raises:
        UsageError: a value is missing and there is no terminal, or the framework is unknown.
    """
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    framework = values["framework"]
    if framework is None and asks:
        framework = click.prompt("Framework", type=click.Choice(names()), err=True)
    if framework is None:
        raise click.UsageError(f"FRAMEWORK is missing; {choice('', names())}")
    if framework not in names():
        raise click.UsageError(f'unknown framework "{framework}"; {choice(framework, names())}')
    if values["image"] is None and not asks:
        raise click.UsageError("--image is missing; for example, --image example/train:1")
    for name, question, kind, offered in QUESTIONS:
        if values[name] is None and asks:
            values[name] = click.prompt(question, type=kind, default=offered, err=True)
    answers = {name: value for name, value in values.items() if value is not None}
    return answers | {"framework": framework}


@command("explain")
def explain(topic: str | None, *, recursive: bool) -> None:
    """Explain a field, a framework, a problem code or a rule.

    Without TOPIC, list the fields of a job file. TOPIC can be the path of a field, a path below
    spec, or the last part of a path, such as restartPolicy.

    \b
    Examples:
      mlgen explain spec.roles.worker.restartPolicy    # type, default, values, meaning, example
      mlgen explain spec.runPolicy --recursive         # all fields below it
      mlgen explain pytorch                            # roles, variables, ports, options
      mlgen explain no-such-peer                       # a problem code, and its rules
      mlgen explain same-rank                          # a rule: why, and examples
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.reference import pages

    try:
        click.echo(pages.page(topic or "", recursive=recursive), nl=False)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from None


@command("frameworks")
def frameworks() -> None:
    """List the frameworks and their roles.

    \b
    Examples:
      mlgen frameworks
      mlgen explain pytorch           # details of a framework
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    width = max(len(name) for name in names())
    for name in names():
        framework = get(name)
        click.echo(f"{name:{width}}  {framework.summary}")
        click.echo(f"{'':{width}}  roles: {', '.join(framework.roles or ('any',))}")


@command("schema")
def schema(kind: str | None, kube_version: "KubeVersion", *, config: bool) -> None:
    """Print the JSON Schema of the job file, or of a custom resource KIND.

    Editors and other tools use it to check and complete job files, including pod templates. KIND
    can include an apiVersion. By default, it is the newest one.

    \b
    Examples:
      mlgen schema > job.schema.json
      mlgen schema --kube-version 1.31 > job.schema.json
      mlgen schema pytorchjob                    # a custom resource
      mlgen schema kubeflow.org/v1/MPIJob        # a specific version
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen import dialects, scaffold, site

    if config and kind:
        raise click.UsageError("KIND and --config are mutually exclusive")
    if config:
        click.echo(json.dumps(site.schema(), indent=2))
    elif kind and kind.lower() != "trainingjob":
        try:
            click.echo(json.dumps(dialects.editor_schema(kind, kube_version), indent=2))
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    else:
        click.echo(scaffold.editor_schema(kube_version), nl=False)


@command("completion")
def completion(shell: str) -> None:
    """Print a script for command completion in a shell.

    It completes commands, options, files, frameworks, roles, problem codes, rules and field paths.

    \b
    Examples:
      eval "$(mlgen completion bash)"        # add this line to ~/.bashrc
      eval "$(mlgen completion zsh)"         # add this line to ~/.zshrc, after compinit
      mlgen completion fish > ~/.config/fish/completions/mlgen.fish
      mlgen completion powershell >> $PROFILE
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    if shell_class is None:  # PowerShell came with click 8.5
        raise click.ClickException(
            f"completion for {shell} needs click 8.5 or later: pip install -U click"
        )
    click.echo(shell_class(main, {}, "mlgen", "_MLGEN_COMPLETE").source())


@command("man")
def man(name: str | None) -> None:
    """Print the manual page.

    It describes all commands, or only COMMAND, in roff format.

    \b
    Examples:
      mlgen man | man -l -                                # read it
      mlgen man render > ~/.local/share/man/man1/mlgen-render.1
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.reference import man

    root = click.Context(main, info_name="mlgen", **main.context_settings)
    if name is None:
        text = man.page(man.manual(main, root), __version__, GROUPS)
    else:
        inner = main.get_command(root, name)
        if inner is None:
            hint = did_you_mean(name, COMMANDS) or "mlgen --help lists all"
            raise click.UsageError(f'unknown command "{name}"; {hint}')
        child = click.Context(inner, parent=root, info_name=name)
        text = man.page(man.manual(inner, child), __version__)
    click.echo(text.encode(), nl=False)
