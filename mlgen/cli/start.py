"""The commands init, explain, frameworks and schema, and completion for shells."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from mlgen.cli import main
from mlgen.cli._options import FILE, Command, completed, kube_version, no_config, parsed, reporting
from mlgen.cli._report import checked, is_quiet, write
from mlgen.frameworks import get, names
from mlgen.kubernetes import names as kubernetes_names
from mlgen.problems import choice

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion

QUESTIONS: tuple[tuple[str, str, Any, int | None], ...] = (
    ("image", "Image with your program", str, None),
    ("replicas", "Replicas that compute", click.IntRange(min=1), 2),
    ("gpus", "GPUs per replica", click.IntRange(min=0), 0),
)
"""Options that `mlgen init` prompts for at a terminal: name, prompt, type and default."""


def _framework_names(_incomplete: str, _files: tuple[str, ...]) -> Iterable[str]:
    """Return completions for FRAMEWORK."""
    return names()


def _topics(incomplete: str, _files: tuple[str, ...]) -> Iterable[str]:
    """Return completions for TOPIC."""
    from mlgen.reference import pages

    return pages.topics(incomplete)


def _kinds(_incomplete: str, _files: tuple[str, ...]) -> Iterable[str]:
    """Return completions for KIND."""
    from mlgen import dialects

    return sorted({kind for _, kind in dialects.kinds()})


@click.command("init", cls=Command)
@click.argument("framework", required=False, shell_complete=completed(_framework_names))
@click.option("--image", metavar="IMAGE", help="Set the image that contains your program.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    help="Set the number of replicas that compute. Default without a terminal: 1.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    metavar="N",
    help="Set the number of GPUs per replica. Default without a terminal: 0.",
)
@click.option("--name", help="Set the name of the job. Default: derived from the image name.")
@click.option(
    "-n",
    "--namespace",
    callback=parsed(kubernetes_names.namespace),
    help="Set the namespace of the job.",
)
@click.option(
    "--gpu-resource",
    default="nvidia.com/gpu",
    show_default=True,
    metavar="NAME",
    help="Set the resource name of the GPUs.",
)
@click.option(
    "-o",
    "--output",
    default="job.yaml",
    show_default=True,
    metavar="FILE",
    type=FILE,
    help="Write to FILE. Use - for stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--schema/--no-schema",
    default=True,
    show_default=True,
    help="Write the JSON Schema to .mlgen/job.schema.json next to FILE, for completion in editors.",
)
@reporting
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
    from mlgen.output.manifests import file_argument
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


@click.command("explain", cls=Command)
@click.argument("topic", required=False, shell_complete=completed(_topics))
@click.option("--recursive", is_flag=True, help="Print all fields below the field, as a tree.")
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


@click.command("frameworks", cls=Command)
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


@click.command("schema", cls=Command)
@click.argument("kind", required=False, shell_complete=completed(_kinds))
@click.option("--config", is_flag=True, help="Print the schema of mlgen.toml.")
@kube_version
@no_config
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


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion(shell: str) -> None:
    """Print a script for command completion in a shell.

    It completes commands, options, files, frameworks, roles, problem codes, rules and field paths.

    \b
    Examples:
      eval "$(mlgen completion bash)"        # add this line to ~/.bashrc
      eval "$(mlgen completion zsh)"         # add this line to ~/.zshrc, after compinit
      mlgen completion fish > ~/.config/fish/completions/mlgen.fish
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from click.shell_completion import shell_complete

    shell_complete(main, {}, "mlgen", "_MLGEN_COMPLETE", f"{shell}_source")
