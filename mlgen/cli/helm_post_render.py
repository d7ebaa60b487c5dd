"""mlgen helm-post-render."""

import os
import shutil
import sys
from typing import Any

import click

from mlgen.cli._options import SUPERVISOR, rendering
from mlgen.cli._report import checked


class _ForHelm(click.Command):
    """A command that reports usage errors although Helm 4 discards its stderr."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        from mlgen.integrations.helm import report_failure

        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            report_failure(error.format_message(), os.environ)
            raise


@click.command("helm-post-render", cls=_ForHelm)
@rendering
@SUPERVISOR
def command(**values: Any) -> None:
    """Run as a Helm post-renderer.

    Replace every job in the manifests of a chart. All other manifests pass through byte for byte.

    \b
    With Helm 4, after helm plugin install:
      helm install NAME CHART --post-renderer mlgen
    With Helm 3:
      helm install NAME CHART --post-renderer mlgen --post-renderer-args helm-post-render
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen import Options
    from mlgen.integrations.helm import run

    lines, options = sys.stdin.buffer, Options(**values)
    stream, _ = checked(lambda: run(lines, options, os.environ), lambda result: result[1])
    shutil.copyfileobj(stream, sys.stdout.buffer)
