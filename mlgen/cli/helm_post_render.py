"""mlgen helm-post-render."""

import os
import shutil
import sys
from typing import Any

import click

from mlgen import Options
from mlgen.cli._options import ONLY_JOBS, SUPERVISOR, rendering, reporting
from mlgen.cli._report import checked, hint_at_stdin
from mlgen.documents.files import standard_input
from mlgen.integrations.helm import report_failure, run


class _ForHelm(click.Command):
    """A command that reports errors before it runs although Helm 4 discards its stderr."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            self.on_failure(error.format_message())
            raise

    def on_failure(self, message: str) -> None:
        """Report an error to the user of Helm."""
        report_failure(message, os.environ)


@click.command("helm-post-render", cls=_ForHelm)
@rendering
@SUPERVISOR
@ONLY_JOBS
@reporting
def command(**values: Any) -> None:
    """Run as a Helm post-renderer.

    Replace every job in the manifests of a chart. All other manifests pass through byte for byte.

    Helm 4 needs the plugin first: helm plugin install integrations/helm. Helm 3 needs one more
    option: --post-renderer-args helm-post-render.

    \b
    Examples:
      helm install NAME CHART --post-renderer mlgen
      helm template CHART | mlgen helm-post-render
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    hint_at_stdin()
    options = Options(**values)
    stream, _ = checked(
        lambda: run(standard_input(), options, os.environ), lambda result: result[1]
    )
    shutil.copyfileobj(stream, sys.stdout.buffer)
    sys.stdout.buffer.flush()
