"""The version of mlgen, and the build between releases that `mlgen --version` reports."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

VERSION = "0.2.0"
"""The release. Manifests contain it, so all builds of a release render the same bytes."""

TAG = f"refs/tags/v{VERSION}"

DIGITS = 9
"""The number of digits of a commit."""


def build() -> str:
    """Return the version, followed by the commit if it is not the commit of the release."""
    from mlgen.resources import PACKAGE, prepared

    built = prepared("commit")
    name = built.COMMIT if built else commit(PACKAGE.parent)
    return f"{VERSION}+g{name[:DIGITS]}" if name else VERSION


def commit(checkout: "Path") -> str:
    """Return the commit of a checkout; "" for the commit of the release, or if it is unknown.

    The files of Git are read without running it, because Git may run commands that a repository
    configures. https://git-scm.com/docs/gitrepository-layout: in a worktree, `.git` is a file that
    names the folder with its HEAD, and the file `commondir` there names the folder with the refs.
    """
    from zlib import error

    git = checkout / ".git"
    try:
        if git.is_file():
            git = checkout / git.read_text().removeprefix("gitdir:").strip()
        head, shared = (git / "HEAD").read_text().strip(), git / "commondir"
        shared = git / shared.read_text().strip() if shared.exists() else git
        name = _target(shared, head[5:]) if head.startswith("ref: ") else head
        return "" if name == _target(shared, TAG) else name
    except (OSError, ValueError, error):
        return ""


def _target(git: "Path", ref: str) -> str:
    """Return the commit of a branch or tag; "" if it does not exist.

    A signed tag is an object with the name of the commit, which `packed-refs` repeats after `^`.
    """
    from zlib import decompress

    if (git / ref).exists():
        name = (git / ref).read_text().strip()
        file = git / "objects" / name[:2] / name[2:]
        text = decompress(file.read_bytes()) if ref == TAG and file.exists() else b""
        return text.partition(b"\0object ")[2][: len(name)].decode() or name
    packed, target = git / "packed-refs", ""
    for line in packed.read_text().splitlines() if packed.exists() else ():
        if target:
            return line[1:] if line.startswith("^") else target
        name, _, own = line.partition(" ")
        target = name if own == ref else ""
    return target
