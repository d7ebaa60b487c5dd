"""mlgen schema."""

from typing import TYPE_CHECKING

import click

from mlgen.cli._options import versioned

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion


@click.command("schema")
@versioned
@click.option("--config", is_flag=True, help="Print that of mlgen.toml instead.")
def command(kube_version: "KubeVersion", *, config: bool) -> None:
    """Print the JSON Schema of the job file.

    Editors and other tools use it to check and complete job files, including their pod templates.

    \b
    Examples:
      mlgen schema > job.schema.json
      mlgen schema --kube-version 1.31 > job.schema.json
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if config:
        import json

        from mlgen import site

        click.echo(json.dumps(site.schema(), indent=2))
    else:
        from mlgen.scaffold import editor_schema

        click.echo(editor_schema(kube_version), nl=False)
