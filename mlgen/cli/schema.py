"""mlgen schema."""

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of the job file.

    Editors and other tools use it to check and complete job files.
    """
    import json

    from mlgen.frameworks import names, schema

    click.echo(json.dumps(schema(names()), indent=2))
