"""mlgen init."""

import sys
from pathlib import Path
from shlex import quote
from typing import Any

import click

from mlgen.cli import _complete
from mlgen.cli._options import read_namespace, reporting
from mlgen.cli._report import checked, is_quiet, write
from mlgen.frameworks import names
from mlgen.kubernetes.versions import DEFAULT
from mlgen.output.next_steps import file_argument
from mlgen.problems import choice
from mlgen.scaffold import SCHEMA, Choices, editor_schema, job_file, job_name

QUESTIONS: tuple[tuple[str, str, Any, int | None], ...] = (
    ("image", "Image with your program", str, None),
    ("replicas", "Replicas that compute", click.IntRange(min=1), 2),
    ("gpus", "GPUs in each of them", click.IntRange(min=0), 0),
)
"""The options that are asked for on a terminal: name, question, type, and the answer offered."""


@click.command("init")
@click.argument("framework", required=False, shell_complete=_complete.frameworks)
@click.option("--image", metavar="IMAGE", help="Set the image, which has your program.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    help="Set the number of replicas that compute. Without a terminal, it is 1 by default.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    metavar="N",
    help="Set the number of GPUs in each of them. Without a terminal, it is 0 by default.",
)
@click.option("--name", help="Set the name of the job. By default, it is that of the image.")
@click.option("-n", "--namespace", callback=read_namespace, help="Set the namespace of the job.")
@click.option(
    "--gpu-resource",
    default="nvidia.com/gpu",
    show_default=True,
    metavar="NAME",
    help="Set the name of the resource that GPUs are.",
)
@click.option(
    "-o",
    "--output",
    default="job.yaml",
    show_default=True,
    metavar="FILE",
    shell_complete=_complete.files,
    help="Write to FILE; - is standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--schema/--no-schema",
    default=True,
    show_default=True,
    help="Write the JSON Schema to .mlgen/job.schema.json beside FILE, for completion in editors.",
)
@reporting
def command(output: str, *, force: bool, schema: bool, **values: Any) -> None:
    """Write a commented job file to start from.

    FRAMEWORK is a name in mlgen frameworks. On a terminal, init asks for what is missing.

    \b
    Examples:
      mlgen init
      mlgen init pytorch --image example/bert:2 --replicas 2 --gpus 8
      mlgen init tensorflow --image example/mnist:1 -o mnist.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if output != "-" and Path(output).exists() and not force:
        raise click.UsageError(f"{output} exists; choose another with --output, or add --force")
    choices = _choices(schema and output != "-", values)
    text = checked(lambda: job_file(choices, "job.yaml" if output == "-" else output))
    write(output, text)
    if output == "-":
        return
    written = [output]
    if choices.schema:
        written.append(_write_schema(Path(output).parent / SCHEMA))
    if not is_quiet():
        file = quote(file_argument(output))
        click.echo(f"wrote {' and '.join(written)}; next:\n  mlgen validate {file}", err=True)
        click.echo(f"  mlgen render {file} | kubectl apply -f -", err=True)


def _choices(schema: bool, values: dict[str, Any]) -> "Choices":  # noqa: FBT001
    """Return what the file depends on, and ask on a terminal for what is missing.

    Raises:
        UsageError: something is missing, and there is no terminal; or a framework is unknown.
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
    choices: dict[str, Any] = {"replicas": 1, "gpus": 0, "name": job_name(values["image"])}
    choices |= {name: value for name, value in values.items() if value is not None}
    return Choices(**choices | {"framework": framework, "schema": schema})


def _write_schema(path: Path) -> str:
    """Write the schema for editors, and return the name of the file."""
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{path.parent}: {error.strerror}; use --no-schema") from None
    write(str(path), editor_schema(DEFAULT))
    return str(path)
