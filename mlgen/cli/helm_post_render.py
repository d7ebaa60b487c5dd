"""mlgen helm-post-render."""

import os
import shutil
import sys
from typing import Any

import click

from mlgen.cli._options import SUPERVISOR, rendering
from mlgen.cli._report import checked


class _ForHelm(click.Command):
    """A command whose failures are seen although Helm 4 drops its standard error."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        from mlgen.integrations.helm import tell

        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            tell(error.format_message(), os.environ)
            raise


@click.command("helm-post-render", cls=_ForHelm)
@rendering
@SUPERVISOR
def command(**given: Any) -> None:
    """Run as a Helm post-renderer: replace every job in a chart's manifests.

    Helm runs this command: helm install NAME CHART --post-renderer mlgen, after helm plugin
    install. Helm 3 has no such plugins; add --post-renderer-args helm-post-render. All other
    manifests pass through byte for byte.
    """
    from mlgen import Options
    from mlgen.integrations.helm import run

    lines, options = sys.stdin.buffer, Options(**given)
    stream, _ = checked(lambda: run(lines, options, os.environ), lambda result: result[1])
    shutil.copyfileobj(stream, sys.stdout.buffer)
