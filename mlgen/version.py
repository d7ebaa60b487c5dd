"""The version of mlgen, and the build between releases that `mlgen --version` reports."""

VERSION = "0.2.0"
"""The release. Manifests contain it, so all builds of a release render the same bytes."""

DIGITS = 9
"""The number of digits of a commit."""


def build() -> str:
    """Return the version, and the commit of a checkout or of an installation from Git.

    The files of Git are read without running it, because Git may run commands that a repository
    configures. Return the version alone if the commit is unknown.
    """
    try:
        commit = _checked_out() or _installed()
    except (OSError, ValueError, AttributeError):
        commit = ""
    return f"{VERSION}+g{commit[:DIGITS]}" if commit else VERSION


def _checked_out() -> str:
    """Return the commit of the checkout that contains this package; "" if there is none.

    https://git-scm.com/docs/gitrepository-layout. In a worktree, `.git` is a file that names the
    folder with its HEAD, and the file `commondir` there names the folder with the branches.
    """
    from pathlib import Path

    git = Path(__file__).parents[1] / ".git"
    if not git.exists():
        return ""
    if git.is_file():
        git = git.parent / git.read_text().removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    name, shared = head.removeprefix("ref: "), git
    if (git / "commondir").exists():
        shared = git / (git / "commondir").read_text().strip()
    if (shared / name).exists():
        return (shared / name).read_text().strip()
    rows = (line.partition(" ") for line in (shared / "packed-refs").read_text().splitlines())
    return next((commit for commit, _, own in rows if own == name), "")


def _installed() -> str:
    """Return the commit from which pip has installed this package; "" if it is unknown.

    https://packaging.python.org/en/latest/specifications/direct-url/. The tag of the release is not
    a build between releases.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    try:
        package = distribution("mlgen-k8s")
    except PackageNotFoundError:
        return ""
    if Path(str(package.locate_file("mlgen"))) != Path(__file__).parent:
        return ""
    source = json.loads(package.read_text("direct_url.json") or "{}").get("vcs_info", {})
    is_release = source.get("requested_revision") == f"v{VERSION}"
    return "" if is_release else str(source.get("commit_id", ""))
