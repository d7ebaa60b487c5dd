"""mlgen schema."""

import json
from typing import TYPE_CHECKING

import click

from mlgen.cli import _complete
from mlgen.cli._options import versioned

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion


@click.command("schema")
@click.argument("kind", required=False, shell_complete=_complete.kinds)
@versioned
@click.option("--config", is_flag=True, help="Print that of mlgen.toml instead.")
def command(kind: str | None, kube_version: "KubeVersion", *, config: bool) -> None:
    """Print the JSON Schema of the job file, or of an operator's KIND.

    Editors and other tools use it to check and complete job files, including their pod templates.
    A kind may have its apiVersion before it. Without one, the newest version is meant.

    \b
    Examples:
      mlgen schema > job.schema.json
      mlgen schema --kube-version 1.31 > job.schema.json
      mlgen schema pytorchjob                    # of the custom resource
      mlgen schema kubeflow.org/v1/MPIJob        # of another version than the newest
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if config and kind:
        raise click.UsageError("KIND and --config are mutually exclusive")
    if config:
        from mlgen import site

        click.echo(json.dumps(site.schema(), indent=2))
    elif kind and kind.lower() != "trainingjob":
        from mlgen import dialects

        try:
            click.echo(json.dumps(dialects.editor_schema(kind, kube_version), indent=2))
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    else:
        from mlgen.scaffold import editor_schema

        click.echo(editor_schema(kube_version), nl=False)
