"""The real Helm 3 and Helm 4, with mlgen as their post-renderer."""

import re
import subprocess
import sys
from functools import cache

import pytest
import yaml
from support import ROOT

CHART = ROOT / "tests/tools/charts/shop"
PLUGIN = ROOT / "integrations/helm"
JOBS = ("TrainingJob", "PyTorchJob")
CALL = {
    "helm3": ["--post-renderer", "mlgen", "--post-renderer-args", "helm-post-render"],
    "helm4": ["--post-renderer", "mlgen"],
}


@pytest.fixture(scope="module", params=CALL)
def helm(request, tool, environment, tmp_path_factory):
    """Run `helm template shop CHART` with the post-renderer or without; once for the same words."""
    program, folder = tool(request.param), tmp_path_factory.mktemp(request.param)
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    env = environment | homes | {"TMPDIR": str(folder)}

    def run(*words):
        return subprocess.run(
            [program, *map(str, words)], capture_output=True, text=True, check=False, env=env
        )

    if request.param == "helm4":
        assert run("plugin", "install", PLUGIN).returncode == 0

    @cache
    def template(*words, post=(), **settings):
        given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        more = [word for argument in post or () for word in ("--post-renderer-args", argument)]
        call = [] if post is None else [*CALL[request.param], *more]
        return run("template", "shop", CHART, *words, *given, *call)

    template.run, template.name = run, request.param
    template.log = folder / "mlgen-last-error.txt"
    return template


def mlgen(text, *words):
    command = [sys.executable, "-m", "mlgen", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def objects(text):
    found = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}
    return dict(sorted(found.items()))


def sources(text):
    """By the object, the template that it is from."""
    return {
        (item["kind"], item["metadata"]["name"]): re.search("# Source: (.*)", document)[1]
        for document in text.split("---\n")[1:]
        if (item := yaml.safe_load(document))
    }


def test_jobs_are_replaced_and_nothing_else_is(helm):
    plain, done = helm(post=None), helm()

    assert (0, "") == (done.returncode, done.stderr)
    assert objects(mlgen(plain.stdout, "render", "-")) == objects(done.stdout)
    assert not {kind for kind, _ in objects(done.stdout)} & set(JOBS)
    assert "# shop: tensorflow, 3 pods. Made by mlgen.\n" in done.stdout


def test_every_object_is_from_its_jobs_template(helm):
    found = sources(helm().stdout)

    assert "shop/templates/config.yaml" == found["ConfigMap", "prices"]
    assert "shop/templates/tests/ping.yaml" == found["Pod", "ping"]
    for (_, name), source in found.items():
        if name.startswith("shop"):
            job = "pytorchjob" if name.startswith("shop-images") else "job"
            assert f"shop/templates/{job}.yaml" == source


def test_one_template_is_shown_alone(helm):
    done = helm("--show-only", "templates/job.yaml")
    whole = sources(helm().stdout)

    of_job = {key for key, source in whole.items() if source == "shop/templates/job.yaml"}
    assert of_job == objects(done.stdout).keys()
    assert {"Job", "Service", "Role"} <= {kind for kind, _ in of_job}


def test_what_helm_3_passes_on_as_it_is_stays_so(helm):
    """Helm 4 writes all YAML anew itself."""
    if helm.name == "helm4":
        assert "# Prices   in cents\napiVersion: v1\n" in helm().stdout
        return
    text = (
        '# Prices   in cents\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name: "prices",\n  la'
    )
    assert text in helm().stdout


def test_arguments_reach_mlgen(helm):
    done = helm(post=("--no-supervisor", "--set", "spec.image=other:1", "--namespace=vision"))
    found = objects(done.stdout)

    assert ("Job", "shop-supervisor") in objects(helm().stdout)
    assert ("Job", "shop-supervisor") not in found
    assert "vision" == found["Job", "shop-chief"]["metadata"]["namespace"]
    (main,) = found["Job", "shop-chief"]["spec"]["template"]["spec"]["containers"]
    assert "other:1" == main["image"]


LINE = 'shop/templates/job.yaml:12:5: spec.roles.wroker: unknown role "wroker"'


def test_a_problem_is_seen_with_its_place(helm):
    done = helm(role="wroker")

    assert (1, "") == (done.returncode, done.stdout)
    assert LINE in done.stderr
    if helm.name == "helm4":
        assert done.stderr.startswith(helm.log.read_text())
    else:
        assert not helm.log.exists()


def test_a_wrong_argument_is_seen(helm):
    done = helm(post=("--kube-version", "1.10"))

    assert (1, "") == (done.returncode, done.stdout)
    assert "expected a version from 1.31" in done.stderr


def test_a_chart_that_renders_nothing_is_an_error(helm):
    done = helm(enabled="false")

    assert (1, "") == (done.returncode, done.stdout)
    assert "the chart renders no manifests" in done.stderr


def test_a_job_as_a_hook(helm):
    """Helm 3 does not hand hooks over; those of Helm 4 would wait for each other for ever."""
    done = helm(hook="true")

    if helm.name == "helm3":
        assert "kind: TrainingJob" in done.stdout
    else:
        assert (1, "") == (done.returncode, done.stdout)
        assert "Helm waits for Job shop-chief" in done.stderr


def test_what_goes_wrong_can_be_looked_at_without_helm(helm):
    by_hand = mlgen(helm(post=None).stdout, "helm-post-render")

    assert objects(helm().stdout) == objects(by_hand)
    assert sources(helm().stdout) == sources(by_hand)


def test_the_plugin_is_listed_and_removed(helm):
    if helm.name == "helm3":
        pytest.skip("Helm 3 has no plugins that are post-renderers")
    listed = helm.run("plugin", "list").stdout

    assert re.search(r"^mlgen\s+\d+\.\d+\.\d+\s+postrenderer/v1\s+v1", listed, re.MULTILINE)
    assert 0 == helm.run("plugin", "uninstall", "mlgen").returncode
    assert "mlgen" not in helm.run("plugin", "list").stdout
    assert (PLUGIN / "plugin.yaml").exists()
    assert 0 == helm.run("plugin", "install", PLUGIN).returncode
