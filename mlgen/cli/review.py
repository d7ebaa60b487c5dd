"""The commands that check, describe and compare jobs: validate, show, graph, diff, verify."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlgen import Options
from mlgen.cli._options import (
    FILE,
    Command,
    as_jobset,
    chosen_kubectl,
    files,
    for_gitops,
    is_name,
    kube_version,
    kubectl,
    no_config,
    only_jobs,
    output,
    rendering,
    reporting,
    strict,
    supervisor,
)
from mlgen.cli._report import (
    findings,
    printed,
    read_documents,
    refuse_inputs,
    rendered,
    report,
    with_warnings,
    write,
    write_page,
)

if TYPE_CHECKING:
    from mlgen.graph import Format
    from mlgen.kubernetes.versions import KubeVersion


@click.command("validate", cls=Command)
@files
@click.option(
    "--skip-other-files",
    is_flag=True,
    help="Ignore FILES that contain no job, and templates of Helm charts.",
)
@rendering
@supervisor
@only_jobs
@strict
@as_jobset
@for_gitops
@reporting
def validate(files: tuple[str, ...], *, skip_other_files: bool, **values: Any) -> None:
    """Validate the jobs in FILES without printing manifests.

    Run the same checks as mlgen render. Print one line per valid job, and all problems of the
    others, on stdout. For details of a job, run mlgen show.

    \b
    Examples:
      mlgen validate job.yaml
      mlgen validate jobs/ --problems github          # in a pull request
      mlgen validate jobs/ --kube-version 1.31        # before a cluster upgrade
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if skip_other_files:
        files = tuple(file for file in files if not _is_other(file))
    result = printed(files, values, "verdict")
    findings(result.texts())
    report(result.walk.problems)
    if result.walk.has_errors:
        sys.exit(1)


def _is_other(file: str) -> bool:
    """Return whether a file contains no job. Folders and files that cannot be read may have one."""
    from mlgen import dialects
    from mlgen.documents.files import texts

    if file == "-" or Path(file).is_dir():
        return False
    return not any(text.problem or dialects.is_job_file(text) for text in texts((file,)))


@click.command("show", cls=Command)
@files
@click.option(
    "--replica",
    metavar="ROLE-INDEX",
    help="Show the pod of one replica, such as worker-3, with its address, ports, command,"
    " environment and volumes.",
)
@click.option(
    "--defaults",
    is_flag=True,
    help="Print the complete job file, with all defaults and their sources.",
)
@click.option(
    "--program",
    is_flag=True,
    help="Print the source of the supervisors in FILES, which are rendered manifests, and whether"
    " it is that of this mlgen.",
)
@rendering
@supervisor
@as_jobset
@for_gitops
@reporting
def show(
    files: tuple[str, ...], replica: str | None, *, defaults: bool, program: bool, **values: Any
) -> None:
    """Describe the jobs in FILES.

    For each job, print its roles and resources, its outcome, the effect of each exit code, and the
    cleanup after training. Also print the tasks of the supervisor, the prerequisites that are not
    in FILES, and the PodSecurity level of the pods.

    \b
    Examples:
      mlgen show job.yaml                      # the page of a job
      mlgen show job.yaml --replica worker-3   # the environment of one pod
      mlgen show job.yaml --defaults           # the job file with all defaults
      mlgen show manifests.yaml --program      # the source of the supervisor
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    if (replica is not None) + defaults + program > 1:
        raise click.UsageError("--replica, --defaults and --program are mutually exclusive")
    try:
        if program:
            from mlgen.show import sources

            text = sources(read_documents(files))
        else:
            from mlgen import show

            jobs = rendered(files, values, totals=False).jobs
            text = show.text(jobs, replica=replica, defaults=defaults)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    write_page(text)


@click.command("graph", cls=Command)
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "dot", "svg"]),
    help="Print a Mermaid flowchart, a Graphviz graph, or an SVG image, which requires the Graphviz"
    " program dot. Default: from the extension .mmd, .dot or .svg of --output, else mermaid.",
)
@output
@rendering
@supervisor
@as_jobset
@reporting
def graph(file: str, form: "Format | None", output: str, **values: Any) -> None:
    """Draw the roles of a job and how they depend on each other.

    A box is a role with its replicas. An arrow points to the role that it waits for. The picture
    also shows the deciding Job, the headless Service, the supervisor, and the
    PersistentVolumeClaims, Secrets and ConfigMaps that the roles use. FILE must contain one job. Of
    a matrix, the first combination is drawn.

    \b
    Examples:
      mlgen graph job.yaml                # Mermaid, for a Markdown page
      mlgen graph job.yaml -o job.svg     # requires Graphviz
      mlgen graph job.yaml --format dot | dot -Tpng > job.png
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.graph import SUFFIXES, GraphvizError, drawing

    refuse_inputs([output], [file])
    ending = Path(output).suffix.lower()
    if not form and ending and ending not in SUFFIXES:
        raise click.UsageError(
            f"unknown file type {ending}; use .mmd, .dot or .svg, or add --format"
        )
    chosen = form or SUFFIXES.get(ending, "mermaid")
    jobs = rendered((file,), values, totals=False).jobs
    first = jobs[0].combination if jobs else None
    if first and all(job.combination and job.combination.base is first.base for job in jobs):
        jobs = jobs[:1]
    if len(jobs) != 1:
        raise click.UsageError(f"expected one job in {file}, got {len(jobs)}")
    try:
        text = drawing(jobs[0], chosen)
    except GraphvizError as error:
        raise click.ClickException(f"--format {chosen}: {error}") from None
    write(output, text)


