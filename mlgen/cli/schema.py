"""mlgen schema."""

from typing import TYPE_CHECKING

import click

from mlgen.cli._options import KUBE_VERSION

if TYPE_CHECKING:
    from mlgen.kubernetes.versions import KubeVersion


@click.command("schema")
@KUBE_VERSION
def command(kube_version: "KubeVersion") -> None:
    """Print the JSON Schema of the job file.

    Editors and other tools use it to check and complete job files, including their pod templates.
    """
    import json

    from mlgen.frameworks import names, published_schema

    click.echo(json.dumps(published_schema(names(), kube_version), indent=2))
