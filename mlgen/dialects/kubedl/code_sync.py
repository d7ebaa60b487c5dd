"""The annotation `kubedl.io/git-sync-config`: a Git repository to clone into the containers.

Source: kubedl-io/kubedl at b93a2b4, pkg/code_sync.
"""

import posixpath

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubedl.annotations import read_json
from mlgen.problems import ValuePath, dotted

GIT_SYNC = "kubedl.io/git-sync-config"

EXAMPLE = '{"source": "https://git.example/mnist.git", "branch": "main"}'

FIELDS = {
    "source": str,
    "image": str,
    "rootPath": str,
    "destPath": str,
    "envs": list,
    "branch": str,
    "revision": str,
    "depth": str,
    "maxFailures": int,
    "ssh": bool,
    "sshFile": str,
    "user": str,
    "password": str,
}

CREDENTIALS = ("ssh", "sshFile", "user", "password")


def write_code_sync(builder: Builder) -> None:
    """Write the repository as a volume, mounted below the working directory of each role."""
    config = read_json(builder, GIT_SYNC, FIELDS, EXAMPLE)
    if not config:
        return
    repository = config.get("source").value
    if not repository:
        builder.refuse(config, 'field "source" is missing', f"for example {EXAMPLE}")
        return
    git = {"repository": repository}
    revision = config.get("revision").value or config.get("branch").value
    if revision:
        git["revision"] = revision
    paths = _mount_paths(builder, config)
    same = len(set(paths.values())) == 1
    owners: list[ValuePath] = [("spec",)] if same else [("spec", "roles", role) for role in paths]
    volumes = [(*owner, "volumes", "git-sync") for owner in owners]
    for volume, path in zip(volumes, paths.values(), strict=False):
        builder.put(volume, config, {"mountPath": path, "git": git})
    _report_credentials(builder, config, volumes)
    for name in ("image", "envs"):
        if config.get(name).value:
            message = f"{name} applies to KubeDL's own container; here another image runs git"
            hint = "to choose the image, pass --set spec.helpers.gitImage=IMAGE"
            builder.differs(config.get(name), message, hint)


def _mount_paths(builder: Builder, config: SourceValue) -> dict[str, str]:
    """Return the absolute path of the repository in the containers of each role.

    KubeDL joins the working directory and the folder, and takes a relative path to start at `/`.
    """
    name = config.get("source").value.strip("/").rpartition("/")[2].removesuffix(".git")
    folder = config.get("destPath").value or name
    joined = {
        role: posixpath.normpath(f"/{fields.get('workingDir', '')}/{folder}")
        for role, fields in builder.roles.items()
    }
    return {role: f"/{path.lstrip('/')}" for role, path in joined.items()}


def _report_credentials(builder: Builder, config: SourceValue, volumes: list[ValuePath]) -> None:
    """Report credentials in the annotation, which everyone who can read the job can read."""
    if not any(config.get(name).value for name in CREDENTIALS):
        return
    settings = " ".join(f"--set {dotted(volume)}.git.secret=NAME" for volume in volumes)
    builder.differs(
        config,
        "credentials in an annotation are not secret, and mlgen does not use them",
        "create a Secret with ssh-privatekey and known_hosts, or with username and password, and"
        f" pass {settings}",
    )
