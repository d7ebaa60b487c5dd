"""Jobs that Helm, kustomize and Argo CD render with mlgen train in a cluster."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ONE_OF_MANY, ROOT

pytestmark = pytest.mark.cluster

PYTORCH = (Path(__file__).parent / "jobs/pytorch.yaml").read_text()


class Workspace:
    """A scratch folder in which the tools run, with mlgen on the PATH."""

    def __init__(self, folder, environment, namespace, tool):
        path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        self.folder, self.namespace, self.tool = folder, namespace, tool
        self.environment = environment | {"PATH": path}

    def write(self, file, text):
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *words, folder=".", **more):
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder / folder,
            env=self.environment | more,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def job(name):
    """Return a job that waits for every rank, so that no rank is stopped before it prints."""
    policy = "\n  successPolicy: {replicas: All}\n  roles:\n"
    return PYTORCH.replace("name: bert", f"name: {name}").replace("\n  roles:\n", policy)


def chart(workspace, name):
    workspace.write(f"{name}/Chart.yaml", f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    workspace.write(f"{name}/templates/job.yaml", job(name))
    return ["template", "release", name, "-n", workspace.namespace, "--post-renderer", "mlgen"]


def helm_3(workspace):
    words = chart(workspace, "by-helm-3")
    return workspace.run(
        workspace.tool("helm3"), *words, "--post-renderer-args", "helm-post-render"
    )


def helm_4(workspace):
    helm, home = workspace.tool("helm4"), {}
    for kind in ("DATA", "CONFIG", "CACHE"):
        home[f"HELM_{kind}_HOME"] = str(workspace.folder / kind)
    workspace.run(helm, "plugin", "install", str(ROOT / "integrations/helm"), **home)
    return workspace.run(helm, *chart(workspace, "by-helm-4"), **home)


def kustomize(workspace):
    transformer = ROOT / "integrations/kustomize/transformer.yaml"
    overlay = {
        "resources": ["../base"],
        "namePrefix": "by-",
        "nameSuffix": "-prod",
        "namespace": workspace.namespace,
        "transformers": ["transformer.yaml"],
    }
    workspace.write("base/job.yaml", job("kustomize"))
    workspace.write("base/kustomization.yaml", "resources: [job.yaml]\n")
    workspace.write("overlay/transformer.yaml", transformer.read_text())
    workspace.write("overlay/kustomization.yaml", yaml.safe_dump(overlay))
    plugins = ["--enable-alpha-plugins", "--enable-exec"]
    return workspace.run(workspace.tool("kustomize"), "build", "overlay", *plugins)


def argo_cd(workspace):
    workspace.write("app/bert.mlgen.yaml", job("by-argo-cd"))
    variables = {"ARGOCD_APP_NAMESPACE": workspace.namespace, "KUBE_VERSION": "1.34.4"}
    return workspace.run("mlgen", "argocd", "generate", folder="app", **variables)


RENDERERS = {
    "by-helm-3": helm_3,
    "by-helm-4": helm_4,
    "by-kustomize-prod": kustomize,
    "by-argo-cd": argo_cd,
}


@pytest.fixture(scope="module")
def started(environment, shared_namespace, tool, tmp_path_factory):
    """A namespace in which the jobs of all tools train at the same time."""
    folder = tmp_path_factory.mktemp("workshop")
    workspace = Workspace(folder, environment, shared_namespace.name, tool)
    for render in RENDERERS.values():
        shared_namespace.kubectl("apply", "-f", "-", stdin=render(workspace))
    return shared_namespace


@pytest.mark.parametrize("name", RENDERERS)
def test_a_job_trains(name, started):
    printed = started.completed(f"{name}-rank")

    assert len(printed) == 3
    (line,) = {next(line for line in lines if line.startswith("world")) for lines in printed}
    assert re.match("world 3 sum 6.0 ", line)


MANY = 24
"""The jobs with a supervisor that a release must be able to store."""


@pytest.mark.parametrize("version", ["helm3", "helm4"])
def test_a_release_stores_many_supervised_jobs(version, namespace, environment, tool, tmp_path):
    """With Helm 3.22.0, a release stores 27 of these jobs. With Helm 4.3.1, it stores 28."""
    workspace = Workspace(tmp_path, environment, namespace.name, tool)
    workspace.write("many/Chart.yaml", "apiVersion: v2\nname: many\nversion: 1.0.0\n")
    for number in range(MANY):
        workspace.write(
            f"many/templates/job-{number}.yaml", ONE_OF_MANY.replace("NUMBER", str(number))
        )
    home = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("DATA", "CONFIG", "CACHE")}
    helm, post = workspace.tool(version), ["--post-renderer", "mlgen"]
    if version == "helm4":
        workspace.run(helm, "plugin", "install", str(ROOT / "integrations/helm"), **home)
    else:
        post += ["--post-renderer-args", "helm-post-render"]
    workspace.run(helm, "install", "many", "many", "-n", namespace.name, *post, **home)

    secrets, jobs = (namespace.get(kind)["items"] for kind in ("secrets", "jobs"))

    assert ["helm.sh/release.v1"] == [item["type"] for item in secrets]
    assert MANY == sum(item["metadata"]["name"].endswith("-supervisor") for item in jobs)
