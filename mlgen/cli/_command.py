"""The class of commands, with the defaults of `mlgen.toml` and the sections of their help."""

import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from click.core import ParameterSource

from mlgen.cli._options import SharedOption
from mlgen.cli._report import note, report
from mlgen.problems import MlgenError
from mlgen.site import Site, find

SITE = ("kube_version", "supervisor", "only_jobs", "strict")
"""Options with a default that `mlgen.toml` can set."""

FEW = 3
"""A longer section of shared options is described only by `mlgen render --help`."""


class Command(click.Command):
    """A command with the defaults of `mlgen.toml`, unless --no-config is set."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        if ctx.params.get("jobset") and ctx.params.get("target"):
            raise click.UsageError("--as jobset and --for are mutually exclusive")
        if ctx.meta.get("mlgen.no_config") is False:
            self._fill(ctx)
        return super().invoke(ctx)

    def _fill(self, ctx: click.Context) -> None:
        """Set options that the command line omits to the defaults of `mlgen.toml`."""
        try:
            site = find(Path.cwd())
        except MlgenError as error:
            self.on_failure(str(error))
            report(error.problems)
            sys.exit(1)
        ctx.meta["mlgen.site"] = site
        if "settings" in ctx.params:  # the command renders jobs
            ctx.params["site"] = site
        if site is None:
            return
        note(f"using the defaults in {site.file}")
        for name in SITE:
            default = getattr(site, name)
            if name in ctx.params and default is not None and not is_written(ctx, name):
                ctx.params[name] = default

    def on_failure(self, message: str) -> None:
        """Report an error to a calling program that does not read stderr. Default: do nothing."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then each section of shared options."""
        sections: dict[str, list[click.Option]] = {"Options": []}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option):
                title = option.section if isinstance(option, SharedOption) else "Options"
                sections.setdefault(title, []).append(option)
        for title, options in sections.items():
            if title == "Options" or self.name == "render" or len(options) <= FEW:
                records = [option.get_help_record(ctx) for option in options]
                with formatter.section(title):
                    formatter.write_dl([record for record in records if record])
            else:
                with formatter.section(f"{title}, described by mlgen render --help"):
                    names = ", ".join(max(option.opts, key=len) for option in options)
                    for line in wrap(names, formatter.width - 2, break_on_hyphens=False):
                        formatter.write(f"  {line}\n")


def site() -> Site | None:
    """Return the site's defaults for a command that does not render jobs."""
    found: Site | None = click.get_current_context().meta.get("mlgen.site")
    return found


def is_written(context: click.Context, name: str) -> bool:
    """Return whether the command line sets an option."""
    return context.get_parameter_source(name) == ParameterSource.COMMANDLINE


def written_options() -> list[str]:
    """Return the options that affect jobs as written, to suggest another command with them."""
    context = click.get_current_context()
    words = []
    for option, name in (("--set", "settings"), ("--matrix", "matrix"), ("--runtime", "runtimes")):
        words += [
            word for value in context.meta.get(f"mlgen.{name}", ()) for word in (option, value)
        ]
    for option, name in (("--namespace", "namespace"), ("--kube-version", "kube_version")):
        if is_written(context, name):
            words += [option, str(context.params[name])]
    if context.params.get("jobset"):
        words += ["--as", "jobset"]
    return [*words, *(["--no-config"] if context.meta["mlgen.no_config"] else [])]
