"""A Git repository on disk, with a job that a test can end."""

import os
import subprocess
from pathlib import Path

import yaml

JOB = (Path(__file__).parent / "wide-deep.mlgen.yaml").read_text()
ROLES = yaml.safe_load(JOB)["spec"]["roles"]
SETTINGS = {
    "GIT_AUTHOR_NAME": "user",
    "GIT_AUTHOR_EMAIL": "user@example.com",
    "GIT_COMMITTER_NAME": "user",
    "GIT_COMMITTER_EMAIL": "user@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def job(name, metadata=(), **fields):
    """Return the text of the job file with another name, and other fields of its spec."""
    document = yaml.safe_load(JOB)
    document["metadata"] = {"name": name, **dict(metadata)}
    document["spec"].update(fields)
    return yaml.safe_dump(document)


class Repository:
    """A repository with the branch `main`.

    Attributes:
        folder: the folder of the files.
        url: the URL of the repository.
        head: the hash of its last commit.
    """

    def __init__(self, folder):
        self.folder, self.url, self.head = folder, f"file://{folder}", ""
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words):
        """Run git, which must succeed, and return its stdout as bytes."""
        options = {"cwd": self.folder, "env": os.environ | SETTINGS, "capture_output": True}
        done = subprocess.run(["git", *words], check=True, **options).stdout
        found = subprocess.run(["git", "rev-parse", "HEAD"], check=False, text=True, **options)
        self.head = found.stdout.strip()
        return done

    def commit(self, name, text):
        """Write a file, or remove it if the text is None, and commit it."""
        path = self.folder / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"Change {name}")

    def revert(self):
        """Revert the last commit."""
        self.git("revert", "--no-edit", "HEAD")

    def archive(self):
        """Return all files of the last commit as a tar.gz."""
        return self.git("archive", "--format=tar.gz", "HEAD")


class Rendered(Repository):
    """A repository with job files, and with the manifests that CI renders for a tool."""

    def __init__(self, folder, namespace, tool):
        super().__init__(folder)
        self.namespace, self.tool = namespace, tool
        (folder / "jobs").mkdir()

    def commit(self, name, text):
        """Write a job file, or remove it if the text is None, render all, and commit."""
        path = self.folder / "jobs" / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        words = ["--for", self.tool, "-o", f"{self.folder}/manifests/"]
        self.namespace.mlgen("render", f"{self.folder}/jobs", *words)
        super().commit("committed", name)

    def settings(self):
        """Return the settings of the tool that the summary of the job requires."""
        for file in (self.folder / "manifests").glob("job_*.yaml"):
            lines = [line.removeprefix("# ") for line in file.read_text().splitlines()]
            start = [n for n, line in enumerate(lines) if "add to the" in line]
            if start:
                rest = lines[start[0] + 1 :]
                end = next(n for n, line in enumerate(rest) if not line.startswith("    "))
                return yaml.safe_load("\n".join(rest[:end]))
        return {}
