"""The version of mlgen, and the build between releases that `mlgen --version` reports."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

VERSION = "0.2.0"
"""The release. Manifests contain it, so all builds of a release render the same bytes."""

ANNOTATION = "mlgen.dev/version"
"""The annotation with the version of mlgen, of one object for each job."""


def build() -> str:
    """Return the version, followed by the commit if it is not the commit of the release."""
    from mlgen.resources import PACKAGE, prepared

    built = prepared("commit")
    name = built.COMMIT if built else commit(PACKAGE.parent)
    return f"{VERSION}+{name}" if name else VERSION


def commit(checkout: "Path") -> str:
    """Return the commits since the release and the last commit, such as `5.gb3228381`.

    Return "" for the release, and for a folder that is not the top of a repository, such as
    site-packages.
    """
    import subprocess

    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--tags", "--long"]
    if not (checkout / ".git").exists():
        return ""
    try:
        run = subprocess.run(  # noqa: S603 - git from the user's PATH
            [*command, f"--match=v{VERSION}"], capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    name = run.stdout.strip().removeprefix(f"v{VERSION}-").replace("-", ".")
    return "" if name.startswith("0.") and not name.endswith(".dirty") else name
