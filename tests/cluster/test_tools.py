"""What Helm, kustomize and Argo CD make of a job by mlgen is applied, and trains."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT

pytestmark = pytest.mark.cluster

PYTORCH = (Path(__file__).parent / "jobs/pytorch.yaml").read_text()


class Workshop:
    """A scratch folder in which the programs run, and find mlgen."""

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
    """Where the first rank alone decided, one that ends later could be ended before it speaks."""
    policy = "\n  successPolicy: {replicas: All}\n  roles:\n"
    return PYTORCH.replace("name: bert", f"name: {name}").replace("\n  roles:\n", policy)


def chart(shop, name):
    shop.write(f"{name}/Chart.yaml", f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    shop.write(f"{name}/templates/job.yaml", job(name))
    return ["template", "release", name, "-n", shop.namespace, "--post-renderer", "mlgen"]


def helm_3(shop):
    words = chart(shop, "by-helm-3")
    return shop.run(shop.tool("helm3"), *words, "--post-renderer-args", "helm-post-render")


def helm_4(shop):
    helm, home = shop.tool("helm4"), {}
    for kind in ("DATA", "CONFIG", "CACHE"):
        home[f"HELM_{kind}_HOME"] = str(shop.folder / kind)
    shop.run(helm, "plugin", "install", str(ROOT / "integrations/helm"), **home)
    return shop.run(helm, *chart(shop, "by-helm-4"), **home)


def kustomize(shop):
    transformer = ROOT / "integrations/kustomize/transformer.yaml"
    overlay = {
        "resources": ["../base"],
        "namePrefix": "by-",
        "nameSuffix": "-prod",
        "namespace": shop.namespace,
        "transformers": ["transformer.yaml"],
    }
    shop.write("base/job.yaml", job("kustomize"))
    shop.write("base/kustomization.yaml", "resources: [job.yaml]\n")
    shop.write("overlay/transformer.yaml", transformer.read_text())
    shop.write("overlay/kustomization.yaml", yaml.safe_dump(overlay))
    plugins = ["--enable-alpha-plugins", "--enable-exec"]
    return shop.run(shop.tool("kustomize"), "build", "overlay", *plugins)


def argo_cd(shop):
    shop.write("app/bert.mlgen.yaml", job("by-argo-cd"))
    given = {"ARGOCD_APP_NAMESPACE": shop.namespace, "KUBE_VERSION": "1.34.4"}
    return shop.run("mlgen", "argocd", "generate", folder="app", **given)


MADE_BY = {
    "by-helm-3": helm_3,
    "by-helm-4": helm_4,
    "by-kustomize-prod": kustomize,
    "by-argo-cd": argo_cd,
}


@pytest.fixture(scope="module")
def started(environment, shared_namespace, tool, tmp_path_factory):
    """A namespace in which all of these train at once."""
    folder = tmp_path_factory.mktemp("workshop")
    shop = Workshop(folder, environment, shared_namespace.name, tool)
    for make in MADE_BY.values():
        shared_namespace.kubectl("apply", "-f", "-", given=make(shop))
    return shared_namespace


@pytest.mark.parametrize("name", MADE_BY)
def test_a_job_trains(name, started):
    printed = started.completed(f"{name}-rank", 240)

    assert len(printed) == 3
    (line,) = {next(line for line in lines if line.startswith("world")) for lines in printed}
    assert re.match("world 3 sum 6.0 ", line)