@click.command("diff", cls=Command)
@click.argument("sides", nargs=-1, required=True, metavar="OLD NEW", type=FILE)
@click.option(
    "--live",
    is_flag=True,
    help="Compare NEW with the objects in the cluster. Requires kubectl.",
)
@kubectl
@rendering
@supervisor
@only_jobs
@as_jobset
@for_gitops
@reporting
def diff(sides: tuple[str, ...], *, live: bool, **values: Any) -> None:
    """Preview the effect of applying NEW over OLD.

    Print the changed fields, the changes that the API server rejects, the pods that restart, and
    the commands to run. OLD and NEW are each a file, a folder, or - for stdin, with job files,
    custom resources or rendered manifests. The options apply to both. OLD can also be the name of a
    job in the cluster. With --live, omit OLD: it is what the cluster has of NEW.

    \b
    Exit status:
      0  no differences
      1  invalid input
      3  differences found

    \b
    Examples:
      mlgen diff old.yaml job.yaml
      mlgen diff --live job.yaml                      # against the cluster
      mlgen diff bert job.yaml                        # also objects that NEW does not have
      git show HEAD:job.yaml | mlgen diff - job.yaml
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen import diff

    if len(sides) != (1 if live else 2):
        raise click.UsageError("expected only NEW with --live" if live else "expected OLD and NEW")
    if sides.count("-") > 1:
        raise click.UsageError("only one of OLD and NEW can be -")
    options = Options(**values)
    old, new = sides[:-1], read_documents(sides[-1:])
    if live or is_name(old[0]):
        name = None if live else old[0]
        comparison = with_warnings(lambda: diff.cluster(chosen_kubectl(), name, new, options))
    else:
        comparison = with_warnings(lambda: diff.files(read_documents(old), new, options))
    if comparison.text:
        write_page(comparison.text)
        sys.exit(3)


@click.command("verify", cls=Command)
@files
@kube_version
@no_config
@only_jobs
@reporting
def verify(files: tuple[str, ...], kube_version: "KubeVersion", *, only_jobs: bool) -> None:
    """Check the rendered manifests in FILES after other tools have changed them.

    For each job, check that names, labels, addresses and permissions still match across its
    objects, for example after a kustomize overlay. Report a supervisor whose program is not exactly
    the one of this mlgen.

    \b
    Examples:
      kubectl kustomize overlay | mlgen render - | mlgen verify -
      helm template chart | mlgen render - | mlgen verify -
      mlgen verify k8s/
    """  # noqa: D301 - click expects the character U+0008, not an escaped backslash
    from mlgen.checks.verify import verify

    texts = read_documents(files)
    verified = with_warnings(lambda: verify(texts, kube_version, only_jobs=only_jobs))
    findings(verified.jobs)
